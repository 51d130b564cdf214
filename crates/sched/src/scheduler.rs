//! The scheduler: what its workers share, how tasks are spawned and queued, and how
//! the workers get their threads.

use std::future::Future;
use std::io;
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::thread::ThreadId;
use std::time::Duration;

use blitzen_observe::{Event, Stats, WorkerCounters};
use blitzen_task::glue::id_number;
use blitzen_task::watch::WatchHandle;
use blitzen_task::{Header, Id, JoinHandle, OwnedTasks, Runnable, Schedule, SpawnMeta};
use blitzen_util::coop::Budget;
use blitzen_util::pad::Padded;
use blitzen_util::shim::Mutex;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use blitzen_util::shim::atomic::{AtomicBool, AtomicU32};
use blitzen_util::thread_shard::thread_shard;
use blitzen_util::wake_cause::{self, WakeCause};

use crate::current;
use crate::dispatch::{GroupSet, RouteTable};
use crate::handoff::Handoff;
use crate::idle::Idle;
use crate::inject::{Arrival, Inject};
use crate::late_tasks::LateTasks;
use crate::lifo::Lifo;
use crate::monitor::{Monitor, MonitorState, Need, Progress, StuckWorker};
use crate::observation::{Observation, ObserveConfig, ObservedSet, spawn_events};
use crate::rescue::RescueState;
use crate::ring::RunQueue;
use crate::shutdown::Presence;
use crate::task_shard::{TaskShard, TaskShardRef};
use crate::thread_mark::{Role, ThreadMark};
use crate::thread_queue::{PinnedSchedule, ThreadQueue};
use crate::worker::{UNPARK_NS, Worker};
use crate::world::World;

/// How many task shards each worker has, and each shard of the injection queue.
#[cfg(not(blitzen_loom))]
const SHARDS_PER_WORKER: usize = 8;
#[cfg(blitzen_loom)]
const SHARDS_PER_WORKER: usize = 1;

/// How many tasks in a row are spawned into the same task shard: about as many as a
/// thief steals.
const SPAWNS_PER_SHARD: usize = 64;

/// How many tasks a walk shows under one hold of a lock: some 25 µs of cache misses.
const WALK_BATCH: usize = 256;

/// The settings of a scheduler.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The number of workers, at least one.
    pub workers: usize,
    /// Polls between two looks at the injection queue; adapts if not given.
    pub inject_interval: Option<u32>,
    /// Polls between two looks at the drivers; adapts if not given.
    pub event_interval: Option<u32>,
    /// Whether the newest task runs first.
    pub lifo: bool,
    /// The longest sleep of a worker that has nothing to do; no limit if not given.
    pub park_timeout: Option<Duration>,
    /// What is observed of polls and wakes.
    pub observe: ObserveConfig,
    /// Whether to call [`World::task_ended`].
    pub observe_ends: bool,
    /// What a task may do in one poll before it has to yield.
    pub budget: Budget,
    /// Whether tasks must stay on the thread of the only worker, and so cannot be moved to a
    /// dispatcher.
    pub is_local: bool,
}

impl Config {
    /// Defaults for a number of workers.
    pub fn new(workers: usize) -> Self {
        Self {
            workers,
            inject_interval: None,
            event_interval: None,
            lifo: true,
            park_timeout: None,
            observe: ObserveConfig::default(),
            observe_ends: false,
            budget: Budget::default(),
            is_local: false,
        }
    }
}

