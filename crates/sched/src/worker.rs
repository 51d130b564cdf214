//! A worker: finds a task, runs it, and parks when there is none.
//!
//! The loop to read first is [`Worker::run`], then [`Worker::next_task`] and
//! [`Worker::find_task`]. The worker of a current-thread scheduler is run by
//! [`CoreGuard`](crate::CoreGuard) instead.

use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull};
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::thread::{self, ThreadId};
use std::time::Duration;

use blitzen_observe::{Event, EventWait, PollResult};
use blitzen_task::glue::id_number;
use blitzen_task::{Header, RunOutcome, Runnable};
use blitzen_util::coop::{self, Budget};
use blitzen_util::kernel_thread::kernel_thread_id;
use blitzen_util::quiet::quietly;
use blitzen_util::rng::Rng;
use blitzen_util::shim::atomic::Ordering::Relaxed;
use blitzen_util::shim::hint;
use blitzen_util::wait::{self, WaitKind};
use blitzen_util::wake_cause::{self, WakeCause};

use crate::busy_time::BusyTime;
use crate::contention::Contention;
use crate::context_depth::context_depth;
use crate::current;
use crate::gather::Gather;
use crate::handoff::Epoch;
use crate::idle::{Retired, Searching};
use crate::idle_memory::IdleMemory;
use crate::inject::InjectTurns;
use crate::observation::{IS_OBSERVABLE, ObservedSet, WorkerRecorder, spawn_events};
use crate::pace::{BUSY_BATCH, MAX_BATCH, MAX_LIFO_POLLS, Pace};
use crate::ring::{CAPACITY, HALF, Overflow};
use crate::scheduler::{Scheduler, WorkerShared};
use crate::spawn_backoff::SpawnBackoff;
use crate::thread_queue::{self, ThreadHost};
use crate::world::{TaskInfo, World};
use crate::yields::Yields;

/// How many times a thief spins before it takes another worker's newest task: up
/// to a microsecond in all (a pause instruction takes 5 to 50 ns). A worker that is
/// not stuck runs the task within that time.
const SPINS_BEFORE_STEALING_NEWEST: u32 = 16;

/// About how long a worker takes from being unparked until it runs.
pub(crate) const UNPARK_NS: u64 = 20_000;

/// How long the tasks that a driver turn has woken may wait for each other. Unparking another
/// worker for less costs more processor time than it saves, and spoils the batches: it would come
/// when most of them have run.
const BATCH_NS: u64 = 5 * UNPARK_NS;

/// The same where probably no processor is free for another worker.
const CONTENDED_BATCH_NS: u64 = 5 * BATCH_NS;

/// The part of a worker that others do not see. It belongs to one thread at a time.
pub struct Worker {
    scheduler: Arc<Scheduler>,
    index: usize,
    /// The part that others see.
    shared: SharedPart,
    rng: RefCell<Rng>,
    pace: RefCell<Pace>,
    /// Counts polls.
    tick: Cell<u32>,
    /// The tick at which to look at the injection queue next.
    next_fetch: Cell<u32>,
    /// The tick from which on a look takes a batch.
    next_batch: Cell<u32>,
    /// The tick of the next maintenance.
    next_maintenance: Cell<u32>,
    /// The tick at which to look at the clock next; not after the next maintenance.
    next_clock: Cell<u32>,
    /// The earlier tick of the next look at the injection queue and that at the clock; a tick that
    /// has come, if the loop has to end.
    next_due: Cell<u32>,
    /// The tick of the last driver turn.
    last_turn: Cell<u32>,
    busy_time: BusyTime,
    contention: Contention,
    /// How many tasks in a row came from the LIFO slot.
    lifo_streak: Cell<u32>,
    inject_turns: InjectTurns,
    spawn_backoff: SpawnBackoff,
    gather: Gather,
    idle_memory: IdleMemory,
    /// What it observes now.
    observed: Cell<ObservedSet>,
    recorder: WorkerRecorder,
    /// Whether its loop has to end: the scheduler closes, or something else is to be observed.
    must_leave_loop: Cell<bool>,
    /// Whether its loop observes nothing, so that pinned tasks may follow each other without it.
    can_run_rows: Cell<bool>,
    searching: Cell<Option<Searching>>,
    driver_turn: Cell<DriverTurn>,
    yields: Yields,
    /// The number of its last blocking section.
    epoch: Cell<Epoch>,
    life: Cell<Life>,
    /// How many polls it had made when it was last unparked.
    polls_at_unpark: Cell<u64>,
    /// The thread that it is on.
    thread: Cell<Option<ThreadId>>,
    /// It counts as parked in the idle bitmap, or did until another thread unparked it.
    is_parked: Cell<bool>,
    /// Whether a task that is woken here goes to the LIFO slot, and there is nothing else to do.
    pushes_newest: Cell<bool>,
    /// Whether a task is being polled: only then may the worker leave its thread.
    is_polling: Cell<bool>,
}

/// The address of a worker's entry in the list of its scheduler: to find it there would take
/// several instructions, and a poll needs it several times.
struct SharedPart(NonNull<WorkerShared>);

// SAFETY: what it points to is shared by all threads.
unsafe impl Send for SharedPart {}

impl SharedPart {
    fn of(scheduler: &Scheduler, index: usize) -> Self {
        Self(NonNull::from(&*scheduler.shared[index]))
    }
}

/// Whether a driver turn goes on, and whether it has woken several tasks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DriverTurn {
    /// No turn goes on, and the last one has woken at most one task, or has been
    /// dealt with.
    None,
    /// A turn goes on, and has woken at most one task.
    Turning,
    /// A turn goes on, and has woken several tasks.
    TurningManyWoken,
    /// The last turn has woken several tasks, and it is not yet decided whether to
    /// unpark another worker for them.
    ManyWoken,
}

/// The stages of a worker's life.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    /// It has had no thread, or is a current-thread worker that nobody drives.
    Parked,
    Running,
    /// It cancels its tasks. The last worker that leaves cancels those that are
    /// woken from now on.
    Closing,
}

/// Polls are made by one of three copies of the run loop, so that none pays for what only another
/// one needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollLoop {
    /// Nobody looks.
    Unobserved,
    /// Each poll leaves its events.
    Recorded,
    /// Polls are timed, or between hooks, or have a budget of their own.
    Observed,
}

/// The result of one step of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It ran a task.
    Ran,
    /// It found nothing, and would park.
    Idle,
    /// It has left, or was handed to another thread.
    Left,
}

impl Worker {
    pub(crate) fn new(scheduler: Arc<Scheduler>, index: usize) -> Self {
        let config = &scheduler.config;
        Self {
            rng: RefCell::new(Rng::new(scheduler.world().seed(index))),
            pace: RefCell::new(Pace::new(config.inject_interval, config.event_interval)),
            shared: SharedPart::of(&scheduler, index),
            scheduler,
            index,
            tick: Cell::new(0),
            next_fetch: Cell::new(1),
            next_batch: Cell::new(1),
            next_maintenance: Cell::new(1),
            next_clock: Cell::new(1),
            next_due: Cell::new(1),
            last_turn: Cell::new(0),
            busy_time: BusyTime::default(),
            contention: Contention::default(),
            lifo_streak: Cell::new(0),
            inject_turns: InjectTurns::new(index),
            spawn_backoff: SpawnBackoff::default(),
            gather: Gather::default(),
            idle_memory: IdleMemory::default(),
            observed: Cell::new(ObservedSet::NOTHING),
            recorder: WorkerRecorder::default(),
            must_leave_loop: Cell::new(false),
            can_run_rows: Cell::new(false),
            searching: Cell::new(None),
            driver_turn: Cell::new(DriverTurn::None),
            yields: Yields::default(),
            epoch: Cell::new(Epoch::NONE),
            life: Cell::new(Life::Parked),
            polls_at_unpark: Cell::new(0),
            thread: Cell::new(None),
            is_parked: Cell::new(false),
            pushes_newest: Cell::new(false),
            is_polling: Cell::new(false),
        }
    }

