//! A runtime, owned: dropping it shuts it down.

use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use super::builder::Builder;
use super::handle::{EnterGuard, Handle};
use super::metrics::RuntimeMetrics;
use super::shutdown::{ShutdownWait, Stragglers, shut_down};
use crate::task::JoinHandle;

/// Runs tasks, and owns the threads that do so.
///
/// Dropping it shuts it down: it cancels its tasks where they next wait, and waits for them and
/// for blocking code that has begun. [`shutdown_timeout`](Self::shutdown_timeout),
/// [`shutdown_within`](Self::shutdown_within) and
/// [`shutdown_background`](Self::shutdown_background) wait less.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::Runtime;
///
/// let runtime = Runtime::new().unwrap();
/// assert_eq!(runtime.block_on(async { 1 + 1 }), 2);
/// ```
///
/// # Panics
///
/// Dropping it on a thread that runs tasks panics; use
/// [`shutdown_background`](Self::shutdown_background) there.
pub struct Runtime {
    handle: Handle,
    /// Nothing is left to do on drop.
    is_shut_down: bool,
}

impl UnwindSafe for Runtime {}
impl RefUnwindSafe for Runtime {}

impl Runtime {
    /// Creates a multi-thread runtime with I/O and time enabled, and the defaults of
    /// [`Builder`].
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new()?;
    /// assert_eq!(runtime.block_on(async { 1 }), 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Builder::build`].
    pub fn new() -> io::Result<Self> {
        Builder::new_multi_thread().enable_all().build()
    }

    pub(crate) fn from_handle(handle: Handle) -> Self {
        Self {
            handle,
            is_shut_down: false,
        }
    }

    /// Returns a handle to the runtime, which can be cloned and sent to other threads.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let task = runtime.handle().spawn(async { 1 });
    /// assert_eq!(runtime.block_on(task).unwrap(), 1);
    /// ```
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Spawns a task on the runtime and returns a [`JoinHandle`] for its output.
    ///
    /// The task starts at once, whether or not the handle is awaited. In a current-thread
    /// runtime it runs while somebody is in [`block_on`](Self::block_on).
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let task = runtime.spawn(async { "done" });
    /// assert_eq!(runtime.block_on(task).unwrap(), "done");
    /// ```
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(future)
    }

    /// Runs `code`, which may block, on a thread of the blocking pool of the runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let task = runtime.spawn_blocking(|| std::fs::metadata("/").is_ok());
    /// assert!(runtime.block_on(task).unwrap());
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the pool has no thread and the system refuses to start one.
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, code: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.handle.spawn_blocking(code)
    }

    /// Runs `future` on the calling thread until it ends, and returns its output.
    ///
    /// In a current-thread runtime the tasks run on this thread meanwhile.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.block_on(async { 5 }), 5);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics on a thread that runs tasks, and if `future` panics.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        super::block_on::block_on_runtime(&self.handle, future)
    }

    /// Makes this the current runtime of the thread until the returned guard is dropped.
    ///
    /// Functions such as [`spawn`](crate::spawn()) then use it. It does not run any task.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let _entered = runtime.enter();
    /// let task = blitzen::spawn(async { 1 });
    /// assert_eq!(runtime.block_on(task).unwrap(), 1);
    /// ```
    ///
    /// # Panics
    ///
    /// Dropping guards in another order than the reverse of their creation panics.
    #[track_caller]
    pub fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// Returns a view of the metrics of the runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().num_alive_tasks(), 0);
    /// ```
    pub fn metrics(&self) -> RuntimeMetrics {
        self.handle.metrics()
    }

    /// Shuts the runtime down, and waits at most `limit` for running tasks and blocking code to
    /// stop.
    ///
    /// Whatever has not stopped by then goes on in the background.
    /// [`shutdown_within`](Self::shutdown_within) reports it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// runtime.spawn(std::future::pending::<()>());
    /// runtime.shutdown_timeout(Duration::from_millis(100));
    /// ```
    pub fn shutdown_timeout(self, limit: Duration) {
        // `shutdown_within` reports what is left.
        let _ = self.shutdown_within(limit);
    }

    /// Shuts the runtime down, and waits at most `limit` for running tasks and blocking code to
    /// stop.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let (release, wait) = mpsc::channel::<()>();
    /// let (begun, beginning) = mpsc::channel();
    /// runtime.spawn(async move {
    ///     begun.send(()).unwrap();
    ///     let _ = wait.recv(); // blocks its worker
    /// });
    /// beginning.recv().unwrap();
    /// let stragglers = runtime.shutdown_within(Duration::from_millis(10)).unwrap_err();
    /// assert_eq!(stragglers.tasks.len(), 1);
    /// drop(release);
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Stragglers`] if something had not stopped after `limit`. It goes on in the
    /// background.
    pub fn shutdown_within(mut self, limit: Duration) -> Result<(), Stragglers> {
        shut_down_within(&self.handle, &mut self.is_shut_down, limit)
    }

    /// Shuts the runtime down without waiting for anything.
    ///
    /// Unlike a drop, this is allowed on a thread that runs tasks.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// runtime.spawn_blocking(|| std::thread::sleep(Duration::from_millis(10)));
    /// runtime.shutdown_background();
    /// ```
    pub fn shutdown_background(mut self) {
        self.is_shut_down = true;
        // What does not stop at once goes on in the background.
        let _ = shut_down(&self.handle, ShutdownWait::None);
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        drop_runtime(&self.handle, &mut self.is_shut_down);
    }
}

/// Shuts a runtime down, and waits at most `limit`. On a thread that runs tasks it panics as a
/// drop does, unless there is nothing to wait for.
pub(crate) fn shut_down_within(
    handle: &Handle,
    is_shut_down: &mut bool,
    limit: Duration,
) -> Result<(), Stragglers> {
    if !limit.is_zero() && blitzen_util::entered::is_entered() {
        drop_runtime(handle, is_shut_down);
    }
    *is_shut_down = true;
    shut_down(handle, ShutdownWait::Within(limit))
}

/// Shuts a runtime down that is being dropped.
pub(crate) fn drop_runtime(handle: &Handle, is_shut_down: &mut bool) {
    if std::mem::replace(is_shut_down, true) {
        return;
    }
    if blitzen_util::entered::is_entered() {
        // Waiting here would block tasks. Cancel what can be cancelled, then panic, unless the
        // thread is panicking already.
        let _ = shut_down(handle, ShutdownWait::None);
        if !std::thread::panicking() {
            panic!(
                "Cannot drop a runtime in a context where blocking is not allowed. This happens \
                 when a runtime is dropped from within an asynchronous context. Use \
                 `Runtime::shutdown_background` there."
            );
        }
        return;
    }
    // Endless wait: everything has stopped.
    let _ = shut_down(handle, ShutdownWait::Endless);
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("handle", &self.handle)
            .finish_non_exhaustive()
    }
}
