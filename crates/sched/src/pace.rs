//! How often a worker looks at the injection queue and at its drivers, and how many
//! injected tasks it takes at once: pure arithmetic.

/// The most polls between two driver turns: about an eighth of a millisecond at
/// 1 µs a poll.
pub(crate) const BUDGET_PER_TICK: u32 = 128;

/// The most tasks from the LIFO slot in a row before one from the ring.
pub(crate) const MAX_LIFO_POLLS: u32 = 3;

/// The smallest batch from the injection queue.
pub(crate) const MIN_BATCH: usize = 4;
/// The largest batch for a worker that has work of its own.
pub(crate) const BUSY_BATCH: usize = 32;
/// The largest batch for a worker that has none.
pub(crate) const MAX_BATCH: usize = 64;

/// How long a task may wait in the injection queue of a busy scheduler.
const TARGET_LATENCY_NS: u64 = 1_000_000;
const MIN_INTERVAL: u32 = 8;
const MAX_INTERVAL: u32 = 255;
/// What is further ahead would count as past: polls are counted modulo 2³².
const MAX_FIXED_INTERVAL: u32 = i32::MAX as u32;
/// The most polls between two looks at the injection queue, which take one task: as many as take
/// a few microseconds if polls are short. A look at an empty queue takes no lock.
const MAX_LOOK_INTERVAL: u32 = 32;
/// How long the polls take that are timed together. Only where polls are so long that fewer
/// than [`MIN_INTERVAL`] take this long, the clock is read more often than drivers are turned.
const GROUP_NS: u64 = TARGET_LATENCY_NS;
/// The assumed duration of a poll before the first sample.
const INITIAL_RUN_NS: u64 = 50_000;
/// The weight of a new sample, in tenths.
const EWMA_TENTHS: u64 = 1;

/// A worker's share of `len` tasks.
pub(crate) fn share_of(len: usize, workers: usize) -> usize {
    (len / workers.max(1)).clamp(MIN_BATCH, MAX_BATCH)
}

/// The average duration of a poll and the intervals that follow from it.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    average_run_ns: u64,
    /// Polls between two batches from the injection queue.
    inject_interval: u32,
    /// Given by the builder: does not adapt.
    fixed_inject_interval: Option<u32>,
    /// Polls between two looks at the drivers.
    event_interval: u32,
    fixed_event_interval: Option<u32>,
    /// Polls between two looks at the clock.
    group_interval: u32,
}

impl Pace {
    /// A pace that adapts, except where an interval is given.
    pub(crate) fn new(inject_interval: Option<u32>, event_interval: Option<u32>) -> Self {
        let within_half = |polls: Option<u32>| polls.map(|polls| polls.min(MAX_FIXED_INTERVAL));
        let mut pace = Self {
            average_run_ns: INITIAL_RUN_NS,
            inject_interval: 0,
            fixed_inject_interval: within_half(inject_interval),
            event_interval: 0,
            fixed_event_interval: within_half(event_interval),
            group_interval: 0,
        };
        pace.adapt();
        pace
    }

    /// Records that `polls` polls took `elapsed_ns` together.
    pub(crate) fn sample(&mut self, elapsed_ns: u64, polls: u32) {
        if polls == 0 {
            return;
        }
        let sample = elapsed_ns / u64::from(polls);
        let weighted = sample * EWMA_TENTHS + self.average_run_ns * (10 - EWMA_TENTHS);
        self.average_run_ns = (weighted / 10).max(1);
        self.adapt();
    }

    fn adapt(&mut self) {
        let fitting = TARGET_LATENCY_NS / self.average_run_ns;
        let fitting = fitting.clamp(MIN_INTERVAL.into(), MAX_INTERVAL.into()) as u32;
        self.inject_interval = self.fixed_inject_interval.unwrap_or(fitting);
        self.event_interval = self
            .fixed_event_interval
            .unwrap_or(fitting.min(BUDGET_PER_TICK));
        let group = GROUP_NS / self.average_run_ns;
        self.group_interval = group.clamp(1, self.event_interval.max(1).into()) as u32;
    }

