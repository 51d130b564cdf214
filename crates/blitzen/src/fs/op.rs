//! The four ways to do a file operation, cheapest first.
//!
//! ```text
//!   1 nowait   the kernel, if it need not wait (RWF_NOWAIT, RESOLVE_CACHED)
//!   2 inline   this worker's thread, as a blocking section, if that is likely
//!              to take microseconds
//!   3 ring     io_uring, on behalf of this worker
//!   4 pool     a thread of the blocking pool
//! ```
//!
//! [`run`] tries one after the other. An operation implements those that it
//! supports; only the last one is required.

use std::fs::File as StdFile;
use std::future::{Future, Ready};
use std::io;
use std::path::Path;
use std::sync::Arc;

use blitzen_task::{JoinHandle, SpawnMeta};
use blitzen_util::shim::Mutex;

use super::open_file::OpenFile;
use super::write_back::Change;
use super::{inline, sys};
use crate::runtime::{Handle, context};

/// The most bytes that a worker's own thread transfers at once, in some tens of
/// microseconds.
pub(super) const MAX_INLINE_BYTES: usize = 256 * 1024;

/// A file operation with the output `R`. `O` is its future on a ring; [`Ready`]
/// stands for an operation that rings do not support.
// Parameters instead of associated types: the compiler could not tell otherwise
// that a future which writes a `&'static str` is `Send`.
pub(super) trait FileOp<R: Send + 'static, O: Future<Output = R> + Send = Ready<R>>:
    Sized + Send + 'static
{
    /// Way 1: without waiting. Returns itself if it would have to wait, or
    /// might.
    fn nowait(self) -> Result<R, Self> {
        Err(self)
    }

    /// Way 2: on this thread, in a blocking section. Returns itself if it is not
    /// likely to be short, or this thread is no worker.
    fn inline(self) -> Result<R, Self> {
        Err(self)
    }

    /// Way 3: on the ring. Returns itself if the ring does not support it, or
    /// there is none. Keeps `change` until the operation has ended.
    fn submit(self, change: Change) -> Result<O, (Self, Change)> {
        Err((self, change))
    }

    /// Way 4: on a thread that may block.
    fn block(self) -> R;

    /// Returns the output with `error`: the runtime is shut down.
    fn refuse(self, error: io::Error) -> R;

    /// The open file that it changes.
    fn changed_file(&self) -> Option<&OpenFile> {
        None
    }
}

/// Does an operation in the cheapest way that is possible.
///
/// # Panics
/// Outside a runtime.
pub(super) async fn run<T, R, O>(op: T) -> R
where
    T: FileOp<R, O>,
    R: Send + 'static,
    O: Future<Output = R> + Send,
{
    if let Err(error) = enter() {
        return op.refuse(error);
    }
    crate::task::consume_budget().await;
    let op = match op.nowait() {
        Ok(output) => return output,
        Err(op) => op,
    };
    let op = match op.inline() {
        Ok(output) => return output,
        Err(op) => op,
    };
    // From here on the operation may outlive this future.
    let (change, _guard) = match op.changed_file() {
        Some(file) => file.write_back.begin_change(),
        None => Default::default(),
    };
    match op.submit(change) {
        Ok(on_ring) => on_ring.await,
        Err((op, change)) => run_on_pool(op, change).await,
    }
}

async fn run_on_pool<T, R, O>(op: T, change: Change) -> R
where
    T: FileOp<R, O>,
    R: Send + 'static,
    O: Future<Output = R> + Send,
{
    // Shared, to get it back if the pool refuses it.
    let slot = Arc::new(Mutex::new(Some(op)));
    let job_slot = slot.clone();
    let job = move || {
        let output = job_slot.lock().take().map(T::block);
        drop(change);
        output
    };
    if let Ok(Some(output)) = spawn_on_pool(job, false).await {
        return output;
    }
    match slot.lock().take() {
        Some(op) => op.refuse(refused()),
        None => unreachable!("a job that takes the operation returns its output"),
    }
}

/// The error of an operation that a runtime refuses since it is shut down.
pub(super) fn refused() -> io::Error {
    io::Error::other("background task failed")
}

