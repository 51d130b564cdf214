//! Many workers, their queues, and the tasks that belong to them.
//!
//! Shutdown, in order:
//!
//! X1. The queue for tasks from outside and the lists of live tasks close: what
//!     was queued is cancelled, what is woken or spawned from now on is
//!     forgotten or refused.
//! X2. Each worker, when it notices, cancels what is in its own queue and every
//!     task that waits to be woken, and leaves.
//! X3. The last one out finds nobody running and every queue empty, so that no
//!     runnable is left: it cancels whatever is still alive.
//!
//! A worker that is stuck in a poll delays only the tasks in its own queue, and
//! those woken after X1; with a deadline, the caller does not wait for it, and
//! X3 happens when it comes back.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use blitzen_observe::{Stats, WorkerCounters};
use blitzen_task::glue::id_number;
use blitzen_task::{Header, Id, JoinHandle, Runnable, Schedule, SpawnMeta};
use blitzen_util::pad::Padded;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use blitzen_util::shim::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use blitzen_util::shim::{Condvar, Mutex};
use blitzen_util::thread_shard::thread_shard;

use crate::current;
use crate::handoff::{Epoch, Handoff};
use crate::idle::Idle;
use crate::inject::Inject;
use crate::lifo::Lifo;
use crate::monitor::{Monitor, MonitorState, Progress};
use crate::ring::Ring;
use crate::task_shard::TaskShard;
use crate::worker::{WAKE_NS, Worker};
use crate::world::World;

/// How many task_shards a worker has, or a shard, and how many tasks in a row it spawns
/// into the same one: about as many as a thief takes.
#[cfg(not(blitzen_loom))]
const SHARDS_PER_WORKER: usize = 8;
#[cfg(blitzen_loom)]
const SHARDS_PER_WORKER: usize = 1;
const SPAWNS_PER_SHARD: usize = 64;

/// How a scheduler is to work.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Workers, at least one.
    pub workers: usize,
    /// Polls between two looks at the injection queue; adapts if not given.
    pub inject_interval: Option<u32>,
    /// Polls between two looks at the drivers; adapts if not given.
    pub event_interval: Option<u32>,
    /// Whether the newest task runs first.
    pub lifo: bool,
    /// The longest sleep of a worker that has nothing to do; no limit if not given.
    pub park_timeout: Option<Duration>,
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
        }
    }
}

/// The part of a worker that others see.
pub(crate) struct WorkerShared {
    pub(crate) ring: Ring,
    pub(crate) lifo: Lifo,
    /// Changes with every poll: a worker whose tick stands still is stuck in one.
    pub(crate) tick: AtomicU32,
    pub(crate) counters: WorkerCounters,
    /// The worker itself, while its thread is on an errand.
    handoff: Handoff<Worker>,
}

/// A work-stealing scheduler.
pub struct Scheduler {
    world: Box<dyn World>,
    pub(crate) config: Config,
    pub(crate) shared: Box<[Padded<WorkerShared>]>,
    pub(crate) inject: Inject,
    pub(crate) idle: Idle,
    pub(crate) monitor: MonitorState,
    /// Some for each worker, then some for each shard.
    task_shards: Box<[Padded<TaskShard>]>,
    closed: AtomicBool,
    /// Whoever blocks on it runs its worker, which can go nowhere else.
    is_current_thread: bool,
    /// Whether the workers have threads, or need none.
    started: AtomicBool,
    start: Mutex<()>,
    /// Workers that have not left, and the one who starts or closes them.
    present: AtomicUsize,
    stopped: Mutex<bool>,
    on_stopped: Condvar,
}

impl Scheduler {
    /// A scheduler whose workers have no threads yet: they get them with the
    /// first task.
    ///
    /// # Panics
    /// If there are no workers.
    #[track_caller]
    pub fn new(config: Config, world: Box<dyn World>) -> Arc<Self> {
        Self::build(config, world, false)
    }

