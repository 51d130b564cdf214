//! The outside world as the scheduler wants it: real drivers, the system's
//! clock and threads.

use std::cell::Cell;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use blitzen_sched::{Joiner, Member, Pool, Staff, Vacancy, Watchman, Worker, World};
use blitzen_util::pad::Padded;
use blitzen_util::rng::{self, Rng};

use super::clock::Clock;
use super::context;
use super::draws::Draws;
use super::handle::Handle;
use super::hooks::{Hooks, call};
use super::inner::Inner;
use super::io::IoOptions;
use super::lull::{self, Lull};
use super::punctual::Punctual;
use super::station::Station;
use super::timers::{self, TimeOptions, Timers};
use crate::net::SocketMode;

/// The world of one runtime.
pub(crate) struct Real {
    stations: Box<[Padded<Station>]>,
    /// Whether sockets were asked for.
    pub(super) io_enabled: bool,
    /// How new sockets wait.
    socket_mode: SocketMode,
    /// Where the next source or timer goes that comes from outside the workers.
    next_station: AtomicUsize,
    clock: Clock,
    /// Unless the runtime has none.
    timers: Option<Timers>,
    lull: Lull,
    started: Instant,
    seed: u64,
    /// If a seed was asked for.
    draws: Option<Draws>,
    hooks: Hooks,
    /// A panic of a task is the runtime's.
    stop_on_panic: bool,
    task_panicked: AtomicBool,
    /// The threads of the workers and of the watchman, until somebody joins them.
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
    /// The runtime; set right after it was made.
    runtime: OnceLock<Weak<Inner>>,
}

