//! Threads that send, receive and change their minds: every message sent is
//! received once, or left over.
//!
//! Each thread's decisions come from a seed; the scheduler adds the rest.

#![cfg(not(blitzen_loom))]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::thread;

use blitzen_sync::channel::{self, broadcast, mpsc, oneshot, watch};
use blitzen_util::rng::Rng;
use futures::executor::block_on;

const MESSAGES: usize = if cfg!(miri) { 100 } else { 50_000 };
const SEED: u64 = 0x5EED;

/// A message that knows whether it was received, dropped, or twice either.
struct Message {
    number: usize,
    fates: Arc<Fates>,
}

/// What became of each message.
struct Fates {
    received: Vec<AtomicUsize>,
    dropped: Vec<AtomicUsize>,
}

impl Fates {
    fn new(count: usize) -> Arc<Self> {
        let zeros = || (0..count).map(|_| AtomicUsize::new(0)).collect();
        Arc::new(Self {
            received: zeros(),
            dropped: zeros(),
        })
    }

    fn message(self: &Arc<Self>, number: usize) -> Message {
        Message {
            number,
            fates: self.clone(),
        }
    }

    /// Every message is gone; returns how many were received.
    #[track_caller]
    fn settle(&self) -> usize {
        for (number, dropped) in self.dropped.iter().enumerate() {
            assert_eq!(dropped.load(Relaxed), 1, "drops of message {number}");
            assert!(
                self.received[number].load(Relaxed) <= 1,
                "message {number} twice"
            );
        }
        self.received.iter().map(|count| count.load(Relaxed)).sum()
    }
}

impl Message {
    fn receive(self) -> usize {
        self.fates.received[self.number].fetch_add(1, Relaxed);
        self.number
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        self.fates.dropped[self.number].fetch_add(1, Relaxed);
    }
}

/// Polls once or twice and then gives up, or goes through with it.
fn perhaps<F: Future>(rng: &mut Rng, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let patience = rng.below(4);
    if patience == 3 {
        return Some(block_on(future));
    }
    for _ in 0..=patience {
        let mut cx = Context::from_waker(Waker::noop());
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return Some(output);
        }
        thread::yield_now();
    }
    None
}

/// The `thread`-th share of the messages.
fn share(thread: usize, threads: usize) -> impl Iterator<Item = usize> {
    (0..MESSAGES).filter(move |number| number % threads == thread)
}

fn rng(thread: usize) -> Rng {
    Rng::new(Rng::derive(SEED, thread as u64))
}

fn mpsc_bounded(capacity: usize) {
    const SENDERS: usize = 3;
    let fates = Fates::new(MESSAGES);
    let sent = Arc::new(AtomicUsize::new(0));
    let (tx, mut rx) = mpsc::channel(capacity);
    let senders: Vec<_> = (0..SENDERS)
        .map(|index| {
            let (tx, fates, sent) = (tx.clone(), fates.clone(), sent.clone());
            thread::spawn(move || {
                let mut rng = rng(index);
                for number in share(index, SENDERS) {
                    let message = fates.message(number);
                    let went = match rng.below(5) {
                        0 => tx.try_send(message).is_ok(),
                        1 => match perhaps(&mut rng, tx.reserve()) {
                            Some(permit) => {
                                permit.unwrap().send(message);
                                true
                            }
                            None => false,
                        },
                        2 => match perhaps(&mut rng, tx.reserve_many(capacity.min(2))) {
                            Some(permits) => {
                                let permit = permits.unwrap().next(); // the rest goes back
                                permit.unwrap().send(message);
                                true
                            }
                            None => false,
                        },
                        3 => perhaps(&mut rng, tx.send(message)).is_some_and(|sent| sent.is_ok()),
                        _ => block_on(tx.send(message)).is_ok(),
                    };
                    sent.fetch_add(usize::from(went), Relaxed);
                }
            })
        })
        .collect();
    drop(tx);

    let mut rng = rng(SENDERS);
    let mut received = 0;
    let mut last = [None; SENDERS];
    let mut take = |message: Message| {
        let number = message.receive();
        let from = number % SENDERS;
        assert!(last[from] < Some(number), "out of order");
        last[from] = Some(number);
        received += 1;
    };
    let mut buffer = Vec::new();
    loop {
        match rng.below(3) {
            0 => match perhaps(&mut rng, rx.recv()) {
                Some(Some(message)) => take(message),
                Some(None) => break,
                None => {}
            },
            1 => {
                // Given up, it has put nothing into the buffer.
                if perhaps(&mut rng, rx.recv_many(&mut buffer, 5)).is_none() {
                    assert!(buffer.is_empty());
                }
                buffer.drain(..).for_each(&mut take);
            }
            _ => {
                if let Ok(message) = rx.try_recv() {
                    take(message);
                }
            }
        }
    }
    senders
        .into_iter()
        .for_each(|sender| sender.join().unwrap());
    assert_eq!(rx.capacity(), capacity, "all room is back");
    drop(rx);
    assert_eq!(received, sent.load(Relaxed));
    assert_eq!(fates.settle(), received);
}

