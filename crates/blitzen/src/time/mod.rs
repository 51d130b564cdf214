//! Timers: sleeping, ticking, giving up after a while, and a clock that can be
//! stopped.
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
//! They need a runtime with [`enable_time`](crate::runtime::Builder::enable_time).
//!
//! # How exact timers are
//!
//! No timer is ever early. How late it is has two parts:
//!
//! * The runtime counts the time in ticks of 25 µs, and a timer fires at the
//!   first tick after its deadline. So a sleep of 100 µs takes little more than
//!   that, and not a millisecond. Where many timers are due one after another, a
//!   worker wakes for them every 250 µs, and fires all at once: each is up to so
//!   much late, half of it on average, and ten thousand a second cost hardly more
//!   than a thousand.
//! * The system takes its time to wake a sleeping thread, on Linux some 50 µs (and
//!   50 µs more where the thread is not the runtime's own, but that of
//!   `block_on`). A worker that is awake fires its timers between two tasks, at
//!   the latest about a millisecond after they are due; those of a worker that is
//!   stuck in a task are fired by others.
//!
//! [`timer_resolution`](crate::runtime::Builder::timer_resolution) sets the
//! 250 µs, and with them the ticks, which are a tenth: down to a microsecond each,
//! for programs that care more for exactness than for the cost of waking up.
//!
//! Deadlines may be as far away as you like: one that lies beyond what the clock
//! can say, such as that of `sleep(Duration::MAX)`, is some thirty years away.
//!
//! # A clock that stands still
//!
//! In tests, time can be [paused](pause): then it moves only when it is
//! [advanced](advance), or by itself, to the next timer, when nothing else is
//! left to do. An hour's sleep takes no time at all, and ends after exactly an
//! hour by the runtime's own clock, which [`Instant::now`] reads.
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

/// Tells crates that know no clock how to wait.
pub(crate) fn install_delay() {
    // Whoever was first has said the same.
    let _ = blitzen_util::delay::install(blitzen_util::delay::Timers {
        check: || {
            let _checked = crate::runtime::timers::here();
        },
        delay: |duration| Box::pin(sleep(duration)),
    });
}
