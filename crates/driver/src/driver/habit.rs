//! Whether looking around before sleeping pays: arithmetic on past waits.
//!
//! It pays if waits are short, and if events come sooner to who looks for them
//! than to who sleeps. They do where the peer has a processor of its own, and a
//! sleeper would have to be woken across processors. They do not where both share
//! one: then the peer runs only when this thread sleeps. Nobody can say which it
//! is, so both are tried, and the better one is done nearly always.
//!
//! H1. Only the owner uses it; the atomics are there to share it, not to agree.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Waits that end within this are short: what looking around takes at the most,
/// and the time a wake would have taken.
const SHORT_NS: u64 = 100_000;

/// What a long wait counts for, so that one long night does not outweigh many
/// short naps.
const LONG_NS: u64 = SHORT_NS * 8;

/// One wait in so many is spent the other way, to see how that would be.
const TRY_EVERY: u32 = 64;

/// A worker's past waits.
#[derive(Debug)]
pub(super) struct Habit {
    /// How long the last waits took.
    recent_ns: AtomicU64,
    /// How long short ones took that were spent asleep at once.
    asleep_ns: AtomicU64,
    /// And those that began with a look around.
    looking_ns: AtomicU64,
    waits: AtomicU32,
}

impl Habit {
    pub(super) fn new() -> Self {
        Self {
            recent_ns: AtomicU64::new(LONG_NS),
            asleep_ns: AtomicU64::new(SHORT_NS),
            looking_ns: AtomicU64::new(0),
            waits: AtomicU32::new(0),
        }
    }

    /// Whether the next wait should begin with a look around.
    pub(super) fn wants_to_look(&self) -> bool {
        if self.recent_ns.load(Relaxed) > SHORT_NS {
            return false;
        }
        let waits = self.waits.load(Relaxed).wrapping_add(1);
        self.waits.store(waits, Relaxed);
        let is_better = self.looking_ns.load(Relaxed) * 4 < self.asleep_ns.load(Relaxed) * 3;
        is_better != waits.is_multiple_of(TRY_EVERY)
    }

    /// A wait is over, and something has come.
    pub(super) fn learn(&self, has_looked: bool, wait_ns: u64) {
        average(&self.recent_ns, wait_ns.min(LONG_NS), 4);
        // A long one says nothing about which is the better way to spend short ones.
        if wait_ns <= SHORT_NS * 2 {
            match has_looked {
                // Slower: a peer that was held up once is no reason to change.
                true => average(&self.looking_ns, wait_ns, 16),
                false => average(&self.asleep_ns, wait_ns, 4),
            }
        }
    }
}

/// Moves an average by its share towards a new value.
fn average(average_ns: &AtomicU64, new_ns: u64, share: u64) {
    let before = average_ns.load(Relaxed);
    average_ns.store((before * (share - 1) + new_ns) / share, Relaxed);
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    /// Waits whose length depends on how they are spent; how many of them began
    /// with a look around.
    fn wait(habit: &Habit, waits: usize, looking_ns: u64, asleep_ns: u64) -> usize {
        let spend = |_: &usize| {
            let looks = habit.wants_to_look();
            habit.learn(looks, if looks { looking_ns } else { asleep_ns });
            looks
        };
        (0..waits).filter(spend).count()
    }

    #[test]
    fn long_waits_are_slept_through() {
        let habit = Habit::new();
        assert_eq!(wait(&habit, 1000, 1_000_000, 1_000_000), 0);
    }

    #[test]
    fn short_ones_are_looked_through_where_that_is_quicker() {
        let habit = Habit::new();
        let looks = wait(&habit, 1000, 20_000, 45_000);
        assert!(looks > 950, "{looks}");
        // A peer that is slow now and then does not end the habit.
        for _ in 0..10 {
            habit.learn(true, 150_000);
            assert!(wait(&habit, 100, 20_000, 45_000) > 90);
        }
        // One long wait interrupts it for a moment.
        habit.learn(true, 1_000_000_000);
        assert!(!habit.wants_to_look());
        assert!(wait(&habit, 100, 20_000, 45_000) > 90);
    }

    #[test]
    fn where_looking_holds_up_what_is_looked_for_it_is_given_up() {
        let habit = Habit::new();
        wait(&habit, 2000, 8_000, 5_000);
        assert!(wait(&habit, 6400, 8_000, 5_000) <= 100);
        assert!(wait(&habit, 6400, 54_000, 5_000) <= 100);
        // And taken up again when things are otherwise.
        wait(&habit, 6400, 15_000, 45_000);
        assert!(wait(&habit, 1000, 15_000, 45_000) > 950);
    }
}