#[test]
fn mpsc_with_room_for_one() {
    mpsc_bounded(1);
}

#[test]
fn mpsc_with_some_room() {
    mpsc_bounded(7);
}

#[test]
fn mpsc_with_much_room() {
    mpsc_bounded(1000);
}

#[test]
fn mpsc_closed_on_the_way_loses_nothing() {
    for round in 0..if cfg!(miri) { 5 } else { 50 } {
        const COUNT: usize = 200;
        let fates = Fates::new(COUNT);
        let (tx, mut rx) = mpsc::channel(4);
        let senders: Vec<_> = (0..2)
            .map(|index| {
                let (tx, fates) = (tx.clone(), fates.clone());
                thread::spawn(move || {
                    let numbers = (0..COUNT).filter(|number| number % 2 == index);
                    let went = |number: &usize| block_on(tx.send(fates.message(*number))).is_ok();
                    numbers.filter(went).count()
                })
            })
            .collect();
        drop(tx);
        let mut received = 0;
        for _ in 0..round {
            received += usize::from(block_on(rx.recv()).map(Message::receive).is_some());
        }
        rx.close();
        while let Some(message) = block_on(rx.recv()) {
            message.receive();
            received += 1;
        }
        let sent: usize = senders
            .into_iter()
            .map(|sender| sender.join().unwrap())
            .sum();
        assert_eq!(received, sent);
        assert_eq!(fates.settle(), received);
    }
}

#[test]
fn mpsc_without_a_bound() {
    const SENDERS: usize = 3;
    let fates = Fates::new(MESSAGES);
    let (tx, mut rx) = mpsc::unbounded_channel();
    let senders: Vec<_> = (0..SENDERS)
        .map(|index| {
            let (tx, fates) = (tx.clone(), fates.clone());
            thread::spawn(move || {
                for number in share(index, SENDERS) {
                    tx.send(fates.message(number)).ok().unwrap();
                }
            })
        })
        .collect();
    drop(tx);
    let mut rng = rng(SENDERS);
    let mut received = 0;
    loop {
        match perhaps(&mut rng, rx.recv()) {
            Some(Some(message)) => {
                message.receive();
                received += 1;
            }
            Some(None) => break,
            None => {}
        }
    }
    senders
        .into_iter()
        .for_each(|sender| sender.join().unwrap());
    assert_eq!(received, MESSAGES);
    assert_eq!(fates.settle(), MESSAGES);
}

fn mpmc((tx, rx): (channel::Sender<Message>, channel::Receiver<Message>), fates: Arc<Fates>) {
    const SENDERS: usize = 2;
    const RECEIVERS: usize = 2;
    let senders: Vec<_> = (0..SENDERS)
        .map(|index| {
            let (tx, fates) = (tx.clone(), fates.clone());
            thread::spawn(move || {
                let mut rng = rng(index);
                let mut sent = 0;
                for number in share(index, SENDERS) {
                    let message = fates.message(number);
                    let went = match rng.below(3) {
                        0 => tx.try_send(message).is_ok(),
                        1 => perhaps(&mut rng, tx.send(message)).is_some_and(|sent| sent.is_ok()),
                        _ => block_on(tx.send(message)).is_ok(),
                    };
                    sent += usize::from(went);
                }
                sent
            })
        })
        .collect();
    let receivers: Vec<_> = (0..RECEIVERS)
        .map(|index| {
            let rx = rx.clone();
            thread::spawn(move || {
                let mut rng = rng(SENDERS + index);
                let mut received = 0;
                loop {
                    match rng.below(3) {
                        0 => received += usize::from(rx.try_recv().map(Message::receive).is_ok()),
                        1 => match perhaps(&mut rng, rx.recv()) {
                            Some(None) => return received,
                            got => {
                                received +=
                                    usize::from(got.flatten().map(Message::receive).is_some())
                            }
                        },
                        _ => match block_on(rx.recv()) {
                            Some(message) => {
                                message.receive();
                                received += 1;
                            }
                            None => return received,
                        },
                    }
                }
            })
        })
        .collect();
    drop((tx, rx));
    let sent: usize = senders
        .into_iter()
        .map(|sender| sender.join().unwrap())
        .sum();
    let received: usize = receivers
        .into_iter()
        .map(|receiver| receiver.join().unwrap())
        .sum();
    assert_eq!(received, sent);
    assert_eq!(fates.settle(), received);
}

