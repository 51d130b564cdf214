//! Foreign code that may panic where a panic must not travel: a future's or
//! an output's destructor, a waker.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::Payload;

/// Runs `code`; what it panicked with, if it did.
pub(crate) fn catch(code: impl FnOnce()) -> Option<Payload> {
    catch_unwind(AssertUnwindSafe(code)).err()
}

/// Runs `code` and drops its panic, of which nobody is left to hear.
pub(crate) fn quietly(code: impl FnOnce()) {
    if let Some(payload) = catch(code) {
        // A payload whose own destructor panics is leaked rather than dropped again.
        std::mem::forget(catch(|| drop(payload)));
    }
}
