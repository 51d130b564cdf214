//! A batch semaphore: counted permits, and a FIFO queue of waiters that each
//! want some number of them. Semaphore, mutex and read-write lock are built on it.
//!
//! ```text
//!   state:  │ TRACKED │ permits │ WAITERS │ CLOSED │
//! ```
//!
//! P1. `WAITERS` is set and cleared under the queue's lock, and while it is set
//!     permits are subtracted under that lock only. They may be added at any
//!     time; a thread that adds some and finds it set grants them to the queue.
//! P2. While `WAITERS` is set, the permits in the state are reserved for the
//!     front of the queue. So permits are granted in the order of arrival,
//!     however many each waiter wants.
//! P3. A waiter is queued only while `WAITERS` is set, except after `close`,
//!     which clears it and then releases the waiters that are left.
//! P4. `CLOSED` is never cleared, and from then on no permit is granted.
//! P5. `WAITERS` stays set when the last waiter is granted the last permit: where a lock is
//!     contended, somebody is about to wait again. So while it is set and nobody is queued, permits
//!     in the state are those of threads that wait for the queue's lock to grant them. Whoever has
//!     the lock before them may take such permits. A release that finds some left clears it, unless
//!     somebody is queued by then.
//! P6. A waiter's permits have left the state when it is settled: it may return them at once. So
//!     there are never more permits in the state than exist.
//!
//! A lock that was made while owners are noted (`util/src/lock_owner.rs`) is `TRACKED`:
//!
//! T1. `WAITERS` is never cleared, also while permits are free, unless the lock is closed. So every
//!     acquire and every release takes the queue's lock, and a fast path never learns of this.
//! T2. Who takes all permits other than from the queue notes or clears the owner under the same
//!     hold of the queue's lock. Who grants them to a waiter notes the task that polled it last,
//!     under the same hold; a task notes itself again when it polls the waiter, which it may never
//!     do.
//! T3. Who returns permits, and finds some left under the queue's lock, clears the owner before
//!     it grants them. If none are left, somebody has taken them, and the note is theirs (T2).
//!
//! While `WAITERS` is not set, an acquire is one compare-and-swap and a release one addition,
//! and the lock is not touched. After the last grant (P5) the next release takes it, and so do
//! acquires until then. A release cannot miss a waiter: the waiter sets
//! `WAITERS` in the word to which the releaser adds. Either the waiter's exchange
//! fails and it looks again, or the releaser sees `WAITERS`.
//!
//! The state is changed by read-modify-writes only, each of which continues the
//! release sequences of those before it: an Acquire sees every earlier Release.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;
use blitzen_util::lock_owner;
use blitzen_util::shim::Peek;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use blitzen_util::shim::atomic::{AtomicUsize, fence};
use blitzen_util::shim::const_unless_loom;
use blitzen_util::wait::{self, WaitKind};
use blitzen_util::wake_batch::{self, WakeBatch};

use crate::resource::{AcquireSpans, GrantedOps, SemaphoreSpans};
use crate::semaphore::{AcquireError, TryAcquireError};
use crate::wait_queue::{LockedQueue, Outcome, WaitQueue, Waiter, WaiterStatus};

const CLOSED: usize = 1;
const WAITERS: usize = 2;
const SHIFT: u32 = 2;
/// The highest bit, which permits never reach.
const TRACKED: usize = 1 << (usize::BITS - 1);

/// The largest number of permits.
pub(crate) const MAX_PERMITS: usize = usize::MAX >> 3;

/// The largest valid state.
const MAX_STATE: usize = MAX_PERMITS << SHIFT | WAITERS | CLOSED;

const _: () = assert!(MAX_STATE < TRACKED);

#[derive(Clone, Copy)]
struct SemaphoreState(usize);

impl SemaphoreState {
    #[inline(always)]
    const fn new(permits: usize) -> Self {
        Self(permits << SHIFT)
    }

    #[inline(always)]
    fn permits(self) -> usize {
        self.0 >> SHIFT
    }

    /// [`permits`](Self::permits) of a lock that may be tracked.
    #[inline(always)]
    fn permits_of_lock(self) -> usize {
        SemaphoreState(self.0 & !TRACKED).permits()
    }

    #[inline(always)]
    fn has_waiters(self) -> bool {
        self.0 & WAITERS != 0
    }

    #[inline(always)]
    fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    #[inline(always)]
    fn is_tracked(self) -> bool {
        self.0 & TRACKED != 0
    }

    /// Whether an acquire that is not queued may take `count` permits: P2 and P4.
    #[inline(always)]
    fn can_grant(self, count: usize) -> bool {
        self.0 & (CLOSED | WAITERS) == 0 && self.0 >= count << SHIFT
    }

    /// Whether permits may be taken under the queue's lock, since nobody waits although `WAITERS`
    /// is set: P5 and T1.
    #[inline(always)]
    fn is_free_under_lock(self, waiters: &LockedQueue<'_>, count: usize) -> bool {
        self.has_waiters() && waiters.is_empty() && self.permits_of_lock() >= count
    }
}

#[repr(C)] // the state is in front: `RwLock` counts on it
pub(crate) struct BatchSemaphore {
    state: AtomicUsize,
    queue: WaitQueue,
    spans: SemaphoreSpans,
}

impl BatchSemaphore {
    const_unless_loom! {
        /// A semaphore with `permits` permits, at most [`MAX_PERMITS`].
        pub(crate) fn new(permits: usize) -> Self {
            Self {
                state: AtomicUsize::new(SemaphoreState::new(permits).0),
                queue: WaitQueue::new(()),
                spans: SemaphoreSpans::NONE,
            }
        }
    }

    /// A semaphore with `permits` permits, which subscribers see.
    #[inline(always)]
    pub(crate) fn with_spans(permits: usize, spans: SemaphoreSpans) -> Self {
        Self::with_state(SemaphoreState::new(permits).0, spans)
    }

    /// The permits of a lock, which notes its owner if that is asked for.
    #[inline(always)]
    pub(crate) fn new_of_lock(permits: usize, spans: SemaphoreSpans) -> Self {
        match lock_owner::is_on() {
            false => Self::with_spans(permits, spans),
            true => Self::new_tracked(permits, spans),
        }
    }