#[test]
fn mpmc_with_room_for_one() {
    mpmc(channel::bounded(1), Fates::new(MESSAGES));
}

#[test]
fn mpmc_with_some_room() {
    mpmc(channel::bounded(5), Fates::new(MESSAGES));
}

#[test]
fn mpmc_without_a_bound() {
    mpmc(channel::unbounded(), Fates::new(MESSAGES));
}

#[test]
fn oneshots_between_threads() {
    const COUNT: usize = if cfg!(miri) { 50 } else { 5_000 };
    let fates = Fates::new(COUNT);
    let (tx, mut rx) = mpsc::unbounded_channel::<(usize, oneshot::Sender<Message>)>();
    let sender = thread::spawn({
        let fates = fates.clone();
        move || {
            let mut rng = rng(0);
            let mut sent = 0;
            while let Some((number, mut reply)) = block_on(rx.recv()) {
                if rng.below(4) == 0 {
                    let _ = reply.poll_closed(&mut Context::from_waker(Waker::noop()));
                }
                let message = fates.message(number);
                match rng.below(4) {
                    0 => drop((reply, message)),
                    _ => sent += usize::from(reply.send(message).is_ok()),
                }
            }
            sent
        }
    });
    let mut rng = rng(1);
    let mut received = 0;
    for number in 0..COUNT {
        let (reply, mut answer) = oneshot::channel();
        tx.send((number, reply)).unwrap();
        let got = match perhaps(&mut rng, &mut answer) {
            Some(got) => got.ok(),
            None => {
                answer.close();
                answer.try_recv().ok()
            }
        };
        received += usize::from(got.map(Message::receive).is_some());
    }
    drop(tx);
    assert_eq!(received, sender.join().unwrap());
    assert_eq!(fates.settle(), received);
}

#[test]
fn broadcasts_are_received_or_counted_as_lost() {
    const RECEIVERS: usize = 3;
    let (tx, rx) = broadcast::channel::<Arc<usize>>(8);
    let receivers: Vec<_> = (0..RECEIVERS)
        .map(|index| {
            let mut rx = tx.subscribe();
            thread::spawn(move || {
                let mut rng = rng(index);
                let (mut seen, mut received) = (0, 0);
                loop {
                    match perhaps(&mut rng, rx.recv()) {
                        Some(Ok(number)) => {
                            assert_eq!(*number, seen);
                            seen += 1;
                            received += 1;
                        }
                        Some(Err(broadcast::error::RecvError::Lagged(lost))) => {
                            seen += lost as usize;
                        }
                        Some(Err(broadcast::error::RecvError::Closed)) => {
                            assert_eq!(seen, MESSAGES);
                            return received;
                        }
                        None => {}
                    }
                }
            })
        })
        .collect();
    drop(rx);
    let mut values = Vec::new();
    for number in 0..MESSAGES {
        let value = Arc::new(number);
        values.push(Arc::downgrade(&value));
        tx.send(value).unwrap();
        if number % 8 == 0 {
            thread::yield_now();
        }
    }
    drop(tx);
    for receiver in receivers {
        assert!(receiver.join().unwrap() > 0);
    }
    assert!(
        values.iter().all(|value| value.strong_count() == 0),
        "nothing is left"
    );
}

#[test]
fn a_watched_number_only_grows_and_its_last_value_is_seen() {
    const RECEIVERS: usize = 3;
    let (tx, rx) = watch::channel(0);
    let receivers: Vec<_> = (0..RECEIVERS)
        .map(|index| {
            let mut rx = rx.clone();
            thread::spawn(move || {
                let mut rng = rng(index);
                let mut seen = 0;
                loop {
                    match perhaps(&mut rng, rx.changed()) {
                        Some(Ok(())) => {
                            let now = *rx.borrow_and_update();
                            assert!(now > seen);
                            seen = now;
                        }
                        Some(Err(_closed)) => return seen,
                        None => {}
                    }
                }
            })
        })
        .collect();
    drop(rx);
    for number in 1..=MESSAGES {
        tx.send(number).unwrap();
    }
    drop(tx);
    for receiver in receivers {
        assert_eq!(receiver.join().unwrap(), MESSAGES);
    }
}
