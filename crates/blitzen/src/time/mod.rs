//! Sleeps, intervals, timeouts, and a clock that can be paused.
//!
//! ```
//! use blitzen::time::{self, Duration};
//!
//! # let runtime = blitzen::runtime::Builder::new_current_thread()
//! #     .enable_time().start_paused(true).build().unwrap();
//! # runtime.block_on(async {
//! time::sleep(Duration::from_millis(100)).await;
//!
//! let slow = time::sleep(Duration::from_secs(10));
//! assert!(time::timeout(Duration::from_secs(1), slow).await.is_err());
//!
//! let mut interval = time::interval(Duration::from_millis(10));
//! for _ in 0..3 {
//!     interval.tick().await;
//! }
//! # });
//! ```
//!
//! They need a runtime that was built with
//! [`enable_time`](crate::runtime::Builder::enable_time).
//!
//! # Precision
//!
//! No timer fires early. It may fire late for two reasons:
//!
//! * The runtime counts time in ticks of 25 µs, and a timer fires at the first tick
//!   after its deadline: a sleep of 100 µs takes little more than that. Where many
//!   timers are due one after another, a worker wakes for them every 250 µs and
//!   fires all that are due. Each is then up to 250 µs late, 125 µs on average, and
//!   ten thousand timers a second cost hardly more than a thousand.
//! * The system needs time to wake a sleeping thread: on Linux some 50 µs, and 50 µs
//!   more for the thread that called `block_on`. A worker that is awake fires its
//!   timers between two tasks, at most about a millisecond after they are due.
//!   Other workers fire the timers of a worker that is blocked by a task.
//!
//! [`timer_resolution`](crate::runtime::Builder::timer_resolution) sets the 250 µs. A
//! tick is a tenth of it, and at least a microsecond.
//!
//! A deadline may be as far away as you like. One that overflows the clock, such as
//! that of `sleep(Duration::MAX)`, is some thirty years away.
//!
//! # A paused clock
//!
//! Tests can [`pause`] the clock. It then moves only when it is
//! [advanced](advance), and by itself, to the next timer, when nothing else is left
//! to do. A sleep of an hour takes no time at all, and ends after exactly an hour by
//! the runtime's own clock, which [`Instant::now`] reads.
//!
//! ```
//! use blitzen::time::{self, Duration, Instant};
//!
//! let runtime = blitzen::runtime::Builder::new_multi_thread()
//!     .enable_time()
//!     .start_paused(true)
//!     .build()
//!     .unwrap();
//! runtime.block_on(async {
//!     let start = Instant::now();
//!     time::sleep(Duration::from_secs(3600)).await;
//!     assert_eq!(start.elapsed(), Duration::from_secs(3600));
//! });
//! ```

mod deadline;
pub mod error;
mod instant;
mod interval;
mod pause;
mod sleep;
mod timeout;

pub use deadline::Deadline;
pub use instant::Instant;
pub use interval::{Interval, MissedTickBehavior, interval, interval_at};
#[doc(hidden)]
pub use pause::pause_current_thread;
pub use pause::{advance, pause, resume};
pub use sleep::{Sleep, sleep, sleep_until};
pub use std::time::Duration;
pub use timeout::{Timeout, timeout, timeout_at};

/// Gives the crates that know no clock a way to wait.
pub(crate) fn install_delay() {
    // It may be installed already, with the same functions.
    let _ = blitzen_util::delay::install(blitzen_util::delay::TimerFns {
        check: || {
            let _checked = crate::runtime::timers::here();
        },
        delay: |duration| Box::pin(sleep(duration)),
    });
}
