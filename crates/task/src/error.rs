//! Why a task has no output.

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::Mutex;

use crate::id::Id;

/// The error of a task that ended without an output: it panicked, or it was cancelled.
///
/// Awaiting a [`JoinHandle`](crate::JoinHandle) returns it.
///
/// # Examples
///
/// ```
/// use blitzen::task::{self, JoinError};
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let handle = task::spawn(async { panic!("no luck") });
/// let error: JoinError = handle.await.unwrap_err();
/// assert!(error.to_string().ends_with(r#"panicked with message "no luck""#));
/// # });
/// ```
pub struct JoinError {
    id: Id,
    reason: Reason,
}

enum Reason {
    Cancelled,
    /// A payload need not be `Sync`, an error should be.
    Panicked(Mutex<Payload>),
}

/// What a panic carries.
pub type Payload = Box<dyn Any + Send + 'static>;

/// How a task ended, as its cell keeps it.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// A [`JoinError`] without the task's name, which the cell has anyway.
pub(crate) enum Failure {
    Cancelled,
    Panicked(Payload),
}

impl JoinError {
    pub(crate) fn new(id: Id, failure: Failure) -> Self {
        let reason = match failure {
            Failure::Cancelled => Reason::Cancelled,
            Failure::Panicked(payload) => Reason::Panicked(Mutex::new(payload)),
        };
        Self { id, reason }
    }

    /// Returns whether the task was cancelled: by an abort, or because its runtime shut down.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let handle = task::spawn(std::future::pending::<()>());
    /// handle.abort();
    /// assert!(handle.await.unwrap_err().is_cancelled());
    /// # });
    /// ```
    pub fn is_cancelled(&self) -> bool {
        matches!(self.reason, Reason::Cancelled)
    }

    /// Returns whether the task panicked.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let error = task::spawn(async { panic!("no") }).await.unwrap_err();
    /// assert!(error.is_panic());
    /// # });
    /// ```
    pub fn is_panic(&self) -> bool {
        matches!(self.reason, Reason::Panicked(_))
    }

    /// Returns the value the task panicked with.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let error = task::spawn(async { panic!("no") }).await.unwrap_err();
    /// let payload = error.into_panic();
    /// assert_eq!(*payload.downcast::<&str>().unwrap(), "no");
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the task did not panic; see [`try_into_panic`](Self::try_into_panic).
    #[track_caller]
    pub fn into_panic(self) -> Box<dyn Any + Send + 'static> {
        self.try_into_panic()
            .expect("`JoinError` reason is not a panic.")
    }

    /// Returns the value the task panicked with.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let error = task::spawn(async { panic!("no") }).await.unwrap_err();
    /// if let Ok(payload) = error.try_into_panic() {
    ///     assert_eq!(*payload.downcast::<&str>().unwrap(), "no");
    /// }
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error itself if the task did not panic.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send + 'static>, JoinError> {
        match self.reason {
            Reason::Panicked(payload) => {
                Ok(payload.into_inner().unwrap_or_else(|e| e.into_inner()))
            }
            Reason::Cancelled => Err(self),
        }
    }

    /// Returns the id of the task.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let handle = task::spawn(async { panic!("no") });
    /// let id = handle.id();
    /// assert_eq!(handle.await.unwrap_err().id(), id);
    /// # });
    /// ```
    pub fn id(&self) -> Id {
        self.id
    }

    /// The text of the panic, if it has one.
    fn message(&self) -> Option<String> {
        let Reason::Panicked(payload) = &self.reason else {
            return None;
        };
        let payload = payload.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(text) = payload.downcast_ref::<String>() {
            return Some(text.clone());
        }
        payload
            .downcast_ref::<&'static str>()
            .map(|s| s.to_string())
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.reason, self.message()) {
            (Reason::Cancelled, _) => write!(f, "task {} was cancelled", self.id),
            (_, Some(text)) => write!(f, "task {} panicked with message {text:?}", self.id),
            (_, None) => write!(f, "task {} panicked", self.id),
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.reason, self.message()) {
            (Reason::Cancelled, _) => write!(f, "JoinError::Cancelled({:?})", self.id),
            (_, Some(text)) => write!(f, "JoinError::Panic({:?}, {text:?}, ...)", self.id),
            (_, None) => write!(f, "JoinError::Panic({:?}, ...)", self.id),
        }
    }
}

impl std::error::Error for JoinError {}

impl From<JoinError> for io::Error {
    fn from(error: JoinError) -> io::Error {
        io::Error::other(match error.is_cancelled() {
            true => "task was cancelled",
            false => "task panicked",
        })
    }
}
