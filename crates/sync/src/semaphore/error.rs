//! Why there was no permit.

use std::error::Error;
use std::fmt;

/// The error of an acquire: the semaphore is closed.
///
/// # Examples
///
/// ```
/// use blitzen::sync::Semaphore;
/// # futures::executor::block_on(async {
/// let semaphore = Semaphore::new(1);
/// semaphore.close();
/// let error = semaphore.acquire().await.unwrap_err();
/// assert_eq!(error.to_string(), "semaphore closed");
/// # });
/// ```
#[derive(Debug)]
pub struct AcquireError(());

impl AcquireError {
    pub(crate) fn closed() -> Self {
        Self(())
    }
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("semaphore closed")
    }
}

impl Error for AcquireError {}

/// The error of `try_acquire`.
///
/// # Examples
///
/// ```
/// use blitzen::sync::{Semaphore, TryAcquireError};
/// let semaphore = Semaphore::new(0);
/// let error = semaphore.try_acquire().unwrap_err();
/// assert_eq!(error, TryAcquireError::NoPermits);
/// assert_eq!(error.to_string(), "no permits available");
/// ```
#[derive(Debug, PartialEq, Eq)]
pub enum TryAcquireError {
    /// The semaphore is closed.
    Closed,
    /// Not enough permits are available.
    NoPermits,
}

impl fmt::Display for TryAcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "semaphore closed",
            Self::NoPermits => "no permits available",
        })
    }
}

impl Error for TryAcquireError {}
