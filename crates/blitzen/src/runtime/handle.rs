//! A handle to a runtime: it spawns tasks, but does not keep the runtime running.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use blitzen_observe::TraceMode;
use blitzen_task::SpawnMeta;
use blitzen_task::glue::next_id;

use super::context::{self, EnteredInOrder};
use super::dump::TaskList;
use super::id::Id;
use super::inner::{Flavor, Inner};
use super::metrics::RuntimeMetrics;
use super::trace::Trace;
use crate::task::JoinHandle;

/// A reference to a runtime, which spawns tasks on it and enters it without owning it.
///
/// It can be cloned and sent to other threads. It does not keep the runtime running: tasks that
/// are spawned after a shutdown are cancelled at once.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::Runtime;
///
/// let runtime = Runtime::new().unwrap();
/// let handle = runtime.handle().clone();
/// let other = std::thread::spawn(move || handle.block_on(async { 7 }));
/// assert_eq!(other.join().unwrap(), 7);
/// ```
#[derive(Clone)]
pub struct Handle {
    pub(crate) inner: Arc<Inner>,
}

impl UnwindSafe for Handle {}
impl RefUnwindSafe for Handle {}

/// The flavor of a runtime.
///
/// [`Handle::runtime_flavor`] returns it.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::{Builder, RuntimeFlavor};
///
/// let runtime = Builder::new_current_thread().build().unwrap();
/// assert_eq!(runtime.handle().runtime_flavor(), RuntimeFlavor::CurrentThread);
/// ```
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuntimeFlavor {
    /// The caller of `block_on` runs the tasks.
    CurrentThread,
    /// Worker threads run the tasks.
    MultiThread,
}

impl Handle {
    /// Returns a handle to the runtime that the calling code runs in, or that was entered.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::{Handle, Runtime};
    ///
    /// let runtime = Runtime::new().unwrap();
    /// runtime.block_on(async {
    ///     assert_eq!(Handle::current().id(), runtime.handle().id());
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics outside a runtime; see [`try_current`](Self::try_current).
    #[track_caller]
    pub fn current() -> Self {
        match Self::try_current() {
            Ok(handle) => handle,
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns a handle to the runtime that the calling code runs in, or that was entered.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Handle;
    ///
    /// assert!(Handle::try_current().is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`TryCurrentError`] outside a runtime.
    pub fn try_current() -> Result<Self, TryCurrentError> {
        context::with_current(Handle::clone)
    }

    /// Whether it is of the runtime that the calling code runs in, or that was entered.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        context::with_current(|current| Arc::ptr_eq(&self.inner, &current.inner)).unwrap_or(false)
    }

    /// Makes this the current runtime of the thread until the returned guard is dropped.
    ///
    /// Functions such as [`spawn`](crate::spawn()) then use it. It does not run any task.
    /// Inside a task the guard has an effect until the end of the poll at most: each poll
    /// begins in the runtime of its task.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let _entered = runtime.handle().enter();
    /// let task = blitzen::spawn(async { 1 });
    /// assert_eq!(runtime.block_on(task).unwrap(), 1);
    /// ```
    ///
    /// # Panics
    ///
    /// Dropping guards in another order than the reverse of their creation panics.
    #[track_caller]
    pub fn enter(&self) -> EnterGuard<'_> {
        EnterGuard {
            _entered: context::enter_in_order(self),
            _handle: PhantomData,
        }
    }

