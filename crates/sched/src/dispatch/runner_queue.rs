//! The queue of a dispatcher whose tasks are polled by runners, at most so many at a time.
//!
//! A *runner* is whatever takes tasks out and polls them: a task on another dispatcher, a
//! job of the blocking pool or of a foreign executor, or a poll in place. Each has one of the
//! queue's `limit` permits from the push that asks for it until it finds the queue empty.
//!
//! Q1. `runners` counts the permits that are out. It exceeds `limit` only while a runner
//!     that gave its permit back, to block, has returned from that.
//! Q2. A push either finds all permits out, and then the next runner that looks finds the
//!     task, or gets one for a new runner. A runner gives its permit back under the same lock
//!     under which it finds the queue empty: so no task is left behind.
//! Q3. A closed queue is empty, and refuses tasks.
//! Q4. A queue that is not empty keeps what it belongs to alive, unless its tasks do: so that is
//!     not dropped, by some thread that no shutdown waits for, while a task is in it. It goes on to do
//!     so until a runner finds it empty or ends: a queue that is filled and emptied in turns counts
//!     nothing.
//! Q5. A runner task takes tasks only while it [has a permit](RunnerTask::has_permit): it may be
//!     polled for no reason.

use std::task::Waker;

use blitzen_task::Runnable;
use blitzen_util::lock::Lock;

use super::parked_runners::{ParkedRunners, RunnerTask};
use super::queue_delay::QueueDelay;
use crate::task_queue::TaskQueue;

/// The queue, of a dispatcher that `K` keeps alive.
pub(crate) struct RunnerQueue<K>(Lock<RunnerState<K>>);

struct RunnerState<K> {
    tasks: TaskQueue,
    /// While there are tasks, and for a while after (Q4).
    keep: Option<K>,
    queued: usize,
    limit: usize,
    runners: usize,
    /// Runner tasks that wait for work, without a permit.
    parked: ParkedRunners,
    /// Tasks that are being polled.
    running: usize,
    polls: u64,
    delay: QueueDelay,
    closed: bool,
}

/// What the thread that has changed a queue must do next.
#[must_use]
pub(crate) enum Demand {
    /// Nothing: enough runners have permits.
    Nothing,
    /// Wake this runner, which has a permit now.
    Wake(Waker),
    /// Start a runner, which has a permit now.
    Start,
}

/// How much is in a queue, and how much was polled from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueCounts {
    pub(crate) queued: usize,
    pub(crate) running: usize,
    pub(crate) polls: u64,
    /// How long tasks wait, on average, once that was measured.
    pub(crate) delay_ns: Option<u64>,
}

impl<K> RunnerState<K> {
    /// A permit for a runner, if there are tasks for it and one is left.
    fn demand(&mut self) -> Demand {
        if self.queued == 0 || self.runners >= self.limit {
            return Demand::Nothing;
        }
        self.runners += 1; // Q1
        match self.parked.unpark_one() {
            Some(waker) => Demand::Wake(waker),
            None => Demand::Start,
        }
    }

    fn begin_poll(&mut self) {
        self.running += 1;
        self.polls += 1; // before the poll, which may wake whoever reads the count
    }

    fn end_poll(&mut self) {
        self.running -= 1;
    }

    fn push(
        &mut self,
        task: Runnable,
        keep: impl FnOnce() -> Option<K>,
        now_ns: impl FnOnce() -> u64,
    ) {
        self.tasks.push(task);
        self.queued += 1;
        self.delay.push(now_ns);
        if self.keep.is_none() {
            self.keep = keep(); // Q4
        }
    }

    /// Takes the oldest task out; `leave` tells `delay` whether it is polled now.
    fn pop(&mut self, leave: impl FnOnce(&mut QueueDelay)) -> Option<Runnable> {
        let task = self.tasks.pop()?;
        self.queued -= 1;
        leave(&mut self.delay);
        Some(task)
    }

    /// Gives a permit back. The caller has the queue in some other way than through `keep`.
    fn give_back(&mut self) {
        self.runners -= 1;
        if self.queued == 0 {
            self.keep = None; // Q4
        }
    }

