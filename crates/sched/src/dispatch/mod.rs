//! Dispatchers: what resumes a task whose route is not the default one.
//!
//! ```text
//!                 route 0                 a worker's ring, the injection queue
//!   wake, abort ─┤
//!                 any other: the table ─► DispatcherCore ─┬─ runners on another dispatcher
//!                                                         ├─ … or in blocking sections
//!                                                         ├─ a scheduler of its own
//!                                                         ├─ a foreign executor
//!                                                         └─ a group with shares
//! ```
//!
//! D1. A task that was dispatched is in a queue that [`Scheduler::close`] closes and
//!     empties, or a thread has taken it out that the shutdown counts until it has polled the
//!     task. So when the last thread leaves, no runnable is left (X3).
//! D2. A closed dispatcher hands what it has, and what still comes, to the scheduler's own
//!     queues, which forget it after the shutdown.
//! D3. A runner has at most [`POLLS_PER_TURN`] polls in a row, and [`TURN_NS`]: it is one
//!     task among others where it runs.

mod groups;
mod parked_runners;
mod permits;
mod queue_delay;
mod route_table;
mod runner;
mod runner_queue;
mod shares;

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use blitzen_task::context::TaskContext;
use blitzen_task::{
    AbortHandle, Header, Id, JoinHandle, Payload, Route, RunOutcome, Runnable, Schedule, SpawnMeta,
};
use blitzen_util::backoff::Backoff;
use blitzen_util::coop::{self, Budget};
use blitzen_util::quiet::quietly;
use blitzen_util::shim::atomic::Ordering::Relaxed;
use blitzen_util::shim::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use blitzen_util::thread_local_const;
use blitzen_util::wake_cause::{self, WakeCause};

use crate::blocking_section::SectionEnd;
use crate::context_depth::context_depth;
use crate::current;
use crate::observation::ObservedSet;
use crate::scheduler::{Scheduler, Spawned, refuse};
use crate::shutdown::Present;
use crate::task_shard::{TaskShard, TaskShardRef};
use crate::thread_mark::ThreadMark;
use crate::world::TaskInfo;

use groups::GroupId;
pub(crate) use groups::GroupSet;
pub(crate) use permits::suspend_permits;
use permits::{PermitOf, poll_with};
pub use route_table::RouteError;
pub(crate) use route_table::RouteTable;
pub use runner::PollJob;
use runner::PoolRunner;
use runner::{GroupRunner, Runner};
use runner_queue::{Demand, RunnerQueue};
pub use shares::Shares;

/// The most polls of a runner in a row (D3).
const POLLS_PER_TURN: u32 = 16;
/// The longest turn of a runner, unless a single poll takes longer (D3).
const TURN_NS: u64 = 100_000;
/// One turn in so many is timed, for the busy time.
const TIMED_TURNS: u64 = 16;
/// The deepest nesting of tasks that are polled by the thread that wakes or spawns them.
const MAX_NESTED: u32 = 8;
/// A poll that takes longer blocks its worker's thread for too long.
const LONG_POLL_NS: u64 = 150_000;

/// What a foreign executor does with a job.
pub type ForeignExecutor = Box<dyn Fn(PollJob) + Send + Sync>;

/// A dispatcher, as the scheduler of its runtime sees it.
pub struct DispatcherCore {
    route: Route,
    name: Option<String>,
    /// The scheduler whose tasks it polls.
    scheduler: Arc<Scheduler>,
    /// What a task may do in one poll; that of the scheduler if not given.
    budget: Option<Budget>,
    target: Target,
    /// Its tasks go to the scheduler's own queues.
    closed: AtomicBool,
    submitted: AtomicU64,
    completed: AtomicU64,
    turns: AtomicU64,
    busy_ns: AtomicU64,
}

/// The queue of a dispatcher.
type CoreQueue = RunnerQueue<Arc<DispatcherCore>>;

/// Where its tasks are polled.
enum Target {
    /// By a limited number of runner tasks on another dispatcher, or on the scheduler.
    Runners {
        queue: CoreQueue,
        base: Option<Arc<DispatcherCore>>,
    },
    /// By a limited number of threads that may block.
    Elastic {
        queue: CoreQueue,
        /// Skips polls on a worker's own thread after long ones.
        backoff: Backoff<1024>,
        /// Runner tasks: those on threads of the pool are not counted.
        in_place: AtomicUsize,
    },
    /// By threads of its own.
    Threads(Arc<Scheduler>),
    /// By the threads of another executor.
    Foreign {
        queue: CoreQueue,
        execute: ForeignExecutor,
    },
    /// By runner tasks that all groups of the scheduler share.
    Group(GroupId),
}

