//! How a runtime is to work: every default in one place.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use blitzen_driver::{DriverConfig, SpinPermit};
use blitzen_sched::{Config, CoreSlot, Pool, Scheduler};

use super::backend::IoBackend;
use super::handle::Handle;
use super::hooks::{Hook, Hooks};
use super::inner::{Flavor, Inner};
use super::io::IoOptions;
use super::local_runtime::{LocalOptions, LocalRuntime};
use super::runtime::Runtime;
use super::timers::TimeOptions;
use super::world::{PoolWorld, RealWorld, SchedulerWorld};
use crate::net::SocketMode;

/// Threads of the blocking pool, at the most.
const MAX_BLOCKING_THREADS: usize = 512;
/// How long one of them waits for work before it ends.
const THREAD_KEEP_ALIVE: Duration = Duration::from_secs(10);
const THREAD_NAME: &str = "blitzen-worker";
/// Polls between two looks at the drivers and at tasks from outside, where one
/// thread does everything.
const CURRENT_THREAD_EVENT_INTERVAL: u32 = 61;
const CURRENT_THREAD_INJECT_INTERVAL: u32 = 31;
/// Events that a worker takes at once: half of what its queue has room for, which is
/// free when it looks. Tasks for which there is no room go to the common queue, behind
/// whatever comes later.
const MAX_IO_EVENTS_PER_TICK: usize = 128;
/// Events that it takes in passing: no more than it has dealt with by its next look,
/// which then seldom has to wait for room.
const MAX_IO_EVENTS_PER_BUSY_TICK: usize = 64;
/// Overrides the number of workers where the code does not say it.
const WORKER_THREADS_VARIABLE: &str = "TOKIO_WORKER_THREADS";

/// Builds a runtime.
///
/// ```
/// use blitzen::runtime::Builder;
///
/// let runtime = Builder::new_multi_thread()
///     .worker_threads(2)
///     .thread_name("api")
///     .enable_all()
///     .build()
///     .unwrap();
/// # drop(runtime);
/// ```
pub struct Builder {
    kind: Kind,
    name: Option<String>,
    worker_threads: Option<usize>,
    max_blocking_threads: usize,
    thread_keep_alive: Duration,
    hooks: Hooks,
    global_queue_interval: Option<u32>,
    event_interval: Option<u32>,
    max_io_events_per_tick: usize,
    max_io_events_per_busy_tick: Option<usize>,
    lifo_slot: bool,
    park_timeout: Option<Duration>,
    seed: Option<u64>,
    enable_io: bool,
    io_backend: Option<IoBackend>,
    socket_mode: Option<SocketMode>,
    enable_time: bool,
    start_paused: bool,
    timer_resolution: Option<Duration>,
    unhandled_panic: UnhandledPanic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    CurrentThread,
    MultiThread,
}

/// What a runtime does when a task panics.
///
/// ```
/// use blitzen::runtime::{Builder, UnhandledPanic};
///
/// let runtime = Builder::new_current_thread()
///     .unhandled_panic(UnhandledPanic::Ignore)
///     .build()
///     .unwrap();
/// # drop(runtime);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnhandledPanic {
    /// The panic is the task's, and of whoever joins it.
    Ignore,
    /// The runtime stops, and `block_on` panics. Only a current-thread runtime
    /// can do this.
    ShutdownRuntime,
}