    /// How long `tasks` polls are likely to take.
    pub(crate) fn expected_ns(&self, tasks: u32) -> u64 {
        self.average_run_ns.saturating_mul(tasks.into())
    }

    /// Polls between two batches from the injection queue.
    pub(crate) fn inject_interval(&self) -> u32 {
        self.inject_interval
    }

    /// Polls between two looks at the injection queue.
    pub(crate) fn look_interval(&self) -> u32 {
        match self.fixed_inject_interval {
            Some(polls) => polls,
            None => self.inject_interval.min(MAX_LOOK_INTERVAL),
        }
    }

    /// Polls between two looks at the drivers.
    pub(crate) fn event_interval(&self) -> u32 {
        self.event_interval
    }

    /// Polls between two looks at the clock, at least one: those that are timed together.
    pub(crate) fn group_interval(&self) -> u32 {
        self.group_interval
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    fn settled(run_ns: u64) -> u32 {
        let mut pace = Pace::new(None, None);
        for _ in 0..200 {
            pace.sample(run_ns * 100, 100);
        }
        pace.inject_interval()
    }

    #[test]
    fn the_interval_follows_the_average_run() {
        assert_eq!(Pace::new(None, None).inject_interval(), 20);
        assert_eq!(settled(1_000), 255);
        assert_eq!(settled(10_000), 100);
        assert_eq!(settled(50_000), 20);
        assert_eq!(settled(100_000), 10);
        assert_eq!(settled(5_000_000), 8);
    }

    #[test]
    fn one_odd_sample_changes_little() {
        let mut pace = Pace::new(None, None);
        pace.sample(100_000, 1);
        assert_eq!(pace.average_run_ns, 55_000);
        pace.sample(0, 0);
        assert_eq!(pace.average_run_ns, 55_000);
    }

    #[test]
    fn a_given_interval_stays() {
        let mut pace = Pace::new(Some(61), Some(7));
        pace.sample(1, 1);
        assert_eq!((pace.inject_interval(), pace.event_interval()), (61, 7));
        assert_eq!(pace.look_interval(), 61);
    }

    #[test]
    fn looks_come_at_least_as_often_as_batches() {
        let mut pace = Pace::new(None, None);
        assert_eq!(pace.look_interval(), pace.inject_interval());
        (0..200).for_each(|_| pace.sample(1_000, 1));
        assert_eq!((pace.look_interval(), pace.inject_interval()), (32, 255));
    }

    #[test]
    fn drivers_are_looked_at_at_least_once_a_tick() {
        let mut pace = Pace::new(None, None);
        for _ in 0..200 {
            pace.sample(100, 100);
        }
        assert_eq!(pace.event_interval(), BUDGET_PER_TICK);
    }

    #[test]
    fn long_polls_are_timed_one_by_one_and_short_ones_together() {
        let settled = |run_ns: u64| {
            let mut pace = Pace::new(None, None);
            (0..200).for_each(|_| pace.sample(run_ns, 1));
            pace.group_interval()
        };
        assert_eq!(settled(1_500_000), 1);
        assert_eq!(settled(250_000), 4);
        assert_eq!(settled(50_000), 20);
        assert_eq!(settled(100), BUDGET_PER_TICK);
        let mut fixed = Pace::new(None, Some(61));
        (0..200).for_each(|_| fixed.sample(100, 1));
        assert_eq!(fixed.group_interval(), 61, "no more than between two turns");
    }

    #[test]
    fn shares_are_fair_and_bounded() {
        assert_eq!(share_of(0, 2), 4);
        assert_eq!(share_of(20, 2), 10);
        assert_eq!(share_of(10_000, 2), 64);
        assert_eq!(share_of(10, 0), 10);
    }
}
