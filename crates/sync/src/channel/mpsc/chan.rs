//! What bounded and unbounded channels have in common: the queue, the one
//! receiver, and the count of senders.
//!
//! C1. `head` is accessed by the receiver, and after it by the destructor.
//! C2. `senders` never rises from zero: then no message can be sent any more.
//! C3. A sender publishes its message before it decrements `senders`.
//! C4. The receiver returns `Pending` without waking itself only if no message was
//!     claimed when it set its waiting bit. A later claim sees the bit and wakes it;
//!     an earlier one is about to be published, and the receiver polls again.

use std::mem;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;
use blitzen_util::pad::CacheGap;
use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::Relaxed;
use blitzen_util::shim::cell::UnsafeCell;
use blitzen_util::shim::{Arc, MODEL, hint, thread};
use blitzen_util::wait::{self, WaitKind};
use blitzen_util::wake_batch::{self, WakeBatch};

use super::error::TryRecvError;
use super::waker_cell::{WakerCell, WakerRegistration};
use crate::channel::block_list::{BlockHead, BlockList, PositionCounter};
use crate::channel::handle_count::HandleCount;
use crate::channel::wait_until::{release_round, wait_until};
use crate::wait_queue::WaitQueue;

/// How often to poll for a message that a sender is just storing.
const SPINS: u32 = if MODEL { 1 } else { 100 };

/// The state word of a channel: capacity, positions, and the waiting bit.
///
/// # Safety
/// `rx_waker` returns the same cell each time. The waiting bit is set by
/// `set_waiting` only; the thread that clears it learns so, once, from
/// `clear_waiting` or from a [`SlotClaim`].
pub(super) unsafe trait FlowControl: PositionCounter {
    /// The waker of the receiver.
    fn rx_waker(&self) -> &WakerCell;

    /// Sets the bit after the receiver has stored its waker. Returns the tail:
    /// later claims will wake the receiver.
    fn set_waiting(&self) -> usize;

    /// Returns the tail if the bit is set.
    fn waiting_tail(&self) -> Option<usize>;

    /// Clears the bit, and returns whether it was set. A receiver that sets it
    /// later sees what was done before this.
    fn clear_waiting(&self) -> bool;

    /// Wakes the receiver, if it waits.
    fn wake_receiver(&self) {
        if self.clear_waiting() {
            // SAFETY: we have cleared the bit.
            unsafe { self.rx_waker().take() }.wake();
        }
    }

    /// Whether the receiver accepts no new messages.
    fn is_closed(&self) -> bool;

    /// Whether it is closed, and no message is left at or after `head`.
    fn is_idle(&self, head: usize) -> bool;

    /// How many positions have been claimed from `head` on.
    fn len(&self, head: usize) -> usize;

    /// Gives back the capacity of messages that the receiver has taken. Returns whether a sender
    /// seems to be queued: the caller's `expects_queued` of the next time, which is only a guess.
    fn release_received(&self, count: usize, expects_queued: bool) -> bool;

    /// One round of closing: refuses new messages, and releases the senders that
    /// wait for capacity. Returns true if the batch is full and some are left.
    fn close_round(&self, batch: &mut WakeBatch) -> bool;
}

/// A claimed position, for one message.
pub(super) struct SlotClaim {
    pub(super) position: usize,
    /// The claim has cleared the waiting bit, and must wake the receiver (C4).
    pub(super) wakes_receiver: bool,
}

/// In this order: the receiver writes `head` with every message that it takes, and would take the
/// cache line of what is before the gap from the senders.
#[repr(C)]
pub(super) struct Chan<T, F: FlowControl> {
    pub(super) flow: F,
    blocks: BlockList<T>,
    senders: HandleCount,
    weak_senders: AtomicUsize,
    /// The tasks that wait for the close.
    closing: WaitQueue,
    _gap: CacheGap,
    head: UnsafeCell<BlockHead<T>>,
}

