//! A scope that no future runs: what a shutdown is.
//!
//! It has no parent, no deadline and no end of its grace: cancelling it asks everything inside to
//! end, and aborts nothing. Scopes that are opened inside are cancelled with it, each with its own
//! grace, and those that are dropped before they are empty become its members.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use blitzen_sync::{CancelToken, Notify};
use blitzen_task::context::{FrameValue, with_frame};

use super::context;
use super::error::Stopped;
use super::scope_core::{self, Cause, Node, ScopeCore, Settings};

/// The scope. It ends when this is dropped and its last member has left.
pub(crate) struct RootScope(Arc<Node>);

// A panic leaves what it shares as valid as before.
impl UnwindSafe for RootScope {}
impl RefUnwindSafe for RootScope {}

impl RootScope {
    pub(crate) fn new() -> Self {
        let settings = Settings {
            grace: Some(Duration::MAX),
            limit: Some(usize::MAX), // so that it notifies whenever a member leaves
            ..Settings::default()
        };
        Self(Arc::new(Node::new(ScopeCore::root(settings))))
    }

    pub(super) fn node(&self) -> &Arc<Node> {
        &self.0
    }

    /// Cancels the scope, unless it was.
    pub(crate) fn cancel(&self) {
        // The only cause: it says nothing that the caller could lose.
        let _ = self.0.begin_cancel(Cause::Stopped(Stopped::Cancelled));
    }

    /// Whether it was cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// The token that is cancelled with the scope.
    pub(crate) fn token(&self) -> CancelToken {
        scope_core::token(&self.0)
    }

    /// Whether scopes that were dropped inside are not empty yet.
    pub(crate) fn has_members(&self) -> bool {
        self.0.view().has_others()
    }

    /// Notified when a member leaves.
    pub(crate) fn progress(&self) -> &Notify {
        match self.0.owner().limit() {
            Some((_, room)) => room,
            None => unreachable!("it was made with a limit"),
        }
    }

    /// Runs `code` inside the scope, unless it is inside another one already.
    pub(crate) fn inside<R>(&self, code: impl FnOnce() -> R) -> R {
        match context::here().scope {
            None => with_frame(FrameValue::Value(self), code),
            Some(_) => code(),
        }
    }
}

impl Drop for RootScope {
    fn drop(&mut self) {
        self.0.leave_body();
    }
}

impl fmt::Debug for RootScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RootScope")
            .field("is_cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}