impl Builder {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            name: None,
            worker_threads: None,
            max_blocking_threads: MAX_BLOCKING_THREADS,
            thread_keep_alive: THREAD_KEEP_ALIVE,
            hooks: Hooks {
                thread_name: Arc::new(|| THREAD_NAME.to_owned()),
                stack_size: None,
                on_start: None,
                on_stop: None,
                on_park: None,
                on_unpark: None,
            },
            global_queue_interval: None,
            event_interval: None,
            max_io_events_per_tick: MAX_IO_EVENTS_PER_TICK,
            max_io_events_per_busy_tick: None,
            lifo_slot: true,
            park_timeout: None,
            seed: None,
            enable_io: false,
            io_backend: None,
            socket_mode: None,
            enable_time: false,
            start_paused: false,
            timer_resolution: None,
            unhandled_panic: UnhandledPanic::Ignore,
        }
    }

    /// A runtime whose tasks run on the thread that calls `block_on`.
    ///
    /// ```
    /// let runtime = blitzen::runtime::Builder::new_current_thread().build().unwrap();
    /// assert_eq!(runtime.block_on(async { 1 }), 1);
    /// ```
    pub fn new_current_thread() -> Self {
        Self::new(Kind::CurrentThread)
    }

    /// A runtime with workers of its own.
    ///
    /// ```
    /// let runtime = blitzen::runtime::Builder::new_multi_thread().build().unwrap();
    /// assert_eq!(runtime.block_on(async { 1 }), 1);
    /// ```
    pub fn new_multi_thread() -> Self {
        Self::new(Kind::MultiThread)
    }

    /// Enables every driver.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    /// # drop(runtime);
    /// ```
    pub fn enable_all(&mut self) -> &mut Self {
        self.enable_io().enable_time()
    }

    /// Enables sockets, pipes, processes and signals.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// let runtime = Builder::new_multi_thread().enable_io().build().unwrap();
    /// # drop(runtime);
    /// ```
    pub fn enable_io(&mut self) -> &mut Self {
        self.enable_io = true;
        self
    }

    /// How the runtime's sockets get their bytes: by readiness, if not said here
    /// or in the environment (`BLITZEN_SOCKETS`). See [`SocketMode`].
    ///
    /// ```
    /// use blitzen::net::SocketMode;
    /// # use blitzen::runtime::Builder;
    /// let runtime = Builder::new_multi_thread()
    ///     .enable_io()
    ///     .socket_mode(SocketMode::PreferCompletion)
    ///     .build()
    ///     .unwrap();
    /// # drop(runtime);
    /// ```
    pub fn socket_mode(&mut self, mode: SocketMode) -> &mut Self {
        self.socket_mode = Some(mode);
        self
    }

    /// How the runtime talks to the system: with io_uring where there is one,
    /// if not said here or in the environment (`BLITZEN_IO`, which may be
    /// `auto`, `epoll` or `uring`).
    ///
    /// ```
    /// use blitzen::runtime::{Builder, IoBackend};
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .io_backend(IoBackend::Epoll)
    ///     .build()
    ///     .unwrap();
    /// # drop(runtime);
    /// ```
    pub fn io_backend(&mut self, backend: IoBackend) -> &mut Self {
        self.io_backend = Some(backend);
        self
    }

    /// Enables timers.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// let runtime = Builder::new_multi_thread().enable_time().build().unwrap();
    /// # drop(runtime);
    /// ```
    pub fn enable_time(&mut self) -> &mut Self {
        self.enable_time = true;
        self
    }

    /// Starts with the clock stopped: time moves only by hand, or when nothing
    /// else is left to do.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// let runtime = Builder::new_current_thread()
    ///     .enable_time()
    ///     .start_paused(true)
    ///     .build()
    ///     .unwrap();
    /// # drop(runtime);
    /// ```
    pub fn start_paused(&mut self, paused: bool) -> &mut Self {
        self.start_paused = paused;
        self
    }

    /// How exact timers are where there are many: a worker that has woken for
    /// timers does so again after this time at the earliest, and then fires
    /// all that have become due. 250 µs if not given, and a microsecond at the
    /// least.
    ///
    /// Each wake-up costs some processor time. See [`time`](crate::time) for how
    /// exact a sleep can be.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// # use std::time::Duration;
    /// let runtime = Builder::new_multi_thread()
    ///     .enable_time()
    ///     .timer_resolution(Duration::from_micros(10))
    ///     .build()
    ///     .unwrap();
    /// # drop(runtime);
    /// ```
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn timer_resolution(&mut self, resolution: Duration) -> &mut Self {
        assert!(!resolution.is_zero(), "timer_resolution must be non-zero");
        self.timer_resolution = Some(resolution);
        self
    }

    /// A name for the runtime, to tell several apart.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// let runtime = Builder::new_current_thread().name("db").build().unwrap();
    /// assert_eq!(runtime.handle().name(), Some("db"));
    /// ```
    ///
    /// # Panics
    /// If the name is empty or only white space.
    #[track_caller]
    pub fn name(&mut self, name: impl Into<String>) -> &mut Self {
        let name = name.into();
        assert!(!name.trim().is_empty(), "runtime name shouldn't be empty");
        self.name = Some(name);
        self
    }

    /// How many workers run tasks; as many as the machine has cores if not
    /// given, or what the variable `TOKIO_WORKER_THREADS` says. A
    /// current-thread runtime has one, whatever is said here.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// let runtime = Builder::new_multi_thread().worker_threads(3).build().unwrap();
    /// assert_eq!(runtime.metrics().num_workers(), 3);
    /// ```
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn worker_threads(&mut self, count: usize) -> &mut Self {
        assert!(count > 0, "Worker threads cannot be set to 0");
        self.worker_threads = Some(count);
        self
    }

    /// How many threads the pool for blocking work has at the most; 512 if not
    /// given. They are started when they are needed.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// let runtime = Builder::new_multi_thread().max_blocking_threads(4).build().unwrap();
    /// # drop(runtime);
    /// ```
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn max_blocking_threads(&mut self, count: usize) -> &mut Self {
        assert!(count > 0, "Max blocking threads cannot be set to 0");
        self.max_blocking_threads = count;
        self
    }

    /// How long a thread of that pool waits for work before it ends; 10 seconds
    /// if not given.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// # use std::time::Duration;
    /// let runtime = Builder::new_multi_thread()
    ///     .thread_keep_alive(Duration::from_secs(1))
    ///     .build()
    ///     .unwrap();
    /// # drop(runtime);
    /// ```
    pub fn thread_keep_alive(&mut self, time: Duration) -> &mut Self {
        self.thread_keep_alive = time;
        self
    }

    /// What the runtime's threads are called.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// let runtime = Builder::new_multi_thread().thread_name("worker").build().unwrap();
    /// # drop(runtime);
    /// ```
    pub fn thread_name(&mut self, name: impl Into<String>) -> &mut Self {
        let name = name.into();
        self.thread_name_fn(move || name.clone())
    }

    /// Names each of the runtime's threads.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let next = AtomicUsize::new(0);
    /// let runtime = Builder::new_multi_thread()
    ///     .thread_name_fn(move || format!("worker-{}", next.fetch_add(1, Ordering::Relaxed)))
    ///     .build()
    ///     .unwrap();
    /// # drop(runtime);
    /// ```
    pub fn thread_name_fn<F>(&mut self, name: F) -> &mut Self
    where
        F: Fn() -> String + Send + Sync + 'static,
    {
        self.hooks.thread_name = Arc::new(name);
        self
    }

    /// The stack size of the runtime's threads, in bytes.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// let runtime = Builder::new_multi_thread().thread_stack_size(1 << 20).build().unwrap();
    /// # drop(runtime);
    /// ```
    pub fn thread_stack_size(&mut self, bytes: usize) -> &mut Self {
        self.hooks.stack_size = Some(bytes);
        self
    }

    /// Called on each thread of the runtime when it starts. With this the
    /// workers start when the runtime is built, not with the first task.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// let runtime = Builder::new_multi_thread()
    ///     .on_thread_start(|| println!("a thread starts"))
    ///     .build()
    ///     .unwrap();
    /// # drop(runtime);
    /// ```
    pub fn on_thread_start<F>(&mut self, call: F) -> &mut Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        self.hooks.on_start = hook(call);
        self
    }

    /// Called on each thread of the runtime before it ends.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// let runtime = Builder::new_multi_thread()
    ///     .on_thread_stop(|| println!("a thread stops"))
    ///     .build()
    ///     .unwrap();
    /// # drop(runtime);
    /// ```
    pub fn on_thread_stop<F>(&mut self, call: F) -> &mut Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        self.hooks.on_stop = hook(call);
        self
    }

    /// Called on a worker before it sleeps. It may wake or spawn tasks, and the
    /// worker then runs them instead.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// let runtime = Builder::new_multi_thread().on_thread_park(|| ()).build().unwrap();
    /// # drop(runtime);
    /// ```
    pub fn on_thread_park<F>(&mut self, call: F) -> &mut Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        self.hooks.on_park = hook(call);
        self
    }

    /// Called on a worker when it has woken.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// let runtime = Builder::new_multi_thread().on_thread_unpark(|| ()).build().unwrap();
    /// # drop(runtime);
    /// ```
    pub fn on_thread_unpark<F>(&mut self, call: F) -> &mut Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        self.hooks.on_unpark = hook(call);
        self
    }

    /// How many polls a worker does between two looks at the tasks that come
    /// from outside. If not given it adapts, so that such a task waits about a
    /// millisecond at the most.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// let runtime = Builder::new_multi_thread().global_queue_interval(31).build().unwrap();
    /// # drop(runtime);
    /// ```
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn global_queue_interval(&mut self, polls: u32) -> &mut Self {
        assert!(polls > 0, "global_queue_interval must be greater than 0");
        self.global_queue_interval = Some(polls);
        self
    }

    /// How many polls a worker does between two looks at timers and sockets. With
    /// more than a hundred tasks in its queue it lets them run first.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// let runtime = Builder::new_multi_thread().event_interval(61).build().unwrap();
    /// # drop(runtime);
    /// ```
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn event_interval(&mut self, polls: u32) -> &mut Self {
        assert!(polls > 0, "event_interval must be greater than 0");
        self.event_interval = Some(polls);
        self
    }

    /// How many events of sockets a worker takes at once: 128 if not given.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// let runtime = Builder::new_multi_thread().max_io_events_per_tick(256).build().unwrap();
    /// # drop(runtime);
    /// ```
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn max_io_events_per_tick(&mut self, events: usize) -> &mut Self {
        assert!(events > 0, "max_io_events_per_tick must be non-zero");
        self.max_io_events_per_tick = events;
        self
    }

    /// How many events of sockets a worker takes at once while it has tasks to
    /// run: 64 if not given.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// let runtime = Builder::new_multi_thread()
    ///     .max_io_events_per_busy_tick(64)
    ///     .build()
    ///     .unwrap();
    /// # drop(runtime);
    /// ```
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn max_io_events_per_busy_tick(&mut self, events: usize) -> &mut Self {
        assert!(events > 0, "max_io_events_per_busy_tick must be non-zero");
        self.max_io_events_per_busy_tick = Some(events);
        self
    }

    /// Runs tasks in the order they were woken, rather than the newest first.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// let runtime = Builder::new_multi_thread().disable_lifo_slot().build().unwrap();
    /// # drop(runtime);
    /// ```
    pub fn disable_lifo_slot(&mut self) -> &mut Self {
        self.lifo_slot = false;
        self
    }

    /// The longest sleep of a worker that has nothing to do. There is no limit
    /// if not given, and none is needed: an idle runtime makes no system calls.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// # use std::time::Duration;
    /// let runtime = Builder::new_multi_thread()
    ///     .park_timeout(Duration::from_millis(10))
    ///     .build()
    ///     .unwrap();
    /// # drop(runtime);
    /// ```
    pub fn park_timeout(&mut self, limit: Duration) -> &mut Self {
        self.park_timeout = Some(limit);
        self
    }

    /// Where the runtime's random choices begin: whom to steal from, and which
    /// branch of a `select!` comes first.
    ///
    /// ```
    /// # use blitzen::runtime::Builder;
    /// let runtime = Builder::new_current_thread().seed(42).build().unwrap();
    /// # drop(runtime);
    /// ```
    pub fn seed(&mut self, seed: u64) -> &mut Self {
        self.seed = Some(seed);
        self
    }

    /// What happens when a task panics.
    ///
    /// ```
    /// # use blitzen::runtime::{Builder, UnhandledPanic};
    /// let runtime = Builder::new_current_thread()
    ///     .unhandled_panic(UnhandledPanic::Ignore)
    ///     .build()
    ///     .unwrap();
    /// # drop(runtime);
    /// ```
    ///
    /// # Panics
    /// In a multi-thread runtime, for anything but
    /// [`Ignore`](UnhandledPanic::Ignore).
    #[track_caller]
    pub fn unhandled_panic(&mut self, behavior: UnhandledPanic) -> &mut Self {
        assert!(
            self.kind == Kind::CurrentThread || behavior == UnhandledPanic::Ignore,
            "UnhandledPanic::ShutdownRuntime is only supported in current thread runtime"
        );
        self.unhandled_panic = behavior;
        self
    }

    /// Builds the runtime. Its workers start with the first task.
    ///
    /// ```
    /// let runtime = blitzen::runtime::Builder::new_multi_thread().build()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn build(&mut self) -> io::Result<Runtime> {
        Ok(Runtime::from_handle(self.build_handle(false)?))
    }

    /// Builds a runtime that stays on this thread.
    ///
    /// ```
    /// # use blitzen::runtime::{Builder, LocalOptions};
    /// let runtime = Builder::new_current_thread().build_local(LocalOptions::default())?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Panics
    /// If the builder was made for a multi-thread runtime.
    #[track_caller]
    pub fn build_local(&mut self, _options: LocalOptions) -> io::Result<LocalRuntime> {
        assert!(
            self.kind == Kind::CurrentThread,
            "Only current_thread is supported when building a local runtime"
        );
        Ok(LocalRuntime::from_handle(self.build_handle(true)?))
    }

    #[track_caller]
    fn workers(&self) -> usize {
        if self.kind == Kind::CurrentThread {
            return 1;
        }
        self.worker_threads.unwrap_or_else(default_workers)
    }

    fn time_options(&self) -> TimeOptions {
        TimeOptions {
            enabled: self.enable_time,
            start_paused: self.start_paused,
            resolution: self.timer_resolution,
        }
    }

    fn io_options(&self, is_local: bool) -> io::Result<IoOptions> {
        let sockets = match self.socket_mode {
            Some(mode) => mode,
            None => SocketMode::from_environment()?,
        };
        let backend = match self.io_backend {
            Some(backend) => backend,
            None => IoBackend::from_environment()?,
        };
        let busy = MAX_IO_EVENTS_PER_BUSY_TICK.min(self.max_io_events_per_tick);
        let mut driver = DriverConfig {
            max_events: self.max_io_events_per_tick,
            max_busy_events: Some(self.max_io_events_per_busy_tick.unwrap_or(busy)),
            spin: Some(SpinPermit::new()),
            ..DriverConfig::default()
        };
        backend.apply(&mut driver, is_local)?;
        Ok(IoOptions {
            sockets,
            enabled: self.enable_io,
            driver,
        })
    }

    #[track_caller]
    fn build_handle(&mut self, is_local: bool) -> io::Result<Handle> {
        let mut config = Config::new(self.workers());
        config.inject_interval = self.global_queue_interval;
        config.event_interval = self.event_interval;
        config.lifo = self.lifo_slot;
        config.park_timeout = self.park_timeout;
        let stop_on_panic = self.unhandled_panic == UnhandledPanic::ShutdownRuntime;
        let (io, time) = (self.io_options(is_local)?, self.time_options());
        if time.enabled {
            crate::time::install_delay();
        }
        let hooks = self.hooks.clone();
        let world = RealWorld::new(config.workers, self.seed, hooks, stop_on_panic, &io, &time);
        let for_scheduler = Box::new(SchedulerWorld(world.clone()));
        let pool = Pool::new(
            Box::new(PoolWorld(world.clone())),
            self.max_blocking_threads,
            self.thread_keep_alive,
        );
        let (scheduler, flavor) = match self.kind {
            Kind::MultiThread => (Scheduler::new(config, for_scheduler), Flavor::MultiThread),
            Kind::CurrentThread => {
                config.lifo = false;
                let event = CURRENT_THREAD_EVENT_INTERVAL;
                let inject = CURRENT_THREAD_INJECT_INTERVAL;
                config.event_interval = config.event_interval.or(Some(event));
                config.inject_interval = config.inject_interval.or(Some(inject));
                let (scheduler, worker) = Scheduler::new_current_thread(config, for_scheduler);
                (scheduler, Flavor::CurrentThread(CoreSlot::new(worker)))
            }
        };
        let local_thread = is_local.then(|| std::thread::current().id());
        let name = self.name.clone();
        let inner = Inner::new(name, flavor, scheduler, pool, world, local_thread);
        let handle = Handle { inner };
        if self.kind == Kind::MultiThread && self.hooks.on_start.is_some() {
            // Somebody waits to hear of the threads.
            handle.inner.scheduler().start()?;
        }
        Ok(handle)
    }
}

fn hook(call: impl Fn() + Send + Sync + 'static) -> Hook {
    Some(Arc::new(call))
}

/// What the variable says, or a worker for each core.
#[track_caller]
fn default_workers() -> usize {
    match std::env::var(WORKER_THREADS_VARIABLE) {
        Ok(text) => match text.parse() {
            Ok(count) if count > 0 => count,
            _ => panic!("\"{WORKER_THREADS_VARIABLE}\" must be a positive number, not \"{text}\""),
        },
        Err(std::env::VarError::NotPresent) => {
            std::thread::available_parallelism().map_or(1, usize::from)
        }
        Err(error) => panic!("\"{WORKER_THREADS_VARIABLE}\" must be a positive number: {error}"),
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("kind", &self.kind)
            .field("name", &self.name)
            .field("worker_threads", &self.worker_threads)
            .field("max_blocking_threads", &self.max_blocking_threads)
            .field("thread_keep_alive", &self.thread_keep_alive)
            .finish_non_exhaustive()
    }
}