    /// Takes all tasks out, which nobody polls here.
    fn empty(&mut self) -> Vec<Runnable> {
        self.delay.clear();
        self.queued = 0;
        self.keep = None;
        std::iter::from_fn(|| self.tasks.pop()).collect()
    }
}

impl<K> RunnerQueue<K> {
    /// An empty queue for at most `limit` runners.
    pub(crate) fn new(limit: usize) -> Self {
        Self(Lock::new(RunnerState {
            tasks: TaskQueue::new(),
            keep: None,
            queued: 0,
            limit,
            runners: 0,
            parked: ParkedRunners::default(),
            running: 0,
            polls: 0,
            delay: QueueDelay::default(),
            closed: false,
        }))
    }

    /// Adds a task; returns it if the queue is closed (Q3). Here and below, `keep` makes what keeps
    /// the dispatcher alive, unless the task does (Q4), and `now_ns` is the clock.
    pub(crate) fn push(
        &self,
        task: Runnable,
        keep: impl FnOnce() -> Option<K>,
        now_ns: impl FnOnce() -> u64,
    ) -> Result<Demand, Runnable> {
        let mut state = self.0.lock();
        if state.closed {
            return Err(task);
        }
        state.push(task, keep, now_ns);
        Ok(state.demand())
    }

    /// Takes a task out for a runner, and calls `taken` under the lock, so before a close.
    /// Without a task the runner has lost its permit, and a runner task, with its waker, is
    /// parked. If it `has_polled`, that poll has ended.
    pub(crate) fn next(
        &self,
        has_polled: bool,
        taken: impl FnOnce(),
        now_ns: impl FnOnce() -> u64,
        task_to_park: Option<(&mut RunnerTask, &Waker)>,
    ) -> Option<Runnable> {
        let mut state = self.0.lock();
        if has_polled {
            state.end_poll();
        }
        let surplus = state.runners > state.limit;
        let task = match surplus {
            true => None,
            false => state.pop(|delay| delay.pop(now_ns)),
        };
        match task {
            Some(task) => {
                state.begin_poll();
                taken();
                Some(task)
            }
            None => {
                state.give_back(); // Q2
                if let (false, Some((runner, waker))) = (state.closed, task_to_park) {
                    state.parked.park(runner, waker);
                }
                None
            }
        }
    }

    /// Ends the last poll of a runner that pauses and keeps its permit.
    pub(crate) fn pause(&self) {
        self.0.lock().end_poll();
    }

    /// Takes a permit for a poll in place, unless tasks wait for one.
    pub(crate) fn try_enter(&self) -> bool {
        let mut state = self.0.lock();
        let enters = state.runners < state.limit && state.queued == 0 && !state.closed;
        if enters {
            state.runners += 1;
            state.begin_poll();
        }
        enters
    }

    /// Gives back the permit of a poll in place.
    pub(crate) fn leave(&self) -> Demand {
        let mut state = self.0.lock();
        state.give_back();
        state.end_poll();
        state.demand()
    }

    /// Gives the permit of a runner back while it blocks. A single permit is kept: it is
    /// there for exclusion. Returns `None` then.
    pub(crate) fn suspend(&self) -> Option<Demand> {
        let mut state = self.0.lock();
        (state.limit > 1).then(|| {
            state.give_back();
            state.demand()
        })
    }

    /// Counts a runner again that has returned from blocking.
    pub(crate) fn resume(&self) {
        self.0.lock().runners += 1; // Q1
    }

    /// Takes a task out for a job that was dropped, and gives its permit back.
    pub(crate) fn take_one(&self) -> Option<Runnable> {
        let mut state = self.0.lock();
        let task = state.pop(QueueDelay::skip);
        state.give_back();
        task
    }

    /// Ends a job, which has polled one task.
    pub(crate) fn end_job(&self) {
        let mut state = self.0.lock();
        state.end_poll();
        state.give_back();
    }

    /// Puts back a task that a runner has taken out and cannot poll; the permit stays out.
    /// Returns the task if the queue is closed.
    pub(crate) fn put_back(
        &self,
        task: Runnable,
        keep: impl FnOnce() -> Option<K>,
        now_ns: impl FnOnce() -> u64,
    ) -> Result<(), Runnable> {
        let mut state = self.0.lock();
        state.end_poll();
        state.polls -= 1; // there was none
        if state.closed {
            return Err(task);
        }
        state.push(task, keep, now_ns);
        Ok(())
    }