/// The part of a worker that others see.
pub(crate) struct WorkerShared {
    pub(crate) ring: RunQueue,
    pub(crate) lifo: Lifo,
    /// Changes with every poll: a worker whose tick stands still is stuck in one.
    pub(crate) tick: AtomicU32,
    /// The address of the task that is being polled, or was last. Only the worker's thread
    /// writes it, and nobody follows it. Not modelled: it is part of no protocol.
    pub(crate) polled: std::sync::atomic::AtomicUsize,
    pub(crate) counters: WorkerCounters,
    /// The worker itself, while its thread is in a blocking section.
    pub(crate) handoff: Handoff<Worker>,
    /// The thread that runs the worker, or did last. Not modelled: it is only for metrics.
    pub(crate) thread: std::sync::Mutex<Option<ThreadId>>,
    /// The same thread as the kernel calls it, if that is known; otherwise zero.
    pub(crate) kernel_thread: AtomicU32,
    /// Whether the monitor has sent a relief thread that has not arrived yet.
    pub(crate) has_relief: AtomicBool,
}

/// A work-stealing scheduler.
pub struct Scheduler {
    world: Box<dyn World>,
    pub(crate) config: Config,
    pub(crate) shared: Box<[Padded<WorkerShared>]>,
    pub(crate) inject: Inject,
    pub(crate) idle: Idle,
    pub(crate) monitor: MonitorState,
    pub(crate) rescue: RescueState,
    pub(crate) observation: Observation,
    /// `SHARDS_PER_WORKER` for each worker, then as many for each shard of the
    /// injection queue.
    pub(crate) task_shards: Box<[Padded<TaskShard>]>,
    /// Whether the caller of `block_on` runs the only worker, which cannot move.
    is_current_thread: bool,
    /// Whether the workers have threads, or need none.
    started: AtomicBool,
    pub(crate) start: Mutex<()>,
    pub(crate) presence: Presence,
    pub(crate) late: LateTasks,
    /// The queues of threads that have pinned tasks.
    pub(crate) thread_queues: Mutex<Vec<Arc<ThreadQueue>>>,
    /// In a current-thread scheduler: the queue of the thread that runs its pinned tasks, which
    /// keeps it until it leaves.
    pub(crate) pinned_thread: OnceLock<Weak<ThreadQueue>>,
    pub(crate) routes: RouteTable,
    pub(crate) groups: GroupSet,
}

impl Scheduler {
    /// Creates a scheduler whose workers have no threads yet: they get them with
    /// the first task.
    ///
    /// # Panics
    /// Panics if there are no workers.
    #[track_caller]
    pub fn new(config: Config, world: Box<dyn World>) -> Arc<Self> {
        Self::build(config, world, false)
    }

    /// Creates a scheduler with one worker, which the caller of `block_on` runs
    /// through a [`CoreGuard`](crate::CoreGuard).
    pub fn new_current_thread(
        mut config: Config,
        world: Box<dyn World>,
    ) -> (Arc<Self>, Box<Worker>) {
        config.workers = 1;
        let scheduler = Self::build(config, world, true);
        scheduler.join();
        let worker = Worker::new(scheduler.clone(), 0);
        (scheduler, Box::new(worker))
    }

    #[track_caller]
    fn build(config: Config, world: Box<dyn World>, is_current_thread: bool) -> Arc<Self> {
        assert!(config.workers > 0, "a scheduler needs at least one worker");
        let workers = config.workers;
        let inject = Inject::new(workers);
        let task_shards = (workers + inject.shards()) * SHARDS_PER_WORKER;
        let shared = |_| {
            Padded(WorkerShared {
                ring: RunQueue::new(),
                lifo: Lifo::new(),
                tick: AtomicU32::new(0),
                polled: std::sync::atomic::AtomicUsize::new(0),
                counters: WorkerCounters::default(),
                handoff: Handoff::new(),
                thread: std::sync::Mutex::new(None),
                kernel_thread: AtomicU32::new(0),
                has_relief: AtomicBool::new(false),
            })
        };
        let scheduler = Arc::new(Self {
            world,
            shared: (0..workers).map(shared).collect(),
            observation: Observation::new(config.observe.clone(), workers, inject.shards()),
            inject,
            idle: Idle::new(workers),
            monitor: MonitorState::new(workers),
            rescue: RescueState::new(workers),
            task_shards: (0..task_shards).map(|_| Padded(TaskShard::new())).collect(),
            is_current_thread,
            started: AtomicBool::new(is_current_thread),
            start: Mutex::new(()),
            presence: Presence::new(),
            late: LateTasks::new(),
            thread_queues: Mutex::new(Vec::new()),
            pinned_thread: OnceLock::new(),
            routes: RouteTable::new(),
            groups: GroupSet::new(workers),
            config,
        });
        for shared in &scheduler.shared {
            // It starts parked: giving it a thread unparks it for the first time.
            shared.counters.park_events.bump();
        }
        for task_shard in &scheduler.task_shards {
            // SAFETY: new, and once for each.
            unsafe { task_shard.set_scheduler(scheduler.clone()) };
        }
        scheduler
    }