    /// A scheduler with one worker, which whoever blocks on it runs.
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
    fn build(config: Config, world: Box<dyn World>, started: bool) -> Arc<Self> {
        assert!(config.workers > 0, "a scheduler needs at least one worker");
        let workers = config.workers;
        let inject = Inject::new(workers);
        let task_shards = (workers + inject.shards()) * SHARDS_PER_WORKER;
        let shared = |_| {
            Padded(WorkerShared {
                ring: Ring::new(),
                lifo: Lifo::new(),
                tick: AtomicU32::new(0),
                counters: WorkerCounters::default(),
                handoff: Handoff::new(),
            })
        };
        let scheduler = Arc::new(Self {
            world,
            shared: (0..workers).map(shared).collect(),
            inject,
            idle: Idle::new(workers),
            monitor: MonitorState::new(workers),
            task_shards: (0..task_shards).map(|_| Padded(TaskShard::new())).collect(),
            closed: AtomicBool::new(false),
            is_current_thread: started,
            started: AtomicBool::new(started),
            start: Mutex::new(()),
            present: AtomicUsize::new(1),
            stopped: Mutex::new(false),
            on_stopped: Condvar::new(),
            config,
        });
        for shared in &scheduler.shared {
            // Born asleep: waking it the first time is giving it a thread.
            shared.counters.park_events.bump();
        }
        for task_shard in &scheduler.task_shards {
            // SAFETY: new, and once for each.
            unsafe { task_shard.adopt(scheduler.clone()) };
        }
        scheduler
    }

    /// The outside world.
    pub fn world(&self) -> &dyn World {
        &*self.world
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.shared.len()
    }

    /// Which of its workers the calling thread is, if it is one of them.
    pub fn current_worker(self: &Arc<Self>) -> Option<usize> {
        current::with_worker_of(self, |worker| worker.map(Worker::index))
    }

