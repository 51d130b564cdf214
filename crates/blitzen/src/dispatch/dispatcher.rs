//! A handle to a dispatcher.

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;

use blitzen_sched::{DispatcherCore, PollJob, RouteError, Shares};
use blitzen_task::glue::next_id;
use blitzen_task::{JoinError, JoinHandle, SpawnMeta};

use super::builder::DispatcherBuilder;
use super::metrics::DispatcherMetrics;
use crate::runtime::Handle;

/// A handle to a dispatcher, which decides on which threads its tasks run, and how many at a time.
///
/// It can be cloned. The [module](super) has a list of all kinds.
///
/// # Examples
///
/// ```
/// use blitzen::dispatch::Dispatcher;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let database = Dispatcher::single("database").unwrap();
/// let name = database.run(async { std::thread::current().name().map(str::to_owned) });
/// assert_eq!(name.await.unwrap().as_deref(), Some("database"));
/// # });
/// ```
#[derive(Clone)]
pub struct Dispatcher {
    runtime: Handle,
    kind: DispatcherKind,
}

#[derive(Clone)]
pub(crate) enum DispatcherKind {
    /// The workers of the runtime.
    Default,
    /// The thread that spawns.
    Unconfined,
    /// Any other.
    Routed(Arc<DispatcherCore>),
}

impl Dispatcher {
    /// Returns the dispatcher of plain tasks: the workers of the current runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::dispatch::Dispatcher;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let workers = Dispatcher::default();
    /// assert_eq!(workers.spawn(async { 1 }).await.unwrap(), 1);
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics outside a runtime.
    // There is none outside a runtime, so that the trait does not fit.
    #[allow(clippy::should_implement_trait)]
    #[track_caller]
    pub fn default() -> Self {
        Self {
            runtime: Handle::current(),
            kind: DispatcherKind::Default,
        }
    }

    /// Returns the dispatcher for tasks that may block their thread.
    ///
    /// At most 64 of its tasks run at a time, or one for each core if there are more. A poll starts
    /// on the worker's own thread, so that moving there and back takes some tens of nanoseconds. If
    /// it takes long, another thread goes on with the worker after a millisecond or two, and the
    /// next polls start on threads of the blocking pool. Both together have at most as many threads
    /// as [`max_blocking_threads`](crate::runtime::Builder::max_blocking_threads) allows.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::dispatch::{Dispatcher, with_dispatcher};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let task = blitzen::spawn(async {
    ///     let path = String::from("/dev/null");
    ///     let read = async { std::fs::read(&path).map(|bytes| bytes.len()) };
    ///     with_dispatcher(&Dispatcher::io(), read).await
    /// });
    /// assert_eq!(task.await.unwrap().unwrap(), 0);
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics outside a runtime, in a [`LocalRuntime`](crate::runtime::LocalRuntime), and if the
    /// runtime has 1,023 dispatchers.
    #[track_caller]
    pub fn io() -> Self {
        let runtime = Handle::current();
        match refuse_local(&runtime) {
            Ok(()) => {}
            Err(error) => panic!("{error}"),
        }
        let core = runtime.inner.io_dispatcher();
        Self::registered(runtime, core)
    }

    /// Returns the dispatcher that polls a task on the thread that spawns it, until the task
    /// waits for the first time.
    ///
    /// From then on it is a task of the runtime's workers. If such tasks spawn each other more
    /// than eight deep, the next one starts on the workers too.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::thread;
    /// use blitzen::dispatch::Dispatcher;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let here = thread::current().id();
    /// let task = Dispatcher::unconfined().spawn(async { thread::current().id() });
    /// assert_eq!(task.await.unwrap(), here);
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics outside a runtime.
    #[track_caller]
    pub fn unconfined() -> Self {
        Self {
            runtime: Handle::current(),
            kind: DispatcherKind::Unconfined,
        }
    }