// SAFETY: a `T` is handed from one thread to another and never lent; C1.
unsafe impl<T: Send, F: FlowControl + Send + Sync> Sync for Chan<T, F> {}
// SAFETY: as above.
unsafe impl<T: Send, F: FlowControl + Send + Sync> Send for Chan<T, F> {}

pub(super) fn channel<T, F: FlowControl>(flow: F) -> (Tx<T, F>, Rx<T, F>) {
    let (blocks, head) = BlockList::new();
    let chan = Arc::new(Chan {
        flow,
        blocks,
        senders: HandleCount::new(1),
        weak_senders: AtomicUsize::new(0),
        closing: WaitQueue::new(()),
        _gap: CacheGap::new(),
        head: UnsafeCell::new(head),
    });
    let rx = Rx {
        chan: chan.clone(),
        senders_queue: false,
    };
    (Tx(chan), rx)
}

impl<T, F: FlowControl> Chan<T, F> {
    /// Stores a message, and wakes the receiver if it waits.
    ///
    /// # Safety
    /// The caller has just made the claim on `flow`.
    #[inline(always)]
    pub(super) unsafe fn send_at(&self, claim: SlotClaim, value: T) {
        // SAFETY: the caller upholds the same contract.
        unsafe { self.blocks.push(&self.flow, claim.position, value) };
        if claim.wakes_receiver {
            self.wake_claimed();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_claimed(&self) {
        // SAFETY: the claim has cleared the bit.
        unsafe { self.flow.rx_waker().take() }.wake();
    }

    pub(super) fn strong_count(&self) -> usize {
        self.senders.get() // acquires: C3
    }

    pub(super) fn weak_count(&self) -> usize {
        self.weak_senders.load(Relaxed)
    }

    /// Waits until the receiver is closed or dropped.
    pub(super) async fn closed(&self) {
        wait_until(&self.closing, || self.flow.is_closed()).await;
    }
}

impl<T, F: FlowControl> Drop for Chan<T, F> {
    fn drop(&mut self) {
        // Messages sent with permits that outlived the receiver.
        struct DrainOnDrop<'a, T, F: FlowControl>(&'a mut Chan<T, F>);

        impl<T, F: FlowControl> DrainOnDrop<'_, T, F> {
            fn pop(&mut self) -> Option<T> {
                let blocks = &self.0.blocks;
                // SAFETY: C1, nobody else is left.
                self.0
                    .head
                    .with_mut(|head| unsafe { blocks.pop::<F>(&mut *head) })
            }
        }

        impl<T, F: FlowControl> Drop for DrainOnDrop<'_, T, F> {
            fn drop(&mut self) {
                while self.pop().is_some() {}
                let blocks = &mut self.0.blocks;
                // SAFETY: C1, and the queue is empty.
                self.0
                    .head
                    .with_mut(|head| unsafe { blocks.free(&mut *head) });
            }
        }

        let mut drain = DrainOnDrop(self);
        while drain.pop().is_some() {}
    }
}

/// A counted sender.
pub(super) struct Tx<T, F: FlowControl>(Arc<Chan<T, F>>);

impl<T, F: FlowControl> Tx<T, F> {
    #[inline(always)]
    pub(super) fn chan(&self) -> &Chan<T, F> {
        &self.0
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn downgrade(&self) -> WeakTx<T, F> {
        self.0.weak_senders.fetch_add(1, Relaxed);
        WeakTx(self.0.clone())
    }
}

impl<T, F: FlowControl> Clone for Tx<T, F> {
    fn clone(&self) -> Self {
        self.0.senders.add();
        Self(self.0.clone())
    }
}

impl<T, F: FlowControl> Drop for Tx<T, F> {
    fn drop(&mut self) {
        if self.0.senders.remove() {
            self.0.flow.wake_receiver();
        }
    }
}

/// A sender that does not keep the channel open.
pub(super) struct WeakTx<T, F: FlowControl>(Arc<Chan<T, F>>);

impl<T, F: FlowControl> WeakTx<T, F> {
    pub(super) fn chan(&self) -> &Chan<T, F> {
        &self.0
    }

