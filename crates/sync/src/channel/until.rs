//! Waiting for something that is rare and told to everybody, such as a close.
//!
//! Whoever makes it happen does so before it [dismisses](dismiss_all) the queue,
//! and whoever waits looks under the queue's lock: one of them sees the other.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;
use blitzen_util::wake_batch;

use crate::queue::{Queue, Status, Waiter};

/// Waits in `queue` until `happened` says so.
pub(super) fn until<F: Fn() -> bool>(queue: &Queue, happened: F) -> Until<'_, F> {
    Until {
        queue,
        happened,
        waiter: Waiter::new(),
    }
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

/// The future of [`until`].
pub(super) struct Until<'a, F> {
    queue: &'a Queue,
    happened: F,
    waiter: Waiter,
}

impl<F: Fn() -> bool> Future for Until<'_, F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let spent = ready!(coop::poll_proceed(cx));
        let this = self.into_ref().get_ref();
        loop {
            if (this.happened)() {
                break;
            }
            // SAFETY: it stands in this queue or has been settled.
            if this.waiter.status() == Status::Queued
                && unsafe { this.queue.refresh(&this.waiter, cx) }
            {
                return Poll::Pending;
            }
            this.waiter.settle_unqueued(Status::Idle);
            let waker = cx.waker().clone();
            let mut line = this.queue.lock();
            if !(this.happened)() {
                // SAFETY: idle, pinned, and removed by `drop`.
                unsafe { line.push(&this.waiter, 0, Some(waker)) };
                return Poll::Pending;
            }
            drop(line); // before the waker
        }
        spent.made_progress();
        Poll::Ready(())
    }
}

impl<F> Drop for Until<'_, F> {
    fn drop(&mut self) {
        if self.waiter.status() == Status::Queued {
            // SAFETY: it stands in this queue or has been settled.
            unsafe { self.queue.lock().remove(&self.waiter) };
        }
    }
}
