//! The queue, and those who wait on either side of it.
//!
//! M1. A value or a free slot is announced after it is there: by an operation
//!     that `fence_after_rmw` orders before the look at `waiting`. Who waits says
//!     so in `waiting`, fences, and then looks at the queue once more. One of
//!     the two sees the other:
//!
//! ```text
//!   announce:  change the queue   fence   load waiting
//!   wait:      set waiting        fence   try again
//! ```
//!
//! M2. An announcement grants a turn to whoever has waited longest. A turn is
//!     permission to try, not a value: if another was faster, one waits again.
//! M3. A turn that is not used, because its future was dropped or had found a
//!     value already, goes to the next.
//! M4. Slots may become ready out of order, so a turn may come before its value
//!     can be taken. Hence whoever takes a value and leaves more behind passes a
//!     turn on; and likewise whoever fills a slot and leaves room.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use blitzen_util::shim::atomic::{AtomicU8, AtomicUsize, fence_after_rmw};
use blitzen_util::shim::{hint, thread};
use blitzen_util::wake_batch::{self, WakeBatch};

use super::linked::Linked;
use super::ring::Ring;
use super::{Pop, Push};
use crate::queue::{Queue, Status, Waiter};

pub(super) struct Chan<T> {
    buffer: Buffer<T>,
    /// Which sides somebody waits on.
    waiting: AtomicU8,
    receiving: Queue,
    sending: Queue,
    pub(super) senders: Handles,
    pub(super) receivers: Handles,
}

#[expect(
    clippy::large_enum_variant,
    reason = "padding, and there is one a channel"
)]
enum Buffer<T> {
    Ring(Ring<T>),
    Linked(Linked<T>),
}

/// A side of the channel; the number is its bit in `waiting`.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Side {
    Receiving = 1,
    Sending = 2,
}

impl<T> Chan<T> {
    #[track_caller]
    pub(super) fn bounded(capacity: usize) -> Self {
        Self::new(Buffer::Ring(Ring::new(capacity)))
    }

    pub(super) fn unbounded() -> Self {
        Self::new(Buffer::Linked(Linked::new()))
    }

    fn new(buffer: Buffer<T>) -> Self {
        Self {
            buffer,
            waiting: AtomicU8::new(0),
            receiving: Queue::new(()),
            sending: Queue::new(()),
            senders: Handles::new(),
            receivers: Handles::new(),
        }
    }

    fn line(&self, side: Side) -> &Queue {
        match side {
            Side::Receiving => &self.receiving,
            Side::Sending => &self.sending,
        }
    }

    #[inline(always)]
    pub(super) fn try_send(&self, value: T) -> Result<(), (Push, T)> {
        match &self.buffer {
            Buffer::Ring(ring) => ring.push(value)?,
            Buffer::Linked(linked) => linked.push(value)?,
        }
        self.announce(Side::Receiving);
        Ok(())
    }

    #[inline(always)]
    fn pop(&self) -> Result<T, Pop> {
        let value = match &self.buffer {
            Buffer::Ring(ring) => ring.pop()?,
            Buffer::Linked(linked) => linked.pop()?,
        };
        self.announce(Side::Sending);
        Ok(value)
    }

    /// Takes a value, if one has been sent.
    #[inline(always)]
    pub(super) fn try_recv(&self) -> Result<T, Pop> {
        match self.pop() {
            Err(Pop::OnItsWay) => self.wait_for_claimed(),
            popped => popped,
        }
    }

    /// A sender is at work in the next slot, and ones after it may be done: it
    /// is a few instructions away, unless the sender has just lost its core.
    #[cold]
    fn wait_for_claimed(&self) -> Result<T, Pop> {
        for turn in 0_u32.. {
            match self.pop() {
                Err(Pop::OnItsWay) => {}
                popped => return popped,
            }
            match turn {
                0..100 => hint::spin_loop(),
                _ => thread::yield_now(),
            }
        }
        unreachable!("the sender ran for a while")
    }

