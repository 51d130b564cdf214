//! Finds polls that do not end, from outside the workers.
//!
//! P1. A worker's tick changes before each poll. While it stands still, the worker runs the same
//!     task, or the driver turn or the waker after it, or it is parked.
//! P2. `polled` is the address of the task that the worker began to run last. That task may have
//!     ended, and another one may have its address. A task at that address is the one that the
//!     worker polls if it is running and the tick has not changed while it was looked for.

use std::sync::Arc;
use std::time::Duration;

use blitzen_util::kernel_thread::{ProcessorTimes, is_thread_asleep, processor_times};
use blitzen_util::shim::atomic::Ordering::Relaxed;

use crate::scheduler::Scheduler;

/// A poll that has lasted for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LongPoll {
    /// The worker.
    pub worker: usize,
    /// The address of the task: to be compared, not followed.
    pub task_address: usize,
    /// How long it has lasted at least.
    pub duration: Duration,
    /// About how long its thread had no processor meanwhile; `None` if that is unknown.
    pub processor_wait: Option<Duration>,
    /// The thread as the kernel calls it; zero if that is unknown.
    pub kernel_thread: u32,
    poll: PollId,
}

/// Tells one poll of a worker from its others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PollId {
    tick: u32,
    task_address: usize,
}

/// What was seen of the polls of each worker.
#[derive(Debug)]
pub struct PollWatch {
    seen: Vec<Option<Seen>>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    poll: PollId,
    first_seen_ns: u64,
    /// When the poll was seen for the second time, and the times of its thread then. Most polls are
    /// not, and to ask takes some microseconds.
    times_before: Option<(u64, ProcessorTimes)>,
    is_reported: bool,
}

impl PollWatch {
    /// Creates a watch over `workers` workers.
    pub fn new(workers: usize) -> Self {
        Self {
            seen: vec![None; workers],
        }
    }

    /// Looks at all workers; returns the polls that have lasted for `after` or longer, each once. A
    /// task in a blocking section does not count.
    #[must_use]
    pub fn look(&mut self, scheduler: &Scheduler, after: Duration) -> Vec<LongPoll> {
        let now_ns = scheduler.world().now_ns();
        let current = |worker| scheduler.current_poll(worker);
        let kernel_thread = |worker: usize| {
            let shared = &scheduler.shared[worker];
            shared.kernel_thread.load(Relaxed)
        };
        let times = |worker| processor_times(kernel_thread(worker));
        let is_asleep = |worker| is_thread_asleep(kernel_thread(worker));
        let long = self.compare(now_ns, after, current, times, is_asleep);
        long.map(|long| LongPoll {
            kernel_thread: kernel_thread(long.worker),
            ..long
        })
        .collect()
    }

    fn compare(
        &mut self,
        now_ns: u64,
        after: Duration,
        current: impl Fn(usize) -> Option<PollId>,
        times: impl Fn(usize) -> Option<ProcessorTimes>,
        is_asleep: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = LongPoll> {
        let after_ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        self.seen
            .iter_mut()
            .enumerate()
            .filter_map(move |(worker, seen)| {
                let poll = current(worker);
                let Some(seen) = seen.as_mut().filter(|seen| Some(seen.poll) == poll) else {
                    *seen = poll.map(|poll| Seen {
                        poll,
                        first_seen_ns: now_ns,
                        times_before: None,
                        is_reported: false,
                    });
                    return None;
                };
                if seen.is_reported {
                    return None;
                }
                let times = times(worker);
                if seen.times_before.is_none() {
                    seen.times_before = times.map(|times| (now_ns, times));
                }
                let duration_ns = now_ns.saturating_sub(seen.first_seen_ns);
                if duration_ns < after_ns {
                    return None;
                }
                seen.is_reported = true;
                let wait_ns = times
                    .zip(seen.times_before)
                    .map(|(now, (since_ns, before))| {
                        let elapsed_ns = now_ns.saturating_sub(since_ns);
                        let wait_ns = match is_asleep(worker) {
                            true => now.wait_ns.saturating_sub(before.wait_ns),
                            // It may wait at this moment, which is not counted yet.
                            false => {
                                elapsed_ns.saturating_sub(now.run_ns.saturating_sub(before.run_ns))
                            }
                        };
                        // A wait that began before the poll is counted when it ends.
                        wait_ns.min(elapsed_ns)
                    });
                Some(LongPoll {
                    worker,
                    task_address: seen.poll.task_address,
                    duration: Duration::from_nanos(duration_ns),
                    processor_wait: wait_ns.map(Duration::from_nanos),
                    kernel_thread: 0,
                    poll: seen.poll,
                })
            })
    }
}

impl Scheduler {
    /// The poll that a worker is in, or whatever it does after it; `None` while it is parked or
    /// its thread is in a blocking section.
    fn current_poll(&self, worker: usize) -> Option<PollId> {
        if self.idle.is_parked(worker) {
            return None;
        }
        let shared = &self.shared[worker];
        // Relaxed: both are compared with a later look; if the two are of different polls, the
        // later look sees another pair.
        let poll = PollId {
            tick: shared.tick.load(Relaxed),
            task_address: shared.polled.load(Relaxed),
        };
        (poll.task_address != 0 && shared.handoff.epoch().is_none()).then_some(poll)
    }

