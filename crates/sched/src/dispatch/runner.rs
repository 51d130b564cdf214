//! What takes tasks out of the queue of a dispatcher and polls them: tasks, jobs of the
//! blocking pool, and jobs of a foreign executor.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use blitzen_task::{RunOutcome, Runnable};
use blitzen_util::backoff::Backoff;
use blitzen_util::shim::atomic::Ordering::Relaxed;

use super::groups::{Picked, QUANTUM_NS};
use super::parked_runners::RunnerTask;
use super::permits::{PermitOf, poll_with};
use super::{
    CoreQueue, DispatcherCore, LONG_POLL_NS, Nested, POLLS_PER_TURN, PresentThread, TIMED_TURNS,
    TURN_NS, Target,
};
use crate::scheduler::Scheduler;

/// How the turn of a runner ended.
enum TurnEnd {
    /// There may be more: it has another turn after other tasks.
    Over,
    /// The queue was empty: it is woken for the next task.
    Parked,
    /// The queue was empty or is closed, or another runner goes on: it ends.
    Ended,
}

/// A task that polls those of a dispatcher.
pub(super) struct Runner {
    core: Weak<DispatcherCore>,
    /// Has a permit until it has found the queue empty, and again when it is woken for a task (Q5).
    task: RunnerTask,
}

impl Runner {
    /// A runner that has a permit.
    pub(super) fn new(core: &Arc<DispatcherCore>) -> Self {
        if let Target::Elastic { in_place, .. } = &core.target {
            in_place.fetch_add(1, Relaxed);
        }
        Self {
            core: Arc::downgrade(core),
            task: RunnerTask::new(),
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let Some(core) = self.core.upgrade() else {
            return;
        };
        if let Target::Elastic { in_place, .. } = &core.target {
            in_place.fetch_sub(1, Relaxed);
        }
        if self.task.has_permit() {
            hand_back(Some(core));
        }
    }
}

impl Future for Runner {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(core) = self.core.upgrade() else {
            return Poll::Ready(());
        };
        let Some(queue) = core.queue() else {
            unreachable!("only dispatchers with such a queue have runners");
        };
        if !self.task.has_permit() {
            // Q5: a poll for no reason, or the queue was closed.
            return match core.is_closed() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            };
        }
        match core.run_turn(queue, &mut self.task, cx.waker()) {
            TurnEnd::Over => {
                yield_now(cx.waker());
                Poll::Pending
            }
            TurnEnd::Parked => Poll::Pending,
            TurnEnd::Ended => {
                self.task.lose_permit();
                Poll::Ready(())
            }
        }
    }
}

fn yield_now(waker: &Waker) {
    if !blitzen_task::current::yield_if_own(waker) {
        waker.wake_by_ref();
    }
}

impl DispatcherCore {
    /// Polls tasks until the queue is empty or the turn is over (D3).
    fn run_turn(
        self: &Arc<Self>,
        queue: &CoreQueue,
        runner: &mut RunnerTask,
        waker: &Waker,
    ) -> TurnEnd {
        let world = self.scheduler.world();
        // Runners may overwrite each other's count: then another turn is timed.
        let turn = self.turns.load(Relaxed);
        self.turns.store(turn.wrapping_add(1), Relaxed);
        let is_timed = turn.is_multiple_of(TIMED_TURNS);
        let start_ns = is_timed.then(|| world.now_ns());
        let mut turn_ns = start_ns;
        let is_elastic = self.is_elastic();
        let mut polls = 0;
        let end = loop {
            // Whether a thread of the pool is better is decided again each time.
            let task_to_park = (!is_elastic).then_some((&mut *runner, waker));
            let Some(task) = queue.next(polls > 0, || (), || world.now_ns(), task_to_park) else {
                break match is_elastic || self.is_closed() {
                    true => TurnEnd::Ended,
                    false => TurnEnd::Parked,
                };
            };
            if polls == 1 && turn_ns.is_none() {
                turn_ns = Some(world.now_ns()); // there are more than one: time matters
            }
            let outcome = match &self.target {
                Target::Elastic { backoff, .. } => match self.poll_in_section(backoff, task) {
                    Ok(outcome) => outcome,
                    Err(task) => {
                        self.move_to_pool(queue, task);
                        break TurnEnd::Ended;
                    }
                },
                _ => self.poll(task),
            };
            self.requeue(outcome);
            polls += 1;
            // Looking at the clock costs as much as a short poll: not after each.
            let is_long = || {
                let begun_ns = turn_ns.filter(|_| u32::is_power_of_two(polls));
                begun_ns.is_some_and(|begun_ns| world.now_ns().saturating_sub(begun_ns) >= TURN_NS)
            };
            // A thread that has lost its worker leaves the rest to others.
            if polls == POLLS_PER_TURN || is_long() || !self.may_go_on() {
                queue.pause();
                break TurnEnd::Over;
            }
        };
        if let Some(start_ns) = start_ns {
            let took_ns = world.now_ns().saturating_sub(start_ns);
            self.busy_ns.fetch_add(took_ns * TIMED_TURNS, Relaxed);
        }
        end
    }

