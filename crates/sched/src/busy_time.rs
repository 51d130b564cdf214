//! How long a worker is busy, and how long its polls take.

use std::cell::Cell;

use blitzen_observe::WorkerCounters;

/// A worker's time since it was unparked, and since the last sample of its polls.
#[derive(Debug, Default)]
pub(crate) struct BusyTime {
    since_ns: Cell<u64>,
    sample_ns: Cell<u64>,
    sample_tick: Cell<u32>,
}

/// The polls since the last sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) elapsed_ns: u64,
    pub(crate) polls: u32,
}

impl BusyTime {
    /// Begins to count, when the worker was unparked and before its first poll.
    pub(crate) fn start(&self, now_ns: u64, tick: u32) {
        self.since_ns.set(now_ns);
        self.sample_ns.set(now_ns);
        self.sample_tick.set(tick);
    }

    /// Ends a sample and starts the next one.
    pub(crate) fn sample(&self, counters: &WorkerCounters, now_ns: u64, tick: u32) -> Sample {
        let sample = Sample {
            elapsed_ns: now_ns.saturating_sub(self.sample_ns.replace(now_ns)),
            polls: tick.wrapping_sub(self.sample_tick.replace(tick)),
        };
        if sample.polls > 0 {
            counters.sampled_run_ns.add(sample.elapsed_ns);
            counters.sampled_runs.add(sample.polls.into());
            counters
                .max_run_ns
                .raise_to(sample.elapsed_ns / u64::from(sample.polls));
        }
        sample
    }

    /// Adds the busy time to the counters, when the worker parks or leaves.
    pub(crate) fn stop(&self, counters: &WorkerCounters, now_ns: u64) {
        // At least one, so that a worker which did something was busy.
        let busy_ns = now_ns.saturating_sub(self.since_ns.get()).max(1);
        counters.busy_ns.add(busy_ns);
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn samples_follow_each_other_and_busy_time_covers_them() {
        let (time, counters) = (BusyTime::default(), WorkerCounters::default());
        time.start(100, 7);
        let first = time.sample(&counters, 160, 10);
        assert_eq!((first.elapsed_ns, first.polls), (60, 3));
        let second = time.sample(&counters, 200, 10);
        assert_eq!((second.elapsed_ns, second.polls), (40, 0));
        time.stop(&counters, 220);
        let stats = counters.read();
        assert_eq!((stats.sampled_run_ns, stats.sampled_runs), (60, 3));
        assert_eq!((stats.max_run_ns, stats.busy_ns), (20, 120));
        time.start(300, 10);
        time.stop(&counters, 300);
        assert_eq!(counters.read().busy_ns, 121);
    }
}
