//! Why the calling thread wakes tasks, for what it does outside their polls.

use std::cell::Cell;
use std::fmt;

use crate::thread_local_const;

/// What has woken a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum WakeCause {
    /// It is not known.
    #[default]
    Unknown,
    /// The poll of a task.
    Task,
    /// A timer.
    Timer,
    /// A socket, a file, a signal or anything else that the drivers wait for.
    Io,
    /// A future that is no task has yielded.
    Yield,
    /// Code on the blocking pool, or its end.
    Blocking,
    /// Another thread that is no worker and polls no task.
    Thread,
}

impl WakeCause {
    const ALL: [Self; 7] = [
        Self::Unknown,
        Self::Task,
        Self::Timer,
        Self::Io,
        Self::Yield,
        Self::Blocking,
        Self::Thread,
    ];

    /// The cause with a number; `Unknown` if there is none.
    pub fn from_number(number: u64) -> Self {
        let cause = usize::try_from(number).ok();
        cause
            .and_then(|cause| Self::ALL.get(cause))
            .copied()
            .unwrap_or_default()
    }

    /// The name of the cause, in lower case.
    ///
    /// ```
    /// assert_eq!(blitzen_util::wake_cause::WakeCause::Timer.name(), "timer");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Task => "task",
            Self::Timer => "timer",
            Self::Io => "io",
            Self::Yield => "yield",
            Self::Blocking => "blocking",
            Self::Thread => "thread",
        }
    }
}

impl fmt::Display for WakeCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

thread_local_const! {
    static CAUSE: Cell<WakeCause> = Cell::new(WakeCause::Unknown);
}

/// Runs `wake`, whose wakes have this cause.
///
/// ```
/// use blitzen_util::wake_cause::{WakeCause, current, during};
///
/// assert_eq!(during(WakeCause::Timer, current), WakeCause::Timer);
/// assert_eq!(current(), WakeCause::Unknown);
/// ```
#[inline]
pub fn during<R>(cause: WakeCause, wake: impl FnOnce() -> R) -> R {
    struct Restore(WakeCause);
    impl Drop for Restore {
        #[inline]
        fn drop(&mut self) {
            replace(self.0);
        }
    }
    let _restore = Restore(replace(cause));
    wake()
}

/// Sets the cause of the wakes that follow; returns what it was before, which the caller restores.
#[inline]
pub fn replace(cause: WakeCause) -> WakeCause {
    CAUSE.with(|current| current.replace(cause))
}

/// The cause of the wakes that the calling thread makes now, if it is not the poll of a task.
pub fn current() -> WakeCause {
    CAUSE.with(Cell::get)
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_number() {
        for cause in WakeCause::ALL {
            assert_eq!(WakeCause::from_number(cause as u64), cause);
        }
        assert_eq!(WakeCause::from_number(u64::MAX), WakeCause::Unknown);
    }

    #[test]
    fn a_panic_leaves_no_cause_behind() {
        let panicked = std::panic::catch_unwind(|| {
            during(WakeCause::Io, || std::panic::resume_unwind(Box::new(())))
        });
        assert!(panicked.is_err());
        assert_eq!(current(), WakeCause::Unknown);
    }
}
