//! The error of a source whose driver has been shut down.

use std::error::Error;
use std::{fmt, io};

/// What [`gone`] wraps; recognised by its type, whatever other errors say.
#[derive(Debug)]
struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The words existing programs look for.
        f.write_str("A Tokio 1.x context was found, but it is being shutdown.")
    }
}

impl Error for Gone {}

/// The error of every operation that needs a driver that has been shut down.
///
/// ```
/// let error = blitzen_driver::gone();
/// assert_eq!(error.kind(), std::io::ErrorKind::Other);
/// assert!(blitzen_driver::is_gone(&error));
/// ```
pub fn gone() -> io::Error {
    io::Error::other(Gone)
}

/// Whether an error is that of a driver that has been shut down.
///
/// ```
/// let other = std::io::Error::other("something else");
/// assert!(!blitzen_driver::is_gone(&other));
/// ```
pub fn is_gone(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Gone>())
}
