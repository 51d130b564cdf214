//! Random uses of each channel, compared step by step with a model that is too
//! simple to be wrong.

#![cfg(not(blitzen_loom))]

mod support;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

use blitzen_sync::channel::{self, broadcast, error, mpsc, oneshot, watch};
use proptest::prelude::*;
use support::{Task, task};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

fn boxed<'a, T>(future: impl Future<Output = T> + 'a) -> Task<Boxed<'a, T>> {
    let boxed: Boxed<'a, T> = Box::pin(future);
    task(boxed)
}

// mpsc, bounded

#[derive(Clone, Debug)]
enum Use {
    TrySend,
    StartSend,
    PollSend(usize),
    DropSend(usize),
    TryReserve,
    StartReserveMany(usize),
    PollReserve(usize),
    DropReserve(usize),
    SendPermit,
    DropPermit,
    TryRecv,
    RecvMany(usize),
    Close,
}

fn uses() -> impl Strategy<Value = Vec<Use>> {
    let one = prop_oneof![
        4 => Just(Use::TrySend),
        3 => Just(Use::StartSend),
        3 => (0..4_usize).prop_map(Use::PollSend),
        1 => (0..4_usize).prop_map(Use::DropSend),
        2 => Just(Use::TryReserve),
        2 => (0..4_usize).prop_map(Use::StartReserveMany),
        2 => (0..4_usize).prop_map(Use::PollReserve),
        1 => (0..4_usize).prop_map(Use::DropReserve),
        2 => Just(Use::SendPermit),
        1 => Just(Use::DropPermit),
        6 => Just(Use::TryRecv),
        1 => (0..4_usize).prop_map(Use::RecvMany),
        1 => Just(Use::Close),
    ];
    prop::collection::vec(one, 0..120)
}

/// Permits in strict order of arrival, and messages in order of sending.
#[derive(Default)]
struct Mpsc {
    capacity: usize,
    free: usize,
    /// Who waits, for how many, and how many are gathered for it.
    line: VecDeque<(usize, usize, usize)>,
    granted: Vec<(usize, usize)>,
    /// Told of the close, with what had been gathered.
    dismissed: Vec<(usize, usize)>,
    messages: VecDeque<usize>,
    closed: bool,
}

impl Mpsc {
    fn release(&mut self, count: usize) {
        self.free += count;
        while let Some((who, wants, has)) = self.line.front_mut() {
            let given = (*wants - *has).min(self.free);
            self.free -= given;
            *has += given;
            if has < wants {
                return;
            }
            self.granted.push((*who, *wants));
            self.line.pop_front();
        }
    }

    fn try_acquire(&mut self, count: usize) -> Result<(), error::TrySendError<()>> {
        if self.closed {
            return Err(error::TrySendError::Closed(()));
        }
        if count > 0 && (!self.line.is_empty() || self.free < count) {
            return Err(error::TrySendError::Full(()));
        }
        self.free -= count;
        Ok(())
    }

    /// `None` if it waits.
    fn acquire(&mut self, who: usize, count: usize) -> Option<bool> {
        match self.try_acquire(count) {
            Ok(()) => return Some(true),
            Err(error::TrySendError::Closed(())) => return Some(false),
            Err(error::TrySendError::Full(())) => {}
        }
        self.line.push_back((who, count, 0));
        self.release(0);
        None
    }

    /// `None` if it still waits.
    fn poll(&mut self, who: usize) -> Option<bool> {
        if let Some(at) = self.dismissed.iter().position(|(waiter, _)| *waiter == who) {
            let (_, held) = self.dismissed.remove(at);
            self.release(held);
            return Some(false);
        }
        let at = self.granted.iter().position(|(waiter, _)| *waiter == who)?;
        let (_, held) = self.granted.remove(at);
        if self.closed {
            self.release(held);
        }
        Some(!self.closed)
    }

    fn give_up(&mut self, who: usize) {
        let held = if let Some(at) = self.line.iter().position(|(waiter, ..)| *waiter == who) {
            self.line.remove(at).map_or(0, |(_, _, has)| has)
        } else if let Some(at) = self.granted.iter().position(|(waiter, _)| *waiter == who) {
            self.granted.remove(at).1
        } else {
            let told = self.dismissed.iter().position(|(waiter, _)| *waiter == who);
            told.map_or(0, |at| self.dismissed.remove(at).1)
        };
        self.release(held);
    }

