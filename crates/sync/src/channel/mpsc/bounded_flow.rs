//! The flow control of a bounded channel: free capacity, positions, and the
//! senders that wait for capacity.
//!
//! ```text
//!   state:  │ tail: 32 │ permits: 29 │ WAITING │ QUEUED │ CLOSED │
//! ```
//!
//! A permit is capacity for one message. `tail` counts the claimed positions, so
//! sending without waiting is one compare-and-swap: a permit less, a position more.
//!
//! F1. A permit is in the state, held by a sender, or used by a message in the
//!     channel: `limit` in all. One that is granted leaves the state before its sender is settled.
//! F2. `QUEUED` is set and cleared under the lock of `waiters`. It is set while a sender is
//!     queued and the channel is not closed. It stays set when the last one gets the last permit,
//!     since where the capacity is small, one is about to be queued again. While it is set and
//!     nobody is queued, permits in the state are those of threads that wait for the lock, and
//!     whoever has the lock before them may take such permits.
//! F3. While `QUEUED` is set, permits in the state are reserved for the front of
//!     the queue. So senders get them in the order of arrival, however many each
//!     wants.
//! F4. `CLOSED` is never cleared; from then on no permit is granted. Permits that
//!     were reserved for the front go to it, and it returns them when it learns of
//!     the close.
//! F5. `WAITING` is set by the receiver after it has stored its waker, and cleared
//!     by the thread that takes the waker: by a claim, which wakes the receiver when
//!     the message is published.
//! F6. Every change of the state is a read-modify-write, so an Acquire sees all
//!     earlier Releases.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use blitzen_util::shim::atomic::{AtomicU64, fence};
use blitzen_util::wait::{self, WaitKind};
use blitzen_util::wake_batch::{self, WakeBatch};

use super::chan::{FlowControl, SlotClaim};
use super::waker_cell::WakerCell;
use crate::channel::block_list::PositionCounter;
use crate::wait_queue::{LockedQueue, Outcome, WaitQueue, Waiter, WaiterStatus};

const CLOSED: u64 = 1;
const QUEUED: u64 = 2;
const WAITING: u64 = 4;
const PERMIT: u64 = 8;
const PERMIT_BITS: u32 = 29;
const TAIL: u64 = 1 << 32;

const _: () = assert!(PERMIT << PERMIT_BITS == TAIL);

/// The largest number of permits, whatever capacity was asked for.
const MAX_LIMIT: usize = (1 << PERMIT_BITS) - 1;

/// The receiver has closed the channel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Closed;

/// Why there are no permits.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CapacityError {
    Full,
    Closed,
}

#[derive(Clone, Copy)]
struct FlowState(u64);

impl FlowState {
    #[inline(always)]
    fn permits(self) -> usize {
        (self.0 as u32 >> PERMIT.trailing_zeros()) as usize
    }

    #[inline(always)]
    fn tail(self) -> usize {
        (self.0 / TAIL) as usize
    }

    #[inline(always)]
    fn claim(self) -> SlotClaim {
        SlotClaim {
            position: self.tail(),
            wakes_receiver: self.0 & WAITING != 0, // F5
        }
    }

    #[inline(always)]
    fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    #[inline(always)]
    fn is_queued(self) -> bool {
        self.0 & QUEUED != 0
    }

    /// Closed, and all permits are returned: no message is in the channel (F1) and
    /// none can be sent.
    #[inline(always)]
    fn is_idle(self, limit: usize) -> bool {
        self.is_closed() && self.permits() == limit
    }

    /// Whether permits may be taken without waiting (F3, F4).
    #[inline(always)]
    fn can_grant(self, count: usize) -> bool {
        self.0 & (CLOSED | QUEUED) == 0 && self.permits() >= count
    }
}

/// Returns `count` permits at their position in the word.
#[inline(always)]
fn permits(count: usize) -> u64 {
    count as u64 * PERMIT
}

