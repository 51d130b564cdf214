//! The clock of a runtime: the system's, or one that a test has paused.
//!
//! ```text
//!            pause                  resume
//!   System ─────────► Frozen ──────────────────► Running
//!                     │    ▲ pause                 │
//!              advance└────┴───────────────────────┘
//! ```
//!
//! A clock that was never paused reads the system's clock, at no extra cost. All clocks
//! count from one origin, so that an `Instant` is the same number of nanoseconds in
//! every runtime.

use std::sync::LazyLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8};
use std::time::{Duration, Instant};

use blitzen_util::shim::Mutex;

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Whether any clock of the process was ever paused. Before that all clocks are the
/// system's, and no code has to find out which one to read.
static EVER_PAUSED: AtomicBool = AtomicBool::new(false);

/// Whether any clock of the process was ever paused.
#[inline]
pub(crate) fn ever_paused() -> bool {
    // Relaxed: the thread that paused a clock sees its own store. Another thread that
    // depends on the pause has synchronized with that one.
    EVER_PAUSED.load(Relaxed)
}

/// Nanoseconds between the origin and a moment: 0 for one before it, and
/// [`u64::MAX`] for one more than 584 years after.
#[inline]
pub(crate) fn to_ns(moment: Instant) -> u64 {
    const NS_PER_S: u64 = 1_000_000_000;
    let Some(span) = moment.checked_duration_since(*ORIGIN) else {
        return 0;
    };
    match span.as_secs().checked_mul(NS_PER_S) {
        Some(ns) => ns.saturating_add(span.subsec_nanos().into()),
        None => u64::MAX,
    }
}

/// Whether the kernel takes the time from the processor's counter, and so finds it steady.
pub(super) fn has_steady_counter() -> bool {
    const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    static IS_STEADY: LazyLock<bool> = LazyLock::new(|| {
        let source = std::fs::read_to_string(CLOCK_SOURCE).unwrap_or_default();
        cfg!(target_arch = "x86_64") && source.trim() == "tsc"
    });
    *IS_STEADY
}

const SYSTEM: u8 = 0;
const RUNNING: u8 = 1;
const FROZEN: u8 = 2;

/// The clock of one runtime.
pub(crate) struct Clock {
    /// The kind of `state`, to be read without its lock; written under it.
    mode: AtomicU8,
    state: Mutex<ClockState>,
}

enum ClockState {
    /// The system's clock.
    System,
    /// Showed `shown` when the system's clock showed `since`; runs as fast as that.
    Running {
        shown: Instant,
        since: Instant,
    },
    Frozen(Instant),
}

impl ClockState {
    fn now(&self) -> Instant {
        match *self {
            Self::System => Instant::now(),
            Self::Running { shown, since } => shown + since.elapsed(),
            Self::Frozen(at) => at,
        }
    }
}

/// Why a clock could not be paused, resumed or advanced.
#[derive(Debug)]
pub(crate) enum ClockError {
    /// It is paused already.
    Frozen,
    /// It is not paused.
    NotFrozen,
}

impl Clock {
    pub(crate) fn new(frozen: bool) -> Self {
        LazyLock::force(&ORIGIN);
        let clock = Self {
            mode: AtomicU8::new(SYSTEM),
            state: Mutex::new(ClockState::System),
        };
        if frozen {
            clock.set(&mut clock.state.lock(), ClockState::Frozen(Instant::now()));
        }
        clock
    }

    /// Returns the time that the clock shows.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        // Acquire, met by the Release in `set`.
        match self.mode.load(Acquire) {
            SYSTEM => Instant::now(),
            _ => self.state.lock().now(),
        }
    }

    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        to_ns(self.now())
    }

    /// Whether it is paused.
    #[inline]
    pub(crate) fn is_frozen(&self) -> bool {
        // Acquire, met by the Release in `set`.
        self.mode.load(Acquire) == FROZEN
    }

    fn set(&self, state: &mut ClockState, to: ClockState) {
        let mode = match to {
            ClockState::System => SYSTEM,
            ClockState::Running { .. } => RUNNING,
            ClockState::Frozen(_) => FROZEN,
        };
        *state = to;
        EVER_PAUSED.store(true, Relaxed);
        // Release, met by the Acquire in `now` and `is_frozen`.
        self.mode.store(mode, Release);
    }

    /// Pauses the clock.
    pub(crate) fn pause(&self) -> Result<(), ClockError> {
        let mut state = self.state.lock();
        if let ClockState::Frozen(_) = *state {
            return Err(ClockError::Frozen);
        }
        let now = state.now();
        self.set(&mut state, ClockState::Frozen(now));
        Ok(())
    }

    /// Lets the clock run again, from the time that it shows.
    pub(crate) fn resume(&self) -> Result<(), ClockError> {
        let mut state = self.state.lock();
        let ClockState::Frozen(shown) = *state else {
            return Err(ClockError::NotFrozen);
        };
        let since = Instant::now();
        self.set(&mut state, ClockState::Running { shown, since });
        Ok(())
    }

    /// Moves it forward.
    ///
    /// # Panics
    /// If it cannot show a time as late as that.
    #[track_caller]
    pub(crate) fn advance(&self, by: Duration) -> Result<(), ClockError> {
        let mut state = self.state.lock();
        let ClockState::Frozen(at) = *state else {
            return Err(ClockError::NotFrozen);
        };
        self.set(&mut state, ClockState::Frozen(at + by));
        Ok(())
    }

    /// Moves it forward to a moment, unless that has passed or it runs.
    pub(crate) fn move_to(&self, moment_ns: u64) {
        let mut state = self.state.lock();
        if let ClockState::Frozen(at) = *state {
            let by = Duration::from_nanos(moment_ns.saturating_sub(to_ns(at)));
            self.set(&mut state, ClockState::Frozen(at + by));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_stopped_clock_moves_only_by_hand() {
        let clock = Clock::new(true);
        let start = clock.now();
        clock.advance(SECOND).unwrap();
        assert_eq!(clock.now(), start + SECOND);
        clock.move_to(to_ns(start + 3 * SECOND));
        assert_eq!(clock.now(), start + 3 * SECOND);
        clock.move_to(to_ns(start));
        assert_eq!(clock.now(), start + 3 * SECOND, "never backwards");
    }

    #[test]
    fn a_clock_goes_on_from_where_it_stood() {
        let clock = Clock::new(false);
        assert!(matches!(clock.resume(), Err(ClockError::NotFrozen)));
        assert!(matches!(clock.advance(SECOND), Err(ClockError::NotFrozen)));
        clock.pause().unwrap();
        assert!(matches!(clock.pause(), Err(ClockError::Frozen)));
        clock.advance(3600 * SECOND).unwrap();
        let stood = clock.now();
        clock.resume().unwrap();
        assert!(!clock.is_frozen() && clock.now() >= stood);
        clock.pause().unwrap();
        assert!(clock.now() >= stood);
    }

    #[test]
    fn moments_out_of_range_are_the_first_and_the_last() {
        Clock::new(false);
        let now = Instant::now();
        // Not further back: on Windows an `Instant` ends where the machine was started.
        assert_eq!(to_ns(*ORIGIN - SECOND), 0);
        assert_eq!(to_ns(now + SECOND * u32::MAX * 5), u64::MAX);
        assert!(to_ns(now) <= to_ns(now + SECOND));
    }
}
