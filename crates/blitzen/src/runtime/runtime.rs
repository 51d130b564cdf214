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

/// Runs tasks.
///
/// Dropping it cancels its tasks at their next suspension point and waits for
/// them, and for blocking work that has begun;
/// [`shutdown_within`](Self::shutdown_within) and
/// [`shutdown_background`](Self::shutdown_background) wait less.
///
/// ```
/// let runtime = blitzen::runtime::Runtime::new().unwrap();
/// assert_eq!(runtime.block_on(async { 1 + 1 }), 2);
/// ```
pub struct Runtime {
    handle: Handle,
    /// Nothing is left to do on drop.
    is_shut_down: bool,
}

impl UnwindSafe for Runtime {}
impl RefUnwindSafe for Runtime {}

impl Runtime {
    /// A multi-thread runtime with every driver and the defaults of
    /// [`Builder`].
    ///
    /// ```
    /// let runtime = blitzen::runtime::Runtime::new()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new() -> io::Result<Self> {
        Builder::new_multi_thread().enable_all().build()
    }

    pub(crate) fn from_handle(handle: Handle) -> Self {
        Self {
            handle,
            is_shut_down: false,
        }
    }

    /// A handle to the runtime, which can be cloned and sent anywhere.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let handle = runtime.handle().clone();
    /// ```
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Spawns a task. In a current-thread runtime it runs when somebody calls
    /// [`block_on`](Self::block_on).
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
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

    /// Runs code that blocks on the pool of threads for it.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let task = runtime.spawn_blocking(|| std::fs::metadata("/").is_ok());
    /// assert!(runtime.block_on(task).unwrap());
    /// ```
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, code: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.handle.spawn_blocking(code)
    }

    /// Runs a future on the calling thread until it ends.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// assert_eq!(runtime.block_on(async { 5 }), 5);
    /// ```
    ///
    /// # Panics
    /// On a thread that is running tasks, and if the future panics.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        super::block_on::block_on_runtime(&self.handle, future)
    }

    /// Makes this the current runtime until the guard is dropped.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let _inside = runtime.enter();
    /// blitzen::spawn(async {});
    /// ```
    #[track_caller]
    pub fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// What the runtime has done so far.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().num_alive_tasks(), 0);
    /// ```
    pub fn metrics(&self) -> RuntimeMetrics {
        self.handle.metrics()
    }

    /// Shuts down, waiting at most `limit` for what runs to stop. What has not
    /// stopped goes on by itself; [`shutdown_within`](Self::shutdown_within)
    /// tells what that is.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// runtime.shutdown_timeout(std::time::Duration::from_millis(100));
    /// ```
    pub fn shutdown_timeout(self, limit: Duration) {
        // Whoever wants to know what is left calls `shutdown_within`.
        let _ = self.shutdown_within(limit);
    }

    /// Shuts down, waiting at most `limit`, and tells what did not stop.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let (release, wait) = std::sync::mpsc::channel::<()>();
    /// let (begun, beginning) = std::sync::mpsc::channel();
    /// runtime.spawn(async move {
    ///     begun.send(()).unwrap();
    ///     let _ = wait.recv(); // blocks its worker
    /// });
    /// beginning.recv().unwrap();
    /// let stragglers = runtime.shutdown_within(Duration::from_millis(10)).unwrap_err();
    /// assert_eq!(stragglers.tasks.len(), 1);
    /// drop(release);
    /// ```
    pub fn shutdown_within(mut self, limit: Duration) -> Result<(), Stragglers> {
        self.is_shut_down = true;
        shut_down(&self.handle, ShutdownWait::Within(limit))
    }

    /// Shuts down without waiting for anything. May be called in async code.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// runtime.shutdown_background();
    /// ```
    pub fn shutdown_background(mut self) {
        self.is_shut_down = true;
        // What does not stop at once is meant to go on.
        let _ = shut_down(&self.handle, ShutdownWait::None);
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        drop_runtime(&self.handle, &mut self.is_shut_down);
    }
}

/// Shuts a runtime down that is being dropped.
pub(crate) fn drop_runtime(handle: &Handle, is_shut_down: &mut bool) {
    if std::mem::replace(is_shut_down, true) {
        return;
    }
    if blitzen_util::entered::is_entered() {
        // Waiting here would block tasks. Cancel what can be, then complain,
        // unless a panic is on its way already.
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