/// Capacity, positions, and the queue of senders that wait for capacity.
pub(super) struct BoundedFlow {
    state: AtomicU64,
    /// The receiver's waker, woken for a message, and when a closed channel has all permits
    /// back.
    rx_waker: WakerCell,
    waiters: WaitQueue,
    /// All permits there are.
    limit: usize,
    /// What the user asked for; more than `limit` only where that is more than
    /// fits into memory.
    capacity: usize,
}

// SAFETY: positions are the upper half of the state, which claims advance.
unsafe impl PositionCounter for BoundedFlow {
    #[inline(always)]
    fn distance(position: usize, start: usize) -> usize {
        (position as u32).wrapping_sub(start as u32) as usize
    }

    #[inline(always)]
    fn has_passed(head: usize, position: usize) -> bool {
        (head as u32).wrapping_sub(position as u32) <= i32::MAX as u32
    }

    fn claimed(&self) -> usize {
        // AcqRel: Release, met by the Acquire of every claim.
        FlowState(self.state.fetch_add(0, AcqRel)).tail()
    }
}

// SAFETY: `WAITING` is set, read and cleared as the methods say.
unsafe impl FlowControl for BoundedFlow {
    #[inline(always)]
    fn rx_waker(&self) -> &WakerCell {
        &self.rx_waker
    }

    fn set_waiting(&self) -> usize {
        // AcqRel: Release, met by the Acquire of every claim: it sees the waker.
        FlowState(self.state.fetch_or(WAITING, AcqRel)).tail()
    }

    fn waiting_tail(&self) -> Option<usize> {
        let state = self.state_acquire();
        (state.0 & WAITING != 0).then(|| state.tail())
    }

    fn clear_waiting(&self) -> bool {
        // AcqRel: Acquire, met by the Release in `set_waiting`: the waker is seen.
        // Release, met by the Acquire in `is_idle`: the receiver that waits again sees what it missed.
        self.state.fetch_and(!WAITING, AcqRel) & WAITING != 0
    }

    #[inline(always)]
    fn is_closed(&self) -> bool {
        self.state_acquire().is_closed()
    }

    #[inline(always)]
    fn is_idle(&self, _head: usize) -> bool {
        self.state_acquire().is_idle(self.limit)
    }

    #[inline(always)]
    fn len(&self, head: usize) -> usize {
        Self::distance(self.state_acquire().tail(), head)
    }

    #[inline(always)]
    fn release_received(&self, count: usize, expects_queued: bool) -> bool {
        if expects_queued {
            return self.release_to_front(count);
        }
        // AcqRel: Release, met by the Acquire of the sender that gets the permits.
        let state = FlowState(self.state.fetch_add(permits(count), AcqRel));
        if state.is_queued() {
            self.grant_queued(self.waiters.lock(), 0);
        }
        state.is_queued()
    }

    fn close_round(&self, batch: &mut WakeBatch) -> bool {
        let mut waiters = self.waiters.lock();
        let mut state = self.state();
        while !state.is_closed() {
            let wanted = waiters.front().unwrap_or(0);
            let reserved = wanted.min(state.permits()); // F4
            let next = (state.0 - permits(reserved)) & !QUEUED | CLOSED;
            match self.change(state, next) {
                Err(changed) => state = changed,
                Ok(()) => {
                    waiters.retag_front(wanted - reserved);
                    break;
                }
            }
        }
        while !waiters.is_empty() {
            if batch.is_full() {
                return true;
            }
            waiters.settle_front(Outcome::Released, batch);
        }
        false
    }
}

impl BoundedFlow {
    pub(super) fn new(capacity: usize) -> Self {
        let limit = capacity.min(MAX_LIMIT);
        Self {
            state: AtomicU64::new(permits(limit)),
            rx_waker: WakerCell::new(),
            waiters: WaitQueue::new(()),
            limit,
            capacity,
        }
    }

    #[inline(always)]
    fn state(&self) -> FlowState {
        FlowState(self.state.load(Relaxed))
    }