    /// Spawns a task on the runtime and returns a [`JoinHandle`] for its output.
    ///
    /// The task starts at once, whether or not the handle is awaited.
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
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.inner.spawn(future, next_id(), SpawnMeta::caller())
    }

    /// Runs `code`, which may block, on a thread of the blocking pool of the runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let sum = runtime.handle().spawn_blocking(|| (1..=10).sum::<u32>());
    /// assert_eq!(runtime.block_on(sum).unwrap(), 55);
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
        self.inner.spawn_blocking(code, false, SpawnMeta::caller())
    }

    /// Runs `future` on the calling thread until it ends, and returns its output.
    ///
    /// The tasks of a current-thread runtime do not run meanwhile, unless another thread is in
    /// [`Runtime::block_on`](super::Runtime::block_on).
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.handle().block_on(async { 3 }), 3);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics on a thread that runs tasks, and if `future` panics.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        super::block_on::block_on(self, future)
    }

    /// Returns the flavor of the runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::{Builder, RuntimeFlavor};
    ///
    /// let runtime = Builder::new_multi_thread().build().unwrap();
    /// assert_eq!(runtime.handle().runtime_flavor(), RuntimeFlavor::MultiThread);
    /// ```
    pub fn runtime_flavor(&self) -> RuntimeFlavor {
        match self.inner.flavor() {
            Flavor::CurrentThread(_) => RuntimeFlavor::CurrentThread,
            Flavor::MultiThread => RuntimeFlavor::MultiThread,
        }
    }

    /// Returns the id of the runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let (one, other) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    /// assert_ne!(one.handle().id(), other.handle().id());
    /// ```
    pub fn id(&self) -> Id {
        self.inner.id()
    }

    /// Returns the name that was given to [`Builder::name`](super::Builder::name).
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().name("crawler").build().unwrap();
    /// assert_eq!(runtime.handle().name(), Some("crawler"));
    /// ```
    pub fn name(&self) -> Option<&str> {
        self.inner.name()
    }

    /// Returns a list of all live tasks of the runtime: where each one was spawned, whether it
    /// runs, and what it waits for.
    ///
    /// This polls no task and stops no worker. It may be called from any thread, also while
    /// workers are stuck. Tasks that are spawned or end meanwhile may be missing. Tasks of a
    /// [`LocalSet`](crate::task::LocalSet) and code on the blocking pool are not in the list.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let task = runtime.spawn(std::future::pending::<()>());
    /// let tasks = runtime.handle().tasks();
    /// assert_eq!(tasks.get(task.id()).unwrap().spawned_at().file(), file!());
    /// task.abort();
    /// ```
    pub fn tasks(&self) -> TaskList {
        TaskList::new(self.inner.scheduler(), self.inner.world().clock())
    }

    /// Returns a view of the metrics of the runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert!(runtime.handle().metrics().num_workers() >= 1);
    /// ```
    pub fn metrics(&self) -> RuntimeMetrics {
        RuntimeMetrics::new(self.clone())
    }

    /// Sets what the recorder of the runtime records: polls, wakes, spawned tasks, parks and
    /// steals, with their times.
    ///
    /// Any thread may call it at any time. Workers notice the change within a millisecond or
    /// their current poll. What was recorded is kept, and overwritten by later events.
    /// [`Builder::trace`](super::Builder::trace) sets it from the start.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::{Builder, TraceMode};
    ///
    /// let runtime = Builder::new_current_thread().build().unwrap();
    /// runtime.handle().set_trace(TraceMode::Full);
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// runtime.handle().set_trace(TraceMode::Off);
    /// assert!(!runtime.handle().trace().is_empty());
    /// ```
    pub fn set_trace(&self, mode: TraceMode) {
        self.inner.scheduler().observation().set_trace(mode);
    }

    /// Returns a copy of what was recorded: the latest events of each worker.
    ///
    /// Nobody is stopped for it, whatever the workers do. The trace is empty if the recorder
    /// was never switched on.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::{Builder, TraceMode};
    ///
    /// let runtime = Builder::new_current_thread().trace(TraceMode::Sampled).build().unwrap();
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// let mut file = Vec::new(); // or `std::fs::File::create("trace.pftrace")?`
    /// runtime.handle().trace().write_perfetto(&mut file)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn trace(&self) -> Trace {
        Trace::of(&self.inner)
    }

    /// Switches the histogram of poll times on or off, which
    /// [`RuntimeMetrics::poll_times`] returns.
    ///
    /// It is off by default. While it is on, each poll takes some tens of nanoseconds longer.
    /// Workers notice the change within a millisecond or their current poll. What was counted
    /// is kept.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().build().unwrap();
    /// runtime.handle().set_poll_times(true);
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// runtime.handle().set_poll_times(false);
    /// assert_eq!(runtime.metrics().poll_times().count(), 1);
    /// ```
    pub fn set_poll_times(&self, on: bool) {
        self.inner.scheduler().observation().set_poll_times(on);
    }

    /// Switches the histogram of schedule delays on or off, which
    /// [`RuntimeMetrics::schedule_delays`] returns: how long tasks wait from being spawned or
    /// woken until they are polled.
    ///
    /// It is off by default. While it is on, each wake and each poll takes some tens of
    /// nanoseconds longer. Workers notice the change within a millisecond or their current
    /// poll. What was counted is kept.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().build().unwrap();
    /// runtime.handle().set_schedule_delays(true);
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// assert_eq!(runtime.metrics().schedule_delays().count(), 1);
    /// ```
    pub fn set_schedule_delays(&self, on: bool) {
        self.inner.scheduler().observation().set_schedule_delays(on);
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("id", &self.id())
            .field("flavor", &self.runtime_flavor())
            .finish_non_exhaustive()
    }
}

