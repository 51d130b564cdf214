//! Random programs for the channels: whatever is given up or panics, every value is
//! received once, or returned, or dropped; and nobody is stranded.

#![cfg(not(blitzen_loom))]

mod support;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use blitzen_sync::channel::{self, broadcast, error::TryRecvError, mpsc, oneshot, watch};
use blitzen_util::rng::Rng;
use support::random_program::{Actor, Chances, Choices, calmly, run};

const PROGRAMS: u64 = 300;
const VALUES: usize = 8;

type MakeChoices<'a> = &'a mut dyn FnMut(&mut Rng) -> Choices;

/// What has become of the values of a program.
#[derive(Default)]
struct Books {
    created: AtomicUsize,
    dropped: Mutex<Vec<usize>>,
    /// Those of which the send has succeeded.
    sent: Mutex<Vec<usize>>,
    received: Mutex<Vec<usize>>,
}

/// A value that is recorded when it is dropped.
#[derive(Debug)]
struct Value {
    id: usize,
    books: Arc<Books>,
}

impl std::fmt::Debug for Books {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Books")
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.books.dropped.lock().unwrap().push(self.id);
    }
}

impl Books {
    fn value(self: &Arc<Self>) -> Value {
        Value {
            id: self.created.fetch_add(1, SeqCst),
            books: self.clone(),
        }
    }

    fn sent(&self, id: usize) {
        self.sent.lock().unwrap().push(id);
    }

    fn receive(&self, value: Value) {
        self.received.lock().unwrap().push(value.id);
    }

    /// `kept` says that receivers stay until the end, so that what is sent arrives.
    fn balance(&self, kept: bool) {
        let sorted = |list: &Mutex<Vec<usize>>| {
            let mut list = list.lock().unwrap().clone();
            list.sort();
            list
        };
        let all: Vec<_> = (0..self.created.load(SeqCst)).collect();
        assert_eq!(sorted(&self.dropped), all, "each value is dropped once");
        let received = sorted(&self.received);
        assert!(
            received.windows(2).all(|two| two[0] != two[1]),
            "received twice"
        );
        if kept {
            let lost: Vec<_> = (sorted(&self.sent).into_iter())
                .filter(|id| received.binary_search(id).is_err())
                .collect();
            assert!(lost.is_empty(), "sent and not received: {lost:?}");
        }
    }
}

async fn send_bounded(tx: mpsc::Sender<Value>, books: Arc<Books>, mut choices: Choices) {
    for _ in 0..VALUES {
        let value = books.value();
        let id = value.id;
        let sent = match choices.below(4) {
            0 => calmly(|| tx.try_send(value).is_ok()),
            1 => choices
                .attempt(tx.send(value))
                .await
                .map(|sent| sent.is_ok()),
            2 => match choices.attempt(tx.reserve()).await {
                Some(Ok(permit)) => {
                    choices.pause().await;
                    match choices.below(4) {
                        0 => calmly(|| drop(permit)).map(|()| false),
                        _ => calmly(|| permit.send(value)).map(|()| true),
                    }
                }
                _ => None,
            },
            _ => match choices.attempt(tx.reserve_many(2)).await {
                Some(Ok(mut permits)) => {
                    let sent = permits.next().map(|permit| calmly(|| permit.send(value)));
                    calmly(|| drop(permits));
                    sent.flatten().map(|()| true)
                }
                _ => None,
            },
        };
        if sent == Some(true) {
            books.sent(id);
        }
        choices.pause().await;
    }
    calmly(|| drop(tx));
}

#[test]
fn mpsc_loses_no_value_and_no_capacity() {
    let actors = |rng: &mut Rng, choices: MakeChoices<'_>| {
        let books = Arc::new(Books::default());
        let capacity = 2 + rng.below(3) as usize;
        let (tx, mut rx) = mpsc::channel(capacity);
        let mut actors: Vec<Actor> = Vec::new();
        for _ in 0..1 + rng.below(3) {
            actors.push(Box::pin(send_bounded(
                tx.clone(),
                books.clone(),
                choices(rng),
            )));
        }
        drop(tx);
        let closes = rng.below(4) == 0;
        let mut choices = choices(rng);
        let receiving = books.clone();
        actors.push(Box::pin(async move {
            let mut left = 2 * VALUES;
            loop {
                left = left.saturating_sub(1);
                if closes && left == 0 {
                    calmly(|| rx.close());
                }
                let mut many = Vec::new();
                match choices.below(3) {
                    0 => match calmly(|| rx.try_recv()) {
                        Some(Ok(value)) => receiving.receive(value),
                        Some(Err(TryRecvError::Disconnected)) => break,
                        Some(Err(TryRecvError::Empty)) => {}
                        None => {}
                    },
                    1 => match choices.attempt(rx.recv()).await {
                        Some(Some(value)) => receiving.receive(value),
                        Some(None) => break,
                        None => {}
                    },
                    _ => {
                        let count = choices.attempt(rx.recv_many(&mut many, 3)).await;
                        many.drain(..).for_each(|value| receiving.receive(value));
                        if count == Some(0) {
                            break;
                        }
                    }
                }
                choices.pause().await;
            }
            assert_eq!((rx.len(), rx.capacity()), (0, capacity));
        }));
        (actors, (books, closes))
    };
    run(PROGRAMS, actors, |(books, _), chances| {
        books.balance(chances.panic == 0);
    });
}

