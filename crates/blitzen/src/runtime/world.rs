//! The scheduler's `World` trait, implemented with real drivers, clocks and threads.

use std::cell::Cell;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use blitzen_driver::Poller;
use blitzen_observe::Counter;
use blitzen_sched::{
    Activity, Monitor, PausedWorld, PinnedThread, Pool, PoolThread, Quiescence, Relief, Scheduler,
    SpawnThread, TaskInfo, ThreadJoiner, ThreadMark, Worker, World, count_thread, end_blocking,
};
use blitzen_task::SpawnMeta;
use blitzen_util::kernel_thread::preemptions;
use blitzen_util::pad::Padded;
use blitzen_util::quiet::quietly;
use blitzen_util::rng::{self, Rng};
use blitzen_util::wait;

use super::affinity;
use super::backend::IoBackend;
use super::block_on_parker::BlockOnParker;
use super::clock::{self, Clock};
use super::context;
use super::fence;
use super::handle::Handle;
use super::hooks::{Hooks, call};
use super::inner::Inner;
use super::io::IoOptions;
use super::relief::{ReliefThreadKind, ReliefThreads};
use super::seeded_random::SeededRandom;
use super::source_placement::SourcePlacement;
use super::stack_sample;
use super::task_hooks::{self, TaskHooks};
use super::timer_slack::TimerSlack;
use super::timers::{self, TimeOptions, Timers};
use super::worker_drivers::WorkerDrivers;
use crate::net::SocketMode;

/// After how long a thread with many stacks that it does not need gives back more of them.
#[cfg(feature = "coro")]
const UNTIL_NEXT_TRIM: Duration = Duration::from_millis(100);

/// Gives back stacks that the calling thread, which has nothing to do, does not need. Returns after
/// how long it should do that again.
fn trim_stacks() -> Option<Duration> {
    cfg_select! {
        feature = "coro" => blitzen_stack::trim().then_some(UNTIL_NEXT_TRIM),
        _ => None,
    }
}

/// The builder's settings for tasks.
pub(crate) struct TaskOptions {
    pub(crate) hooks: TaskHooks,
    pub(crate) stop_on_panic: bool,
}

impl TaskOptions {
    /// Whether a hook is called for every poll.
    pub(crate) fn has_poll_hooks(&self) -> bool {
        self.hooks.before_poll.is_some() || self.hooks.after_poll.is_some()
    }
}

/// The world of one runtime.
pub(crate) struct RealWorld {
    drivers: Box<[Padded<WorkerDrivers>]>,
    /// Whether sockets were asked for.
    pub(super) io_enabled: bool,
    /// The kernel interface that was asked for.
    io_backend: IoBackend,
    /// How new sockets wait.
    socket_mode: SocketMode,
    /// Where the next source goes that comes from outside the workers.
    placement: SourcePlacement,
    /// Where the next timer goes that comes from outside the workers.
    next_worker: AtomicUsize,
    clock: Clock,
    /// Unless the runtime has none.
    timers: Option<Timers>,
    quiescence: Quiescence,
    /// Workers that were given a thread and have not left: none in a current-thread runtime.
    running_workers: AtomicUsize,
    relief_threads: ReliefThreads,
    started: Instant,
    /// The same in seconds since a moment that all runtimes share.
    started_s: u64,
    seed: u64,
    /// If a seed was asked for.
    seeded_random: Option<SeededRandom>,
    hooks: Hooks,
    task_hooks: TaskHooks,
    /// Polls in which a budget was used up.
    forced_yields: Counter,
    /// A panic of a task is the runtime's.
    stop_on_panic: bool,
    task_panicked: AtomicBool,
    /// The threads of the workers and of the monitor, until somebody joins them.
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
    /// The runtime; set right after it was made.
    runtime: OnceLock<Weak<Inner>>,
}