    pub(super) fn upgrade(&self) -> Option<Tx<T, F>> {
        (self.0.senders.add_unless_zero()).then(|| Tx(self.0.clone())) // C2
    }
}

impl<T, F: FlowControl> Clone for WeakTx<T, F> {
    fn clone(&self) -> Self {
        self.0.weak_senders.fetch_add(1, Relaxed);
        Self(self.0.clone())
    }
}

impl<T, F: FlowControl> Drop for WeakTx<T, F> {
    fn drop(&mut self) {
        self.0.weak_senders.fetch_sub(1, Relaxed);
    }
}

/// The only receiver.
pub(super) struct Rx<T, F: FlowControl> {
    chan: Arc<Chan<T, F>>,
    /// Whether a sender seemed to be queued when capacity was returned last.
    senders_queue: bool,
}

/// The result of looking at the head of the queue.
enum Received<T> {
    Value(T),
    /// Nothing now.
    Empty,
    /// Nothing ever again.
    End,
}

impl<T, F: FlowControl> Rx<T, F> {
    #[inline(always)]
    pub(super) fn chan(&self) -> &Chan<T, F> {
        &self.chan
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<T> {
        let blocks = &self.chan.blocks;
        // SAFETY: C1.
        (self.chan.head).with_mut(|head| unsafe { blocks.pop::<F>(&mut *head) })
    }

    #[inline(always)]
    fn release_received(&mut self, count: usize) {
        self.senders_queue = self.chan.flow.release_received(count, self.senders_queue);
    }

    #[inline(always)]
    fn position(&self) -> usize {
        // SAFETY: C1; `&self` is the receiver's, and no `&mut self` is about.
        self.chan.head.with(|head| unsafe { (*head).position() })
    }

    #[inline(always)]
    fn next(&mut self) -> Received<T> {
        match self.pop() {
            Some(value) => {
                self.release_received(1);
                Received::Value(value)
            }
            None => self.why_empty(),
        }
    }

    #[inline(never)]
    fn why_empty(&mut self) -> Received<T> {
        if self.chan.flow.is_idle(self.position()) {
            return Received::End;
        }
        if self.chan.strong_count() != 0 {
            return Received::Empty;
        }
        // C3: what is not there now will not come.
        match self.pop() {
            Some(value) => {
                self.release_received(1);
                Received::Value(value)
            }
            None => Received::End,
        }
    }

    #[inline(always)]
    pub(super) fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        if coop::has_unit()
            && let Some(value) = self.pop()
        {
            coop::try_spend(); // there is one: we have just looked
            self.release_received(1);
            return Poll::Ready(Some(value));
        }
        self.poll_recv_slow(cx)
    }

    #[cold]
    #[inline(never)]
    fn poll_recv_slow(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let spent = ready!(coop::poll_proceed(cx));
        let mut next = self.next();
        if let Received::Empty = next {
            next = self.recv_or_wait(cx);
        }
        let value = match next {
            Received::Value(value) => Some(value),
            Received::End => None,
            Received::Empty => {
                wait::pending_on(WaitKind::MpscReceive, &self.chan.flow);
                return Poll::Pending;
            }
        };
        spent.made_progress();
        Poll::Ready(value)
    }

    /// If there is nothing, the task will be woken.
    fn recv_or_wait(&mut self, cx: &mut Context<'_>) -> Received<T> {
        let flow = &self.chan.flow;
        let withdraw = || flow.clear_waiting();
        // SAFETY: we are the receiver.
        let waiting_since = match unsafe { flow.rx_waker().register(cx.waker(), withdraw) } {
            WakerRegistration::Stored => Some(flow.set_waiting()),
            WakerRegistration::AlreadyStored => flow.waiting_tail(),
            WakerRegistration::BeingWoken => None,
        };
        if let Some(claimed) = waiting_since {
            let next = self.next();
            let nothing_claimed = F::distance(claimed, self.position()) == 0;
            if nothing_claimed || !matches!(next, Received::Empty) {
                return next; // C4
            }
        }
        for _ in 0..SPINS {
            hint::spin_loop();
            match self.next() {
                Received::Empty => {}
                next => return next,
            }
        }
        thread::yield_now(); // perhaps the sender was preempted
        cx.waker().wake_by_ref();
        Received::Empty
    }