/// The metrics of a dispatcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DispatcherStats {
    /// Tasks that were spawned on it.
    pub submitted: u64,
    /// Tasks that were spawned on it and have ended.
    pub completed: u64,
    /// Polls.
    pub polls: u64,
    /// Tasks that wait for a poll.
    pub queued: usize,
    /// Tasks that are being polled.
    pub running: usize,
    /// How long its polls have taken together, without those in place.
    pub busy_ns: u64,
    /// How long its tasks wait for a poll, on average, if that is measured.
    pub queue_delay_ns: Option<u64>,
}

thread_local_const! {
    /// How many polls are nested on this thread, in jobs and inline.
    static NESTED: Cell<u32> = Cell::new(0);
}

impl DispatcherCore {
    fn register(
        scheduler: &Arc<Scheduler>,
        name: Option<String>,
        budget: Option<Budget>,
        target: Target,
    ) -> Result<Arc<Self>, RouteError> {
        scheduler.routes.register(|route| {
            Arc::new(Self {
                route,
                name,
                scheduler: scheduler.clone(),
                budget,
                target,
                closed: AtomicBool::new(false),
                submitted: AtomicU64::new(0),
                completed: AtomicU64::new(0),
                turns: AtomicU64::new(0),
                busy_ns: AtomicU64::new(0),
            })
        })
    }

    /// Creates a view with at most `limit` tasks at a time of `base`, or of the scheduler's
    /// own queues.
    pub fn limited(
        scheduler: &Arc<Scheduler>,
        base: Option<&Arc<Self>>,
        limit: usize,
        name: Option<String>,
        budget: Option<Budget>,
    ) -> Result<Arc<Self>, RouteError> {
        let queue = RunnerQueue::new(limit);
        let target = match base.map(|base| &base.target) {
            // A view of what is behind it: its limit is not that of the other one.
            Some(Target::Elastic { .. }) => Target::Elastic {
                queue,
                backoff: Backoff::new(),
                in_place: AtomicUsize::new(0),
            },
            _ => Target::Runners {
                queue,
                base: base.cloned(),
            },
        };
        Self::register(scheduler, name, budget, target)
    }

    /// Creates a dispatcher for at most `limit` tasks at a time that may block their thread.
    pub fn elastic(
        scheduler: &Arc<Scheduler>,
        name: &str,
        limit: usize,
    ) -> Result<Arc<Self>, RouteError> {
        let target = Target::Elastic {
            queue: RunnerQueue::new(limit),
            backoff: Backoff::new(),
            in_place: AtomicUsize::new(0),
        };
        Self::register(scheduler, Some(name.to_owned()), None, target)
    }

    /// Creates a dispatcher whose tasks are polled by the workers of another scheduler,
    /// which has no tasks of its own.
    pub fn threads(
        scheduler: &Arc<Scheduler>,
        name: Option<String>,
        workers: Arc<Scheduler>,
    ) -> Result<Arc<Self>, RouteError> {
        Self::register(scheduler, name, None, Target::Threads(workers))
    }

    /// Creates a dispatcher that hands its tasks to another executor.
    pub fn foreign(
        scheduler: &Arc<Scheduler>,
        execute: ForeignExecutor,
    ) -> Result<Arc<Self>, RouteError> {
        let target = Target::Foreign {
            queue: RunnerQueue::new(usize::MAX),
            execute,
        };
        Self::register(scheduler, None, None, target)
    }

    /// Creates a group whose tasks get processor time in proportion to its shares.
    pub fn group(
        scheduler: &Arc<Scheduler>,
        name: Option<String>,
        shares: Shares,
        budget: Option<Budget>,
    ) -> Result<Arc<Self>, RouteError> {
        let group = scheduler.groups.add(shares, budget);
        let target = Target::Group(group);
        let core = Self::register(scheduler, name, budget, target);
        if core.is_err() {
            scheduler.groups.remove(group);
        }
        core
    }

    /// The route of its tasks.
    pub fn route(&self) -> Route {
        self.route
    }