impl Real {
    pub(crate) fn new(
        workers: usize,
        seed: Option<u64>,
        hooks: Hooks,
        stop_on_panic: bool,
        io: &IoOptions,
        time: &TimeOptions,
    ) -> Arc<Self> {
        let station = |worker| Padded(Station::new(io, worker));
        let world = Arc::new(Self {
            stations: (0..workers).map(station).collect(),
            io_enabled: io.enabled,
            socket_mode: io.sockets,
            next_station: AtomicUsize::new(0),
            clock: Clock::new(time.start_paused),
            timers: time.enabled.then(|| Timers::new(workers, time.resolution)),
            lull: Lull::new(),
            started: Instant::now(),
            seed: seed.unwrap_or_else(rng::entropy),
            draws: seed.map(Draws::new),
            hooks,
            stop_on_panic,
            task_panicked: AtomicBool::new(false),
            threads: Mutex::new(Vec::new()),
            runtime: OnceLock::new(),
        });
        if let Some(timers) = &world.timers {
            timers.open(world.clock.now(), |worker| {
                let world = Arc::downgrade(&world);
                Waker::from(Arc::new(Bell { world, worker }))
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

    pub(crate) fn station(&self, worker: usize) -> &Station {
        &self.stations[worker]
    }

    pub(crate) fn stations(&self) -> impl Iterator<Item = &Station> {
        self.stations.iter().map(|station| &**station)
    }

    /// A worker for something that comes from outside of them: each in its turn.
    pub(crate) fn any_worker(&self) -> usize {
        match self.stations.len() {
            1 => 0,
            count => self.next_station.fetch_add(1, Relaxed) % count,
        }
    }

    /// A station for something that comes from outside the workers.
    pub(crate) fn any_station(&self) -> &Station {
        self.station(self.any_worker())
    }

    pub(crate) fn socket_mode(&self) -> SocketMode {
        self.socket_mode
    }

    /// What threads draw from inside the runtime, if it has a seed.
    pub(crate) fn draws(&self) -> Option<&Draws> {
        self.draws.as_ref()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn timers(&self) -> Option<&Timers> {
        self.timers.as_ref()
    }

    pub(super) fn lull(&self) -> &Lull {
        &self.lull
    }

    /// Fires every timer that is due.
    pub(crate) fn fire_all(&self) {
        let now_ns = self.clock.now_ns();
        for shard in self.timers.iter().flat_map(Timers::shards) {
            shard.fire(now_ns);
        }
    }

    /// Fires whatever is due; tells whether there was anything.
    pub(super) fn serve_all(&self) -> bool {
        self.stations()
            .fold(false, |found, station| station.serve(self) | found)
    }

    /// When the first timer is due.
    pub(super) fn next_timer_ns(&self) -> Option<u64> {
        let shards = self.timers.iter().flat_map(Timers::shards);
        shards.filter_map(|shard| shard.next_expiry_ns()).min()
    }

    /// Whether the system is at work for somebody.
    pub(super) fn has_operations(&self) -> bool {
        self.stations()
            .any(|station| station.driver().has_operations())
    }

    /// Makes every worker look at the clock again.
    pub(crate) fn interrupt_all(&self) {
        for station in self.stations() {
            station.interrupt();
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
        for station in &self.stations {
            station.driver().shutdown_sources();
        }
    }

    fn keep_thread(&self, thread: thread::JoinHandle<()>) {
        let mut threads = self.threads.lock().unwrap_or_else(|e| e.into_inner());
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
    }

    /// Waits for the threads of the workers, which are about to end.
    pub(crate) fn join_threads(&self) {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(|e| e.into_inner()));
        for thread in threads {
            // A worker whose hook panicked has said so; it is gone either way.
            let _ = thread.join();
        }
    }

    /// Starts a thread inside the runtime.
    fn start_inside(
        &self,
        main: impl FnOnce() + Send + 'static,
    ) -> io::Result<thread::JoinHandle<()>> {
        let handle = self.runtime()?;
        self.hooks.start_thread(move || {
            let _runtime = context::enter(&handle);
            main();
        })
    }
}

/// Wakes a worker for a timer that another thread has armed.
struct Bell {
    world: Weak<Real>,
    worker: usize,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let Some(world) = self.world.upgrade() else {
            return;
        };
        if let Ok(runtime) = world.runtime() {
            // It may be the first that there is for the workers to do.
            runtime.inner.scheduler().ensure_started();
        }
        world.station(self.worker).interrupt();
    }
}

/// The scheduler's share of the world.
pub(crate) struct ForScheduler(pub(crate) Arc<Real>);

impl World for ForScheduler {
    fn turn(&self, worker: usize, max_wait: Option<Duration>) {
        self.0.stations[worker].turn(&self.0, max_wait);
    }

    fn turn_until(&self, worker: usize, max_wait: Option<Duration>, is_over: &dyn Fn() -> bool) {
        self.0.stations[worker].turn_until(&self.0, max_wait, is_over);
    }

    fn serve(&self, worker: usize) {
        self.0.stations[worker].serve(&self.0);
    }

    fn interrupt(&self, worker: usize) {
        self.0.stations[worker].interrupt();
    }

    fn now_ns(&self) -> u64 {
        self.0.started.elapsed().as_nanos() as u64
    }

    fn seed(&self, worker: usize) -> u64 {
        Rng::derive(self.0.seed, worker as u64)
    }

    fn start(&self, worker: Worker) -> io::Result<()> {
        self.0.station(worker.index()).rest().get_up();
        let world = self.0.clone();
        let thread = self.0.start_inside(move || run_worker(worker, &world))?;
        self.0.keep_thread(thread);
        Ok(())
    }

    fn start_watchman(&self, watchman: Watchman) -> io::Result<()> {
        let handle = self.0.runtime()?;
        let thread = thread::Builder::new().name("blitzen-watch".into());
        let thread = thread.spawn(move || {
            let _runtime = context::enter(&handle);
            watchman.run();
        })?;
        self.0.keep_thread(thread);
        Ok(())
    }

    fn relieve(&self, vacancy: Vacancy) {
        let world = self.0.clone();
        let run = move || {
            world.lull.occupy(); // for the thread that is away, before it can end
            match vacancy.fill() {
                Some(worker) => run_worker(worker, &world),
                None => lull::vacate(&world),
            }
        };
        // Not of the pool, whose threads are for blocking work. Without another
        // thread, or in a runtime that goes away, things stay as they are.
        if let Ok(thread) = self.0.start_inside(run) {
            self.0.keep_thread(thread);
        }
    }

    fn before_park(&self, _worker: usize) {
        call(&self.0.hooks.on_park);
    }

    fn after_unpark(&self, _worker: usize) {
        call(&self.0.hooks.on_unpark);
    }

    fn left(&self, worker: usize) {
        self.0.stations[worker].shut_down();
    }

    fn task_panicked(&self) {
        if self.0.stop_on_panic {
            self.0.task_panicked.store(true, Relaxed);
        }
    }

    fn between_polls(&self) {
        assert!(
            !self.0.task_panicked.load(Relaxed),
            "a spawned task panicked and the runtime is configured to shut down on unhandled panic"
        );
    }
}

thread_local! {
    /// Whether the thread's worker goes on elsewhere.
    static GAVE_WAY: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread's worker goes on elsewhere, while it is blocked itself. It
/// counts as [occupied](Lull::occupy) until its end.
pub(crate) fn gave_way() {
    GAVE_WAY.set(true);
}

/// The main function of a worker's thread, inside its runtime.
pub(crate) fn run_worker(worker: Worker, world: &Real) {
    let _deferring = context::defer_here();
    let _entered = blitzen_util::entered::enter();
    let _punctual = Punctual::begin();
    let _drawing = world
        .draws()
        .map(|draws| draws.enter_worker(worker.index()));
    timers::enter_worker(world, worker.index());
    worker.run();
    if GAVE_WAY.replace(false) {
        lull::vacate(world);
    }
}

/// The blocking pool's share of the world.
pub(crate) struct ForPool(pub(crate) Arc<Real>);

impl Staff for ForPool {
    fn hire(&self, pool: Arc<Pool>, member: Member) -> io::Result<Joiner> {
        let thread = self.0.start_inside(move || pool.work(member))?;
        Ok(Box::new(move || {
            // A thread whose hook panicked has said so; it is gone either way.
            let _ = thread.join();
        }))
    }

    fn hire_steward(&self, pool: Arc<Pool>) -> io::Result<Joiner> {
        let thread = thread::Builder::new().name("blitzen-steward".into());
        let thread = thread.spawn(move || pool.keep_time())?;
        Ok(Box::new(move || {
            // It has nothing to panic about.
            let _ = thread.join();
        }))
    }

    fn job_ended(&self) {
        lull::vacate(&self.0);
    }
}
