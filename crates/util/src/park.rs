//! A one-token thread parker: `park` sleeps until `unpark` has given a token.
//!
//! ```text
//!            unpark                       unpark: wake it
//!   EMPTY ───────────► NOTIFIED ◄───────────────────────── PARKED
//!     ▲                    │                                 ▲
//!     └────────────────────┘                                 │
//!          park: take the token      EMPTY ── park: sleep ───┘
//! ```
//!
//! P1. Only the owner writes `PARKED`, and only over `EMPTY`.
//! P2. A token once given stays until the owner takes it: `park` ends with a
//!     swap, never with a store that could overwrite one just given.

use std::time::{Duration, Instant};

use crate::futex::Futex;
use crate::shim::atomic::Ordering::{Acquire, Relaxed, Release};

const EMPTY: u32 = 0;
const PARKED: u32 = 1;
const NOTIFIED: u32 = 2;

/// Why [`Parker::park_timeout`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakeup {
    /// There was a token, and it has been taken.
    Notified,
    /// The time ran out first.
    TimedOut,
}

/// Parks one thread until another unparks it.
///
/// ```
/// use blitzen_util::park::Parker;
///
/// let parker = Parker::new();
/// parker.unpark(); // a token given early is not lost
/// parker.park();
/// ```
#[derive(Debug)]
pub struct Parker {
    state: Futex,
}

impl Parker {
    /// A parker without a token.
    #[cfg(all(any(target_os = "linux", target_os = "android"), not(blitzen_loom)))]
    pub const fn new() -> Self {
        Self {
            state: Futex::new(EMPTY),
        }
    }

    /// A parker without a token.
    #[cfg(not(all(any(target_os = "linux", target_os = "android"), not(blitzen_loom))))]
    pub fn new() -> Self {
        Self {
            state: Futex::new(EMPTY),
        }
    }

    /// Takes the token, sleeping until there is one.
    ///
    /// Only one thread at a time may park here.
    pub fn park(&self) {
        if !self.begin_park() {
            return;
        }
        loop {
            self.state.wait(PARKED, None);
            if self.take_token() {
                return;
            }
        }
    }

    /// Takes the token, sleeping for it at most `timeout`.
    pub fn park_timeout(&self, timeout: Duration) -> Wakeup {
        if timeout.is_zero() {
            return match self.take_token() {
                true => Wakeup::Notified,
                false => Wakeup::TimedOut,
            };
        }
        // `None` where the end lies beyond what the clock can express: no limit.
        let deadline = Instant::now().checked_add(timeout);
        if !self.begin_park() {
            return Wakeup::Notified;
        }
        loop {
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return self.end_park();
            }
            self.state.wait(PARKED, left);
            if self.take_token() {
                return Wakeup::Notified;
            }
        }
    }

    /// Gives the token, waking the owner if it sleeps.
    #[inline]
    pub fn unpark(&self) {
        // Release, met by the Acquire in `begin_park`, `take_token` and `end_park`:
        // what was written before `unpark` is seen after `park`. Every change of the word is
        // a read-modify-write, so the release of an earlier token goes on through this one.
        if self.state.word().swap(NOTIFIED, Release) == PARKED {
            self.state.wake_one();
        }
    }

    /// Whether the owner sleeps, or is just about to.
    pub fn is_parked(&self) -> bool {
        self.state.word().load(Relaxed) == PARKED
    }

    /// Whether there is a token.
    ///
    /// ```
    /// # use blitzen_util::park::Parker;
    /// let parker = Parker::new();
    /// parker.unpark();
    /// assert!(parker.has_token());
    /// ```
    pub fn has_token(&self) -> bool {
        self.state.word().load(Relaxed) == NOTIFIED
    }

    /// `EMPTY` to `PARKED`; false if a token was there, which is then taken.
    fn begin_park(&self) -> bool {
        let word = self.state.word();
        match word.compare_exchange(EMPTY, PARKED, Relaxed, Relaxed) {
            Ok(_) => true,
            Err(_) => {
                // Acquire, met by the Release in `unpark`.
                let token = word.swap(EMPTY, Acquire);
                debug_assert_eq!(token, NOTIFIED, "two threads park here");
                false
            }
        }
    }

    /// `NOTIFIED` to `EMPTY`; false if there is no token.
    fn take_token(&self) -> bool {
        // Acquire, met by the Release in `unpark`.
        self.state
            .word()
            .compare_exchange(NOTIFIED, EMPTY, Acquire, Relaxed)
            .is_ok()
    }

    /// Leaves `PARKED` because the time ran out (P2).
    fn end_park(&self) -> Wakeup {
        // Acquire, met by the Release in `unpark`: a token may have come after
        // the last look.
        match self.state.word().swap(EMPTY, Acquire) {
            NOTIFIED => Wakeup::Notified,
            _ => Wakeup::TimedOut,
        }
    }
}

