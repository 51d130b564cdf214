//! Counted permits and the line of those who wait for them: what semaphore,
//! mutex and read-write lock are made of.
//!
//! ```text
//!   word:  │ permits │ WAITERS │ CLOSED │
//! ```
//!
//! P1. `WAITERS` is set and cleared under the queue's lock, and while it is set
//!     permits leave the word under that lock only. They may come in at any time;
//!     whoever brings some and finds it set serves the line.
//! P2. While `WAITERS` is set, the permits in the word are being gathered for
//!     the front of the queue: nobody takes them past it. So permits are given
//!     in the order of arrival, however many each one wants.
//! P3. A waiter is queued only while `WAITERS` is set, except after `close`,
//!     which clears it and then dismisses whoever is left.
//! P4. `CLOSED` is never cleared, and from then on nobody gets a permit.
//!
//! Without waiters, taking is one compare-and-swap and giving back one addition,
//! and the lock is not touched. A releaser that overlooks a waiter is impossible:
//! the waiter's `WAITERS` and the releaser's permits are written to the same
//! word, so either the waiter's exchange fails and it looks again, or the
//! releaser has added to a word that says so.
//!
//! The word is changed by read-modify-writes only, each of which goes on with the
//! release sequences of those before: whoever acquires it sees what every giver
//! did.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use blitzen_util::coop;
use blitzen_util::shim::Peek;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use blitzen_util::shim::atomic::{AtomicUsize, fence};
use blitzen_util::wake_batch::{self, WakeBatch};

use crate::queue::{Line, Queue, Status, Waiter};
use crate::semaphore::{AcquireError, TryAcquireError};

const CLOSED: usize = 1;
const WAITERS: usize = 2;
const SHIFT: u32 = 2;

/// The most permits there can be.
pub(crate) const MAX: usize = usize::MAX >> 3;

/// The greatest word there can be.
const FULL: usize = MAX << SHIFT | WAITERS | CLOSED;

#[derive(Clone, Copy)]
struct Word(usize);

impl Word {
    #[inline(always)]
    const fn new(permits: usize) -> Self {
        Self(permits << SHIFT)
    }

    #[inline(always)]
    fn permits(self) -> usize {
        self.0 >> SHIFT
    }

    #[inline(always)]
    fn has_waiters(self) -> bool {
        self.0 & WAITERS != 0
    }

    #[inline(always)]
    fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    /// Whether a newcomer may take `count` permits: P2 and P4.
    #[inline(always)]
    fn can_give(self, count: usize) -> bool {
        self.0 & (CLOSED | WAITERS) == 0 && self.0 >= count << SHIFT
    }
}

pub(crate) struct Permits {
    word: AtomicUsize,
    queue: Queue,
}

impl Permits {
    const_unless_loom! {
        /// So many permits, at most [`MAX`].
        pub(crate) fn new(permits: usize) -> Self {
            Self {
                word: AtomicUsize::new(Word::new(permits).0),
                queue: Queue::new(()),
            }
        }
    }

    const_unless_loom! {
        /// No permits, and never any.
        pub(crate) fn new_closed() -> Self {
            Self {
                word: AtomicUsize::new(CLOSED),
                queue: Queue::new(()),
            }
        }
    }

    #[inline(always)]
    fn word(&self) -> Word {
        Word(self.word.peek(Relaxed))
    }

    /// How many a newcomer could take.
    pub(crate) fn available(&self) -> usize {
        // Acquire, met by the Release in `release`: a caller that sees a permit
        // back sees what was done with it.
        let word = Word(self.word.peek(Acquire));
        match word.has_waiters() {
            true => 0, // P2
            false => word.permits(),
        }
    }

    #[inline(always)]
    pub(crate) fn is_closed(&self) -> bool {
        // Acquire, met by the Release of `CLOSED` in `shut`: what was done
        // before the close is seen.
        Word(self.word.peek(Acquire)).is_closed()
    }

    #[inline(always)]
    pub(crate) fn try_acquire(&self, count: usize) -> Result<(), TryAcquireError> {
        match self.take_while_any(self.word(), count) {
            Ok(()) => Ok(()),
            Err(word) => refusal(word, count),
        }
    }