    /// Whether the worker has done nothing else since (P1).
    pub fn is_still_polling(self: &Arc<Self>, long: &LongPoll) -> bool {
        self.current_poll(long.worker) == Some(long.poll)
    }

    /// The address of the task that a worker polls, to be compared and not followed.
    pub fn polled_address(&self, worker: usize) -> Option<usize> {
        self.current_poll(worker).map(|poll| poll.task_address)
    }

    /// Whether the thread of a worker is in a blocking section, and no other goes on with the worker.
    pub fn is_blocking(&self, worker: usize) -> bool {
        self.shared[worker].handoff.epoch().is_some()
    }

    /// The polls that threads have begun in the place of workers that were stuck. Wraps around.
    pub fn rescue_polls(&self) -> u32 {
        self.rescue.polls()
    }

    /// Whether there is a thread that runs tasks, or will when it is unparked.
    pub fn is_driven(&self) -> bool {
        self.has_threads() || !self.idle.is_parked(0)
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    fn poll(tick: u32, task_address: usize) -> Option<PollId> {
        Some(PollId { tick, task_address })
    }

    #[test]
    fn a_poll_is_reported_once_when_it_has_lasted_long_enough() {
        let mut watch = PollWatch::new(2);
        let mut look = |now_ns, polls: [Option<PollId>; 2]| {
            let after = Duration::from_nanos(10);
            let long = watch.compare(now_ns, after, |worker| polls[worker], |_| None, |_| true);
            long.map(|long| (long.worker, long.task_address, long.duration.as_nanos()))
                .collect::<Vec<_>>()
        };
        assert_eq!(look(100, [poll(1, 8), poll(1, 16)]), []);
        assert_eq!(look(109, [poll(1, 8), poll(2, 16)]), []);
        assert_eq!(look(110, [poll(1, 8), poll(2, 16)]), [(0, 8, 10)]);
        assert_eq!(look(119, [poll(1, 8), poll(2, 16)]), [(1, 16, 10)]);
        assert_eq!(look(200, [poll(1, 8), None]), []);
        assert_eq!(look(300, [poll(2, 8), poll(2, 16)]), []);
        assert_eq!(look(311, [poll(2, 8), None]), [(0, 8, 11)], "the next poll");
    }

    /// What is reported of the processor, of a poll from 100 on whose thread has these times at 103
    /// and at 113.
    fn reported_wait(before: [u64; 2], after: [u64; 2], is_asleep: bool) -> Option<u64> {
        let mut watch = PollWatch::new(1);
        let mut look = |now_ns, [run_ns, wait_ns]: [u64; 2]| {
            let (after, times) = (Duration::from_nanos(10), ProcessorTimes { run_ns, wait_ns });
            let current = |_| poll(1, 8);
            let long = watch.compare(now_ns, after, current, |_| Some(times), |_| is_asleep);
            long.map(|long| long.processor_wait).collect::<Vec<_>>()
        };
        assert_eq!(look(100, [0, 0]), []);
        assert_eq!(look(103, before), []);
        let waits = look(113, after);
        assert_eq!(waits.len(), 1);
        waits[0].map(|wait| wait.as_nanos() as u64)
    }

    #[test]
    fn the_time_without_a_processor_is_that_of_the_poll() {
        assert_eq!(reported_wait([50, 20], [60, 20], false), Some(0), "it runs");
        assert_eq!(
            reported_wait([50, 20], [52, 20], false),
            Some(8),
            "it waits"
        );
        assert_eq!(
            reported_wait([50, 20], [50, 20], true),
            Some(0),
            "it sleeps"
        );
        assert_eq!(
            reported_wait([50, 20], [51, 24], true),
            Some(4),
            "it sleeps again"
        );
        assert_eq!(
            reported_wait([50, 20], [50, 90], true),
            Some(10),
            "from before the poll"
        );
    }
}