    /// Which of its scheduler's workers this is.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The scheduler it belongs to.
    pub fn scheduler(&self) -> &Arc<Scheduler> {
        &self.scheduler
    }

    #[inline]
    pub(crate) fn belongs_to(&self, scheduler: &Arc<Scheduler>) -> bool {
        Arc::ptr_eq(&self.scheduler, scheduler)
    }

    /// Whether a task is being polled.
    pub(crate) fn is_polling(&self) -> bool {
        self.is_polling.get()
    }

    /// Whether another thread could take over the worker.
    pub(crate) fn can_move(&self) -> bool {
        self.scheduler.has_threads() && self.life.get() == Life::Running
    }

    /// Counts a blocking section that begins; returns its number.
    pub(crate) fn advance_epoch(&self) -> Epoch {
        let epoch = self.epoch.get().next();
        self.epoch.set(epoch);
        epoch
    }

    #[inline(always)]
    fn shared(&self) -> &WorkerShared {
        // SAFETY: a part of `self.scheduler`, which the worker holds.
        unsafe { self.shared.0.as_ref() }
    }

    /// How polls are made from here on.
    pub(crate) fn poll_loop(&self) -> PollLoop {
        let observed = self.observed.get();
        let has_usual_budget = self.scheduler.config.budget == Budget::default();
        match has_usual_budget {
            true if observed.is_empty() => PollLoop::Unobserved,
            true if observed.is_events_only() => PollLoop::Recorded,
            _ => PollLoop::Observed,
        }
    }

    pub(crate) fn event_interval(&self) -> u32 {
        self.pace.borrow().event_interval()
    }

    /// Runs tasks on the calling thread until the scheduler closes, or a task
    /// that blocks hands the worker to another thread.
    pub fn run(self) {
        Box::new(self).run_boxed();
    }

    pub(crate) fn run_boxed(self: Box<Self>) {
        let scheduler = self.scheduler.clone();
        // Until it leaves, the shutdown counts this thread, and must not wait for it here.
        let counted = scheduler.mark_thread();
        let depth = context_depth();
        let host = ThreadHost::new(scheduler.clone(), self.index, depth);
        let hosting = host.enter();
        let previous = current::install(self);
        with_current(Worker::start);
        let mut has_ended = false;
        while !has_ended {
            with_current(Worker::recover);
            // Foreign code that panics ends neither the worker nor its thread.
            quietly(|| {
                run_tasks(depth);
                has_ended = true;
            });
        }
        restore_context(depth);
        with_current(Worker::close);
        drop(current::uninstall(previous));
        hosting.finish();
        drop(counted);
        // A thread whose worker was handed off was counted on its own.
        scheduler.leave();
    }

    /// Runs one task, if there is one: for a scheduler whose workers take turns on
    /// one thread. Returns the worker unless it left.
    pub fn step(self: Box<Self>) -> (Option<Box<Self>>, Step) {
        let scheduler = self.scheduler.clone();
        let previous = current::install(self);
        let found = with_current(|worker| {
            worker.start();
            worker.maintain_if_due();
            if worker.is_closing() {
                worker.close();
                return None;
            }
            worker.count_tick();
            Some(worker.find_task().map(|task| worker.begin_poll(task)))
        });
        let step = match found.flatten() {
            None => {
                drop(current::uninstall(previous));
                scheduler.leave();
                return (None, Step::Left);
            }
            Some(None) => Step::Idle,
            Some(Some(task)) => {
                let depth = context_depth();
                match with_current(Worker::poll_loop) {
                    Some(PollLoop::Observed) => run_observed(task, depth),
                    Some(PollLoop::Recorded) => run_recorded(task, depth),
                    Some(PollLoop::Unobserved) | None => run_task(task, depth),
                }
                Step::Ran
            }
        };
        match current::uninstall(previous) {
            Some(worker) => {
                worker.stop_searching();
                (Some(worker), step)
            }
            None => (None, Step::Left),
        }
    }

    /// Prepares the worker to run on the calling thread: for the first time, or
    /// after it was handed off or parked without a thread.
    pub(crate) fn start(&self) {
        self.recover();
        self.note_thread();
        if self.life.get() == Life::Parked {
            self.life.set(Life::Running);
            self.set_next_maintenance();
            self.set_parked();
            self.unparked();
            self.notice_close();
        }
    }

    /// Publishes which thread it is on, if that has changed.
    fn note_thread(&self) {
        let current = Some(thread::current().id());
        let previous = self.thread.replace(current);
        if previous != current {
            if previous.is_some() && self.life.get() == Life::Running {
                self.record(Event::HandOff);
            }
            let shared = self.shared();
            *shared.thread.lock().unwrap_or_else(PoisonError::into_inner) = current;
            shared.kernel_thread.store(kernel_thread_id(), Relaxed);
            self.scheduler.world().note_thread();
            self.contention.forget_count();
        }
    }

    /// Forgets what it was doing when it left a thread, or when foreign code
    /// panicked under the run loop.
    fn recover(&self) {
        self.is_polling.set(false);
        self.driver_turn.set(DriverTurn::None);
    }

    /// Begins to run tasks; returns in which loop, or `None` when the scheduler has closed.
    fn enter_loop(&self) -> Option<PollLoop> {
        self.must_leave_loop.set(false);
        self.set_next_due();
        let poll_loop = self.poll_loop();
        self.can_run_rows.set(poll_loop == PollLoop::Unobserved);
        (!self.is_closing()).then_some(poll_loop)
    }

    /// Returns the next task to run; parks until there is one. `None` when the
    /// loop has to end. Inlined into each copy of the loop.
    #[inline(always)]
    fn next_task(&self) -> Option<Runnable> {
        self.count_tick();
        match self.pop_newest_in_turn() {
            Some(task) => Some(self.begin_poll(task)),
            None => self.next_other_task(),
        }
    }

    /// Takes the newest task if nothing else has its turn.
    #[inline(always)]
    fn pop_newest_in_turn(&self) -> Option<Runnable> {
        if has_come(self.tick.get(), self.next_due.get()) || thread_queue::is_here() {
            return None;
        }
        let newest = self.pop_newest()?;
        self.stop_searching();
        Some(newest)
    }

    /// [`next_task`](Self::next_task) where the newest task is not the next one.
    #[inline(never)]
    fn next_other_task(&self) -> Option<Runnable> {
        loop {
            self.maintain_if_due();
            if self.must_leave_loop.get() {
                return None;
            }
            if let Some(task) = self.find_task() {
                return Some(self.begin_poll(task));
            }
            self.park();
        }
    }

    /// Like [`next_task`](Self::next_task), and records that its poll begins.
    fn next_recorded_task(&self) -> Option<Runnable> {
        let task = self.next_task()?;
        self.start_recorded_poll(task.header());
        Some(task)
    }

