//! Which of several queues comes next, so that each gets processor time in proportion to its
//! shares: pure arithmetic.
//!
//! Each queue has a *virtual time*: the time that its tasks have run, divided by its shares.
//! The queue whose virtual time is least comes next. One that was empty starts again where the
//! others are: it has no claim to the time that it did not use.

/// Processor time, in proportion to that of the other groups.
///
/// A group with `Shares(300)` gets three times as much as one with `Shares(100)`, as long as
/// both have work to do. What a group does not use goes to the others.
///
/// # Examples
///
/// ```
/// use blitzen::dispatch::{Dispatcher, Shares};
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # let _entered = runtime.enter();
/// let requests = Dispatcher::group("requests", Shares(300));
/// let reports = Dispatcher::group("reports", Shares(100));
/// # drop((requests, reports));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shares(pub u32);

/// What a poll costs at least: otherwise one that only yields would cost nothing, and would
/// keep others from running.
pub(super) const LEAST_CHARGE_NS: u64 = 1_000;

/// One nanosecond of a queue with one share, in virtual time.
const SCALE: u64 = 1 << 10;

/// The virtual time of one queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct VirtualTime {
    shares: u64,
    /// 64 bits would last a queue with one share for two hundred days of processor time. Then all
    /// queues would be equal, and the first of them always next.
    time: u128,
}

impl VirtualTime {
    pub(super) fn new(shares: Shares) -> Self {
        Self {
            shares: shares.0.max(1).into(),
            time: 0,
        }
    }

    /// Adds a poll that took `ns`.
    pub(super) fn charge(&mut self, ns: u64) {
        let ns = ns.max(LEAST_CHARGE_NS);
        self.time += u128::from(ns.saturating_mul(SCALE) / self.shares);
    }

    /// Starts again, at `now` or later, for a queue that was empty.
    pub(super) fn start_at(&mut self, now: u128) {
        self.time = self.time.max(now);
    }

    /// What to compare queues by.
    pub(super) fn time(self) -> u128 {
        self.time
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    /// Runs the queue with the least virtual time again and again, for `ns` a poll of each.
    fn run(shares: &[u32], poll_ns: &[u64], total_ns: u64) -> Vec<u64> {
        let mut times: Vec<_> = shares
            .iter()
            .map(|&n| VirtualTime::new(Shares(n)))
            .collect();
        let mut used = vec![0; shares.len()];
        while used.iter().sum::<u64>() < total_ns {
            let next = (0..times.len()).min_by_key(|&n| times[n].time()).unwrap();
            times[next].charge(poll_ns[next]);
            used[next] += poll_ns[next];
        }
        used
    }

    #[test]
    fn time_is_divided_by_shares_however_long_polls_are() {
        for poll_ns in [[10_000, 10_000], [50_000, 5_000], [2_000, 300_000]] {
            let used = run(&[300, 100], &poll_ns, 1_000_000_000);
            let ratio = used[0] as f64 / used[1] as f64;
            assert!((2.98..3.02).contains(&ratio), "{ratio} at {poll_ns:?}");
        }
    }

    #[test]
    fn a_poll_that_takes_no_time_costs_something() {
        let mut time = VirtualTime::new(Shares(1));
        time.charge(0);
        assert!(time.time() > 0);
    }

    #[test]
    fn a_queue_that_was_empty_has_saved_nothing() {
        let mut time = VirtualTime::new(Shares(100));
        time.start_at(1_000);
        assert_eq!(time.time(), 1_000);
        time.start_at(500);
        assert_eq!(time.time(), 1_000);
    }

    #[test]
    fn no_shares_count_as_one() {
        let [mut none, mut one] = [0, 1].map(|shares| VirtualTime::new(Shares(shares)));
        none.charge(5_000);
        one.charge(5_000);
        assert_eq!(none.time(), one.time());
    }

    #[test]
    fn virtual_time_has_no_end() {
        let [mut one, mut other] = [(); 2].map(|()| VirtualTime::new(Shares(1)));
        one.charge(u64::MAX);
        other.start_at(one.time());
        one.charge(2_000);
        other.charge(1_000);
        assert!(other.time() < one.time(), "it comes next");
    }
}
