//! How many runtimes the calling thread has entered: a thread-local, nothing else.
//!
//! Foreign code can leave the thread deeper than it found it: it leaks the guard of a
//! runtime that it has entered, or holds the guard until a later poll. A thread that
//! runs tasks or jobs of others compares the depth before each, and has its runtime made
//! current again if the depth has changed.

use std::cell::Cell;

use blitzen_util::thread_local_const;

thread_local_const! {
    static DEPTH: Cell<usize> = Cell::new(0);
}

/// Returns how many runtimes the calling thread has entered, one inside the other.
#[inline]
pub fn context_depth() -> usize {
    DEPTH.with(Cell::get)
}

/// Notes how many runtimes the calling thread has entered.
pub fn set_context_depth(depth: usize) {
    DEPTH.with(|current| current.set(depth));
}
