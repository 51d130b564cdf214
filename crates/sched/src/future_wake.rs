//! Whether the future of a `block_on` was woken, and whether its thread drives the runtime.
//!
//! ```text
//!   the thread   set driving           take the wake, or sleep in the driver
//!   a waker      set woken             if it was driving: interrupt the driver
//! ```
//!
//! W1. Both are bits of one word, so one of the two changes is first. If it is the thread's, the
//!     waker sees that it drives. Otherwise the thread takes the wake before it sleeps.

use blitzen_util::shim::atomic::AtomicU8;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};

const WOKEN: u8 = 1;
const DRIVING: u8 = 1 << 1;

/// The wake of a future that is polled by [`CoreGuard::drive`](crate::CoreGuard::drive).
pub struct FutureWake(AtomicU8);

/// Whom a waker has to wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeTarget {
    /// Nobody: it was woken before, and has not been polled since.
    Nobody,
    /// The thread, wherever it waits for the core.
    Thread,
    /// The thread, which may be asleep in the driver.
    Driver,
}

impl FutureWake {
    /// It is polled at once.
    pub fn new() -> Self {
        Self(AtomicU8::new(WOKEN))
    }

    /// Notes a wake.
    pub fn wake(&self) -> WakeTarget {
        // Release, met by the Acquire in `take`.
        match self.0.fetch_or(WOKEN, Release) {
            before if before & WOKEN != 0 => WakeTarget::Nobody,
            before if before & DRIVING != 0 => WakeTarget::Driver,
            _ => WakeTarget::Thread,
        }
    }

    /// Returns whether it was woken, and forgets that: the caller polls the future.
    pub fn take(&self) -> bool {
        // Acquire, met by the Release in `wake`: what was published before is seen by the poll.
        self.0.fetch_and(!WOKEN, Acquire) & WOKEN != 0
    }

    /// Returns whether it was woken.
    pub fn is_woken(&self) -> bool {
        self.0.load(Relaxed) & WOKEN != 0
    }

    /// Notes that the thread drives the runtime, from now on.
    pub fn set_driving(&self) {
        self.0.fetch_or(DRIVING, Relaxed);
    }
}

impl Default for FutureWake {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_wake_counts_once_until_it_is_taken() {
        let wake = FutureWake::new();
        assert_eq!(wake.wake(), WakeTarget::Nobody, "it has not been polled");
        assert!(wake.take() && !wake.take());
        assert_eq!(wake.wake(), WakeTarget::Thread);
        assert!(wake.is_woken());
        wake.set_driving();
        assert!(wake.take());
        assert_eq!(wake.wake(), WakeTarget::Driver);
        assert_eq!(wake.wake(), WakeTarget::Nobody);
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::park::Parker;
    use blitzen_util::shim::cell::UnsafeCell;
    use blitzen_util::shim::{Arc, thread};

    struct Shared {
        wake: FutureWake,
        driver: Parker,
        published: UnsafeCell<u32>,
    }

    // SAFETY: the value is written before the wake, and read after it.
    unsafe impl Sync for Shared {}

    #[test]
    fn a_thread_that_begins_to_drive_does_not_sleep_through_a_wake() {
        loom::model(|| {
            let shared = Arc::new(Shared {
                wake: FutureWake::new(),
                driver: Parker::new(),
                published: UnsafeCell::new(0),
            });
            assert!(shared.wake.take(), "the first poll");
            let other = shared.clone();
            let waker = thread::spawn(move || {
                // SAFETY: before the wake.
                other.published.with_mut(|value| unsafe { *value = 1 });
                if other.wake.wake() == WakeTarget::Driver {
                    other.driver.unpark();
                }
            });
            shared.wake.set_driving();
            while !shared.wake.take() {
                shared.driver.park();
            }
            // SAFETY: after the wake.
            shared
                .published
                .with(|value| assert_eq!(unsafe { *value }, 1));
            waker.join().unwrap();
        });
    }
}
