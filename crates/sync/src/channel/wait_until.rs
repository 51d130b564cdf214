//! Waiting in a queue for an event that wakes all of its waiters.
//!
//! The event happens before its thread locks the queue to settle the waiters, and a
//! waiter checks once more under the same lock: one of the two sees the other.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use blitzen_util::coop;
use blitzen_util::wait::{self, WaitKind};
use blitzen_util::wake_batch::{self, WakeBatch};

use crate::wait_queue::{Outcome, WaitQueue, Waiter, WaiterStatus};

/// A waiter of a queue, removed when it is dropped.
pub(super) struct QueueEntry<'a, S = ()> {
    queue: &'a WaitQueue<S>,
    waiter: Waiter,
}

impl<'a, S> QueueEntry<'a, S> {
    #[inline(always)]
    pub(super) fn new(queue: &'a WaitQueue<S>) -> Self {
        Self {
            queue,
            waiter: Waiter::new(),
        }
    }

    /// Joins the queue with the tag that `must_wait` returns under its lock.
    /// Returns false if it returns none, or if the waiter has been settled: check
    /// the condition again.
    pub(super) fn wait(
        self: Pin<&Self>,
        cx: &Context<'_>,
        must_wait: impl FnOnce(&mut S) -> Option<usize>,
    ) -> bool {
        let entry = self.get_ref();
        if entry.waiter.status() == WaiterStatus::Queued {
            // SAFETY: it is in this queue or has been settled.
            return unsafe { entry.queue.refresh(&entry.waiter, cx) };
        }
        // SAFETY: ours, and not queued; it is removed only by `drop`.
        unsafe { entry.waiter.reset() };
        let waker = cx.waker().clone();
        let mut waiters = entry.queue.lock();
        match must_wait(waiters.state()) {
            // SAFETY: idle, pinned, and removed by `drop`.
            Some(tag) => unsafe { waiters.push(&entry.waiter, tag, Some(waker)) },
            None => {
                drop(waiters); // before the waker
                return false;
            }
        }
        true
    }
}

impl<S> Drop for QueueEntry<'_, S> {
    #[inline]
    fn drop(&mut self) {
        if self.waiter.status() == WaiterStatus::Queued {
            // SAFETY: it is in this queue or has been settled.
            unsafe { self.queue.lock().remove(&self.waiter) };
        }
    }
}

/// Waits in `queue` until `happened` returns true.
pub(super) async fn wait_until(queue: &WaitQueue, happened: impl Fn() -> bool) {
    let entry = pin!(QueueEntry::new(queue));
    let entry = entry.into_ref();
    poll_fn(|cx| {
        let spent = ready!(coop::poll_proceed(cx));
        while !happened() {
            if entry.wait(cx, |()| (!happened()).then_some(0)) {
                wait::pending_on(WaitKind::ChannelClosed, queue);
                return Poll::Pending;
            }
        }
        spent.made_progress();
        Poll::Ready(())
    })
    .await;
}

/// Wakes every waiter of `queue` to check its condition again.
pub(super) fn wake_all_waiters(queue: &WaitQueue) {
    wake_batch::in_rounds(|batch| release_round(queue, batch));
}

/// One round of [`wake_all_waiters`]. Returns true if the batch is full and waiters
/// are left.
pub(super) fn release_round(queue: &WaitQueue, batch: &mut WakeBatch) -> bool {
    let mut waiters = queue.lock();
    while !waiters.is_empty() {
        if batch.is_full() {
            return true;
        }
        waiters.settle_front(Outcome::Released, batch);
    }
    false
}