    /// Gives back a permit that was not used, and leaves what is queued to the shutdown.
    pub(crate) fn give_back(&self) {
        self.0.lock().give_back();
    }

    /// Gives back the permit of a runner that never ran; returns what is queued, since
    /// nobody else may come for it.
    pub(crate) fn abandon(&self) -> Vec<Runnable> {
        let mut state = self.0.lock();
        state.runners -= 1;
        state.empty()
    }

    /// Refuses tasks from now on; returns what is queued, and the wakers of runner tasks, which
    /// then end.
    pub(crate) fn close(&self) -> (Vec<Runnable>, Vec<Waker>) {
        let mut state = self.0.lock();
        state.closed = true;
        (state.empty(), state.parked.take_all())
    }

    pub(crate) fn counts(&self) -> QueueCounts {
        let state = self.0.lock();
        QueueCounts {
            queued: state.queued,
            running: state.running,
            polls: state.polls,
            delay_ns: state.delay.average_ns(),
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::testing::Tasks;
    use std::sync::Arc;

    fn next(queue: &RunnerQueue<()>) -> Option<Runnable> {
        queue.next(false, || (), || 0, None)
    }

    fn starts(pushed: Result<Demand, Runnable>) -> bool {
        match pushed {
            Ok(Demand::Start) => true,
            Ok(Demand::Nothing) => false,
            _ => panic!("the queue is open, and no runner waits"),
        }
    }

    #[test]
    fn no_more_runners_are_started_than_the_limit_allows() {
        let (tasks, queue) = (Tasks::new(), RunnerQueue::new(2));
        let started = (0..5)
            .filter(|_| starts(queue.push(tasks.next(), || None, || 0)))
            .count();
        assert_eq!(started, 2);
        assert_eq!(queue.counts().queued, 5);
        while let Some(task) = next(&queue) {
            task.forget();
            queue.pause();
        }
        assert_eq!(queue.counts().polls, 5);
        assert!(
            starts(queue.push(tasks.next(), || None, || 0)),
            "a permit is free"
        );
        let (left, _) = queue.close();
        left.into_iter().for_each(Runnable::forget);
        tasks.close();
    }

    #[test]
    fn a_queue_keeps_what_it_belongs_to_while_it_has_tasks_and_until_its_runners_end() {
        let tasks = Tasks::new();
        let kept = Arc::new(());
        let is_kept = || Arc::strong_count(&kept) > 1;
        let end_by: [fn(&RunnerQueue<Arc<()>>); 5] = [
            |queue| {
                queue.pause();
                assert!(queue.next(false, || (), || 0, None).is_none());
            },
            RunnerQueue::end_job,
            |queue| {
                queue.pause();
                queue.give_back();
            },
            |queue| {
                queue.pause();
                assert!(queue.abandon().is_empty());
            },
            |queue| drop(queue.close()),
        ];
        for end in end_by {
            let queue = RunnerQueue::new(1);
            for _ in 0..2 {
                assert!(
                    queue
                        .push(tasks.next(), || Some(kept.clone()), || 0)
                        .is_ok()
                );
            }
            queue.next(false, || (), || 0, None).unwrap().forget();
            assert!(is_kept(), "another task is queued");
            queue.next(true, || (), || 0, None).unwrap().forget();
            end(&queue);
            assert!(!is_kept());
        }
        tasks.close();
    }

    #[test]
    fn a_poll_in_place_waits_for_nobody_and_passes_its_permit_on() {
        let (tasks, queue) = (Tasks::new(), RunnerQueue::new(1));
        assert!(queue.try_enter());
        assert!(!queue.try_enter(), "the only permit is out");
        assert!(!starts(queue.push(tasks.next(), || None, || 0)));
        assert!(matches!(queue.leave(), Demand::Start));
        next(&queue).unwrap().forget();
        queue.pause();
        assert!(next(&queue).is_none());
        assert!(queue.try_enter());
        assert!(matches!(queue.leave(), Demand::Nothing));
        tasks.close();
    }

    #[test]
    fn a_runner_that_blocks_gives_its_permit_to_another_unless_it_has_the_only_one() {
        let (tasks, queue) = (Tasks::new(), RunnerQueue::<()>::new(1));
        assert!(starts(queue.push(tasks.next(), || None, || 0)));
        assert!(queue.suspend().is_none());
        let (left, _) = queue.close();
        left.into_iter().for_each(Runnable::forget);

        let queue = RunnerQueue::new(2);
        let started = (0..3)
            .filter(|_| starts(queue.push(tasks.next(), || None, || 0)))
            .count();
        assert_eq!(started, 2);
        next(&queue).unwrap().forget();
        assert!(matches!(queue.suspend(), Some(Demand::Start)));
        queue.resume();
        assert!(next(&queue).is_none(), "there is one runner too many");
        let mut left = 0;
        while let Some(task) = next(&queue) {
            task.forget();
            left += 1;
        }
        assert_eq!(left, 2, "the others find the rest");
        tasks.close();
    }

    #[test]
    fn a_closed_queue_returns_what_it_has_and_refuses_the_rest() {
        let (tasks, queue) = (Tasks::new(), RunnerQueue::<()>::new(1));
        let _ = queue.push(tasks.next(), || None, || 0);
        let (left, _) = queue.close();
        assert_eq!(left.len(), 1);
        let refused = queue
            .push(tasks.next(), || None, || 0)
            .err()
            .expect("it is closed");
        assert!(!queue.try_enter());
        refused.forget();
        left.into_iter().for_each(Runnable::forget);
        tasks.close();
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::testing::Tasks;
    use blitzen_util::shim::atomic::AtomicUsize;
    use blitzen_util::shim::atomic::Ordering::SeqCst;
    use blitzen_util::shim::{Arc, thread};

    struct Model {
        queue: RunnerQueue<()>,
        active: AtomicUsize,
        polled: AtomicUsize,
        limit: usize,
    }

    impl Model {
        /// Runs what is queued, as a runner with a permit does.
        fn run(&self) {
            let mut has_polled = false;
            while let Some(task) = self.queue.next(has_polled, || (), || 0, None) {
                has_polled = true;
                let others = self.active.fetch_add(1, SeqCst);
                assert!(others < self.limit, "never more than the limit");
                task.forget();
                self.active.fetch_sub(1, SeqCst);
                self.polled.fetch_add(1, SeqCst);
            }
        }

        fn push(&self, task: Runnable) {
            match self.queue.push(task, || None, || 0) {
                Ok(Demand::Start) => self.run(),
                Ok(Demand::Nothing) => {}
                _ => panic!("the queue is open, and no runner waits"),
            }
        }
    }

    fn check(limit: usize) {
        loom::model(move || {
            let tasks = Arc::new(Tasks::new());
            let model = Arc::new(Model {
                queue: RunnerQueue::new(limit),
                active: AtomicUsize::new(0),
                polled: AtomicUsize::new(0),
                limit,
            });
            let other = thread::spawn({
                let (tasks, model) = (tasks.clone(), model.clone());
                move || model.push(tasks.next())
            });
            model.push(tasks.next());
            model.push(tasks.next());
            other.join().unwrap();
            assert_eq!(model.polled.load(SeqCst), 3, "no task is left behind");
            assert_eq!(model.queue.counts().queued, 0);
            tasks.close();
        });
    }

    #[test]
    fn a_runner_that_goes_idle_against_a_push_leaves_nothing_behind() {
        check(1);
    }

    #[test]
    fn never_more_runners_than_permits() {
        check(2);
    }

    #[test]
    fn a_push_against_the_close_is_returned_by_one_of_them() {
        loom::model(|| {
            let tasks = Arc::new(Tasks::new());
            let queue = Arc::new(RunnerQueue::<()>::new(1));
            let other = thread::spawn({
                let (tasks, queue) = (tasks.clone(), queue.clone());
                move || match queue.push(tasks.next(), || None, || 0) {
                    Ok(_) => false,
                    Err(refused) => {
                        refused.forget();
                        true
                    }
                }
            });
            let (left, _) = queue.close();
            let here = left.len() == 1;
            left.into_iter().for_each(Runnable::forget);
            assert!(here ^ other.join().unwrap());
            tasks.close();
        });
    }
}