impl RealWorld {
    pub(crate) fn new(
        workers: usize,
        seed: Option<u64>,
        hooks: Hooks,
        tasks: TaskOptions,
        relief_threads: ReliefThreads,
        io: &IoOptions,
        time: &TimeOptions,
    ) -> Arc<Self> {
        let drivers = |worker| Padded(WorkerDrivers::new(io, worker));
        let world = Arc::new(Self {
            drivers: (0..workers).map(drivers).collect(),
            io_enabled: io.enabled,
            io_backend: io.backend,
            socket_mode: io.sockets,
            placement: SourcePlacement::default(),
            next_worker: AtomicUsize::new(0),
            clock: Clock::new(time.start_paused),
            timers: time.enabled.then(|| Timers::new(workers, time.resolution)),
            quiescence: Quiescence::new(),
            running_workers: AtomicUsize::new(0),
            relief_threads,
            started: Instant::now(),
            started_s: clock::to_ns(Instant::now()) / 1_000_000_000,
            seed: seed.unwrap_or_else(rng::entropy),
            seeded_random: seed.map(SeededRandom::new),
            hooks,
            task_hooks: tasks.hooks,
            forced_yields: Counter::new(),
            stop_on_panic: tasks.stop_on_panic,
            task_panicked: AtomicBool::new(false),
            threads: Mutex::new(Vec::new()),
            runtime: OnceLock::new(),
        });
        if let Some(timers) = &world.timers {
            timers.open(world.clock.now(), |worker| {
                let world = Arc::downgrade(&world);
                Waker::from(Arc::new(WorkerWaker { world, worker }))
            });
        }
        world
    }

    pub(crate) fn set_runtime(&self, runtime: &Arc<Inner>) {
        let first = self.runtime.set(Arc::downgrade(runtime)).is_ok();
        assert!(first, "a world has one runtime");
    }

    fn runtime(&self) -> io::Result<Handle> {
        let inner = self.runtime.get().and_then(Weak::upgrade);
        let handle = inner.map(|inner| Handle { inner });
        handle.ok_or_else(|| io::Error::other("the runtime is gone"))
    }

    /// Makes the runtime current again on a thread that has entered `depth` runtimes.
    pub(super) fn restore_context(&self, depth: usize) {
        match self.runtime() {
            Ok(handle) => context::restore(&handle, depth),
            Err(_) => unreachable!("its threads keep the runtime in memory"),
        }
    }

    pub(crate) fn drivers(&self, worker: usize) -> &WorkerDrivers {
        &self.drivers[worker]
    }

    pub(crate) fn all_drivers(&self) -> impl Iterator<Item = &WorkerDrivers> {
        self.drivers.iter().map(|drivers| &**drivers)
    }

    /// Returns a worker for a timer from outside the workers: each in its turn.
    pub(crate) fn any_worker(&self) -> usize {
        match self.drivers.len() {
            1 => 0,
            count => self.next_worker.fetch_add(1, Relaxed) % count,
        }
    }

    /// Returns the drivers for a source from outside the workers.
    pub(crate) fn drivers_for_outside(&self, scheduler: &Scheduler) -> &WorkerDrivers {
        let worker = self
            .placement
            .place(self.drivers.len(), self.elapsed_ns(), |worker| {
                scheduler.parks(worker)
            });
        self.drivers(worker)
    }

    pub(crate) fn io_backend(&self) -> IoBackend {
        self.io_backend
    }

    pub(crate) fn socket_mode(&self) -> SocketMode {
        self.socket_mode
    }

    /// What threads draw from inside the runtime, if it has a seed.
    pub(crate) fn seeded_random(&self) -> Option<&SeededRandom> {
        self.seeded_random.as_ref()
    }

    pub(crate) fn task_hooks(&self) -> &TaskHooks {
        &self.task_hooks
    }

    /// How often a budget was used up.
    pub(crate) fn forced_yields(&self) -> &Counter {
        &self.forced_yields
    }