    /// The address of the scheduler whose tasks it polls.
    pub fn owner(&self) -> *const () {
        Arc::as_ptr(&self.scheduler).cast()
    }

    /// Its name, if it was given one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Returns its metrics.
    pub fn stats(&self) -> DispatcherStats {
        let mut stats = DispatcherStats {
            submitted: self.submitted.load(Relaxed),
            completed: self.completed.load(Relaxed),
            busy_ns: self.busy_ns.load(Relaxed),
            ..DispatcherStats::default()
        };
        let counts = match &self.target {
            Target::Runners { queue, .. }
            | Target::Elastic { queue, .. }
            | Target::Foreign { queue, .. } => queue.counts(),
            Target::Group(group) => {
                let (counts, busy_ns) = self.scheduler.groups.counts(*group);
                stats.busy_ns = busy_ns;
                counts
            }
            Target::Threads(workers) => {
                let counted = workers.stats();
                stats.polls = counted.workers.iter().map(|worker| worker.polls).sum();
                stats.busy_ns = counted.workers.iter().map(|worker| worker.busy_ns).sum();
                let rings = (0..workers.workers()).map(|worker| workers.ring_depth(worker));
                stats.queued = counted.global_queue_depth + rings.sum::<usize>();
                stats.running = workers.idle.running();
                return stats;
            }
        };
        stats.polls = counts.polls;
        stats.queued = counts.queued;
        stats.running = counts.running;
        stats.queue_delay_ns = counts.delay_ns;
        stats
    }

    /// Queues a task whose route is this one's, and that is `own` if it was spawned here: then it
    /// keeps the dispatcher alive.
    pub(crate) fn dispatch(self: &Arc<Self>, task: Runnable, is_own: bool) {
        // Relaxed: a task that comes at the same time may be on either side.
        if self.is_closed() {
            return self.scheduler.schedule(task); // D2
        }
        let pushed = match &self.target {
            Target::Threads(workers) => return workers.schedule(task),
            Target::Group(group) => return self.scheduler.push_to_group(*group, task),
            Target::Runners { queue, .. }
            | Target::Elastic { queue, .. }
            | Target::Foreign { queue, .. } => {
                let keep = || (!is_own).then(|| self.clone()); // Q4
                queue.push(task, keep, || self.scheduler.world().now_ns())
            }
        };
        match pushed {
            Ok(demand) => self.satisfy(demand),
            Err(task) => self.scheduler.schedule(task), // D2
        }
    }

    /// Starts or wakes the runner that the queue asks for.
    fn satisfy(self: &Arc<Self>, demand: Demand) {
        match demand {
            Demand::Nothing => {}
            Demand::Wake(waker) => waker.wake(),
            Demand::Start => self.start_runner(),
        }
    }

    #[cold]
    fn start_runner(self: &Arc<Self>) {
        let scheduler = &self.scheduler;
        match &self.target {
            Target::Runners { base, .. } => {
                scheduler.spawn_runner(base.as_ref(), Runner::new(self));
            }
            Target::Elastic {
                backoff, in_place, ..
            } => {
                // While the workers' own threads may all be blocked, others go on at once.
                let is_free = in_place.load(Relaxed) < scheduler.workers();
                match scheduler.has_threads() && is_free && backoff.begin_attempt() {
                    true => scheduler.spawn_runner(None, Runner::new(self)),
                    false => scheduler.world().run_on_pool(PoolRunner::job(self)),
                }
            }
            Target::Foreign { execute, .. } => {
                let job = PollJob::new(self);
                // Dropped with the panic, the job hands its task back.
                quietly(|| execute(job));
            }
            Target::Threads(_) | Target::Group(_) => unreachable!("it has no queue of its own"),
        }
    }

    fn queue(&self) -> Option<&CoreQueue> {
        match &self.target {
            Target::Runners { queue, .. }
            | Target::Elastic { queue, .. }
            | Target::Foreign { queue, .. } => Some(queue),
            Target::Threads(_) | Target::Group(_) => None,
        }
    }

    /// Polls a task that a runner has taken out, with the budget of the dispatcher.
    fn poll(self: &Arc<Self>, task: Runnable) -> RunOutcome {
        poll_with(PermitOf::Dispatcher(self), || {
            self.scheduler.poll_routed(task, self.budget)
        })
    }

