//! Code that blocks, beside tasks that must not.

use blitzen_task::{JoinHandle, SpawnMeta};
use blitzen_util::{coop, entered};

use crate::runtime::Handle;

/// Runs `code`, which may block, on a thread of the runtime's blocking pool.
///
/// Returns a [`JoinHandle`] for its output. Code that has begun cannot be aborted. A runtime
/// that shuts down waits for the code that has begun, and drops the code that has not. Code that
/// drops its own runtime does not wait for itself.
///
/// # Examples
///
/// ```
/// use blitzen::task;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let text = task::spawn_blocking(|| std::fs::read_to_string("/dev/null"));
/// assert_eq!(text.await.unwrap().unwrap(), "");
/// # });
/// ```
///
/// # Panics
///
/// Panics outside a runtime, and if the pool has no thread and the system refuses to start one.
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

/// Runs `code`, which may block, on the calling thread.
///
/// In a multi-thread runtime the other tasks of this worker move to another thread first. The
/// rest of the same task waits, including what `join!` runs beside this call;
/// [`spawn_blocking`] has no such effect. On a thread that runs no tasks `code` is simply
/// called.
///
/// At most [`max_blocking_threads`](crate::runtime::Builder::max_blocking_threads) threads take
/// over workers at a time, apart from those of the blocking pool. If all of them block, the
/// other tasks of this worker wait until one of them, or `code`, has ended. A thread that is not
/// needed any more ends after
/// [`thread_keep_alive`](crate::runtime::Builder::thread_keep_alive).
///
/// # Examples
///
/// ```
/// use blitzen::task;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let size = task::block_in_place(|| std::fs::metadata("/dev/null").unwrap().len());
/// assert_eq!(size, 0);
/// # });
/// ```
///
/// # Panics
///
/// Panics on a thread that runs the tasks of a current-thread runtime or of a
/// [`LocalSet`](super::LocalSet): there is no other thread to move them to.
#[track_caller]
pub fn block_in_place<F, R>(code: F) -> R
where
    F: FnOnce() -> R,
{
    if !entered::is_entered() {
        // Outside a runtime, or on a thread that may block anyway.
        return code();
    }
    // It depends on the runtime whose tasks this thread runs, not on the one that is entered.
    assert!(
        !blitzen_sched::is_current_thread_driver() && !super::local::is_polling_local_set(),
        "can call blocking only when running on the multi-threaded runtime"
    );
    blitzen_sched::block_in_place(|| {
        let _free = entered::leave();
        // A blocking section belongs to its thread, not to a coroutine.
        #[cfg(feature = "coro")]
        let _outside = crate::coro::Outside::enter();
        coop::with_unconstrained(code)
    })
}
