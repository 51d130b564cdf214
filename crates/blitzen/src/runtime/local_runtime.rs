//! A runtime for futures that stay on their thread.

use std::fmt;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use super::builder::Builder;
use super::handle::{EnterGuard, Handle};
use super::metrics::RuntimeMetrics;
use super::runtime::drop_runtime;
use super::shutdown::{ShutdownWait, shut_down};
use crate::task::JoinHandle;

/// Options of a [`LocalRuntime`]. There are none yet.
///
/// ```
/// let runtime = blitzen::runtime::Builder::new_current_thread()
///     .build_local(blitzen::runtime::LocalOptions::default())
///     .unwrap();
/// # drop(runtime);
/// ```
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct LocalOptions {
    /// Options may come to depend on the thread.
    _not_send: PhantomData<*const ()>,
}

/// A current-thread runtime that cannot leave its thread, so that the futures
/// it runs need not be `Send`.
///
/// ```
/// use std::rc::Rc;
/// use blitzen::runtime::LocalRuntime;
///
/// let runtime = LocalRuntime::new().unwrap();
/// let shared = Rc::new(5);
/// let task = runtime.spawn_local({
///     let shared = shared.clone();
///     async move { *shared + 1 }
/// });
/// assert_eq!(runtime.block_on(task).unwrap(), 6);
/// ```
pub struct LocalRuntime {
    handle: Handle,
    is_shut_down: bool,
    not_send: PhantomData<*const ()>,
}

impl UnwindSafe for LocalRuntime {}
impl RefUnwindSafe for LocalRuntime {}

impl LocalRuntime {
    /// A local runtime with every driver.
    ///
    /// ```
    /// let runtime = blitzen::runtime::LocalRuntime::new()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new() -> io::Result<Self> {
        Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())
    }

    pub(crate) fn from_handle(handle: Handle) -> Self {
        Self {
            handle,
            is_shut_down: false,
            not_send: PhantomData,
        }
    }

    /// A handle to the runtime, which may go to other threads, and spawns
    /// futures that are `Send`.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::LocalRuntime::new().unwrap();
    /// let task = runtime.handle().spawn(async { 1 });
    /// # runtime.block_on(task).unwrap();
    /// ```
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Spawns a task whose future need not be `Send`.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::LocalRuntime::new().unwrap();
    /// let task = runtime.spawn_local(async { std::rc::Rc::new(1) });
    /// assert_eq!(*runtime.block_on(task).unwrap(), 1);
    /// ```
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let (id, meta) = (
            blitzen_task::glue::next_id(),
            blitzen_task::SpawnMeta::caller(),
        );
        // SAFETY: not `Send`, so this is the thread it was built on.
        unsafe { self.handle.inner.spawn_local(future, id, meta) }
    }

    /// Runs code that blocks on the pool of threads for it.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::LocalRuntime::new().unwrap();
    /// let task = runtime.spawn_blocking(|| 2);
    /// assert_eq!(runtime.block_on(task).unwrap(), 2);
    /// ```
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, code: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.handle.spawn_blocking(code)
    }

    /// Runs a future, and the tasks beside it, until the future ends.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::LocalRuntime::new().unwrap();
    /// assert_eq!(runtime.block_on(async { 3 }), 3);
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
    /// # let runtime = blitzen::runtime::LocalRuntime::new().unwrap();
    /// let _inside = runtime.enter();
    /// blitzen::task::spawn_local(async {});
    /// ```
    #[track_caller]
    pub fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// What the runtime has done so far.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::LocalRuntime::new().unwrap();
    /// assert_eq!(runtime.metrics().num_workers(), 1);
    /// ```
    pub fn metrics(&self) -> RuntimeMetrics {
        self.handle.metrics()
    }

    /// Shuts down, waiting at most `limit` for blocking work.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::LocalRuntime::new().unwrap();
    /// runtime.shutdown_timeout(std::time::Duration::from_millis(100));
    /// ```
    pub fn shutdown_timeout(mut self, limit: Duration) {
        self.is_shut_down = true;
        // The tasks have stopped; blocking work goes on by itself.
        let _ = shut_down(&self.handle, ShutdownWait::Within(limit));
    }

    /// Shuts down without waiting for blocking work.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::LocalRuntime::new().unwrap();
    /// runtime.shutdown_background();
    /// ```
    pub fn shutdown_background(mut self) {
        self.is_shut_down = true;
        // As above.
        let _ = shut_down(&self.handle, ShutdownWait::None);
    }
}

impl Drop for LocalRuntime {
    fn drop(&mut self) {
        drop_runtime(&self.handle, &mut self.is_shut_down);
    }
}

impl fmt::Debug for LocalRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalRuntime")
            .field("handle", &self.handle)
            .finish_non_exhaustive()
    }
}
