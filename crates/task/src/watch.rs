//! Watched polls: a dump has a task polled once more, to see what it waits for.
//!
//! The poll is an ordinary one. A task may be woken for no reason, so this changes nothing that
//! a program can rely on.

use std::ptr::NonNull;
use std::sync::OnceLock;

use crate::header::Header;
use crate::id::Id;
use crate::raw;

/// The files whose functions poll a task's future, for who reads a stack that was recorded in it.
pub const POLL_FILES: [&str; 2] = [crate::raw::FILE, crate::cell::FILE];

static ON_WATCHED: OnceLock<fn(Id)> = OnceLock::new();

/// Sets the function that is called when a watched poll was pending, on the thread of the poll.
/// The first one that is set stays. It must not call foreign code.
pub fn set_on_watched(call: fn(Id)) {
    ON_WATCHED.get_or_init(|| call);
}

#[cold]
pub(crate) fn watched(task: &Header) {
    if let Some(call) = ON_WATCHED.get() {
        call(task.id);
    }
}

/// A reference to a task, to have it watched.
#[derive(Debug)]
pub struct WatchHandle(NonNull<Header>);

// SAFETY: only the header is reached, which is made for any thread.
unsafe impl Send for WatchHandle {}

impl WatchHandle {
    /// # Safety
    /// The task is alive, and `task` is a pointer to all of it.
    pub(crate) unsafe fn new(task: NonNull<Header>) -> Self {
        // SAFETY: alive by the caller's word.
        unsafe { task.as_ref() }.state.reference();
        Self(task)
    }

    /// The id of the task.
    pub fn id(&self) -> Id {
        // SAFETY: the handle's reference.
        unsafe { self.0.as_ref() }.id
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        // SAFETY: the handle's reference.
        unsafe { self.0.as_ref() }.state.load().is_complete()
    }

    /// Has the task polled, and what it waits for recorded. The scheduler of a set of local tasks
    /// is foreign code.
    pub fn watch(&self) {
        // SAFETY: the handle's reference.
        unsafe { raw::enqueue(self.0, self.0.as_ref().state.watch()) };
    }
}

impl Drop for WatchHandle {
    fn drop(&mut self) {
        // SAFETY: the handle's reference, used no more.
        unsafe { raw::release(self.0) };
    }
}
