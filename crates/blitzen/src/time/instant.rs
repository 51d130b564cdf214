//! A moment of the runtime's clock.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use crate::runtime::{clock, context};

/// A moment of the runtime's clock, which never goes backwards.
///
/// It wraps a [`std::time::Instant`], and converts from and into one. Only
/// [`now`](Self::now) is different: it reads the clock of the current runtime,
/// which may be [paused](super::pause).
///
/// # Examples
/// ```
/// use blitzen::time::{Duration, Instant};
///
/// let start = Instant::now();
/// assert!(start + Duration::from_secs(1) > start);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    std: std::time::Instant,
}

impl Instant {
    /// Returns the present moment by the clock of the current runtime, or by the
    /// system's clock outside a runtime.
    ///
    /// # Examples
    /// ```
    /// use blitzen::time::{Duration, Instant};
    ///
    /// let runtime = blitzen::runtime::Builder::new_current_thread()
    ///     .start_paused(true)
    ///     .build()
    ///     .unwrap();
    /// runtime.block_on(async {
    ///     let start = Instant::now();
    ///     std::thread::sleep(Duration::from_millis(1));
    ///     assert_eq!(Instant::now(), start);
    /// });
    /// ```
    #[inline]
    pub fn now() -> Self {
        match clock::ever_paused() {
            false => Self::from_std(std::time::Instant::now()),
            true => Self::now_of_runtime(),
        }
    }

    #[cold]
    fn now_of_runtime() -> Self {
        let now = context::with_current(|handle| handle.inner.world().clock().now());
        Self::from_std(now.unwrap_or_else(|_| std::time::Instant::now()))
    }

    /// Some thirty years from now. Not every system's clock reaches much further.
    pub(crate) fn far_future() -> Self {
        Self::now() + Duration::from_secs(30 * 365 * 86_400)
    }

    /// `span` from now, or the far future if that overflows.
    #[inline]
    pub(crate) fn after(span: Duration) -> Self {
        Self::now()
            .checked_add(span)
            .unwrap_or_else(Self::far_future)
    }

    /// Creates an `Instant` from the standard library's.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::Instant;
    /// let std = std::time::Instant::now();
    /// assert_eq!(Instant::from_std(std).into_std(), std);
    /// ```
    #[inline]
    pub fn from_std(std: std::time::Instant) -> Self {
        Self { std }
    }

    /// Converts `self` into the standard library's `Instant`.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::Instant;
    /// let std: std::time::Instant = Instant::now().into_std();
    /// ```
    #[inline]
    pub fn into_std(self) -> std::time::Instant {
        self.std
    }

    /// Returns the time from `earlier` to `self`, or zero if `earlier` is later.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Duration, Instant};
    /// let start = Instant::now();
    /// let end = start + Duration::from_secs(2);
    /// assert_eq!(end.duration_since(start), Duration::from_secs(2));
    /// assert_eq!(start.duration_since(end), Duration::ZERO);
    /// ```
    pub fn duration_since(&self, earlier: Instant) -> Duration {
        self.std.saturating_duration_since(earlier.std)
    }

    /// Returns the time from `earlier` to `self`, or `None` if `earlier` is later.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Duration, Instant};
    /// let start = Instant::now();
    /// let end = start + Duration::from_secs(2);
    /// assert_eq!(start.checked_duration_since(end), None);
    /// ```
    pub fn checked_duration_since(&self, earlier: Instant) -> Option<Duration> {
        self.std.checked_duration_since(earlier.std)
    }

    /// Returns the time from `earlier` to `self`, or zero if `earlier` is later.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Duration, Instant};
    /// let start = Instant::now();
    /// let end = start + Duration::from_secs(2);
    /// assert_eq!(start.saturating_duration_since(end), Duration::ZERO);
    /// ```
    pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
        self.std.saturating_duration_since(earlier.std)
    }

    /// Returns the time from `self` to now, by the clock of the current runtime.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Duration, Instant};
    /// assert!(Instant::now().elapsed() < Duration::from_secs(60));
    /// ```
    pub fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }

    /// Returns `self + duration`, or `None` if it overflows.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Duration, Instant};
    /// assert_eq!(Instant::now().checked_add(Duration::MAX), None);
    /// ```
    pub fn checked_add(&self, duration: Duration) -> Option<Instant> {
        self.std.checked_add(duration).map(Self::from_std)
    }

    /// Returns `self - duration`, or `None` if it overflows.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Duration, Instant};
    /// assert_eq!(Instant::now().checked_sub(Duration::MAX), None);
    /// ```
    pub fn checked_sub(&self, duration: Duration) -> Option<Instant> {
        self.std.checked_sub(duration).map(Self::from_std)
    }
}

impl From<std::time::Instant> for Instant {
    fn from(std: std::time::Instant) -> Self {
        Self::from_std(std)
    }
}

impl From<Instant> for std::time::Instant {
    fn from(instant: Instant) -> Self {
        instant.std
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    #[track_caller]
    fn add(self, duration: Duration) -> Instant {
        Self::from_std(self.std + duration)
    }
}

impl AddAssign<Duration> for Instant {
    #[track_caller]
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    #[track_caller]
    fn sub(self, duration: Duration) -> Instant {
        Self::from_std(self.std - duration)
    }
}

impl SubAssign<Duration> for Instant {
    #[track_caller]
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.std.fmt(f)
    }
}