    /// The outside world.
    pub fn world(&self) -> &dyn World {
        &*self.world
    }

    /// Whether its workers have threads of their own, and can move between them.
    pub(crate) fn has_threads(&self) -> bool {
        !self.is_current_thread
    }

    /// What a task may do in one poll before it has to yield.
    pub fn budget(&self) -> Budget {
        self.config.budget
    }

    /// Whether the world is called before and after each poll.
    pub fn observes_polls(&self) -> bool {
        self.config.observe.hooks
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.shared.len()
    }

    /// The index of the worker that the calling thread runs, if it is one of this
    /// scheduler.
    pub fn current_worker(self: &Arc<Self>) -> Option<usize> {
        current::with_worker_of(self, |worker| worker.map(Worker::index))
    }

    /// Returns how often a worker has parked, and whether it is parked now.
    pub fn parks(&self, worker: usize) -> (u64, bool) {
        let parks = self.shared[worker].counters.park_events.get();
        (parks, self.idle.is_parked(worker))
    }

    /// Makes a task of a future and queues it. After the shutdown the task is
    /// returned instead of queued: dropping it drops the future.
    pub fn spawn<F>(self: &Arc<Self>, future: F, id: Id, meta: SpawnMeta) -> Spawned<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        // SAFETY: the future and its output are `Send`.
        unsafe { self.spawn_unchecked(future, id, meta) }
    }

    /// Like [`spawn`](Self::spawn), for a future that may have to stay on its
    /// thread.
    ///
    /// # Safety
    /// Unless the future is `Send`, the scheduler is a
    /// [current-thread](Self::new_current_thread) one, which is driven and closed
    /// only on the thread that calls this. Unless the output is `Send`, it never
    /// leaves that thread.
    pub unsafe fn spawn_unchecked<F>(
        self: &Arc<Self>,
        future: F,
        id: Id,
        meta: SpawnMeta,
    ) -> Spawned<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        // SAFETY: handed on.
        unsafe { self.spawn_with(future, id, meta, |shard| shard, |_| true) }
    }

    /// Like [`spawn`](Self::spawn), for a future that stays on the thread that polls it first:
    /// after its first poll it need not be `Send`. It ends on its own when the task is cancelled
    /// ([`Schedule::UNWINDS`]).
    ///
    /// # Panics
    /// Without [`ensure_pinned_thread`](Self::ensure_pinned_thread), the first poll panics in a
    /// current-thread scheduler.
    pub fn spawn_pinned<F>(
        self: &Arc<Self>,
        future: F,
        id: Id,
        meta: SpawnMeta,
    ) -> Spawned<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        // SAFETY: the future and its output are `Send`.
        unsafe { self.spawn_with(future, id, meta, PinnedSchedule::new, |_| true) }
    }

    /// Like [`spawn_unchecked`](Self::spawn_unchecked), with a scheduler of the task that
    /// `schedule` makes of its reference to this one. The task is queued if `admit` agrees, and
    /// otherwise returned.
    ///
    /// # Safety
    /// As for [`spawn_unchecked`](Self::spawn_unchecked). What `schedule` makes hands on every
    /// call to what it was given.
    #[inline]
    pub unsafe fn spawn_with<F, S>(
        self: &Arc<Self>,
        future: F,
        id: Id,
        meta: SpawnMeta,
        schedule: impl FnOnce(TaskShardRef) -> S,
        admit: impl FnOnce(&Runnable) -> bool,
    ) -> Spawned<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
        S: Schedule,
    {
        current::with_worker_of(self, |worker| {
            let index = worker.map_or_else(|| self.workers() + self.inject_shard(), Worker::index);
            let task_shard = self.task_shard_of(index, id);
            let Some(reference) = task_shard.reference() else {
                return refuse(future, id, meta);
            };
            // SAFETY: the caller upholds the same contract; the workers run every task of the scheduler.
            let (task, handle) =
                unsafe { blitzen_task::spawn_unchecked(future, schedule(reference), id, meta) };
            // SAFETY: new, and its scheduler, the reference, removes it.
            if !admit(&task) || unsafe { task_shard.owned.insert(&task) }.is_err() {
                return (handle, Some(task));
            }
            match worker {
                Some(worker) => worker.push_spawned(task),
                None => {
                    self.ensure_started();
                    let shard = index - self.workers();
                    if !self.observation.switches().is_empty() {
                        self.observe_outside(shard, &task, true);
                    }
                    self.push_outside(shard, task, Arrival::Spawned);
                }
            }
            (handle, None)
        })
    }

    /// The task shard for a task spawned by a worker, or through a shard of the
    /// injection queue. Tasks spawned in a row share one. Those spawned long before
    /// have another, so that a worker that spawns does not share a lock with the
    /// thieves that run its earlier tasks.
    #[inline]
    fn task_shard_of(&self, index: usize, id: Id) -> &TaskShard {
        let turn = id_number(id) as usize / SPAWNS_PER_SHARD;
        &self.task_shards[index * SHARDS_PER_WORKER + turn % SHARDS_PER_WORKER]
    }

    /// The task shard for a task that is not queued by a worker.
    pub(crate) fn outside_shard(&self, id: Id) -> &TaskShard {
        self.task_shard_of(self.workers() + self.inject_shard(), id)
    }

    pub(crate) fn inject_shard(&self) -> usize {
        thread_shard() & (self.inject.shards() - 1)
    }

    /// Queues a task that was woken or cancelled, or comes from a dispatcher that has closed.
    #[inline]
    pub fn schedule(self: &Arc<Self>, task: Runnable) {
        current::with_worker_of(self, |worker| match worker {
            Some(worker) => worker.push_woken(task),
            None => self.schedule_outside(task),
        });
    }

    /// [`schedule`](Self::schedule) on a thread that has no worker of this scheduler.
    #[inline(never)]
    fn schedule_outside(&self, task: Runnable) {
        let shard = self.inject_shard();
        if !self.observation.switches().is_empty() {
            self.observe_outside(shard, &task, false);
        }
        self.push_outside(shard, task, Arrival::Woken);
    }

    /// Observes a task that a thread which is no worker has spawned, or woken.
    #[cold]
    fn observe_outside(&self, shard: usize, task: &Runnable, is_new: bool) {
        let (header, switches) = (task.header(), self.observation.switches());
        let (id, now_ns) = (id_number(header.id()), self.world.now_ns());
        if switches.has(ObservedSet::DELAYS) && self.observation.stamp(id, now_ns) {
            header.set_stamped();
        }
        if switches.has(ObservedSet::EVENTS) {
            let spawn = is_new.then(|| spawn_events(id, header.spawn_meta()));
            let cause = match wake_cause::current() {
                // In a blocking section, or after it, a poll has no worker.
                WakeCause::Unknown if blitzen_task::current::id().is_some() => WakeCause::Task,
                WakeCause::Unknown => WakeCause::Thread,
                known => known,
            };
            let wake = (!is_new).then_some(Event::Wake { id, cause });
            let events = spawn.into_iter().flatten().chain(wake);
            self.observation.record_outside(shard, now_ns, events);
        }
    }

    fn push_outside(&self, shard: usize, task: Runnable, arrival: Arrival) {
        self.inject
            .push(shard, task, arrival, |refused| self.refuse(refused));
        self.notify();
    }

    /// Unparks a worker for work that any of them can find.
    pub(crate) fn notify(&self) {
        if let Some(worker) = self.idle.claim_to_notify() {
            self.world.interrupt(worker);
        }
    }

    /// Unparks a worker for the tasks in another worker's queue, if these take
    /// longer, at `run_ns` a task, than the unparked one needs to wake up.
    pub(crate) fn share_queue_of(&self, worker: usize, run_ns: u64) {
        let waiting = self.shared[worker].ring.len();
        if run_ns.saturating_mul(waiting.into()) > UNPARK_NS {
            self.notify();
        }
    }

    /// Whether there is work that a thief could take.
    pub(crate) fn has_work(&self) -> bool {
        !self.inject.is_empty() || self.shared.iter().any(|shared| !shared.ring.is_empty())
    }

    /// Whether workers run, and who looks after them.
    pub(crate) fn needs_monitor(&self) -> Need {
        let in_section = |shared: &Padded<WorkerShared>| shared.handoff.epoch().is_some();
        match self.shared.iter().any(in_section) {
            true => Need::Often,
            false => Need::of(self.idle.running(), self.workers()),
        }
    }

    /// Returns a number that changes when a worker polls tasks.
    pub(crate) fn ticks(&self) -> u32 {
        let ticks = self.shared.iter().map(|shared| shared.tick.load(Relaxed));
        ticks.fold(0, u32::wrapping_add)
    }

    /// Returns the progress of a worker, which changes with every poll; `None` while
    /// it is parked.
    pub(crate) fn progress_of_running(&self, worker: usize) -> Option<Progress> {
        let runs = !self.idle.is_parked(worker);
        let shared = &self.shared[worker];
        runs.then(|| Progress {
            tick: shared.tick.load(Relaxed),
            section: shared.handoff.epoch(),
        })
    }

    /// Sends a relief thread to a stuck worker that is in a blocking section, and fires
    /// what is due there. Wakers are foreign code: no lock is held.
    pub(crate) fn serve_stuck(self: &Arc<Self>, stuck: &StuckWorker) {
        if let Some(epoch) = stuck.section {
            self.send_relief(stuck.worker, epoch);
        }
        self.world.serve(stuck.worker);
    }

    /// Gives the workers threads, unless they have them.
    ///
    /// # Panics
    /// Panics if the system refuses even the first thread.
    pub fn ensure_started(self: &Arc<Self>) {
        if !self.started.load(Acquire) {
            self.start_workers();
        }
    }

    #[cold]
    fn start_workers(self: &Arc<Self>) {
        if let Err(error) = self.start() {
            panic!("OS can't spawn worker thread: {error}");
        }
    }

    /// Gives the workers threads, unless they have them. Fails only if the system
    /// refuses even the first one.
    pub fn start(self: &Arc<Self>) -> io::Result<()> {
        // The names of the threads come from a user's function, which may spawn a task and
        // so call this function, or drop the runtime: so no lock is held.
        if ThreadMark::is_set(Role::Starting, &**self) {
            return Ok(());
        }
        let starting = ThreadMark::set(Role::Starting, &**self);
        let names: Vec<_> = (0..self.workers())
            .map(|_| self.world.thread_name())
            .collect();
        drop(starting);
        let guard = self.start.lock();
        if self.started.load(Relaxed) || self.is_closed() {
            return Ok(());
        }
        let mut threads = 0;
        for (index, name) in names.into_iter().enumerate() {
            self.join();
            let worker = Worker::new(self.clone(), index);
            let Err(error) = self.world.start(worker, name) else {
                threads += 1;
                continue;
            };
            // A worker without a thread must never be picked to be unparked.
            self.presence.undo_join();
            if index == 0 {
                return Err(error);
            }
            for missing in index..self.workers() {
                self.idle.claim(missing);
            }
            break;
        }
        if !(threads == self.workers() && self.start_monitor()) {
            self.monitor.set_missing();
            // Workers that have parked already sleep without a timeout.
            (0..threads).for_each(|worker| self.world.interrupt(worker));
        }
        // Release, met by the Acquire in `ensure_started`.
        self.started.store(true, Release);
        drop(guard);
        Ok(())
    }

    /// Starts the monitor; returns false if workers have to look after each other, since the
    /// system refuses a thread for it.
    fn start_monitor(self: &Arc<Self>) -> bool {
        let monitor = Monitor::new(self.clone());
        self.world.start_monitor(monitor).is_ok() || self.workers() == 1
    }

    /// Calls `visit` with every live task.
    pub fn for_each_task(&self, mut visit: impl FnMut(&Header)) {
        self.for_each_list(|list| list.for_each(&mut visit));
    }

    /// Calls `visit` with every task that is live throughout, without holding a lock for long. A
    /// task may be shown twice while the scheduler closes. `visit` must not call foreign code.
    pub fn walk_tasks(&self, mut visit: impl FnMut(&Header)) {
        self.for_each_list(|list| list.walk(WALK_BATCH, &mut visit));
    }

    /// [`walk_tasks`](Self::walk_tasks), with references that can have a task watched.
    pub fn walk_watchable(&self, mut visit: impl FnMut(WatchHandle)) {
        self.for_each_list(|list| list.walk_watchable(WALK_BATCH, &mut visit));
    }

    /// Calls `visit` with all lists of live tasks.
    pub(crate) fn for_each_list(&self, mut visit: impl FnMut(&OwnedTasks)) {
        for task_shard in &self.task_shards {
            visit(&task_shard.owned);
        }
    }

    /// How many tasks are not complete.
    pub fn alive_tasks(&self) -> usize {
        let shards = self.task_shards.iter();
        shards.map(|task_shard| task_shard.owned.len()).sum()
    }

    /// How many tasks are pinned to a thread.
    pub fn pinned_tasks(&self) -> usize {
        let queues = self.thread_queues.lock();
        queues.iter().map(|queue| queue.pinned_tasks()).sum()
    }

    /// How many workers are not parked; may be stale.
    pub fn running_workers(&self) -> usize {
        self.idle.running()
    }

    /// How many tasks wait in the injection queue.
    pub fn global_queue_depth(&self) -> usize {
        self.inject.len()
    }

    /// How many tasks wait in a worker's ring.
    pub fn ring_depth(&self, worker: usize) -> usize {
        self.shared[worker].ring.len() as usize
    }

    /// Whether tasks wait in any queue.
    pub(crate) fn has_any_work(&self) -> bool {
        let workers = 0..self.workers();
        !self.inject.is_empty()
            || self.groups.has_work()
            || workers
                .into_iter()
                .any(|worker| self.has_local_work(worker))
    }

    /// Whether tasks wait in a worker's ring or LIFO slot.
    pub(crate) fn has_local_work(&self, worker: usize) -> bool {
        let shared = &self.shared[worker];
        !shared.ring.is_empty() || shared.lifo.peek().is_some()
    }

    /// The thread that runs a worker, or ran it last; `None` before it has had one.
    pub fn thread_id(&self, worker: usize) -> Option<ThreadId> {
        let thread = self.shared[worker].thread.lock();
        *thread.unwrap_or_else(PoisonError::into_inner)
    }

    /// What is observed, and the switches for it.
    pub fn observation(&self) -> &Observation {
        &self.observation
    }

    /// The counters of one worker.
    pub fn counters(&self, worker: usize) -> &WorkerCounters {
        &self.shared[worker].counters
    }

    /// Returns the counters of all workers and of the scheduler.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        stats.workers = self
            .shared
            .iter()
            .map(|shared| shared.counters.read())
            .collect();
        let (scheduled, spawned) = self.inject.arrivals();
        let on_dispatchers: u64 = self
            .task_shards
            .iter()
            .map(|task_shard| task_shard.submitted.get())
            .sum();
        stats.remote_schedules = scheduled;
        stats.remote_submitted = spawned + on_dispatchers;
        stats.monitor_rescues = self.monitor.rescues.get();
        stats.alive_tasks = self.alive_tasks();
        stats.global_queue_depth = self.global_queue_depth();
        stats
    }
}