    fn close(&mut self) {
        if !std::mem::replace(&mut self.closed, true) {
            let told = self.line.drain(..).map(|(who, _, has)| (who, has));
            self.dismissed.extend(told);
        }
    }

    fn try_recv(&mut self) -> Result<usize, error::TryRecvError> {
        match self.messages.pop_front() {
            Some(message) => {
                self.release(1);
                Ok(message)
            }
            None if self.closed && self.free == self.capacity => {
                Err(error::TryRecvError::Disconnected)
            }
            None => Err(error::TryRecvError::Empty),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mpsc_bounded_behaves_like_a_queue_of_senders_and_one_of_values(capacity in 1..4_usize, uses in uses()) {
        let (tx, mut rx) = mpsc::channel(capacity);
        let mut model = Mpsc { capacity, free: capacity, ..Mpsc::default() };
        let mut next = 0;
        let mut number = || { next += 1; next };
        let mut sends = vec![];
        let mut reserves = vec![];
        let mut permits = vec![];
        for step in uses {
            match step {
                Use::TrySend => {
                    let message = number();
                    let expected = match model.try_acquire(1) {
                        Ok(()) => { model.messages.push_back(message); Ok(()) }
                        Err(error::TrySendError::Full(())) => Err(error::TrySendError::Full(message)),
                        Err(error::TrySendError::Closed(())) => Err(error::TrySendError::Closed(message)),
                    };
                    prop_assert_eq!(tx.try_send(message), expected);
                }
                Use::StartSend if sends.len() < 4 => {
                    let message = number();
                    let mut send = boxed(tx.send(message));
                    let polled = send.poll();
                    match model.acquire(message, 1) {
                        Some(true) => {
                            model.messages.push_back(message);
                            prop_assert_eq!(polled, Poll::Ready(Ok(())));
                        }
                        Some(false) => {
                            prop_assert_eq!(polled, Poll::Ready(Err(error::SendError(message))));
                        }
                        None => {
                            prop_assert!(polled.is_pending());
                            sends.push((message, send));
                        }
                    }
                }
                Use::PollSend(at) if at < sends.len() => {
                    let (message, send) = &mut sends[at];
                    let polled = send.poll();
                    match model.poll(*message) {
                        Some(true) => {
                            model.messages.push_back(*message);
                            prop_assert_eq!(polled, Poll::Ready(Ok(())));
                        }
                        Some(false) => {
                            prop_assert_eq!(polled, Poll::Ready(Err(error::SendError(*message))));
                        }
                        None => { prop_assert!(polled.is_pending()); continue; }
                    }
                    prop_assert!(send.is_woken());
                    drop(sends.remove(at));
                }
                Use::DropSend(at) if at < sends.len() => {
                    let (message, send) = sends.remove(at);
                    drop(send);
                    model.give_up(message);
                }
                Use::TryReserve => match (tx.try_reserve(), model.try_acquire(1)) {
                    (Ok(permit), Ok(())) => permits.push(permit),
                    (Err(refused), Err(expected)) => prop_assert_eq!(refused, expected),
                    (got, expected) => prop_assert!(false, "{got:?}, not {expected:?}"),
                },
                Use::StartReserveMany(count) if reserves.len() < 4 => {
                    let who = number();
                    let mut reserve = boxed(tx.reserve_many(count));
                    let polled = reserve.poll();
                    let expected = match count > capacity {
                        true => Some(false),
                        false => model.acquire(who, count),
                    };
                    match (polled, expected) {
                        (Poll::Ready(Ok(got)), Some(true)) => permits.extend(got),
                        (Poll::Ready(Err(_)), Some(false)) => {}
                        (Poll::Pending, None) => reserves.push((who, count, reserve)),
                        (got, expected) => prop_assert!(false, "{got:?}, not {expected:?}"),
                    }
                }
                Use::PollReserve(at) if at < reserves.len() => {
                    let (who, count, reserve) = &mut reserves[at];
                    match (reserve.poll(), model.poll(*who)) {
                        (Poll::Ready(Ok(got)), Some(true)) => {
                            prop_assert_eq!(got.len(), *count);
                            permits.extend(got);
                        }
                        (Poll::Ready(Err(_)), Some(false)) => {}
                        (Poll::Pending, None) => continue,
                        (got, expected) => prop_assert!(false, "{got:?}, not {expected:?}"),
                    }
                    prop_assert!(reserve.is_woken());
                    drop(reserves.remove(at));
                }
                Use::DropReserve(at) if at < reserves.len() => {
                    let (who, _, reserve) = reserves.remove(at);
                    drop(reserve);
                    model.give_up(who);
                }
                Use::SendPermit => if let Some(permit) = permits.pop() {
                    let message = number();
                    model.messages.push_back(message);
                    permit.send(message);
                },
                Use::DropPermit => model.release(permits.pop().map_or(0, |_permit| 1)),
                Use::TryRecv => prop_assert_eq!(rx.try_recv(), model.try_recv()),
                Use::RecvMany(limit) => {
                    let mut buffer = vec![];
                    let polled = task(rx.recv_many(&mut buffer, limit)).poll();
                    let mut expected = vec![];
                    let mut end = false;
                    while expected.len() < limit {
                        match model.try_recv() {
                            Ok(message) => expected.push(message),
                            Err(why) => { end = why == error::TryRecvError::Disconnected; break; }
                        }
                    }
                    match expected.is_empty() && limit > 0 && !end {
                        true => prop_assert!(polled.is_pending()),
                        false => prop_assert_eq!(polled, Poll::Ready(expected.len())),
                    }
                    prop_assert_eq!(buffer, expected);
                }
                Use::Close => { rx.close(); model.close(); }
                _ => {}
            }
            let available = if model.line.is_empty() { model.free } else { 0 };
            prop_assert_eq!(tx.capacity(), available);
            prop_assert_eq!(rx.len(), model.messages.len());
            prop_assert_eq!(tx.is_closed(), model.closed);
        }
    }
}

// mpmc

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mpmc_behaves_like_a_queue(bound in prop::option::of(1..5_usize), uses in prop::collection::vec(0..10_u8, 0..200)) {
        let (tx, rx) = match bound {
            Some(capacity) => channel::bounded(capacity),
            None => channel::unbounded(),
        };
        let mut queue = VecDeque::new();
        let mut closed = false;
        for (number, step) in uses.into_iter().enumerate() {
            let is_full = bound == Some(queue.len());
            match step {
                0..4 => {
                    let expected = match (closed, is_full) {
                        (true, _) => Err(error::TrySendError::Closed(number)),
                        (_, true) => Err(error::TrySendError::Full(number)),
                        _ => { queue.push_back(number); Ok(()) }
                    };
                    prop_assert_eq!(tx.try_send(number), expected);
                }
                4..8 => {
                    let expected = queue.pop_front().ok_or(match closed {
                        true => error::TryRecvError::Disconnected,
                        false => error::TryRecvError::Empty,
                    });
                    prop_assert_eq!(rx.try_recv(), expected);
                }
                8 => {
                    let mut buffer = vec![];
                    let polled = task(rx.recv_many(&mut buffer, 3)).poll();
                    let expected: Vec<_> = queue.drain(..queue.len().min(3)).collect();
                    match expected.is_empty() && !closed {
                        true => prop_assert!(polled.is_pending()),
                        false => prop_assert_eq!(polled, Poll::Ready(expected.len())),
                    }
                    prop_assert_eq!(buffer, expected);
                }
                _ => if number % 7 == 0 {
                    prop_assert_eq!(rx.close(), !closed);
                    closed = true;
                }
            }
            prop_assert_eq!((tx.len(), rx.is_empty()), (queue.len(), queue.is_empty()));
            prop_assert_eq!(tx.is_full(), bound == Some(queue.len()));
            prop_assert_eq!(tx.capacity(), bound.map(|all| all - queue.len()));
        }
    }

    /// Whoever waits is woken when there is something for it, whatever the
    /// others do with their turns.
    #[test]
    fn mpmc_leaves_nobody_waiting_beside_a_value(uses in prop::collection::vec((0..6_u8, 0..4_usize), 0..120)) {
        let (tx, rx) = channel::bounded(2);
        let mut waiting: Vec<Task<Boxed<'_, Option<u32>>>> = vec![];
        let mut polled_wakes: Vec<usize> = vec![];
        for (step, at) in uses {
            match step {
                0 | 1 => drop(tx.try_send(7)),
                2 => drop(rx.try_recv()),
                3 if waiting.len() < 4 => {
                    let mut receive = boxed(rx.recv());
                    if receive.poll().is_pending() {
                        polled_wakes.push(receive.wakes());
                        waiting.push(receive);
                    }
                }
                4 if at < waiting.len() => match waiting[at].poll() {
                    Poll::Ready(_) => { drop(waiting.remove(at)); polled_wakes.remove(at); }
                    Poll::Pending => polled_wakes[at] = waiting[at].wakes(),
                },
                5 if at < waiting.len() => { drop(waiting.remove(at)); polled_wakes.remove(at); }
                _ => {}
            }
            let woken = waiting.iter().zip(&polled_wakes).filter(|(task, polled)| task.wakes() > **polled).count();
            prop_assert!(woken >= rx.len().min(waiting.len()), "{} values, {} of {} woken", rx.len(), woken, waiting.len());
        }
    }
}

// oneshot

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn oneshot_behaves_like_a_slot(uses in prop::collection::vec(0..7_u8, 0..12)) {
        let (tx, rx) = oneshot::channel::<u32>();
        let (mut tx, mut rx) = (Some(tx), Some(rx));
        let mut slot = None;
        let (mut closed, mut done) = (false, false);
        for step in uses {
            match step {
                0 => if let Some(tx) = tx.take() {
                    let expected = if closed { Err(5) } else { slot = Some(5); Ok(()) };
                    prop_assert_eq!(tx.send(5), expected);
                },
                1 => drop(tx.take()),
                2 => if let Some(rx) = &mut rx {
                    rx.close();
                    closed = true;
                },
                3 => { rx = None; closed = true; slot = None; }
                4 => if let Some(rx) = &mut rx {
                    let expected = match slot.take() {
                        Some(value) => Ok(value),
                        None if done || tx.is_none() || closed => Err(oneshot::error::TryRecvError::Closed),
                        None => Err(oneshot::error::TryRecvError::Empty),
                    };
                    prop_assert_eq!(rx.try_recv(), expected.clone());
                    if expected != Err(oneshot::error::TryRecvError::Empty) { done = true; closed = true; }
                },
                5 => if let Some(rx) = &mut rx && !done {
                    let polled = task(&mut *rx).poll();
                    match slot.take() {
                        Some(value) => prop_assert_eq!(polled, Poll::Ready(Ok(value))),
                        None if tx.is_none() || closed => prop_assert!(matches!(polled, Poll::Ready(Err(_)))),
                        None => { prop_assert!(polled.is_pending()); continue; }
                    }
                    done = true;
                    closed = true;
                },
                _ => if let Some(tx) = &mut tx {
                    prop_assert_eq!(task(tx.closed()).poll().is_ready(), closed);
                },
            }
            if let Some(rx) = &rx {
                prop_assert_eq!((rx.is_empty(), rx.is_terminated()), (slot.is_none(), done));
            }
            if let Some(tx) = &tx {
                prop_assert_eq!(tx.is_closed(), closed);
            }
        }
    }
}

