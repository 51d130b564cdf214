//! A barrier: tasks wait until a given number of them have arrived.
//!
//! B1. Fewer than `size` tasks have arrived in the current generation, and each of
//!     them is queued.
//! B2. A waiter's tag is its generation. Waiters of an older one precede all
//!     others: their round is complete, and its leader is releasing them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use blitzen_util::coop;
use blitzen_util::wait::{self, WaitKind};
use blitzen_util::wake_batch::{self, WakeBatch};

use crate::resource::BarrierSpan;
use crate::wait_queue::{LockedQueue, Outcome, WaitQueue, Waiter, WaiterStatus};

/// A barrier, at which a number of tasks wait for one another.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use blitzen::sync::Barrier;
///
/// # blitzen::runtime::Runtime::new().unwrap().block_on(async {
/// let barrier = Arc::new(Barrier::new(3));
/// let tasks = [(); 3].map(|()| {
///     let barrier = barrier.clone();
///     blitzen::task::spawn(async move { barrier.wait().await.is_leader() })
/// });
/// let mut leaders = 0;
/// for task in tasks {
///     leaders += u32::from(task.await.unwrap());
/// }
/// assert_eq!(leaders, 1);
/// # });
/// ```
pub struct Barrier {
    size: usize,
    queue: WaitQueue<BarrierRound>,
    _span: BarrierSpan,
}

struct BarrierRound {
    generation: usize,
    arrived: usize,
}

impl Barrier {
    /// Creates a barrier for `n` tasks.
    ///
    /// With 0 or 1, [`wait`](Self::wait) returns at once.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Barrier;
    /// # futures::executor::block_on(async {
    /// assert!(Barrier::new(1).wait().await.is_leader());
    /// # });
    /// ```
    #[cfg_attr(all(tokio_unstable, feature = "resource-spans"), track_caller)]
    pub fn new(n: usize) -> Self {
        Self {
            _span: BarrierSpan::new(n),
            size: n,
            queue: WaitQueue::new(BarrierRound {
                generation: 0,
                arrived: 0,
            }),
        }
    }

    /// Waits until as many tasks wait as the barrier was created for.
    ///
    /// One of them is the leader. The barrier can be used again afterwards.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Barrier;
    /// # futures::executor::block_on(async {
    /// let barrier = Barrier::new(2);
    /// let (one, two) = futures::join!(barrier.wait(), barrier.wait());
    /// assert!(one.is_leader() != two.is_leader());
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before its round is complete, its arrival does not
    /// count.
    #[inline]
    pub fn wait(&self) -> impl Future<Output = BarrierWaitResult> {
        BarrierWait {
            barrier: Some(self),
            waiter: Waiter::new(),
        }
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrived = self.queue.lock().state().arrived;
        f.debug_struct("Barrier")
            .field("size", &self.size)
            .field("arrived", &arrived)
            .finish()
    }
}

/// The result of [`Barrier::wait`].
///
/// # Examples
///
/// ```
/// use blitzen::sync::Barrier;
/// # futures::executor::block_on(async {
/// let met = Barrier::new(1).wait().await;
/// assert_eq!(format!("{met:?}"), "BarrierWaitResult(true)");
/// # });
/// ```
#[derive(Debug, Clone)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// Returns `true` for one task of each round, the leader.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Barrier;
    /// # futures::executor::block_on(async {
    /// assert!(Barrier::new(0).wait().await.is_leader());
    /// # });
    /// ```
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

struct BarrierWait<'a> {
    /// `None` once it has returned.
    barrier: Option<&'a Barrier>,
    waiter: Waiter,
}

impl Future for BarrierWait<'_> {
    type Output = BarrierWaitResult;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<BarrierWaitResult> {
        // SAFETY: the waiter, which must stay in place, is only lent.
        let this = unsafe { self.get_unchecked_mut() };
        let Some(barrier) = this.barrier else {
            panic!("`async fn` resumed after completion");
        };
        let Poll::Ready(spent) = coop::poll_proceed(cx) else {
            return Poll::Pending;
        };
        let leader = if barrier.size <= 1 {
            true
        } else {
            // SAFETY: pinned with the future, whose `drop` takes it out.
            match unsafe { barrier.poll_round(&this.waiter, cx) } {
                Poll::Ready(leader) => leader,
                Poll::Pending => {
                    wait::pending_on(WaitKind::Barrier, barrier);
                    return Poll::Pending;
                }
            }
        };
        spent.made_progress();
        this.barrier = None;
        Poll::Ready(BarrierWaitResult(leader))
    }
}