    /// The sum of a count over the pollers of all workers.
    pub(crate) fn sum_pollers(&self, count: impl Fn(&Poller) -> u64) -> u64 {
        let pollers = self
            .all_drivers()
            .filter_map(|drivers| drivers.driver().existing_poller());
        pollers.map(|poller| count(poller)).sum()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn timers(&self) -> Option<&Timers> {
        self.timers.as_ref()
    }

    pub(super) fn quiescence(&self) -> &Quiescence {
        &self.quiescence
    }

    /// Fires every timer that is due.
    pub(crate) fn fire_all(&self) {
        let now_ns = self.clock.now_ns();
        for shard in self.timers.iter().flat_map(Timers::shards) {
            shard.fire(now_ns);
        }
    }

    /// Makes every worker look at the clock again.
    pub(crate) fn interrupt_all(&self) {
        for drivers in self.all_drivers() {
            drivers.interrupt();
        }
    }

    /// Finds a thread for a worker that needs relief.
    fn relieve(self: &Arc<Self>, relief: Relief) {
        let Some(relief) = self.relief_threads.send(relief) else {
            return;
        };
        let world = self.clone();
        let name = self.hooks.thread_name();
        // No shutdown waits for a relief thread before it has a worker.
        let mark = || None;
        let started = self.start_inside(name, mark, move || {
            RELIEF_COUNT.set(ReliefCount::Counted);
            run_relief(relief, &world);
            run_reliefs(&world, ReliefThreadKind::Counted);
        });
        match started {
            Ok(thread) => self.keep_thread(thread),
            // The worker waits for its own thread.
            Err(_) => self.relief_threads.not_started(),
        }
    }

    /// Ends the threads that wait for a worker to relieve. Workers whose threads are in a
    /// blocking section get a thread to leave on.
    pub(crate) fn close_relief_threads(self: &Arc<Self>, scheduler: &Arc<Scheduler>) {
        self.relief_threads.close();
        for relief in scheduler.reliefs() {
            self.relieve(relief);
        }
    }

    /// Ends all waits for timers, and refuses new ones.
    pub(crate) fn shut_timers(&self) {
        if let Some(timers) = &self.timers {
            timers.close();
        }
    }

    /// Ends all waits for sockets, and refuses new ones.
    pub(crate) fn shut_sources(&self) {
        for drivers in &self.drivers {
            drivers.driver().shutdown_sources();
        }
    }

    pub(super) fn keep_thread(&self, thread: thread::JoinHandle<()>) {
        let mut threads = self.threads.lock().unwrap_or_else(|e| e.into_inner());
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
    }

    /// Waits for the threads of the workers, which are about to end.
    pub(crate) fn join_threads(&self) {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(|e| e.into_inner()));
        threads.into_iter().for_each(join_unless_current);
    }

    /// Returns the nanoseconds since the runtime was built, for schedulers.
    pub(super) fn elapsed_ns(&self) -> u64 {
        let elapsed = self.started.elapsed();
        wait::set_seconds(self.started_s + elapsed.as_secs());
        elapsed.as_nanos() as u64
    }

    /// Returns the seed of one of the runtime's random sequences.
    pub(super) fn derive_seed(&self, index: u64) -> u64 {
        Rng::derive(self.seed, index)
    }

    /// Starts a thread for a monitor.
    pub(super) fn start_monitor(&self, monitor: Monitor) -> io::Result<()> {
        fence::prepare_in_background();
        let handle = self.runtime()?;
        let thread = thread::Builder::new().name("blitzen-monitor".into());
        let thread = affinity::spawn_unbound(thread, move || {
            let _runtime = context::enter(&handle);
            monitor.run();
        })?;
        self.keep_thread(thread);
        Ok(())
    }

    /// Starts a thread inside the runtime.
    pub(super) fn start_inside(
        &self,
        name: Option<String>,
        mark: impl FnOnce() -> Option<ThreadMark> + Send + 'static,
        main: impl FnOnce() + Send + 'static,
    ) -> io::Result<thread::JoinHandle<()>> {
        let handle = self.runtime()?;
        self.hooks.start_thread(name, mark, move || {
            let _runtime = context::enter(&handle);
            main();
        })
    }
}

impl PausedWorld for RealWorld {
    fn quiescence(&self) -> &Quiescence {
        &self.quiescence
    }

    fn for_each_worker(&self, visit: &mut dyn FnMut(&Activity)) {
        for drivers in self.all_drivers() {
            visit(drivers.activity());
        }
    }

    fn is_paused(&self) -> bool {
        self.clock.is_frozen()
    }

