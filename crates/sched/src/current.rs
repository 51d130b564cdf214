//! The worker whose thread this is: a thread-local, nothing else.
//!
//! C1. The pointer is null or leads to a worker that this thread owns. Nobody
//!     keeps a reference to it across the poll of a task, since a task may hand
//!     the worker to another thread.

use std::cell::Cell;
use std::ptr::null_mut;

use std::sync::Arc;

use blitzen_util::thread_local_const;

use crate::scheduler::Scheduler;
use crate::worker::Worker;

thread_local_const! {
    static WORKER: Cell<*mut Worker> = Cell::new(null_mut());
}

/// Makes `worker` this thread's own.
pub(crate) fn install(worker: Box<Worker>) {
    let before = WORKER.with(|slot| slot.replace(Box::into_raw(worker)));
    assert!(before.is_null(), "a thread has one worker at a time");
}

/// Takes this thread's worker away, if it has one.
pub(crate) fn remove() -> Option<Box<Worker>> {
    let worker = WORKER.with(|slot| slot.replace(null_mut()));
    // SAFETY: C1: from `install`, and taken out of the slot with this.
    (!worker.is_null()).then(|| unsafe { Box::from_raw(worker) })
}

/// Lends this thread's worker, if it has one. `visit` polls no task.
#[inline]
pub(crate) fn with_worker<R>(visit: impl FnOnce(Option<&Worker>) -> R) -> R {
    // A thread that is going away has no worker.
    let worker = WORKER.try_with(Cell::get).unwrap_or(null_mut());
    // SAFETY: C1. A worker is only reached through shared references.
    visit(unsafe { worker.as_ref() })
}

/// Lends this thread's worker if it is one of `scheduler`.
#[inline]
pub(crate) fn with_worker_of<R>(
    scheduler: &Arc<Scheduler>,
    visit: impl FnOnce(Option<&Worker>) -> R,
) -> R {
    with_worker(|worker| visit(worker.filter(|worker| worker.belongs_to(scheduler))))
}
