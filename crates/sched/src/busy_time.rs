//! How long a worker is busy, and how long its polls take.

use std::cell::Cell;

use blitzen_observe::WorkerCounters;

/// A worker's time since the last group of polls that was timed, and since the last sample of
/// its pace.
#[derive(Debug, Default)]
pub(crate) struct BusyTime {
    group: Interval,
    pace: Interval,
}

/// Some consecutive polls.
#[derive(Debug, Default)]
struct Interval {
    start_ns: Cell<u64>,
    /// How many polls the worker had made before.
    polls_before: Cell<u64>,
}

/// How long some consecutive polls took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) elapsed_ns: u64,
    pub(crate) polls: u32,
}

impl Interval {
    fn start(&self, now_ns: u64, polls: u64) {
        self.start_ns.set(now_ns);
        self.polls_before.set(polls);
    }

    /// Ends the interval and starts the next one.
    fn end(&self, now_ns: u64, polls: u64) -> Sample {
        let elapsed_ns = now_ns.saturating_sub(self.start_ns.get());
        let polls_made = polls.wrapping_sub(self.polls_before.get());
        self.start(now_ns, polls);
        Sample {
            elapsed_ns,
            polls: polls_made.try_into().unwrap_or(u32::MAX),
        }
    }
}

impl BusyTime {
    /// Begins to count, when the worker was unparked and before its first poll.
    pub(crate) fn start(&self, counters: &WorkerCounters, now_ns: u64) {
        self.group.start(now_ns, counters.polls.get());
        self.pace.start(now_ns, counters.polls.get());
    }

    /// Ends a group of polls, and starts the next one. Together the groups are the busy time.
    pub(crate) fn end_group(&self, counters: &WorkerCounters, now_ns: u64) {
        let group = self.group.end(now_ns, counters.polls.get());
        counters.busy_ns.add(group.elapsed_ns);
        if group.polls > 0 {
            // All of it may have been one poll. First: so that the longest poll is never seen to
            // be shorter than the average.
            counters.max_run_ns.raise_to(group.elapsed_ns);
            counters.sampled_run_ns.add(group.elapsed_ns);
            counters.sampled_runs.add(group.polls.into());
        }
    }

    /// Ends a sample of the worker's pace, and starts the next one.
    pub(crate) fn sample_pace(&self, counters: &WorkerCounters, now_ns: u64) -> Sample {
        self.pace.end(now_ns, counters.polls.get())
    }

    /// Ends the last group, when the worker parks or leaves.
    pub(crate) fn stop(&self, counters: &WorkerCounters, now_ns: u64) {
        self.end_group(counters, now_ns);
        // So that a worker which did something was busy, however coarse the clock is.
        counters.busy_ns.add(1);
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn groups_follow_each_other_and_busy_time_covers_them() {
        let (time, counters) = (BusyTime::default(), WorkerCounters::default());
        counters.polls.set(7);
        time.start(&counters, 100);
        counters.polls.set(9);
        time.end_group(&counters, 130);
        assert_eq!(counters.read().busy_ns, 30, "although it has not stopped");
        counters.polls.set(10);
        time.end_group(&counters, 160);
        let pace = time.sample_pace(&counters, 160);
        assert_eq!((pace.elapsed_ns, pace.polls), (60, 3));
        time.end_group(&counters, 200);
        time.stop(&counters, 220);
        let stats = counters.read();
        assert_eq!((stats.sampled_run_ns, stats.sampled_runs), (60, 3));
        assert_eq!(stats.busy_ns, 121);
        time.start(&counters, 300);
        time.stop(&counters, 300);
        assert_eq!(counters.read().busy_ns, 122);
    }

    #[test]
    fn the_longest_run_is_no_shorter_than_any_poll_and_no_longer_than_its_group() {
        let (time, counters) = (BusyTime::default(), WorkerCounters::default());
        time.start(&counters, 0);
        counters.polls.set(24); // 23 of a microsecond, and one of 200 ms
        time.end_group(&counters, 200_023_000);
        counters.polls.set(48);
        time.end_group(&counters, 200_047_000);
        assert_eq!(counters.read().max_run_ns, 200_023_000);
    }

    #[test]
    fn a_poll_right_before_the_worker_stops_counts() {
        let (time, counters) = (BusyTime::default(), WorkerCounters::default());
        time.start(&counters, 0);
        counters.polls.bump();
        time.stop(&counters, 5_000);
        let stats = counters.read();
        assert_eq!((stats.max_run_ns, stats.sampled_runs), (5_000, 1));
    }
}
