//! Threads that run tasks while every worker is stuck in a poll.
//!
//! One stuck worker holds up nobody: the others take its tasks, and serve its timers and
//! sockets. If all of them are stuck, nobody is left to. So when tasks have waited for some
//! milliseconds (longer if a worker computes, or waits for a processor), the
//! [monitor](crate::monitor) moves what is queued on the workers to the injection queue, and sends
//! a *rescuer*: a job of the blocking pool that runs tasks from there, and those of groups, until a
//! worker is back, or none is queued. A rescuer that gets stuck as well is followed by another.
//!
//! The tasks of a view (`limited`) need no more than that: its runners are tasks, and what a runner
//! that is stuck keeps waiting is over the limit.
//!
//! A rescuer is no worker: what its tasks spawn and wake goes to the injection queue, where a
//! worker that is back finds it too.
//!
//! E1. Every task that a rescuer does not poll right now is in the injection queue or in the queue
//!     of its group, so one that is stuck holds up no other task.
//! E2. There are at most as many rescuers as workers, or four if there are fewer workers.

use std::cell::Cell;
use std::sync::Arc;

use blitzen_task::RunOutcome;
use blitzen_util::kernel_thread::is_thread_asleep;
use blitzen_util::shim::atomic::Ordering::Relaxed;
use blitzen_util::shim::atomic::{AtomicBool, AtomicU32};

use crate::ring::RunQueue;
use crate::scheduler::Scheduler;

/// How many looks in a row must find every worker stuck, and tasks that wait, before a rescuer is
/// sent; and how many must find it stuck before the next is. About as many milliseconds.
const LOOKS_BEFORE_RESCUE: u32 = 6;

/// The same for a scheduler with one worker. Who asks for one may count on tasks that take turns
/// while none of them blocks for long.
const LOOKS_BEFORE_RESCUE_OF_ONE: u32 = 30;

/// The same while a worker computes, or waits for a processor: one more thread may not make things
/// faster then, but in the end tasks have to have their turn.
const LOOKS_BEFORE_RESCUE_OF_RUNNING: u32 = 50;

/// The fewest rescuers that may exist at a time, however few workers there are (E2).
const MIN_RESCUERS: u32 = 4;

/// What the monitor and the rescuers of a scheduler share.
pub(crate) struct RescueState {
    looks_before_rescue: u32,
    /// Whether every worker is stuck. Rescuers that see that one is not end.
    is_needed: AtomicBool,
    /// How many rescuers there are.
    rescuers: AtomicU32,
    /// The polls that rescuers have begun.
    polls: AtomicU32,
    /// How often a rescuer had a task that only a worker may poll.
    refusals: AtomicU32,
}

/// What the monitor remembers between two looks at stuck workers.
#[derive(Debug, Default)]
pub(crate) struct StuckLooks {
    /// How many looks in a row have found tasks that nobody runs.
    count: u32,
    /// The polls of rescuers at the last one.
    polls: u32,
}

impl RescueState {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            looks_before_rescue: match workers {
                1 => LOOKS_BEFORE_RESCUE_OF_ONE,
                _ => LOOKS_BEFORE_RESCUE,
            },
            is_needed: AtomicBool::new(false),
            rescuers: AtomicU32::new(0),
            polls: AtomicU32::new(0),
            refusals: AtomicU32::new(0),
        }
    }

    /// The polls that rescuers have begun, to be compared with an earlier look.
    pub(crate) fn polls(&self) -> u32 {
        self.polls.load(Relaxed)
    }

    /// Notes that a task was not polled, since the calling thread runs no worker.
    pub(crate) fn refuse_poll(&self) {
        self.refusals.fetch_add(1, Relaxed);
    }

    /// Notes what a look has found; returns whether to send a rescuer: `all_stuck` if no worker
    /// makes progress, `has_work` if tasks are queued, `all_asleep` if all workers sleep in the
    /// kernel.
    pub(crate) fn note_look(
        &self,
        looks: &mut StuckLooks,
        all_stuck: bool,
        has_work: impl FnOnce() -> bool,
        all_asleep: impl FnOnce() -> bool,
    ) -> bool {
        if !all_stuck {
            self.is_needed.store(false, Relaxed);
            looks.count = 0;
            return false;
        }
        let polls = self.polls();
        let has_rescuer = self.rescuers.load(Relaxed) > 0;
        let has_moved = std::mem::replace(&mut looks.polls, polls) != polls;
        if has_rescuer && has_moved || !has_work() {
            looks.count = 0;
            return false;
        }
        looks.count += 1;
        // Tasks that are woken after a rescuer has ended wait only for the next look.
        let goes_on = !has_rescuer && self.is_needed.load(Relaxed);
        let is_due = looks.count >= LOOKS_BEFORE_RESCUE_OF_RUNNING
            || looks.count >= self.looks_before_rescue && all_asleep();
        if !is_due && !goes_on {
            return false;
        }
        looks.count = 0;
        self.is_needed.store(true, Relaxed);
        true
    }
}