    /// Makes a task of a future and queues it. After the shutdown the second
    /// half is a runnable that was refused: dropping it drops the future.
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
    /// Unless the future is `Send`, the scheduler is one
    /// [with a seat](Self::new_current_thread), which is taken and closed only on the
    /// thread that calls this. Unless the output is `Send`, it never leaves
    /// that thread.
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
        current::with_worker_of(self, |worker| {
            let index = worker.map_or_else(|| self.workers() + self.inject_shard(), Worker::index);
            let task_shard = self.task_shard_of(index, id);
            let Some(reference) = task_shard.reference() else {
                return refuse(future, id, meta);
            };
            // SAFETY: handed on; the workers run every task of the scheduler.
            let (task, handle) =
                unsafe { blitzen_task::spawn_unchecked(future, reference, id, meta) };
            // SAFETY: new, and its scheduler, the reference, removes it.
            if unsafe { task_shard.owned.insert(&task) }.is_err() {
                return (handle, Some(task));
            }
            match worker {
                Some(worker) => worker.push_spawned(task),
                None => {
                    task_shard.submitted.add_shared(1);
                    self.ensure_started();
                    self.push_outside(index - self.workers(), task);
                }
            }
            (handle, None)
        })
    }

    /// Where a task lives that a worker or a shard has spawned: together with
    /// its neighbours, but not with all of them, so that who spawns and those
    /// who run what was spawned before need not share a lock.
    #[inline]
    fn task_shard_of(&self, index: usize, id: Id) -> &TaskShard {
        let turn = id_number(id) as usize / SPAWNS_PER_SHARD;
        &self.task_shards[index * SHARDS_PER_WORKER + turn % SHARDS_PER_WORKER]
    }

    fn inject_shard(&self) -> usize {
        thread_shard() & (self.inject.shards() - 1)
    }

    /// Queues a task that was woken or cancelled.
    #[inline]
    pub(crate) fn schedule(self: &Arc<Self>, task: Runnable) {
        current::with_worker_of(self, |worker| match worker {
            Some(worker) => worker.push_woken(task),
            None => self.push_outside(self.inject_shard(), task),
        });
    }

    fn push_outside(&self, shard: usize, task: Runnable) {
        let task_shard = &self.task_shards[(self.workers() + shard) * SHARDS_PER_WORKER];
        task_shard.scheduled.add_shared(1);
        self.inject.push(shard, task);
        self.notify();
    }

    /// Wakes a worker for work that any of them can find.
    pub(crate) fn notify(&self) {
        if let Some(worker) = self.idle.worker_to_notify() {
            self.world.interrupt(worker);
        }
    }

    /// Wakes a sleeper for what waits in a worker's queue if that takes longer than
    /// a sleeper takes to come, at `run_ns` a task.
    pub(crate) fn share_queue_of(&self, worker: usize, run_ns: u64) {
        let waiting = self.shared[worker].ring.len();
        if run_ns.saturating_mul(waiting.into()) > WAKE_NS {
            self.notify();
        }
    }

    /// Whether there is work that a thief could take.
    pub(crate) fn has_work(&self) -> bool {
        !self.inject.is_empty() || self.shared.iter().any(|shared| !shared.ring.is_empty())
    }

    /// Whether a worker could be stuck while others sleep, or is on an errand.
    pub(crate) fn needs_watching(&self) -> bool {
        self.idle.is_mixed()
            || self
                .shared
                .iter()
                .any(|shared| shared.handoff.epoch().is_some())
    }

    /// Changes with every poll of a worker; `None` while it sleeps.
    pub(crate) fn progress_of_running(&self, worker: usize) -> Option<Progress> {
        let runs = !self.idle.is_parked(worker);
        let shared = &self.shared[worker];
        runs.then(|| Progress {
            tick: shared.tick.load(Relaxed),
            errand: shared.handoff.epoch(),
        })
    }

    /// Does something that should be short, and may turn out to be long, on the
    /// thread of a worker: in that case another thread goes on with the worker,
    /// and only the task waits that the thread is at.
    ///
    /// # Errors
    /// The code, unless the calling thread is one of the workers, and somebody
    /// looks after them.
    pub fn blocking_section<R, F: FnOnce() -> R>(
        self: &Arc<Self>,
        code: F,
    ) -> Result<(R, SectionEnd), F> {
        let Some(out) = Out::go(self) else {
            return Err(code);
        };
        let output = code();
        Ok((output, out.come_back()))
    }

    /// A worker that is alone needs no monitor before its first errand.
    #[cold]
    fn start_first_monitor(self: &Arc<Self>) {
        if self.workers() == 1 && !self.is_current_thread && self.monitor.spawn_thread() {
            // Without one, there are no errands.
            let _ = self.world.start_monitor(Monitor::new(self.clone()));
        }
    }

    /// Sends another thread to a worker whose own is on a long errand.
    pub(crate) fn relieve(self: &Arc<Self>, worker: usize, errand: Option<Epoch>) {
        if let Some(errand) = errand {
            let scheduler = self.clone();
            self.world.relieve(Relief {
                scheduler,
                worker,
                errand,
            });
        }
    }

    /// Whether the shutdown has begun.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Acquire)
    }

    /// Gives the workers threads, unless they have them.
    ///
    /// # Panics
    /// If the system refuses even the first thread.
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

    /// Gives the workers threads, unless they have them. It is enough that the
    /// system grants one.
    pub fn start(self: &Arc<Self>) -> io::Result<()> {
        let guard = self.start.lock();
        if self.started.load(Relaxed) || self.is_closed() {
            return Ok(());
        }
        let mut threads = 0;
        for index in 0..self.workers() {
            self.join();
            let Err(error) = self.world.start(Worker::new(self.clone(), index)) else {
                threads += 1;
                continue;
            };
            // Those that have none are not there to be woken.
            self.present.fetch_sub(1, Relaxed);
            if index == 0 {
                return Err(error);
            }
            for missing in index..self.workers() {
                self.idle.claim(missing);
            }
            break;
        }
        if !(threads == self.workers() && self.start_monitor()) {
            self.monitor.do_without();
            // Those that sleep already do so without an end.
            (0..threads).for_each(|worker| self.world.interrupt(worker));
        }
        // Release, met by the Acquire in `ensure_started`.
        self.started.store(true, Release);
        drop(guard);
        Ok(())
    }

    /// Starts the monitor, unless there is nobody to monitor; false if the system
    /// gives no thread for it.
    fn start_monitor(self: &Arc<Self>) -> bool {
        self.workers() == 1 || {
            let monitor = Monitor::new(self.clone());
            self.world.start_monitor(monitor).is_ok()
        }
    }

    /// Starts the shutdown; [`wait_stopped`](Self::wait_stopped) tells its end.
    /// Futures are dropped here and on the workers.
    pub fn close(&self) {
        let guard = self.start.lock(); // whoever starts workers does so before
        // Release, met by the Acquire in `is_closed`.
        if self.closed.swap(true, AcqRel) {
            return;
        }
        drop(guard);
        let queued = self.inject.close(); // X1
        for task_shard in &self.task_shards {
            task_shard.owned.close();
        }
        for worker in 0..self.workers() {
            self.idle.claim(worker);
            self.world.interrupt(worker);
        }
        self.monitor.call();
        drop(queued); // which cancels them
        self.leave();
    }

    /// One more that has to leave before the shutdown is over.
    pub(crate) fn join(&self) {
        // Relaxed: the caller is present itself.
        self.present.fetch_add(1, Relaxed);
    }

    /// A worker, or the one that closed, has left (X3).
    pub(crate) fn leave(&self) {
        // AcqRel, met by the others' own: the last sees every queue as they
        // left it.
        if self.present.fetch_sub(1, AcqRel) != 1 {
            return;
        }
        for task_shard in &self.task_shards {
            // SAFETY: queues are closed or empty and nobody runs a task (X3);
            // all futures are `Send`.
            unsafe { task_shard.owned.cancel_all() };
        }
        *self.stopped.lock() = true;
        self.on_stopped.notify_all();
        for task_shard in &self.task_shards {
            task_shard.retire();
        }
    }

    /// Drops the futures of tasks that wait to be woken (X2).
    pub(crate) fn cancel_idle(&self) {
        for task_shard in &self.task_shards {
            // SAFETY: all futures are `Send`.
            unsafe { task_shard.owned.cancel_idle() };
        }
    }

    /// Waits for the end of the shutdown; false if `timeout` passes first.
    pub fn wait_stopped(&self, timeout: Option<Duration>) -> bool {
        let mut stopped = self.stopped.lock();
        let deadline = timeout.map(|timeout| std::time::Instant::now().checked_add(timeout));
        while !*stopped {
            let left = match deadline {
                // Without a deadline, or with one beyond what the clock can say.
                None | Some(None) => None,
                Some(Some(end)) => {
                    let left = end.saturating_duration_since(std::time::Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    Some(left)
                }
            };
            stopped = match left {
                None => self.on_stopped.wait(stopped),
                Some(left) => self.on_stopped.wait_timeout(stopped, left).0,
            };
        }
        true
    }

    /// Shows every live task.
    pub fn for_each_task(&self, mut visit: impl FnMut(&Header)) {
        for task_shard in &self.task_shards {
            task_shard.owned.for_each(&mut visit);
        }
    }

    /// How many tasks are not complete.
    pub fn alive_tasks(&self) -> usize {
        self.task_shards
            .iter()
            .map(|task_shard| task_shard.owned.len())
            .sum()
    }

    /// How many tasks wait in the injection queue.
    pub fn global_queue_depth(&self) -> usize {
        self.inject.len()
    }

    /// How many tasks wait in a worker's own queue.
    pub fn local_queue_depth(&self, worker: usize) -> usize {
        let shared = &self.shared[worker];
        shared.ring.len() as usize + usize::from(shared.lifo.peek().is_some())
    }

    /// The counters of one worker.
    pub fn counters(&self, worker: usize) -> &WorkerCounters {
        &self.shared[worker].counters
    }

    /// What has happened so far.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        stats.workers = self
            .shared
            .iter()
            .map(|shared| shared.counters.read())
            .collect();
        stats.remote_submitted = self
            .task_shards
            .iter()
            .map(|task_shard| task_shard.submitted.get())
            .sum();
        stats.remote_schedules = self
            .task_shards
            .iter()
            .map(|task_shard| task_shard.scheduled.get())
            .sum();
        stats.monitor_rescues = self.monitor.rescues.get();
        stats.alive_tasks = self.alive_tasks();
        stats.global_queue_depth = self.global_queue_depth();
        stats
    }
}

