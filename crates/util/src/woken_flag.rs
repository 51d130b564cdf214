//! Whether a future was woken since its last poll.
//!
//! ```text
//!   waker:  write what is waited for   set    wake the task
//!   poll:   take                       read what is waited for
//! ```
//!
//! W1. The poll that takes the flag sees what all wakers did before they set it, and not only the
//!     last of them. So both are read-modify-writes: a plain store would hide the one before it.

use crate::shim::atomic::AtomicBool;
use crate::shim::atomic::Ordering::{Acquire, Relaxed, Release};

/// Whether a future was woken since its last poll.
///
/// ```
/// use blitzen_util::woken_flag::WokenFlag;
///
/// let flag = WokenFlag::new(false);
/// assert!(flag.set()); // the task has to be woken …
/// assert!(!flag.set()); // … which covers this one too
/// assert!(flag.take());
/// assert!(!flag.is_set());
/// ```
#[derive(Debug)]
pub struct WokenFlag(AtomicBool);

impl WokenFlag {
    /// Creates a flag that is set if `is_set`.
    pub fn new(is_set: bool) -> Self {
        Self(AtomicBool::new(is_set))
    }

    /// Sets it; returns whether it was not.
    pub fn set(&self) -> bool {
        // Release, met by the Acquire in `take` (W1).
        !self.0.swap(true, Release)
    }

    /// Whether it is set. What its wakers did is seen by whoever takes it.
    pub fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Clears it, since a poll begins; returns whether it was set.
    pub fn take(&self) -> bool {
        // Acquire, met by the Release in `set` (W1).
        self.0.swap(false, Acquire)
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::shim::atomic::AtomicU32;
    use crate::shim::{Arc, thread};

    #[test]
    fn the_poll_that_takes_the_flag_sees_what_both_wakers_did() {
        loom::model(|| {
            let flag = Arc::new(WokenFlag::new(false));
            let written = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
            let wakers = [0, 1].map(|waker| {
                let (flag, written) = (flag.clone(), written.clone());
                thread::spawn(move || {
                    written[waker].store(1, Relaxed);
                    flag.set();
                })
            });
            flag.take();
            let seen: u32 = written.iter().map(|word| word.load(Relaxed)).sum();
            for waker in wakers {
                waker.join().unwrap();
            }
            assert!(flag.is_set() || seen == 2, "a wake is lost");
        });
    }
}