impl Scheduler {
    /// Whether all workers sleep in the kernel.
    pub(crate) fn are_workers_asleep(&self) -> bool {
        let mut workers = self.shared.iter();
        workers.all(|shared| is_thread_asleep(shared.kernel_thread.load(Relaxed)))
    }

    /// Moves the tasks of all workers to the injection queue, and sends a rescuer for them, unless
    /// there are enough (E2).
    #[cold]
    pub(crate) fn send_rescuer(self: &Arc<Self>) {
        let limit = MIN_RESCUERS.max(self.workers() as u32);
        let rescuers = &self.rescue.rescuers;
        if rescuers
            .fetch_update(Relaxed, Relaxed, |count| {
                (count < limit).then_some(count + 1)
            })
            .is_err()
        {
            return;
        }
        let rescuer = Rescuer(self.clone());
        (0..self.workers()).for_each(|worker| self.expose_queue_of(worker));
        self.world().run_on_pool(Box::new(|| rescuer.run()));
    }

    /// Moves the tasks of a stuck worker to the injection queue.
    pub(crate) fn expose_queue_of(&self, worker: usize) {
        let shared = &self.shared[worker];
        let (mut tasks, stolen) = (Vec::new(), RunQueue::new());
        while let Some(half) = shared.ring.steal_into(&stolen) {
            tasks.push(half.first);
            tasks.extend(std::iter::from_fn(|| stolen.pop()));
        }
        tasks.extend(shared.lifo.take());
        self.inject
            .push_all(worker, tasks, |refused| self.refuse(refused));
        // A worker that came back meanwhile may have parked: it saw neither queue.
        self.notify();
    }
}

/// Runs tasks while every worker is stuck.
struct Rescuer(Arc<Scheduler>);

impl Rescuer {
    fn run(self) {
        let scheduler = &self.0;
        scheduler.world().run_inside(&mut || {
            // The shutdown waits for this thread, which polls tasks, as for a worker.
            let Some(present) = scheduler.enter_present() else {
                return;
            };
            let (next_shard, rescue) = (Cell::new(0), &scheduler.rescue);
            let refusals = rescue.refusals.load(Relaxed);
            let goes_on = || {
                // A task that was refused is queued again, and would be all that is left.
                rescue.is_needed.load(Relaxed) && rescue.refusals.load(Relaxed) == refusals
            };
            let begin = || {
                rescue.polls.fetch_add(1, Relaxed);
            };
            let poll_injected = || {
                let mut task = None;
                let inject = &scheduler.inject;
                inject.fetch(&next_shard, 1, |taken| task = Some(taken));
                let Some(task) = task else { return false };
                begin();
                match scheduler.poll_routed(task, None) {
                    RunOutcome::Woken(task) | RunOutcome::Yielded(task) => scheduler.schedule(task),
                    RunOutcome::Complete | RunOutcome::Idle(_) => {}
                }
                true
            };
            let mut has_polled = true;
            while has_polled && goes_on() {
                // Both have their turn: tasks that always want to run hold up none of the others.
                has_polled = poll_injected() | scheduler.poll_group_task(begin);
            }
            drop(present); // inside: the last one that leaves drops futures
        });
    }
}

impl Drop for Rescuer {
    fn drop(&mut self) {
        self.0.rescue.rescuers.fetch_sub(1, Relaxed);
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_rescuer_is_sent_after_tasks_have_waited_behind_stuck_workers() {
        let (rescue, mut looks) = (RescueState::new(2), StuckLooks::default());
        let mut look =
            |all_stuck, has_work| rescue.note_look(&mut looks, all_stuck, || has_work, || true);
        for (all_stuck, has_work) in [(true, false), (false, true)] {
            for _ in 1..LOOKS_BEFORE_RESCUE {
                assert!(!look(true, true));
            }
            assert!(!look(all_stuck, has_work), "the count begins again");
        }
        for _ in 1..LOOKS_BEFORE_RESCUE {
            assert!(!look(true, true));
        }
        assert!(look(true, true));
        assert!(!look(true, false));
        assert!(
            look(true, true),
            "they are stuck still, and no rescuer is left"
        );
        assert!(!look(false, true));
        assert!(!look(true, true), "they were not stuck in between");
    }

    #[test]
    fn only_a_rescuer_that_is_stuck_is_followed_by_another() {
        let (rescue, mut looks) = (RescueState::new(2), StuckLooks::default());
        rescue.rescuers.store(1, Relaxed);
        rescue.is_needed.store(true, Relaxed);
        let mut look = || rescue.note_look(&mut looks, true, || true, || true);
        for _ in 0..2 * LOOKS_BEFORE_RESCUE {
            rescue.polls.fetch_add(1, Relaxed);
            assert!(!look(), "it makes progress");
        }
        for _ in 1..LOOKS_BEFORE_RESCUE {
            assert!(!look());
        }
        assert!(look());
    }

    #[test]
    fn workers_that_compute_are_given_more_time() {
        let (rescue, mut looks) = (RescueState::new(2), StuckLooks::default());
        let mut look = || rescue.note_look(&mut looks, true, || true, || false);
        for _ in 1..LOOKS_BEFORE_RESCUE_OF_RUNNING {
            assert!(!look());
        }
        assert!(look());
    }
}