    /// Returns the next task to run beside the future of `block_on`, if there is
    /// one.
    pub(crate) fn next_task_beside(&self) -> Option<Runnable> {
        self.count_tick();
        self.maintain_if_due();
        let task = self.find_task()?;
        Some(self.begin_poll(task))
    }

    #[inline]
    fn begin_poll(&self, task: Runnable) -> Runnable {
        let shared = self.shared();
        shared.counters.polls.bump();
        if IS_OBSERVABLE {
            let address = ptr::from_ref(task.header()).addr();
            shared.polled.store(address, Relaxed);
        }
        self.is_polling.set(true);
        task
    }

    #[inline]
    fn is_closing(&self) -> bool {
        self.life.get() == Life::Closing
    }

    /// Counts a poll.
    #[inline]
    fn count_tick(&self) {
        let tick = self.tick.get().wrapping_add(1);
        self.tick.set(tick);
        self.shared().tick.store(tick, Relaxed);
    }

    fn find_task(&self) -> Option<Runnable> {
        let task = self
            .fetch_if_due() // the injection queue, every so many polls
            .or_else(|| thread_queue::pop_in_turn(&self.scheduler)) // pinned here, every second time
            .or_else(|| self.pop_local()) // the LIFO slot, then the ring
            .or_else(|| thread_queue::pop(&self.scheduler))
            .or_else(|| self.finish_yields())
            .or_else(|| self.fetch(MAX_BATCH))
            .or_else(|| self.steal())?;
        self.stop_searching();
        Some(task)
    }

    /// Takes the newest task, unless too many newest tasks ran in a row while others waited.
    #[inline(always)]
    pub(crate) fn pop_newest(&self) -> Option<Runnable> {
        let shared = self.shared();
        let streak = match self.lifo_streak.get() {
            streak if streak < MAX_LIFO_POLLS => streak,
            _ if shared.ring.is_empty() && !self.yields.has_yielded() => 0,
            _ => return None,
        };
        let newest = shared.lifo.take()?;
        self.spawn_backoff.newest_taken(true);
        self.lifo_streak.set(streak + 1);
        shared.counters.lifo_hits.bump();
        Some(newest)
    }

    /// Takes the newest task or, if too many newest tasks ran in a row, the oldest.
    #[inline]
    fn pop_local(&self) -> Option<Runnable> {
        let newest = self.pop_newest();
        if newest.is_some() {
            return newest;
        }
        let shared = self.shared();
        let newest = shared.lifo.take();
        self.spawn_backoff.newest_taken(newest.is_some());
        if let Some(newest) = newest {
            self.push_ring(newest);
        }
        self.lifo_streak.set(0);
        if !self.yields.count_task() {
            self.turn_drivers();
        }
        shared.ring.pop()
    }

    /// Turns the drivers if everything queued before a yield has run; returns
    /// whether it has.
    #[inline]
    pub(crate) fn end_yield_round(&self) -> bool {
        let is_over = self.yields.is_round_over();
        if is_over {
            self.turn_drivers();
        }
        is_over
    }

    /// Turns the drivers and resumes the futures that yielded: for a worker that has
    /// nothing else to do.
    fn finish_yields(&self) -> Option<Runnable> {
        if !self.yields.has_deferred() {
            return None;
        }
        self.turn_drivers();
        self.share_woken();
        self.pop_local()
    }

    #[inline]
    fn fetch_if_due(&self) -> Option<Runnable> {
        match has_come(self.tick.get(), self.next_fetch.get()) {
            true => self.fetch_in_turn(),
            false => None,
        }
    }

    /// Takes a batch from the injection queue, or between two batches one task: many tasks at a time
    /// would only drive others from the ring.
    fn fetch_in_turn(&self) -> Option<Runnable> {
        let tick = self.tick.get();
        if !has_come(tick, self.next_batch.get()) {
            self.set_next_look();
            return self.fetch(1);
        }
        self.set_next_fetch();
        self.fetch(BUSY_BATCH)
    }

    /// Begins to count polls until the next look and the next batch.
    fn set_next_fetch(&self) {
        let interval = self.pace.borrow().inject_interval();
        self.next_batch.set(self.tick.get().wrapping_add(interval));
        self.set_next_look();
    }

    fn set_next_look(&self) {
        let interval = self.pace.borrow().look_interval();
        self.next_fetch.set(self.tick.get().wrapping_add(interval));
        self.set_next_due();
    }

    fn set_next_due(&self) {
        let tick = self.tick.get();
        let until = |due: u32| due.wrapping_sub(tick).cast_signed();
        let first = until(self.next_fetch.get()).min(until(self.next_clock.get()));
        let polls = match self.must_leave_loop.get() {
            true => 0,
            false => first.max(0).cast_unsigned(),
        };
        self.next_due.set(tick.wrapping_add(polls));
    }

    /// Has the loop end before the next poll.
    fn leave_loop(&self) {
        self.must_leave_loop.set(true);
        self.set_next_due();
    }

    /// Takes a share of the injection queue, at most `most` tasks: returns one, and
    /// puts the others into the ring, where thieves find them.
    fn fetch(&self, most: usize) -> Option<Runnable> {
        let inject = &self.scheduler.inject;
        if inject.is_empty() {
            return None;
        }
        let shared = self.shared();
        let room = shared.ring.room() as usize;
        let mut first = None;
        let fetched = self
            .inject_turns
            .fetch(inject, most.min(room + 1), |task| match first {
                None => first = Some(task),
                Some(_) => shared.ring.push(task, |_| unreachable!("there is room")),
            });
        if fetched > 0 {
            // The last poll may have ended before the task was queued.
            self.recorder.forget_last_end();
            shared.counters.global_batch_fetches.bump();
            shared.counters.tasks_fetched.add(fetched as u64);
        }
        if fetched > 1 {
            self.share();
        }
        first
    }

    /// Steals half of a ring; of one that grows, a moment later ([`Gather`]). If all rings are
    /// empty, steals the newest task of a worker that is stuck.
    fn steal(&self) -> Option<Runnable> {
        let scheduler = &*self.scheduler;
        let workers = scheduler.workers();
        if workers == 1 || !self.start_searching() {
            return None;
        }
        self.recorder.forget_last_end();
        let start = self.rng.borrow_mut().below(workers as u32) as usize;
        let victims = (0..workers)
            .map(|offset| (start + offset) % workers)
            .filter(|&victim| victim != self.index);
        // A worker that was just unparked has taken long enough to run: it does not wait again.
        let mut may_gather = self.shared().counters.polls.get() != self.polls_at_unpark.get();
        let oldest = |victim: usize| {
            let ring = &scheduler.shared[victim].ring;
            let now_ns = || scheduler.world().now_ns();
            if may_gather && self.gather.wait(|| ring.len(), now_ns) {
                may_gather = false; // however many victims there are
            }
            self.steal_oldest(victim)
        };
        let newest = |victim| self.steal_stuck_newest(victim);
        victims.clone().find_map(oldest).or_else(|| {
            victims
                .filter(|&victim| !scheduler.idle.is_parked(victim))
                .find_map(newest)
        })
    }

