//! Waiting in a queue for something that everybody in it is told at once.
//!
//! Whoever makes it happen does so before it settles those in the queue, and
//! whoever waits looks once more under the queue's lock: one of them sees the
//! other.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use blitzen_util::coop;
use blitzen_util::wake_batch;

use crate::queue::{Queue, Status, Waiter};

/// A place in a queue, left when it is dropped.
pub(super) struct Place<'a, S = ()> {
    queue: &'a Queue<S>,
    waiter: Waiter,
}

impl<'a, S> Place<'a, S> {
    #[inline(always)]
    pub(super) fn new(queue: &'a Queue<S>) -> Self {
        Self {
            queue,
            waiter: Waiter::new(),
        }
    }

    /// Stands in the queue, with the tag that `must_wait` gives under its lock.
    /// False if it gives none, or if the waiter has been settled: look again.
    pub(super) fn wait(
        self: Pin<&Self>,
        cx: &Context<'_>,
        must_wait: impl FnOnce(&mut S) -> Option<usize>,
    ) -> bool {
        let place = self.get_ref();
        if place.waiter.status() == Status::Queued {
            // SAFETY: it stands in this queue or has been settled.
            return unsafe { place.queue.refresh(&place.waiter, cx) };
        }
        place.waiter.settle_unqueued(Status::Idle);
        let waker = cx.waker().clone();
        let mut line = place.queue.lock();
        match must_wait(line.state()) {
            // SAFETY: idle, pinned, and removed by `drop`.
            Some(tag) => unsafe { line.push(&place.waiter, tag, Some(waker)) },
            None => {
                drop(line); // before the waker
                return false;
            }
        }
        true
    }
}

impl<S> Drop for Place<'_, S> {
    #[inline]
    fn drop(&mut self) {
        if self.waiter.status() == Status::Queued {
            // SAFETY: it stands in this queue or has been settled.
            unsafe { self.queue.lock().remove(&self.waiter) };
        }
    }
}

/// Waits in `queue` until `happened` says so.
pub(super) async fn until(queue: &Queue, happened: impl Fn() -> bool) {
    let place = pin!(Place::new(queue));
    let place = place.into_ref();
    poll_fn(|cx| {
        let spent = ready!(coop::poll_proceed(cx));
        while !happened() {
            if place.wait(cx, |()| (!happened()).then_some(0)) {
                return Poll::Pending;
            }
        }
        spent.made_progress();
        Poll::Ready(())
    })
    .await;
}

/// Has everybody in `queue` look again.
pub(super) fn dismiss_all(queue: &Queue) {
    wake_batch::in_rounds(|batch| {
        let mut line = queue.lock();
        while !line.is_empty() && !batch.is_full() {
            line.settle_front(Status::Dismissed, batch);
        }
        !line.is_empty()
    });
}