    pub(super) fn poll_recv(
        &self,
        turn: Pin<&Turn<'_, T>>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<T>> {
        let spent = ready!(coop::poll_proceed(cx));
        let received = turn.poll(cx, || match self.pop() {
            Ok(value) => Some(Some(value)),
            Err(Pop::End) => Some(None),
            Err(Pop::Empty | Pop::OnItsWay) => None,
        });
        if received.is_ready() {
            spent.made_progress();
        }
        received
    }

    pub(super) fn poll_send(
        &self,
        turn: Pin<&Turn<'_, T>>,
        value: &mut Option<T>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), T>> {
        let spent = ready!(coop::poll_proceed(cx));
        let sent = turn.poll(cx, || {
            let Some(unsent) = value.take() else {
                panic!("`send` polled after completion");
            };
            match self.try_send(unsent) {
                Ok(()) => Some(Ok(())),
                Err((Push::Closed, unsent)) => Some(Err(unsent)),
                Err((Push::Full, unsent)) => {
                    *value = Some(unsent);
                    None
                }
            }
        });
        if sent.is_ready() {
            spent.made_progress();
        }
        sent
    }

    /// Something has been made ready for `side`.
    #[inline(always)]
    fn announce(&self, side: Side) {
        fence_after_rmw(); // M1
        let waiting = self.waiting.load(Relaxed);
        if waiting != 0 {
            self.give_turns(side, waiting);
        }
    }

    #[cold]
    #[inline(never)]
    fn give_turns(&self, side: Side, waiting: u8) {
        if waiting & side as u8 != 0 {
            self.give_turn(side); // M2
        }
        let (other, more) = match side {
            Side::Receiving => (Side::Sending, !self.is_full()),
            Side::Sending => (Side::Receiving, !self.is_empty()),
        };
        if waiting & other as u8 != 0 && more {
            self.give_turn(other); // M4
        }
    }

    fn give_turn(&self, side: Side) {
        let mut batch = WakeBatch::new();
        let mut line = self.line(side).lock();
        line.settle_front(Status::Granted, &mut batch);
        if line.is_empty() {
            // Relaxed: who sets it does so under this lock.
            self.waiting.fetch_and(!(side as u8), Relaxed);
        }
        drop(line);
        batch.wake_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        match &self.buffer {
            Buffer::Ring(ring) => ring.is_closed(),
            Buffer::Linked(linked) => linked.is_closed(),
        }
    }

    pub(super) fn capacity(&self) -> Option<usize> {
        match &self.buffer {
            Buffer::Ring(ring) => Some(ring.capacity()),
            Buffer::Linked(_) => None,
        }
    }

    pub(super) fn len(&self) -> usize {
        match &self.buffer {
            Buffer::Ring(ring) => ring.len(),
            Buffer::Linked(linked) => linked.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn is_full(&self) -> bool {
        Some(self.len()) == self.capacity()
    }

    /// Refuses values from now on; true if it did not before.
    pub(super) fn close(&self) -> bool {
        let closed = match &self.buffer {
            Buffer::Ring(ring) => ring.close(),
            Buffer::Linked(linked) => linked.close(),
        };
        if closed {
            // Whoever comes into a line after this finds the queue closed.
            for side in [Side::Sending, Side::Receiving] {
                wake_batch::in_rounds(|batch| {
                    let mut line = self.line(side).lock();
                    while !line.is_empty() && !batch.is_full() {
                        line.settle_front(Status::Dismissed, batch);
                    }
                    !line.is_empty()
                });
            }
        }
        closed
    }

    /// The last receiver is gone: so is what nobody will receive.
    pub(super) fn close_and_clear(&self) {
        struct Rest<'a, T>(&'a Chan<T>);

        impl<T> Drop for Rest<'_, T> {
            fn drop(&mut self) {
                while self.0.pop().is_ok() {}
            }
        }

        let rest = Rest(self);
        self.close();
        while rest.0.pop().is_ok() {}
    }
}

/// A future's place in line, and the turn it may have been given.
pub(super) struct Turn<'a, T> {
    chan: &'a Chan<T>,
    side: Side,
    waiter: Waiter,
}

