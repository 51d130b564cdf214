//! Waiting for some time, for crates that know no clock.
//!
//! A runtime says once how it is done; operations with a timeout ask here.

use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::Duration;

/// A future that ends when some time has passed.
pub type Delay = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// How a runtime waits.
#[derive(Clone, Copy, Debug)]
pub struct Timers {
    /// Panics where there is no runtime, or one without a clock.
    pub check: fn(),
    /// Makes a delay on the runtime of the calling thread.
    pub delay: fn(Duration) -> Delay,
}

static TIMERS: OnceLock<Timers> = OnceLock::new();

/// Says how to wait. The first word counts; false if it has been said.
pub fn install(timers: Timers) -> bool {
    TIMERS.set(timers).is_ok()
}

/// How to wait, on a thread where that is possible.
///
/// # Panics
/// Where it is not.
///
/// ```should_panic
/// blitzen_util::delay::timers(); // no runtime has said how
/// ```
#[track_caller]
pub fn timers() -> Timers {
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
        let timers_ = Timers {
            check: || (),
            delay: |_| Box::pin(std::future::ready(())),
        };
        assert!(install(timers_) && !install(timers_));
        crate::block_on::block_on((timers().delay)(Duration::MAX));
    }
}