/// Checks that there is a runtime. Every operation requires one, even if this
/// one could be done without: otherwise a missing runtime would go unnoticed
/// until an operation has to wait.
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
        Ok(true) => Err(refused()),
        Err(error) => panic!("{error}"),
    }
}

/// Starts a job on the pool. A `mandatory` one runs although the runtime is shut
/// down meanwhile.
#[track_caller]
pub(super) fn spawn_on_pool<T: Send + 'static>(
    job: impl FnOnce() -> T + Send + 'static,
    mandatory: bool,
) -> JoinHandle<T> {
    let inner = Handle::current().inner;
    inner.spawn_blocking(job, mandatory, SpawnMeta::caller())
}

/// A call that needs no open file: inline where its path is local, else on the
/// pool.
pub(super) struct PathCall<F> {
    is_local: bool,
    call: F,
}

impl<F> PathCall<F> {
    /// `call` is short if the directory of `path` is on a local file system.
    pub(super) fn new(path: &Path, call: F) -> Self {
        let is_local = sys::is_local(path);
        Self { is_local, call }
    }

    /// `call` is short if the directories of both paths are.
    pub(super) fn on_two(one: &Path, other: &Path, call: F) -> Self {
        let is_local = sys::is_local(one) && sys::is_local(other);
        Self { is_local, call }
    }

    /// `call` is never short.
    pub(super) fn on_pool(call: F) -> Self {
        let is_local = false;
        Self { is_local, call }
    }
}

impl<T, F> FileOp<io::Result<T>> for PathCall<F>
where
    T: Send + 'static,
    F: FnOnce() -> io::Result<T> + Send + 'static,
{
    fn inline(self) -> Result<io::Result<T>, Self> {
        match self.is_local {
            true => inline::run(&inline::PATHS, self, Self::block),
            false => Err(self),
        }
    }

    fn block(self) -> io::Result<T> {
        (self.call)()
    }

    fn refuse(self, error: io::Error) -> io::Result<T> {
        Err(error)
    }
}

/// A call on an open file.
pub(super) struct FileCall<F> {
    file: Arc<OpenFile>,
    effect: Effect,
    call: F,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// None: reads metadata, which is in memory if the file is local.
    Query,
    /// None, but waits for the disk.
    Sync,
    Change,
}

impl<F> FileCall<F> {
    /// `call` reads metadata.
    pub(super) fn query(file: &Arc<OpenFile>, call: F) -> Self {
        Self::new(file, Effect::Query, call)
    }

    /// `call` waits for the disk.
    pub(super) fn sync(file: &Arc<OpenFile>, call: F) -> Self {
        Self::new(file, Effect::Sync, call)
    }

    /// `call` changes the file.
    pub(super) fn change(file: &Arc<OpenFile>, call: F) -> Self {
        Self::new(file, Effect::Change, call)
    }

    fn new(file: &Arc<OpenFile>, effect: Effect, call: F) -> Self {
        let file = file.clone();
        Self { file, effect, call }
    }
}

impl<T, F> FileOp<io::Result<T>> for FileCall<F>
where
    T: Send + 'static,
    F: FnOnce(&StdFile) -> io::Result<T> + Send + 'static,
{
    fn nowait(self) -> Result<io::Result<T>, Self> {
        match self.effect == Effect::Query && self.file.is_local() {
            true => Ok(self.block()),
            false => Err(self),
        }
    }

    fn inline(self) -> Result<io::Result<T>, Self> {
        if self.effect != Effect::Change || !self.file.is_local() {
            return Err(self);
        }
        let Self { file, effect, call } = self;
        inline::run(&file.inline, call, |call| call(&file.std)).map_err(|call| Self {
            file: file.clone(),
            effect,
            call,
        })
    }

    fn block(self) -> io::Result<T> {
        (self.call)(&self.file.std)
    }

    fn refuse(self, error: io::Error) -> io::Result<T> {
        Err(error)
    }

    fn changed_file(&self) -> Option<&OpenFile> {
        (self.effect == Effect::Change).then_some(&*self.file)
    }
}