    /// Steals half of the victim's ring.
    fn steal_oldest(&self, victim: usize) -> Option<Runnable> {
        let shared = self.shared();
        shared.counters.steal_attempts.bump();
        let stolen = self.scheduler.shared[victim]
            .ring
            .steal_into(&shared.ring)?;
        shared.counters.steal_successes.bump();
        shared.counters.tasks_stolen.add(stolen.count.into());
        self.record(Event::Steal {
            victim: victim as u64,
            count: stolen.count as u16,
        });
        Some(stolen.first)
    }

    /// Steals the newest task of a worker that makes no progress for about a
    /// microsecond. If it does make progress, steals from its ring instead: the task
    /// may have been moved there.
    fn steal_stuck_newest(&self, victim: usize) -> Option<Runnable> {
        let shared = &self.scheduler.shared[victim];
        let seen = shared.lifo.peek()?;
        let tick = shared.tick.load(Relaxed);
        for _ in 0..SPINS_BEFORE_STEALING_NEWEST {
            hint::spin_loop();
            if shared.lifo.peek() != Some(seen) || shared.tick.load(Relaxed) != tick {
                return self.steal_oldest(victim);
            }
        }
        let counters = &self.shared().counters;
        counters.steal_attempts.bump();
        let task = shared.lifo.take_if(seen)?;
        counters.steal_successes.bump();
        counters.tasks_stolen.bump();
        self.record(Event::Steal {
            victim: victim as u64,
            count: 1,
        });
        Some(task)
    }

    fn start_searching(&self) -> bool {
        let searching = self
            .searching
            .take()
            .or_else(|| self.scheduler.idle.try_search());
        let found = searching.is_some();
        self.searching.set(searching);
        found
    }

    /// Stops searching, since work was found. The last searcher unparks another
    /// worker if there is more.
    #[inline]
    fn stop_searching(&self) {
        if let Some(searching) = self.searching.take()
            && self.scheduler.idle.retire(searching) == Retired::Last
            && self.scheduler.has_work()
        {
            self.scheduler.notify();
        }
    }

    /// Unparks a worker for what is in this worker's queue.
    #[inline]
    fn share(&self) {
        if let Some(worker) = self.scheduler.idle.claim_to_share() {
            self.scheduler.world().interrupt(worker);
        }
    }

    /// Unparks a worker for what is in this worker's queue, if running it alone
    /// takes longer than `max_ns`. If polls have become longer since they were sampled,
    /// the monitor notices.
    #[inline]
    fn share_if_longer(&self, max_ns: u64) {
        if self.scheduler.idle.could_unpark()
            && self.pace.borrow().expected_ns(self.shared().ring.len()) > max_ns
        {
            self.share();
        }
    }

    /// Queues a task that was spawned on this worker.
    pub(crate) fn push_spawned(&self, task: Runnable) {
        let shared = self.shared();
        shared.counters.tasks_submitted.bump();
        if !self.observed.get().is_empty() {
            self.observe_queued(&task, true);
        }
        let is_only_one = shared.lifo.peek().is_none() && shared.ring.is_empty();
        if self.push_newest(task) || is_only_one && self.spawn_backoff.announce_spawn() {
            self.share();
        }
    }

    /// Queues a task that was woken on this worker. If it is the only one, no
    /// other worker is unparked: it is likely to run next.
    #[inline(always)]
    pub(crate) fn push_woken(&self, task: Runnable) {
        let task = match self.pushes_newest.get() {
            true => match self.shared().lifo.fill(task) {
                Ok(()) => return self.shared().counters.local_schedules.bump(),
                Err(task) => task,
            },
            false => task,
        };
        self.push_beside_others(task);
    }

    /// [`push_woken`](Self::push_woken) if the LIFO slot is not free, or something else is to be
    /// done.
    #[inline(never)]
    fn push_beside_others(&self, task: Runnable) {
        if !self.observed.get().is_empty() {
            self.observe_queued(&task, false);
        }
        if self.push_newest(task) {
            self.share_if_longer(UNPARK_NS);
        }
    }

    /// Queues a task to run next; returns true if another task had to make room for
    /// it, and the caller should consider unparking a worker.
    #[inline]
    fn push_newest(&self, task: Runnable) -> bool {
        if self.is_closing() {
            self.scheduler.refuse(task);
            return false;
        }
        self.end_park();
        let shared = self.shared();
        shared.counters.local_schedules.bump();
        let older = match self.scheduler.config.lifo {
            true => shared.lifo.replace(task),
            false => Some(task),
        };
        let Some(older) = older else { return false };
        self.push_ring(older);
        match self.driver_turn.get() {
            DriverTurn::None | DriverTurn::ManyWoken => true,
            // Whether to share is decided when the turn is over.
            DriverTurn::Turning | DriverTurn::TurningManyWoken => {
                self.driver_turn.set(DriverTurn::TurningManyWoken);
                false
            }
        }
    }

    #[inline]
    fn push_ring(&self, task: Runnable) {
        self.shared()
            .ring
            .push(task, |overflow| self.overflow(overflow));
    }

    #[cold]
    fn overflow(&self, overflow: Overflow) {
        self.shared().counters.inject_queue_overflows.bump();
        self.record(Event::Overflow);
        self.scheduler
            .inject
            .push_all(self.index, overflow.tasks, |task| {
                self.scheduler.refuse(task)
            });
        self.scheduler.notify();
    }

    /// Accounts for a poll that is over, and queues the task again if it wants to
    /// run again.
    #[inline(always)]
    fn end_poll(&self, ran: RunOutcome) {
        self.is_polling.set(false);
        match ran {
            RunOutcome::Complete => self.shared().counters.tasks_completed.bump(),
            RunOutcome::Idle(_) => {}
            RunOutcome::Woken(task) => {
                self.shared().counters.self_wakes.bump();
                self.push_ring(task);
                self.share_if_longer(UNPARK_NS);
            }
            RunOutcome::Yielded(task) => {
                self.shared().counters.yields.bump();
                self.yields.note(self.shared().ring.len());
                self.push_ring(task);
            }
        }
    }

    /// Ends the poll of a task and begins the next one of the same task, without leaving its code,
    /// if the loop would do nothing else in between; returns whether it did.
    #[inline]
    pub(crate) fn renew_poll(&self) -> bool {
        let has_other = thread_queue::has_work(&self.scheduler) || self.has_newest();
        if has_other || !self.may_poll_in_row() {
            return false;
        }
        self.count_tick();
        self.shared().counters.polls.bump();
        true
    }

    #[inline]
    pub(crate) fn has_newest(&self) -> bool {
        self.shared().lifo.peek().is_some()
    }

    /// Whether the loop would do nothing between the poll of a pinned task and that of another one,
    /// or of the newest task: nothing else is due or waits to run.
    #[inline]
    pub(crate) fn may_poll_in_row(&self) -> bool {
        let tick = self.tick.get().wrapping_add(1);
        let shared = self.shared();
        !has_come(tick, self.next_due.get())
            && self.is_polling.get()
            && shared.ring.is_empty()
            && !self.yields.has_deferred()
            && self.can_run_rows.get()
    }

    /// Ends the poll of a task, which `is_complete` or waits, and begins that of `task`, another
    /// one.
    #[inline]
    pub(crate) fn begin_poll_in_row(&self, task: Runnable, is_complete: bool) -> Runnable {
        let shared = self.shared();
        if is_complete {
            shared.counters.tasks_completed.bump();
        }
        let tick = self.tick.get().wrapping_add(1);
        self.tick.set(tick);
        shared.tick.store(tick, Relaxed);
        shared.counters.polls.bump();
        let address = ptr::from_ref(task.header()).addr();
        shared.polled.store(address, Relaxed);
        task
    }