    /// The permits of a lock that notes its owner (T1).
    #[cold]
    fn new_tracked(permits: usize, spans: SemaphoreSpans) -> Self {
        Self::with_state(SemaphoreState::new(permits).0 | TRACKED | WAITERS, spans)
    }

    #[inline(always)]
    fn with_state(state: usize, spans: SemaphoreSpans) -> Self {
        Self {
            state: AtomicUsize::new(state),
            queue: WaitQueue::new(()),
            spans,
        }
    }

    const_unless_loom! {
        /// A closed semaphore without permits.
        pub(crate) fn new_closed() -> Self {
            Self {
                state: AtomicUsize::new(CLOSED),
                queue: WaitQueue::new(()),
                spans: SemaphoreSpans::NONE,
            }
        }
    }

    #[inline(always)]
    fn state(&self) -> SemaphoreState {
        SemaphoreState(self.state.peek(Relaxed))
    }

    /// How many permits an acquire that is not queued could take.
    pub(crate) fn available(&self) -> usize {
        // Acquire, met by the Release in `release`, `release_all` and `grant_round`: a caller that
        // sees a permit returned sees what its holder did.
        let state = SemaphoreState(self.state.peek(Acquire));
        match state.has_waiters() {
            true => 0, // P2
            false => state.permits(),
        }
    }

    #[inline(always)]
    pub(crate) fn is_closed(&self) -> bool {
        // Acquire, met by the Release of `CLOSED` in `close_round`: what was done
        // before the close is seen.
        SemaphoreState(self.state.peek(Acquire)).is_closed()
    }

    #[inline(always)]
    pub(crate) fn try_acquire(&self, count: usize) -> Result<(), TryAcquireError> {
        match self.take_while_available(self.state(), count) {
            Ok(()) => {
                self.spans.acquired(count);
                Ok(())
            }
            Err(state) if state.is_tracked() && self.take_tracked(count) => {
                self.spans.acquired(count);
                Ok(())
            }
            Err(state) => refusal(state, count),
        }
    }

    /// Takes permits of a lock that notes its owner, if nobody waits for them. Who has them then
    /// is not known.
    #[cold]
    #[inline(never)]
    fn take_tracked(&self, count: usize) -> bool {
        let waiters = self.queue.lock();
        let state = self.state();
        let is_free = state.is_free_under_lock(&waiters, count);
        if is_free {
            self.take_under_lock(state, count, false);
        }
        is_free
    }

    /// Takes permits that are there while `WAITERS` is set, and notes or clears the owner (T2). The
    /// caller holds the queue's lock.
    #[cold]
    #[inline(never)]
    fn take_under_lock(&self, state: SemaphoreState, count: usize, notes_owner: bool) {
        // Acquire, as in `take`. P1: they are still there.
        self.state.fetch_sub(count << SHIFT, Acquire);
        match notes_owner {
            _ if !state.is_tracked() => {}
            true => lock_owner::note(self),
            false => lock_owner::clear(self),
        }
    }

    /// Takes permits, starting from a guess of the state, while there are enough.
    /// Otherwise returns the state.
    #[inline(always)]
    fn take_while_available(
        &self,
        mut state: SemaphoreState,
        count: usize,
    ) -> Result<(), SemaphoreState> {
        while state.can_grant(count) {
            match self.take(state, count) {
                Ok(()) => return Ok(()),
                Err(changed) => state = changed,
            }
        }
        Err(state)
    }

    #[inline(always)]
    fn take(&self, state: SemaphoreState, count: usize) -> Result<(), SemaphoreState> {
        let rest = state.0 - (count << SHIFT);
        // Acquire, met by the Release in `release`, `release_all` and `grant_round`: what the last
        // holder did is seen by the next.
        match self
            .state
            .compare_exchange_weak(state.0, rest, Acquire, Relaxed)
        {
            Ok(_) => Ok(()),
            Err(changed) => Err(SemaphoreState(changed)),
        }
    }

    /// Takes the permits, or queues for them. `expected` is the number of permits
    /// that the caller expects while nobody holds any: a caller that wants as many wants all.
    /// `notes_owner` if the task that takes them is their only owner, and keeps them until it
    /// returns them.
    ///
    /// # Safety
    /// `waiter` belongs to the caller, is used with no other permits, and stays
    /// in place until [`abandon`](Self::abandon) or until this is ready.
    #[inline(always)]
    pub(crate) unsafe fn poll_acquire(
        &self,
        waiter: &Waiter,
        count: usize,
        expected: usize,
        notes_owner: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), AcquireError>> {
        if waiter.status() == WaiterStatus::Idle {
            // A guess, and right without contention. A load of a word that has just
            // been exchanged costs as much as the exchange; and under contention a
            // failed exchange has at least fetched the cache line for the next one. But for
            // somebody who wants all permits it would always fail while others wait.
            let state = match expected {
                0 => self.state(),
                _ if count == expected && self.seems_awaited() => SemaphoreState::new(0),
                _ => SemaphoreState::new(expected),
            };
            if state.can_grant(count)
                && coop::has_unit()
                && let Some(acquired) = self.poll_take(state, count, cx)
            {
                return acquired;
            }
        }
        // SAFETY: the caller upholds the same contract.
        unsafe { self.poll_queued(waiter, count, notes_owner, cx) }
    }

    /// Takes permits that seem to be there; `None` if they are not.
    #[inline(always)]
    fn poll_take(
        &self,
        state: SemaphoreState,
        count: usize,
        cx: &mut Context<'_>,
    ) -> Option<Poll<Result<(), AcquireError>>> {
        // A task that has to yield does not take permits first: others would queue behind a task
        // that is not running.
        let Poll::Ready(spent) = coop::poll_proceed(cx) else {
            return Some(Poll::Pending);
        };
        self.take_while_available(state, count).ok()?;
        spent.made_progress();
        Some(Poll::Ready(Ok(())))
    }