// broadcast

#[derive(Clone, Debug)]
enum Cast {
    Send,
    Recv(usize),
    Subscribe,
    Drop(usize),
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn broadcast_behaves_like_a_log_with_readers(
        capacity in 1..6_usize,
        uses in prop::collection::vec(
            prop_oneof![
                4 => Just(Cast::Send),
                6 => (0..4_usize).prop_map(Cast::Recv),
                1 => Just(Cast::Subscribe),
                1 => (0..4_usize).prop_map(Cast::Drop),
            ],
            0..200,
        ),
    ) {
        let kept = capacity.next_power_of_two();
        let (tx, rx) = broadcast::channel(capacity);
        let mut log = vec![];
        let mut readers = vec![(rx, 0)];
        for step in uses {
            match step {
                Cast::Send => {
                    let value = std::sync::Arc::new(log.len());
                    match tx.send(value.clone()) {
                        Ok(count) => {
                            prop_assert_eq!(count, readers.len());
                            log.push(std::sync::Arc::downgrade(&value));
                        }
                        Err(_) => prop_assert!(readers.is_empty()),
                    }
                }
                Cast::Recv(at) if at < readers.len() => {
                    let (rx, next) = &mut readers[at];
                    let oldest = log.len().saturating_sub(kept);
                    let got = rx.try_recv().map(|value| *value);
                    if *next == log.len() {
                        prop_assert_eq!(got, Err(broadcast::error::TryRecvError::Empty));
                    } else if *next < oldest {
                        let lost = (oldest - *next) as u64;
                        prop_assert_eq!(got, Err(broadcast::error::TryRecvError::Lagged(lost)));
                        *next = oldest;
                    } else {
                        prop_assert_eq!(got, Ok(*next));
                        *next += 1;
                    }
                }
                Cast::Subscribe if readers.len() < 4 => readers.push((tx.subscribe(), log.len())),
                Cast::Drop(at) if at < readers.len() => drop(readers.swap_remove(at)),
                _ => {}
            }
            let oldest = log.len().saturating_sub(kept);
            let slowest = readers.iter().map(|(_, next)| *next).min().unwrap_or(log.len());
            let unread = slowest.max(oldest);
            prop_assert_eq!(tx.len(), log.len() - unread);
            prop_assert_eq!(tx.is_empty(), unread == log.len());
            for (rx, next) in &readers {
                prop_assert_eq!(rx.len(), log.len() - next);
            }
            // A value lives until it is overwritten or everybody has read it.
            for (position, value) in log.iter().enumerate() {
                prop_assert_eq!(value.strong_count() > 0, position >= unread, "value {}", position);
            }
        }
    }
}

