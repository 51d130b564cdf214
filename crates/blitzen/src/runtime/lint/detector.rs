//! Finds what lints report: compares what it sees of a runtime with what it saw before.

use std::collections::HashSet;
use std::panic::Location;
use std::thread;
use std::time::{Duration, Instant};

use blitzen_sched::{LongPoll, PollWatch};
use blitzen_task::glue::id_number;
use blitzen_util::lock_owner;

use super::system_call::{ThreadActivity, activity_of};
use super::{Lint, LintKind};
use crate::runtime::dump::{ListedTask, TaskList, TaskStatus, WaitKind, find_deadlocks};
use crate::runtime::inner::Inner;
use crate::runtime::stack_sample::{addresses_of, calls_at};

/// The time over which polls are counted, and over which the pool must be full.
const WINDOW: Duration = Duration::from_secs(1);

/// The time between two walks through all tasks, at least; and how many times as long as a walk
/// took: so that it takes at most a hundredth of a processor.
const WALK_PERIOD: Duration = Duration::from_secs(1);
const WALK_SHARE: u32 = 100;

/// How many polls in a second a worker must make before a task that wakes itself is reported: a
/// poll then takes 20 µs or less.
const SELF_WAKE_POLLS: u64 = 50_000;
/// How many of ten polls must end with a wake of the task itself.
const SELF_WAKE_TENTHS: u64 = 9;
/// How often to look which task a worker polls, and how often that must be the same one.
const SELF_WAKE_SAMPLES: usize = 64;
const SELF_WAKE_HITS: usize = SELF_WAKE_SAMPLES / 4;

/// What was seen of a runtime.
pub(super) struct Detector {
    slow_poll: Duration,
    samples_stacks: bool,
    polls: PollWatch,
    window: Window,
    next_walk: Instant,
    /// The ids of tasks whose waker is lost, or that wake themselves, and that were reported.
    reported: HashSet<(LintKind, u64)>,
    large_futures_at: HashSet<&'static Location<'static>>,
    starved: Option<Starved>,
    pool: PoolLooks,
}

/// What is compared from one second to the next.
struct Window {
    start: Instant,
    /// Polls of each worker, and those after which the task was queued again at once.
    workers: Vec<(u64, u64)>,
}

/// What was seen of the blocking pool.
#[derive(Default)]
struct PoolLooks {
    /// How many jobs were queued when the window began, or 0 if a look since has found the pool
    /// with a free thread, or without a job that waits.
    queued_at_start: usize,
    /// Whether the pool was full in the last window, and that was reported.
    is_full: bool,
}

impl PoolLooks {
    /// Notes how many jobs wait for a thread of a full pool: 0 if it is not full.
    fn note(&mut self, queued: usize) {
        if queued == 0 {
            self.queued_at_start = 0;
        }
    }

    /// Begins the next window, and notes what it begins with; returns whether the pool was full in
    /// the one before, at every look, and that is new.
    fn next_window(&mut self, queued: usize) -> bool {
        let before = std::mem::replace(&mut self.queued_at_start, queued);
        let is_full = before > 0 && queued >= before;
        let was_full = std::mem::replace(&mut self.is_full, is_full);
        is_full && !was_full
    }
}

/// Since when tasks are queued, and neither workers nor threads in their place make polls.
struct Starved {
    since: Instant,
    polls: (u64, u32),
    is_reported: bool,
}

impl Detector {
    pub(super) fn new(runtime: &Inner, slow_poll: Duration, samples_stacks: bool) -> Self {
        let now = Instant::now();
        Self {
            slow_poll,
            samples_stacks,
            polls: PollWatch::new(runtime.scheduler().workers()),
            window: Window::new(runtime, now),
            next_walk: now + WALK_PERIOD,
            reported: HashSet::new(),
            large_futures_at: HashSet::new(),
            starved: None,
            pool: PoolLooks::default(),
        }
    }

    /// The time until the next look.
    pub(super) fn period(&self) -> Duration {
        let quarter = self.slow_poll / 4;
        quarter.clamp(Duration::from_millis(1), Duration::from_millis(250))
    }