impl<'a, T> Turn<'a, T> {
    pub(super) fn new(chan: &'a Chan<T>, side: Side) -> Self {
        Self {
            chan,
            side,
            waiter: Waiter::new(),
        }
    }

    /// Tries, and waits for a turn where that fails.
    fn poll<R>(
        self: Pin<&Self>,
        cx: &Context<'_>,
        mut attempt: impl FnMut() -> Option<R>,
    ) -> Poll<R> {
        let turn = self.get_ref();
        let mut in_line = match turn.waiter.status() {
            Status::Queued => {
                // SAFETY: it stands in this line or has been settled.
                unsafe { turn.chan.line(turn.side).refresh(&turn.waiter, cx) }
            }
            _ => false,
        };
        loop {
            if !in_line {
                // The turn, if it was one, is being used.
                turn.waiter.settle_unqueued(Status::Idle);
            }
            if let Some(done) = attempt() {
                return Poll::Ready(done);
            }
            if in_line && turn.waiter.status() == Status::Queued {
                return Poll::Pending;
            }
            if !in_line {
                turn.get_in_line(cx);
            }
            in_line = turn.waiter.status() == Status::Queued;
        }
    }

    fn get_in_line(&self, cx: &Context<'_>) {
        let waker = cx.waker().clone();
        let mut line = self.chan.line(self.side).lock();
        // SAFETY: idle, pinned, and removed by `drop`.
        unsafe { line.push(&self.waiter, 0, Some(waker)) };
        // AcqRel for nothing but the fence behind it.
        self.chan.waiting.fetch_or(self.side as u8, AcqRel);
        drop(line);
        fence_after_rmw(); // M1
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        if self.waiter.status() == Status::Queued {
            let mut line = self.chan.line(self.side).lock();
            // SAFETY: it stands in this line or has been settled.
            unsafe { line.remove(&self.waiter) };
        }
        if self.waiter.status() == Status::Granted {
            self.chan.give_turn(self.side); // M3
        }
    }
}

/// How many handles of one side keep the channel open.
pub(super) struct Handles(AtomicUsize);

impl Handles {
    fn new() -> Self {
        Self(AtomicUsize::new(1))
    }

    pub(super) fn count(&self) -> usize {
        self.0.load(Acquire)
    }

    pub(super) fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// Never from zero, which has closed the channel.
    pub(super) fn add_unless_gone(&self) -> bool {
        let mut count = self.0.load(Relaxed);
        while count != 0 {
            match (self.0).compare_exchange_weak(count, count + 1, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(changed) => count = changed,
            }
        }
        false
    }

