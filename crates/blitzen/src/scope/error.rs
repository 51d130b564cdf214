//! Why a scope, or a child, has no result of its own.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io;

/// Why a scope, or a child of one, ended without a result of its own.
///
/// Awaiting a [`Child`](super::Child) returns it. The error type of a scope implements
/// `From<Stopped>`, since a scope that is cancelled or reaches its deadline has no other error to
/// return. [`io::Error`], `Box<dyn Error + Send + Sync>` and `Stopped` itself do so.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use blitzen::scope::{Scope, Stopped};
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let late = Scope::builder()
///     .within(Duration::from_millis(1))
///     .run(|_| std::future::pending::<Result<(), Stopped>>());
/// assert_eq!(late.await, Err(Stopped::Deadline));
/// # });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stopped {
    /// The scope was cancelled, or the child was aborted.
    Cancelled,
    /// The deadline of the scope has passed.
    Deadline,
    /// The child returned an error, which went to its scope.
    Failed,
    /// The child panicked, and its scope resumes the panic.
    Panicked,
    /// The child was not spawned: its scope had ended, or its runtime was shut down.
    Refused,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cancelled => "cancelled",
            Self::Deadline => "the deadline has passed",
            Self::Failed => "failed; its scope has the error",
            Self::Panicked => "panicked; its scope has the panic",
            Self::Refused => "never run: its scope had ended",
        })
    }
}

impl Error for Stopped {}

/// A deadline is of kind `TimedOut`, everything else of kind `Other`.
impl From<Stopped> for io::Error {
    fn from(stopped: Stopped) -> Self {
        let kind = match stopped {
            Stopped::Deadline => io::ErrorKind::TimedOut,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, stopped)
    }
}

/// How a child of a supervised scope failed.
///
/// The function given to [`ScopeBuilder::supervise`](super::ScopeBuilder::supervise) receives it.
///
/// # Examples
///
/// ```
/// use blitzen::channel::mpsc;
/// use blitzen::scope::{Failure, Scope, Stopped};
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let (failed, mut failures) = mpsc::unbounded_channel();
/// Scope::builder()
///     .supervise(move |failure: Failure<std::io::Error>| failed.send(failure).unwrap())
///     .run(|s| async move {
///         s.spawn(async { Err::<(), _>(std::io::Error::other("no luck")) });
///         Ok(())
///     })
///     .await
///     .unwrap();
/// let failure = failures.recv().await.unwrap();
/// assert!(matches!(failure, Failure::Error(error) if error.to_string() == "no luck"));
/// # });
/// ```
#[derive(Debug)]
pub enum Failure<E> {
    /// It returned an error.
    Error(E),
    /// It panicked with this value.
    Panic(Box<dyn Any + Send + 'static>),
}
