//! A worker: finds a task, runs it, and sleeps when there is none.
//!
//! The loop to read first is [`Worker::run`], then [`Worker::find_task`].

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Acquire;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use blitzen_task::{RunOutcome, Runnable};
use blitzen_util::coop;
use blitzen_util::rng::Rng;
use blitzen_util::shim::atomic::Ordering::Relaxed;
use blitzen_util::shim::hint;

use crate::current;
use crate::handoff::Epoch;
use crate::idle::{Retired, Searching};
use crate::pace::{BUSY_BATCH, MAX_BATCH, MAX_LIFO_POLLS, Pace};
use crate::ring::{CAPACITY, HALF, Overflow};
use crate::scheduler::{Scheduler, WorkerShared};
use crate::spawn_backoff::SpawnBackoff;
use crate::world::World;

/// Looks at a newest task that does not move before a thief takes it: up to a
/// microsecond (a processor pauses for 5 to 50 ns), in which a worker that is not
/// stuck would have run it.
const LOOKS_BEFORE_TAKING: u32 = 16;

/// What waking a sleeper costs, and about the time until it runs.
pub(crate) const WAKE_NS: u64 = 20_000;

/// What a worker keeps for itself. It belongs to one thread at a time.
pub struct Worker {
    scheduler: Arc<Scheduler>,
    index: usize,
    rng: RefCell<Rng>,
    pace: RefCell<Pace>,
    tick: Cell<u32>,
    /// The tick at which the injection queue is looked at next, and the drivers.
    next_fetch: Cell<u32>,
    next_events: Cell<u32>,
    /// When the current stretch of polls began, and its first tick.
    stretch_ns: Cell<u64>,
    stretch_tick: Cell<u32>,
    /// The tick of the last look at the drivers.
    turned_tick: Cell<u32>,
    busy_since_ns: Cell<u64>,
    /// Runs of the newest-task slot in a row.
    lifo_streak: Cell<u32>,
    spawn_backoff: SpawnBackoff,
    searching: Cell<Option<Searching>>,
    /// The drivers are at it, and whether they have woken more than one task.
    gathering: Cell<bool>,
    gathered: Cell<bool>,
    /// Wakers to call after the next look at the drivers.
    deferred: RefCell<Vec<Waker>>,
    /// Whether a task yielded since the last look at the drivers, and how many
    /// of those that were queued before it are still to run.
    yielded: Cell<bool>,
    yield_round: Cell<u32>,
    /// Its thread's last errand.
    errand: Cell<Epoch>,
    /// It has had a thread before.
    begun: Cell<bool>,
    /// Leaving: what is woken now is cancelled by the last one out.
    closing: Cell<bool>,
}

