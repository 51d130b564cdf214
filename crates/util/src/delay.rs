//! Sleeping, for crates that know no clock.
//!
//! The runtime installs its timers here; operations with a timeout use them.

use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::Duration;

/// A future that completes after a given time.
pub type Delay = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// The timers of a runtime, as functions.
#[derive(Clone, Copy, Debug)]
pub struct TimerFns {
    /// Panics where there is no runtime, or one without a clock.
    pub check: fn(),
    /// Creates a delay on the runtime of the calling thread.
    pub delay: fn(Duration) -> Delay,
}

static TIMERS: OnceLock<TimerFns> = OnceLock::new();

/// Installs the timers for the whole process; returns false, and changes nothing, if
/// there are some already.
pub fn install(timers: TimerFns) -> bool {
    TIMERS.set(timers).is_ok()
}

/// Returns the installed timers.
///
/// # Panics
/// Panics if none are installed, or if the calling thread is in no runtime that has a
/// clock.
///
/// ```should_panic
/// blitzen_util::delay::timers(); // none are installed
/// ```
#[track_caller]
pub fn timers() -> TimerFns {
    let Some(timers) = TIMERS.get() else {
        panic!(
            "there is no reactor running, must be called from the context of a Tokio 1.x runtime"
        );
    };
    (timers.check)();
    *timers
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_installed_first_is_used() {
        let timers_ = TimerFns {
            check: || (),
            delay: |_| Box::pin(std::future::ready(())),
        };
        assert!(install(timers_) && !install(timers_));
        crate::block_on::block_on((timers().delay)(Duration::MAX));
    }
}
