//! Scheduling groups: queues that get processor time in proportion to their shares.
//!
//! All groups of a scheduler have one lock and one set of runners, at most one for each
//! worker. A runner polls tasks of the group that has had least of its share so far
//! ([`shares`](super::shares)), for a quantum, and then lets the worker's other tasks run.

use std::task::Waker;

use blitzen_task::Runnable;
use blitzen_util::coop::Budget;
use blitzen_util::shim::Mutex;

use super::parked_runners::{ParkedRunners, RunnerTask};
use super::queue_delay::QueueDelay;
use super::runner_queue::{Demand, QueueCounts};
use super::shares::{Shares, VirtualTime};
use crate::task_queue::TaskQueue;

/// How long a runner goes on before other tasks of its worker have their turn.
pub(crate) const QUANTUM_NS: u64 = 500_000;

/// Identifies a group of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupId {
    index: usize,
    /// Tells it from the groups that had the same index before: a runner may still be about to
    /// charge a poll to one of those.
    generation: u64,
}

/// The groups of a scheduler.
pub(crate) struct GroupSet(Mutex<GroupState>);

struct GroupState {
    groups: Vec<Option<Group>>,
    next_generation: u64,
    /// The virtual time of the group that was picked last: the others are not far from it.
    now: u128,
    queued: usize,
    limit: usize,
    runners: usize,
    parked: ParkedRunners,
    closed: bool,
}

struct Group {
    generation: u64,
    tasks: TaskQueue,
    time: VirtualTime,
    /// What a task may do in one poll; that of the scheduler if not given.
    budget: Option<Budget>,
    counts: QueueCounts,
    delay: QueueDelay,
    busy_ns: u64,
    closed: bool,
}

/// A task that a runner has taken, and the group it came from.
pub(crate) struct Picked {
    pub(crate) task: Runnable,
    pub(crate) group: GroupId,
    pub(crate) budget: Option<Budget>,
}

impl GroupState {
    fn demand(&mut self) -> Demand {
        if self.queued == 0 || self.runners >= self.limit {
            return Demand::Nothing;
        }
        self.runners += 1;
        match self.parked.unpark_one() {
            Some(waker) => Demand::Wake(waker),
            None => Demand::Start,
        }
    }

    fn group(&mut self, id: GroupId) -> Option<&mut Group> {
        let group = self.groups[id.index].as_mut()?;
        (group.generation == id.generation).then_some(group)
    }

    fn pick(&mut self, now_ns: impl FnOnce() -> u64) -> Option<Picked> {
        let (index, group) = self
            .groups
            .iter_mut()
            .enumerate()
            .filter_map(|(index, group)| Some((index, group.as_mut()?)))
            .filter(|(_, group)| group.counts.queued > 0)
            .min_by_key(|(_, group)| group.time.time())?;
        let task = group.tasks.pop()?;
        group.delay.pop(now_ns);
        group.counts.queued -= 1;
        group.counts.running += 1;
        group.counts.polls += 1; // before the poll, which may wake whoever reads the count
        self.now = self.now.max(group.time.time());
        self.queued -= 1;
        Some(Picked {
            task,
            group: GroupId {
                index,
                generation: group.generation,
            },
            budget: group.budget,
        })
    }
}

impl GroupSet {
    /// No groups, for a scheduler with `workers` workers.
    pub(crate) fn new(workers: usize) -> Self {
        Self(Mutex::new(GroupState {
            groups: Vec::new(),
            next_generation: 0,
            now: 0,
            queued: 0,
            limit: workers,
            runners: 0,
            parked: ParkedRunners::default(),
            closed: false,
        }))
    }

