//! Code that blocks, beside tasks that must not.

use blitzen_task::{JoinHandle, SpawnMeta};
use blitzen_util::{coop, entered};

use crate::runtime::Handle;

/// Runs code that blocks on the current runtime's pool of threads for it.
///
/// Code that has begun cannot be aborted; a runtime that shuts down waits for
/// it, and drops what has not begun.
///
/// ```
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let text = blitzen::task::spawn_blocking(|| std::fs::read_to_string("/dev/null"));
/// assert_eq!(text.await.unwrap().unwrap(), "");
/// # });
/// ```
///
/// # Panics
/// Outside a runtime, and if the pool has no thread and the system gives none.
#[track_caller]
pub fn spawn_blocking<F, R>(code: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let handle = Handle::current();
    handle
        .inner
        .spawn_blocking(code, false, SpawnMeta::caller())
}

/// Runs code that blocks right here. In a multi-thread runtime the worker's
/// other tasks move to another thread first.
///
/// The rest of the same task waits, also what `join!` runs beside this call;
/// [`spawn_blocking`] has no such effect.
///
/// ```
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let size = blitzen::task::block_in_place(|| std::fs::metadata("/dev/null").unwrap().len());
/// assert_eq!(size, 0);
/// # });
/// ```
///
/// # Panics
/// In a current-thread runtime, where there is no other thread.
#[track_caller]
pub fn block_in_place<F, R>(code: F) -> R
where
    F: FnOnce() -> R,
{
    if !entered::is_entered() {
        // Outside a runtime, or on a thread that may block anyway.
        return code();
    }
    // What counts is whose tasks this thread runs, not which runtime is entered.
    assert!(
        !blitzen_sched::is_current_thread_driver() && !super::local::is_polling_local_set(),
        "can call blocking only when running on the multi-threaded runtime"
    );
    blitzen_sched::block_in_place(|| {
        let _free = entered::leave();
        coop::with_unconstrained(code)
    })
}
