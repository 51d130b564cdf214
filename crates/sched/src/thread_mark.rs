//! Marks of the calling thread: which scheduler or pool it works for.

use std::cell::Cell;
use std::ptr::null;

use blitzen_util::thread_local_const;

/// What a thread can be marked as.
#[derive(Clone, Copy)]
pub(crate) enum Role {
    /// It starts the workers of a scheduler, or names a thread of a pool.
    Starting,
    /// A scheduler's shutdown counts it, or it is a thread of a pool.
    Working,
}

thread_local_const! {
    static STARTING: Cell<*const ()> = Cell::new(null());
    static WORKING: Cell<*const ()> = Cell::new(null());
}

fn replace(role: Role, owner: *const ()) -> *const () {
    match role {
        Role::Starting => STARTING.with(|mark| mark.replace(owner)),
        Role::Working => WORKING.with(|mark| mark.replace(owner)),
    }
}

/// Marks the calling thread until it is dropped, and then restores the mark before.
#[must_use]
pub struct ThreadMark {
    role: Role,
    before: *const (),
}

impl ThreadMark {
    /// Marks the calling thread as working for `owner`.
    pub(crate) fn set<T>(role: Role, owner: &T) -> Self {
        let before = replace(role, std::ptr::from_ref(owner).cast());
        Self { role, before }
    }

    /// Whether the calling thread is marked as working for `owner`.
    pub(crate) fn is_set<T>(role: Role, owner: &T) -> bool {
        let mark = match role {
            Role::Starting => STARTING.with(Cell::get),
            Role::Working => WORKING.with(Cell::get),
        };
        std::ptr::eq(mark, std::ptr::from_ref(owner).cast())
    }
}

impl Drop for ThreadMark {
    fn drop(&mut self) {
        replace(self.role, self.before);
    }
}