#[test]
fn mpsc_without_a_bound_loses_no_value() {
    let actors = |rng: &mut Rng, choices: MakeChoices<'_>| {
        let books = Arc::new(Books::default());
        let (tx, mut rx) = mpsc::unbounded_channel();
        let mut actors: Vec<Actor> = Vec::new();
        for _ in 0..1 + rng.below(3) {
            let (tx, books) = (tx.clone(), books.clone());
            let mut choices = choices(rng);
            actors.push(Box::pin(async move {
                for _ in 0..5 * VALUES {
                    let value = books.value();
                    let id = value.id;
                    if calmly(|| tx.send(value).is_ok()) == Some(true) {
                        books.sent(id);
                    }
                    choices.pause().await;
                }
                calmly(|| drop(tx));
            }));
        }
        drop(tx);
        let stays = rng.below(4) != 0;
        let mut choices = choices(rng);
        let receiving = books.clone();
        actors.push(Box::pin(async move {
            while stays || choices.below(20) != 0 {
                match choices.attempt(rx.recv()).await {
                    Some(Some(value)) => receiving.receive(value),
                    Some(None) => break,
                    None => {}
                }
            }
        }));
        (actors, (books, stays))
    };
    run(PROGRAMS, actors, |(books, stays), chances| {
        books.balance(stays && chances.panic == 0);
    });
}

fn mpmc_actors(bounded: bool, rng: &mut Rng, choices: MakeChoices<'_>) -> (Vec<Actor>, Arc<Books>) {
    let books = Arc::new(Books::default());
    let (tx, rx) = match bounded {
        true => channel::bounded(1 + rng.below(3) as usize),
        false => channel::unbounded(),
    };
    let mut actors: Vec<Actor> = Vec::new();
    for _ in 0..1 + rng.below(3) {
        let (tx, books) = (tx.clone(), books.clone());
        let mut choices = choices(rng);
        actors.push(Box::pin(async move {
            for _ in 0..VALUES {
                let value = books.value();
                let id = value.id;
                let sent = match choices.below(2) {
                    0 => calmly(|| tx.try_send(value).is_ok()),
                    _ => choices
                        .attempt(tx.send(value))
                        .await
                        .map(|sent| sent.is_ok()),
                };
                if sent == Some(true) {
                    books.sent(id);
                }
                if let Some(capacity) = tx.max_capacity() {
                    assert!(tx.len() <= capacity && tx.capacity() <= Some(capacity));
                }
                choices.pause().await;
            }
            calmly(|| drop(tx));
        }));
    }
    for index in 0..1 + rng.below(3) {
        let (rx, books) = (rx.clone(), books.clone());
        let mut choices = choices(rng);
        actors.push(Box::pin(async move {
            loop {
                match choices.attempt(rx.recv()).await {
                    Some(Some(value)) => books.receive(value),
                    Some(None) => break,
                    // All but one leave for good: what they were woken for goes on.
                    None if index != 0 => break,
                    None => {}
                }
                choices.pause().await;
            }
            calmly(|| drop(rx));
        }));
    }
    (actors, books)
}

fn check_mpmc(books: Arc<Books>, chances: Chances) {
    books.balance(chances.panic == 0);
}

#[test]
fn a_bounded_channel_for_many_loses_no_value() {
    run(
        PROGRAMS,
        |rng, choices| mpmc_actors(true, rng, choices),
        check_mpmc,
    );
}

#[test]
fn an_unbounded_channel_for_many_loses_no_value() {
    run(
        PROGRAMS,
        |rng, choices| mpmc_actors(false, rng, choices),
        check_mpmc,
    );
}