// watch

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn watch_behaves_like_a_value_with_a_version(uses in prop::collection::vec((0..9_u8, 0..3_usize), 0..100)) {
        let (tx, rx) = watch::channel(0);
        let mut tx = Some(tx);
        let mut readers = vec![(rx, true)]; // whether it has seen the value
        let mut value = 0;
        for (step, at) in uses {
            match step {
                0 => if let Some(tx) = &tx {
                    value += 1;
                    tx.send_replace(value);
                    readers.iter_mut().for_each(|(_, seen)| *seen = false);
                },
                1 => if let Some(tx) = &tx {
                    let modified = tx.send_if_modified(|number| {
                        *number += 10;
                        at == 0
                    });
                    value += 10;
                    prop_assert_eq!(modified, at == 0);
                    if modified {
                        readers.iter_mut().for_each(|(_, seen)| *seen = false);
                    }
                },
                2 if at == 0 => tx = None,
                3 if at < readers.len() => {
                    let (rx, seen) = &mut readers[at];
                    let now = rx.borrow_and_update();
                    prop_assert_eq!((*now, now.has_changed()), (value, !*seen));
                    *seen = true;
                }
                4 if at < readers.len() => {
                    let (rx, seen) = &mut readers[at];
                    let polled = task(rx.changed()).poll();
                    match (*seen, tx.is_some()) {
                        (false, _) => prop_assert!(matches!(polled, Poll::Ready(Ok(())))),
                        (true, true) => prop_assert!(polled.is_pending()),
                        (true, false) => prop_assert!(matches!(polled, Poll::Ready(Err(_)))),
                    }
                    *seen = true;
                }
                5 if at < readers.len() => {
                    let (rx, seen) = &mut readers[at];
                    let mut waiting = task(rx.wait_for(|number| number % 2 == 0));
                    match (value % 2 == 0, tx.is_some()) {
                        (true, _) => prop_assert_eq!(*waiting.assert_ready().unwrap(), value),
                        (false, true) => waiting.assert_pending(),
                        (false, false) => prop_assert!(waiting.assert_ready().is_err()),
                    }
                    *seen = true;
                }
                6 if at < readers.len() => { readers[at].0.mark_changed(); readers[at].1 = false; }
                7 if at < readers.len() => { readers[at].0.mark_unchanged(); readers[at].1 = true; }
                8 => match readers.len() {
                    0..3 => if let Some(tx) = &tx { readers.push((tx.subscribe(), true)) },
                    _ => drop(readers.swap_remove(at)),
                },
                _ => {}
            }
            for (rx, seen) in &readers {
                prop_assert_eq!(*rx.borrow(), value);
                prop_assert_eq!(rx.has_changed().ok(), tx.is_some().then_some(!*seen));
            }
            if let Some(tx) = &tx {
                prop_assert_eq!(tx.receiver_count(), readers.len());
                prop_assert_eq!(task(tx.closed()).poll().is_ready(), readers.is_empty());
            }
        }
    }
}
