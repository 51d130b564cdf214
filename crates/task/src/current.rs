//! The task this thread is polling or dropping: a thread-local, nothing else.

use std::cell::Cell;
use std::ptr::NonNull;
use std::task::Waker;

use blitzen_util::thread_local_const;
use blitzen_util::wait::{self, PollNote};

use crate::header::Header;
use crate::id::Id;
use crate::spawn_meta::SpawnMeta;
use crate::waker;

struct Current {
    task: Cell<Option<NonNull<Header>>>,
    /// The ids that this thread has reserved, `next..end`.
    next_id: Cell<u64>,
    end_id: Cell<u64>,
}

thread_local_const! {
    static CURRENT: Current = Current {
        task: Cell::new(None),
        next_id: Cell::new(0),
        end_id: Cell::new(0),
    };
}

/// Restores on drop the task that was current before, and what it has noted: a task may be
/// polled within the poll of another one.
pub(crate) struct CurrentTaskGuard {
    task: Option<NonNull<Header>>,
    note: PollNote,
}

impl Drop for CurrentTaskGuard {
    #[inline]
    fn drop(&mut self) {
        CURRENT.with(|current| current.task.set(self.task));
        wait::replace(self.note);
    }
}

/// Makes `task` current until the guard is dropped. The caller keeps the task
/// alive for as long.
#[inline]
pub(crate) fn enter(task: NonNull<Header>) -> CurrentTaskGuard {
    CurrentTaskGuard {
        task: CURRENT.with(|current| current.task.replace(Some(task))),
        note: wait::take(),
    }
}

/// Returns the current task. The caller of [`enter`] keeps it alive.
pub(crate) fn task() -> Option<NonNull<Header>> {
    CURRENT.with(|current| current.task.get())
}

/// The id of the current task.
pub fn id() -> Option<Id> {
    // SAFETY: a current task is alive.
    task().map(|task| unsafe { task.as_ref() }.id)
}

/// Calls `visit` with the current task's id and where it was spawned.
pub fn with_spawn_meta<R>(visit: impl FnOnce(Id, &SpawnMeta) -> R) -> Option<R> {
    // SAFETY: a current task is alive, and stays current while `visit` runs.
    let task = task().map(|task| unsafe { &*task.as_ptr() })?;
    Some(visit(task.id, &task.meta))
}

/// Whether `waker` is the current task's own. If it is not, an executor may run
/// within the task, and block its thread.
#[inline]
pub fn is_own_waker(waker: &Waker) -> bool {
    task().is_some_and(|task| waker::is_of(waker, task))
}

/// Has the current task queued again when its poll ends, behind the others,
/// without the cost of a wake. Returns false if `waker` is not the task's own,
/// and so must be woken.
#[inline]
pub fn yield_if_own(waker: &Waker) -> bool {
    let is_own = is_own_waker(waker);
    if is_own {
        wait::request_yield();
    }
    is_own
}

/// The next unused id of this thread's batch, or the first of a new one.
#[inline]
pub(crate) fn next_id(new_batch: impl FnOnce() -> u64, batch: u64) -> u64 {
    CURRENT.with(|current| {
        let mut next = current.next_id.get();
        if next == current.end_id.get() {
            next = new_batch();
            current.end_id.set(next + batch);
        }
        current.next_id.set(next + 1);
        next
    })
}