    /// Takes permits for as long as there are enough, if the word is this one or
    /// another. Else says what it is.
    #[inline(always)]
    fn take_while_any(&self, mut word: Word, count: usize) -> Result<(), Word> {
        while word.can_give(count) {
            match self.take(word, count) {
                Ok(()) => return Ok(()),
                Err(changed) => word = changed,
            }
        }
        Err(word)
    }

    #[inline(always)]
    fn take(&self, word: Word, count: usize) -> Result<(), Word> {
        let rest = word.0 - (count << SHIFT);
        // Acquire, met by the Release in `release`: what the last holder did is
        // seen by the next.
        match self
            .word
            .compare_exchange_weak(word.0, rest, Acquire, Relaxed)
        {
            Ok(_) => Ok(()),
            Err(changed) => Err(Word(changed)),
        }
    }

    /// Takes the permits, or gets in line for them. There are `free` permits, as
    /// far as the caller knows, while nobody has any.
    ///
    /// # Safety
    /// `waiter` belongs to the caller, is used with no other permits, and stays
    /// in place until [`abandon`](Self::abandon) or until this is ready.
    #[inline(always)]
    pub(crate) unsafe fn poll_acquire(
        &self,
        waiter: &Waiter,
        count: usize,
        free: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), AcquireError>> {
        if waiter.status() == Status::Idle {
            // A guess, and right where nobody else is. Looking at a word that has
            // just been exchanged costs as much again as the exchange; and where
            // others write it too, an exchange that fails has at least fetched it
            // for the next one.
            let mut word = Word::new(free);
            if !word.can_give(count) || !coop::has_budget_remaining() {
                word = self.word();
            }
            if word.can_give(count) {
                // A task that has to yield does not take permits along: others
                // would queue behind a task that is not running.
                let Poll::Ready(spent) = coop::poll_proceed(cx) else {
                    return Poll::Pending;
                };
                if self.take_while_any(word, count).is_ok() {
                    spent.made_progress();
                    return Poll::Ready(Ok(()));
                }
            }
        }
        // SAFETY: handed on.
        unsafe { self.poll_in_line(waiter, count, cx) }
    }

    /// # Safety
    /// As for [`poll_acquire`](Self::poll_acquire).
    #[cold]
    #[inline(never)]
    unsafe fn poll_in_line(
        &self,
        waiter: &Waiter,
        count: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), AcquireError>> {
        loop {
            return match waiter.status() {
                // SAFETY: handed on.
                Status::Idle => unsafe { self.get_in_line(waiter, count, cx) },
                Status::Queued => {
                    // SAFETY: it stands in this queue or has been settled.
                    if unsafe { self.queue.refresh(waiter, cx) } {
                        Poll::Pending
                    } else {
                        continue;
                    }
                }
                Status::Granted | Status::GrantedLast => within_budget(waiter, cx),
                Status::Dismissed => Poll::Ready(Err(AcquireError::closed())),
                Status::Left => unreachable!("it leaves when it is dropped"),
            };
        }
    }

    /// # Safety
    /// As for [`poll_acquire`](Self::poll_acquire), and the waiter is idle.
    unsafe fn get_in_line(
        &self,
        waiter: &Waiter,
        count: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), AcquireError>> {
        if self.is_closed() {
            return Poll::Ready(Err(AcquireError::closed()));
        }
        let waker = cx.waker().clone();
        let mut line = self.queue.lock();
        let mut word = self.word();
        loop {
            if word.is_closed() {
                // Acquire, as in `is_closed`: the error tells of the close.
                fence(Acquire);
                return Poll::Ready(Err(AcquireError::closed()));
            }
            if count == 0 {
                break; // nothing to wait for, whoever else does
            }
            if word.can_give(count) {
                match self.take(word, count) {
                    Ok(()) => break,
                    Err(changed) => word = changed,
                }
                continue;
            }
            if !word.has_waiters() {
                // Relaxed: the lock tells of who waits, and `serve_some` acquires
                // what the givers did.
                let waiting = word.0 | WAITERS;
                let set = self
                    .word
                    .compare_exchange_weak(word.0, waiting, Relaxed, Relaxed);
                if let Err(changed) = set {
                    word = Word(changed);
                    continue;
                }
            }
            // SAFETY: idle, and kept in place by the caller, who abandons it.
            unsafe { line.push(waiter, count, Some(waker)) };
            return Poll::Pending;
        }
        drop(line);
        within_budget(waiter, cx)
    }