/// How an errand ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionEnd {
    /// The thread has its worker again.
    Kept,
    /// The worker goes on elsewhere, as after [`hand_over`](crate::hand_over).
    HandedOff,
}

/// A thread that is on an errand, without its worker.
struct Out<'a> {
    handoff: &'a Handoff<Worker>,
    worker: *mut Worker,
    errand: Epoch,
}

impl<'a> Out<'a> {
    fn go(scheduler: &'a Arc<Scheduler>) -> Option<Self> {
        if !scheduler.monitor.is_manned() {
            scheduler.start_first_monitor();
            return None;
        }
        let (index, errand) = current::with_worker_of(scheduler, |worker| {
            let worker = worker?;
            Some((worker.index(), worker.next_epoch()?))
        })?;
        let worker = Box::into_raw(current::remove()?);
        let handoff = &scheduler.shared[index].handoff;
        handoff.leave(worker, errand);
        scheduler.monitor.changed(|| true);
        Some(Self {
            handoff,
            worker,
            errand,
        })
    }

    fn come_back(self) -> SectionEnd {
        let errand = self.take_back();
        std::mem::forget(self);
        errand
    }

    fn take_back(&self) -> SectionEnd {
        match self.handoff.take_back(self.errand) {
            true => {
                // SAFETY: from a box, and this thread's own again (N2).
                current::install(unsafe { Box::from_raw(self.worker) });
                SectionEnd::Kept
            }
            false => SectionEnd::HandedOff,
        }
    }
}