    #[inline]
    fn maintain_if_due(&self) {
        if has_come(self.tick.get(), self.next_clock.get()) {
            self.look_at_clock();
        }
    }

    /// Ends a group of polls that are timed together; does maintenance too if that is due.
    fn look_at_clock(&self) {
        if has_come(self.tick.get(), self.next_maintenance.get()) {
            return self.maintain();
        }
        let now_ns = self.scheduler.world().now_ns();
        self.busy_time.end_group(&self.shared().counters, now_ns);
        self.set_next_clock();
    }

    fn set_next_maintenance(&self) {
        let next = self.tick.get().wrapping_add(self.event_interval());
        self.next_maintenance.set(next);
        self.set_next_clock();
    }

    fn set_next_clock(&self) {
        let tick = self.tick.get();
        let until_maintenance = self.next_maintenance.get().wrapping_sub(tick);
        let group = self.pace.borrow().group_interval();
        self.next_clock
            .set(tick.wrapping_add(group.min(until_maintenance)));
        self.set_next_due();
    }

    /// Does what is due every [`event_interval`](Pace::event_interval) polls: turns the
    /// drivers, samples the pace, serves workers that are stuck.
    pub(crate) fn maintain(&self) {
        let scheduler = &*self.scheduler;
        let now_ns = scheduler.world().now_ns();
        self.sample_polls(now_ns);
        self.notice_switches(now_ns);
        self.set_next_maintenance();
        if self.has_room_for_events() {
            self.turn_drivers();
        }
        if scheduler.workers() > 1 && scheduler.monitor.claim_look(now_ns) {
            self.serve_stuck_workers();
        }
        self.notice_close();
    }

    fn sample_polls(&self, now_ns: u64) {
        let counters = &self.shared().counters;
        self.busy_time.end_group(counters, now_ns);
        let sample = self.busy_time.sample_pace(counters, now_ns);
        self.pace
            .borrow_mut()
            .sample(sample.elapsed_ns, sample.polls);
        if self.scheduler.workers() > 1 {
            let world = self.scheduler.world();
            self.contention.sample(now_ns, || world.preemptions());
        }
    }

    fn notice_close(&self) {
        if self.scheduler.is_closed() {
            self.set_closing();
            self.leave_loop();
        }
    }

    /// Looks at the switches of what is observed, after a look at the clock.
    fn notice_switches(&self, now_ns: u64) {
        let observation = &self.scheduler.observation;
        if self.observed.get().is_empty() && observation.switches().is_empty() {
            return;
        }
        let polls = self.shared().counters.polls.get();
        let observed = self
            .recorder
            .refresh(observation, self.index, polls, now_ns);
        if !observed.is_empty() {
            let has_steady_counter = self.scheduler.world().has_steady_counter();
            self.recorder.forget_time(has_steady_counter);
        }
        if self.observed.get() != observed {
            self.set_observed(observed);
        }
    }

    /// Records an event, if events are recorded.
    fn record(&self, event: Event) {
        if self.observed.get().has(ObservedSet::EVENTS) {
            self.record_at(self.event_time_ns(), event);
        }
    }

    /// The time of an event that happens now.
    #[inline]
    pub(crate) fn event_time_ns(&self) -> u64 {
        self.recorder.now_ns(|| self.scheduler.world().now_ns())
    }

    #[inline]
    pub(crate) fn record_at(&self, now_ns: u64, event: Event) {
        if self.observed.get().has(ObservedSet::EVENTS) {
            self.push_event(now_ns, event);
        }
    }

    #[inline]
    fn push_event(&self, now_ns: u64, event: Event) {
        let observed = self.observed.get();
        if !self.recorder.push(observed, now_ns, event) {
            self.set_observed(observed.without_events());
        }
    }

    /// Changes what is observed, which is another loop's business.
    #[cold]
    fn set_observed(&self, observed: ObservedSet) {
        self.observed.set(observed);
        self.set_pushes_newest();
        self.leave_loop();
    }

    /// Observes a task that is about to be queued: it was spawned here, or woken.
    #[inline(never)]
    fn observe_queued(&self, task: &Runnable, is_new: bool) {
        let (header, now_ns) = (task.header(), self.event_time_ns());
        self.stamp(task, now_ns);
        let id = id_number(header.id());
        match is_new {
            true => self.record_all(now_ns, spawn_events(id, header.spawn_meta())),
            false => {
                let cause = self.wake_cause();
                self.record_at(now_ns, Event::Wake { id, cause });
            }
        }
    }

    /// Records events of the same moment.
    pub(crate) fn record_all(&self, now_ns: u64, events: impl Iterator<Item = Event>) {
        events.for_each(|event| self.record_at(now_ns, event));
    }

    /// Why this thread wakes a task.
    fn wake_cause(&self) -> WakeCause {
        match wake_cause::current() {
            WakeCause::Unknown if self.is_polling() => WakeCause::Task,
            WakeCause::Unknown => match self.driver_turn.get() {
                DriverTurn::Turning | DriverTurn::TurningManyWoken => WakeCause::Io,
                DriverTurn::None | DriverTurn::ManyWoken => WakeCause::Unknown,
            },
            known => known,
        }
    }

    /// Notes when a task was queued, if that matters.
    fn stamp(&self, task: &Runnable, now_ns: u64) {
        let header = task.header();
        if self.observed.get().has(ObservedSet::DELAYS)
            && self
                .scheduler
                .observation
                .stamp(id_number(header.id()), now_ns)
        {
            header.set_stamped();
        }
    }

    /// Records that a poll begins.
    #[inline]
    fn start_recorded_poll(&self, task: &Header) {
        let observed = self.observed.get();
        let now_ns = self.recorder.start_poll(observed, || self.event_time_ns());
        let id = id_number(task.id());
        self.record_at(now_ns, Event::PollStart { id });
    }

    /// Records that a poll has ended.
    #[inline]
    fn end_recorded_poll(&self, ran: &RunOutcome) {
        let now_ns = self.event_time_ns();
        self.recorder.end_poll(now_ns);
        self.record_poll_end(now_ns, ran);
    }

    /// Observes the beginning of a poll; returns the scheduler if its world has to be called.
    fn start_observed_poll(&self, task: &Header, info: &mut TaskInfo) -> Option<Arc<Scheduler>> {
        let (observed, scheduler) = (self.observed.get(), &self.scheduler);
        let observation = &scheduler.observation;
        let now_ns = self.recorder.start_poll(observed, || self.event_time_ns());
        let id = id_number(info.id);
        if observed.has(ObservedSet::DELAYS)
            && let Some(delay_ns) = observation.take_delay_ns(task, now_ns)
        {
            info.schedule_delay = Some(Duration::from_nanos(delay_ns));
            if let Some(histogram) = observation.schedule_delays(self.index) {
                histogram.record(delay_ns);
            }
        }
        self.record_at(now_ns, Event::PollStart { id });
        observed.has(ObservedSet::HOOKS).then(|| scheduler.clone())
    }

