//! Errors of timers.

use std::error::Error as StdError;
use std::fmt;
use std::io;

/// The error of a future that was not ready before its deadline; see
/// [`timeout`](super::timeout).
///
/// # Examples
/// ```
/// use blitzen::time::{Duration, error::Elapsed, timeout};
///
/// # let runtime = blitzen::runtime::Builder::new_current_thread()
/// #     .enable_time().start_paused(true).build().unwrap();
/// # runtime.block_on(async {
/// let late: Result<(), Elapsed> = timeout(Duration::from_secs(1), std::future::pending()).await;
/// assert_eq!(late.unwrap_err().to_string(), "deadline has elapsed");
/// # });
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Elapsed(());

impl Elapsed {
    pub(crate) fn new() -> Self {
        Self(())
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

impl StdError for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(_: Elapsed) -> io::Error {
        io::ErrorKind::TimedOut.into()
    }
}

/// The error of a timer that cannot be used. blitzen itself never returns it;
/// libraries with timers of their own do.
///
/// # Examples
/// ```
/// use blitzen::time::error::Error;
///
/// assert!(Error::shutdown().is_shutdown());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Error(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Shutdown,
    AtCapacity,
    Invalid,
}

impl Error {
    /// Creates the error of a timer whose runtime has been shut down.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::error::Error;
    /// assert!(Error::shutdown().is_shutdown());
    /// ```
    pub fn shutdown() -> Error {
        Error(Kind::Shutdown)
    }

    /// Returns `true` if the timer's runtime has been shut down.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::error::Error;
    /// assert!(!Error::invalid().is_shutdown());
    /// ```
    pub fn is_shutdown(&self) -> bool {
        self.0 == Kind::Shutdown
    }

    /// Creates the error of a runtime that has no room for another timer.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::error::Error;
    /// assert!(Error::at_capacity().is_at_capacity());
    /// ```
    pub fn at_capacity() -> Error {
        Error(Kind::AtCapacity)
    }

    /// Returns `true` if the runtime has no room for another timer.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::error::Error;
    /// assert!(!Error::shutdown().is_at_capacity());
    /// ```
    pub fn is_at_capacity(&self) -> bool {
        self.0 == Kind::AtCapacity
    }

    /// Creates the error of a deadline that a timer cannot wait for.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::error::Error;
    /// assert!(Error::invalid().is_invalid());
    /// ```
    pub fn invalid() -> Error {
        Error(Kind::Invalid)
    }

    /// Returns `true` if the timer cannot wait for its deadline.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::error::Error;
    /// assert!(!Error::shutdown().is_invalid());
    /// ```
    pub fn is_invalid(&self) -> bool {
        self.0 == Kind::Invalid
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Shutdown => "the runtime of the timer has been shut down",
            Kind::AtCapacity => "there is no room for another timer",
            Kind::Invalid => "the timer cannot wait for that deadline",
        })
    }
}

impl StdError for Error {}