impl Drop for Out<'_> {
    /// The code has panicked.
    fn drop(&mut self) {
        let _short_or_long = self.take_back();
    }
}

/// A worker whose thread is on an errand.
pub struct Relief {
    scheduler: Arc<Scheduler>,
    worker: usize,
    errand: Epoch,
}

impl Relief {
    /// The worker, unless its thread is back; the caller runs it.
    pub fn fill(self) -> Option<Worker> {
        let scheduler = &self.scheduler;
        // The thread leaves on its own, as after `hand_over`. It is present while
        // its worker is, which nobody else can end now.
        let count = || scheduler.join();
        let worker = scheduler.shared[self.worker]
            .handoff
            .claim(self.errand, count)?;
        // SAFETY: from a box, and the caller's by N2.
        Some(*unsafe { Box::from_raw(worker) })
    }
}

/// The task_shard of a task that comes too late for any.
struct Nowhere;

impl Schedule for Nowhere {
    fn schedule(&self, task: Runnable) {
        drop(task);
    }

    fn release(&self, _: &Header) {}
}

/// A new task's handle and, if the scheduler has closed, the task itself.
pub type Spawned<T> = (JoinHandle<T>, Option<Runnable>);

/// A task that never begins.
#[cold]
fn refuse<F>(future: F, id: Id, meta: SpawnMeta) -> Spawned<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    // SAFETY: the caller drops the runnable where it called from, and no other
    // is ever made.
    let (task, handle) = unsafe { blitzen_task::spawn_unchecked(future, Nowhere, id, meta) };
    (handle, Some(task))
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::testing::Tasks;

    /// Counts how often a worker is woken.
    struct Alarm(Arc<AtomicUsize>);

    impl World for Alarm {
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

        fn start(&self, _: Worker) -> io::Result<()> {
            unreachable!("nothing is spawned")
        }
    }

    #[test]
    fn a_sleeper_is_woken_for_a_queue_that_takes_longer_than_it_takes_to_come() {
        let woken = Arc::new(AtomicUsize::new(0));
        let scheduler = Scheduler::new(Config::new(2), Box::new(Alarm(woken.clone())));
        assert!(scheduler.idle.claim(0), "it runs");
        let tasks = Tasks::new();
        let ring = &scheduler.shared[0].ring;
        scheduler.share_queue_of(0, u64::MAX);
        for _ in 0..2 {
            ring.push(tasks.next(), |_| unreachable!("there is room"));
        }
        scheduler.share_queue_of(0, WAKE_NS / 2);
        assert_eq!(woken.load(Relaxed), 0);
        scheduler.share_queue_of(0, WAKE_NS);
        assert_eq!(woken.load(Relaxed), 1);
        while let Some(task) = ring.pop() {
            task.forget();
        }
        tasks.close();
        scheduler.close();
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::park::Parker;
    use blitzen_util::shim::thread;
    use std::future::{pending, poll_fn};
    use std::sync::Weak;
    use std::sync::atomic::AtomicUsize as PlainUsize;
    use std::task::{Poll, Waker};

    /// Threads of loom, parkers for drivers, and a clock that stands still.
    struct Threads {
        parkers: Vec<Parker>,
        threads: Mutex<Vec<thread::JoinHandle<()>>>,
    }

    struct Loom(Arc<Threads>);

    impl World for Loom {
        fn turn(&self, worker: usize, max_wait: Option<Duration>) {
            if max_wait.is_none() {
                self.0.parkers[worker].park();
            }
        }
        fn serve(&self, _: usize) {}
        fn interrupt(&self, worker: usize) {
            self.0.parkers[worker].unpark();
        }
        fn now_ns(&self) -> u64 {
            0
        }
        fn seed(&self, _: usize) -> u64 {
            0
        }
        fn start(&self, worker: Worker) -> io::Result<()> {
            let thread = thread::spawn(move || worker.run());
            self.0.threads.lock().push(thread);
            Ok(())
        }
    }

    struct Dropped(Arc<PlainUsize>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// Starts a scheduler of one worker, lets `test` use it, closes it, and
    /// checks that nothing is left.
    fn check(
        test: impl Fn(&Arc<Scheduler>, Dropped) -> Option<thread::JoinHandle<()>>
        + Send
        + Sync
        + 'static,
    ) {
        loom::model(move || {
            let threads = Arc::new(Threads {
                parkers: vec![Parker::new()],
                threads: Mutex::new(Vec::new()),
            });
            let world = Box::new(Loom(threads.clone()));
            let scheduler = Scheduler::new(Config::new(1), world);
            let drops = Arc::new(PlainUsize::new(0));
            let other = test(&scheduler, Dropped(drops.clone()));
            scheduler.close();
            other.map(|other| other.join().unwrap());
            // A spawn that came before the close may have started the worker.
            let threads = std::mem::take(&mut *threads.threads.lock());
            for thread in threads {
                thread.join().unwrap();
            }
            assert!(scheduler.wait_stopped(None));
            assert_eq!(drops.load(Relaxed), 1, "the future was dropped once");
            assert_eq!(scheduler.alive_tasks(), 0);
            let gone: Weak<Scheduler> = Arc::downgrade(&scheduler);
            drop(scheduler);
            assert_eq!(gone.strong_count(), 0, "nothing holds the scheduler");
        });
    }

    fn spawn(scheduler: &Arc<Scheduler>, future: impl Future<Output = ()> + Send + 'static) {
        drop(scheduler.spawn(future, blitzen_task::glue::next_id(), SpawnMeta::caller()));
    }

    #[test]
    fn closing_against_the_first_poll_drops_the_future_once() {
        check(|scheduler, held| {
            spawn(scheduler, async move {
                let _held = held;
                pending::<()>().await
            });
            None
        });
    }

    #[test]
    fn closing_against_a_task_that_spawns_drops_the_child_once() {
        check(|scheduler, held| {
            spawn(scheduler, {
                let scheduler = scheduler.clone();
                async move {
                    spawn(&scheduler, async move {
                        let _held = held;
                        pending::<()>().await
                    });
                }
            });
            None
        });
    }

    #[test]
    fn closing_against_a_wake_from_outside_drops_the_future_once() {
        check(|scheduler, held| {
            let slot = Arc::new(Mutex::new(None::<Waker>));
            spawn(scheduler, {
                let slot = slot.clone();
                async move {
                    let _held = held;
                    poll_fn::<(), _>(|cx| {
                        *slot.lock() = Some(cx.waker().clone());
                        Poll::Pending
                    })
                    .await
                }
            });
            Some(thread::spawn(move || {
                let waker = slot.lock().take();
                if let Some(waker) = waker {
                    waker.wake();
                }
            }))
        });
    }

    #[test]
    fn closing_against_a_spawn_runs_or_refuses_it() {
        check(|scheduler, held| {
            let scheduler = scheduler.clone();
            Some(thread::spawn(move || {
                spawn(&scheduler, async move {
                    let _held = held;
                });
            }))
        });
    }
}