    /// Observes the end of a poll.
    fn end_observed_poll(&self, ran: &RunOutcome) {
        let now_ns = self.event_time_ns();
        let poll_ns = self.recorder.end_poll(now_ns);
        if self.observed.get().has(ObservedSet::POLL_TIMES)
            && let Some(histogram) = self.scheduler.observation.poll_times(self.index)
        {
            histogram.record(poll_ns);
        }
        if let RunOutcome::Woken(task) | RunOutcome::Yielded(task) = ran {
            self.stamp(task, now_ns);
        }
        self.record_poll_end(now_ns, ran);
    }

    /// Records how a poll has ended.
    #[inline]
    pub(crate) fn record_poll_end(&self, now_ns: u64, ran: &RunOutcome) {
        let mut wait = EventWait::default();
        let result = match ran {
            RunOutcome::Complete => PollResult::Complete,
            RunOutcome::Idle(waits_for) => {
                let kind = waits_for.kind();
                let identity = match kind {
                    WaitKind::Unknown | WaitKind::Several => 0,
                    _ => wait::identity(),
                };
                wait = EventWait { kind, identity };
                PollResult::Idle
            }
            RunOutcome::Woken(_) => PollResult::Woken,
            RunOutcome::Yielded(_) => PollResult::Yielded,
        };
        let queued = self.shared().ring.len().try_into().unwrap_or(u16::MAX);
        let end = Event::PollEnd {
            result,
            queued,
            wait,
        };
        self.record_at(now_ns, end);
    }

    /// Whether the ring has room for the tasks that a driver turn wakes: up to half
    /// of its slots. Tasks that do not fit go to the injection queue, behind
    /// everything that comes later. Also true when all that was queued at the last
    /// turn has run.
    fn has_room_for_events(&self) -> bool {
        let polls = self.tick.get().wrapping_sub(self.last_turn.get());
        self.shared().ring.room() >= HALF || polls >= CAPACITY
    }

    /// Turns the drivers without waiting. [`share_woken`](Self::share_woken) decides
    /// later whether to unpark another worker for the tasks that they wake.
    fn turn_drivers(&self) {
        self.turn(|world| world.turn(self.index, Some(Duration::ZERO)));
    }

    /// Waits in the drivers. While they spin before they sleep, they check the
    /// injection queue too: a thread that pushed there may have unparked a worker
    /// that takes longer to wake up.
    fn wait_in_drivers(&self, max_wait: Option<Duration>) {
        let scheduler = &*self.scheduler;
        let end_spin = || {
            scheduler.idle.note_spinning(self.index);
            !scheduler.inject.is_empty()
        };
        self.turn(|world| world.turn_until(self.index, max_wait, &end_spin));
    }

    fn turn(&self, turn: impl FnOnce(&dyn World)) {
        self.recorder.forget_last_end();
        self.yields.start_round();
        self.last_turn.set(self.tick.get());
        self.driver_turn.set(DriverTurn::Turning);
        // Wakers are foreign code: one that panics ends the turn, not its worker.
        quietly(|| turn(self.scheduler.world()));
        self.yields.wake_deferred();
        self.driver_turn.set(match self.driver_turn.get() {
            DriverTurn::TurningManyWoken => DriverTurn::ManyWoken,
            _ => DriverTurn::None,
        });
    }

    /// Unparks another worker for the tasks that a driver turn has woken, if they
    /// take long.
    fn share_woken(&self) {
        if self.driver_turn.replace(DriverTurn::None) == DriverTurn::ManyWoken {
            self.share_if_longer(match self.contention.is_contended() {
                true => CONTENDED_BATCH_NS,
                false => BATCH_NS,
            });
        }
    }

    /// Serves workers that are stuck in a poll.
    fn serve_stuck_workers(&self) {
        let scheduler = &self.scheduler;
        let look = scheduler.monitor.look(
            |worker| match worker == self.index {
                true => None,
                false => scheduler.progress_of_running(worker),
            },
            |worker, run_ns| scheduler.share_queue_of(worker, run_ns),
            |looks, all_stuck| {
                scheduler
                    .rescue
                    .note_look(looks, all_stuck, || false, || false)
            },
        );
        for stuck in look.stuck {
            self.shared().counters.rescues.bump();
            scheduler.serve_stuck(&stuck);
            let newest = scheduler.shared[stuck.worker].lifo.take();
            if newest.is_some() {
                self.shared().counters.tasks_stolen.bump();
            }
            let tasks = newest.into_iter().chain(self.steal_oldest(stuck.worker));
            tasks.for_each(|task| self.push_ring(task));
        }
    }

    fn has_local_work(&self) -> bool {
        let shared = self.shared();
        !shared.ring.is_empty()
            || shared.lifo.peek().is_some()
            || thread_queue::has_work(&self.scheduler)
    }

    /// Parks until there may be work.
    pub(crate) fn park(&self) {
        let scheduler = &*self.scheduler;
        let world = scheduler.world();

        let max_sleep = world.before_park(self.index);
        let retired = scheduler.idle.park(self.index, self.searching.take());
        let stay = scheduler.is_closed()
            || self.has_local_work()
            || self.yields.has_deferred()
            || retired == Retired::Last && scheduler.has_work();
        if stay && scheduler.idle.claim(self.index) {
            // The monitor may have seen it parked.
            scheduler
                .monitor
                .state_changed(|| scheduler.needs_monitor());
            self.searching.set(scheduler.idle.try_search());
            world.after_unpark(self.index);
            self.notice_close();
            return;
        }

        let counters = &self.shared().counters;
        if counters.polls.get() == self.polls_at_unpark.get() {
            counters.idle_wakes.bump();
        }
        let now_ns = world.now_ns();
        self.sample_polls(now_ns);
        self.busy_time.stop(counters, now_ns);
        self.record_at(now_ns, Event::Park);
        // Last: whoever sees that the worker is parked sees all that it has counted.
        counters.park_events.bump();
        scheduler
            .monitor
            .state_changed(|| scheduler.needs_monitor());
        self.set_parked();
        let max_watch = self
            .idle_memory
            .before_sleep(|| world.now_ns(), || !scheduler.idle.is_parked(self.index));
        let waits = [max_sleep, scheduler.config.park_timeout, max_watch];
        let max_wait = waits.into_iter().flatten().min();
        self.wait_in_drivers(scheduler.monitor.limit_wait(max_wait));
        self.unparked();
        world.after_unpark(self.index);
        self.notice_close();
        self.share_woken();
        if scheduler.monitor.is_missing() && scheduler.monitor.claim_look(world.now_ns()) {
            self.serve_stuck_workers();
        }
    }

    /// Parks a current-thread worker that nobody drives any more.
    pub(crate) fn park_undriven(&self) {
        self.is_polling.set(false);
        let counters = &self.shared().counters;
        let now_ns = self.scheduler.world().now_ns();
        self.busy_time.stop(counters, now_ns);
        self.record_at(now_ns, Event::Park);
        counters.park_events.bump(); // last, as in `park`
        self.life.set(Life::Parked);
        let _ = self.scheduler.idle.park(self.index, self.searching.take());
    }

    /// Resumes after a park. Either the worker's own drivers ended it, or another
    /// thread did, which then has counted the worker as searching.
    fn unparked(&self) {
        let scheduler = &*self.scheduler;
        let world = scheduler.world();
        self.end_park();
        let counters = &self.shared().counters;
        counters.unpark_events.bump();
        self.polls_at_unpark.set(counters.polls.get());
        let now_ns = world.now_ns();
        self.busy_time.start(counters, now_ns);
        self.contention.note_time(now_ns);
        self.notice_switches(now_ns);
        self.record_at(now_ns, Event::Unpark);
        self.set_next_fetch();
    }

