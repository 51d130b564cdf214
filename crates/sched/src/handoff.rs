//! A worker whose thread is on an errand: a call that should be short, and may
//! turn out to be long.
//!
//! The thread leaves its worker behind for the while. If it is back soon, it
//! takes it up again, which costs next to nothing. If it is not, somebody who
//! looks after workers sends another thread, which goes on with the worker.
//!
//! ```text
//!             leave                      take up
//!   thread ──────────► out, a epoch ─────────────► thread
//!                          │ claim
//!                          ▼
//!                      claimed ───────────────────► another thread
//! ```
//!
//! N1. Every errand has a epoch of its own, by which it is taken up or claimed:
//!     who is late, for an errand that has ended, finds another one or none.
//! N2. Whoever ends `out` owns the worker.
//! N3. A thread whose worker was claimed goes on only after the claim is settled:
//!     by then it is counted for itself, and must not leave before.

use std::ptr::null_mut;

use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use blitzen_util::shim::atomic::{AtomicPtr, AtomicU64};
use blitzen_util::shim::thread;

/// The number of an errand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

impl Epoch {
    /// Before the first.
    pub(crate) const NONE: Self = Self(IN);

    pub(crate) fn next(self) -> Self {
        Self(self.0 + 2) // at a thousand million a second for three hundred years
    }
}

/// Nobody is on an errand.
const IN: u64 = 0;
/// Added to the epoch while somebody takes the worker away.
const CLAIMED: u64 = 1;

/// Where a worker is left.
pub(crate) struct Handoff<T> {
    state: AtomicU64,
    left: AtomicPtr<T>,
}

impl<T> Handoff<T> {
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU64::new(IN),
            left: AtomicPtr::new(null_mut()),
        }
    }

    /// Leaves the worker. By its owner, which keeps the pointer.
    pub(crate) fn leave(&self, worker: *mut T, epoch: Epoch) {
        self.left.store(worker, Relaxed);
        // Release, met by the Acquire in `claim`: who takes the worker sees it
        // as its thread left it.
        self.state.store(epoch.0, Release);
    }

    /// The errand that somebody is on.
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        let state = self.state.load(Relaxed);
        (state != IN && state & CLAIMED == 0).then_some(Epoch(state))
    }

    /// Takes the worker up again; false if it is somebody else's by now.
    #[must_use]
    pub(crate) fn take_back(&self, epoch: Epoch) -> bool {
        // Relaxed: nobody has touched what this thread left.
        if self
            .state
            .compare_exchange(epoch.0, IN, Relaxed, Relaxed)
            .is_ok()
        {
            return true;
        }
        // Acquire, met by the second step's Release in `claim`: N3.
        while self.state.load(Acquire) == epoch.0 | CLAIMED {
            thread::yield_now();
        }
        false
    }

    /// Takes the worker away from a thread that is on the errand `epoch`;
    /// `settle` does what has to be done before that thread may go on.
    pub(crate) fn claim(&self, epoch: Epoch, settle: impl FnOnce()) -> Option<*mut T> {
        // Acquire, met by the Release in `leave`.
        self.state
            .compare_exchange(epoch.0, epoch.0 | CLAIMED, Acquire, Relaxed)
            .ok()?;
        let worker = self.left.load(Relaxed);
        settle();
        // Release, met by the Acquire in `take_back`: N3.
        self.state.store(IN, Release);
        Some(worker)
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_comes_late_finds_another_errand_or_none() {
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
        // The one who has it now leaves it in its turn.
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

    struct Place {
        handoff: Handoff<()>,
        /// What the worker is: its owner's alone.
        worker: UnsafeCell<u32>,
        /// Threads counted for themselves.
        present: AtomicUsize,
    }

    // SAFETY: the worker is touched by its owner, as the model checks.
    unsafe impl Sync for Place {}
    // SAFETY: as above.
    unsafe impl Send for Place {}

    impl Place {
        fn work(&self) {
            // SAFETY: the caller owns the worker; loom says if it does not.
            self.worker.with_mut(|worker| unsafe { *worker += 1 });
        }

        fn errand(&self, epoch: Epoch) -> bool {
            self.work();
            self.handoff.leave(null_mut(), epoch);
            let is_back = self.handoff.take_back(epoch);
            match is_back {
                true => self.work(),
                false => assert_eq!(self.present.load(Relaxed), 1, "N3"),
            }
            is_back
        }
    }

    #[test]
    fn a_worker_that_is_left_has_one_owner_and_its_thread_is_counted() {
        loom::model(|| {
            let place = Arc::new(Place {
                handoff: Handoff::new(),
                worker: UnsafeCell::new(0),
                present: AtomicUsize::new(0),
            });
            let first = Epoch::NONE.next();
            let other = thread::spawn({
                let place = place.clone();
                move || {
                    let count = || drop(place.present.fetch_add(1, Relaxed));
                    let has_it = place.handoff.claim(first, count).is_some();
                    // On an errand itself, which nobody claims.
                    assert!(!has_it || place.errand_of_successor(first));
                    has_it
                }
            });
            let is_back = place.errand(first);
            let is_claimed = other.join().unwrap();
            assert!(is_back ^ is_claimed);
            let worked = place.worker.with(|worker| {
                // SAFETY: both are through.
                unsafe { *worker }
            });
            assert_eq!(worked, if is_claimed { 3 } else { 2 });
        });
    }

    impl Place {
        fn errand_of_successor(&self, first: Epoch) -> bool {
            let epoch = first.next();
            self.work();
            self.handoff.leave(null_mut(), epoch);
            let is_back = self.handoff.take_back(epoch);
            self.work();
            is_back
        }
    }
}