    /// Queues a task again if its poll has ended so that it is to be polled again.
    fn requeue(self: &Arc<Self>, outcome: RunOutcome) {
        match outcome {
            RunOutcome::Woken(task) | RunOutcome::Yielded(task) => {
                let is_own = blitzen_task::glue::own_route(task.header()) == self.route;
                self.dispatch(task, is_own);
            }
            RunOutcome::Complete | RunOutcome::Idle(_) => {}
        }
    }

    /// Runs `code` with a permit of its own on the calling thread, which may block there for
    /// long: then another thread goes on with its worker.
    ///
    /// # Errors
    /// Returns `code` if the dispatcher is not for blocking code, no permit is free, the calling
    /// thread is not polling a task for a worker, or its last polls were long.
    pub fn run_in_place<R, F: FnOnce() -> R>(self: &Arc<Self>, code: F) -> Result<R, F> {
        let Target::Elastic { queue, backoff, .. } = &self.target else {
            return Err(code);
        };
        if self.is_closed() || !backoff.begin_attempt() || !queue.try_enter() {
            return Err(code);
        }
        let permit = InPlaceGuard { core: self, queue };
        // So that code that blocks inside gives the permit back meanwhile.
        let run = || self.scheduler.blocking_section(code);
        let section = poll_with(PermitOf::Dispatcher(self), run);
        drop(permit);
        let (output, end) = section?;
        self.note_section(backoff, end);
        Ok(output)
    }

    /// Learns from a poll on a worker's own thread.
    fn note_section(&self, backoff: &Backoff<1024>, end: SectionEnd) {
        match end {
            SectionEnd::Kept => backoff.succeed(),
            SectionEnd::HandedOff => backoff.fail(),
        }
    }

    /// Whether its tasks may block their threads.
    pub fn is_elastic(&self) -> bool {
        matches!(self.target, Target::Elastic { .. })
    }

    /// Closes the dispatcher: cancels the tasks that were spawned on it. They, and those that
    /// visit it, go on in the scheduler's own queues.
    pub fn close(self: &Arc<Self>) {
        if self.closed.swap(true, Relaxed) {
            return;
        }
        // If the scheduler shuts down, that closes the dispatcher too (D1).
        let Some(_present) = self.scheduler.enter_present() else {
            return;
        };
        for task in self.empty() {
            self.scheduler.schedule(task); // D2
        }
        if let Target::Threads(workers) = &self.target {
            workers.close();
        }
        for task in self.scheduler.tasks_of(self.route) {
            task.abort();
        }
    }

    /// Closes the dispatcher, since the scheduler shuts down: cancels what is queued (D1).
    pub(crate) fn shut_down(&self) {
        self.closed.store(true, Relaxed);
        drop(self.empty()); // which cancels them
        if let Target::Threads(workers) = &self.target {
            workers.close();
        }
    }

    /// Closes its queue; returns what is in it.
    fn empty(&self) -> Vec<Runnable> {
        match &self.target {
            Target::Runners { queue, .. }
            | Target::Elastic { queue, .. }
            | Target::Foreign { queue, .. } => {
                let (tasks, runners) = queue.close();
                runners.into_iter().for_each(Waker::wake); // to end
                tasks
            }
            Target::Group(group) => self.scheduler.groups.close(*group),
            Target::Threads(_) => Vec::new(),
        }
    }
}

impl Drop for DispatcherCore {
    /// Nothing refers to it any more. Its queue is empty, since it would keep it alive
    /// otherwise (Q4).
    fn drop(&mut self) {
        match &self.target {
            Target::Threads(workers) => workers.close(),
            Target::Group(group) => {
                // If the scheduler shuts down, it closes all groups (D1).
                if let Some(_present) = self.scheduler.enter_present() {
                    for task in self.scheduler.groups.remove(*group) {
                        self.scheduler.schedule(task); // D2
                    }
                }
            }
            Target::Runners { .. } | Target::Elastic { .. } | Target::Foreign { .. } => {
                let tasks = self.empty();
                debug_assert!(tasks.is_empty(), "Q4");
            }
        }
    }
}

impl fmt::Debug for DispatcherCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DispatcherCore")
            .field("route", &self.route.index())
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Gives the permit of a poll in place back, also if that panics.
struct InPlaceGuard<'a> {
    core: &'a Arc<DispatcherCore>,
    queue: &'a CoreQueue,
}