    /// Leaves the line; what had been granted goes to the next.
    ///
    /// # Safety
    /// `waiter` is used with these permits only.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn abandon(&self, waiter: &Waiter, count: usize) {
        if waiter.status() == Status::Queued {
            let mut line = self.queue.lock();
            // SAFETY: it stands in this queue or has been settled.
            if unsafe { line.remove(waiter) }.is_some() {
                return self.serve_after_leaving(line);
            }
        }
        if waiter.status() == Status::Granted {
            self.release(count);
        }
    }

    /// Restores P2 and P3 when somebody has left the line unserved.
    fn serve_after_leaving(&self, line: Line<'_>) {
        let word = self.word();
        match line.front() {
            // Whoever is at the front now may want less.
            Some(wanted) if word.has_waiters() && wanted <= word.permits() => self.serve(line),
            Some(_) => {}
            // Relaxed: it tells nobody anything.
            None if word.has_waiters() => drop(self.word.fetch_sub(WAITERS, Relaxed)),
            None => {}
        }
    }

    /// Gives permits back, or adds new ones.
    ///
    /// # Panics
    /// If there would be more than [`MAX`].
    #[inline(always)]
    #[track_caller]
    pub(crate) fn release(&self, count: usize) {
        // Release, met by the Acquire in `take`.
        let before = Word(self.word.fetch_add(count << SHIFT, Release));
        if before.has_waiters() || before.0 > FULL - (count << SHIFT) {
            self.release_to_line(before, count);
        }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn release_to_line(&self, before: Word, count: usize) {
        let line = self.queue.lock();
        if before.permits() + count > MAX {
            self.take_back(count);
            drop(line);
            panic!("number of added permits ({count}) would overflow MAX_PERMITS ({MAX})");
        }
        self.serve(line);
    }

    /// Undoes a release, under the lock as P1 wants it; as far as nobody has
    /// taken the permits yet.
    fn take_back(&self, count: usize) {
        let less = |word: usize| Some(word - (Word(word).permits().min(count) << SHIFT));
        // Relaxed: nobody learns anything from it.
        let _ = self.word.fetch_update(Relaxed, Relaxed, less);
    }

    #[inline(always)]
    fn serve(&self, line: Line<'_>) {
        let mut line = Some(line);
        wake_batch::in_rounds(|batch| {
            let mut line = line.take().unwrap_or_else(|| self.queue.lock());
            self.serve_some(&mut line, batch)
        });
    }

    /// Serves the line until the permits or the room in the batch run out. True
    /// if there is more to serve.
    fn serve_some(&self, line: &mut Line<'_>, batch: &mut WakeBatch) -> bool {
        // Acquire, met by the Release in `release`: what the givers did is handed
        // on with the grant.
        let word = Word(self.word.peek(Acquire));
        if !word.has_waiters() {
            return false; // served by somebody else, or closed
        }
        let mut given = 0;
        let mut more = false;
        while let Some(wanted) = line.front() {
            if wanted > word.permits() - given {
                break;
            }
            if batch.is_full() {
                more = true;
                break;
            }
            given += wanted;
            line.settle_front(Status::Granted, batch);
        }
        let waiters = match line.is_empty() {
            true => WAITERS,
            false => 0,
        };
        // P1: none of them has left since. What has come in has somebody who
        // serves it, and is waiting for this lock. Relaxed: the lock, or the
        // grant, tells of all this.
        self.word.fetch_sub((given << SHIFT) + waiters, Relaxed);
        more
    }

    /// Takes away up to `count` permits for good; returns how many.
    pub(crate) fn forget(&self, count: usize) -> usize {
        let mut word = self.word();
        loop {
            if word.has_waiters() {
                return 0; // P2: they belong to the line
            }
            let taken = word.permits().min(count);
            let rest = word.0 - (taken << SHIFT);
            // Acquire, as in `take`.
            match self
                .word
                .compare_exchange_weak(word.0, rest, Acquire, Relaxed)
            {
                Ok(_) => return taken,
                Err(changed) => word = Word(changed),
            }
        }
    }

    /// Refuses all permits from now on, and dismisses whoever waits.
    #[inline]
    pub(crate) fn close(&self) {
        let mut word = self.word();
        while !word.has_waiters() {
            // Release, met by the Acquire in `is_closed`.
            match self
                .word
                .compare_exchange_weak(word.0, word.0 | CLOSED, Release, Relaxed)
            {
                Ok(_) => return,
                Err(changed) => word = Word(changed),
            }
        }
        self.close_line();
    }

    #[cold]
    #[inline(never)]
    fn close_line(&self) {
        wake_batch::in_rounds(|batch| self.shut(batch));
    }

    /// Closes after running `before`, which nobody else does. False, without
    /// running it, if it was closed already.
    pub(crate) fn close_once(&self, before: impl FnOnce()) -> bool {
        let line = self.queue.lock();
        if self.is_closed() {
            return false;
        }
        before();
        if line.is_empty() {
            // Release, met by the Acquire in `is_closed`.
            self.word.fetch_or(CLOSED, Release);
            return true;
        }
        let mut line = Some(line);
        wake_batch::in_rounds(|batch| {
            let mut line = line.take().unwrap_or_else(|| self.queue.lock());
            self.shut_line(&mut line, batch)
        });
        true
    }

    /// One round of `close`: true if the batch is full and waiters are left.
    pub(crate) fn shut(&self, batch: &mut WakeBatch) -> bool {
        self.shut_line(&mut self.queue.lock(), batch)
    }

    fn shut_line(&self, line: &mut Line<'_>, batch: &mut WakeBatch) -> bool {
        // P3 wants `WAITERS` cleared; P4 says that `CLOSED` is not set with it.
        // Release, met by the Acquire in `is_closed`.
        match self.word().has_waiters() {
            true => self.word.fetch_xor(WAITERS | CLOSED, Release),
            false => self.word.fetch_or(CLOSED, Release),
        };
        while !line.is_empty() {
            if batch.is_full() {
                return true;
            }
            line.settle_front(Status::Dismissed, batch);
        }
        false
    }
}