/// The scheduler of a task that is spawned after the shutdown: it queues nothing.
struct ClosedScheduler;

impl Schedule for ClosedScheduler {
    fn schedule(&self, task: Runnable) {
        drop(task);
    }

    fn release(&self, _: &Header) {}
}

/// A new task's handle and, if the scheduler has closed, the task itself.
pub type Spawned<T> = (JoinHandle<T>, Option<Runnable>);

/// Makes a task that never runs.
#[cold]
pub(crate) fn refuse<F>(future: F, id: Id, meta: SpawnMeta) -> Spawned<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    // SAFETY: the caller drops the runnable on the calling thread, and no other
    // is ever made.
    let (task, handle) =
        unsafe { blitzen_task::spawn_unchecked(future, ClosedScheduler, id, meta) };
    (handle, Some(task))
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::testing::Tasks;
    use std::sync::atomic::AtomicUsize;

    /// Counts how often a worker is unparked.
    struct CountInterrupts(Arc<AtomicUsize>);

    impl World for CountInterrupts {
        fn turn(&self, _: usize, _: Option<Duration>) {}

        fn serve(&self, _: usize) {}

        fn interrupt(&self, _: usize) {
            self.0.fetch_add(1, Relaxed);
        }

        fn now_ns(&self) -> u64 {
            0
        }

        fn seed(&self, _: usize) -> u64 {
            1
        }

        fn start(&self, _: Worker, _: Option<String>) -> io::Result<()> {
            unreachable!("nothing is spawned")
        }
    }

    #[test]
    fn a_worker_is_unparked_only_for_a_queue_that_takes_longer_than_waking_up() {
        let woken = Arc::new(AtomicUsize::new(0));
        let scheduler = Scheduler::new(Config::new(2), Box::new(CountInterrupts(woken.clone())));
        assert!(scheduler.idle.claim(0), "it runs");
        let tasks = Tasks::new();
        let ring = &scheduler.shared[0].ring;
        scheduler.share_queue_of(0, u64::MAX);
        for _ in 0..2 {
            ring.push(tasks.next(), |_| unreachable!("there is room"));
        }
        scheduler.share_queue_of(0, UNPARK_NS / 2);
        assert_eq!(woken.load(Relaxed), 0);
        scheduler.share_queue_of(0, UNPARK_NS);
        assert_eq!(woken.load(Relaxed), 1);
        while let Some(task) = ring.pop() {
            task.forget();
        }
        tasks.close();
        scheduler.close();
    }

    #[test]
    fn a_parked_worker_is_unparked_for_the_queue_of_one_that_was_stuck() {
        let woken = Arc::new(AtomicUsize::new(0));
        let scheduler = Scheduler::new(Config::new(2), Box::new(CountInterrupts(woken.clone())));
        assert!(scheduler.idle.claim(0), "it runs");
        let tasks = Tasks::new();
        let shared = &scheduler.shared[0];
        for _ in 0..3 {
            shared
                .ring
                .push(tasks.next(), |_| unreachable!("there is room"));
        }
        scheduler.expose_queue_of(0);
        assert!(shared.ring.is_empty());
        assert_eq!(scheduler.inject.len(), 3);
        assert_eq!(woken.load(Relaxed), 1);
        scheduler
            .inject
            .close()
            .into_iter()
            .for_each(Runnable::forget);
        tasks.close();
        scheduler.close();
    }
}