impl Drop for InPlaceGuard<'_> {
    fn drop(&mut self) {
        self.core.satisfy(self.queue.leave());
    }
}

/// Counts a poll within another one, on the same thread, until it is dropped.
struct Nested;

impl Nested {
    /// `None` if there are too many.
    fn begin() -> Option<Self> {
        NESTED.with(|nested| {
            let depth = nested.get();
            (depth < MAX_NESTED).then(|| {
                nested.set(depth + 1);
                Self
            })
        })
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        NESTED.with(|nested| nested.set(nested.get() - 1));
    }
}

impl Scheduler {
    /// Queues a task on a route that is not the default one.
    #[cold]
    pub(crate) fn dispatch(self: &Arc<Self>, task: Runnable, route: Route) {
        match self.routes.get(route) {
            Some(core) => core.dispatch(task, false),
            None => self.schedule(task), // D2
        }
    }

    /// Makes a task of a future, whose own route is that of a dispatcher of this scheduler,
    /// and queues it. After the shutdown the task is returned instead.
    pub fn spawn_on<F>(
        self: &Arc<Self>,
        core: &Arc<DispatcherCore>,
        future: F,
        id: Id,
        meta: SpawnMeta,
    ) -> Spawned<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        // SAFETY: the scheduler of the task is what it was given.
        unsafe { self.spawn_on_with(core, future, id, meta, |given| given, |_| true) }
    }

    /// Like [`spawn_on`](Self::spawn_on), with a scheduler of the task that `schedule` makes of
    /// the one it would have. The task is queued if `admit` agrees, and otherwise returned.
    ///
    /// # Safety
    /// What `schedule` makes hands on the calls of `schedule`, `dispatch`, `own_route`, `route_owner`,
    /// `release`, `may_poll_here` and `requeue` to what it was given.
    pub unsafe fn spawn_on_with<F, S>(
        self: &Arc<Self>,
        core: &Arc<DispatcherCore>,
        future: F,
        id: Id,
        meta: SpawnMeta,
        schedule: impl FnOnce(DispatchedRef) -> S,
        admit: impl FnOnce(&Runnable) -> bool,
    ) -> Spawned<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
        S: Schedule,
    {
        assert!(Arc::ptr_eq(self, &core.scheduler), "one of its dispatchers");
        let task_shard = self.outside_shard(id);
        let dispatched = |shard| {
            let core = core.clone();
            schedule(DispatchedRef { shard, core })
        };
        // SAFETY: as the caller guarantees; a dispatched task's scheduler hands these calls on.
        let made = unsafe { make_task(task_shard, future, id, meta, dispatched, admit) };
        let (handle, task) = match made {
            Ok(made) => made,
            Err(refused) => return refused,
        };
        self.ensure_started();
        core.submitted.fetch_add(1, Relaxed);
        self.record_routed(task.header());
        core.dispatch(task, true);
        (handle, None)
    }

    /// Makes a task of a future and polls it at once, on the calling thread, until it waits
    /// for the first time. Then it is a task like any other. Nested too deep, it is only
    /// queued. After the shutdown the task is returned instead.
    pub fn spawn_inline<F>(
        self: &Arc<Self>,
        future: F,
        id: Id,
        meta: SpawnMeta,
    ) -> Spawned<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        // SAFETY: the scheduler of the task is what it was given.
        unsafe { self.spawn_inline_with(future, id, meta, |given| given, |_| true) }
    }

    /// Like [`spawn_inline`](Self::spawn_inline), with a scheduler of the task that `schedule`
    /// makes of its reference to this one. The task is polled if `admit` agrees, and otherwise
    /// returned.
    ///
    /// # Safety
    /// What `schedule` makes hands on the calls of `schedule`, `dispatch`, `own_route`, `route_owner`,
    /// `release`, `may_poll_here` and `requeue` to what it was given.
    pub unsafe fn spawn_inline_with<F, S>(
        self: &Arc<Self>,
        future: F,
        id: Id,
        meta: SpawnMeta,
        schedule: impl FnOnce(TaskShardRef) -> S,
        admit: impl FnOnce(&Runnable) -> bool,
    ) -> Spawned<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
        S: Schedule,
    {
        let Some(_nested) = Nested::begin() else {
            // SAFETY: the future and its output are `Send`; the caller upholds the rest.
            return unsafe { self.spawn_with(future, id, meta, schedule, admit) };
        };
        // Until the task is polled, the shutdown counts this thread (D1).
        let Some(present) = self.enter_present() else {
            return refuse(future, id, meta);
        };
        let task_shard = self.outside_shard(id);
        // SAFETY: as the caller guarantees.
        let made = unsafe { make_task(task_shard, future, id, meta, schedule, admit) };
        let (handle, task) = match made {
            Ok(made) => made,
            Err(refused) => return refused,
        };
        self.ensure_started();
        task_shard.submitted.add_shared(1);
        self.record_routed(task.header());
        let mut poll = Some((task, present));
        self.world().run_inside(&mut || {
            let Some((task, present)) = poll.take() else {
                return;
            };
            match self.poll_routed(task, None) {
                RunOutcome::Woken(task) | RunOutcome::Yielded(task) => self.schedule(task),
                RunOutcome::Complete | RunOutcome::Idle(_) => {}
            }
            drop(present); // inside: the last one that leaves drops futures
        });
        (handle, None)
    }

    /// Starts a task that polls others.
    fn spawn_runner(
        self: &Arc<Self>,
        base: Option<&Arc<DispatcherCore>>,
        runner: impl Future<Output = ()> + Send + 'static,
    ) {
        let id = blitzen_task::glue::next_id();
        let meta = SpawnMeta::caller();
        let (_, refused) = match base {
            None => self.spawn(runner, id, meta),
            // Those of a view go on although its base is closed.
            Some(base) => self.spawn_on(base, blitzen_task::shield(runner), id, meta),
        };
        drop(refused); // after the shutdown there is nothing to poll
    }

    /// Polls a task outside the run loop of a worker, with a budget of its own.
    pub(crate) fn poll_routed(
        self: &Arc<Self>,
        task: Runnable,
        budget: Option<Budget>,
    ) -> RunOutcome {
        let depth = context_depth();
        let budget = budget.unwrap_or(self.config.budget);
        let outcome = match self.observation.switches().is_empty() {
            true => coop::with_budget_of(budget, || task.run_routed()),
            false => self.poll_observed(task, budget),
        };
        if context_depth() != depth {
            // The task has entered a runtime, and not left it.
            self.world().restore_context(depth);
        }
        outcome
    }

    #[cold]
    fn poll_observed(self: &Arc<Self>, task: Runnable, budget: Budget) -> RunOutcome {
        let (world, mut info) = (self.world(), TaskInfo::new(task.header()));
        let switches = self.observation.switches();
        // Also without hooks: nobody else removes what was noted when the task was queued.
        if switches.has(ObservedSet::DELAYS) {
            let now_ns = world.now_ns();
            let delay_ns = self.observation.take_delay_ns(task.header(), now_ns);
            info.schedule_delay = delay_ns.map(Duration::from_nanos);
            delay_ns
                .into_iter()
                .for_each(|delay_ns| self.observation.count_outside_delay(delay_ns));
        }
        let has_hooks = switches.has(ObservedSet::HOOKS);
        if has_hooks {
            world.before_poll(&info);
        }
        let recorded = self.record_routed_start(info.id);
        let run = || coop::with_budget_of(budget, || task.run_routed());
        let outcome = self.observation.time_outside_poll(
            || world.now_ns(),
            // The thread may be one of the blocking pool, or fire a timer.
            || wake_cause::during(WakeCause::Task, run),
        );
        recorded.end(&outcome);
        if has_hooks {
            world.after_poll(&info);
        }
        outcome
    }

    /// Closes every dispatcher, and refuses new ones: the scheduler shuts down.
    pub(crate) fn close_dispatchers(&self) {
        for core in self.routes.close() {
            core.shut_down();
        }
        drop(self.groups.shut_down()); // which cancels them
    }

    /// The live tasks whose own route is `route`.
    fn tasks_of(&self, route: Route) -> Vec<AbortHandle> {
        let mut tasks = Vec::new();
        for task_shard in &self.task_shards {
            task_shard.owned.collect(&mut tasks, |task| {
                blitzen_task::glue::own_route(task) == route
            });
        }
        tasks
    }

    /// Queues a task of a group.
    fn push_to_group(self: &Arc<Self>, group: GroupId, task: Runnable) {
        match self.groups.push(group, task, || self.world().now_ns()) {
            Ok(demand) => self.satisfy_groups(demand),
            Err(task) => self.schedule(task), // D2
        }
    }

    fn satisfy_groups(self: &Arc<Self>, demand: Demand) {
        match demand {
            Demand::Nothing => {}
            Demand::Wake(waker) => waker.wake(),
            Demand::Start => self.spawn_runner(None, GroupRunner::new(self)),
        }
    }

    /// Counts the calling thread until it has polled a task (D1), unless it is counted
    /// already; `None` after the shutdown has begun.
    pub(crate) fn enter_present(self: &Arc<Self>) -> Option<PresentThread> {
        if self.is_counted_here() || self.is_worker_here() {
            return Some(PresentThread::counted_already());
        }
        let present = self.try_join()?;
        Some(PresentThread {
            _mark: Some(self.mark_thread()),
            _present: Some(present),
        })
    }

    /// Whether the calling thread runs one of its workers.
    fn is_worker_here(self: &Arc<Self>) -> bool {
        current::with_worker_of(self, |worker| worker.is_some())
    }
}