    /// # Safety
    /// As for [`poll_acquire`](Self::poll_acquire).
    #[cold]
    #[inline(never)]
    unsafe fn poll_queued(
        &self,
        waiter: &Waiter,
        count: usize,
        notes_owner: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), AcquireError>> {
        if waiter.status() == WaiterStatus::Idle {
            let state = self.state();
            if state.can_grant(count)
                && let Some(acquired) = self.poll_take(state, count, cx)
            {
                return acquired;
            }
        }
        loop {
            return match waiter.status() {
                // SAFETY: the caller upholds the same contract.
                WaiterStatus::Idle => unsafe { self.enqueue(waiter, count, notes_owner, cx) },
                WaiterStatus::Queued => {
                    if self.state().is_tracked() {
                        self.note_polled(waiter, notes_owner, cx); // T2
                    }
                    // SAFETY: it is in this queue or has been settled.
                    if unsafe { self.queue.refresh(waiter, cx) } {
                        Poll::Pending
                    } else {
                        continue;
                    }
                }
                WaiterStatus::Granted | WaiterStatus::GrantedLast => {
                    if self.state().is_tracked() && notes_owner {
                        lock_owner::note(self); // T2
                    }
                    finish_within_budget(cx)
                }
                WaiterStatus::Released => Poll::Ready(Err(AcquireError::closed())),
                WaiterStatus::Removed => unreachable!("it leaves when it is dropped"),
            };
        }
    }

    /// Notes the task that polls a waiter, if it is queued: its future may have come from another
    /// task.
    #[cold]
    #[inline(never)]
    fn note_polled(&self, waiter: &Waiter, notes_owner: bool, cx: &Context<'_>) {
        let _waiters = self.queue.lock();
        if waiter.status() == WaiterStatus::Queued {
            lock_owner::note_queued(self, waiter, cx.waker(), notes_owner);
        }
    }

    /// # Safety
    /// As for [`poll_acquire`](Self::poll_acquire), and the waiter is idle.
    unsafe fn enqueue(
        &self,
        waiter: &Waiter,
        count: usize,
        notes_owner: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), AcquireError>> {
        if self.is_closed() {
            return Poll::Ready(Err(AcquireError::closed()));
        }
        let waker = cx.waker().clone();
        let mut waiters = self.queue.lock();
        let mut state = self.state();
        loop {
            if state.is_closed() {
                // Acquire, as in `is_closed`: the error reports the close.
                fence(Acquire);
                return Poll::Ready(Err(AcquireError::closed()));
            }
            if count == 0 {
                break; // nothing to wait for, even if others wait
            }
            if state.can_grant(count) {
                match self.take(state, count) {
                    Ok(()) => break,
                    Err(changed) => state = changed,
                }
                continue;
            }
            if state.is_free_under_lock(&waiters, count) {
                self.take_under_lock(state, count, notes_owner);
                break;
            }
            if state.is_tracked() {
                lock_owner::note_queued(self, waiter, &waker, notes_owner); // T1: it is queued now
            }
            if !state.has_waiters() {
                // Relaxed: the lock publishes the queue, and `grant_round` acquires
                // what the releasers did.
                let with_waiters = state.0 | WAITERS;
                let set = self
                    .state
                    .compare_exchange_weak(state.0, with_waiters, Relaxed, Relaxed);
                if let Err(changed) = set {
                    state = SemaphoreState(changed);
                    continue;
                }
            }
            // SAFETY: idle, and kept in place by the caller, who abandons it.
            unsafe { waiters.push(waiter, count, Some(waker)) };
            return Poll::Pending;
        }
        drop(waiters);
        // From here on the waiter owns the permits: what follows runs wakers, and
        // if one of them panics, dropping the future returns the permits.
        // SAFETY: it belongs to the caller, and is idle.
        unsafe { waiter.settle_unqueued(Outcome::Granted) };
        drop(waker);
        finish_within_budget(cx)
    }