#[cold]
fn refusal(word: Word, count: usize) -> Result<(), TryAcquireError> {
    if word.is_closed() {
        Err(TryAcquireError::Closed)
    } else if count == 0 {
        Ok(())
    } else {
        Err(TryAcquireError::NoPermits)
    }
}

/// Hands over a permit that has been taken. If the task's budget is used up it
/// is kept for the next poll, so that yielding does not cost its place in line.
#[inline(always)]
fn within_budget(waiter: &Waiter, cx: &mut Context<'_>) -> Poll<Result<(), AcquireError>> {
    match coop::poll_proceed(cx) {
        Poll::Ready(spent) => {
            spent.made_progress();
            Poll::Ready(Ok(()))
        }
        Poll::Pending => {
            waiter.settle_unqueued(Status::Granted);
            Poll::Pending
        }
    }
}

/// What an [`Acquiring`] future acquires, and makes of it.
pub(crate) trait Claim {
    type Output;

    fn permits(&self) -> &Permits;

    fn count(&self) -> usize;

    /// How many there are while nobody has any, if that is known; else 0.
    fn free(&self) -> usize;

    /// The permits are the claimant's, or never will be.
    fn settle(self, outcome: Result<(), AcquireError>) -> Self::Output;
}

/// The future of every acquire: lock, read, write, acquire, owned or not.
#[must_use = "futures do nothing unless polled"]
pub(crate) struct Acquiring<C: Claim> {
    /// `None` once it has been settled.
    claim: Option<C>,
    waiter: Waiter,
}