    /// Whether the runner may go on where it is.
    fn may_go_on(&self) -> bool {
        match &self.target {
            Target::Runners { base: Some(_), .. } => true,
            _ => self.scheduler.is_worker_here(),
        }
    }

    /// Polls a task that may block, on a worker's own thread; returns it if no other thread
    /// could go on with the worker meanwhile.
    fn poll_in_section(
        self: &Arc<Self>,
        backoff: &Backoff<1024>,
        task: Runnable,
    ) -> Result<RunOutcome, Runnable> {
        let world = self.scheduler.world();
        let start_ns = world.now_ns();
        let mut task = Some(task);
        let polled = self
            .scheduler
            .blocking_section(|| task.take().map(|task| self.poll(task)))
            .ok();
        match (polled, task) {
            (Some((Some(outcome), end)), None) => {
                let is_long = world.now_ns().saturating_sub(start_ns) > LONG_POLL_NS;
                match is_long {
                    true => backoff.fail(),
                    false => self.note_section(backoff, end),
                }
                Ok(outcome)
            }
            (_, Some(task)) => Err(task),
            _ => unreachable!("the task was polled, or was not"),
        }
    }

    /// Has a thread of the pool go on with this runner's permit.
    fn move_to_pool(self: &Arc<Self>, queue: &CoreQueue, task: Runnable) {
        let now_ns = || self.scheduler.world().now_ns();
        if let Err(task) = queue.put_back(task, || Some(self.clone()), now_ns) {
            self.scheduler.schedule(task); // D2
        }
        self.scheduler.world().run_on_pool(PoolRunner::job(self));
    }

    /// Polls a task outside the workers, unless there is none; the shutdown counts the
    /// calling thread meanwhile (D1).
    fn poll_outside(self: &Arc<Self>, queue: &CoreQueue, has_polled: bool) -> bool {
        let scheduler = &self.scheduler;
        let mut present = PresentThread::counted_already();
        let is_counted = scheduler.is_counted_here();
        let count = || {
            if !is_counted {
                // The queue is not closed yet, so the shutdown waits for its own thread.
                present = PresentThread::count(scheduler);
            }
        };
        let Some(task) = queue.next(has_polled, count, || scheduler.world().now_ns(), None) else {
            return false;
        };
        let start_ns = scheduler.world().now_ns();
        let outcome = self.poll(task);
        let took_ns = scheduler.world().now_ns().saturating_sub(start_ns);
        self.busy_ns.fetch_add(took_ns, Relaxed);
        if let Target::Elastic { backoff, .. } = &self.target
            && took_ns <= LONG_POLL_NS
        {
            backoff.succeed();
        }
        self.requeue(outcome);
        drop(present);
        true
    }
}

/// A runner on a thread of the blocking pool. Dropping it hands what is queued to the
/// scheduler.
pub(super) struct PoolRunner(Option<Arc<DispatcherCore>>);

impl PoolRunner {
    /// A job for the pool that polls what is queued.
    pub(super) fn job(core: &Arc<DispatcherCore>) -> Box<dyn FnOnce() + Send> {
        let runner = Self(Some(core.clone()));
        Box::new(|| runner.run())
    }

    fn run(mut self) {
        let Some(core) = self.0.take() else { return };
        let Some(queue) = core.queue() else { return };
        core.scheduler.world().run_inside(&mut || {
            let mut has_polled = false;
            while core.poll_outside(queue, has_polled) {
                has_polled = true;
            }
        });
    }
}

impl Drop for PoolRunner {
    fn drop(&mut self) {
        hand_back(self.0.take());
    }
}

/// Gives up a permit that was never used: what is queued goes to the scheduler. If that shuts
/// down, it closes the queue itself (D1).
fn hand_back(core: Option<Arc<DispatcherCore>>) {
    let Some(core) = core else { return };
    let Some(queue) = core.queue() else { return };
    match core.scheduler.enter_present() {
        Some(_present) => {
            for task in queue.abandon() {
                core.scheduler.schedule(task);
            }
        }
        None => queue.give_back(),
    }
}