    /// Leaves the queue; permits that had been granted go to the next waiter.
    ///
    /// # Safety
    /// `waiter` is used with these permits only.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn abandon(&self, waiter: &Waiter, count: usize) {
        if waiter.status() == WaiterStatus::Queued {
            let mut waiters = self.queue.lock();
            // SAFETY: it is in this queue or has been settled.
            if unsafe { waiters.remove(waiter) }.is_some() {
                if self.state().is_tracked() {
                    lock_owner::forget_queued(waiter);
                }
                return self.grant_after_removal(waiters);
            }
        }
        if waiter.status() == WaiterStatus::Granted {
            self.release(count);
        }
    }

    /// Restores P2 and P3 after a waiter was removed.
    fn grant_after_removal(&self, waiters: LockedQueue<'_>) {
        let state = self.state();
        match waiters.front() {
            // The new front may want fewer permits.
            Some(wanted) if state.has_waiters() && wanted <= state.permits_of_lock() => {
                self.grant_queued(waiters, 0)
            }
            Some(_) => {}
            None if state.is_tracked() => {} // T1
            // Relaxed: it publishes nothing.
            None if state.has_waiters() => drop(self.state.fetch_sub(WAITERS, Relaxed)),
            None => {}
        }
    }

    /// Returns permits, or adds new ones.
    ///
    /// # Panics
    /// If there would be more than [`MAX_PERMITS`].
    #[inline(always)]
    #[track_caller]
    pub(crate) fn release(&self, count: usize) {
        // Release, met by the Acquire in `take`, `take_under_lock`, `forget`, `available` and
        // `grant_round`.
        let before = SemaphoreState(self.state.fetch_add(count << SHIFT, Release));
        if before.has_waiters() || before.0 > MAX_STATE - (count << SHIFT) {
            self.release_to_waiters(before, count);
        }
        self.spans.released(count);
    }

    /// Returns permits as [`release`](Self::release) does, for somebody who has all there are.
    /// Others change the state only to wait, so it looks for waiters first.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn release_all(&self, count: usize) {
        if self.seems_awaited() {
            return self.release_to_front(count);
        }
        // Release, as in `release`. There are no others, so it cannot be too many.
        let before = SemaphoreState(self.state.fetch_add(count << SHIFT, Release));
        if before.has_waiters() {
            self.release_to_waiters(before, count);
        }
        self.spans.released(count);
    }

    /// Whether `WAITERS` is set, for a thread that is about to change the state. Not for readers:
    /// where many change the state, it would fetch the cache line twice.
    #[inline(always)]
    fn seems_awaited(&self) -> bool {
        // Relaxed: a hint.
        SemaphoreState(self.state.load(Relaxed)).has_waiters()
    }

    /// Returns all permits, for which others seem to wait. What the front of the queue wants goes
    /// there directly, which spares the state two changes.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn release_to_front(&self, count: usize) {
        let waiters = self.queue.lock();
        let state = self.state();
        if !state.has_waiters() || state.is_tracked() {
            drop(waiters);
            return self.release(count);
        }
        self.grant_queued(waiters, count);
        self.spans.released(count);
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn release_to_waiters(&self, before: SemaphoreState, count: usize) {
        let waiters = self.queue.lock();
        if before.is_tracked() {
            self.clear_owner();
        } else if before.permits() + count > MAX_PERMITS {
            self.take_back(count);
            // Meanwhile another release may have granted nothing: such a state looks `TRACKED`,
            // and like one without permits.
            self.grant_queued(waiters, 0);
            panic!("number of added permits ({count}) would overflow MAX_PERMITS ({MAX_PERMITS})");
        }
        self.grant_queued(waiters, 0);
    }

    /// Clears the owner of a lock whose permits were returned, under the queue's lock (T3).
    #[cold]
    #[inline(never)]
    fn clear_owner(&self) {
        if self.state().permits_of_lock() > 0 {
            lock_owner::clear(self);
        }
    }

    /// Notes the oldest waiters, to which permits are about to be granted, under the queue's lock
    /// (T2).
    #[cold]
    #[inline(never)]
    fn note_grants(&self, waiters: &LockedQueue<'_>, count: usize) {
        let mut left = count;
        waiters.visit_while(|_, address| {
            if left > 0 {
                left -= 1;
                lock_owner::note_granted(self, address);
            }
            left > 0
        });
    }

    /// Undoes a release under the lock (P1), as far as the permits have not been
    /// taken yet.
    fn take_back(&self, count: usize) {
        let less =
            |state: usize| Some(state - (SemaphoreState(state).permits().min(count) << SHIFT));
        // Relaxed: it publishes nothing.
        let _ = self.state.fetch_update(Relaxed, Relaxed, less);
    }

    /// Grants permits to the queue: those in the state, and `returned` ones that the caller has.
    #[inline(always)]
    fn grant_queued(&self, waiters: LockedQueue<'_>, returned: usize) {
        let (mut waiters, mut returned) = (Some(waiters), returned);
        let mut ops = GrantedOps::NONE;
        wake_batch::in_rounds(|batch| {
            let mut waiters = waiters.take().unwrap_or_else(|| self.queue.lock());
            self.grant_round(&mut waiters, mem::take(&mut returned), batch, &mut ops)
        });
        ops.report();
    }

    /// Grants permits to the queue until they run out or the batch is full. Returns
    /// true if the batch is full and more can be granted.
    fn grant_round(
        &self,
        waiters: &mut LockedQueue<'_>,
        returned: usize,
        batch: &mut WakeBatch,
        ops: &mut GrantedOps,
    ) -> bool {
        // Acquire, met by the Release in `release`, `release_all` and here: what the releasers did
        // is handed on with the grant.
        let state = SemaphoreState(self.state.peek(Acquire));
        if !state.has_waiters() {
            debug_assert_eq!(returned, 0, "the caller has seen it under the same lock");
            return false; // granted by another thread, or closed
        }
        let permits = state.permits_of_lock() + returned;
        let found = waiters.satisfiable(permits, batch);
        let stays = found.are_others || found.wanted == permits || state.is_tracked(); // P5, T1
        let cleared = if stays { 0 } else { WAITERS };
        // P1: none of them was taken since. For permits that were added since, the
        // thread that added them waits for this lock.
        let change = (returned << SHIFT).wrapping_sub((found.wanted << SHIFT) + cleared);
        if change != 0 {
            // Release, as in `release`: for what is left of the returned ones.
            self.state.fetch_add(change, Release);
        }
        if state.is_tracked() {
            self.note_grants(waiters, found.waiters);
        }
        // P6: only now, since a waiter that is settled may return its permits at once.
        for _ in 0..found.waiters {
            ops.push(waiters.front_op(), waiters.front().unwrap_or(0));
            waiters.settle_front(Outcome::Granted, batch);
        }
        found.are_more
    }

    /// Removes up to `count` permits for good; returns how many.
    pub(crate) fn forget(&self, count: usize) -> usize {
        let mut state = self.state();
        loop {
            if state.has_waiters() {
                return 0; // P2: they are reserved
            }
            let taken = state.permits().min(count);
            let rest = state.0 - (taken << SHIFT);
            // Acquire, as in `take`.
            match self
                .state
                .compare_exchange_weak(state.0, rest, Acquire, Relaxed)
            {
                Ok(_) => return taken,
                Err(changed) => state = SemaphoreState(changed),
            }
        }
    }

    /// Refuses all permits from now on, and releases all waiters.
    #[inline]
    pub(crate) fn close(&self) {
        let mut state = self.state();
        while !state.has_waiters() {
            // Release, met by the Acquire in `is_closed`.
            match self
                .state
                .compare_exchange_weak(state.0, state.0 | CLOSED, Release, Relaxed)
            {
                Ok(_) => return,
                Err(changed) => state = SemaphoreState(changed),
            }
        }
        self.close_with_waiters();
    }

    #[cold]
    #[inline(never)]
    fn close_with_waiters(&self) {
        wake_batch::in_rounds(|batch| self.close_round(batch));
    }

    /// Runs `before` and closes, both under the lock. Returns false, without
    /// running it, if the semaphore was closed already.
    pub(crate) fn close_once(&self, before: impl FnOnce()) -> bool {
        let waiters = self.queue.lock();
        if self.is_closed() {
            return false;
        }
        before();
        if waiters.is_empty() {
            self.set_closed();
            return true;
        }
        let mut waiters = Some(waiters);
        wake_batch::in_rounds(|batch| {
            let mut waiters = waiters.take().unwrap_or_else(|| self.queue.lock());
            self.close_locked(&mut waiters, batch)
        });
        true
    }

    /// Refuses all permits from now on. The waiters stay queued:
    /// [`close_round`](Self::close_round) must follow.
    pub(crate) fn refuse(&self) {
        let _waiters = self.queue.lock();
        self.set_closed();
    }

    /// One round of `close`. Returns true if the batch is full and waiters are left.
    pub(crate) fn close_round(&self, batch: &mut WakeBatch) -> bool {
        self.close_locked(&mut self.queue.lock(), batch)
    }

    fn close_locked(&self, waiters: &mut LockedQueue<'_>, batch: &mut WakeBatch) -> bool {
        self.set_closed();
        while !waiters.is_empty() {
            if batch.is_full() {
                return true;
            }
            waiters.settle_front(Outcome::Released, batch);
        }
        false
    }

    /// The caller holds the queue's lock.
    fn set_closed(&self) {
        // P3 wants `WAITERS` cleared; P4 says that `CLOSED` is not set with it.
        // Release, met by the Acquire in `is_closed`.
        match self.state().has_waiters() {
            true => self.state.fetch_xor(WAITERS | CLOSED, Release),
            false => self.state.fetch_or(CLOSED, Release),
        };
    }
}

