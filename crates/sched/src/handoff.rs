//! Handing a worker to another thread while its own is in a blocking section, as Go
//! hands off the P of a thread in a system call.
//!
//! The thread leaves its worker in this slot. If the section is short the thread takes
//! the worker back, which costs next to nothing. Otherwise a relief thread claims
//! the worker and runs it.
//!
//! ```text
//!             leave                       take_back
//!   thread ──────────► left, an epoch ─────────────► the same thread
//!                          │ claim
//!                          ▼
//!                       claimed ───────────────────► a relief thread
//! ```
//!
//! H1. Every blocking section has an epoch of its own, by which the worker is
//!     taken back or claimed. A relief thread that comes late, for a section
//!     that has ended, finds another epoch or none.
//! H2. The thread that ends the state `left` owns the worker.
//! H3. A thread whose worker was claimed continues only after the claim is settled:
//!     the claim counts that thread apart from its worker (`shutdown.rs`), and it must
//!     not leave before it is counted.

use std::ptr::null_mut;

use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use blitzen_util::shim::atomic::{AtomicPtr, AtomicU64};
use blitzen_util::shim::thread;

/// The number of a worker's blocking section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

impl Epoch {
    /// The epoch before the first section.
    pub(crate) const NONE: Self = Self(OWNED);

    /// Returns the epoch of the next section.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 2) // wraps after three hundred years of a section each nanosecond
    }
}

/// The worker's thread has it.
const OWNED: u64 = 0;
/// Added to the epoch while a relief thread takes the worker.
const CLAIMED: u64 = 1;

/// The slot in which a thread leaves its worker during a blocking section.
pub(crate) struct Handoff<T> {
    state: AtomicU64,
    left: AtomicPtr<T>,
}

impl<T> Handoff<T> {
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU64::new(OWNED),
            left: AtomicPtr::new(null_mut()),
        }
    }

    /// Leaves the worker here. Called by its owner, which keeps the pointer.
    pub(crate) fn leave(&self, worker: *mut T, epoch: Epoch) {
        self.left.store(worker, Relaxed);
        // Release, met by the Acquire in `claim`: a thread that claims the worker sees
        // it as its thread left it.
        self.state.store(epoch.0, Release);
    }

    /// The blocking section that the worker's thread is in.
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        let state = self.state.load(Relaxed);
        (state != OWNED && state & CLAIMED == 0).then_some(Epoch(state))
    }

    /// Takes the worker back; returns false if a relief thread has claimed it.
    #[must_use]
    pub(crate) fn take_back(&self, epoch: Epoch) -> bool {
        // Relaxed: no other thread has accessed the worker since this one left it.
        if self
            .state
            .compare_exchange(epoch.0, OWNED, Relaxed, Relaxed)
            .is_ok()
        {
            return true;
        }
        // Acquire, met by the second step's Release in `claim`: H3.
        while self.state.load(Acquire) == epoch.0 | CLAIMED {
            thread::yield_now();
        }
        false
    }

    /// Takes the worker of a thread that is in the section `epoch`. Calls `settle`
    /// before that thread may continue (H3).
    pub(crate) fn claim(&self, epoch: Epoch, settle: impl FnOnce()) -> Option<*mut T> {
        // Acquire, met by the Release in `leave`.
        self.state
            .compare_exchange(epoch.0, epoch.0 | CLAIMED, Acquire, Relaxed)
            .ok()?;
        let worker = self.left.load(Relaxed);
        settle();
        // Release, met by the Acquire in `take_back`: H3.
        self.state.store(OWNED, Release);
        Some(worker)
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_claim_that_comes_late_finds_another_epoch_or_none() {
        let (handoff, mut worker) = (Handoff::new(), 7);
        let worker: *mut i32 = &mut worker;
        let first = Epoch::NONE.next();
        assert_eq!(handoff.epoch(), None);
        handoff.leave(worker, first);
        assert_eq!(handoff.epoch(), Some(first));
        assert!(handoff.take_back(first));
        assert!(handoff.claim(first, || unreachable!()).is_none());
        let second = first.next();
        handoff.leave(worker, second);
        assert!(handoff.claim(first, || unreachable!()).is_none());
        assert_eq!(handoff.claim(second, || ()), Some(worker));
        assert!(!handoff.take_back(second));
        // The thread that has the worker now leaves it too.
        handoff.leave(worker, second.next());
        assert!(!handoff.take_back(second));
        assert!(handoff.take_back(second.next()));
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::shim::Arc;
    use blitzen_util::shim::atomic::AtomicUsize;
    use blitzen_util::shim::cell::UnsafeCell;

    struct Model {
        handoff: Handoff<()>,
        /// What the worker is: its owner's alone.
        worker: UnsafeCell<u32>,
        /// Threads counted on their own.
        present: AtomicUsize,
    }

    // SAFETY: the worker is touched by its owner, as the model checks.
    unsafe impl Sync for Model {}
    // SAFETY: as above.
    unsafe impl Send for Model {}

    impl Model {
        fn work(&self) {
            // SAFETY: the caller owns the worker; loom says if it does not.
            self.worker.with_mut(|worker| unsafe { *worker += 1 });
        }

        fn blocking_section(&self, epoch: Epoch) -> bool {
            self.work();
            self.handoff.leave(null_mut(), epoch);
            let has_it = self.handoff.take_back(epoch);
            match has_it {
                true => self.work(),
                false => assert_eq!(self.present.load(Relaxed), 1, "H3"),
            }
            has_it
        }

        /// A section of the relief thread, which nobody claims.
        fn unclaimed_section(&self, epoch: Epoch) -> bool {
            self.work();
            self.handoff.leave(null_mut(), epoch);
            let has_it = self.handoff.take_back(epoch);
            self.work();
            has_it
        }
    }

    #[test]
    fn a_worker_that_is_left_has_one_owner_and_its_thread_is_counted() {
        loom::model(|| {
            let model = Arc::new(Model {
                handoff: Handoff::new(),
                worker: UnsafeCell::new(0),
                present: AtomicUsize::new(0),
            });
            let first = Epoch::NONE.next();
            let relief = thread::spawn({
                let model = model.clone();
                move || {
                    let count = || {
                        model.present.fetch_add(1, Relaxed);
                    };
                    let has_it = model.handoff.claim(first, count).is_some();
                    assert!(!has_it || model.unclaimed_section(first.next()));
                    has_it
                }
            });
            let is_back = model.blocking_section(first);
            let is_claimed = relief.join().unwrap();
            assert!(is_back ^ is_claimed);
            let worked = model.worker.with(|worker| {
                // SAFETY: both are through.
                unsafe { *worker }
            });
            assert_eq!(worked, if is_claimed { 3 } else { 2 });
        });
    }
}