#[test]
fn a_oneshot_answers_once() {
    let actors = |rng: &mut Rng, choices: MakeChoices<'_>| {
        let books = Arc::new(Books::default());
        let mut actors: Vec<Actor> = Vec::new();
        for _ in 0..4 {
            let (mut tx, mut rx) = oneshot::channel();
            let (sending, receiving) = (books.clone(), books.clone());
            let (mut first, mut second) = (choices(rng), choices(rng));
            actors.push(Box::pin(async move {
                first.pause().await;
                if first.below(2) == 0 {
                    // Leaves wakers behind, which a receiver that closes wakes.
                    for _ in 0..first.below(4) {
                        if poll_once(&mut tx) {
                            break;
                        }
                        first.pause().await;
                    }
                }
                if first.below(4) == 0 {
                    calmly(|| drop(tx));
                    return;
                }
                let value = sending.value();
                let id = value.id;
                match calmly(|| tx.send(value)) {
                    Some(Ok(())) => sending.sent(id),
                    Some(Err(value)) => assert_eq!(value.id, id),
                    None => {}
                }
            }));
            let stays = rng.below(4) != 0;
            actors.push(Box::pin(async move {
                second.pause().await;
                while stays || second.below(4) != 0 {
                    match second.attempt(&mut rx).await {
                        Some(Ok(value)) => {
                            receiving.receive(value);
                            return;
                        }
                        Some(Err(_closed)) => return,
                        None => second.pause().await,
                    }
                }
                calmly(|| rx.close());
                if let Ok(value) = rx.try_recv() {
                    receiving.receive(value);
                }
            }));
        }
        (actors, books)
    };
    run(PROGRAMS, actors, |books, chances| {
        books.balance(chances.panic == 0);
    });
}

/// Whether the receiver was closed, by one poll that is given up.
fn poll_once<T>(tx: &mut oneshot::Sender<T>) -> bool {
    use std::task::{Context, Waker};
    tx.poll_closed(&mut Context::from_waker(Waker::noop()))
        .is_ready()
}

#[test]
fn a_broadcast_reaches_each_receiver_in_order() {
    let actors = |rng: &mut Rng, choices: MakeChoices<'_>| {
        let (tx, first) = broadcast::channel(1 + rng.below(4) as usize);
        let sent = Arc::new(AtomicU64::new(0));
        let mut actors: Vec<Actor> = Vec::new();
        let mut receivers = vec![first];
        receivers.extend((0..rng.below(3)).map(|_| tx.subscribe()));
        for mut rx in receivers {
            let sent = sent.clone();
            let mut choices = choices(rng);
            actors.push(Box::pin(async move {
                let mut next = 0;
                loop {
                    match choices.attempt(rx.recv()).await {
                        Some(Ok(value)) => {
                            assert_eq!(value, next, "in order, and none is missing");
                            next += 1;
                        }
                        Some(Err(broadcast::error::RecvError::Lagged(missed))) => next += missed,
                        Some(Err(broadcast::error::RecvError::Closed)) => break,
                        None => {}
                    }
                    choices.pause().await;
                }
                assert_eq!(next, sent.load(SeqCst), "received or missed");
            }));
        }
        let mut choices = choices(rng);
        actors.push(Box::pin(async move {
            for value in 0..4 * VALUES as u64 {
                sent.store(value + 1, SeqCst);
                calmly(|| tx.send(value).unwrap());
                choices.pause().await;
            }
            calmly(|| drop(tx));
        }));
        (actors, ())
    };
    run(PROGRAMS, actors, |(), _| {});
}

#[test]
fn every_watcher_sees_the_last_value() {
    let actors = |rng: &mut Rng, choices: MakeChoices<'_>| {
        let (tx, rx) = watch::channel(0);
        let mut actors: Vec<Actor> = Vec::new();
        let last = VALUES as u32 * 2;
        for _ in 0..1 + rng.below(3) {
            let mut rx = rx.clone();
            let mut choices = choices(rng);
            actors.push(Box::pin(async move {
                let mut seen = 0;
                loop {
                    let closed = match choices.below(2) {
                        0 => choices
                            .attempt(rx.changed())
                            .await
                            .is_some_and(|r| r.is_err()),
                        _ => {
                            let wanted = seen + choices.below(3);
                            let waited = choices.attempt(rx.wait_for(|now| *now >= wanted)).await;
                            waited.is_some_and(|value| value.is_err())
                        }
                    };
                    let now = *rx.borrow_and_update();
                    assert!(now >= seen, "values go forward");
                    seen = now;
                    if closed || (seen == last && rx.is_closed()) {
                        break;
                    }
                }
                assert_eq!(seen, last);
            }));
        }
        drop(rx);
        let mut choices = choices(rng);
        actors.push(Box::pin(async move {
            for value in 1..=last {
                match choices.below(2) {
                    0 => drop(calmly(|| tx.send_modify(|now| *now = value))),
                    _ => drop(calmly(|| tx.send_replace(value))),
                }
                choices.pause().await;
            }
            calmly(|| drop(tx));
        }));
        (actors, ())
    };
    run(PROGRAMS, actors, |(), _| {});
}