    fn has_operations(&self) -> bool {
        self.all_drivers()
            .any(|drivers| drivers.driver().has_operations())
    }

    fn serve_all(&self) -> bool {
        self.all_drivers()
            .fold(false, |found, drivers| drivers.serve(self) | found)
    }

    fn next_timer_ns(&self) -> Option<u64> {
        let shards = self.timers.iter().flat_map(Timers::shards);
        shards.filter_map(|shard| shard.next_expiry_ns()).min()
    }

    fn advance_to(&self, ns: u64) {
        self.clock.move_to(ns);
    }

    fn fire_timers(&self) {
        self.fire_all();
    }
}

/// Wakes a worker for a timer that another thread has armed.
struct WorkerWaker {
    world: Weak<RealWorld>,
    worker: usize,
}

impl Wake for WorkerWaker {
    fn wake(self: Arc<Self>) {
        let Some(world) = self.world.upgrade() else {
            return;
        };
        if let Ok(runtime) = world.runtime() {
            // It may be the first that there is for the workers to do.
            runtime.inner.scheduler().ensure_started();
        }
        world.drivers(self.worker).interrupt();
    }
}

/// The scheduler's share of the world.
pub(crate) struct SchedulerWorld(pub(crate) Arc<RealWorld>);

impl World for SchedulerWorld {
    fn turn(&self, worker: usize, max_wait: Option<Duration>) {
        self.0.drivers[worker].turn(&self.0, max_wait);
    }

    fn turn_until(&self, worker: usize, max_wait: Option<Duration>, is_over: &dyn Fn() -> bool) {
        self.0.drivers[worker].turn_until(&self.0, max_wait, is_over);
    }

    fn serve(&self, worker: usize) {
        self.0.drivers[worker].try_serve(&self.0);
    }

    fn interrupt(&self, worker: usize) {
        self.0.drivers[worker].interrupt();
    }

    fn now_ns(&self) -> u64 {
        self.0.elapsed_ns()
    }

    fn note_thread(&self) {
        stack_sample::note_thread();
    }

    fn has_steady_counter(&self) -> bool {
        clock::has_steady_counter()
    }

    fn preemptions(&self) -> u64 {
        preemptions()
    }

    fn seed(&self, worker: usize) -> u64 {
        self.0.derive_seed(worker as u64)
    }

    fn thread_name(&self) -> Option<String> {
        self.0.hooks.thread_name()
    }

    fn start(&self, worker: Worker, name: Option<String>) -> io::Result<()> {
        self.0.drivers(worker.index()).activity().set_active();
        let world = self.0.clone();
        let scheduler = worker.scheduler().clone();
        let mark = move || Some(scheduler.mark_thread());
        let main = move || run_worker(worker, &world);
        let thread = self.0.start_inside(name, mark, main)?;
        // Relaxed: the lock under which workers start is the one that a shutdown takes
        // before any of them leaves.
        self.0.running_workers.fetch_add(1, Relaxed);
        self.0.keep_thread(thread);
        Ok(())
    }

    fn start_monitor(&self, monitor: Monitor) -> io::Result<()> {
        self.0.start_monitor(monitor)
    }

    fn start_pinned(&self, thread: PinnedThread) -> io::Result<()> {
        let world = self.0.clone();
        let handle = self.0.runtime()?;
        let name = thread::Builder::new().name("blitzen-coroutines".into());
        let thread = affinity::spawn_unbound(name, move || {
            let _runtime = context::enter(&handle);
            let _deferring = context::defer_here();
            let _entered = blitzen_util::entered::enter();
            let _random = world.seeded_random().map(SeededRandom::enter);
            thread.run();
        })?;
        self.0.keep_thread(thread);
        Ok(())
    }

    fn serve_pinned(&self, serve: &mut dyn FnMut(Waker, &mut dyn FnMut())) {
        // A paused clock does not advance while the thread runs a task.
        let parker = Arc::new(BlockOnParker::new());
        let _counted = count_thread(&*self.0, parker.clone());
        stop_counting_as_blocking(&self.0);
        let _uncounted = UncountedRelief::begin(&self.0);
        serve(Waker::from(parker.clone()), &mut || {
            parker.park_at_most(&self.0, trim_stacks());
        });
    }