impl Default for Parker {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn any_number_of_unparks_leave_one_token() {
        let parker = Parker::new();
        parker.unpark();
        parker.unpark();
        assert_eq!(parker.park_timeout(Duration::ZERO), Wakeup::Notified);
        assert_eq!(parker.park_timeout(Duration::ZERO), Wakeup::TimedOut);
    }

    #[test]
    fn a_sleeper_is_woken_by_another_thread() {
        let parker = Arc::new(Parker::new());
        let sleeper = std::thread::spawn({
            let parker = parker.clone();
            move || parker.park()
        });
        while !parker.is_parked() {
            std::thread::yield_now();
        }
        parker.unpark();
        sleeper.join().unwrap();
    }

    #[test]
    fn a_timeout_leaves_no_trace() {
        let parker = Parker::new();
        let timeout = Duration::from_millis(1);
        assert_eq!(parker.park_timeout(timeout), Wakeup::TimedOut);
        assert!(!parker.is_parked());
        parker.unpark();
        assert_eq!(parker.park_timeout(Duration::MAX), Wakeup::Notified);
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::shim::atomic::AtomicUsize;
    use crate::shim::{Arc, thread};

    #[test]
    fn a_token_that_comes_as_the_time_runs_out_publishes_what_came_before() {
        loom::model(|| {
            let shared = Arc::new((Parker::new(), AtomicUsize::new(0)));
            let waker = thread::spawn({
                let shared = shared.clone();
                move || {
                    shared.1.store(1, Relaxed);
                    shared.0.unpark();
                }
            });
            // What `park_timeout` does if its time has run out before it could sleep.
            if !shared.0.begin_park() || shared.0.end_park() == Wakeup::Notified {
                assert_eq!(shared.1.load(Relaxed), 1);
            } else {
                shared.0.park();
            }
            waker.join().unwrap();
        });
    }

    #[test]
    fn a_wake_is_never_lost_and_publishes_what_came_before() {
        loom::model(|| {
            let shared = Arc::new((Parker::new(), AtomicUsize::new(0)));
            let waker = thread::spawn({
                let shared = shared.clone();
                move || {
                    shared.1.store(1, Relaxed);
                    shared.0.unpark();
                }
            });
            shared.0.park();
            assert_eq!(shared.1.load(Relaxed), 1);
            waker.join().unwrap();
        });
    }

    #[test]
    fn two_wakers_leave_one_token_or_none_but_never_a_sleeper() {
        loom::model(|| {
            let shared = Arc::new((Parker::new(), AtomicUsize::new(0)));
            let wakers: Vec<_> = (0..2)
                .map(|_| {
                    let shared = shared.clone();
                    thread::spawn(move || {
                        shared.1.fetch_add(1, Relaxed);
                        shared.0.unpark();
                    })
                })
                .collect();
            // Each wake may share its token with the other one, so sleep only
            // while something is missing, as every user of a parker does.
            while shared.1.load(Relaxed) < 2 {
                shared.0.park();
            }
            for waker in wakers {
                waker.join().unwrap();
            }
        });
    }

    #[test]
    fn a_timeout_against_a_wake_keeps_the_token() {
        loom::model(|| {
            let parker = Arc::new(Parker::new());
            let waker = thread::spawn({
                let parker = parker.clone();
                move || parker.unpark()
            });
            if parker.begin_park() && parker.end_park() == Wakeup::TimedOut {
                parker.park(); // the token still comes
            }
            waker.join().unwrap();
        });
    }
}