    /// Creates a dispatcher with one thread of its own, named `name`.
    ///
    /// The thread ends when the dispatcher is [closed](Self::close), or nothing refers to it any
    /// more.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::dispatch::Dispatcher;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let ui = Dispatcher::single("ui")?;
    /// assert_eq!(ui.spawn(async { 1 }).await.unwrap(), 1);
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`DispatcherBuilder::build`].
    ///
    /// # Panics
    ///
    /// Panics outside a runtime.
    #[track_caller]
    pub fn single(name: &str) -> io::Result<Self> {
        Self::builder().threads(1).name(name).build()
    }

    /// Returns a builder of a dispatcher with threads of its own.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::dispatch::Dispatcher;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # let _entered = runtime.enter();
    /// let render = Dispatcher::builder().threads(4).name("render").build().unwrap();
    /// # drop(render);
    /// ```
    pub fn builder() -> DispatcherBuilder {
        DispatcherBuilder::new()
    }

    /// Creates a group of tasks that get processor time of the workers in proportion to
    /// `shares`.
    ///
    /// Groups that have work to do share the time that the workers spend on groups. A group without
    /// work leaves its time to the others, and cannot claim it later. Tasks outside all groups do
    /// not take part: after half a millisecond for groups, a worker runs its other tasks.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::dispatch::{Dispatcher, Shares};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let requests = Dispatcher::group("requests", Shares(300));
    /// let reports = Dispatcher::group("reports", Shares(100));
    /// let (request, report) = (requests.spawn(async { 1 }), reports.spawn(async { 2 }));
    /// assert_eq!(request.await.unwrap() + report.await.unwrap(), 3);
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics outside a runtime, in a [`LocalRuntime`](crate::runtime::LocalRuntime), and if the
    /// runtime has 1,023 dispatchers.
    /// [`DispatcherBuilder::build_group`] returns an error instead.
    #[track_caller]
    pub fn group(name: &str, shares: Shares) -> Self {
        match Self::builder().name(name).build_group(shares) {
            Ok(group) => group,
            Err(error) => panic!("{error}"),
        }
    }

    /// Creates a dispatcher that hands each poll of a task to another executor.
    ///
    /// `execute` gets a [`PollJob`] for each poll and has some thread call [`PollJob::run`]. It is called
    /// by whatever wakes the task, so it should be short and must not block. If it panics or
    /// drops the job, the runtime's workers go on with the task. A job that is neither run nor
    /// dropped leaves its task waiting until the dispatcher or the runtime is closed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use blitzen::dispatch::{Dispatcher, PollJob};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let (jobs, queue) = mpsc::channel::<PollJob>();
    /// let thread = std::thread::spawn(move || queue.into_iter().for_each(PollJob::run));
    /// let foreign = Dispatcher::from_fn(move |job| jobs.send(job).unwrap());
    /// let id = foreign.run(async { std::thread::current().id() }).await.unwrap();
    /// assert_eq!(id, thread.thread().id());
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics outside a runtime, in a [`LocalRuntime`](crate::runtime::LocalRuntime), and if the
    /// runtime has 1,023 dispatchers.
    #[track_caller]
    pub fn from_fn(execute: impl Fn(PollJob) + Send + Sync + 'static) -> Self {
        let runtime = Handle::current();
        match refuse_local(&runtime) {
            Ok(()) => {}
            Err(error) => panic!("{error}"),
        }
        let core = DispatcherCore::foreign(runtime.inner.scheduler(), Box::new(execute));
        Self::registered(runtime, core)
    }

    /// Creates a view of this dispatcher that runs at most `limit` tasks at a time.
    ///
    /// A view has no threads. Its limit is its own: two views of one dispatcher do not share
    /// theirs, and a view of [`io`](Self::io) can have a limit above that of `io`.
    ///
    /// A view with a limit of one runs its tasks one after the other, but is no lock: another task
    /// runs whenever one waits. A task that blocks its thread, in
    /// [`block_in_place`](crate::task::block_in_place), does not count against the limit
    /// meanwhile, unless the limit is one.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::dispatch::Dispatcher;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let four = Dispatcher::default().limited(4);
    /// let tasks: Vec<_> = (0..100).map(|n| four.spawn(async move { n })).collect();
    /// for (n, task) in tasks.into_iter().enumerate() {
    ///     assert_eq!(task.await.unwrap(), n);
    /// }
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `limit` is 0, in a [`LocalRuntime`](crate::runtime::LocalRuntime), and if the
    /// runtime has 1,023 dispatchers. [`DispatcherBuilder::build_limited`] returns an error
    /// instead.
    #[track_caller]
    pub fn limited(&self, limit: usize) -> Self {
        match Self::builder().build_limited(self, limit) {
            Ok(view) => view,
            Err(error) => panic!("{error}"),
        }
    }

    /// Spawns a task on this dispatcher and returns a [`JoinHandle`] for its output.
    ///
    /// Each poll of the task is made by this dispatcher. Tasks that it spawns by
    /// [`spawn`](crate::spawn()) are not on this dispatcher. This can be called from anywhere; the
    /// task belongs to the runtime of the dispatcher.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::dispatch::Dispatcher;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let one = Dispatcher::default().limited(1);
    /// assert_eq!(one.spawn(async { 7 }).await.unwrap(), 7);
    /// # });
    /// ```
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_with(future, SpawnMeta::caller())
    }

    fn spawn_with<F>(&self, future: F, meta: SpawnMeta) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (inner, id) = (&self.runtime.inner, next_id());
        let scheduler = inner.scheduler();
        let (handle, refused) = match &self.kind {
            DispatcherKind::Default => return inner.spawn(future, id, meta),
            DispatcherKind::Unconfined => {
                let meta = inner.announce::<F>("task", id, meta);
                scheduler.spawn_inline(future, id, meta)
            }
            DispatcherKind::Routed(core) => {
                let meta = inner.announce::<F>("task", id, meta);
                scheduler.spawn_on(core, future, id, meta)
            }
        };
        drop(refused); // which cancels it
        handle
    }

    /// Runs `future` on this dispatcher as a task of its own, and waits for its output.
    ///
    /// Unlike [`with_dispatcher`](super::with_dispatcher) it works anywhere: outside tasks, in a
    /// [`LocalSet`](crate::task::LocalSet), and in another runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::dispatch::Dispatcher;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let sum = Dispatcher::io().run(async { (1..=10).sum::<u32>() });
    /// assert_eq!(sum.await.unwrap(), 55);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// The task is spawned by the first poll. Dropping the returned future aborts it.
    ///
    /// # Errors
    ///
    /// Returns a [`JoinError`] if `future` panics, the dispatcher is closed, or the runtime shuts
    /// down.
    #[track_caller]
    pub fn run<F>(&self, future: F) -> impl Future<Output = Result<F::Output, JoinError>> + use<F>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (dispatcher, meta) = (self.clone(), SpawnMeta::caller());
        async move {
            let mut task = AbortOnDrop(dispatcher.spawn_with(future, meta));
            (&mut task.0).await
        }
    }

    /// Returns the metrics of the dispatcher.
    ///
    /// [`unconfined`](Self::unconfined) has those of the default dispatcher.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::dispatch::Dispatcher;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let one = Dispatcher::default().limited(1);
    /// one.spawn(async {}).await.unwrap();
    /// assert_eq!(one.metrics().submitted, 1);
    /// # });
    /// ```
    pub fn metrics(&self) -> DispatcherMetrics {
        match &self.kind {
            DispatcherKind::Routed(core) => DispatcherMetrics::of_dispatcher(core.stats()),
            DispatcherKind::Default | DispatcherKind::Unconfined => {
                let scheduler = self.runtime.inner.scheduler();
                DispatcherMetrics::of_runtime(
                    &self.runtime.metrics().stats(),
                    scheduler.running_workers(),
                )
            }
        }
    }

    /// Closes the dispatcher: aborts the tasks that were spawned on it, and ends its threads.
    ///
    /// The aborted tasks end on the workers of the runtime; those in a
    /// [`shield`](crate::task::shield()) first finish it there. Tasks that use the dispatcher by
    /// [`with_dispatcher`](super::with_dispatcher) go on, on the workers, and so do tasks that are
    /// spawned on it later. Views of it stay open. Closing the default dispatcher, [`io`](Self::io) or
    /// [`unconfined`](Self::unconfined) does nothing: all code of the runtime shares them. Views of
    /// them can be closed.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::dispatch::Dispatcher;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let one = Dispatcher::single("one").unwrap();
    /// let task = one.spawn(std::future::pending::<()>());
    /// one.close();
    /// assert!(task.await.unwrap_err().is_cancelled());
    /// # });
    /// ```
    pub fn close(&self) {
        if let DispatcherKind::Routed(core) = &self.kind
            && !self.runtime.inner.is_io_dispatcher(core)
        {
            core.close();
        }
    }

    /// Returns the name of the dispatcher, or `None` if it was not given one.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::dispatch::Dispatcher;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # let _entered = runtime.enter();
    /// assert_eq!(Dispatcher::single("database").unwrap().name(), Some("database"));
    /// ```
    pub fn name(&self) -> Option<&str> {
        match &self.kind {
            DispatcherKind::Default => Some("default"),
            DispatcherKind::Unconfined => Some("unconfined"),
            DispatcherKind::Routed(core) => core.name(),
        }
    }

    /// A handle to a new dispatcher of a runtime.
    pub(super) fn new(
        runtime: Handle,
        core: Result<Arc<DispatcherCore>, RouteError>,
    ) -> io::Result<Self> {
        Ok(Self {
            runtime,
            kind: DispatcherKind::Routed(core.map_err(io::Error::other)?),
        })
    }

    #[track_caller]
    fn registered(runtime: Handle, core: Result<Arc<DispatcherCore>, RouteError>) -> Self {
        match Self::new(runtime, core) {
            Ok(dispatcher) => dispatcher,
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub(crate) fn kind(&self) -> &DispatcherKind {
        &self.kind
    }
}

/// The tasks of a local runtime stay on its thread: it has no other dispatchers.
pub(super) fn refuse_local(runtime: &Handle) -> io::Result<()> {
    match runtime.inner.is_local() {
        false => Ok(()),
        true => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "a `LocalRuntime` has no dispatchers but the default one: its tasks stay on its thread",
        )),
    }
}

/// Aborts a task that nobody waits for any more.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher")
            .field("name", &self.name())
            .field("runtime", &self.runtime.id())
            .finish()
    }
}
