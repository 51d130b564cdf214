//! The cancellation of the scope that code runs in.

use std::future::Future;

use blitzen_sync::CancelToken;

use super::context::{self, ShieldDeadline, WithValue};
use super::scope_core;
use crate::time::Instant;

pub(crate) fn is_cancelled() -> bool {
    context::unshielded().is_some_and(|node| scope_core::is_cancelled(&node))
}

/// The token of the scope; `None` outside a scope, and inside a shield.
pub(crate) fn token() -> Option<CancelToken> {
    context::unshielded().map(|node| scope_core::token(&node))
}

pub(crate) fn deadline() -> Option<Instant> {
    context::deadline()
}

/// Runs `future`, which is inside a shield, with the deadline of that.
pub(crate) fn with_shield_deadline<F: Future>(
    deadline: Instant,
    future: F,
) -> impl Future<Output = F::Output> {
    WithValue::new(ShieldDeadline(deadline), future)
}