    fn relieve(&self, relief: Relief) {
        self.0.relieve(relief);
    }

    fn handed_off(&self) {
        LOST_WORKER.set(true);
        IS_BLOCKING_WORK.set(true);
    }

    fn restore_context(&self, depth: usize) {
        self.0.restore_context(depth);
    }

    fn run_on_pool(&self, job: Box<dyn FnOnce() + Send>) {
        // Without a runtime there is nothing to run. A system that refuses a thread makes
        // this panic, and the job is dropped.
        if let Ok(runtime) = self.0.runtime() {
            let meta = SpawnMeta::caller();
            quietly(move || drop(runtime.inner.spawn_blocking(job, false, meta)));
        }
    }

    fn run_inside(&self, run: &mut dyn FnMut()) {
        let runtime = self.0.runtime().ok();
        let _runtime = runtime.as_ref().and_then(context::try_enter);
        let _deferring = context::defer_here();
        let _entered = blitzen_util::entered::enter();
        // If it runs in the middle of a coroutine, that must not be suspended from here: frames of
        // this thread, such as those of the poll of another task, would stay on its stack.
        #[cfg(feature = "coro")]
        let _outside = crate::coro::Outside::enter();
        run();
    }

    fn begin_external(&self) {
        self.0.quiescence.begin_blocking();
    }

    fn end_external(&self) {
        end_blocking(&*self.0);
    }

    fn before_park(&self, _worker: usize) -> Option<Duration> {
        call(&self.0.hooks.on_park);
        trim_stacks()
    }

    fn after_unpark(&self, _worker: usize) {
        call(&self.0.hooks.on_unpark);
    }

    fn left(&self, worker: usize) {
        self.0.drivers[worker].shut_down();
        // Nobody fires timers after the last one. A thread that has lost its worker may still
        // be waiting for one, in place, and the shutdown for that thread.
        let running = &self.0.running_workers;
        let before = running.fetch_update(Relaxed, Relaxed, |count| count.checked_sub(1));
        if before == Ok(1) {
            self.0.shut_timers();
        }
    }

    fn before_poll(&self, task: &TaskInfo) {
        task_hooks::call(&self.0.task_hooks.before_poll, task);
    }

    fn after_poll(&self, task: &TaskInfo) {
        task_hooks::call(&self.0.task_hooks.after_poll, task);
    }

    fn task_ended(&self, task: &TaskInfo) {
        task_hooks::call(&self.0.task_hooks.on_terminate, task);
    }

    fn task_panicked(&self) -> bool {
        if self.0.stop_on_panic {
            self.0.task_panicked.store(true, Relaxed);
        }
        self.0.stop_on_panic
    }

    fn between_polls(&self) {
        assert!(
            !self.0.task_panicked.load(Relaxed),
            "a spawned task panicked and the runtime is configured to shut down on unhandled panic"
        );
    }
}

thread_local! {
    /// A relief thread has this thread's worker.
    static LOST_WORKER: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread counts as blocking work, since it has lost its worker.
    static IS_BLOCKING_WORK: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread counts as a relief thread.
    static RELIEF_COUNT: Cell<ReliefCount> = const { Cell::new(ReliefCount::Never) };
}

/// Whether a thread counts as a relief thread (`relief.rs`, L1).
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReliefCount {
    /// It is none.
    Never,
    Counted,
    /// It is none any more: there are enough.
    Surplus,
}

/// The calling thread has no worker, and runs its pinned tasks until this is dropped. If it is a
/// relief thread, it is not counted meanwhile.
struct UncountedRelief<'a>(Option<&'a RealWorld>);

impl<'a> UncountedRelief<'a> {
    fn begin(world: &'a Arc<RealWorld>) -> Self {
        if RELIEF_COUNT.get() != ReliefCount::Counted {
            return Self(None);
        }
        if let Some(relief) = world.relief_threads.uncount() {
            world.relieve(relief);
        }
        Self(Some(world))
    }
}

