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
use super::runtime::{drop_runtime, shut_down_within};
use super::shutdown::{ShutdownWait, shut_down};
use crate::task::JoinHandle;

/// The options of a [`LocalRuntime`]. There are none at present.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::{Builder, LocalOptions};
///
/// let runtime = Builder::new_current_thread().build_local(LocalOptions::default()).unwrap();
/// assert_eq!(runtime.block_on(async { 1 }), 1);
/// ```
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct LocalOptions {
    /// Options may come to depend on the thread.
    _not_send: PhantomData<*const ()>,
}

/// A current-thread runtime that stays on the thread that created it, so that its futures need
/// not be `Send`.
///
/// Dropping it shuts it down, as it does for a [`Runtime`](super::Runtime).
///
/// # Examples
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
    /// Creates a local runtime with I/O and time enabled, and the defaults of [`Builder`].
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::LocalRuntime;
    ///
    /// let runtime = LocalRuntime::new()?;
    /// assert_eq!(runtime.block_on(async { 1 }), 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Builder::build`].
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

    /// Returns a handle to the runtime.
    ///
    /// It can be sent to other threads, and spawns futures that are `Send`.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::LocalRuntime;
    ///
    /// let runtime = LocalRuntime::new().unwrap();
    /// let task = runtime.handle().spawn(async { 1 });
    /// assert_eq!(runtime.block_on(task).unwrap(), 1);
    /// ```
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Spawns a task, which need not be `Send`, and returns a [`JoinHandle`] for its output.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::LocalRuntime;
    ///
    /// let runtime = LocalRuntime::new().unwrap();
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

    /// Runs `code`, which may block, on a thread of the blocking pool of the runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::LocalRuntime;
    ///
    /// let runtime = LocalRuntime::new().unwrap();
    /// let task = runtime.spawn_blocking(|| 2);
    /// assert_eq!(runtime.block_on(task).unwrap(), 2);
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

    /// Runs `future`, and the tasks of the runtime beside it, until `future` ends.
    ///
    /// Returns its output.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::LocalRuntime;
    ///
    /// let runtime = LocalRuntime::new().unwrap();
    /// assert_eq!(runtime.block_on(async { 3 }), 3);
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
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::LocalRuntime;
    ///
    /// let runtime = LocalRuntime::new().unwrap();
    /// let _entered = runtime.enter();
    /// let task = blitzen::task::spawn_local(async { 1 });
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
    /// use blitzen::runtime::LocalRuntime;
    ///
    /// let runtime = LocalRuntime::new().unwrap();
    /// assert_eq!(runtime.metrics().num_workers(), 1);
    /// ```
    pub fn metrics(&self) -> RuntimeMetrics {
        self.handle.metrics()
    }

    /// Shuts the runtime down, and waits at most `limit` for blocking code to end.
    ///
    /// Whatever has not ended by then goes on in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::runtime::LocalRuntime;
    ///
    /// let runtime = LocalRuntime::new().unwrap();
    /// runtime.shutdown_timeout(Duration::from_millis(100));
    /// ```
    ///
    /// # Panics
    ///
    /// Panics on a thread that runs tasks, unless `limit` is zero.
    pub fn shutdown_timeout(mut self, limit: Duration) {
        // The tasks have stopped; blocking work goes on by itself.
        let _ = shut_down_within(&self.handle, &mut self.is_shut_down, limit);
    }

    /// Shuts the runtime down without waiting for blocking code.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::LocalRuntime;
    ///
    /// let runtime = LocalRuntime::new().unwrap();
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