#[cold]
fn refusal(state: SemaphoreState, count: usize) -> Result<(), TryAcquireError> {
    if state.is_closed() {
        Err(TryAcquireError::Closed)
    } else if count == 0 {
        Ok(())
    } else {
        Err(TryAcquireError::NoPermits)
    }
}

/// Completes an acquire whose waiter owns the permits. If the task's budget is used
/// up it keeps them for the next poll, so that yielding does not cost the task its
/// turn.
#[inline(always)]
fn finish_within_budget(cx: &mut Context<'_>) -> Poll<Result<(), AcquireError>> {
    let spent = ready!(coop::poll_proceed(cx));
    spent.made_progress();
    Poll::Ready(Ok(()))
}

/// What an [`AcquireFuture`] acquires, and what it returns.
///
/// # Safety
/// `semaphore` returns the same semaphore each time, and `count` the same number.
pub(crate) unsafe trait AcquireTarget {
    /// What a task that acquires it waits for.
    const WAIT: WaitKind;
    /// The operation, as subscribers know it.
    const SOURCE: &'static str;

    /// Whether the task that acquires it is its only owner, and has a guard that borrows it.
    const NOTES_OWNER: bool = false;

    type Output;

    fn semaphore(&self) -> &BatchSemaphore;

    /// How many permits to acquire.
    #[inline(always)]
    fn count(&self) -> usize {
        1
    }

    /// How many permits there are while nobody holds any, if that is known; else 0.
    fn expected_permits(&self) -> usize;

    /// Makes the output: the permits have been acquired, or the semaphore closed.
    fn settle(self, outcome: Result<(), AcquireError>) -> Self::Output;
}

/// The future of every acquire: lock, read, write and acquire, owned or borrowed.
#[must_use = "futures do nothing unless polled"]
pub(crate) struct AcquireFuture<C: AcquireTarget> {
    /// `None` after completion.
    target: Option<C>,
    waiter: Waiter,
    spans: AcquireSpans,
}

impl<C: AcquireTarget> AcquireFuture<C> {
    #[inline(always)]
    pub(crate) fn new(target: C) -> Self {
        let spans = target.semaphore().spans.start_acquire(C::SOURCE);
        Self {
            target: Some(target),
            waiter: Waiter::with_op(spans.waiter_op()),
            spans,
        }
    }
}

/// Notes what the task waits for, unless it only has to yield: a waiter that is not queued has been
/// refused for the task's budget. Out of line: an acquire that need not wait is a few
/// instructions, and should be inlined.
#[cold]
#[inline(never)]
fn note_wait(kind: WaitKind, semaphore: &BatchSemaphore, waiter: &Waiter) {
    if waiter.status() == WaiterStatus::Queued {
        wait::pending_on(kind, semaphore);
    }
}

impl<C: AcquireTarget> Future for AcquireFuture<C> {
    type Output = C::Output;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        // SAFETY: the waiter, which must stay in place, is only lent.
        let this = unsafe { self.get_unchecked_mut() };
        let Some(target) = &this.target else {
            resumed_after_completion()
        };
        let poll = {
            let _entered = this.spans.enter();
            // SAFETY: pinned with the future, whose `drop` abandons it.
            let poll = unsafe {
                target.semaphore().poll_acquire(
                    &this.waiter,
                    target.count(),
                    target.expected_permits(),
                    C::NOTES_OWNER,
                    cx,
                )
            };
            this.spans.polled(poll.is_ready());
            poll
        };
        let Poll::Ready(outcome) = poll else {
            note_wait(C::WAIT, target.semaphore(), &this.waiter);
            return Poll::Pending;
        };
        match this.target.take() {
            Some(target) => {
                let (count, is_acquired) = (target.count(), outcome.is_ok());
                // From here on the output owns the permits.
                let output = target.settle(outcome);
                if is_acquired {
                    this.spans.acquired(count);
                }
                Poll::Ready(output)
            }
            None => resumed_after_completion(),
        }
    }
}

impl<C: AcquireTarget> Drop for AcquireFuture<C> {
    #[inline]
    fn drop(&mut self) {
        if let Some(target) = &self.target
            && self.waiter.status() != WaiterStatus::Idle
        {
            // SAFETY: used with these permits only.
            unsafe { target.semaphore().abandon(&self.waiter, target.count()) };
        }
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn resumed_after_completion() -> ! {
    panic!("`async fn` resumed after completion");
}

#[cfg(all(test, blitzen_loom))]
pub(crate) mod model {
    use super::*;
    use blitzen_util::shim::cell::UnsafeCell as Watched;
    use blitzen_util::shim::{AccessCheck, Arc, thread};
    use loom::future::block_on;
    use std::pin::pin;
    use std::task::Waker;

    /// Waits for permits and does not return them: the model does.
    struct Take<'a>(&'a BatchSemaphore, usize);

    // SAFETY: both are fixed when the target is made.
    unsafe impl AcquireTarget for Take<'_> {
        const WAIT: WaitKind = WaitKind::Semaphore;
        const SOURCE: &'static str = "Take";
        type Output = Result<(), AcquireError>;

        fn semaphore(&self) -> &BatchSemaphore {
            self.0
        }

        fn count(&self) -> usize {
            self.1
        }

        fn expected_permits(&self) -> usize {
            1
        }

        fn settle(self, outcome: Result<(), AcquireError>) -> Self::Output {
            outcome
        }
    }

