//! The builder of a dispatcher.

use std::io;

use blitzen_sched::{DispatcherCore, Shares};

use super::dispatcher::{Dispatcher, DispatcherKind, refuse_local};
use crate::runtime::{Budget, DispatcherThreads, Handle, affinity, start_dispatcher_threads};

/// Builds a [`Dispatcher`] with options.
///
/// [`Dispatcher::builder`] returns it.
///
/// # Examples
///
/// ```
/// use blitzen::dispatch::Dispatcher;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let render = Dispatcher::builder().threads(2).name("render").build().unwrap();
/// assert_eq!(render.spawn(async { 1 }).await.unwrap(), 1);
/// # });
/// ```
#[derive(Clone, Debug, Default)]
pub struct DispatcherBuilder {
    threads: Option<usize>,
    name: Option<String>,
    cores: Vec<usize>,
    budget: Option<Budget>,
}

impl DispatcherBuilder {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Sets the number of threads. The default is one for each of the [cores](Self::cores), or
    /// one.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::dispatch::Dispatcher;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # let _entered = runtime.enter();
    /// let two = Dispatcher::builder().threads(2).build().unwrap();
    /// # drop(two);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `threads` is 0.
    #[track_caller]
    pub fn threads(mut self, threads: usize) -> Self {
        assert!(threads > 0, "a dispatcher needs at least one thread");
        self.threads = Some(threads);
        self
    }

    /// Sets the name of the dispatcher and of its threads.
    ///
    /// If there are several threads, each name ends in a number, such as `render-0`.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::dispatch::Dispatcher;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # let _entered = runtime.enter();
    /// let render = Dispatcher::builder().name("render").build().unwrap();
    /// assert_eq!(render.name(), Some("render"));
    /// ```
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets the cores that the threads run on, such as `4..8`: each thread on one of them, in
    /// turn.
    ///
    /// Only Linux and Android can bind threads to cores.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use blitzen::dispatch::Dispatcher;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # let _entered = runtime.enter();
    /// let render = Dispatcher::builder().cores(4..8).name("render").build().unwrap();
    /// # drop(render);
    /// ```
    pub fn cores(mut self, cores: impl IntoIterator<Item = usize>) -> Self {
        self.cores = cores.into_iter().collect();
        self
    }

    /// Sets what a task may do in one poll before it has to yield. The default is the
    /// [budget of the runtime](crate::runtime::Builder::budget).
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::dispatch::Dispatcher;
    /// use blitzen::runtime::Budget;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # let _entered = runtime.enter();
    /// let batches = Dispatcher::builder().budget(Budget::new(1_000, None)).build().unwrap();
    /// # drop(batches);
    /// ```
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Creates a dispatcher with threads of its own in the current runtime.
    ///
    /// The threads end when the dispatcher is [closed](Dispatcher::close), or nothing refers to it
    /// any more.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::dispatch::Dispatcher;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # let _entered = runtime.enter();
    /// let outside = Dispatcher::builder().cores([100_000]).build();
    /// assert!(outside.is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// Returns `InvalidInput` if one of the cores is not among those that the process may run on,
    /// and `Unsupported` if the system cannot bind threads to cores, or in a
    /// [`LocalRuntime`](crate::runtime::LocalRuntime). Returns the error of the system if it
    /// refuses the first thread, and an error of the kind `Other` if the runtime was shut down or
    /// has 1,023 dispatchers.
    ///
    /// # Panics
    ///
    /// Panics outside a runtime.
    #[track_caller]
    pub fn build(self) -> io::Result<Dispatcher> {
        let runtime = Handle::current();
        refuse_local(&runtime)?;
        let cores = affinity::check(&self.cores)?;
        let options = DispatcherThreads {
            threads: self.threads.unwrap_or(cores.len().max(1)),
            name: self.name,
            cores,
            budget: self.budget,
        };
        let core = start_dispatcher_threads(&runtime.inner, options)?;
        Dispatcher::new(runtime, Ok(core))
    }

    /// Creates a view of `base` that runs at most `limit` tasks at a time, like
    /// [`Dispatcher::limited`].
    ///
    /// Ignores [`threads`](Self::threads) and [`cores`](Self::cores).
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::dispatch::Dispatcher;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # let _entered = runtime.enter();
    /// let view = Dispatcher::builder().build_limited(&Dispatcher::default(), 4)?;
    /// # drop(view);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns `InvalidInput` if `limit` is 0, `Unsupported` in a
    /// [`LocalRuntime`](crate::runtime::LocalRuntime), and an error of the kind `Other` if the
    /// runtime was shut down or has 1,023 dispatchers.
    pub fn build_limited(self, base: &Dispatcher, limit: usize) -> io::Result<Dispatcher> {
        let runtime = base.runtime().clone();
        refuse_local(&runtime)?;
        if limit == 0 {
            let message = "the limit of a dispatcher must be greater than 0";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let base = match base.kind() {
            DispatcherKind::Routed(core) => Some(core),
            DispatcherKind::Default | DispatcherKind::Unconfined => None,
        };
        let scheduler = runtime.inner.scheduler();
        let core = DispatcherCore::limited(scheduler, base, limit, self.name, self.budget);
        Dispatcher::new(runtime, core)
    }

    /// Creates a group of tasks with `shares` of processor time in the current runtime, like
    /// [`Dispatcher::group`].
    ///
    /// Ignores [`threads`](Self::threads) and [`cores`](Self::cores).
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::dispatch::{Dispatcher, Shares};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # let _entered = runtime.enter();
    /// let reports = Dispatcher::builder().name("reports").build_group(Shares(100))?;
    /// # drop(reports);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns `InvalidInput` if `shares` is 0, `Unsupported` in a
    /// [`LocalRuntime`](crate::runtime::LocalRuntime), and an error of the kind `Other` if the
    /// runtime was shut down or has 1,023 dispatchers.
    ///
    /// # Panics
    ///
    /// Panics outside a runtime.
    #[track_caller]
    pub fn build_group(self, shares: Shares) -> io::Result<Dispatcher> {
        let runtime = Handle::current();
        refuse_local(&runtime)?;
        if shares.0 == 0 {
            let message = "the shares of a group must be greater than 0";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let scheduler = runtime.inner.scheduler();
        let core = DispatcherCore::group(scheduler, self.name, shares, self.budget);
        Dispatcher::new(runtime, core)
    }
}
