//! The buffer, and the tasks that wait on either side of it.
//!
//! M1. A task that must wait joins the wait queue of its side, sets the side's bit
//!     in the word that the other side advances, and tries once more. It returns
//!     `Pending` without waking itself only if the buffer is really empty, or full,
//!     then. A later claim of the other side sees the bit; an earlier one is about
//!     to finish, and the task polls again.
//! M2. A thread that has seen the bit wakes the oldest waiter once the value, or the
//!     free slot, is there. A wake is permission to try: if another task was faster,
//!     the woken one waits again.
//! M3. A wake that is not used, because the future was dropped or had already found
//!     a value, goes to the next waiter.
//! M4. The bit is set and cleared under the lock of the wait queue, and is set while
//!     the queue is not empty.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;
use blitzen_util::shim::{MODEL, hint, thread};
use blitzen_util::wait;
use blitzen_util::wake_batch::{self, WakeBatch};

use super::bounded_ring::BoundedRing;
use super::linked_queue::LinkedQueue;
use super::{PopError, PushError, WaitSide};
use crate::channel::handle_count::HandleCount;
use crate::channel::wait_until::release_round;
use crate::wait_queue::{Outcome, WaitQueue, Waiter, WaiterStatus};

/// How often to retry while another thread is about to finish with a slot.
const SPINS: u32 = if MODEL { 1 } else { 100 };

pub(super) struct Chan<T> {
    buffer: Buffer<T>,
    receive_waiters: WaitQueue,
    send_waiters: WaitQueue,
    pub(super) senders: HandleCount,
    pub(super) receivers: HandleCount,
}

enum Buffer<T> {
    Bounded(BoundedRing<T>),
    Unbounded(LinkedQueue<T>),
}

/// The result of an attempt.
enum Attempt<R> {
    Done(R),
    /// The buffer is empty, or full.
    WouldBlock,
    /// Another thread is about to finish with the slot.
    InProgress,
}

impl<T> Chan<T> {
    #[track_caller]
    pub(super) fn bounded(capacity: usize) -> Self {
        Self::new(Buffer::Bounded(BoundedRing::new(capacity)))
    }

    pub(super) fn unbounded() -> Self {
        Self::new(Buffer::Unbounded(LinkedQueue::new()))
    }

    fn new(buffer: Buffer<T>) -> Self {
        Self {
            buffer,
            receive_waiters: WaitQueue::new(()),
            send_waiters: WaitQueue::new(()),
            senders: HandleCount::new(1),
            receivers: HandleCount::new(1),
        }
    }

    fn waiters(&self, side: WaitSide) -> &WaitQueue {
        match side {
            WaitSide::Receivers => &self.receive_waiters,
            WaitSide::Senders => &self.send_waiters,
        }
    }

