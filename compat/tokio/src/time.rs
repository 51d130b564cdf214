//! Timers, and a clock that tests can pause.

pub use blitzen::time::{
    Duration, Instant, Interval, MissedTickBehavior, Sleep, Timeout, error, interval, interval_at,
    sleep, sleep_until, timeout, timeout_at,
};
#[cfg(feature = "test-util")]
pub use blitzen::time::{advance, pause_current_thread as pause, resume};