impl Barrier {
    /// # Safety
    /// `waiter` is used with this barrier only, and is taken out before it moves
    /// or dies.
    unsafe fn poll_round(&self, waiter: &Waiter, cx: &mut Context<'_>) -> Poll<bool> {
        match waiter.status() {
            // SAFETY: the caller upholds the same contract.
            WaiterStatus::Idle => unsafe { self.arrive(waiter, cx) },
            // SAFETY: it is in this queue or has been settled.
            WaiterStatus::Queued if unsafe { self.queue.refresh(waiter, cx) } => Poll::Pending,
            _ => Poll::Ready(false),
        }
    }

    /// # Safety
    /// As for [`poll_round`](Self::poll_round), and the waiter is idle.
    unsafe fn arrive(&self, waiter: &Waiter, cx: &mut Context<'_>) -> Poll<bool> {
        let waker = cx.waker().clone();
        let mut waiters = self.queue.lock();
        let round = waiters.state();
        if round.arrived + 1 < self.size {
            round.arrived += 1;
            let generation = round.generation;
            // SAFETY: idle, and kept in place by the caller.
            unsafe { waiters.push(waiter, generation, Some(waker)) };
            return Poll::Pending;
        }
        round.arrived = 0;
        round.generation = round.generation.wrapping_add(1);
        let mut waiters = Some(waiters);
        wake_batch::in_rounds(|batch| {
            release_older(waiters.take().unwrap_or_else(|| self.queue.lock()), batch)
        });
        Poll::Ready(true)
    }
}

/// B2. True if the batch is full and some are left.
fn release_older(mut waiters: LockedQueue<'_, BarrierRound>, batch: &mut WakeBatch) -> bool {
    let current = waiters.state().generation;
    while waiters.front().is_some_and(|tag| tag != current) {
        if batch.is_full() {
            return true;
        }
        waiters.settle_front(Outcome::Released, batch);
    }
    false
}

impl Drop for BarrierWait<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(barrier) = self.barrier
            && self.waiter.status() == WaiterStatus::Queued
        {
            remove_waiter(barrier, &self.waiter);
        }
    }
}

/// Takes an arrival back.
#[cold]
#[inline(never)]
fn remove_waiter(barrier: &Barrier, waiter: &Waiter) {
    let mut waiters = barrier.queue.lock();
    let current = waiters.state().generation;
    // SAFETY: it is in this queue or has been settled.
    let generation = unsafe { waiters.remove(waiter) };
    if generation == Some(current) {
        waiters.state().arrived -= 1;
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::batch_semaphore::model::poll_once;
    use blitzen_util::shim::atomic::AtomicU32;
    use blitzen_util::shim::atomic::Ordering::{Acquire, Release};
    use blitzen_util::shim::cell::UnsafeCell as Watched;
    use blitzen_util::shim::{Arc, thread};
    use loom::future::block_on;

    #[test]
    fn two_rounds_have_one_leader_each_and_publish() {
        loom::model(|| {
            let shared = Arc::new((Barrier::new(2), [Watched::new(0), Watched::new(0)]));
            let meet = |index: usize, shared: &(Barrier, [Watched<i32>; 2])| {
                // SAFETY: read by the other one only after the barrier.
                shared.1[index].with_mut(|slot| unsafe { *slot += 1 });
                let first = block_on(shared.0.wait()).is_leader();
                // SAFETY: written before the barrier.
                assert_eq!(shared.1[1 - index].with(|slot| unsafe { *slot }), 1);
                let second = block_on(shared.0.wait()).is_leader();
                (first, second)
            };
            let other = shared.clone();
            let thread = thread::spawn(move || meet(1, &other));
            let mine = meet(0, &shared);
            let theirs = thread.join().unwrap();
            assert!(mine.0 != theirs.0 && mine.1 != theirs.1);
        });
    }

    #[test]
    fn one_that_gives_up_does_not_count() {
        loom::model(|| {
            let shared = Arc::new((Barrier::new(2), AtomicU32::new(0)));
            let quitter = thread::spawn({
                let shared = shared.clone();
                move || {
                    let met = poll_once(Box::pin(shared.0.wait()).as_mut()).is_ready();
                    // Release, met by the Acquire below.
                    shared.1.store(1, Release);
                    met
                }
            });
            let mut stayer = Box::pin(shared.0.wait());
            // Acquire, met by the Release above.
            let alone = shared.1.load(Acquire) == 1;
            let met_at_once = poll_once(stayer.as_mut()).is_ready();
            assert!(!(alone && met_at_once), "nobody meets somebody who is gone");
            let quitter_met = quitter.join().unwrap();
            if !met_at_once {
                assert_eq!(poll_once(stayer.as_mut()).is_ready(), quitter_met);
            }
            drop(stayer);
            assert_eq!(shared.0.queue.lock().state().arrived, 0);
        });
    }
}
