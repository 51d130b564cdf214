//! A moment by which something has to be done.

use std::future::IntoFuture;
use std::time::Duration;

use super::error::Elapsed;
use super::{Instant, Sleep, Timeout, timeout_at};

/// A moment by which something has to be done, as a value to pass to the
/// functions that do it.
///
/// A [`timeout`](super::timeout) limits one future. A deadline limits several
/// operations in a row, which share the time that is left; a loop that does not
/// await can [check](Self::check) it, and progress can [extend](Self::extend) it.
///
/// # Examples
/// ```
/// use blitzen::time::{Deadline, Duration, error::Elapsed, sleep};
///
/// async fn fetch(deadline: Deadline) -> Result<u32, Elapsed> {
///     deadline.limit(sleep(Duration::from_secs(2))).await?; // connect
///     deadline.check()?;
///     deadline.limit(sleep(Duration::from_secs(2))).await?; // read
///     Ok(7)
/// }
///
/// # let runtime = blitzen::runtime::Builder::new_current_thread()
/// #     .enable_time().start_paused(true).build().unwrap();
/// # runtime.block_on(async {
/// assert_eq!(fetch(Deadline::after(Duration::from_secs(5))).await, Ok(7));
/// assert!(fetch(Deadline::after(Duration::from_secs(3))).await.is_err());
/// # });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline {
    at: Instant,
}

impl Deadline {
    /// Creates a deadline at `span` from now, or some thirty years from now if
    /// that overflows.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Deadline, Duration};
    /// assert!(!Deadline::after(Duration::from_secs(60)).is_over());
    /// ```
    pub fn after(span: Duration) -> Self {
        Self {
            at: Instant::after(span),
        }
    }

    /// Creates a deadline at `moment`.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Deadline, Instant};
    /// assert!(Deadline::at(Instant::now()).is_over());
    /// ```
    pub fn at(moment: Instant) -> Self {
        Self { at: moment }
    }

    /// Returns the moment of the deadline.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Deadline, Instant};
    /// let now = Instant::now();
    /// assert_eq!(Deadline::at(now).instant(), now);
    /// ```
    pub fn instant(&self) -> Instant {
        self.at
    }

    /// Returns the time that is left, or zero if the deadline has passed.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Deadline, Duration};
    /// assert!(Deadline::after(Duration::from_secs(60)).remaining() > Duration::ZERO);
    /// ```
    pub fn remaining(&self) -> Duration {
        self.at.duration_since(Instant::now())
    }

    /// Returns `true` if the deadline has passed.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Deadline, Duration};
    /// assert!(Deadline::after(Duration::ZERO).is_over());
    /// ```
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.at
    }

    /// Returns an error if the deadline has passed, for use with `?`.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Deadline, Duration};
    /// assert!(Deadline::after(Duration::from_secs(60)).check().is_ok());
    /// assert!(Deadline::after(Duration::ZERO).check().is_err());
    /// ```
    ///
    /// # Errors
    /// Returns [`Elapsed`] if the deadline has passed.
    pub fn check(&self) -> Result<(), Elapsed> {
        match self.is_over() {
            true => Err(Elapsed::new()),
            false => Ok(()),
        }
    }

    /// Moves the deadline by `by`, counted from the deadline and not from now. A
    /// deadline that has passed can be moved too.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Deadline, Duration, Instant};
    /// let now = Instant::now();
    /// let mut deadline = Deadline::at(now);
    /// deadline.extend(Duration::from_secs(5));
    /// assert_eq!(deadline.instant(), now + Duration::from_secs(5));
    /// ```
    pub fn extend(&mut self, by: Duration) {
        self.at = self.at.checked_add(by).unwrap_or_else(Instant::far_future);
    }

    /// Sets the deadline to `span` from now.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Deadline, Duration};
    /// let mut deadline = Deadline::after(Duration::ZERO);
    /// deadline.reset(Duration::from_secs(60));
    /// assert!(!deadline.is_over());
    /// ```
    pub fn reset(&mut self, span: Duration) {
        *self = Self::after(span);
    }

    /// Returns the earlier one of `self` and `other`.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Deadline, Duration};
    /// let caller = Deadline::after(Duration::from_secs(60));
    /// let own = Deadline::after(Duration::from_secs(5));
    /// assert_eq!(caller.sooner(own), own);
    /// ```
    pub fn sooner(self, other: Deadline) -> Deadline {
        self.min(other)
    }

    /// Waits until the deadline has passed.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Deadline, Duration};
    /// # let runtime = blitzen::runtime::Builder::new_current_thread()
    /// #     .enable_time().start_paused(true).build().unwrap();
    /// # runtime.block_on(async {
    /// let deadline = Deadline::after(Duration::from_secs(60));
    /// deadline.wait().await;
    /// assert!(deadline.is_over());
    /// # });
    /// ```
    ///
    /// # Panics
    /// Panics outside a runtime, and in a runtime without
    /// [`enable_time`](crate::runtime::Builder::enable_time).
    #[track_caller]
    pub fn wait(&self) -> Sleep {
        Sleep::new(self.at)
    }

    /// Runs `future` until the deadline at the latest; see [`timeout_at`].
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Deadline, Duration};
    /// # let runtime = blitzen::runtime::Builder::new_current_thread()
    /// #     .enable_time().start_paused(true).build().unwrap();
    /// # runtime.block_on(async {
    /// let deadline = Deadline::after(Duration::from_secs(60));
    /// assert_eq!(deadline.limit(async { 7 }).await, Ok(7));
    /// assert!(deadline.limit(std::future::pending::<()>()).await.is_err());
    /// # });
    /// ```
    ///
    /// # Panics
    /// Panics outside a runtime, and in a runtime without
    /// [`enable_time`](crate::runtime::Builder::enable_time).
    #[track_caller]
    pub fn limit<F: IntoFuture>(&self, future: F) -> Timeout<F::IntoFuture> {
        timeout_at(self.at, future)
    }
}

impl From<Instant> for Deadline {
    fn from(moment: Instant) -> Self {
        Self::at(moment)
    }
}