    /// Looks at the runtime; returns what is new.
    pub(super) fn look(&mut self, runtime: &Inner) -> Vec<Lint> {
        let mut lints = Vec::new();
        for long in self.polls.look(runtime.scheduler(), self.slow_poll) {
            lints.push(self.slow_poll_lint(runtime, &long));
        }
        let now = Instant::now();
        lints.extend(self.find_starved(runtime, now));
        let pool_queue = match runtime.pool().is_full() {
            true => runtime.pool().queued(),
            false => 0,
        };
        self.pool.note(pool_queue);
        if now.duration_since(self.window.start) >= WINDOW {
            let before = std::mem::replace(&mut self.window, Window::new(runtime, now));
            lints.extend(self.find_self_wakes(runtime, &before));
            if self.pool.next_window(pool_queue) {
                lints.push(Lint {
                    count: Some(pool_queue as u64),
                    ..Lint::new(LintKind::PoolFull)
                });
            }
        }
        if now >= self.next_walk {
            lints.extend(self.walk(runtime));
            self.next_walk = Instant::now() + WALK_PERIOD.max(now.elapsed() * WALK_SHARE);
        }
        lints
    }

    /// Describes a poll that has lasted for long.
    fn slow_poll_lint(&self, runtime: &Inner, long: &LongPoll) -> Lint {
        let activity = activity_of(long.kernel_thread);
        let kind = match activity {
            ThreadActivity::Futex => LintKind::BlockingLock,
            _ => LintKind::SlowPoll,
        };
        let addresses = match self.samples_stacks {
            true => addresses_of(long.kernel_thread),
            false => Vec::new(),
        };
        // If the poll has ended meanwhile, another task may have the address, and the stack may be
        // that of another poll.
        let task = find_task(runtime, long.task_address)
            .filter(|task| task.status() == TaskStatus::Running);
        let is_same = runtime.scheduler().is_still_polling(long);
        Lint {
            task: task.filter(|_| is_same),
            worker: Some(long.worker),
            duration: Some(long.duration),
            processor_wait: long.processor_wait,
            system_call: activity.call(),
            stack: match is_same {
                true => calls_at(&addresses),
                false => Vec::new(),
            },
            ..Lint::new(kind)
        }
    }

    fn find_starved(&mut self, runtime: &Inner, now: Instant) -> Option<Lint> {
        let scheduler = runtime.scheduler();
        let workers = scheduler.workers();
        let rings = (0..workers).map(|worker| scheduler.ring_depth(worker));
        let queued = scheduler.global_queue_depth() + rings.sum::<usize>();
        let of_workers = (0..workers).map(|worker| scheduler.counters(worker).polls.get());
        let polls = (of_workers.sum(), scheduler.rescue_polls());
        if queued == 0 || !scheduler.is_driven() {
            self.starved = None;
            return None;
        }
        let same = |starved: &&mut Starved| starved.polls == polls;
        let Some(starved) = self.starved.as_mut().filter(same) else {
            self.starved = Some(Starved {
                since: now,
                polls,
                is_reported: false,
            });
            return None;
        };
        let duration = now.duration_since(starved.since);
        if duration < self.slow_poll || std::mem::replace(&mut starved.is_reported, true) {
            return None;
        }
        Some(Lint {
            duration: Some(duration),
            count: Some(queued as u64),
            ..Lint::new(LintKind::Starved)
        })
    }

    fn find_self_wakes(&mut self, runtime: &Inner, before: &Window) -> Vec<Lint> {
        let seconds = self.window.start.duration_since(before.start).as_secs_f64();
        let mut lints = Vec::new();
        let counts = before.workers.iter().zip(&self.window.workers);
        for (worker, (before, after)) in counts.enumerate() {
            let (polls, again) = (after.0 - before.0, after.1 - before.1);
            let polls_a_second = (polls as f64 / seconds) as u64;
            if polls_a_second < SELF_WAKE_POLLS || again * 10 < polls * SELF_WAKE_TENTHS {
                continue;
            }
            let task = most_polled(runtime, worker);
            let key = |task: &ListedTask| (LintKind::SelfWake, id_number(task.id()));
            if let Some(task) = task
                && self.reported.insert(key(&task))
            {
                lints.push(Lint {
                    worker: Some(worker),
                    count: Some(polls_a_second),
                    ..Lint::of_task(LintKind::SelfWake, task)
                });
            }
        }
        lints
    }