    /// Acquire, met by the Release of every returned permit: a thread that sees
    /// capacity, or the close, sees what led to it.
    #[inline(always)]
    fn state_acquire(&self) -> FlowState {
        FlowState(self.state.load(Acquire))
    }

    /// Acquire: for permits, met by the Release in `release_received`; for positions, by the
    /// one in `claimed`; for the waker, by the one in `set_waiting`. Release for `close`,
    /// which others must see together with what was done before.
    #[inline(always)]
    fn change(&self, state: FlowState, next: u64) -> Result<(), FlowState> {
        (self.state)
            .compare_exchange_weak(state.0, next, AcqRel, Relaxed)
            .map(drop)
            .map_err(FlowState)
    }

    /// What the user asked for.
    pub(super) fn max_capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the largest number of permits.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the number of permits that can be taken now without waiting.
    pub(super) fn capacity(&self) -> usize {
        let state = self.state_acquire();
        match state.is_queued() {
            true => 0, // F3
            false => state.permits() + (self.capacity - self.limit),
        }
    }

    /// Takes a permit and spends it on a position.
    #[inline(always)]
    pub(super) fn try_claim(&self) -> Result<SlotClaim, CapacityError> {
        let mut state = self.state();
        while state.can_grant(1) {
            let next = state.0.wrapping_add(TAIL - PERMIT) & !WAITING;
            match self.change(state, next) {
                Ok(()) => return Ok(state.claim()),
                Err(changed) => state = changed,
            }
        }
        Err(capacity_error(state))
    }

    /// Spends a permit that the caller has on a position.
    #[inline(always)]
    pub(super) fn claim(&self) -> SlotClaim {
        let mut state = self.state();
        loop {
            match self.change(state, state.0.wrapping_add(TAIL) & !WAITING) {
                Ok(()) => return state.claim(),
                Err(changed) => state = changed,
            }
        }
    }

    /// Takes permits.
    #[inline(always)]
    pub(super) fn try_acquire(&self, count: usize) -> Result<(), CapacityError> {
        let mut state = self.state();
        if count == 0 && !state.is_closed() {
            return Ok(());
        }
        while state.can_grant(count) {
            match self.change(state, state.0 - permits(count)) {
                Ok(()) => return Ok(()),
                Err(changed) => state = changed,
            }
        }
        Err(capacity_error(state))
    }

    /// Takes permits, also those that nobody waits for although `QUEUED` is set (F2).
    fn acquire_locked(&self, count: usize, waiters: &LockedQueue<'_>) -> Result<(), CapacityError> {
        let mut state = self.state();
        while waiters.is_empty() && state.is_queued() && state.permits() >= count {
            match self.change(state, state.0 - permits(count)) {
                Ok(()) => return Ok(()),
                Err(changed) => state = changed,
            }
        }
        self.try_acquire(count)
    }