    /// Adds a group.
    pub(crate) fn add(&self, shares: Shares, budget: Option<Budget>) -> GroupId {
        let mut state = self.0.lock();
        let generation = state.next_generation;
        state.next_generation += 1;
        let group = Some(Group {
            generation,
            tasks: TaskQueue::new(),
            time: VirtualTime::new(shares),
            budget,
            counts: QueueCounts::default(),
            delay: QueueDelay::default(),
            busy_ns: 0,
            closed: false,
        });
        let free = state.groups.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            state.groups.push(None);
            state.groups.len() - 1
        });
        state.groups[index] = group;
        GroupId { index, generation }
    }

    /// Removes a group that no task can come to any more; returns what is still queued.
    pub(crate) fn remove(&self, id: GroupId) -> Vec<Runnable> {
        let tasks = self.close(id);
        self.0.lock().groups[id.index] = None;
        tasks
    }

    /// Refuses tasks of a group from now on; returns what is queued.
    pub(crate) fn close(&self, id: GroupId) -> Vec<Runnable> {
        let mut state = self.0.lock();
        let mut tasks = Vec::new();
        if let Some(group) = state.group(id) {
            group.closed = true;
            tasks.extend(std::iter::from_fn(|| group.tasks.pop()));
            group.delay.clear();
            group.counts.queued = 0;
        }
        state.queued -= tasks.len();
        tasks
    }

    /// Closes all groups, since the scheduler shuts down; returns what is queued, and forgets
    /// the runners that wait.
    pub(crate) fn shut_down(&self) -> Vec<Runnable> {
        let mut state = self.0.lock();
        state.closed = true;
        state.queued = 0;
        let runners = state.parked.take_all();
        let mut tasks = Vec::new();
        for group in state.groups.iter_mut().flatten() {
            group.closed = true;
            group.counts.queued = 0;
            tasks.extend(std::iter::from_fn(|| group.tasks.pop()));
        }
        drop(state);
        drop(runners);
        tasks
    }

    /// Adds a task to a group; returns it if the group is closed.
    pub(crate) fn push(
        &self,
        id: GroupId,
        task: Runnable,
        now_ns: impl FnOnce() -> u64,
    ) -> Result<Demand, Runnable> {
        let mut state = self.0.lock();
        if state.closed {
            return Err(task);
        }
        let now = state.now;
        let group = match state.group(id) {
            Some(group) if !group.closed => group,
            _ => return Err(task),
        };
        if group.counts.queued + group.counts.running == 0 {
            group.time.start_at(now);
        }
        group.tasks.push(task);
        group.delay.push(now_ns);
        group.counts.queued += 1;
        state.queued += 1;
        Ok(state.demand())
    }

    /// Charges the poll that a runner has ended to its group.
    pub(crate) fn charge(&self, id: GroupId, ns: u64) {
        if let Some(group) = self.0.lock().group(id) {
            group.time.charge(ns);
            group.counts.running -= 1;
            group.busy_ns += ns;
        }
    }

    /// Takes the next task out. Without one, the runner has lost its permit, and is parked.
    pub(crate) fn next(
        &self,
        runner: &mut RunnerTask,
        waker: &Waker,
        now_ns: impl FnOnce() -> u64,
    ) -> Option<Picked> {
        let mut state = self.0.lock();
        let surplus = state.runners > state.limit;
        let picked = match surplus {
            true => None,
            false => state.pick(now_ns),
        };
        if picked.is_none() {
            state.runners -= 1;
            match state.closed {
                false => state.parked.park(runner, waker),
                true => runner.lose_permit(),
            }
        }
        picked
    }

    /// Takes the next task out for a thread that is no runner, and needs no permit.
    pub(crate) fn take(&self, now_ns: impl FnOnce() -> u64) -> Option<Picked> {
        self.0.lock().pick(now_ns)
    }

    /// Whether tasks wait.
    pub(crate) fn has_work(&self) -> bool {
        self.0.lock().queued > 0
    }

    /// Gives a runner's permit back, while the runner blocks.
    pub(crate) fn suspend(&self) -> Demand {
        let mut state = self.0.lock();
        state.runners -= 1;
        state.demand()
    }

    /// Takes it again: there may be one runner too many now, and the next that looks parks.
    pub(crate) fn resume(&self) {
        self.0.lock().runners += 1;
    }

    /// The counts of a group, and how long its tasks have run.
    pub(crate) fn counts(&self, id: GroupId) -> (QueueCounts, u64) {
        let mut state = self.0.lock();
        let Some(group) = state.group(id) else {
            return Default::default();
        };
        group.counts.delay_ns = group.delay.average_ns();
        (group.counts, group.busy_ns)
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::testing::Tasks;

    #[test]
    fn a_poll_of_a_group_that_is_gone_is_not_charged_to_the_one_in_its_place() {
        let (tasks, groups) = (Tasks::new(), GroupSet::new(1));
        let gone = groups.add(Shares(1), None);
        let pushed = groups.push(gone, tasks.next(), || 0);
        assert!(matches!(pushed, Ok(Demand::Start)));
        let picked = groups
            .next(&mut RunnerTask::new(), Waker::noop(), || 0)
            .unwrap();
        picked.task.forget(); // the last task ends in its poll, and the group with it
        assert!(groups.remove(gone).is_empty());
        let new = groups.add(Shares(1), None);
        groups.charge(picked.group, 5_000);
        let (counts, busy_ns) = groups.counts(new);
        assert_eq!((counts.running, busy_ns), (0, 0));
        tasks.close();
    }
}
