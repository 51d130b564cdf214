//! Where work on files is done that may have to wait: on the spot if it is likely
//! not to, and else on the pool of threads for that.

use std::io;
use std::path::Path;

use blitzen_task::{JoinHandle, SpawnMeta};

use super::{inline, sys};
use crate::runtime::{Handle, context};

/// The most that is read or copied at once by a worker: some tens of
/// microseconds' worth.
pub(super) const MOST_AT_ONCE: usize = 256 * 1024;

/// What an operation ends with whose job was refused, or has panicked.
pub(super) fn failed() -> io::Error {
    io::Error::other("background task failed")
}

/// Says that an operation begins: that takes a runtime, even if it can be done
/// right here, so that nobody finds out only on the day when it cannot.
///
/// # Errors
/// If the runtime has been shut down.
///
/// # Panics
/// Outside a runtime.
#[track_caller]
pub(super) fn enter() -> io::Result<()> {
    match context::with_current(|handle| handle.inner.scheduler().is_closed()) {
        Ok(false) => Ok(()),
        Ok(true) => Err(failed()),
        Err(error) => panic!("{error}"),
    }
}

/// Starts a job; `mandatory` if it shall run although the runtime is shut down.
#[track_caller]
pub(super) fn start<T: Send + 'static>(
    job: impl FnOnce() -> T + Send + 'static,
    mandatory: bool,
) -> JoinHandle<T> {
    let inner = Handle::current().inner;
    inner.spawn_blocking(job, mandatory, SpawnMeta::caller())
}

/// Does a job on the pool.
pub(super) async fn job<T: Send + 'static>(
    job: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    start(job, false).await.unwrap_or_else(|_| Err(failed()))
}

/// Does something with what a path names: on the spot, or on the pool.
pub(super) async fn path_job<T: Send + 'static>(
    path: &Path,
    act: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    crate::task::consume_budget().await;
    if !sys::is_local(path) {
        return job(act).await;
    }
    match inline::run_inline(&inline::PATHS, act) {
        Ok(done) => done,
        Err(act) => job(act).await,
    }
}