/// The handle of a task, and the task to be queued.
type NewTask<T> = (JoinHandle<T>, Runnable);

/// Makes a task that is registered in `task_shard`, if `admit` agrees, and returns it with its
/// handle.
///
/// # Errors
/// Returns what a spawn returns after the shutdown, or that is not admitted.
///
/// # Safety
/// As for [`Scheduler::spawn_on_with`].
unsafe fn make_task<F, S>(
    task_shard: &TaskShard,
    future: F,
    id: Id,
    meta: SpawnMeta,
    schedule: impl FnOnce(TaskShardRef) -> S,
    admit: impl FnOnce(&Runnable) -> bool,
) -> Result<NewTask<F::Output>, Spawned<F::Output>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    S: Schedule,
{
    let Some(reference) = task_shard.reference() else {
        return Err(refuse(future, id, meta));
    };
    let (task, handle) = blitzen_task::spawn(future, schedule(reference), id, meta);
    // SAFETY: new, and its scheduler, through the reference, removes it, as the caller guarantees.
    match admit(&task) && unsafe { task_shard.owned.insert(&task) }.is_ok() {
        true => Ok((handle, task)),
        false => Err((handle, Some(task))),
    }
}

/// A thread that polls a task outside the workers.
pub(crate) struct PresentThread {
    /// Dropped first: a thread without the mark is not counted.
    _mark: Option<ThreadMark>,
    _present: Option<Present>,
}