    #[inline(always)]
    pub(super) fn push(&self, value: T) -> Result<(), (PushError, T)> {
        let receivers_wait = match &self.buffer {
            Buffer::Bounded(ring) => ring.push(value)?,
            Buffer::Unbounded(linked) => linked.push(value)?,
        };
        if receivers_wait {
            self.wake_one(WaitSide::Receivers); // M2
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn pop(&self) -> Result<T, PopError> {
        match &self.buffer {
            Buffer::Bounded(ring) => {
                let (value, senders_wait) = ring.pop()?;
                if senders_wait {
                    self.wake_one(WaitSide::Senders); // M2
                }
                Ok(value)
            }
            Buffer::Unbounded(linked) => linked.pop(),
        }
    }

    /// Adds a value, if there is a free slot.
    #[inline(always)]
    pub(super) fn try_send(&self, value: T) -> Result<(), (PushError, T)> {
        match self.push(value) {
            Err((PushError::Emptying, value)) => self.send_spinning(value),
            pushed => pushed,
        }
    }

    /// Takes a value, if one has been sent.
    #[inline(always)]
    pub(super) fn try_recv(&self) -> Result<T, PopError> {
        match self.pop() {
            Err(PopError::Filling) => self.recv_spinning(),
            popped => popped,
        }
    }

    /// A receiver is about to empty the next slot, and later slots may be free
    /// already. It needs a few instructions more, unless it was preempted.
    #[cold]
    fn send_spinning(&self, mut value: T) -> Result<(), (PushError, T)> {
        let mut spins = 0;
        loop {
            match self.push(value) {
                Err((PushError::Emptying, unsent)) => value = unsent,
                pushed => return pushed,
            }
            spin_or_yield(&mut spins);
        }
    }

    /// As `send_spinning`, for a sender that is about to fill the next slot.
    #[cold]
    fn recv_spinning(&self) -> Result<T, PopError> {
        let mut spins = 0;
        loop {
            match self.pop() {
                Err(PopError::Filling) => {}
                popped => return popped,
            }
            spin_or_yield(&mut spins);
        }
    }

    pub(super) fn poll_recv(
        &self,
        waiter: Pin<&AttemptWaiter<'_, T>>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<T>> {
        let spent = ready!(coop::poll_proceed(cx));
        let received = waiter.poll(cx, || match self.pop() {
            Ok(value) => Attempt::Done(Some(value)),
            Err(PopError::Closed) => Attempt::Done(None),
            Err(PopError::Empty) => Attempt::WouldBlock,
            Err(PopError::Filling) => Attempt::InProgress,
        });
        if received.is_ready() {
            spent.made_progress();
        }
        received
    }

    pub(super) fn poll_send(
        &self,
        waiter: Pin<&AttemptWaiter<'_, T>>,
        value: &mut Option<T>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), T>> {
        let spent = ready!(coop::poll_proceed(cx));
        let sent = waiter.poll(cx, || {
            let Some(unsent) = value.take() else {
                panic!("`send` polled after completion");
            };
            let (attempt, unsent) = match self.push(unsent) {
                Ok(()) => return Attempt::Done(Ok(())),
                Err((PushError::Closed, unsent)) => return Attempt::Done(Err(unsent)),
                Err((PushError::Full, unsent)) => (Attempt::WouldBlock, unsent),
                Err((PushError::Emptying, unsent)) => (Attempt::InProgress, unsent),
            };
            *value = Some(unsent);
            attempt
        });
        if sent.is_ready() {
            spent.made_progress();
        }
        sent
    }

    /// Wakes the oldest waiter of `side`.
    #[cold]
    #[inline(never)]
    fn wake_one(&self, side: WaitSide) {
        let mut batch = WakeBatch::new();
        let mut waiters = self.waiters(side).lock();
        waiters.settle_front(Outcome::Granted, &mut batch);
        if waiters.is_empty() {
            self.set_waiting(side, false); // M4
        }
        drop(waiters);
        batch.wake_all();
    }

    fn set_waiting(&self, side: WaitSide, waits: bool) {
        match &self.buffer {
            Buffer::Bounded(ring) => ring.set_waiting(side, waits),
            Buffer::Unbounded(linked) => linked.set_waiting(waits),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        match &self.buffer {
            Buffer::Bounded(ring) => ring.is_closed(),
            Buffer::Unbounded(linked) => linked.is_closed(),
        }
    }

    pub(super) fn capacity(&self) -> Option<usize> {
        match &self.buffer {
            Buffer::Bounded(ring) => Some(ring.capacity()),
            Buffer::Unbounded(_) => None,
        }
    }

    pub(super) fn len(&self) -> usize {
        match &self.buffer {
            Buffer::Bounded(ring) => ring.len(),
            Buffer::Unbounded(linked) => linked.len(),
        }
    }

    /// Refuses values from now on; true if it did not before.
    pub(super) fn close(&self) -> bool {
        let closed = match &self.buffer {
            Buffer::Bounded(ring) => ring.close(),
            Buffer::Unbounded(linked) => linked.close(),
        };
        if closed {
            // A task that joins a queue after this finds the channel closed.
            wake_batch::in_rounds(|batch| {
                release_round(&self.send_waiters, batch)
                    || release_round(&self.receive_waiters, batch)
            });
        }
        closed
    }

    /// The last receiver was dropped: drops the values that nobody will receive, also those that
    /// a sender is about to store.
    pub(super) fn close_and_clear(&self) {
        struct DrainOnDrop<'a, T>(&'a Chan<T>);

        impl<T> Drop for DrainOnDrop<'_, T> {
            fn drop(&mut self) {
                while self.0.try_recv().is_ok() {}
            }
        }

        let drain = DrainOnDrop(self);
        self.close();
        while drain.0.try_recv().is_ok() {}
    }
}

fn spin_or_yield(spins: &mut u32) {
    match *spins < SPINS {
        true => hint::spin_loop(),
        false => thread::yield_now(),
    }
    *spins += 1;
}

/// The waiter of a future, and the wake it may have received.
pub(super) struct AttemptWaiter<'a, T> {
    chan: &'a Chan<T>,
    side: WaitSide,
    waiter: Waiter,
}