    /// Takes permits, waiting for them in the queue.
    pub(super) fn acquire(&self, count: usize) -> AcquireCapacity<'_> {
        AcquireCapacity {
            flow: self,
            count,
            waiter: Waiter::new(),
        }
    }

    /// Returns permits that were not used.
    pub(super) fn release(&self, count: usize) {
        if count == 0 {
            return;
        }
        self.release_received(count, false);
        if self.state_acquire().is_idle(self.limit) {
            self.wake_receiver();
        }
    }

    /// Gives back permits for which senders seem to be queued: what the front of the queue wants
    /// goes there directly, which spares the state two changes. Returns whether a sender was queued.
    #[cold]
    #[inline(never)]
    fn release_to_front(&self, count: usize) -> bool {
        let waiters = self.waiters.lock();
        if !self.state().is_queued() {
            drop(waiters);
            return self.release_received(count, false);
        }
        let was_queued = !waiters.is_empty();
        self.grant_queued(waiters, count);
        was_queued
    }

    /// Grants permits to the queue: those in the state, and `returned` ones that the caller has.
    #[cold]
    #[inline(never)]
    fn grant_queued(&self, waiters: LockedQueue<'_>, returned: usize) {
        let (mut waiters, mut returned) = (Some(waiters), returned);
        wake_batch::in_rounds(|batch| {
            let mut waiters = waiters.take().unwrap_or_else(|| self.waiters.lock());
            self.grant_round(&mut waiters, mem::take(&mut returned), batch)
        });
    }

    /// Grants permits to the senders at the front of the queue until they run out or the batch is
    /// full. Returns true if the batch is full and more can be granted.
    fn grant_round(
        &self,
        waiters: &mut LockedQueue<'_>,
        returned: usize,
        batch: &mut WakeBatch,
    ) -> bool {
        // Acquire: what those did who returned permits is handed on with the grant.
        let state = self.state_acquire();
        if !state.is_queued() {
            debug_assert_eq!(returned, 0, "the caller has seen it under the same lock");
            return false;
        }
        let available = state.permits() + returned;
        let found = waiters.satisfiable(available, batch);
        let stays = found.are_others || found.wanted == available; // F2
        let cleared = if stays { 0 } else { QUEUED };
        // F3: none of them was taken since. For permits that were added since, the thread that
        // added them waits for this lock.
        let change = permits(returned).wrapping_sub(permits(found.wanted) + cleared);
        if change != 0 {
            // AcqRel, as in `change`: for what is left of the returned ones.
            self.state.fetch_add(change, AcqRel);
        }
        // F1: only now, since a sender that is settled may return its permits at once.
        for _ in 0..found.waiters {
            waiters.settle_front(Outcome::Granted, batch);
        }
        found.are_more
    }
}

fn capacity_error(state: FlowState) -> CapacityError {
    match state.is_closed() {
        true => {
            // Acquire, met by the Release of the close: a sender that is refused sees what the
            // receiver did before.
            fence(Acquire);
            CapacityError::Closed
        }
        false => CapacityError::Full,
    }
}

/// Waits for permits.
///
/// If it is dropped before it is ready, it leaves the queue and returns permits that it was
/// granted.
pub(super) struct AcquireCapacity<'a> {
    flow: &'a BoundedFlow,
    count: usize,
    waiter: Waiter,
}

impl AcquireCapacity<'_> {
    /// How many permits a waiter of this status owns.
    fn held(&self, status: WaiterStatus) -> usize {
        match status {
            WaiterStatus::Granted | WaiterStatus::GrantedLast => self.count,
            // SAFETY: it is our waiter, and settled.
            WaiterStatus::Released => self.count - unsafe { self.waiter.tag_when_settled() }, // F4
            WaiterStatus::Idle | WaiterStatus::Queued | WaiterStatus::Removed => 0,
        }
    }

    /// Queues the waiter, or settles it if there are permits. Returns whether it is
    /// queued.
    fn enqueue(&self, cx: &Context<'_>) -> Result<bool, Closed> {
        let waker = cx.waker().clone();
        let flow = self.flow;
        let mut waiters = flow.waiters.lock();
        loop {
            match flow.acquire_locked(self.count, &waiters) {
                Ok(()) => {
                    // The waiter owns them: dropping the waker may panic.
                    // SAFETY: idle, and ours.
                    unsafe { self.waiter.settle_unqueued(Outcome::Granted) };
                    return Ok(false);
                }
                Err(CapacityError::Closed) => return Err(Closed),
                Err(CapacityError::Full) => {}
            }
            let state = flow.state();
            // A permit that comes back now makes the change fail.
            let stays = !state.is_closed() && !state.can_grant(self.count);
            if stays && (state.is_queued() || flow.change(state, state.0 | QUEUED).is_ok()) {
                // SAFETY: idle, pinned, and removed by `drop`.
                unsafe { waiters.push(&self.waiter, self.count, Some(waker)) };
                return Ok(true);
            }
        }
    }
}

impl AcquireCapacity<'_> {
    fn pending<R>(&self) -> Poll<R> {
        wait::pending_on(WaitKind::MpscSend, self.flow);
        Poll::Pending
    }
}

