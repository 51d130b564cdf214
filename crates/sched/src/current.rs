//! The worker whose thread this is: a thread-local, nothing else.
//!
//! A thread can have workers of several runtimes on its stack, since a task of
//! one runtime may shut another one down. The innermost is the current one.
//!
//! C1. The pointer is null or leads to a worker that this thread owns.
//! C2. A worker leaves its thread only through [`take_polling`], that is, while
//!     it polls a task. Whatever else a worker does (driver turns, hooks,
//!     cancelling tasks) may call foreign code under a borrow of the worker;
//!     that code cannot take it away.
//! C3. During a poll, `visit` of [`with_worker`] calls no foreign code.

use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::Arc;

use blitzen_util::thread_local_const;
use blitzen_util::wake_cause::{self, WakeCause};

use crate::scheduler::Scheduler;
use crate::worker::Worker;

thread_local_const! {
    static WORKER: Cell<*mut Worker> = Cell::new(null_mut());
}

/// The worker that was current before another one was installed, and why the thread woke tasks
/// then.
#[must_use = "what was current before has to be restored"]
pub(crate) struct Previous(*mut Worker, WakeCause);

/// Makes `worker` the current one of this thread.
pub(crate) fn install(worker: Box<Worker>) -> Previous {
    let before = WORKER.with(|slot| slot.replace(Box::into_raw(worker)));
    // What the worker does has causes of its own, on a thread of the blocking pool too.
    Previous(before, wake_cause::replace(WakeCause::Unknown))
}

/// Takes the current worker, unless it was handed off, and restores what was
/// current before it.
pub(crate) fn uninstall(previous: Previous) -> Option<Box<Worker>> {
    let worker = WORKER.with(|slot| slot.replace(previous.0));
    wake_cause::replace(previous.1);
    // SAFETY: C1: from `install`, and out of the slot with this. The run loop
    // that installed it calls this, so nothing borrows it.
    (!worker.is_null()).then(|| unsafe { Box::from_raw(worker) })
}

/// Takes the current worker away from this thread if it polls a task and
/// `may_leave` agrees; [`put_back`] undoes it.
pub(crate) fn take_polling(may_leave: impl FnOnce(&Worker) -> bool) -> Option<*mut Worker> {
    let worker = WORKER.try_with(Cell::get).unwrap_or(null_mut());
    // SAFETY: C1.
    let may_leave = unsafe { worker.as_ref() }.is_some_and(|w| w.is_polling() && may_leave(w));
    // C2, C3: nothing borrows it.
    may_leave.then(|| WORKER.with(|slot| slot.replace(null_mut())))
}

/// Makes a worker current again that [`take_polling`] took, on the same thread.
///
/// # Safety
/// `worker` is from `take_polling` on this thread, and nobody else owns it.
pub(crate) unsafe fn put_back(worker: *mut Worker) {
    let before = WORKER.with(|slot| slot.replace(worker));
    assert!(
        before.is_null(),
        "what ran without a worker left one behind"
    );
}

/// Lends this thread's current worker, if it has one.
#[inline(always)] // into the run loops
pub(crate) fn with_worker<R>(visit: impl FnOnce(Option<&Worker>) -> R) -> R {
    // A thread that is being destroyed has no worker.
    let worker = WORKER.try_with(Cell::get).unwrap_or(null_mut());
    // SAFETY: C1 to C3: it stays this thread's own as long as `visit` runs. A
    // worker is only reached through shared references.
    visit(unsafe { worker.as_ref() })
}

/// Lends this thread's current worker if it belongs to `scheduler`.
#[inline]
pub(crate) fn with_worker_of<R>(
    scheduler: &Arc<Scheduler>,
    visit: impl FnOnce(Option<&Worker>) -> R,
) -> R {
    with_worker(|worker| visit(worker.filter(|worker| worker.belongs_to(scheduler))))
}