    /// Looks through all tasks for what can be seen of a task alone.
    fn walk(&mut self, runtime: &Inner) -> Vec<Lint> {
        let tasks = TaskList::new(runtime.scheduler(), runtime.world().clock());
        let alive: HashSet<u64> = tasks.iter().map(|task| id_number(task.id())).collect();
        self.reported.retain(|(_, id)| alive.contains(id));
        let mut lints = tasks.lints();
        if tasks.iter().any(may_be_deadlocked) {
            let list = || TaskList::new(runtime.scheduler(), runtime.world().clock());
            lints.extend(find_deadlocks(list).into_iter().map(Lint::of_deadlock));
        }
        lints.retain(|lint| {
            let Some(task) = lint.task() else { return true };
            match lint.kind() {
                LintKind::LargeFuture => self.large_futures_at.insert(task.spawned_at()),
                kind => self.reported.insert((kind, id_number(task.id()))),
            }
        });
        lints
    }
}

impl Window {
    fn new(runtime: &Inner, start: Instant) -> Self {
        let scheduler = runtime.scheduler();
        let counts = |worker| {
            let counters = scheduler.counters(worker);
            let again = counters.yields.get() + counters.self_wakes.get();
            (counters.polls.get(), again)
        };
        Self {
            start,
            workers: (0..scheduler.workers()).map(counts).collect(),
        }
    }
}

/// Whether a task waits for a lock or a task that a deadlock can be made of.
fn may_be_deadlocked(task: &ListedTask) -> bool {
    task.wait().is_some_and(|wait| {
        wait.owner().is_some() || wait.kind() == WaitKind::Join && lock_owner::has_notes()
    })
}

/// The task at an address, if there is one.
fn find_task(runtime: &Inner, address: usize) -> Option<ListedTask> {
    let now_ns = runtime.world().clock().now_ns();
    let mut found = None;
    runtime.scheduler().walk_tasks(|task| {
        if std::ptr::from_ref(task).addr() == address {
            found = Some(ListedTask::new(task, now_ns));
        }
    });
    found
}

/// The task that a worker seems to poll all the time.
fn most_polled(runtime: &Inner, worker: usize) -> Option<ListedTask> {
    let scheduler = runtime.scheduler();
    let samples: Vec<usize> = (0..SELF_WAKE_SAMPLES)
        .filter_map(|_| {
            thread::yield_now();
            scheduler.polled_address(worker)
        })
        .collect();
    let hits = |address: usize| samples.iter().filter(|&&other| other == address).count();
    let address = samples
        .iter()
        .copied()
        .max_by_key(|&address| hits(address))?;
    let task = find_task(runtime, address)?;
    (hits(address) >= SELF_WAKE_HITS).then_some(task)
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_full_if_every_look_finds_it_full_and_its_queue_does_not_shrink() {
        let windows = |looks: &[&[usize]]| -> Vec<bool> {
            let mut pool = PoolLooks::default();
            let window = |looks: &&[usize]| {
                looks.iter().for_each(|&queued| pool.note(queued));
                pool.next_window(*looks.last().unwrap())
            };
            looks.iter().map(window).collect()
        };
        assert_eq!(windows(&[&[1], &[1, 1, 1]]), [false, true]);
        assert_eq!(
            windows(&[&[1], &[1, 0, 1]]),
            [false, false],
            "a burst, twice"
        );
        assert_eq!(windows(&[&[1], &[0, 1], &[1, 1]]), [false, false, true]);
        assert_eq!(windows(&[&[2], &[2, 1]]), [false, false], "it shrinks");
        assert_eq!(windows(&[&[1], &[1], &[1]]), [false, true, false], "once");
        let again: &[&[usize]] = &[&[1], &[1], &[0], &[1], &[1]];
        assert_eq!(windows(again), [false, true, false, false, true]);
    }
}
