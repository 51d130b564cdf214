//! Why a task has no output.

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::Mutex;

use crate::id::Id;

/// A task ended without an output: it panicked, or it was cancelled.
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
pub(crate) type Payload = Box<dyn Any + Send + 'static>;

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

    /// Whether the task was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.reason, Reason::Cancelled)
    }

    /// Whether the task panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self.reason, Reason::Panicked(_))
    }

    /// The value the task panicked with.
    ///
    /// # Panics
    /// If the task did not panic; see [`try_into_panic`](Self::try_into_panic).
    #[track_caller]
    pub fn into_panic(self) -> Box<dyn Any + Send + 'static> {
        self.try_into_panic()
            .expect("`JoinError` reason is not a panic.")
    }

    /// The value the task panicked with, or this error if it did not.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send + 'static>, JoinError> {
        match self.reason {
            Reason::Panicked(payload) => {
                Ok(payload.into_inner().unwrap_or_else(|e| e.into_inner()))
            }
            Reason::Cancelled => Err(self),
        }
    }

    /// The name of the task.
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
