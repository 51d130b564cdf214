//! Errors of [`mpsc`](super::mpsc), [`bounded`](super::bounded) and
//! [`unbounded`](super::unbounded) channels.
//!
//! An error of a send contains the value that was not sent.
//!
//! # Examples
//!
//! ```
//! use blitzen::channel::{self, error::TrySendError};
//!
//! let (tx, _rx) = channel::bounded(1);
//! tx.try_send(1).unwrap();
//! assert_eq!(tx.try_send(2), Err(TrySendError::Full(2)));
//! ```

use std::error::Error;
use std::fmt;

/// The error of a send into a closed channel.
///
/// Contains the value.
///
/// # Examples
///
/// ```
/// use blitzen::sync::mpsc;
///
/// let (tx, rx) = mpsc::unbounded_channel();
/// drop(rx);
/// let error = tx.send(5).unwrap_err();
/// assert_eq!(error.0, 5);
/// assert_eq!(error.to_string(), "channel closed");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError").finish_non_exhaustive()
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("channel closed")
    }
}

impl<T> Error for SendError<T> {}

/// The error of `try_send`.
///
/// Contains the value.
///
/// # Examples
///
/// ```
/// use blitzen::sync::mpsc::{self, error::TrySendError};
///
/// let (tx, rx) = mpsc::channel(1);
/// tx.try_send(1).unwrap();
/// assert_eq!(tx.try_send(2), Err(TrySendError::Full(2)));
/// drop(rx);
/// assert_eq!(tx.try_send(3), Err(TrySendError::Closed(3)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// The channel is full.
    Full(T),
    /// The channel is closed.
    Closed(T),
}

impl<T> TrySendError<T> {
    /// Returns the value that was not sent.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc::error::TrySendError;
    ///
    /// assert_eq!(TrySendError::Full(3).into_inner(), 3);
    /// ```
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(value) | Self::Closed(value) => value,
        }
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As a string, quotes and all: programs print it and tests compare it.
        match self {
            Self::Full(_) => fmt::Debug::fmt("Full(..)", f),
            Self::Closed(_) => fmt::Debug::fmt("Closed(..)", f),
        }
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "no available capacity",
            Self::Closed(_) => "channel closed",
        })
    }
}

impl<T> Error for TrySendError<T> {}

impl<T> From<SendError<T>> for TrySendError<T> {
    fn from(error: SendError<T>) -> Self {
        Self::Closed(error.0)
    }
}

/// The error of [`Sender::send_timeout`](super::mpsc::Sender::send_timeout).
///
/// Contains the value.
///
/// # Examples
///
/// ```
/// use blitzen::sync::mpsc::error::SendTimeoutError;
///
/// let error = SendTimeoutError::Timeout(3);
/// assert_eq!(error.to_string(), "timed out waiting on send operation");
/// assert_eq!(error.into_inner(), 3);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// The channel was full until the timeout.
    Timeout(T),
    /// The channel is closed.
    Closed(T),
}

impl<T> SendTimeoutError<T> {
    /// Returns the value that was not sent.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc::error::SendTimeoutError;
    ///
    /// assert_eq!(SendTimeoutError::Closed(3).into_inner(), 3);
    /// ```
    pub fn into_inner(self) -> T {
        match self {
            Self::Timeout(value) | Self::Closed(value) => value,
        }
    }
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As for `TrySendError`.
        match self {
            Self::Timeout(_) => fmt::Debug::fmt("Timeout(..)", f),
            Self::Closed(_) => fmt::Debug::fmt("Closed(..)", f),
        }
    }
}

impl<T> fmt::Display for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timeout(_) => "timed out waiting on send operation",
            Self::Closed(_) => "channel closed",
        })
    }
}

impl<T> Error for SendTimeoutError<T> {}

/// The error of `try_recv`.
///
/// # Examples
///
/// ```
/// use blitzen::sync::mpsc::{self, error::TryRecvError};
///
/// let (tx, mut rx) = mpsc::channel::<u32>(1);
/// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
/// drop(tx);
/// assert_eq!(rx.try_recv(), Err(TryRecvError::Disconnected));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// The channel is empty.
    Empty,
    /// The channel is closed and empty.
    Disconnected,
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "receiving on an empty channel",
            Self::Disconnected => "receiving on a closed channel",
        })
    }
}

impl Error for TryRecvError {}