    /// Marks a parked worker as running: before it calls the first waker, if possible, and
    /// no later than when a task is queued here. Wakers are foreign code, and may block:
    /// then the monitor and thieves must see that this worker is stuck.
    #[inline]
    pub(crate) fn end_park(&self) {
        if self.is_parked.get() {
            self.claim_from_idle();
        }
    }

    fn set_parked(&self) {
        self.is_parked.set(true);
        self.set_pushes_newest();
    }

    fn set_closing(&self) {
        self.life.set(Life::Closing);
        self.set_pushes_newest();
    }

    /// Follows every change of what it depends on.
    fn set_pushes_newest(&self) {
        self.pushes_newest.set(
            self.observed.get().is_empty()
                && !self.is_parked.get()
                && !self.is_closing()
                && self.scheduler.config.lifo,
        );
    }

    #[cold]
    fn claim_from_idle(&self) {
        self.is_parked.set(false);
        self.idle_memory.end_watch();
        self.set_pushes_newest();
        let scheduler = &*self.scheduler;
        if !scheduler.idle.claim(self.index) {
            let searching = match scheduler.is_closed() {
                true => None, // unparked to leave, and not counted
                false => Some(scheduler.idle.searching_on_wake()),
            };
            self.searching.set(searching);
        }
        scheduler
            .monitor
            .state_changed(|| scheduler.needs_monitor());
    }

    /// Cancels what is queued here, and the tasks that wait to be woken anywhere.
    pub(crate) fn close(&self) {
        self.is_polling.set(false);
        let now_ns = self.scheduler.world().now_ns();
        self.busy_time.stop(&self.shared().counters, now_ns);
        self.searching
            .take()
            .map(|searching| self.scheduler.idle.retire(searching));
        self.set_closing();
        let shared = self.shared();
        while let Some(task) = shared.lifo.take().or_else(|| shared.ring.pop()) {
            self.scheduler.world().discard(task); // which cancels it, or hands it on
        }
        self.yields.drop_deferred();
        self.scheduler.cancel_idle();
        self.scheduler.world().left(self.index);
    }
}

/// Whether the count of polls, modulo 2³², has come to `due`, or has passed it: a worker that leaves
/// its loop, or is interrupted by a panic, may have counted a poll without doing what was due.
#[inline(always)]
fn has_come(tick: u32, due: u32) -> bool {
    tick.wrapping_sub(due).cast_signed() >= 0
}

/// Runs tasks until the worker leaves, or has left this thread. The thread has entered
/// `depth` runtimes, the worker's own last.
fn run_tasks(depth: usize) {
    while let Some(poll_loop) = with_current(Worker::enter_loop).flatten() {
        match poll_loop {
            PollLoop::Unobserved => run_unobserved_tasks(depth),
            PollLoop::Recorded => run_recorded_tasks(depth),
            PollLoop::Observed => run_observed_tasks(depth),
        }
    }
}

fn run_unobserved_tasks(depth: usize) {
    while let Some(task) = with_current(Worker::next_task).flatten() {
        finish_poll(poll(task, depth, with_full_budget), |_, _| {}); // inlined, unlike `run_task`
    }
}

#[inline(never)]
fn run_recorded_tasks(depth: usize) {
    while let Some(task) = with_current(Worker::next_recorded_task).flatten() {
        finish_poll(
            poll(task, depth, with_full_budget),
            Worker::end_recorded_poll,
        );
    }
}

#[cold]
fn run_observed_tasks(depth: usize) {
    while let Some(task) = with_current(Worker::next_task).flatten() {
        run_observed(task, depth);
    }
}

/// Polls a task, in its own runtime and with a full budget. Nothing of the worker is
/// borrowed meanwhile.
pub(crate) fn run_task(task: Runnable, depth: usize) {
    finish_poll(poll(task, depth, with_full_budget), |_, _| {});
}

/// Like [`run_task`], and records the poll.
pub(crate) fn run_recorded(task: Runnable, depth: usize) {
    with_current(|worker| worker.start_recorded_poll(task.header()));
    finish_poll(
        poll(task, depth, with_full_budget),
        Worker::end_recorded_poll,
    );
}

/// Like [`run_task`], with the budget of the scheduler, and observes the poll.
#[cold]
pub(crate) fn run_observed(task: Runnable, depth: usize) {
    let mut info = TaskInfo::new(task.header());
    let hooks = with_current(|worker| worker.start_observed_poll(task.header(), &mut info));
    let hooks = hooks.flatten();
    // Nothing of the worker is borrowed: hooks are foreign code.
    if let Some(scheduler) = &hooks {
        scheduler.world().before_poll(&info);
        with_current(|worker| worker.recorder.restart_poll(worker.event_time_ns()));
    }
    let budget = with_current(|worker| worker.scheduler.config.budget);
    let run = |task: Runnable| coop::with_budget_of(budget.unwrap_or_default(), || task.run());
    let ran = poll(task, depth, run);
    // Not if the task has handed the worker to another thread (O2).
    with_current(|worker| worker.end_observed_poll(&ran));
    if let Some(scheduler) = &hooks {
        scheduler.world().after_poll(&info);
    }
    finish_poll(ran, |_, _| {});
}

/// Like [`run_task`], on a thread that has no worker: with the budget of `scheduler`, and between
/// its hooks. No event is recorded, since recorders belong to workers.
pub(crate) fn run_without_worker(scheduler: &Scheduler, task: Runnable, depth: usize) {
    let has_hooks = scheduler.observation.switches().has(ObservedSet::HOOKS);
    let info = has_hooks.then(|| TaskInfo::new(task.header()));
    if let Some(info) = &info {
        scheduler.world().before_poll(info);
    }
    if context_depth() != depth {
        scheduler.world().restore_context(depth);
    }
    let run = |task: Runnable| coop::with_budget_of(scheduler.config.budget, || task.run());
    let ran = scheduler
        .observation
        .time_outside_poll(|| scheduler.world().now_ns(), || poll(task, depth, run));
    if let Some(info) = &info {
        scheduler.world().after_poll(info);
    }
    finish_poll(ran, |_, _| {});
}

#[inline(always)]
fn with_full_budget(task: Runnable) -> RunOutcome {
    coop::start();
    let ran = task.run();
    coop::stop();
    ran
}

/// Polls a task by `run`, in its own runtime.
#[inline(always)]
fn poll(task: Runnable, depth: usize, run: impl FnOnce(Runnable) -> RunOutcome) -> RunOutcome {
    if context_depth() != depth {
        restore_context(depth);
    }
    run(task)
}

/// Calls `record`, and queues the task of a poll again if it wants to run again.
#[inline(always)]
fn finish_poll(ran: RunOutcome, record: impl FnOnce(&Worker, &RunOutcome)) {
    current::with_worker(|worker| match worker {
        Some(worker) => {
            record(worker, &ran);
            worker.end_poll(ran);
        }
        // The task handed the worker to another thread, which writes its recorder (O2).
        None => match ran {
            RunOutcome::Woken(task) | RunOutcome::Yielded(task) => task.schedule(),
            RunOutcome::Complete | RunOutcome::Idle(_) => {}
        },
    });
}

