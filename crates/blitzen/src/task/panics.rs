//! Destructors that call foreign code, such as the waker of a user.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

/// Runs `code`. If it panics while the thread is panicking anyway, that second panic is
/// dropped: it would end the process.
pub(super) fn unless_panicking(code: impl FnOnce()) {
    if !thread::panicking() {
        return code();
    }
    if let Err(payload) = catch_unwind(AssertUnwindSafe(code)) {
        std::mem::forget(payload); // whose destructor may panic too
    }
}

/// Calls `code` for every item. If it panics the others get their call all the same, and the
/// first panic goes on.
pub(super) fn for_each<T>(items: impl Iterator<Item = T>, mut code: impl FnMut(T)) {
    let mut first = None;
    for item in items {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| code(item))) {
            match first {
                None => first = Some(payload),
                Some(_) => std::mem::forget(payload),
            }
        }
    }
    if let Some(payload) = first {
        resume_unwind(payload);
    }
}