    /// True if that was the last.
    #[must_use]
    pub(super) fn remove(&self) -> bool {
        // AcqRel: what each has done comes before the close by the last.
        self.0.fetch_sub(1, AcqRel) == 1
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use blitzen_util::shim::thread;
    use loom::future::block_on;

    use crate::channel::{bounded, unbounded};

    /// Polls once, as a future that is then dropped would.
    fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn senders_wait_for_room_and_lose_nothing() {
        loom::model(|| {
            let (tx, rx) = bounded(1);
            let senders = [1, 2].map(|value| {
                let tx = tx.clone();
                thread::spawn(move || block_on(tx.send(value)).unwrap())
            });
            drop(tx);
            let mut sum = 0;
            while let Some(value) = block_on(rx.recv()) {
                sum += value;
            }
            assert_eq!(sum, 3);
            senders
                .into_iter()
                .for_each(|sender| sender.join().unwrap());
        });
    }

    #[test]
    fn two_receivers_get_a_value_each() {
        loom::model(|| {
            let (tx, rx) = bounded(2);
            let receiver = thread::spawn({
                let rx = rx.clone();
                move || block_on(rx.recv()).unwrap()
            });
            let sender = thread::spawn(move || {
                tx.try_send(1).unwrap();
                tx.try_send(2).unwrap();
                tx // stays open: nobody is saved by the close
            });
            let sum = block_on(rx.recv()).unwrap() + receiver.join().unwrap();
            assert_eq!(sum, 3);
            sender.join().unwrap();
        });
    }

    #[test]
    fn a_receive_given_up_passes_its_turn_on() {
        loom::model(|| {
            let (tx, rx) = bounded(1);
            let sender = thread::spawn(move || {
                tx.try_send(1).unwrap();
                tx
            });
            let other = thread::spawn({
                let rx = rx.clone();
                move || poll_once(rx.recv()).is_ready()
            });
            let polled = poll_once(rx.recv()).is_ready();
            let taken = other.join().unwrap();
            if !taken && !polled {
                assert_eq!(block_on(rx.recv()), Some(1));
            }
            assert!(!(taken && polled));
            sender.join().unwrap();
        });
    }

    #[test]
    fn a_turn_dropped_unused_reaches_who_waits_behind() {
        loom::model(|| {
            let (tx, rx) = bounded(1);
            let waiting = thread::spawn({
                let rx = rx.clone();
                move || block_on(rx.recv())
            });
            let first = poll_once(rx.recv());
            let sender = thread::spawn(move || {
                tx.try_send(1).unwrap();
                tx
            });
            if first.is_pending() {
                assert_eq!(waiting.join().unwrap(), Some(1));
            }
            drop(sender.join().unwrap());
        });
    }

    #[test]
    fn a_send_given_up_passes_its_turn_on() {
        loom::model(|| {
            let (tx, rx) = bounded(1);
            tx.try_send(1).unwrap();
            let waiting = thread::spawn({
                let tx = tx.clone();
                move || block_on(tx.send(2)).unwrap()
            });
            let receiver = thread::spawn({
                let rx = rx.clone();
                move || block_on(rx.recv()).unwrap()
            });
            let sent = poll_once(tx.send(3)).is_ready();
            let mut sum = receiver.join().unwrap();
            if sent {
                sum += block_on(rx.recv()).unwrap() - 3;
            }
            waiting.join().unwrap();
            sum += block_on(rx.recv()).unwrap();
            assert_eq!(sum, 1 + 2);
        });
    }

    #[test]
    fn everybody_hears_of_the_close() {
        loom::model(|| {
            let (tx, rx) = bounded::<u32>(1);
            let receiver = thread::spawn(move || block_on(rx.recv()));
            tx.close();
            assert_eq!(receiver.join().unwrap(), None);
        });
    }

    #[test]
    fn a_value_meets_a_close_and_is_received_or_given_back() {
        loom::model(|| {
            let (tx, rx) = bounded(1);
            let sender = thread::spawn(move || block_on(tx.send(1)).is_ok());
            rx.close();
            let received = block_on(rx.recv());
            assert_eq!(received.is_some(), sender.join().unwrap());
        });
    }

    #[test]
    fn without_a_bound_two_receivers_get_a_value_each() {
        loom::model(|| {
            let (tx, rx) = unbounded();
            let receiver = thread::spawn({
                let rx = rx.clone();
                move || block_on(rx.recv()).unwrap()
            });
            let sender = thread::spawn(move || {
                tx.try_send(1).unwrap();
                tx.try_send(2).unwrap();
                tx
            });
            let sum = block_on(rx.recv()).unwrap() + receiver.join().unwrap();
            assert_eq!(sum, 3);
            sender.join().unwrap();
        });
    }

    #[test]
    fn a_turn_that_comes_before_its_value_is_made_up_for() {
        loom::model(|| {
            let (tx, rx) = bounded(2);
            let sender = thread::spawn({
                let tx = tx.clone();
                move || tx.try_send(1).unwrap()
            });
            let receiver = thread::spawn({
                let rx = rx.clone();
                move || block_on(rx.recv()).unwrap()
            });
            tx.try_send(2).unwrap();
            let sum = block_on(rx.recv()).unwrap() + receiver.join().unwrap();
            assert_eq!(sum, 3);
            sender.join().unwrap();
        });
    }
}