impl PresentThread {
    /// Counts the calling thread.
    ///
    /// The caller knows that the shutdown is not over: another thread that it counts stays
    /// until this returns.
    fn count(scheduler: &Arc<Scheduler>) -> Self {
        Self {
            _present: Some(scheduler.count_present()),
            _mark: Some(scheduler.mark_thread()),
        }
    }

    fn counted_already() -> Self {
        Self {
            _mark: None,
            _present: None,
        }
    }
}

/// The scheduler of a task that was spawned on a dispatcher.
pub struct DispatchedRef {
    shard: TaskShardRef,
    core: Arc<DispatcherCore>,
}

impl Schedule for DispatchedRef {
    fn schedule(&self, task: Runnable) {
        self.shard.schedule(task);
    }

    fn dispatch(&self, task: Runnable, route: Route) {
        match route == self.core.route {
            true => self.core.dispatch(task, true),
            false => self.shard.dispatch(task, route),
        }
    }

    fn own_route(&self) -> Route {
        self.core.route
    }

    fn route_owner(&self) -> *const () {
        self.shard.route_owner()
    }

    fn completing(&self) {
        self.core.completed.fetch_add(1, Relaxed);
    }

    fn release(&self, task: &Header) {
        self.shard.release(task);
    }

    fn panicked(&self, payload: &mut Payload) {
        self.shard.panicked(payload);
    }

    fn context(&self) -> Option<&TaskContext> {
        self.shard.context()
    }

    fn is_borrowing(&self) -> bool {
        self.shard.is_borrowing()
    }

    fn may_poll_here(&self, task: &Header) -> bool {
        self.shard.may_poll_here(task)
    }

    fn requeue(&self, task: Runnable, yielded: bool) -> RunOutcome {
        self.shard.requeue(task, yielded)
    }
}
