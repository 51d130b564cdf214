//! The builder of a runtime: every default in one place.

use std::fmt;
use std::io;
#[cfg(unix)]
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use blitzen_driver::{DriverConfig, SpinPermit};
use blitzen_observe::{HistogramConfiguration, TraceMode};
use blitzen_sched::{Config, CoreSlot, HistogramOption, Pool, Scheduler};
use blitzen_util::coop::{self, Budget};

use super::backend::IoBackend;
#[cfg(unix)]
use super::console::{Console, ConsoleOption};
use super::context;
#[cfg(unix)]
use super::dump::DumpOnSignal;
use super::dump::note_lock_owners_if_asked;
use super::engine;
use super::fence;
use super::handle::Handle;
use super::hooks::{Hook, Hooks};
use super::inner::{Flavor, Inner};
use super::io::IoOptions;
use super::lint::{Lint, LintOptions, Observer};
use super::local_runtime::{LocalOptions, LocalRuntime};
use super::relief::ReliefThreads;
use super::rng_seed::RngSeed;
use super::runtime::Runtime;
use super::shutdown::{ShutdownWait, shut_down};
use super::stack_sample;
use super::task_hooks::{TaskHooks, TaskMeta};
use super::timers::TimeOptions;
use super::trace::TraceRequest;
use super::world::{PoolWorld, RealWorld, SchedulerWorld, TaskOptions};
use crate::net::SocketMode;
use crate::shard::ShardedBuilder;
#[cfg(unix)]
use crate::signal::unix::SignalKind;

/// The most threads of the blocking pool.
const MAX_BLOCKING_THREADS: usize = 512;
/// How long one of them waits for work before it ends.
const THREAD_KEEP_ALIVE: Duration = Duration::from_secs(10);
/// The buckets of the histogram of poll times.
const POLL_TIME_BUCKET_WIDTH: Duration = Duration::from_micros(100);
const POLL_TIME_BUCKETS: usize = 10;
/// The size of a worker's ring of events: a second or two of a busy worker.
const TRACE_BYTES: usize = 512 << 10;
/// Programs have many small runtimes of this flavour.
const CURRENT_THREAD_TRACE_BYTES: usize = 64 << 10;
const THREAD_NAME: &str = "blitzen-worker";
/// Polls between two looks at the drivers and at tasks from outside, where one
/// thread does everything.
const CURRENT_THREAD_EVENT_INTERVAL: u32 = 61;
const CURRENT_THREAD_INJECT_INTERVAL: u32 = 31;
/// How many events a worker takes in at once: as many as its run queue always has room for.
const MAX_IO_EVENTS_PER_TICK: usize = blitzen_sched::ROOM_FOR_EVENTS;
/// How many events it takes in while it has tasks to run: half of that, so that it has run their
/// tasks by its next turn, which then seldom has to wait for room.
const MAX_IO_EVENTS_PER_BUSY_TICK: usize = MAX_IO_EVENTS_PER_TICK / 2;
/// The environment variable with the number of workers, if the builder does not set it.
const WORKER_THREADS_VARIABLE: &str = "TOKIO_WORKER_THREADS";

/// Builds a [`Runtime`] or a [`LocalRuntime`] with custom options.
///
/// Timers and sockets are switched off unless [`enable_all`](Self::enable_all),
/// [`enable_time`](Self::enable_time) or [`enable_io`](Self::enable_io) is called.
///
/// Some settings of other schedulers have no method here:
///
/// * The capacity of a worker's run queue. It has 256 slots, and what does not fit goes to the
///   injection queue, which has no limit. So the capacity is not a limit on tasks.
/// * A bound on the victims of a steal. A worker that has nothing else to do looks at all others
///   once, in random order, before it parks; at most half of the workers do so at a time.
/// * A switch for stealing. A worker that does not steal would leave tasks waiting behind one
///   that is stuck. [Dispatchers](crate::dispatch) with one thread each keep tasks apart.
///
/// # Examples
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
/// assert_eq!(runtime.block_on(async { 1 }), 1);
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
    task_hooks: TaskHooks,
    poll_times: HistogramSettings,
    schedule_delays: HistogramSettings,
    track_schedule_delays: bool,
    trace: Option<TraceMode>,
    trace_bytes: Option<usize>,
    unhandled_panic: UnhandledPanic,
    lints: LintOptions,
    #[cfg(unix)]
    dump_signals: Vec<SignalKind>,
    #[cfg(unix)]
    console: ConsoleOption,
    budget: Budget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    CurrentThread,
    MultiThread,
}