/// Keeps a runtime current until it is dropped.
///
/// [`Handle::enter`] and [`Runtime::enter`](super::Runtime::enter) return it.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::{EnterGuard, Runtime};
///
/// let runtime = Runtime::new().unwrap();
/// let entered: EnterGuard<'_> = runtime.enter();
/// blitzen::spawn(async {});
/// drop(entered);
/// ```
#[must_use = "the runtime is left when the guard is dropped"]
pub struct EnterGuard<'a> {
    _entered: EnteredInOrder,
    _handle: PhantomData<&'a Handle>,
}

impl fmt::Debug for EnterGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnterGuard").finish_non_exhaustive()
    }
}

/// The error of [`Handle::try_current`] outside a runtime.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::{Handle, TryCurrentError};
///
/// let error: TryCurrentError = Handle::try_current().unwrap_err();
/// assert!(error.is_missing_context());
/// ```
pub struct TryCurrentError {
    kind: Missing,
}

#[derive(Debug, PartialEq, Eq)]
enum Missing {
    NoContext,
    ThreadLocalDestroyed,
}

impl TryCurrentError {
    pub(crate) fn missing() -> Self {
        Self {
            kind: Missing::NoContext,
        }
    }

    pub(crate) fn destroyed() -> Self {
        Self {
            kind: Missing::ThreadLocalDestroyed,
        }
    }

    /// Returns whether the thread is in no runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Handle;
    ///
    /// let error = Handle::try_current().unwrap_err();
    /// assert!(error.is_missing_context());
    /// ```
    pub fn is_missing_context(&self) -> bool {
        self.kind == Missing::NoContext
    }

    /// Returns whether the thread is ending, and has lost its thread-local variables.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Handle;
    ///
    /// let error = Handle::try_current().unwrap_err();
    /// assert!(!error.is_thread_local_destroyed());
    /// ```
    pub fn is_thread_local_destroyed(&self) -> bool {
        self.kind == Missing::ThreadLocalDestroyed
    }
}

impl fmt::Debug for TryCurrentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryCurrentError")
            .field("kind", &self.kind)
            .finish()
    }
}

impl fmt::Display for TryCurrentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Missing::NoContext => {
                "there is no reactor running, must be called from the context of a Tokio 1.x \
                 runtime: call it inside `block_on` or a spawned task, or enter a runtime with \
                 `Handle::enter`"
            }
            Missing::ThreadLocalDestroyed => {
                "The Tokio context thread-local variable has been destroyed: the thread is ending, \
                 and no runtime can be used from here."
            }
        })
    }
}

impl std::error::Error for TryCurrentError {}