/// What one step of a worker came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It ran a task.
    RunOutcome,
    /// It found nothing, and would sleep.
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
            scheduler,
            index,
            tick: Cell::new(0),
            next_fetch: Cell::new(1),
            next_events: Cell::new(1),
            stretch_ns: Cell::new(0),
            stretch_tick: Cell::new(0),
            turned_tick: Cell::new(0),
            busy_since_ns: Cell::new(0),
            lifo_streak: Cell::new(0),
            spawn_backoff: SpawnBackoff::default(),
            searching: Cell::new(None),
            gathering: Cell::new(false),
            gathered: Cell::new(false),
            deferred: RefCell::new(Vec::new()),
            yielded: Cell::new(false),
            yield_round: Cell::new(0),
            errand: Cell::new(Epoch::NONE),
            begun: Cell::new(false),
            closing: Cell::new(false),
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

    #[inline]
    fn shared(&self) -> &WorkerShared {
        &self.scheduler.shared[self.index]
    }

    /// Runs tasks on the calling thread until the scheduler closes, or a task
    /// hands the worker to another thread.
    pub fn run(self) {
        let scheduler = self.scheduler.clone();
        current::install(Box::new(self));
        current::with_worker(|worker| worker.map(Worker::begin));
        while let Some(task) = current::with_worker(|worker| worker?.next_task()) {
            run_task(task);
        }
        close_current();
        // A thread that has handed its worker over was counted for itself.
        scheduler.leave();
    }

    /// Runs one task, or tells that there is none: for a scheduler whose
    /// workers take turns on one thread. Gives the worker back unless it left.
    pub fn step(self: Box<Self>) -> (Option<Box<Self>>, Step) {
        current::install(self);
        let found = current::with_worker(|worker| {
            let worker = worker?;
            worker.begin();
            if worker.must_leave() {
                return None;
            }
            worker.count_tick();
            Some(worker.find_task())
        });
        let step = match found {
            None => {
                let scheduler = current::with_worker(|worker| worker.map(|w| w.scheduler.clone()));
                close_current();
                scheduler.inspect(|scheduler| scheduler.leave());
                return (None, Step::Left);
            }
            Some(None) => Step::Idle,
            Some(Some(task)) => {
                run_task(task);
                Step::RunOutcome
            }
        };
        match current::remove() {
            Some(worker) => {
                worker.stop_searching();
                (Some(worker), step)
            }
            None => (None, Step::Left),
        }
    }

    /// A thread begins to run it: for the first time, or because the one it had
    /// blocks.
    fn begin(&self) {
        if !self.begun.replace(true) {
            let interval = self.pace.borrow().event_interval();
            self.next_events.set(self.tick.get().wrapping_add(interval));
            self.woke();
        }
    }

    /// The next task to run; sleeps until there is one. `None` when the
    /// scheduler has closed.
    fn next_task(&self) -> Option<Runnable> {
        self.count_tick();
        loop {
            if self.must_leave() {
                return None;
            }
            if let Some(task) = self.find_task() {
                self.shared().counters.polls.bump();
                return Some(task);
            }
            self.sleep();
        }
    }

    /// The next task to run beside a future, if there is one.
    fn next_beside(&self) -> Option<Runnable> {
        self.count_tick();
        if self.tick.get() == self.next_events.get() {
            self.look_up();
        }
        let task = self.find_task()?;
        self.shared().counters.polls.bump();
        Some(task)
    }

    #[inline]
    fn must_leave(&self) -> bool {
        if self.tick.get() == self.next_events.get() {
            self.look_up();
        }
        self.closing.get()
    }

    /// One more poll.
    #[inline]
    fn count_tick(&self) {
        let tick = self.tick.get().wrapping_add(1);
        self.tick.set(tick);
        let shared = self.shared();
        shared.tick.store(tick, Relaxed);
    }

    fn find_task(&self) -> Option<Runnable> {
        let task = self
            .fetch_if_due() // tasks from outside, every so many polls
            .or_else(|| self.pop_local()) // the newest task, then the ring
            .or_else(|| self.finish_yields())
            .or_else(|| self.fetch(MAX_BATCH))
            .or_else(|| self.steal())?;
        self.stop_searching();
        Some(task)
    }

    /// The newest task, unless it had its turn too often, then the oldest.
    #[inline]
    fn pop_local(&self) -> Option<Runnable> {
        let shared = self.shared();
        if self.lifo_streak.get() < MAX_LIFO_POLLS {
            let newest = shared.lifo.take();
            self.spawn_backoff.looked(newest.is_some());
            if newest.is_some() {
                self.lifo_streak.set(self.lifo_streak.get() + 1);
                shared.counters.lifo_hits.bump();
                return newest;
            }
        } else if let Some(newest) = shared.lifo.take() {
            self.spawn_backoff.looked(true);
            self.push_ring(newest);
        }
        self.lifo_streak.set(0);
        if self.yielded.get() {
            self.count_yield_round();
        }
        shared.ring.pop()
    }

    /// When all that was queued before a yield has run, the drivers get a look
    /// before the task that gave way goes on.
    fn count_yield_round(&self) {
        match self.yield_round.get() {
            0 => self.turn_drivers(),
            left => self.yield_round.set(left - 1),
        }
    }

    /// If all that was queued before a yield has run: lets the drivers have
    /// their look now. Tells whether it was so.
    #[inline]
    fn end_yield_round(&self) -> bool {
        let is_over = self.yielded.get() && self.yield_round.get() == 0;
        if is_over {
            self.turn_drivers();
        }
        is_over
    }

    /// With nothing else to do, those that gave way get their turn, after a
    /// look at the drivers.
    fn finish_yields(&self) -> Option<Runnable> {
        if self.deferred.borrow().is_empty() {
            return None;
        }
        self.turn_drivers();
        self.share_gathered();
        self.pop_local()
    }

    #[inline]
    fn fetch_if_due(&self) -> Option<Runnable> {
        if self.tick.get() != self.next_fetch.get() {
            return None;
        }
        self.set_next_fetch();
        self.fetch(BUSY_BATCH)
    }

    fn set_next_fetch(&self) {
        let interval = self.pace.borrow().inject_interval();
        self.next_fetch.set(self.tick.get().wrapping_add(interval));
    }

    /// A share of the injection queue: one task in hand, the others at once in
    /// the ring, where thieves find them.
    fn fetch(&self, most: usize) -> Option<Runnable> {
        let scheduler = &*self.scheduler;
        if scheduler.inject.is_empty() {
            return None;
        }
        let shared = self.shared();
        let room = shared.ring.room() as usize;
        let mut first = None;
        let fetched = scheduler
            .inject
            .fetch(self.index, most.min(room + 1), |task| match first {
                None => first = Some(task),
                Some(_) => shared.ring.push(task, |_| unreachable!("there is room")),
            });
        if fetched > 0 {
            shared.counters.global_batch_fetches.bump();
            shared.counters.tasks_fetched.add(fetched as u64);
        }
        if fetched > 1 {
            self.share();
        }
        first
    }

    /// Half of somebody's ring; on the last pass also a newest task that its
    /// worker does not come to.
    fn steal(&self) -> Option<Runnable> {
        let scheduler = &*self.scheduler;
        let workers = scheduler.workers();
        if workers == 1 || !self.start_searching() {
            return None;
        }
        let start = self.rng.borrow_mut().below(workers as u32) as usize;
        let victims = (0..workers)
            .map(|offset| (start + offset) % workers)
            .filter(|&victim| victim != self.index);
        let oldest = |victim| self.steal_oldest(victim);
        let newest = |victim| self.take_stale_newest(victim);
        victims.clone().find_map(oldest).or_else(|| {
            victims
                .filter(|&victim| !scheduler.idle.is_parked(victim))
                .find_map(newest)
        })
    }

    /// Half of the ring.
    fn steal_oldest(&self, victim: usize) -> Option<Runnable> {
        let shared = self.shared();
        shared.counters.steal_attempts.bump();
        let stolen = self.scheduler.shared[victim]
            .ring
            .steal_into(&shared.ring)?;
        shared.counters.steal_successes.bump();
        shared.counters.tasks_stolen.add(stolen.count.into());
        Some(stolen.first)
    }

    /// The newest task of a worker that has not moved for about a microsecond. If
    /// it has been pushed into the ring meanwhile, from there.
    fn take_stale_newest(&self, victim: usize) -> Option<Runnable> {
        let shared = &self.scheduler.shared[victim];
        let seen = shared.lifo.peek()?;
        let tick = shared.tick.load(Relaxed);
        for _ in 0..LOOKS_BEFORE_TAKING {
            hint::spin_loop();
            if shared.lifo.peek() != Some(seen) || shared.tick.load(Relaxed) != tick {
                return self.steal_oldest(victim);
            }
        }
        let task = shared.lifo.take_if(seen)?;
        let counters = &self.shared().counters;
        counters.steal_successes.bump();
        counters.tasks_stolen.bump();
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

    /// Work was found. The last to search looks whether there is more of it
    /// than one worker needs.
    #[inline]
    fn stop_searching(&self) {
        if let Some(searching) = self.searching.take()
            && self.scheduler.idle.retire(searching) == Retired::Last
            && self.scheduler.has_work()
        {
            self.scheduler.notify();
        }
    }

    /// Wakes a sleeper for what is in this worker's queue.
    #[inline]
    fn share(&self) {
        if let Some(worker) = self.scheduler.idle.worker_to_share_with() {
            self.scheduler.world().interrupt(worker);
        }
    }

    /// Wakes a sleeper for what is in this worker's queue if that takes longer
    /// than a sleeper takes to come. If it does against all experience, the monitor
    /// notices.
    #[inline]
    fn share_if_long(&self) {
        let idle = &self.scheduler.idle;
        if idle.is_company_asleep()
            && self.pace.borrow().expected_ns(self.shared().ring.len()) > WAKE_NS
        {
            self.share();
        }
    }

    /// A task was spawned on this worker.
    pub(crate) fn push_spawned(&self, task: Runnable) {
        let shared = self.shared();
        shared.counters.tasks_submitted.bump();
        let alone = shared.lifo.peek().is_none() && shared.ring.is_empty();
        if self.push_newest(task) || alone && self.spawn_backoff.spawned() {
            self.share();
        }
    }

    /// A task of this scheduler was woken on this worker. Nobody is told when
    /// it is the only one: it is likely to run next.
    #[inline]
    pub(crate) fn push_woken(&self, task: Runnable) {
        if self.push_newest(task) {
            self.share_if_long();
        }
    }

    /// Queues a task to run next; true if there are now others that wait.
    #[inline]
    fn push_newest(&self, task: Runnable) -> bool {
        if self.closing.get() {
            task.forget(); // the last one out cancels it
            return false;
        }
        let shared = self.shared();
        shared.counters.local_schedules.bump();
        let older = match self.scheduler.config.lifo {
            true => shared.lifo.replace(task),
            false => Some(task),
        };
        let Some(older) = older else { return false };
        self.push_ring(older);
        if self.gathering.get() {
            self.gathered.set(true);
        }
        !self.gathering.get()
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
        self.scheduler.inject.push_all(self.index, overflow.tasks);
        self.scheduler.notify();
    }

    /// A task has run and wants to run again.
    fn requeue(&self, ran: RunOutcome) {
        match ran {
            RunOutcome::Complete => self.shared().counters.tasks_completed.bump(),
            RunOutcome::Idle => {}
            RunOutcome::Woken(task) => {
                self.push_ring(task);
                self.share_if_long();
            }
            RunOutcome::Yielded(task) => {
                self.shared().counters.yields.bump();
                if !self.yielded.replace(true) {
                    self.yield_round.set(self.shared().ring.len());
                }
                self.push_ring(task);
            }
        }
    }

    /// What happens every so many polls: drivers, pace, stuck siblings.
    fn look_up(&self) {
        let scheduler = &*self.scheduler;
        let now = scheduler.world().now_ns();
        let polls = self.tick.get().wrapping_sub(self.stretch_tick.get());
        let elapsed = now.saturating_sub(self.stretch_ns.get());
        if polls > 0 {
            let counters = &self.shared().counters;
            counters.sampled_run_ns.add(elapsed);
            counters.sampled_runs.add(polls.into());
            counters.max_run_ns.raise_to(elapsed / u64::from(polls));
            self.pace.borrow_mut().sample(elapsed, polls);
        }
        self.stretch_ns.set(now);
        self.stretch_tick.set(self.tick.get());
        let interval = self.pace.borrow().event_interval();
        self.next_events.set(self.tick.get().wrapping_add(interval));
        if self.has_room_for_events() {
            self.turn_drivers();
        }
        if scheduler.workers() > 1 && scheduler.monitor.is_due(now) {
            self.look_after_siblings();
        }
        if scheduler.is_closed() {
            self.closing.set(true);
        }
    }

    /// A look at the drivers fills up to half of the ring, and what does not fit
    /// would wait behind everything that comes later. So not before there is room
    /// for it, or all that was queued at the last look has run.
    fn has_room_for_events(&self) -> bool {
        let polls = self.tick.get().wrapping_sub(self.turned_tick.get());
        self.shared().ring.room() >= HALF || polls >= CAPACITY
    }

    /// Turns the drivers, then wakes those that gave way to them. Whether that
    /// is more than this worker wants to do alone,
    /// [`share_gathered`](Self::share_gathered) sees.
    fn turn_drivers(&self) {
        self.gather(|world| world.turn(self.index, Some(Duration::ZERO)));
    }

    /// Sleeps in the drivers. As long as they look around before, they look into
    /// the injection queue too: whoever filled it may have relied on somebody that
    /// has yet to wake.
    fn sleep_in_drivers(&self, max_wait: Option<Duration>) {
        let scheduler = &*self.scheduler;
        let is_over = || {
            scheduler.idle.lies_awake(self.index);
            !scheduler.inject.is_empty()
        };
        self.gather(|world| world.turn_until(self.index, max_wait, &is_over));
    }

    fn gather(&self, turn: impl FnOnce(&dyn World)) {
        self.yielded.set(false);
        self.turned_tick.set(self.tick.get());
        self.gathering.set(true);
        turn(self.scheduler.world());
        self.wake_deferred();
        self.gathering.set(false);
    }

    /// Wakes a sleeper for what the drivers have woken, if that is much.
    fn share_gathered(&self) {
        if self.gathered.replace(false) {
            self.share_if_long();
        }
    }

    fn wake_deferred(&self) {
        // A waker may defer again: only those there now are called.
        let deferred = std::mem::take(&mut *self.deferred.borrow_mut());
        for waker in deferred {
            // A foreign waker that panics must not take the worker along.
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }

    /// Serves workers that are stuck in a poll.
    fn look_after_siblings(&self) {
        let scheduler = &*self.scheduler;
        scheduler.monitor.look(
            |worker| match worker == self.index {
                true => None,
                false => scheduler.progress_of_running(worker),
            },
            |stuck, errand| {
                self.shared().counters.rescues.bump();
                self.scheduler.relieve(stuck, errand);
                scheduler.world().serve(stuck);
                let shared = &scheduler.shared[stuck];
                let newest = shared.lifo.take();
                let oldest = shared.ring.steal_into(&self.shared().ring);
                let tasks = newest.into_iter().chain(oldest.map(|stolen| stolen.first));
                tasks.for_each(|task| self.push_ring(task));
            },
            |worker, run_ns| scheduler.share_queue_of(worker, run_ns),
        );
    }

    /// The next errand of its thread; `None` if it is leaving, and has nothing
    /// to leave behind.
    pub(crate) fn next_epoch(&self) -> Option<Epoch> {
        if self.closing.get() {
            return None;
        }
        let errand = self.errand.get().next();
        self.errand.set(errand);
        Some(errand)
    }

    fn has_local_work(&self) -> bool {
        let shared = self.shared();
        !shared.ring.is_empty() || shared.lifo.peek().is_some()
    }

    /// Sleeps until there may be work.
    fn sleep(&self) {
        let scheduler = &*self.scheduler;
        let world = scheduler.world();
        let counters = &self.shared().counters;

        world.before_park(self.index);
        let retired = scheduler.idle.park(self.index, self.searching.take());
        let stay = scheduler.is_closed()
            || self.has_local_work()
            || !self.deferred.borrow().is_empty()
            || retired == Retired::Last && scheduler.has_work();
        if stay && scheduler.idle.claim(self.index) {
            self.searching.set(scheduler.idle.try_search());
            if scheduler.is_closed() {
                self.closing.set(true);
            }
            return;
        }

        counters.park_events.bump();
        let now = world.now_ns();
        counters
            .busy_ns
            .add(now.saturating_sub(self.busy_since_ns.get()));
        let polls = self.tick.get().wrapping_sub(self.stretch_tick.get());
        let elapsed = now.saturating_sub(self.stretch_ns.get());
        self.pace.borrow_mut().sample(elapsed, polls);
        scheduler.monitor.changed(|| scheduler.needs_watching());
        self.sleep_in_drivers(scheduler.monitor.limit(scheduler.config.park_timeout));
        self.woke();
        self.share_gathered();
        if scheduler.monitor.is_missing() && scheduler.monitor.is_due(world.now_ns()) {
            self.look_after_siblings();
        }
    }

    /// Nobody runs this worker for a while.
    fn rest(&self) {
        let counters = &self.shared().counters;
        let now = self.scheduler.world().now_ns();
        counters
            .busy_ns
            .add(now.saturating_sub(self.busy_since_ns.get()).max(1));
        counters.park_events.bump();
        let _ = self.scheduler.idle.park(self.index, self.searching.take());
    }

    /// Awake again: by its own drivers, or by somebody that counted it as
    /// searching.
    fn woke(&self) {
        let scheduler = &*self.scheduler;
        let world = scheduler.world();
        if !scheduler.idle.claim(self.index) {
            let searching = match scheduler.is_closed() {
                true => None, // woken to leave, and counted by nobody
                false => Some(scheduler.idle.searching_on_wake()),
            };
            self.searching.set(searching);
        }
        scheduler.monitor.changed(|| scheduler.needs_watching());
        self.shared().counters.unpark_events.bump();
        let now = world.now_ns();
        self.busy_since_ns.set(now);
        self.stretch_ns.set(now);
        self.stretch_tick.set(self.tick.get());
        self.set_next_fetch();
        world.after_unpark(self.index);
        if scheduler.is_closed() {
            self.closing.set(true);
        }
    }

    /// Cancels what is queued here, and what waits to be woken anywhere.
    fn close(&self) {
        let counters = &self.shared().counters;
        let now = self.scheduler.world().now_ns();
        counters
            .busy_ns
            .add(now.saturating_sub(self.busy_since_ns.get()).max(1));
        self.searching
            .take()
            .map(|searching| self.scheduler.idle.retire(searching));
        self.closing.set(true);
        let shared = self.shared();
        while let Some(task) = shared.lifo.take().or_else(|| shared.ring.pop()) {
            drop(task);
        }
        self.deferred.borrow_mut().clear();
        self.scheduler.cancel_idle();
        self.scheduler.world().left(self.index);
    }
}

/// A worker that nobody will run any more, since the pool that was to go on with
/// it has closed: it leaves like any other.
impl Drop for Worker {
    fn drop(&mut self) {
        if self.begun.get() && !self.closing.get() {
            self.close();
            self.scheduler.leave();
        }
    }
}

/// Polls a task with a full budget; nothing of the worker is borrowed.
fn run_task(task: Runnable) {
    coop::start();
    let ran = task.run();
    coop::stop();
    current::with_worker(|worker| match worker {
        Some(worker) => worker.requeue(ran),
        // The task handed the worker to another thread.
        None => match ran {
            RunOutcome::Woken(task) | RunOutcome::Yielded(task) => task.schedule(),
            RunOutcome::Complete | RunOutcome::Idle => {}
        },
    });
}

/// Lets the calling thread's worker, if it has one, cancel what it knows of.
fn close_current() {
    current::with_worker(|worker| worker.map(Worker::close));
    drop(current::remove());
}

/// Takes the worker away from the calling thread, so that another can go on
/// with it while this one blocks. `None` if the thread has none.
pub fn hand_over() -> Option<Worker> {
    let worker = current::with_worker(|worker| {
        // One that is leaving has nothing to hand on.
        let worker = worker.filter(|worker| !worker.closing.get())?;
        worker.wake_deferred();
        worker.stop_searching();
        // This thread has a task in hand, and leaves on its own.
        worker.scheduler.join();
        Some(())
    });
    worker
        .and_then(|()| current::remove())
        .map(|worker| *worker)
}

/// A worker that the caller of `block_on` runs beside its own future.
pub struct CoreGuard {
    /// The worker is this thread's.
    not_send: PhantomData<*const ()>,
}

impl CoreGuard {
    /// Takes the worker's place: its tasks run on the calling thread.
    pub fn take(worker: Box<Worker>) -> Self {
        current::install(worker);
        with_own(|worker| {
            worker.begun.set(false); // it rested
            worker.begin();
        });
        Self {
            not_send: PhantomData,
        }
    }

    /// Polls `future`, and the worker's tasks beside it, until the future ends.
    /// Its `waker` sets `woken` and interrupts the worker's turn.
    pub fn drive<F: Future>(
        &self,
        mut future: Pin<&mut F>,
        waker: &Waker,
        woken: &AtomicBool,
    ) -> F::Output {
        let mut cx = Context::from_waker(waker);
        loop {
            // Acquire, met by the Release of the waker: what it published
            // before is seen by this poll.
            if woken.swap(false, Acquire)
                && let Poll::Ready(output) = coop::with_budget(|| future.as_mut().poll(&mut cx))
            {
                return output;
            }
            let mut left = with_own(|worker| worker.pace.borrow().event_interval());
            loop {
                if left == 0 {
                    break with_own(Worker::look_up);
                }
                left -= 1;
                with_own(|worker| worker.scheduler.world().between_polls());
                // The future has its turn among tasks that give way.
                if with_own(Worker::end_yield_round) && woken.load(Relaxed) {
                    break;
                }
                match with_own(Worker::next_beside) {
                    Some(task) => run_task(task),
                    None if woken.load(Relaxed) => break,
                    None => break with_own(Worker::sleep),
                }
            }
        }
    }

    /// Leaves the place, and takes the worker along.
    pub fn leave(self) -> Box<Worker> {
        with_own(Worker::rest);
        match current::remove() {
            Some(worker) => worker,
            None => unreachable!("a seat is taken"),
        }
    }

    /// Cancels every task; the scheduler is closed.
    pub fn close(self) {
        let scheduler = with_own(|worker| worker.scheduler.clone());
        close_current();
        scheduler.leave();
    }
}

/// Lends the worker of a thread that has a [`CoreGuard`].
fn with_own<R>(visit: impl FnOnce(&Worker) -> R) -> R {
    current::with_worker(|worker| match worker {
        Some(worker) => visit(worker),
        None => unreachable!("a seat is taken"),
    })
}

/// The index of the worker whose thread this is.
pub fn current_index() -> Option<usize> {
    current::with_worker(|worker| worker.map(Worker::index))
}

/// Calls `waker` after the current worker's next look at its drivers; gives it
/// back if the thread has no worker.
pub fn defer(waker: &Waker) -> bool {
    current::with_worker(|worker| match worker {
        Some(worker) => {
            worker.deferred.borrow_mut().push(waker.clone());
            true
        }
        None => false,
    })
}