    pub(super) fn poll_recv_many(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut Vec<T>,
        limit: usize,
    ) -> Poll<usize> {
        if limit == 0 {
            return Poll::Ready(0);
        }
        let first = ready!(self.poll_recv(cx));
        let Some(first) = first else {
            return Poll::Ready(0);
        };
        buffer.push(first);
        let mut more = 0;
        while more + 1 < limit
            && let Some(value) = self.pop()
        {
            buffer.push(value);
            more += 1;
        }
        if more != 0 {
            self.release_received(more);
        }
        Poll::Ready(more + 1)
    }

    #[inline]
    pub(super) fn try_recv(&mut self) -> Result<T, TryRecvError> {
        match self.next() {
            Received::Value(value) => Ok(value),
            Received::End => Err(TryRecvError::Disconnected),
            Received::Empty if self.len() == 0 => Err(TryRecvError::Empty),
            Received::Empty => Ok(self.spin_for_claimed()),
        }
    }

    /// The next position has been claimed, and later ones may already have been
    /// published. Its sender needs a few instructions more, unless it was preempted.
    #[cold]
    fn spin_for_claimed(&mut self) -> T {
        let mut spins = 0;
        loop {
            if let Some(value) = self.pop() {
                self.release_received(1);
                return value;
            }
            match spins < SPINS {
                true => hint::spin_loop(),
                false => thread::yield_now(),
            }
            spins += 1;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.chan.flow.len(self.position())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.chan.flow.is_closed() || self.chan.strong_count() == 0
    }

    pub(super) fn close(&mut self) {
        if !self.chan.flow.is_closed() {
            let chan = &*self.chan;
            wake_batch::in_rounds(|batch| {
                chan.flow.close_round(batch) || release_round(&chan.closing, batch)
            });
        }
    }
}

impl<T, F: FlowControl> Drop for Rx<T, F> {
    fn drop(&mut self) {
        struct DrainOnDrop<'a, T, F: FlowControl>(&'a mut Rx<T, F>);

        impl<T, F: FlowControl> DrainOnDrop<'_, T, F> {
            /// Also a message that its sender is about to publish. What is sent with a permit
            /// after that stays until the last sender is dropped.
            fn drop_next(&mut self) -> bool {
                self.0.try_recv().is_ok()
            }
        }

        impl<T, F: FlowControl> Drop for DrainOnDrop<'_, T, F> {
            fn drop(&mut self) {
                while self.drop_next() {}
            }
        }