impl<'a, T> AttemptWaiter<'a, T> {
    pub(super) fn new(chan: &'a Chan<T>, side: WaitSide) -> Self {
        Self {
            chan,
            side,
            waiter: Waiter::new(),
        }
    }

    /// Tries, and waits for a wake if the attempt would block.
    fn poll<R>(
        self: Pin<&Self>,
        cx: &Context<'_>,
        mut attempt: impl FnMut() -> Attempt<R>,
    ) -> Poll<R> {
        let this = self.get_ref();
        if this.waiter.status() == WaiterStatus::Queued {
            // SAFETY: it is in this queue or has been settled.
            unsafe { this.chan.waiters(this.side).refresh(&this.waiter, cx) };
        }
        let mut spins = 0;
        loop {
            // A wake received before the attempt is used by it; one received
            // during it goes to the next waiter (M3).
            let status = this.waiter.status();
            match attempt() {
                Attempt::Done(done) => {
                    match status {
                        // Not only in `drop`: if a waker panics here, `done` is dropped. A value
                        // that is being returned while a destructor panics is leaked.
                        WaiterStatus::Queued => this.leave(),
                        // SAFETY: ours, and neither queued nor removed.
                        _ => unsafe { this.waiter.reset() },
                    }
                    return Poll::Ready(done);
                }
                Attempt::WouldBlock if status != WaiterStatus::Queued => this.enqueue(cx),
                Attempt::WouldBlock => {
                    if this.waiter.status() == WaiterStatus::Queued {
                        wait::pending_on(this.side.wait_kind(), this.chan);
                        return Poll::Pending; // M1
                    }
                }
                Attempt::InProgress if spins < SPINS => {
                    hint::spin_loop();
                    spins += 1;
                }
                Attempt::InProgress => {
                    thread::yield_now(); // perhaps the other thread was preempted
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
        }
    }

    fn enqueue(&self, cx: &Context<'_>) {
        // SAFETY: as above.
        unsafe { self.waiter.reset() };
        let waker = cx.waker().clone();
        let mut waiters = self.chan.waiters(self.side).lock();
        // SAFETY: idle, pinned, and removed by `drop`.
        unsafe { waiters.push(&self.waiter, 0, Some(waker)) };
        self.chan.set_waiting(self.side, true); // M4
    }
}

impl<T> AttemptWaiter<'_, T> {
    /// Leaves the queue, and passes a wake on that was not used (M3).
    fn leave(&self) {
        if self.waiter.status() == WaiterStatus::Queued {
            let mut waiters = self.chan.waiters(self.side).lock();
            // SAFETY: it is in this queue or has been settled.
            unsafe { waiters.remove(&self.waiter) };
            if waiters.is_empty() {
                self.chan.set_waiting(self.side, false); // M4
            }
        }
        if self.waiter.status() == WaiterStatus::Granted {
            // SAFETY: ours, and neither queued nor removed.
            unsafe { self.waiter.reset() };
            self.chan.wake_one(self.side);
        }
    }
}

impl<T> Drop for AttemptWaiter<'_, T> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use blitzen_util::shim::{AccessCheck, Arc, thread};
    use loom::future::block_on;