/// What a runtime or a [`LocalSet`](crate::task::LocalSet) does when one of its tasks panics.
///
/// # Examples
///
/// ```
/// use std::panic::{AssertUnwindSafe, catch_unwind};
/// use blitzen::runtime::{Builder, UnhandledPanic};
///
/// let runtime = Builder::new_current_thread()
///     .unhandled_panic(UnhandledPanic::ShutdownRuntime)
///     .build()
///     .unwrap();
/// let result = catch_unwind(AssertUnwindSafe(|| {
///     runtime.block_on(async { blitzen::spawn(async { panic!("no") }).await })
/// }));
/// assert!(result.is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnhandledPanic {
    /// Nothing: the panic is reported to whoever joins the task. This is the default.
    Ignore,
    /// The runtime shuts down, and `block_on` panics. Only current-thread runtimes and
    /// `LocalSet`s can do this.
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
            task_hooks: TaskHooks::default(),
            poll_times: HistogramSettings::default(),
            schedule_delays: HistogramSettings::default(),
            track_schedule_delays: false,
            trace: None,
            trace_bytes: None,
            unhandled_panic: UnhandledPanic::Ignore,
            lints: LintOptions::default(),
            #[cfg(unix)]
            dump_signals: Vec::new(),
            #[cfg(unix)]
            console: ConsoleOption::default(),
            budget: Budget::default(),
        }
    }

    /// Creates a builder of a runtime whose tasks run on the thread that calls `block_on`.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().build().unwrap();
    /// assert_eq!(runtime.block_on(async { 1 }), 1);
    /// ```
    pub fn new_current_thread() -> Self {
        Self::new(Kind::CurrentThread)
    }

    /// Creates a builder of a runtime with worker threads of its own.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().build().unwrap();
    /// assert_eq!(runtime.block_on(async { 1 }), 1);
    /// ```
    pub fn new_multi_thread() -> Self {
        Self::new(Kind::MultiThread)
    }

    /// Enables I/O and time. Both are disabled by default.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    /// runtime.block_on(async { blitzen::time::sleep(Duration::from_millis(1)).await });
    /// ```
    pub fn enable_all(&mut self) -> &mut Self {
        self.enable_io().enable_time()
    }

    /// Enables I/O: sockets, pipes, child processes and signals. It is disabled by default.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().enable_io().build().unwrap();
    /// let listener = runtime.block_on(blitzen::net::TcpListener::bind("127.0.0.1:0"));
    /// assert!(listener.is_ok());
    /// ```
    pub fn enable_io(&mut self) -> &mut Self {
        self.enable_io = true;
        self
    }

    /// Sets how the streams of the runtime transfer bytes.
    ///
    /// The default is the value of the environment variable `BLITZEN_SOCKETS`, or
    /// [`SocketMode::Readiness`] if it is not set. See [`SocketMode`].
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::SocketMode;
    /// use blitzen::runtime::Builder;
    ///
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

    /// Sets which interface of the kernel the runtime uses.
    ///
    /// The default is the value of the environment variable `BLITZEN_IO` (`auto`, `epoll` or
    /// `uring`), or [`IoBackend::Auto`] if it is not set.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::{Builder, IoBackend};
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .enable_io()
    ///     .io_backend(IoBackend::Epoll)
    ///     .build()
    ///     .unwrap();
    /// # drop(runtime);
    /// ```
    pub fn io_backend(&mut self, backend: IoBackend) -> &mut Self {
        self.io_backend = Some(backend);
        self
    }

    /// Enables timers: `sleep`, `timeout` and `interval`. They are disabled by default.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().enable_time().build().unwrap();
    /// runtime.block_on(async { blitzen::time::sleep(Duration::from_millis(1)).await });
    /// ```
    pub fn enable_time(&mut self) -> &mut Self {
        self.enable_time = true;
        self
    }

    /// Sets whether the clock of the runtime is paused when it starts, as by
    /// [`time::pause`](crate::time::pause). The default is `false`.
    ///
    /// A paused clock moves when it is advanced, and by itself to the next timer when nothing
    /// else is left to do.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .enable_time()
    ///     .start_paused(true)
    ///     .build()
    ///     .unwrap();
    /// // Takes no time at all.
    /// runtime.block_on(async { blitzen::time::sleep(Duration::from_secs(3600)).await });
    /// ```
    pub fn start_paused(&mut self, paused: bool) -> &mut Self {
        self.start_paused = paused;
        self
    }

    /// Sets the shortest time between two wake-ups of a worker for its timers. The default is
    /// 250 µs, the minimum a microsecond.
    ///
    /// A worker that has woken for timers wakes for others only after `resolution`, and then
    /// fires all that are due. A shorter time makes timers more exact where there are many, and
    /// costs processor time. See [`time`](crate::time) for how exact a sleep can be.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread()
    ///     .enable_time()
    ///     .timer_resolution(Duration::from_micros(10))
    ///     .build()
    ///     .unwrap();
    /// # drop(runtime);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `resolution` is zero.
    #[track_caller]
    pub fn timer_resolution(&mut self, resolution: Duration) -> &mut Self {
        assert!(!resolution.is_zero(), "timer_resolution must be non-zero");
        self.timer_resolution = Some(resolution);
        self
    }

    /// Sets the name of the runtime, which tells several apart. By default it has none.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().name("db").build().unwrap();
    /// assert_eq!(runtime.handle().name(), Some("db"));
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `name` is empty or only white space.
    #[track_caller]
    pub fn name(&mut self, name: impl Into<String>) -> &mut Self {
        let name = name.into();
        assert!(!name.trim().is_empty(), "runtime name shouldn't be empty");
        self.name = Some(name);
        self
    }

    /// Sets the number of workers of a multi-thread runtime.
    ///
    /// The default is the value of the environment variable `TOKIO_WORKER_THREADS`, or the
    /// number of processors if it is not set. A current-thread runtime always has one worker.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().worker_threads(3).build().unwrap();
    /// assert_eq!(runtime.metrics().num_workers(), 3);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `count` is zero.
    #[track_caller]
    pub fn worker_threads(&mut self, count: usize) -> &mut Self {
        assert!(count > 0, "Worker threads cannot be set to 0");
        self.worker_threads = Some(count);
        self
    }

    /// Sets the maximum number of threads of the blocking pool, and of threads that take over
    /// the workers of [`block_in_place`](crate::task::block_in_place). The default is 512.
    ///
    /// They are started when they are needed, and end after
    /// [`thread_keep_alive`](Self::thread_keep_alive). A thread that has lost the worker that it had
    /// taken over, and runs coroutines until they have ended, is not counted meanwhile.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().max_blocking_threads(4).build().unwrap();
    /// assert_eq!(runtime.block_on(runtime.spawn_blocking(|| 1)).unwrap(), 1);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `count` is zero.
    #[track_caller]
    pub fn max_blocking_threads(&mut self, count: usize) -> &mut Self {
        assert!(count > 0, "Max blocking threads cannot be set to 0");
        self.max_blocking_threads = count;
        self
    }

    /// Sets how long an idle thread of the blocking pool, or one that takes over workers of
    /// [`block_in_place`](crate::task::block_in_place), waits for work before it ends. The
    /// default is 10 seconds.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::runtime::Builder;
    ///
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

    /// Sets the name of the threads of the runtime. The default is `blitzen-worker`.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().thread_name("api").build().unwrap();
    /// let name = runtime.spawn(async { std::thread::current().name().map(String::from) });
    /// assert_eq!(runtime.block_on(name).unwrap().as_deref(), Some("api"));
    /// ```
    pub fn thread_name(&mut self, name: impl Into<String>) -> &mut Self {
        let name = name.into();
        self.thread_name_fn(move || name.clone())
    }

    /// Sets the function that names each thread of the runtime. By default all are called
    /// `blitzen-worker`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    /// use blitzen::runtime::Builder;
    ///
    /// let next = AtomicUsize::new(0);
    /// let runtime = Builder::new_multi_thread()
    ///     .thread_name_fn(move || format!("worker-{}", next.fetch_add(1, Relaxed)))
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

    /// Sets the stack size of the threads of the runtime, in bytes. The default is that of
    /// [`std::thread`].
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().thread_stack_size(1 << 20).build().unwrap();
    /// # drop(runtime);
    /// ```
    pub fn thread_stack_size(&mut self, bytes: usize) -> &mut Self {
        self.hooks.stack_size = Some(bytes);
        self
    }

    /// Sets a function that each thread of the runtime calls when it starts. By default there
    /// is none.
    ///
    /// With it, the workers start when the runtime is built, instead of with the first task.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
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

    /// Sets a function that each thread of the runtime calls before it ends. By default there
    /// is none.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
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

    /// Sets a function that a worker calls before it parks. By default there is none.
    ///
    /// It may wake or spawn tasks; the worker then runs them instead of parking. With it, the
    /// workers start when the runtime is built, instead of with the first task.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread()
    ///     .on_thread_park(|| println!("nothing to do"))
    ///     .build()
    ///     .unwrap();
    /// # drop(runtime);
    /// ```
    pub fn on_thread_park<F>(&mut self, call: F) -> &mut Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        self.hooks.on_park = hook(call);
        self
    }

    /// Sets a function that a worker calls after it was parked. By default there is none.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread()
    ///     .on_thread_unpark(|| println!("something to do"))
    ///     .build()
    ///     .unwrap();
    /// # drop(runtime);
    /// ```
    pub fn on_thread_unpark<F>(&mut self, call: F) -> &mut Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        self.hooks.on_unpark = hook(call);
        self
    }

    /// Sets how many polls a worker makes between two looks at the global queue, where tasks
    /// from outside the workers wait.
    ///
    /// By default a multi-thread runtime adapts it to the length of the polls, so that such a
    /// task waits about a millisecond at most; a current-thread runtime uses 31.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().global_queue_interval(31).build().unwrap();
    /// # drop(runtime);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `polls` is zero.
    #[track_caller]
    pub fn global_queue_interval(&mut self, polls: u32) -> &mut Self {
        assert!(polls > 0, "global_queue_interval must be greater than 0");
        self.global_queue_interval = Some(polls);
        self
    }

    /// Sets how many polls a worker makes between two looks at timers and sockets.
    ///
    /// By default a multi-thread runtime adapts it to the length of the polls, up to 128; a
    /// current-thread runtime uses 61. A worker with more than a hundred tasks in its queue
    /// lets them run first.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().event_interval(61).build().unwrap();
    /// # drop(runtime);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `polls` is zero.
    #[track_caller]
    pub fn event_interval(&mut self, polls: u32) -> &mut Self {
        assert!(polls > 0, "event_interval must be greater than 0");
        self.event_interval = Some(polls);
        self
    }

    /// Sets how many socket events a worker takes from the kernel at once. The default is 128.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().max_io_events_per_tick(256).build().unwrap();
    /// # drop(runtime);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `events` is zero.
    #[track_caller]
    pub fn max_io_events_per_tick(&mut self, events: usize) -> &mut Self {
        assert!(events > 0, "max_io_events_per_tick must be non-zero");
        self.max_io_events_per_tick = events;
        self
    }

    /// Sets how many socket events a worker takes from the kernel at once while it has tasks to
    /// run.
    ///
    /// The default is 64, or [`max_io_events_per_tick`](Self::max_io_events_per_tick) if that
    /// is less.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread()
    ///     .max_io_events_per_busy_tick(32)
    ///     .build()
    ///     .unwrap();
    /// # drop(runtime);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `events` is zero.
    #[track_caller]
    pub fn max_io_events_per_busy_tick(&mut self, events: usize) -> &mut Self {
        assert!(events > 0, "max_io_events_per_busy_tick must be non-zero");
        self.max_io_events_per_busy_tick = Some(events);
        self
    }

    /// Makes workers run tasks in the order in which they were woken.
    ///
    /// By default a worker runs the task that was woken last first, up to three times in a row.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().disable_lifo_slot().build().unwrap();
    /// # drop(runtime);
    /// ```
    pub fn disable_lifo_slot(&mut self) -> &mut Self {
        self.lifo_slot = false;
        self
    }

    /// Sets the longest time that an idle worker stays parked. By default there is no limit.
    ///
    /// None is needed: a worker that has something to do is unparked. An idle runtime without a
    /// limit makes no system calls.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::runtime::Builder;
    ///
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

    /// Sets the seed of the random choices of the runtime: which worker to steal from, and
    /// which branch of `select!` to poll first. By default it is random.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().seed(42).build().unwrap();
    /// # drop(runtime);
    /// ```
    pub fn seed(&mut self, seed: u64) -> &mut Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the seed of the random choices of the runtime to `seed`. See [`seed`](Self::seed).
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::{Builder, RngSeed};
    ///
    /// let seed = RngSeed::from_bytes(b"place your seed here");
    /// let runtime = Builder::new_current_thread().rng_seed(seed).build().unwrap();
    /// # drop(runtime);
    /// ```
    pub fn rng_seed(&mut self, seed: RngSeed) -> &mut Self {
        self.seed(seed.number())
    }

    /// Sets a function that is called when a task is spawned, before it can run. By default
    /// there is none.
    ///
    /// Blocking code and the tasks of a `LocalSet` are not reported.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .on_task_spawn(|task| println!("spawned at {}", task.spawned_at()))
    ///     .build()
    ///     .unwrap();
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// ```
    pub fn on_task_spawn<F>(&mut self, call: F) -> &mut Self
    where
        F: Fn(&TaskMeta<'_>) + Send + Sync + 'static,
    {
        self.task_hooks.on_spawn = Some(Arc::new(call));
        self
    }

    /// Sets a function that is called when a task has ended, on whichever thread that happens.
    /// By default there is none.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .on_task_terminate(|task| println!("{} has ended", task.id()))
    ///     .build()
    ///     .unwrap();
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// ```
    pub fn on_task_terminate<F>(&mut self, call: F) -> &mut Self
    where
        F: Fn(&TaskMeta<'_>) + Send + Sync + 'static,
    {
        self.task_hooks.on_terminate = Some(Arc::new(call));
        self
    }

    /// Sets a function that a worker calls before it polls a task. By default there is none.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .on_before_task_poll(|task| println!("{} is polled", task.id()))
    ///     .build()
    ///     .unwrap();
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// ```
    pub fn on_before_task_poll<F>(&mut self, call: F) -> &mut Self
    where
        F: Fn(&TaskMeta<'_>) + Send + Sync + 'static,
    {
        self.task_hooks.before_poll = Some(Arc::new(call));
        self
    }

    /// Sets a function that a worker calls after it has polled a task. By default there is none.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .on_after_task_poll(|task| println!("{} was polled", task.id()))
    ///     .build()
    ///     .unwrap();
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// ```
    pub fn on_after_task_poll<F>(&mut self, call: F) -> &mut Self
    where
        F: Fn(&TaskMeta<'_>) + Send + Sync + 'static,
    {
        self.task_hooks.after_poll = Some(Arc::new(call));
        self
    }

    /// Enables a histogram of how long polls of tasks take. It is disabled by default.
    ///
    /// With it, a worker looks at the clock before and after each poll.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .enable_metrics_poll_time_histogram()
    ///     .build()
    ///     .unwrap();
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// let metrics = runtime.metrics();
    /// let buckets = 0..metrics.poll_time_histogram_num_buckets();
    /// let polls = buckets.map(|bucket| metrics.poll_time_histogram_bucket_count(0, bucket));
    /// assert_eq!(polls.sum::<u64>(), 1);
    /// ```
    pub fn enable_metrics_poll_time_histogram(&mut self) -> &mut Self {
        self.poll_times.enabled = true;
        self
    }

    /// Sets how the histogram of poll times divides time. The default is ten buckets of 100 µs.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::{Builder, HistogramConfiguration, LogHistogram};
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .enable_metrics_poll_time_histogram()
    ///     .metrics_poll_time_histogram_configuration(HistogramConfiguration::log(
    ///         LogHistogram::default(),
    ///     ))
    ///     .build()
    ///     .unwrap();
    /// assert_eq!(runtime.metrics().poll_time_histogram_num_buckets(), 119);
    /// ```
    pub fn metrics_poll_time_histogram_configuration(
        &mut self,
        configuration: HistogramConfiguration,
    ) -> &mut Self {
        self.poll_times.configuration = Some(configuration);
        self
    }

    /// Sets what the recorder of the runtime records: polls, wakes, spawned tasks, parks, steals and
    /// code on the blocking pool, with their times. [`Handle::trace`] returns it,
    /// [`Handle::set_trace`] switches it later.
    ///
    /// The default is the value of the environment variable `BLITZEN_TRACE` (`off`, `sampled` or
    /// `full`), or [`TraceMode::Off`] if it is not set. Any other value is the name of a file:
    /// the runtime then records everything, and writes it there, up to 256 MiB. The file can be
    /// opened in [Perfetto](https://ui.perfetto.dev). On Unix only its owner can read it.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::{Builder, TraceMode};
    ///
    /// let runtime = Builder::new_multi_thread().trace(TraceMode::Sampled).build().unwrap();
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// assert!(!runtime.handle().trace().is_empty());
    /// ```
    pub fn trace(&mut self, mode: TraceMode) -> &mut Self {
        self.trace = Some(mode);
        self
    }

    /// Sets how many bytes each worker has for the events that it records. The default is
    /// 512 KiB, or 64 KiB for a current-thread runtime; the minimum 256 bytes.
    ///
    /// An event takes 16 bytes, a poll two events. The size is rounded down to a power of two.
    /// Threads that are no workers together have as much as one of them. The memory is used
    /// from the first event on.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::{Builder, TraceMode};
    ///
    /// let runtime = Builder::new_multi_thread()
    ///     .trace(TraceMode::Sampled)
    ///     .trace_buffer(4 << 20)
    ///     .build()
    ///     .unwrap();
    /// # drop(runtime);
    /// ```
    pub fn trace_buffer(&mut self, bytes_per_worker: usize) -> &mut Self {
        self.trace_bytes = Some(bytes_per_worker);
        self
    }

    /// Enables the histogram of schedule delays: how long tasks wait from being spawned or
    /// woken until they are polled. Hooks see the delay of each poll in
    /// [`TaskMeta::schedule_latency`]. It is disabled by default.
    ///
    /// [`Handle::set_schedule_delays`] switches it later.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .enable_metrics_schedule_latency_histogram()
    ///     .build()
    ///     .unwrap();
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// assert_eq!(runtime.metrics().schedule_delays().count(), 1);
    /// ```
    pub fn enable_metrics_schedule_latency_histogram(&mut self) -> &mut Self {
        self.schedule_delays.enabled = true;
        self
    }

    /// Sets the buckets of the histogram of schedule delays. The default is ten of 100 µs, or
    /// of [`LogHistogram`](super::LogHistogram)'s default if it is enabled later.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::{Builder, HistogramConfiguration, LogHistogram};
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .enable_metrics_schedule_latency_histogram()
    ///     .metrics_schedule_latency_histogram_configuration(HistogramConfiguration::log(
    ///         LogHistogram::default(),
    ///     ))
    ///     .build()
    ///     .unwrap();
    /// assert_eq!(runtime.metrics().schedule_latency_histogram_num_buckets(), 119);
    /// ```
    pub fn metrics_schedule_latency_histogram_configuration(
        &mut self,
        configuration: HistogramConfiguration,
    ) -> &mut Self {
        self.schedule_delays.configuration = Some(configuration);
        self
    }

    /// Measures how long tasks wait from being spawned or woken until they are polled, for
    /// [`TaskMeta::schedule_latency`] in the hooks of polls. It is disabled by default.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .track_task_schedule_latency()
    ///     .on_before_task_poll(|task| assert!(task.schedule_latency().is_some()))
    ///     .build()
    ///     .unwrap();
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// ```
    pub fn track_task_schedule_latency(&mut self) -> &mut Self {
        self.track_schedule_delays = true;
        self
    }

    /// The old name of
    /// [`enable_metrics_poll_time_histogram`](Self::enable_metrics_poll_time_histogram).
    #[doc(hidden)]
    #[deprecated = "use `enable_metrics_poll_time_histogram`"]
    pub fn enable_metrics_poll_count_histogram(&mut self) -> &mut Self {
        self.enable_metrics_poll_time_histogram()
    }

    /// Sets whether all buckets have the same width.
    #[doc(hidden)]
    #[deprecated = "use `metrics_poll_time_histogram_configuration`"]
    pub fn metrics_poll_count_histogram_scale(&mut self, scale: HistogramScale) -> &mut Self {
        self.poll_times.simple_mut().scale = scale;
        self
    }

    /// Sets the width of the first bucket.
    #[doc(hidden)]
    #[deprecated = "use `metrics_poll_time_histogram_configuration`"]
    #[track_caller]
    pub fn metrics_poll_count_histogram_resolution(&mut self, width: Duration) -> &mut Self {
        assert!(!width.is_zero(), "the resolution must be greater than 0");
        self.poll_times.simple_mut().width = width;
        self
    }

    /// Sets the number of buckets.
    #[doc(hidden)]
    #[deprecated = "use `metrics_poll_time_histogram_configuration`"]
    pub fn metrics_poll_count_histogram_buckets(&mut self, buckets: usize) -> &mut Self {
        self.poll_times.simple_mut().buckets = buckets;
        self
    }

    /// Enables timers: each worker has its own.
    #[doc(hidden)]
    pub fn enable_alt_timer(&mut self) -> &mut Self {
        self.enable_time()
    }

    /// Changes nothing: others serve the drivers of a worker that is stuck.
    #[doc(hidden)]
    pub fn enable_eager_driver_handoff(&mut self) -> &mut Self {
        self
    }

    /// Changes nothing: [`io_backend`](Self::io_backend) decides.
    #[doc(hidden)]
    pub fn enable_io_uring(&mut self) -> &mut Self {
        self
    }

    /// Changes nothing: the blocking pool has one kind of queue.
    #[doc(hidden)]
    pub fn enable_sharded_blocking_queue(&mut self) -> &mut Self {
        self
    }

    /// Sets what a task may do in one poll before it has to yield to others. The default is
    /// 128 operations, and no limit of time.
    ///
    /// An operation is one that could have waited: of a socket, a channel, a lock, a timer.
    /// When the budget is used up, the next one waits until other tasks have run. Code that
    /// does none of them is not interrupted. A [dispatcher](crate::dispatch) can have a budget
    /// of its own.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::runtime::{Budget, Builder};
    ///
    /// let runtime = Builder::new_multi_thread()
    ///     .budget(Budget::new(1_000, Some(Duration::from_micros(200))))
    ///     .build()
    ///     .unwrap();
    /// # drop(runtime);
    /// ```
    pub fn budget(&mut self, budget: Budget) -> &mut Self {
        self.budget = budget;
        self
    }

    /// Sets what the runtime does when a task panics. The default is
    /// [`UnhandledPanic::Ignore`].
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::{Builder, UnhandledPanic};
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .unhandled_panic(UnhandledPanic::Ignore)
    ///     .build()
    ///     .unwrap();
    /// assert!(runtime.block_on(runtime.spawn(async { panic!("no") })).is_err());
    /// ```
    ///
    /// # Panics
    ///
    /// Panics for a multi-thread runtime if `behavior` is not [`UnhandledPanic::Ignore`].
    #[track_caller]
    pub fn unhandled_panic(&mut self, behavior: UnhandledPanic) -> &mut Self {
        assert!(
            self.kind == Kind::CurrentThread || behavior == UnhandledPanic::Ignore,
            "UnhandledPanic::ShutdownRuntime is only supported in current thread runtime"
        );
        self.unhandled_panic = behavior;
        self
    }

    /// Makes the runtime report polls that last for `after` or longer, and other
    /// [lints](super::lint).
    ///
    /// A thread named `blitzen-lints` looks at the workers, a few times within `after`. It names
    /// the task, the line that spawned it, and on Linux the system call that the poll is in, once
    /// for each such poll. Code in [`block_in_place`](crate::task::block_in_place) does not count.
    /// Reports go to [`on_lint`](Self::on_lint) or, without that, to standard error. The default
    /// is one second, if something else turns lints on.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread()
    ///     .slow_poll(Duration::from_millis(100))
    ///     .build()
    ///     .unwrap();
    /// # runtime.block_on(async {});
    /// ```
    pub fn slow_poll(&mut self, after: Duration) -> &mut Self {
        self.lints.slow_poll = Some(after);
        self
    }

    /// Calls `report` for each [lint](super::lint), on a thread named `blitzen-lints`.
    ///
    /// With `BLITZEN_LINTS=stderr` in the environment every runtime has such a thread, and writes
    /// lints to standard error as well. If `report` panics or blocks, this concerns no task, and
    /// does not hold up the end of the runtime; while it blocks, there are no other reports.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread()
    ///     .on_lint(|lint| eprintln!("{lint}"))
    ///     .build()
    ///     .unwrap();
    /// # runtime.block_on(async {});
    /// ```
    pub fn on_lint<F>(&mut self, report: F) -> &mut Self
    where
        F: Fn(&Lint) + Send + Sync + 'static,
    {
        self.lints.on_lint = Some(Arc::new(report));
        self
    }

    /// Makes lints about polls that do not end show the [stack](super::lint::Lint::stack) of the
    /// poll, if `on`. The default is `false`.
    ///
    /// The thread that polls is interrupted by `SIGURG`, once for each such poll, and copies its
    /// stack in a signal handler. A system call that it waits in may then fail with
    /// [`Interrupted`](std::io::ErrorKind::Interrupted), as after any signal: most are restarted,
    /// `epoll_wait(2)`, `nanosleep(2)` and a few others are not. The handler stays installed for the
    /// rest of the process. It calls the one that was installed before for every `SIGURG` that is
    /// not its own, and a handler that is installed later has to do the same.
    ///
    /// The functions need no frame pointers. A stack is cut after 64 KiB. There is none for a
    /// coroutine, for a thread that blocks the signal, and on systems other than Linux on x86-64 and
    /// AArch64, where this method changes nothing. musl has no unwind tables: if the thread is
    /// interrupted in a function of the C library, such as a system call, the stack ends there.
    ///
    /// This turns no lints on by itself: see [`slow_poll`](Self::slow_poll) and
    /// [`on_lint`](Self::on_lint).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread()
    ///     .slow_poll(Duration::from_millis(100))
    ///     .stack_samples(true)
    ///     .build()
    ///     .unwrap();
    /// # runtime.block_on(async {});
    /// ```
    #[cfg(feature = "stack-samples")]
    pub fn stack_samples(&mut self, on: bool) -> &mut Self {
        self.lints.stack_samples = on;
        self
    }

    /// Writes the [list of tasks](Handle::tasks) to standard error whenever the process receives
    /// the signal `kind`. May be called for several signals.
    ///
    /// A thread named `blitzen-dump` writes it, so that it works while all workers are stuck. The
    /// default action of the signal is replaced for the rest of the process, as by a listener of
    /// [`signal`](crate::signal).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use blitzen::runtime::Builder;
    /// use blitzen::signal::unix::SignalKind;
    ///
    /// // Ctrl-\ in a terminal shows what every task waits for.
    /// let runtime = Builder::new_multi_thread().dump_on(SignalKind::quit()).build()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`build`](Self::build) returns `InvalidInput` for a signal that cannot be handled, such as
    /// `SIGKILL`.
    #[cfg(unix)]
    pub fn dump_on(&mut self, kind: SignalKind) -> &mut Self {
        self.dump_signals.push(kind);
        self
    }

    /// Answers the `blitzen` command, which shows what the runtime does, on a Unix socket.
    ///
    /// A thread named `blitzen-console` answers, so that it works while all workers are stuck. The
    /// socket is `$XDG_RUNTIME_DIR/blitzen/PID`, or `/tmp/blitzen-UID/PID` without that variable.
    /// If several runtimes of a process answer, a number follows `PID`. Only the owner of the
    /// process and root can connect. They can look at everything, and change nothing but
    /// [what is recorded](Self::trace). The runtime also looks for [lints](super::lint), as with
    /// [`on_lint`](Self::on_lint).
    ///
    /// With `BLITZEN_CONSOLE=1` in the environment every runtime answers.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().console().build()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`build`](Self::build) returns the error of `mkdir(2)` or `bind(2)`, and
    /// `PermissionDenied` if the folder of the socket belongs to another user, or others can
    /// enter it.
    #[cfg(unix)]
    pub fn console(&mut self) -> &mut Self {
        self.console = ConsoleOption::Usual;
        self
    }

    /// Like [`console`](Self::console), with the socket at `path`.
    ///
    /// The socket is removed when the runtime ends. One that a process has left behind is
    /// replaced.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().console_at("/run/server/console").build()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`build`](Self::build) returns the error of `bind(2)`, such as `AddrInUse`.
    #[cfg(unix)]
    pub fn console_at(&mut self, path: impl Into<PathBuf>) -> &mut Self {
        self.console = ConsoleOption::At(path.into());
        self
    }

    /// Creates the runtime.
    ///
    /// Unless there is an [`on_thread_start`](Self::on_thread_start) or
    /// [`on_thread_park`](Self::on_thread_park) hook, its workers start with the first task.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().build()?;
    /// assert_eq!(runtime.block_on(async { 1 }), 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns `InvalidInput` if `BLITZEN_IO` or `BLITZEN_SOCKETS` is needed and has an unknown
    /// value, or `BLITZEN_LINTS` or `BLITZEN_CONSOLE` has one. With [`IoBackend::Uring`], returns
    /// the error of `io_uring_setup(2)`, such as `Unsupported` or `PermissionDenied`. If a hook makes
    /// the workers start at once, returns the error of the system if a worker thread cannot be
    /// started.
    ///
    /// # Panics
    ///
    /// Panics if `TOKIO_WORKER_THREADS` is needed and is not a positive number.
    pub fn build(&mut self) -> io::Result<Runtime> {
        let handle = self.build_handle(false)?;
        engine::log_if_asked(&handle.inner);
        handle
            .inner
            .start_trace_writers(&TraceRequest::new(self.trace));
        Ok(Runtime::from_handle(handle))
    }

    /// Like [`build`](Self::build), for a runtime that no task is meant for.
    pub(super) fn build_unlogged(&mut self) -> io::Result<Runtime> {
        Ok(Runtime::from_handle(self.build_handle(false)?))
    }

    /// Returns a builder of a runtime of [shards](crate::shard): one thread for each core, and
    /// tasks that never leave theirs.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::sharded().shards(2).build()?;
    /// assert_eq!(runtime.run_each(|shard| async move { shard.index() }), [0, 1]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn sharded() -> ShardedBuilder {
        ShardedBuilder::new()
    }

    /// Creates a runtime that stays on the calling thread, and so can run futures that are not
    /// `Send`.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::{Builder, LocalOptions};
    ///
    /// let runtime = Builder::new_current_thread().build_local(LocalOptions::default())?;
    /// let task = runtime.spawn_local(async { std::rc::Rc::new(1) });
    /// assert_eq!(*runtime.block_on(task).unwrap(), 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`build`](Self::build).
    ///
    /// # Panics
    ///
    /// Panics if the builder was created by [`new_multi_thread`](Self::new_multi_thread).
    #[track_caller]
    pub fn build_local(&mut self, _options: LocalOptions) -> io::Result<LocalRuntime> {
        assert!(
            self.kind == Kind::CurrentThread,
            "Only current_thread is supported when building a local runtime"
        );
        let handle = self.build_handle(true)?;
        engine::log_if_asked(&handle.inner);
        handle
            .inner
            .start_trace_writers(&TraceRequest::new(self.trace));
        Ok(LocalRuntime::from_handle(handle))
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
            backend,
        })
    }

    #[track_caller]
    fn build_handle(&mut self, is_local: bool) -> io::Result<Handle> {
        fence::prepare_if_alone();
        if self.lints.stack_samples {
            stack_sample::enable()?;
        }
        let mut config = Config::new(self.workers());
        config.inject_interval = self.global_queue_interval;
        config.event_interval = self.event_interval;
        config.lifo = self.lifo_slot;
        config.park_timeout = self.park_timeout;
        config.budget = self.budget;
        config.is_local = is_local;
        let tasks = TaskOptions {
            hooks: self.task_hooks.clone(),
            stop_on_panic: self.unhandled_panic == UnhandledPanic::ShutdownRuntime,
        };
        config.observe.hooks = tasks.has_poll_hooks();
        config.observe.poll_times = self.poll_times.option();
        config.observe.schedule_delays = self.schedule_delays.option();
        config.observe.track_schedule_delays = self.track_schedule_delays;
        config.observe.trace = TraceRequest::new(self.trace).mode;
        config.observe.trace_bytes = self.trace_bytes.unwrap_or(match self.kind {
            Kind::MultiThread => TRACE_BYTES,
            Kind::CurrentThread => CURRENT_THREAD_TRACE_BYTES,
        });
        config.observe_ends = tasks.hooks.on_terminate.is_some();
        coop::set_on_forced_yield(context::count_forced_yield);
        note_lock_owners_if_asked();
        let (io, time) = (self.io_options(is_local)?, self.time_options());
        if time.enabled {
            crate::time::install_delay();
        }
        let hooks = self.hooks.clone();
        let relief_threads = ReliefThreads::new(
            config.workers,
            self.max_blocking_threads,
            self.thread_keep_alive,
        );
        let world = RealWorld::new(
            config.workers,
            self.seed,
            hooks,
            tasks,
            relief_threads,
            &io,
            &time,
        );
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
        let sees_start = self.hooks.on_start.is_some() || self.hooks.on_park.is_some();
        if self.kind == Kind::MultiThread && sees_start {
            // The start hook is to be called for every thread, and workers without a task park.
            handle.inner.scheduler().start()?;
        }
        if let Err(error) = self.start_observers(&handle.inner) {
            // Nothing runs yet that it could have to wait for.
            let _ = shut_down(&handle, ShutdownWait::Endless);
            return Err(error);
        }
        Ok(handle)
    }

    /// Starts the threads that look at the runtime from outside, if they were asked for.
    fn start_observers(&self, runtime: &Arc<Inner>) -> io::Result<()> {
        let observers = &runtime.observers;
        #[cfg(unix)]
        let has_console = self.console.is_wanted()?;
        #[cfg(not(unix))]
        let has_console = false;
        if let Some(observer) = Observer::start(&self.lints, has_console, runtime)? {
            observers.lints.get_or_init(|| observer);
        }
        #[cfg(unix)]
        if let Some(observer) = observers.lints.get()
            && let Some(console) = Console::start(&self.console, runtime, observer.recent())?
        {
            observers.console.get_or_init(|| console);
        }
        #[cfg(unix)]
        if let Some(dump) = DumpOnSignal::start(&self.dump_signals, runtime)? {
            observers.dump_on_signal.get_or_init(|| dump);
        }
        Ok(())
    }
}