impl Future for AcquireCapacity<'_> {
    type Output = Result<(), Closed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let spent = ready!(coop::poll_proceed(cx));
        let this = self.into_ref().get_ref();
        let outcome = loop {
            match this.waiter.status() {
                WaiterStatus::Idle => match this.enqueue(cx) {
                    Ok(true) => return this.pending(),
                    Ok(false) => {}
                    Err(Closed) => break Err(Closed),
                },
                WaiterStatus::Queued => {
                    // SAFETY: it is in this queue or has been settled.
                    if unsafe { this.flow.waiters.refresh(&this.waiter, cx) } {
                        return this.pending();
                    }
                }
                status => {
                    let held = this.held(status);
                    // SAFETY: ours, and settled; it is removed only by `drop`.
                    unsafe { this.waiter.reset() };
                    if !this.flow.is_closed() {
                        break Ok(());
                    }
                    this.flow.release(held);
                    break Err(Closed);
                }
            }
        };
        spent.made_progress();
        Poll::Ready(outcome)
    }
}

impl Drop for AcquireCapacity<'_> {
    fn drop(&mut self) {
        if self.waiter.status() == WaiterStatus::Queued {
            let mut left = false;
            wake_batch::in_rounds(|batch| {
                let mut waiters = self.flow.waiters.lock();
                if !left {
                    // SAFETY: it is in this queue or has been settled.
                    left = unsafe { waiters.remove(&self.waiter) }.is_some();
                    if left && waiters.is_empty() {
                        // F2: the reserved permits are free again. Relaxed: it continues
                        // the release sequences of those who returned them.
                        self.flow.state.fetch_and(!QUEUED, Relaxed);
                    }
                }
                // The new front may want fewer permits.
                left && self.flow.grant_round(&mut waiters, 0, batch)
            });
        }
        let held = self.held(self.waiter.status());
        self.flow.release(held);
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::shim::{Arc, thread};
    use loom::future::block_on;
    use std::pin::pin;
    use std::task::Waker;

    #[test]
    fn permits_that_come_back_at_once_are_never_more_than_there_are() {
        loom::model(|| {
            let flow = Arc::new(BoundedFlow::new(MAX_LIMIT));
            assert_eq!(flow.try_acquire(MAX_LIMIT), Ok(()));
            let waiting = thread::spawn({
                let flow = flow.clone();
                move || {
                    let mut acquire = pin!(flow.acquire(MAX_LIMIT));
                    // Polled again at once, it may be settled before it is woken.
                    let mut cx = Context::from_waker(Waker::noop());
                    if acquire.as_mut().poll(&mut cx).is_pending() {
                        block_on(acquire).unwrap();
                    }
                    assert_eq!(flow.state().permits(), 0, "F1: all are ours");
                    flow.release(MAX_LIMIT);
                }
            });
            flow.release(MAX_LIMIT);
            waiting.join().unwrap();
            assert_eq!(flow.state().permits(), MAX_LIMIT);
        });
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Waker;

    #[test]
    fn capacity_that_nobody_waits_for_is_free_before_its_receiver_has_the_lock() {
        let flow = BoundedFlow::new(1);
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(flow.try_acquire(1), Ok(()));
        let mut first = pin!(flow.acquire(1));
        assert!(first.as_mut().poll(&mut cx).is_pending());
        assert!(flow.release_received(1, true));
        assert!(first.as_mut().poll(&mut cx).is_ready());
        assert!(flow.state().is_queued(), "F2");
        // A receiver that has added its permit, and then does not run.
        flow.state.fetch_add(permits(1), AcqRel);
        assert!(pin!(flow.acquire(1)).poll(&mut cx).is_ready());
        // It goes on.
        flow.grant_queued(flow.waiters.lock(), 0);
        assert_eq!(flow.try_acquire(1), Err(CapacityError::Full));
        flow.release(1);
        assert_eq!(flow.try_acquire(1), Ok(()));
    }
}