        let flow = &self.chan.flow;
        // Dropped last, as it runs foreign code.
        // SAFETY: we have cleared the bit.
        let _waker = (flow.clear_waiting()).then(|| unsafe { flow.rx_waker().take() });
        let mut drain = DrainOnDrop(self);
        drain.0.close();
        while drain.drop_next() {}
        mem::forget(drain);
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Wake, Waker};

    use blitzen_util::shim::{AccessCheck, Arc, thread};
    use loom::future::block_on;

    use crate::channel::mpsc::{channel, unbounded_channel};

    /// Polls once, as a future that is then dropped would.
    fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_sender_waits_for_room_and_loses_nothing() {
        loom::model(|| {
            let (tx, mut rx) = channel(1);
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
    fn permits_gathered_for_many_reach_one_or_the_other() {
        loom::model(|| {
            let (tx, mut rx) = channel::<u32>(2);
            let permit = tx.clone().try_reserve_owned().unwrap();
            let other = thread::spawn({
                let tx = tx.clone();
                move || block_on(tx.reserve_many(2)).map(|permits| permits.count())
            });
            // Given up with one permit gathered, or never in the queue.
            let _ = poll_once(pin!(tx.reserve_many(2)));
            drop(permit);
            assert_eq!(other.join().unwrap().unwrap(), 2);
            drop(tx);
            assert_eq!(block_on(rx.recv()), None);
        });
    }

    #[test]
    fn whoever_is_behind_a_sender_that_gives_up_moves_on() {
        loom::model(|| {
            let (tx, _rx) = channel::<u32>(2);
            let permit = tx.try_reserve().unwrap();
            let other = thread::spawn({
                let tx = tx.clone();
                move || block_on(tx.reserve()).is_ok()
            });
            // One is there, which this gathers, and the other waits behind it.
            let _ = poll_once(pin!(tx.reserve_many(2)));
            assert!(other.join().unwrap());
            drop(permit);
        });
    }

    #[test]
    fn a_waker_is_taken_once_however_often_it_is_left() {
        struct Nothing;

        impl Wake for Nothing {
            fn wake(self: std::sync::Arc<Self>) {}
        }

        loom::model(|| {
            let (tx, mut rx) = unbounded_channel();
            let nothing = std::sync::Arc::new(Nothing);
            let spare = [(); 4].map(|()| nothing.clone()); // should one be dropped twice
            let waker = Waker::from(nothing.clone());
            let mut cx = Context::from_waker(&waker);
            let sender = thread::spawn(move || {
                tx.send(1).unwrap();
                tx.send(2).unwrap();
            });
            let mut got = 0;
            for _ in 0..3 {
                if let Poll::Ready(value) = rx.poll_recv(&mut cx) {
                    got += value.unwrap_or(0); // none after the end
                }
            }
            sender.join().unwrap();
            while let Ok(value) = rx.try_recv() {
                got += value;
            }
            assert_eq!(got, 3);
            drop((rx, waker));
            assert_eq!(std::sync::Arc::strong_count(&nothing), 1 + spare.len());
        });
    }

    #[test]
    fn queued_senders_and_a_receiver_all_make_progress() {
        loom::model(|| {
            let (tx, mut rx) = channel(1);
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
    fn a_send_dropped_after_its_grant_passes_its_capacity_on() {
        loom::model(|| {
            let (tx, mut rx) = channel(1);
            tx.try_send(1).unwrap();
            let other = tx.clone();
            let taker = thread::spawn(move || {
                let first = block_on(rx.recv());
                (first, rx)
            });
            let sender = thread::spawn(move || block_on(other.send(3)).unwrap());
            let mut sent = 0;
            {
                let mut send = pin!(tx.send(2));
                if poll_once(send.as_mut()).is_ready() {
                    sent = 2;
                }
            }
            let (first, mut rx) = taker.join().unwrap();
            drop(tx);
            let mut sum = first.unwrap();
            while let Some(value) = block_on(rx.recv()) {
                sum += value;
            }
            sender.join().unwrap();
            assert_eq!(sum, 1 + sent + 3);
        });
    }

    #[test]
    fn capacity_is_back_although_the_sender_that_was_expected_gives_up() {
        loom::model(|| {
            let (tx, mut rx) = channel(1);
            tx.try_send(1).unwrap();
            {
                let mut queued = pin!(tx.send(2));
                assert!(poll_once(queued.as_mut()).is_pending());
                assert_eq!(rx.try_recv(), Ok(1)); // it expects a sender from now on
                assert!(poll_once(queued.as_mut()).is_ready());
            }
            let other = tx.clone();
            let quitter = thread::spawn(move || {
                let mut send = pin!(other.send(3));
                poll_once(send.as_mut()).is_ready()
            });
            assert_eq!(rx.try_recv(), Ok(2));
            if quitter.join().unwrap() {
                assert_eq!(rx.try_recv(), Ok(3));
            }
            assert!(tx.try_send(4).is_ok());
        });
    }

    #[test]
    fn a_closed_channel_ends_when_the_last_permit_is_back() {
        loom::model(|| {
            let (tx, mut rx) = channel::<u32>(1);
            let permit = tx.clone().try_reserve_owned().unwrap();
            rx.close();
            let holder = thread::spawn(move || drop(permit));
            assert_eq!(block_on(rx.recv()), None);
            holder.join().unwrap();
            drop(tx);
        });
    }

    #[test]
    fn a_message_meets_a_close_and_is_received_or_given_back() {
        loom::model(|| {
            let (tx, mut rx) = channel(1);
            let sender = thread::spawn(move || block_on(tx.send(5)).is_ok());
            rx.close();
            let received = block_on(rx.recv());
            assert_eq!(received.is_some(), sender.join().unwrap());
        });
    }

    #[test]
    fn a_close_wakes_a_waiting_sender() {
        loom::model(|| {
            let (tx, rx) = channel(1);
            tx.try_send(1).unwrap();
            let sender = thread::spawn(move || block_on(tx.send(2)).is_err());
            drop(rx);
            assert!(sender.join().unwrap());
        });
    }

    #[test]
    fn a_close_wakes_every_waiter() {
        loom::model(|| {
            let (tx, rx) = channel::<u32>(1);
            let waiting = thread::spawn(move || {
                {
                    let _ = poll_once(pin!(tx.closed()));
                }
                block_on(tx.closed());
            });
            drop(rx);
            waiting.join().unwrap();
        });
    }

    #[test]
    fn what_is_sent_without_a_bound_is_received_until_the_end() {
        loom::model(|| {
            let (tx, mut rx) = unbounded_channel();
            let senders = [1, 2].map(|value| {
                let tx = tx.clone();
                thread::spawn(move || tx.send(value).unwrap())
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
    fn without_a_bound_a_message_meets_a_close() {
        loom::model(|| {
            let (tx, mut rx) = unbounded_channel();
            let sender = thread::spawn(move || tx.send(5).is_ok());
            rx.close();
            let received = block_on(rx.recv());
            assert_eq!(received.is_some(), sender.join().unwrap());
        });
    }

    /// The sender is kept: messages that are left would be dropped with it.
    fn message_meets_dropped_receiver<S: Send + 'static, R: 'static>(
        channel: fn() -> (S, R),
        send: fn(&S, Arc<()>),
    ) {
        loom::model(move || {
            let message = Arc::new(());
            let (tx, rx) = channel();
            let sender = thread::spawn({
                let message = message.clone();
                move || {
                    send(&tx, message);
                    tx
                }
            });
            drop(rx);
            let _tx = sender.join().unwrap();
            assert_eq!(Arc::strong_count(&message), 1);
        });
    }

    #[test]
    fn a_message_meets_a_dropped_receiver_and_is_dropped() {
        message_meets_dropped_receiver(|| channel(1), |tx, message| drop(tx.try_send(message)));
    }

    #[test]
    fn without_a_bound_a_message_meets_a_dropped_receiver_and_is_dropped() {
        message_meets_dropped_receiver(unbounded_channel, |tx, message| drop(tx.send(message)));
    }

    #[test]
    fn try_recv_finds_what_has_been_sent_behind_a_slow_sender() {
        loom::model(|| {
            let (tx, mut rx) = unbounded_channel();
            let slow = thread::spawn({
                let tx = tx.clone();
                move || tx.send(1).unwrap()
            });
            tx.send(2).unwrap();
            assert!(rx.try_recv().is_ok(), "the second has been sent");
            slow.join().unwrap();
        });
    }

    #[test]
    fn a_receiver_that_changes_tasks_is_woken_in_the_last() {
        loom::model(|| {
            let (tx, mut rx) = unbounded_channel();
            let sender = thread::spawn(move || {
                tx.send(1).unwrap();
                tx.send(2).unwrap();
            });
            let polled = poll_once(pin!(rx.recv()));
            let first = match polled {
                Poll::Ready(value) => value,
                Poll::Pending => block_on(rx.recv()),
            };
            assert_eq!((first, block_on(rx.recv())), (Some(1), Some(2)));
            sender.join().unwrap();
        });
    }

    #[test]
    fn whoever_sees_the_close_sees_what_the_receiver_did() {
        fn check<T: Send + 'static>(tx: T, is_closed: fn(&T) -> bool, close: impl FnOnce()) {
            let done = Arc::new(AccessCheck::new());
            let sender = thread::spawn({
                let done = done.clone();
                move || {
                    if is_closed(&tx) {
                        done.read();
                    }
                }
            });
            done.write();
            close();
            sender.join().unwrap();
        }

        loom::model(|| {
            let (tx, mut rx) = channel::<u32>(1);
            check(tx, |tx| tx.is_closed(), || rx.close());
        });
        loom::model(|| {
            let (tx, mut rx) = channel::<u32>(1);
            check(tx, |tx| tx.try_send(1).is_err(), || rx.close());
        });
        loom::model(|| {
            let (tx, mut rx) = unbounded_channel::<u32>();
            check(tx, |tx| tx.is_closed(), || rx.close());
        });
        loom::model(|| {
            let (tx, mut rx) = unbounded_channel::<u32>();
            check(tx, |tx| tx.send(1).is_err(), || rx.close());
        });
    }

    #[test]
    fn a_sender_that_waited_for_room_sees_what_the_receiver_did() {
        loom::model(|| {
            let done = Arc::new(AccessCheck::new());
            let (tx, mut rx) = channel(1);
            tx.try_send(1).unwrap();
            let sender = thread::spawn({
                let done = done.clone();
                move || {
                    if tx.try_send(2).is_ok() {
                        done.read();
                    }
                }
            });
            done.write();
            assert_eq!(rx.try_recv(), Ok(1));
            sender.join().unwrap();
        });
    }

    #[test]
    fn a_sender_sees_what_the_receiver_did_that_expected_another_one() {
        loom::model(|| {
            let done = Arc::new(AccessCheck::new());
            let (tx, mut rx) = channel(1);
            tx.try_send(1).unwrap();
            {
                let mut queued = pin!(tx.send(2));
                assert!(poll_once(queued.as_mut()).is_pending());
                assert_eq!(rx.try_recv(), Ok(1)); // it expects a sender from now on
                assert!(poll_once(queued.as_mut()).is_ready());
            }
            let sender = thread::spawn({
                let done = done.clone();
                move || {
                    if tx.try_send(3).is_ok() {
                        done.read();
                    }
                }
            });
            done.write();
            assert_eq!(rx.try_recv(), Ok(2));
            sender.join().unwrap();
        });
    }

    /// As the model of the blocks, with the counters of these channels.
    fn check_blocks(
        send: impl Fn(u32) + Clone + Send + 'static,
        mut receive: impl FnMut() -> Option<u32>,
    ) {
        (0..2).for_each(&send);
        let sender = thread::spawn({
            let send = send.clone();
            move || send(100)
        });
        send(200);
        let mut seen: Vec<_> = std::iter::from_fn(&mut receive).collect();
        (201..203).for_each(&send);
        seen.extend(std::iter::from_fn(&mut receive));
        sender.join().unwrap();
        seen.extend(std::iter::from_fn(&mut receive));
        seen.sort();
        assert_eq!(seen, [0, 1, 100, 200, 201, 202]);
    }

    #[test]
    fn a_block_is_used_again_only_when_no_sender_can_reach_it() {
        loom::model(|| {
            let (tx, mut rx) = unbounded_channel();
            check_blocks(move |value| tx.send(value).unwrap(), || rx.try_recv().ok());
        });
    }

    #[test]
    fn a_block_is_used_again_only_when_no_permit_can_reach_it() {
        loom::model(|| {
            let (tx, mut rx) = channel(8);
            check_blocks(
                move |value| tx.try_reserve().unwrap().send(value),
                || rx.try_recv().ok(),
            );
        });
    }
}
