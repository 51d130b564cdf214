//! What can go wrong with time.

use std::error::Error as StdError;
use std::fmt;
use std::io;

/// The time was up first.
///
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

/// Why there is no timer to be had. blitzen itself never returns it; libraries
/// that have timers of their own do.
///
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
    /// The runtime is gone.
    ///
    /// ```
    /// # use blitzen::time::error::Error;
    /// assert!(Error::shutdown().is_shutdown());
    /// ```
    pub fn shutdown() -> Error {
        Error(Kind::Shutdown)
    }

    /// Whether the runtime is gone.
    ///
    /// ```
    /// # use blitzen::time::error::Error;
    /// assert!(!Error::invalid().is_shutdown());
    /// ```
    pub fn is_shutdown(&self) -> bool {
        self.0 == Kind::Shutdown
    }

    /// There are too many timers.
    ///
    /// ```
    /// # use blitzen::time::error::Error;
    /// assert!(Error::at_capacity().is_at_capacity());
    /// ```
    pub fn at_capacity() -> Error {
        Error(Kind::AtCapacity)
    }

    /// Whether there are too many timers.
    ///
    /// ```
    /// # use blitzen::time::error::Error;
    /// assert!(!Error::shutdown().is_at_capacity());
    /// ```
    pub fn is_at_capacity(&self) -> bool {
        self.0 == Kind::AtCapacity
    }

    /// The deadline cannot be had.
    ///
    /// ```
    /// # use blitzen::time::error::Error;
    /// assert!(Error::invalid().is_invalid());
    /// ```
    pub fn invalid() -> Error {
        Error(Kind::Invalid)
    }

    /// Whether the deadline cannot be had.
    ///
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