    use crate::channel::error::TryRecvError;
    use crate::channel::{Receiver, Sender, bounded, unbounded};

    /// Polls once, as a future that is then dropped would.
    fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
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
    fn a_dropped_receive_passes_its_wake_on() {
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
    fn an_unused_wake_goes_to_the_next_waiter() {
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
    fn a_dropped_send_passes_its_wake_on() {
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
    fn a_close_wakes_every_waiter() {
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

    /// The sender is kept: values that are left would be dropped with it.
    fn value_meets_dropped_receiver(channel: fn() -> (Sender<Arc<()>>, Receiver<Arc<()>>)) {
        loom::model(move || {
            let value = Arc::new(());
            let (tx, rx) = channel();
            let sender = thread::spawn({
                let value = value.clone();
                move || {
                    let _ = tx.try_send(value);
                    tx
                }
            });
            drop(rx);
            let _tx = sender.join().unwrap();
            assert_eq!(Arc::strong_count(&value), 1);
        });
    }

    #[test]
    fn a_value_meets_the_last_receiver_and_is_dropped() {
        value_meets_dropped_receiver(|| bounded(1));
    }

    #[test]
    fn without_a_bound_a_value_meets_the_last_receiver_and_is_dropped() {
        value_meets_dropped_receiver(unbounded);
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
    fn a_wake_before_its_value_is_stored_is_not_lost() {
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

    type Ends = (Sender<u32>, Receiver<u32>);

    /// Has a thread do something and close the channel; `is_closed` says whether that is seen.
    fn check_close(ends: Ends, is_closed: fn(&Ends) -> bool) {
        let shared = Arc::new((ends, AccessCheck::new()));
        let closer = thread::spawn({
            let shared = shared.clone();
            move || {
                shared.1.write();
                shared.0.0.close();
            }
        });
        if is_closed(&shared.0) {
            shared.1.read();
        }
        closer.join().unwrap();
    }

    #[test]
    fn whoever_sees_the_close_sees_what_came_before_it() {
        loom::model(|| check_close(bounded(1), |(_, rx)| rx.is_closed()));
        loom::model(|| check_close(unbounded(), |(_, rx)| rx.is_closed()));
    }

    #[test]
    fn a_receive_after_the_close_sees_what_came_before_it() {
        let is_closed = |(_, rx): &Ends| rx.try_recv() == Err(TryRecvError::Disconnected);
        loom::model(move || check_close(bounded(1), is_closed));
        loom::model(move || check_close(unbounded(), is_closed));
    }

    /// As the model of the blocks, with the counter of this channel.
    #[test]
    fn a_block_is_used_again_only_when_nobody_can_reach_it() {
        loom::model(|| {
            let (tx, rx) = unbounded();
            let send = |value: u32| tx.try_send(value).unwrap();
            (0..2).for_each(send);
            let sender = thread::spawn({
                let tx = tx.clone();
                move || tx.try_send(100).unwrap()
            });
            send(200);
            let mut seen: Vec<_> = std::iter::from_fn(|| rx.try_recv().ok()).collect();
            (201..203).for_each(send);
            seen.extend(std::iter::from_fn(|| rx.try_recv().ok()));
            sender.join().unwrap();
            seen.extend(std::iter::from_fn(|| rx.try_recv().ok()));
            seen.sort();
            assert_eq!(seen, [0, 1, 100, 200, 201, 202]);
        });
    }
}