/// How the buckets of a histogram grow: Tokio's older way to configure it.
///
/// # Examples
///
/// ```
/// # #![allow(deprecated)]
/// use blitzen::runtime::{Builder, HistogramScale};
///
/// let runtime = Builder::new_current_thread()
///     .enable_metrics_poll_time_histogram()
///     .metrics_poll_count_histogram_scale(HistogramScale::Log)
///     .metrics_poll_count_histogram_buckets(20)
///     .build()
///     .unwrap();
/// assert_eq!(runtime.metrics().poll_time_histogram_num_buckets(), 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistogramScale {
    /// All buckets have the same width.
    Linear,
    /// Each bucket is twice as wide as the one before.
    Log,
}

/// The settings of a histogram.
#[derive(Clone, Default)]
struct HistogramSettings {
    enabled: bool,
    configuration: Option<HistogramConfiguration>,
    /// If one of the deprecated methods was called, they decide.
    simple: Option<SimpleHistogram>,
}

/// What the deprecated methods of the builder set.
#[derive(Clone)]
struct SimpleHistogram {
    scale: HistogramScale,
    width: Duration,
    buckets: usize,
}

impl Default for SimpleHistogram {
    fn default() -> Self {
        Self {
            scale: HistogramScale::Linear,
            width: POLL_TIME_BUCKET_WIDTH,
            buckets: POLL_TIME_BUCKETS,
        }
    }
}

impl HistogramSettings {
    fn simple_mut(&mut self) -> &mut SimpleHistogram {
        self.simple.get_or_insert_default()
    }

    /// What the scheduler has to know. One that is switched on later, and was not configured,
    /// has finer buckets than Tokio's default.
    fn option(&self) -> HistogramOption {
        let simple = match (&self.simple, &self.configuration) {
            (Some(simple), _) => simple.clone(),
            (None, Some(configuration)) => {
                return HistogramOption {
                    enabled: self.enabled,
                    configuration: configuration.clone(),
                };
            }
            (None, None) if !self.enabled => return HistogramOption::default(),
            (None, None) => SimpleHistogram::default(),
        };
        HistogramOption {
            enabled: self.enabled,
            configuration: match simple.scale {
                HistogramScale::Linear => {
                    HistogramConfiguration::linear(simple.width, simple.buckets)
                }
                HistogramScale::Log => {
                    HistogramConfiguration::doubling(simple.width, simple.buckets)
                }
            },
        }
    }
}

fn hook(call: impl Fn() + Send + Sync + 'static) -> Hook {
    Some(Arc::new(call))
}

/// Returns the number of workers in the environment variable, or that of the processors.
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
