//! The error of a source whose driver has been shut down.

use std::error::Error;
use std::{fmt, io};

/// The error that [`shutdown_error()`] wraps. It is recognised by its type, not by its
/// text.
#[derive(Debug)]
struct ShutDown;

impl fmt::Display for ShutDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Existing programs look for this text.
        f.write_str("A Tokio 1.x context was found, but it is being shutdown.")
    }
}

impl Error for ShutDown {}

/// Returns the error of every operation that needs a driver that has been shut down.
///
/// ```
/// let error = blitzen_driver::shutdown_error();
/// assert_eq!(error.kind(), std::io::ErrorKind::Other);
/// assert!(blitzen_driver::is_shutdown_error(&error));
/// ```
pub fn shutdown_error() -> io::Error {
    io::Error::other(ShutDown)
}

/// Returns whether `error` is that of a driver that has been shut down.
///
/// ```
/// let other = std::io::Error::other("something else");
/// assert!(!blitzen_driver::is_shutdown_error(&other));
/// ```
pub fn is_shutdown_error(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<ShutDown>())
}
