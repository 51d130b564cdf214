//! Threads of the blocking pool that have nothing to do.
//!
//! B4. A thread that is taken off the idle list is unparked, once, by whoever took
//!     it off: for a job, or to end. It looks into the queue before it ends.

use std::sync::Arc;
use std::time::Instant;

use blitzen_util::park::Parker;
use blitzen_util::shim::atomic::AtomicBool;
use blitzen_util::shim::atomic::Ordering::Relaxed;
use blitzen_util::spin::Spin;

/// Where an idle thread waits, and what it is unparked for.
pub(super) struct IdleParker {
    pub(super) parker: Parker,
    is_dismissed: AtomicBool,
    pub(super) spin: Spin,
}

impl IdleParker {
    pub(super) fn new(spin: Spin) -> Self {
        Self {
            parker: Parker::new(),
            is_dismissed: AtomicBool::new(false),
            spin,
        }
    }

    /// Unparks the thread for a job.
    pub(super) fn summon(&self) {
        self.parker.unpark();
    }

    /// Unparks the thread to end.
    fn dismiss(&self) {
        self.is_dismissed.store(true, Relaxed); // published by the token
        self.parker.unpark();
    }

    /// Returns whether the thread was unparked to end, and resets that.
    pub(super) fn take_dismissal(&self) -> bool {
        let is_dismissed = self.is_dismissed.load(Relaxed);
        self.is_dismissed.store(false, Relaxed);
        is_dismissed
    }
}

/// An idle thread.
pub(super) struct IdleThread {
    pub(super) number: usize,
    pub(super) parker: Arc<IdleParker>,
    /// When it has been idle for the keep-alive, if ever.
    pub(super) end: Option<Instant>,
}

/// Idle threads, in the order in which they became idle.
#[derive(Default)]
pub(super) struct IdleList {
    threads: Vec<IdleThread>,
}

impl IdleList {
    pub(super) fn len(&self) -> usize {
        self.threads.len()
    }

    pub(super) fn push(&mut self, thread: IdleThread) {
        self.threads.push(thread);
    }

    /// Takes the thread that may still be spinning, or else the one that became
    /// idle last.
    pub(super) fn pop(&mut self, last_spinning: usize) -> Option<IdleThread> {
        let last = self.threads.len().checked_sub(1)?;
        let spinning = |thread: &IdleThread| thread.number == last_spinning;
        let index = self.threads.iter().rposition(spinning);
        Some(self.threads.remove(index.unwrap_or(last)))
    }

    /// Removes a thread from the list; returns false if it was removed before.
    pub(super) fn remove(&mut self, number: usize) -> bool {
        let index = self.threads.iter().position(|one| one.number == number);
        index.map(|index| self.threads.remove(index)).is_some()
    }

    /// Dismisses the threads that have been idle for long enough at `now`; returns
    /// when the next one will have been, if any is left.
    pub(super) fn dismiss_expired(&mut self, now: Instant) -> Option<Instant> {
        let has_expired = |thread: &IdleThread| thread.end.is_some_and(|end| end <= now);
        let expired = self.threads.partition_point(has_expired);
        for thread in self.threads.drain(..expired) {
            thread.parker.dismiss();
        }
        self.threads.first().and_then(|thread| thread.end)
    }

    /// Takes all threads.
    pub(super) fn take_all(&mut self) -> Vec<IdleThread> {
        std::mem::take(&mut self.threads)
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_may_still_spin_is_taken_first() {
        let mut list = IdleList::default();
        for number in [1, 2, 3] {
            list.push(IdleThread {
                number,
                parker: Arc::new(IdleParker::new(Spin::new(None))),
                end: None,
            });
        }
        let mut pop = |spinning| list.pop(spinning).map(|thread| thread.number);
        assert_eq!(pop(2), Some(2));
        assert_eq!(pop(2), Some(3), "the last to become idle");
        assert_eq!(pop(4), Some(1), "4 is at work");
        assert_eq!(pop(4), None);
    }
}
