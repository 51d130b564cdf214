//! The queue, and those who wait on either side of it.
//!
//! M1. Who waits stands in the line of its side, sets the side's bit in the
//!     word that the other side moves on, and then tries once more. It sleeps
//!     only if the queue really is empty, or full, by then. A value or a place
//!     claimed later is claimed by somebody who has seen the bit; one claimed
//!     before is there in an instant, for which the task comes back.
//! M2. Whoever has seen the bit gives a turn to whoever has waited longest, once
//!     the value or the place is there. A turn is permission to try: if another
//!     was faster, one waits again.
//! M3. A turn that is not used, because its future was dropped or had found a
//!     value already, goes to the next.
//! M4. The bit is set and cleared under the lock of the line, and is set while
//!     somebody stands there.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;
use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use blitzen_util::shim::{MODEL, hint, thread};
use blitzen_util::wake_batch::{self, WakeBatch};

use super::linked::Linked;
use super::ring::Ring;
use super::{Pop, Push, Side};
use crate::queue::{Queue, Status, Waiter};

/// How often to look again for what another thread is just about to finish.
const SPINS: u32 = if MODEL { 1 } else { 100 };

pub(super) struct Chan<T> {
    buffer: Buffer<T>,
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

/// How a try went.
enum Tried<R> {
    Done(R),
    /// There is nothing to be had.
    InVain,
    /// Somebody is just about to finish.
    TooSoon,
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
    pub(super) fn push(&self, value: T) -> Result<(), (Push, T)> {
        let receivers_wait = match &self.buffer {
            Buffer::Ring(ring) => ring.push(value)?,
            Buffer::Linked(linked) => linked.push(value)?,
        };
        if receivers_wait {
            self.give_turn(Side::Receiving); // M2
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn pop(&self) -> Result<T, Pop> {
        match &self.buffer {
            Buffer::Ring(ring) => {
                let (value, senders_wait) = ring.pop()?;
                if senders_wait {
                    self.give_turn(Side::Sending); // M2
                }
                Ok(value)
            }
            Buffer::Linked(linked) => linked.pop(),
        }
    }

    /// Adds a value, if there is room.
    #[inline(always)]
    pub(super) fn try_send(&self, value: T) -> Result<(), (Push, T)> {
        match self.push(value) {
            Err((Push::Emptying, value)) => self.send_soon(value),
            pushed => pushed,
        }
    }

    /// Takes a value, if one has been sent.
    #[inline(always)]
    pub(super) fn try_recv(&self) -> Result<T, Pop> {
        match self.pop() {
            Err(Pop::Filling) => self.recv_soon(),
            popped => popped,
        }
    }

    /// A receiver is at work in the next slot, and ones after it may be done: it
    /// is a few instructions away, unless the receiver has just lost its core.
    #[cold]
    fn send_soon(&self, mut value: T) -> Result<(), (Push, T)> {
        let mut spins = 0;
        loop {
            match self.push(value) {
                Err((Push::Emptying, unsent)) => value = unsent,
                pushed => return pushed,
            }
            spin_or_yield(&mut spins);
        }
    }

    /// As `send_soon`, for a sender at work in the next slot.
    #[cold]
    fn recv_soon(&self) -> Result<T, Pop> {
        let mut spins = 0;
        loop {
            match self.pop() {
                Err(Pop::Filling) => {}
                popped => return popped,
            }
            spin_or_yield(&mut spins);
        }
    }

    pub(super) fn poll_recv(
        &self,
        turn: Pin<&Turn<'_, T>>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<T>> {
        let spent = ready!(coop::poll_proceed(cx));
        let received = turn.poll(cx, || match self.pop() {
            Ok(value) => Tried::Done(Some(value)),
            Err(Pop::End) => Tried::Done(None),
            Err(Pop::Empty) => Tried::InVain,
            Err(Pop::Filling) => Tried::TooSoon,
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
            let (tried, unsent) = match self.push(unsent) {
                Ok(()) => return Tried::Done(Ok(())),
                Err((Push::Closed, unsent)) => return Tried::Done(Err(unsent)),
                Err((Push::Full, unsent)) => (Tried::InVain, unsent),
                Err((Push::Emptying, unsent)) => (Tried::TooSoon, unsent),
            };
            *value = Some(unsent);
            tried
        });
        if sent.is_ready() {
            spent.made_progress();
        }
        sent
    }

    /// To whoever has waited longest on `side`.
    #[cold]
    #[inline(never)]
    fn give_turn(&self, side: Side) {
        let mut batch = WakeBatch::new();
        let mut line = self.line(side).lock();
        line.settle_front(Status::Granted, &mut batch);
        if line.is_empty() {
            self.set_waiting(side, false); // M4
        }
        drop(line);
        batch.wake_all();
    }

    fn set_waiting(&self, side: Side, waits: bool) {
        match &self.buffer {
            Buffer::Ring(ring) => ring.set_waiting(side, waits),
            Buffer::Linked(linked) => linked.set_waiting(waits),
        }
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

fn spin_or_yield(spins: &mut u32) {
    match *spins < SPINS {
        true => hint::spin_loop(),
        false => thread::yield_now(),
    }
    *spins += 1;
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

    /// Tries, and waits for a turn where that is in vain.
    fn poll<R>(
        self: Pin<&Self>,
        cx: &Context<'_>,
        mut attempt: impl FnMut() -> Tried<R>,
    ) -> Poll<R> {
        let turn = self.get_ref();
        if turn.waiter.status() == Status::Queued {
            // SAFETY: it stands in this line or has been settled.
            unsafe { turn.chan.line(turn.side).refresh(&turn.waiter, cx) };
        }
        let mut spins = 0;
        loop {
            // What is there before the try is used by it, or was for nothing;
            // what comes during the try goes on to the next (M3).
            let status = turn.waiter.status();
            match attempt() {
                Tried::Done(done) => {
                    if status != Status::Queued {
                        turn.waiter.settle_unqueued(Status::Idle);
                    }
                    return Poll::Ready(done);
                }
                Tried::InVain if status != Status::Queued => turn.get_in_line(cx),
                Tried::InVain => {
                    if turn.waiter.status() == Status::Queued {
                        return Poll::Pending; // M1
                    }
                }
                Tried::TooSoon if spins < SPINS => {
                    hint::spin_loop();
                    spins += 1;
                }
                Tried::TooSoon => {
                    thread::yield_now(); // perhaps the other has lost its core
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
        }
    }

    fn get_in_line(&self, cx: &Context<'_>) {
        self.waiter.settle_unqueued(Status::Idle);
        let waker = cx.waker().clone();
        let mut line = self.chan.line(self.side).lock();
        // SAFETY: idle, pinned, and removed by `drop`.
        unsafe { line.push(&self.waiter, 0, Some(waker)) };
        self.chan.set_waiting(self.side, true); // M4
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        if self.waiter.status() == Status::Queued {
            let mut line = self.chan.line(self.side).lock();
            // SAFETY: it stands in this line or has been settled.
            unsafe { line.remove(&self.waiter) };
            if line.is_empty() {
                self.chan.set_waiting(self.side, false); // M4
            }
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

    /// For three busy threads, of which two preemptions make too many cases.
    fn with_one_preemption(model: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(1);
        builder.check(model);
    }

    #[test]
    fn a_sender_waits_for_room_and_loses_nothing() {
        loom::model(|| {
            let (tx, rx) = bounded(1);
            let sender = thread::spawn(move || {
                for value in 1..=2 {
                    block_on(tx.send(value)).unwrap();
                }
            });
            for value in 1..=2 {
                assert_eq!(block_on(rx.recv()), Some(value));
            }
            sender.join().unwrap();
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
            tx.try_send(1).unwrap();
            tx.try_send(2).unwrap();
            // The channel stays open: nobody is saved by the close.
            let sum = block_on(rx.recv()).unwrap() + receiver.join().unwrap();
            assert_eq!(sum, 3);
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
        with_one_preemption(|| {
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
            tx.try_send(1).unwrap();
            tx.try_send(2).unwrap();
            let sum = block_on(rx.recv()).unwrap() + receiver.join().unwrap();
            assert_eq!(sum, 3);
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
