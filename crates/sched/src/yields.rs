//! Tasks that have yielded: they resume after everything queued before them has run
//! and the drivers were turned.

use std::cell::{Cell, RefCell};
use std::task::Waker;

use blitzen_util::quiet::quietly;
use blitzen_util::wake_cause::{self, WakeCause};

/// What a worker knows of the yields since its last driver turn.
#[derive(Debug, Default)]
pub(crate) struct Yields {
    /// Whether a task has yielded.
    has_yielded: Cell<bool>,
    /// How many of the tasks queued before the first yield are still to run.
    queued_before: Cell<u32>,
    /// Wakers of futures that are no tasks, called after the next driver turn.
    deferred: RefCell<Vec<Waker>>,
}

impl Yields {
    /// Notes that a task yields, behind `queued` others.
    pub(crate) fn note(&self, queued: u32) {
        if !self.has_yielded.replace(true) {
            self.queued_before.set(queued);
        }
    }

    /// Begins a new round, with a driver turn.
    pub(crate) fn start_round(&self) {
        self.has_yielded.set(false);
    }

    /// Whether a task has yielded since the last driver turn.
    #[inline]
    pub(crate) fn has_yielded(&self) -> bool {
        self.has_yielded.get()
    }

    /// Whether everything queued before the first yield has run.
    pub(crate) fn is_round_over(&self) -> bool {
        self.has_yielded.get() && self.queued_before.get() == 0
    }

    /// Counts a task that is about to be taken from the queue; returns false if all
    /// tasks queued before the first yield have run, and the drivers should be
    /// turned first.
    pub(crate) fn count_task(&self) -> bool {
        if !self.has_yielded.get() {
            return true;
        }
        let left = self.queued_before.get();
        self.queued_before.set(left.saturating_sub(1));
        left > 0
    }

    /// Keeps `waker` until [`wake_deferred`](Self::wake_deferred).
    pub(crate) fn defer(&self, waker: Waker) {
        self.deferred.borrow_mut().push(waker);
    }

    #[inline]
    pub(crate) fn has_deferred(&self) -> bool {
        !self.deferred.borrow().is_empty()
    }

    /// Calls the deferred wakers. They may defer again: only those there now are
    /// called.
    pub(crate) fn wake_deferred(&self) {
        for waker in self.take_deferred() {
            // A foreign waker that panics must not keep the others from theirs.
            quietly(|| wake_cause::during(WakeCause::Yield, || waker.wake()));
        }
    }

    /// Drops the deferred wakers, outside the cell: that is foreign code.
    pub(crate) fn drop_deferred(&self) {
        for waker in self.take_deferred() {
            quietly(|| drop(waker));
        }
    }

    pub(crate) fn take_deferred(&self) -> Vec<Waker> {
        std::mem::take(&mut *self.deferred.borrow_mut())
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_get_their_turn_after_what_was_queued_before_the_first_yield() {
        let yields = Yields::default();
        assert!(yields.count_task() && !yields.is_round_over());
        yields.note(2);
        yields.note(9);
        assert!(yields.count_task() && yields.count_task());
        assert!(yields.is_round_over() && !yields.count_task());
        yields.start_round();
        assert!(yields.count_task());
    }
}
