//! Destructors and loops that call foreign code, such as the waker of a user.

use std::panic::resume_unwind;
use std::thread;

use blitzen_util::quiet::{catch, quietly};

/// Runs `code`. If it panics while the thread is panicking anyway, that second panic goes no
/// further: it would end the process.
pub(super) fn unless_panicking(code: impl FnOnce()) {
    match thread::panicking() {
        true => quietly(code),
        false => code(),
    }
}

/// Calls `code` for every item. If it panics the others get their call all the same, and the
/// first panic goes on.
pub(super) fn for_each<T>(items: impl Iterator<Item = T>, mut code: impl FnMut(T)) {
    let mut first = None;
    for item in items {
        match (catch(|| code(item)), &first) {
            (None, _) => {}
            (panic, None) => first = panic,
            (panic, Some(_)) => quietly(|| drop(panic)),
        }
    }
    if let Some(payload) = first {
        resume_unwind(payload);
    }
}
