//! A worker that has run out of tasks waits a moment before it steals from a queue that grows.
//!
//! A task that spawns or wakes many others queues one every fifty nanoseconds or so. A thief that
//! takes them two at a time costs both workers more than the tasks do, since every steal moves the
//! lines of the queue from one processor to the other and back. So the thief looks at the queue
//! twice: if it grows, the thief waits for two microseconds and then takes half of what has come.
//!
//! The second look costs time too. A thief takes it at one queue at most each time it looks for
//! tasks, and after looks in vain ever more of them are left out: then it takes at once.

use blitzen_util::backoff::Backoff;
use blitzen_util::shim::hint;

/// A queue with as many tasks need not grow.
const ENOUGH: u32 = 32;

/// The time between the two looks. Spawning or waking a task takes less.
const LOOK_NS: u64 = 200;

/// How long a thief waits for a queue that grows: a thief that is awake should start a task within
/// two microseconds.
const GATHER_NS: u64 = 1_800;

/// The most spins in such a time, where a paused clock shows none. A spin and a look at the clock
/// take 30 ns or more.
const MAX_SPINS: u32 = 64;

/// What a worker knows of the queues that it takes from.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    /// At most 64 takes in a row are made without a second look.
    backoff: Backoff<64>,
}

impl Gather {
    /// Returns when it is time to take tasks from the queue with that `len`: true if it has looked
    /// twice.
    #[inline]
    pub(crate) fn wait(&self, len: impl Fn() -> u32, now_ns: impl Fn() -> u64) -> bool {
        let seen = len();
        let looks_twice = (1..ENOUGH).contains(&seen) && self.backoff.begin_attempt();
        if looks_twice {
            self.wait_for_more(seen, len, now_ns);
        }
        looks_twice
    }

    #[cold]
    fn wait_for_more(&self, seen: u32, len: impl Fn() -> u32, now_ns: impl Fn() -> u64) {
        spin_for(LOOK_NS, &now_ns);
        if len() > seen {
            self.backoff.succeed();
            spin_for(GATHER_NS, &now_ns);
        } else {
            self.backoff.fail();
        }
    }
}

/// Leaves the queue's cache lines to its owner meanwhile.
fn spin_for(ns: u64, now_ns: &impl Fn() -> u64) {
    let end_ns = now_ns().saturating_add(ns);
    for _ in 0..MAX_SPINS {
        hint::spin_loop();
        if now_ns() >= end_ns {
            return;
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Lets a queue gather that has the lengths `seen` by each look, on a clock that advances by
    /// 100 ns with each reading. Returns how long that took, and how many looks.
    fn wait(gather: &Gather, seen: &[u32]) -> (u64, usize) {
        let (now_ns, looks) = (Cell::new(0), Cell::new(0));
        let len = || {
            looks.set(looks.get() + 1);
            seen[looks.get() - 1]
        };
        let looked_twice = gather.wait(len, || now_ns.replace(now_ns.get() + 100));
        assert_eq!(looked_twice, looks.get() == 2);
        (now_ns.get(), looks.get())
    }

    #[test]
    fn an_empty_queue_and_one_with_enough_are_not_waited_for() {
        assert_eq!(wait(&Gather::default(), &[0]), (0, 1));
        assert_eq!(wait(&Gather::default(), &[ENOUGH]), (0, 1));
    }

    #[test]
    fn a_queue_that_grows_has_two_microseconds() {
        let gather = Gather::default();
        for _ in 0..100 {
            let (waited_ns, looks) = wait(&gather, &[1, 2]);
            assert!((1_800..2_500).contains(&waited_ns), "{waited_ns}");
            assert_eq!(looks, 2);
        }
    }

    #[test]
    fn a_queue_that_does_not_grow_is_looked_at_twice_ever_less() {
        let gather = Gather::default();
        let second_looks = (0..1_000).filter(|_| wait(&gather, &[3, 3]).1 == 2);
        assert!((10..30).contains(&second_looks.count()));
        while wait(&gather, &[3, 4]).1 == 1 {}
        assert_eq!(wait(&gather, &[3, 4]).1, 2, "it has grown again");
    }

    #[test]
    fn a_clock_that_stands_still_ends_no_worker() {
        let spins = Cell::new(0);
        spin_for(LOOK_NS, &|| {
            spins.set(spins.get() + 1);
            7
        });
        assert_eq!(spins.get(), MAX_SPINS + 1);
    }
}