impl Drop for UncountedRelief<'_> {
    fn drop(&mut self) {
        if let Some(world) = self.0 {
            RELIEF_COUNT.set(match world.relief_threads.recount() {
                true => ReliefCount::Counted,
                false => ReliefCount::Surplus,
            });
        }
    }
}

/// The main function of a worker's thread, inside its runtime.
fn run_worker(worker: Worker, world: &RealWorld) {
    let index = worker.index();
    if run_as_worker(index, world, || worker.run()) {
        run_reliefs(world, ReliefThreadKind::Worker);
    }
}

/// Relieves workers as long as there are any that need it.
fn run_reliefs(world: &RealWorld, kind: ReliefThreadKind) {
    while RELIEF_COUNT.get() != ReliefCount::Surplus
        && let Some(relief) = world.relief_threads.wait(kind)
    {
        run_relief(relief, world);
    }
}

fn run_relief(relief: Relief, world: &RealWorld) {
    // For the thread that blocks, before it can end: it is no worker any more.
    world.quiescence.begin_blocking();
    let mut has_run = false;
    run_as_worker(relief.worker(), world, || has_run = relief.run());
    if !has_run {
        end_blocking(world);
    }
}

/// Runs a worker on this thread; returns whether a relief thread has it now.
fn run_as_worker(worker: usize, world: &RealWorld, run: impl FnOnce()) -> bool {
    // The thread has entered the runtime already, and keeps it in memory. This guard leaves
    // what the last task of the worker has entered and not left.
    let handle = world.runtime().ok();
    let _runtime = handle.as_ref().map(context::enter);
    let _deferring = context::defer_here();
    let _entered = blitzen_util::entered::enter();
    let _slack = TimerSlack::begin();
    let _random = world
        .seeded_random()
        .map(|random| random.enter_worker(worker));
    timers::enter_worker(world, worker);
    run();
    stop_counting_as_blocking(world);
    LOST_WORKER.replace(false)
}

/// Ends the blocking work that the calling thread counts as, if it has lost its worker.
fn stop_counting_as_blocking(world: &RealWorld) {
    if IS_BLOCKING_WORK.replace(false) {
        end_blocking(world);
    }
}

thread_local! {
    /// The thread that waits for this one, which runs a coroutine for it.
    static RESUMER: Cell<Option<ThreadId>> = const { Cell::new(None) };
}

/// Notes that `resumer` waits for the calling thread, which runs a coroutine for it.
#[cfg(feature = "coro")]
pub(crate) fn set_resumer(resumer: ThreadId) {
    RESUMER.set(Some(resumer));
}

/// Waits for the end of a thread, unless it is the calling one, or waits for that: a runtime may
/// end on one of its own threads, in a waker, a hook or the destructor of a thread-local value.
fn join_unless_current(thread: thread::JoinHandle<()>) {
    let id = thread.thread().id();
    if id != thread::current().id() && Some(id) != RESUMER.get() {
        // A panic on it was reported by the panic hook.
        let _ = thread.join();
    }
}

/// The blocking pool's share of the world.
pub(crate) struct PoolWorld(pub(crate) Arc<RealWorld>);

impl SpawnThread for PoolWorld {
    fn thread_name(&self) -> Option<String> {
        self.0.hooks.thread_name()
    }

    fn spawn_thread(
        &self,
        pool: Arc<Pool>,
        thread: PoolThread,
        name: Option<String>,
    ) -> io::Result<ThreadJoiner> {
        let mark = {
            let pool = pool.clone();
            move || Some(pool.mark_thread())
        };
        let main = move || pool.work(thread);
        let thread = self.0.start_inside(name, mark, main)?;
        Ok(Box::new(move || join_unless_current(thread)))
    }

    fn spawn_reaper(&self, pool: Arc<Pool>) -> io::Result<ThreadJoiner> {
        let thread = thread::Builder::new().name("blitzen-reaper".into());
        let thread = affinity::spawn_unbound(thread, move || pool.run_reaper())?;
        Ok(Box::new(move || join_unless_current(thread)))
    }

    fn job_ended(&self) {
        end_blocking(&*self.0);
    }

    fn restore_context(&self, depth: usize) {
        self.0.restore_context(depth);
    }
}