    fn take(permits: &BatchSemaphore, count: usize) -> AcquireFuture<Take<'_>> {
        AcquireFuture::new(Take(permits, count))
    }

    /// Polls once, with nobody to wake.
    pub(crate) fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn one_permit_excludes_and_publishes() {
        loom::model(|| {
            let shared = Arc::new((BatchSemaphore::new(1), Watched::new(0)));
            let add = |shared: &(BatchSemaphore, Watched<i32>)| {
                block_on(take(&shared.0, 1)).unwrap();
                // SAFETY: the permit is held; loom objects if it does not exclude.
                shared.1.with_mut(|count| unsafe { *count += 1 });
                shared.0.release(1);
            };
            let other = shared.clone();
            let thread = thread::spawn(move || add(&other));
            add(&shared);
            thread.join().unwrap();
            // SAFETY: the other thread has ended.
            assert_eq!(shared.1.with(|count| unsafe { *count }), 2);
            assert_eq!(shared.0.available(), 1);
        });
    }

    #[test]
    fn a_lock_that_notes_its_owner_excludes_and_hands_over() {
        loom::model(|| {
            let shared = Arc::new((
                BatchSemaphore::new_tracked(1, SemaphoreSpans::NONE),
                Watched::new(0),
            ));
            let add = |shared: &(BatchSemaphore, Watched<i32>)| {
                // SAFETY: the permit is held; loom objects if it does not exclude.
                shared.1.with_mut(|count| unsafe { *count += 1 });
                shared.0.release(1);
            };
            let quitter = thread::spawn({
                let shared = shared.clone();
                move || {
                    let mut future = Box::pin(take(&shared.0, 1));
                    if poll_once(future.as_mut()).is_ready() {
                        add(&shared);
                    }
                }
            });
            let trier = thread::spawn({
                let shared = shared.clone();
                move || {
                    if shared.0.try_acquire(1).is_ok() {
                        add(&shared);
                    }
                }
            });
            block_on(take(&shared.0, 1)).unwrap(); // or loom reports a deadlock
            add(&shared);
            quitter.join().unwrap();
            trier.join().unwrap();
            assert!(shared.0.try_acquire(1).is_ok(), "all permits are back");
            assert!(shared.0.try_acquire(1).is_err());
            assert!(shared.0.state().has_waiters(), "T1");
        });
    }

    #[test]
    fn permits_that_come_back_at_once_are_never_more_than_there_are() {
        loom::model(|| {
            let permits = Arc::new(BatchSemaphore::new(MAX_PERMITS));
            assert!(permits.try_acquire(MAX_PERMITS).is_ok());
            let waiting = thread::spawn({
                let permits = permits.clone();
                move || {
                    let mut future = pin!(take(&permits, MAX_PERMITS));
                    // Polled again at once, it may be settled before it is woken.
                    if poll_once(future.as_mut()).is_pending() {
                        block_on(future).unwrap();
                    }
                    permits.release(MAX_PERMITS); // P6, or it panics
                }
            });
            permits.release(MAX_PERMITS);
            waiting.join().unwrap();
            assert_eq!(permits.available(), MAX_PERMITS);
        });
    }

    #[test]
    fn a_release_is_never_overlooked_by_a_waiter() {
        loom::model(|| {
            let permits = Arc::new(BatchSemaphore::new(0));
            let other = permits.clone();
            let thread = thread::spawn(move || other.release(1));
            block_on(take(&permits, 1)).unwrap(); // or loom reports a deadlock
            thread.join().unwrap();
            assert_eq!(permits.available(), 0);
        });
    }

    #[test]
    fn a_waiter_that_gives_up_passes_its_permit_on() {
        loom::model(|| {
            let permits = Arc::new(BatchSemaphore::new(0));
            let quitter = thread::spawn({
                let permits = permits.clone();
                move || {
                    let mut future = Box::pin(take(&permits, 1));
                    if poll_once(future.as_mut()).is_ready() {
                        permits.release(1);
                    }
                }
            });
            let giver = thread::spawn({
                let permits = permits.clone();
                move || permits.release(1)
            });
            block_on(take(&permits, 1)).unwrap(); // or loom reports a deadlock
            quitter.join().unwrap();
            giver.join().unwrap();
            assert_eq!(permits.available(), 0);
        });
    }

    #[test]
    fn permits_gathered_one_by_one_publish_what_each_releaser_did() {
        loom::model(|| {
            let shared = Arc::new((BatchSemaphore::new(0), Watched::new(0), Watched::new(0)));
            let giver = |index: usize| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let slot = if index == 0 { &shared.1 } else { &shared.2 };
                    // SAFETY: read only by the one who has both permits.
                    slot.with_mut(|slot| unsafe { *slot = 1 });
                    shared.0.release(1);
                })
            };
            let givers = [giver(0), giver(1)];
            block_on(take(&shared.0, 2)).unwrap();
            // SAFETY: each releaser wrote before it gave.
            let sum = unsafe { shared.1.with(|slot| *slot) + shared.2.with(|slot| *slot) };
            assert_eq!(sum, 2);
            givers.map(|giver| giver.join().unwrap());
            assert_eq!(shared.0.available(), 0);
        });
    }

    #[test]
    fn permits_left_over_by_a_release_publish_too() {
        loom::model(|| {
            let shared = Arc::new((BatchSemaphore::new(0), Watched::new(0)));
            let mut with_waiters = Box::pin(take(&shared.0, 1));
            assert!(poll_once(with_waiters.as_mut()).is_pending());
            let giver = thread::spawn({
                let shared = shared.clone();
                move || {
                    // SAFETY: read only by the thread that takes the permits it
                    // releases.
                    shared.1.with_mut(|slot| unsafe { *slot = 1 });
                    shared.0.release(2);
                }
            });
            if shared.0.try_acquire(1).is_ok() {
                // SAFETY: written before it was granted.
                assert_eq!(shared.1.with(|slot| unsafe { *slot }), 1);
            }
            giver.join().unwrap();
            assert!(poll_once(with_waiters.as_mut()).is_ready());
        });
    }

    #[test]
    fn the_only_owner_hands_its_permit_to_a_waiter_that_may_give_up() {
        loom::model(|| {
            let shared = Arc::new((BatchSemaphore::new(1), Watched::new(0)));
            assert!(shared.0.try_acquire(1).is_ok());
            let quitter = thread::spawn({
                let shared = shared.clone();
                move || {
                    let mut future = Box::pin(take(&shared.0, 1));
                    if poll_once(future.as_mut()).is_ready() {
                        // SAFETY: the permit is held; loom objects if it does not exclude.
                        shared.1.with_mut(|count| unsafe { *count += 1 });
                        shared.0.release_all(1);
                    }
                }
            });
            // SAFETY: as above.
            shared.1.with_mut(|count| unsafe { *count += 1 });
            shared.0.release_all(1);
            block_on(take(&shared.0, 1)).unwrap(); // or loom reports a deadlock
            // SAFETY: as above.
            shared.1.with_mut(|count| unsafe { *count += 1 });
            shared.0.release_all(1);
            quitter.join().unwrap();
            assert_eq!(shared.0.available(), 1);
        });
    }

    #[test]
    fn what_the_last_waiter_does_not_want_is_free_and_publishes() {
        loom::model(|| {
            let shared = Arc::new((BatchSemaphore::new(2), Watched::new(0)));
            assert!(shared.0.try_acquire(2).is_ok());
            let mut waiting = Box::pin(take(&shared.0, 1));
            assert!(poll_once(waiting.as_mut()).is_pending());
            let owner = thread::spawn({
                let shared = shared.clone();
                move || {
                    // SAFETY: read only by those that take the permits.
                    shared.1.with_mut(|slot| unsafe { *slot = 1 });
                    shared.0.release_all(2);
                }
            });
            block_on(take(&shared.0, 1)).unwrap(); // or loom reports a deadlock
            // SAFETY: written before the permits were returned.
            assert_eq!(shared.1.with(|slot| unsafe { *slot }), 1);
            owner.join().unwrap();
            assert!(poll_once(waiting.as_mut()).is_ready());
            assert_eq!(shared.0.available(), 0);
        });
    }

    #[test]
    fn a_permit_that_comes_back_after_the_last_waiter_left_is_free() {
        loom::model(|| {
            let permits = Arc::new(BatchSemaphore::new(1));
            assert!(permits.try_acquire(1).is_ok());
            let mut waiting = Box::pin(take(&permits, 1));
            assert!(poll_once(waiting.as_mut()).is_pending());
            permits.release_all(1);
            assert!(poll_once(waiting.as_mut()).is_ready());
            assert!(permits.state().has_waiters(), "P5");
            let owner = thread::spawn({
                let permits = permits.clone();
                move || {
                    permits.release(1);
                    permits.try_acquire(1).is_ok()
                }
            });
            let taken = permits.try_acquire(1).is_ok();
            assert!(owner.join().unwrap() ^ taken, "it is one permit");
            assert!(!permits.state().has_waiters());
        });
    }

    #[test]
    fn a_permit_that_nobody_waits_for_goes_to_a_newcomer_or_to_one_that_tries() {
        for give in [BatchSemaphore::release, BatchSemaphore::release_all] {
            loom::model(move || {
                let shared = Arc::new((BatchSemaphore::new(1), Watched::new(0)));
                assert!(shared.0.try_acquire(1).is_ok());
                {
                    let mut waiting = Box::pin(take(&shared.0, 1));
                    assert!(poll_once(waiting.as_mut()).is_pending());
                    shared.0.release_all(1);
                    assert!(poll_once(waiting.as_mut()).is_ready());
                    assert!(shared.0.state().has_waiters(), "P5");
                }
                let add = |shared: &(BatchSemaphore, Watched<i32>)| {
                    // SAFETY: the permit is held; loom objects if it does not exclude.
                    shared.1.with_mut(|count| unsafe { *count += 1 });
                };
                let newcomer = thread::spawn({
                    let shared = shared.clone();
                    move || {
                        // It may take the permit before the one who gives it has the queue's lock.
                        block_on(take(&shared.0, 1)).unwrap(); // or loom reports a deadlock
                        add(&shared);
                        shared.0.release_all(1);
                    }
                });
                let trier = thread::spawn({
                    let shared = shared.clone();
                    move || {
                        if shared.0.try_acquire(1).is_ok() {
                            add(&shared);
                            shared.0.release_all(1);
                        }
                    }
                });
                add(&shared);
                give(&shared.0, 1);
                newcomer.join().unwrap();
                trier.join().unwrap();
                assert_eq!(shared.0.available(), 1);
            });
        }
    }

    #[test]
    fn a_permit_is_free_although_the_last_waiter_leaves_while_it_comes_back() {
        loom::model(|| {
            let permits = Arc::new(BatchSemaphore::new(1));
            assert!(permits.try_acquire(1).is_ok());
            let mut waiting = Box::pin(take(&permits, 1));
            assert!(poll_once(waiting.as_mut()).is_pending());
            let owner = thread::spawn({
                let permits = permits.clone();
                move || permits.release_all(1)
            });
            drop(waiting);
            owner.join().unwrap();
            assert_eq!(permits.available(), 1);
        });
    }

    #[test]
    fn a_big_waiter_that_gives_up_frees_what_was_gathered_for_it() {
        loom::model(|| {
            let permits = Arc::new(BatchSemaphore::new(1));
            let big = thread::spawn({
                let permits = permits.clone();
                move || {
                    let mut future = Box::pin(take(&permits, 2));
                    assert!(poll_once(future.as_mut()).is_pending());
                }
            });
            block_on(take(&permits, 1)).unwrap(); // or loom reports a deadlock
            big.join().unwrap();
            permits.release(1);
            assert_eq!(permits.available(), 1);
        });
    }

    #[test]
    fn close_reaches_a_waiter_however_they_meet() {
        loom::model(|| {
            let shared = Arc::new((BatchSemaphore::new(0), Watched::new(0)));
            let closer = thread::spawn({
                let shared = shared.clone();
                move || {
                    // SAFETY: read only after the close.
                    shared.1.with_mut(|slot| unsafe { *slot = 1 });
                    shared.0.close();
                }
            });
            let giver = thread::spawn({
                let shared = shared.clone();
                move || shared.0.release(1)
            });
            let closed = block_on(take(&shared.0, 1)).is_err();
            if closed {
                // SAFETY: written before the close.
                assert_eq!(shared.1.with(|slot| unsafe { *slot }), 1);
            }
            closer.join().unwrap();
            giver.join().unwrap();
            assert!(shared.0.is_closed());
            assert_eq!(shared.0.available(), usize::from(closed));
        });
    }

    #[test]
    fn a_waiter_wakes_whoever_polled_it_last() {
        loom::model(|| {
            let permits = Arc::new(BatchSemaphore::new(0));
            let giver = thread::spawn({
                let permits = permits.clone();
                move || permits.release(1)
            });
            let mut future = pin!(take(&permits, 1));
            if poll_once(future.as_mut()).is_pending() {
                block_on(future).unwrap(); // or loom reports a deadlock
            }
            giver.join().unwrap();
        });
    }

    /// A semaphore without permits, and what another thread writes before `act`.
    fn written_before(
        act: fn(&BatchSemaphore),
    ) -> (Arc<(BatchSemaphore, AccessCheck)>, thread::JoinHandle<()>) {
        let shared = Arc::new((BatchSemaphore::new(0), AccessCheck::new()));
        let thread = thread::spawn({
            let shared = shared.clone();
            move || {
                shared.1.write();
                act(&shared.0);
            }
        });
        (shared, thread)
    }

    #[test]
    fn whoever_counts_a_permit_sees_what_its_holder_did() {
        loom::model(|| {
            let (shared, thread) = written_before(|permits| permits.release(1));
            if shared.0.available() == 1 {
                shared.1.read();
            }
            thread.join().unwrap();
        });
    }

    #[test]
    fn whoever_forgets_a_permit_sees_what_its_holder_did() {
        loom::model(|| {
            let (shared, thread) = written_before(|permits| permits.release(1));
            if shared.0.forget(1) == 1 {
                shared.1.read();
            }
            thread.join().unwrap();
        });
    }

    #[test]
    fn a_close_whose_waiter_has_just_left_publishes() {
        loom::model(|| {
            let shared = Arc::new((BatchSemaphore::new(0), AccessCheck::new()));
            let mut waiting = Box::pin(take(&shared.0, 1));
            assert!(poll_once(waiting.as_mut()).is_pending());
            let thread = thread::spawn({
                let shared = shared.clone();
                move || {
                    shared.1.write();
                    shared.0.close();
                }
            });
            drop(waiting);
            if shared.0.is_closed() {
                shared.1.read();
            }
            thread.join().unwrap();
        });
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::task::Waker;

    /// Polls a waiter for one permit.
    fn takes(permits: &BatchSemaphore, waiter: &Waiter) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        // SAFETY: the waiter is the caller's, and used with these permits only.
        unsafe { permits.poll_acquire(waiter, 1, 0, false, &mut cx) }.is_ready()
    }

    #[test]
    fn a_permit_that_nobody_waits_for_is_free_before_its_holder_has_the_lock() {
        let permits = BatchSemaphore::new(1);
        permits.try_acquire(1).unwrap();
        let (first, second) = (Box::pin(Waiter::new()), Box::pin(Waiter::new()));
        assert!(!takes(&permits, &first));
        permits.release_all(1);
        assert!(takes(&permits, &first));
        assert!(permits.state().has_waiters(), "P5");
        // A holder that has added its permit, and then does not run.
        let before = SemaphoreState(permits.state.fetch_add(1 << SHIFT, Release));
        assert!(takes(&permits, &second));
        // It goes on.
        permits.release_to_waiters(before, 1);
        assert!(permits.try_acquire(1).is_err());
        permits.release(1);
        assert!(permits.try_acquire(1).is_ok());
    }

    #[test]
    fn a_release_that_is_too_much_keeps_no_permit_from_a_waiter() {
        let permits = BatchSemaphore::new(0);
        let waiter = Box::pin(Waiter::new());
        assert!(!takes(&permits, &waiter));
        // Both add their permits before the first one grants them.
        let good = SemaphoreState(permits.state.fetch_add(1 << SHIFT, Release));
        let bad = SemaphoreState(permits.state.fetch_add(MAX_PERMITS << SHIFT, Release));
        permits.release_to_waiters(good, 1);
        assert_eq!(
            waiter.status(),
            WaiterStatus::Queued,
            "`bad` hides its permit"
        );
        let overflows = || permits.release_to_waiters(bad, MAX_PERMITS);
        assert!(catch_unwind(AssertUnwindSafe(overflows)).is_err());
        assert_eq!(waiter.status(), WaiterStatus::Granted);
        permits.release(1);
        assert_eq!(permits.available(), 1);
    }

    #[test]
    fn a_grant_that_another_release_has_made_possible_is_noted() {
        let current_task = lock_owner::CurrentTaskFns {
            number: || Some(7),
            owns: |_| true,
        };
        lock_owner::set_on(false, current_task);
        let permits = BatchSemaphore::new_tracked(2, SemaphoreSpans::NONE);
        let address = (&raw const permits).addr() as u64;
        permits.try_acquire(1).unwrap();
        permits.try_acquire(1).unwrap();
        let writer = Box::pin(Waiter::new());
        let mut cx = Context::from_waker(Waker::noop());
        // SAFETY: the waiter is used with these permits only, and stays in place.
        let poll = unsafe { permits.poll_acquire(&writer, 2, 0, true, &mut cx) };
        assert!(poll.is_pending() && lock_owner::is_queued(7, address));
        // Both readers add their permits before the first one grants them.
        permits.state.fetch_add(1 << SHIFT, Release);
        let waiters = permits.queue.lock();
        permits.clear_owner();
        let before = SemaphoreState(permits.state.fetch_add(1 << SHIFT, Release));
        permits.grant_queued(waiters, 0);
        permits.release_to_waiters(before, 1);
        assert_eq!(writer.status(), WaiterStatus::Granted);
        assert_eq!(
            lock_owner::owner_of(address).map(|owner| owner.task),
            Some(7)
        );
        assert!(!lock_owner::is_queued(7, address));
    }
}