impl<C: Claim> Acquiring<C> {
    #[inline(always)]
    pub(crate) fn new(claim: C) -> Self {
        Self {
            claim: Some(claim),
            waiter: Waiter::new(),
        }
    }
}

impl<C: Claim> Future for Acquiring<C> {
    type Output = C::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        // SAFETY: the waiter, which must stay in place, is only lent.
        let this = unsafe { self.get_unchecked_mut() };
        let Some(claim) = &this.claim else {
            resumed_after_completion()
        };
        // SAFETY: pinned with the future, whose `drop` abandons it.
        let poll = unsafe {
            claim
                .permits()
                .poll_acquire(&this.waiter, claim.count(), claim.free(), cx)
        };
        let Poll::Ready(outcome) = poll else {
            return Poll::Pending;
        };
        match this.claim.take() {
            Some(claim) => Poll::Ready(claim.settle(outcome)),
            None => resumed_after_completion(),
        }
    }
}

impl<C: Claim> Drop for Acquiring<C> {
    #[inline]
    fn drop(&mut self) {
        if let Some(claim) = &self.claim
            && self.waiter.status() != Status::Idle
        {
            // SAFETY: used with these permits only.
            unsafe { claim.permits().abandon(&self.waiter, claim.count()) };
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
    use blitzen_util::shim::{Arc, thread};
    use loom::future::block_on;
    use std::pin::pin;
    use std::task::Waker;

    /// Waits for permits and gives back nothing: who holds is up to the model.
    struct Take<'a>(&'a Permits, usize);

    impl Claim for Take<'_> {
        type Output = Result<(), AcquireError>;

        fn permits(&self) -> &Permits {
            self.0
        }

        fn count(&self) -> usize {
            self.1
        }

        fn free(&self) -> usize {
            1
        }

        fn settle(self, outcome: Result<(), AcquireError>) -> Self::Output {
            outcome
        }
    }

    fn take(permits: &Permits, count: usize) -> Acquiring<Take<'_>> {
        Acquiring::new(Take(permits, count))
    }

    /// Polls once, with nobody to wake.
    pub(crate) fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn one_permit_excludes_and_publishes() {
        loom::model(|| {
            let shared = Arc::new((Permits::new(1), Watched::new(0)));
            let add = |shared: &(Permits, Watched<i32>)| {
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
    fn a_release_is_never_overlooked_by_a_waiter() {
        loom::model(|| {
            let permits = Arc::new(Permits::new(0));
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
            let permits = Arc::new(Permits::new(0));
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
    fn permits_gathered_one_by_one_publish_what_each_giver_did() {
        loom::model(|| {
            let shared = Arc::new((Permits::new(0), Watched::new(0), Watched::new(0)));
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
            // SAFETY: each giver wrote before it gave.
            let sum = unsafe { shared.1.with(|slot| *slot) + shared.2.with(|slot| *slot) };
            assert_eq!(sum, 2);
            givers.map(|giver| giver.join().unwrap());
            assert_eq!(shared.0.available(), 0);
        });
    }

    #[test]
    fn what_a_giver_leaves_over_publishes_too() {
        loom::model(|| {
            let shared = Arc::new((Permits::new(0), Watched::new(0)));
            let mut waiting = Box::pin(take(&shared.0, 1));
            assert!(poll_once(waiting.as_mut()).is_pending());
            let giver = thread::spawn({
                let shared = shared.clone();
                move || {
                    // SAFETY: read only by who takes what it gives.
                    shared.1.with_mut(|slot| unsafe { *slot = 1 });
                    shared.0.release(2);
                }
            });
            if shared.0.try_acquire(1).is_ok() {
                // SAFETY: written before it was given.
                assert_eq!(shared.1.with(|slot| unsafe { *slot }), 1);
            }
            giver.join().unwrap();
            assert!(poll_once(waiting.as_mut()).is_ready());
        });
    }

    #[test]
    fn a_big_waiter_that_gives_up_frees_what_was_gathered_for_it() {
        loom::model(|| {
            let permits = Arc::new(Permits::new(1));
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
            let shared = Arc::new((Permits::new(0), Watched::new(0)));
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
            let permits = Arc::new(Permits::new(0));
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
}