/// Makes the worker's runtime current again if foreign code (an earlier poll, a waker or a
/// hook) has left another one behind.
#[cold]
fn restore_context(depth: usize) {
    let scheduler = with_current(|worker| worker.scheduler.clone());
    if let Some(scheduler) = scheduler.filter(|_| context_depth() != depth) {
        scheduler.world().restore_context(depth);
    }
}

/// Calls `visit` with the worker that the calling thread runs; returns `None` if
/// the worker was handed off.
#[inline(always)] // into the run loops
fn with_current<R>(visit: impl FnOnce(&Worker) -> R) -> Option<R> {
    current::with_worker(|worker| worker.map(visit))
}

/// Marks the calling thread's worker as running, after it has waited in its drivers and
/// before it calls wakers.
pub fn end_park() {
    current::with_worker(|worker| worker.map(Worker::end_park));
}

/// Whether the calling thread polls a task for a worker that records events.
pub fn is_recording() -> bool {
    let records =
        |worker: &Worker| worker.is_polling() && worker.observed.get().has(ObservedSet::EVENTS);
    with_current(records) == Some(true)
}

/// Records that a span with that name begins, if the calling thread polls a task for a worker
/// that records events.
pub fn record_span_enter(name: &'static &'static str) {
    record_if_polling(Event::SpanEnter { name });
}

/// Records that the span ends that began last.
pub fn record_span_exit() {
    record_if_polling(Event::SpanExit);
}

fn record_if_polling(event: Event) {
    with_current(|worker| {
        if worker.is_polling() {
            worker.record(event);
        }
    });
}

/// The index of the worker whose thread this is.
pub fn current_index() -> Option<usize> {
    current::with_worker(|worker| worker.map(Worker::index))
}

/// Calls the wakers that wait for the current worker's next driver turn, if it polls a
/// task. Nothing of the worker is borrowed meanwhile: they are foreign code.
pub(crate) fn wake_deferred() {
    let deferred = current::with_worker(|worker| {
        let worker = worker.filter(|worker| worker.is_polling())?;
        Some(worker.yields.take_deferred())
    });
    for waker in deferred.into_iter().flatten() {
        quietly(|| wake_cause::during(WakeCause::Yield, || waker.wake()));
    }
}

/// Calls `waker` after the current worker's next driver turn; returns false if
/// the thread has no worker.
pub fn defer(waker: &Waker) -> bool {
    if current_index().is_none() {
        return false;
    }
    // Before the worker is borrowed: a clone is foreign code, which may even hand
    // the worker to another thread.
    let waker = waker.clone();
    let left = current::with_worker(|worker| match worker {
        Some(worker) => {
            worker.yields.defer(waker);
            None
        }
        None => Some(waker),
    });
    if let Some(waker) = left {
        waker.wake();
    }
    true
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::inject::Arrival;
    use crate::scheduler::Config;
    use crate::testing::{StillWorld, Tasks, id};

    #[test]
    fn a_worker_that_leaves_its_loop_does_not_forget_the_injection_queue() {
        const INTERVAL: u32 = 7;
        let mut config = Config::new(1);
        config.inject_interval = Some(INTERVAL);
        let scheduler = Scheduler::new(config, Box::new(StillWorld::default()));
        let worker = Worker::new(scheduler.clone(), 0);
        worker.set_next_maintenance();
        worker.set_next_fetch();
        let tasks = Tasks::new();
        let ring = &scheduler.shared[0].ring;
        for _ in 0..2 * INTERVAL {
            ring.push(tasks.next(), |_| unreachable!("there is room"));
        }
        let injected = tasks.next();
        let injected_id = id(&injected);
        scheduler
            .inject
            .push(0, injected, Arrival::Woken, |_| unreachable!("it is open"));
        let next_id = || {
            let task = worker.next_task()?;
            let id = id(&task);
            task.forget();
            Some(id)
        };
        for _ in 1..INTERVAL {
            assert_ne!(next_id(), Some(injected_id), "not due yet");
        }
        // As when tracing is switched on: the loop ends with the poll in which it would look.
        worker.leave_loop();
        assert_eq!(next_id(), None);
        assert_eq!(worker.enter_loop(), Some(PollLoop::Unobserved));
        assert_eq!(next_id(), Some(injected_id));
        while let Some(task) = ring.pop() {
            task.forget();
        }
        tasks.close();
        scheduler.close();
    }

    /// A worker that runs, and has nothing else to do for a while.
    fn running_worker() -> Worker {
        let mut config = Config::new(1);
        config.inject_interval = Some(100_000);
        config.event_interval = Some(100_000);
        let scheduler = Scheduler::new(config, Box::new(StillWorld::default()));
        let worker = Worker::new(scheduler, 0);
        worker.start();
        assert_eq!(worker.enter_loop(), Some(PollLoop::Unobserved));
        worker
    }

    /// Polls nothing, and returns which task would have been polled.
    fn next_id(worker: &Worker) -> u64 {
        let task = worker.next_task().unwrap();
        let id = id(&task);
        task.forget();
        id
    }

    #[test]
    fn newest_tasks_run_on_until_another_one_waits() {
        let (worker, tasks) = (running_worker(), Tasks::new());
        for _ in 0..10 * MAX_LIFO_POLLS {
            worker.push_woken(tasks.next());
            assert_eq!(Some(&next_id(&worker)), tasks.ids().last());
        }
        let counters = &worker.shared().counters;
        assert_eq!(counters.lifo_hits.get(), 10 * u64::from(MAX_LIFO_POLLS));
        let waiting = tasks.next();
        let waiting_id = id(&waiting);
        worker.push_ring(waiting);
        let runs_newest = |_: &u32| {
            worker.push_woken(tasks.next());
            next_id(&worker) != waiting_id
        };
        let newest = (0..=MAX_LIFO_POLLS).take_while(runs_newest).count();
        assert!(newest <= MAX_LIFO_POLLS as usize, "it does not starve");
        assert_eq!(Some(&next_id(&worker)), tasks.ids().last());
        tasks.close();
        worker.scheduler.close();
    }

    #[test]
    fn a_task_that_is_woken_on_a_parked_worker_ends_its_park() {
        let (worker, tasks) = (running_worker(), Tasks::new());
        let _ = worker.scheduler.idle.park(0, None);
        worker.set_parked();
        worker.push_woken(tasks.next());
        assert!(!worker.scheduler.idle.is_parked(0));
        assert_eq!(next_id(&worker), tasks.ids()[0]);
        tasks.close();
        worker.scheduler.close();
    }

    #[test]
    fn a_row_of_polls_ends_where_the_loop_has_something_to_do() {
        for inject_interval in [7, 100_000] {
            let mut config = Config::new(1);
            config.inject_interval = Some(inject_interval);
            let scheduler = Scheduler::new(config, Box::new(StillWorld::default()));
            let worker = Worker::new(scheduler.clone(), 0);
            worker.set_next_maintenance();
            worker.set_next_fetch();
            assert_eq!(worker.enter_loop(), Some(PollLoop::Unobserved));
            assert!(!worker.renew_poll(), "no task is polled");
            worker.is_polling.set(true);
            while worker.renew_poll() {}
            let due = worker.next_fetch.get().min(worker.next_clock.get());
            assert_eq!(worker.tick.get() + 1, due);
            scheduler.close();
        }
    }
}