/// The right to poll one task of a dispatcher, on any thread.
///
/// `Dispatcher::from_fn` gives one to its function for each poll. A job that is dropped without
/// being run is not lost: the runtime's workers go on with its task.
///
/// # Examples
///
/// ```
/// use blitzen::dispatch::{Dispatcher, PollJob};
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let threads = Dispatcher::from_fn(|job: PollJob| {
///     std::thread::spawn(|| job.run());
/// });
/// assert_eq!(threads.spawn(async { 1 }).await.unwrap(), 1);
/// # });
/// ```
pub struct PollJob(Option<Arc<DispatcherCore>>);

impl PollJob {
    pub(super) fn new(core: &Arc<DispatcherCore>) -> Self {
        core.scheduler.world().begin_external();
        Self(Some(core.clone()))
    }

    /// Polls the task on the calling thread, inside the runtime of its dispatcher.
    ///
    /// If that is nested more than eight deep, since jobs are run by what wakes their tasks, the
    /// runtime's workers poll the task instead.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::dispatch::{Dispatcher, PollJob};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let inline = Dispatcher::from_fn(PollJob::run);
    /// assert_eq!(inline.spawn(async { 1 }).await.unwrap(), 1);
    /// # });
    /// ```
    pub fn run(mut self) {
        // Polls that wake others, whose jobs are run at once, must not fill the stack.
        let Some(_nested) = Nested::begin() else {
            return;
        };
        let Some(core) = self.0.take() else { return };
        let Some(queue) = core.queue() else { return };
        let world = core.scheduler.world();
        world.run_inside(&mut || {
            if core.poll_outside(queue, false) {
                queue.end_job();
            }
        });
        world.end_external();
    }
}

impl Drop for PollJob {
    fn drop(&mut self) {
        let Some(core) = self.0.take() else { return };
        let Some(queue) = core.queue() else { return };
        match core.scheduler.enter_present() {
            Some(_present) => {
                if let Some(task) = queue.take_one() {
                    core.scheduler.schedule(task);
                }
            }
            // The shutdown closes the queue (D1).
            None => queue.give_back(),
        }
        core.scheduler.world().end_external();
    }
}

impl fmt::Debug for PollJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PollJob").finish_non_exhaustive()
    }
}

/// A task that polls those of all groups of a scheduler, by their shares.
pub(super) struct GroupRunner {
    scheduler: Weak<Scheduler>,
    /// Has a permit until it has found nothing to do, and again when it is woken for a task (Q5).
    task: RunnerTask,
}

impl GroupRunner {
    /// A runner that has a permit.
    pub(super) fn new(scheduler: &Arc<Scheduler>) -> Self {
        Self {
            scheduler: Arc::downgrade(scheduler),
            task: RunnerTask::new(),
        }
    }
}

impl Future for GroupRunner {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(scheduler) = self.scheduler.upgrade() else {
            return Poll::Ready(());
        };
        // Q5: without a permit it is polled for no reason.
        if self.task.has_permit() {
            match scheduler.run_groups(&mut self.task, cx.waker()) {
                TurnEnd::Over => yield_now(cx.waker()),
                TurnEnd::Parked | TurnEnd::Ended => {}
            }
        }
        Poll::Pending
    }
}

impl Scheduler {
    /// Polls tasks of groups for a quantum.
    fn run_groups(self: &Arc<Self>, runner: &mut RunnerTask, waker: &Waker) -> TurnEnd {
        let start_ns = self.world().now_ns();
        let mut now_ns = start_ns;
        loop {
            let Some(picked) = self.groups.next(runner, waker, || self.world().now_ns()) else {
                return TurnEnd::Parked;
            };
            now_ns = poll_with(PermitOf::Groups(self), || self.poll_picked(picked, now_ns));
            let is_over = now_ns.saturating_sub(start_ns) >= QUANTUM_NS;
            if is_over || !self.is_worker_here() {
                return TurnEnd::Over;
            }
        }
    }

    /// Polls a task of a group, and charges its group for the time since `start_ns`; returns when
    /// that was over.
    fn poll_picked(self: &Arc<Self>, picked: Picked, start_ns: u64) -> u64 {
        let outcome = self.poll_routed(picked.task, picked.budget);
        let end_ns = self.world().now_ns();
        self.groups
            .charge(picked.group, end_ns.saturating_sub(start_ns));
        if let RunOutcome::Woken(task) | RunOutcome::Yielded(task) = outcome {
            self.push_to_group(picked.group, task);
        }
        end_ns
    }

    /// Polls a task of a group, whose runners may all be stuck, after a call of `begin`; returns
    /// whether there was one.
    pub(crate) fn poll_group_task(self: &Arc<Self>, begin: impl FnOnce()) -> bool {
        let picked = self.groups.take(|| self.world().now_ns());
        let has_task = picked.is_some();
        if let Some(picked) = picked {
            begin();
            self.poll_picked(picked, self.world().now_ns());
        }
        has_task
    }
}
