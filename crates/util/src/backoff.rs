//! Exponential backoff, counted in attempts: how many to skip after failures.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// Counts down attempts that are skipped after failures: one after the first
/// failure in a row, then two, four, and so on up to `LIMIT`. A success ends the
/// row.
///
/// Threads may share one. Their updates may overwrite each other, which costs an
/// attempt too many or too few and nothing else: so every access is `Relaxed`, and
/// no model needs to see it.
///
/// ```
/// use blitzen_util::backoff::Backoff;
///
/// let backoff = Backoff::<64>::new();
/// assert!(backoff.begin_attempt());
/// backoff.fail();
/// assert!(!backoff.begin_attempt(), "one is skipped");
/// assert!(backoff.begin_attempt());
/// backoff.succeed();
/// assert!(backoff.begin_attempt());
/// ```
#[derive(Debug, Default)]
pub struct Backoff<const LIMIT: u32> {
    skips_left: AtomicU32,
    /// How many attempts the last failure has skipped; 0 after a success.
    last_skips: AtomicU32,
}

impl<const LIMIT: u32> Backoff<LIMIT> {
    /// Creates a backoff that skips nothing yet.
    pub const fn new() -> Self {
        Self {
            skips_left: AtomicU32::new(0),
            last_skips: AtomicU32::new(0),
        }
    }

    /// Returns whether to make the next attempt. If not, it counts as skipped.
    pub fn begin_attempt(&self) -> bool {
        match self.skips_left.load(Relaxed) {
            0 => true,
            left => {
                self.skips_left.store(left - 1, Relaxed);
                false
            }
        }
    }

    /// Notes that an attempt has failed.
    pub fn fail(&self) {
        let skips = self.last_skips.load(Relaxed).saturating_mul(2);
        let skips = skips.clamp(1, LIMIT);
        self.last_skips.store(skips, Relaxed);
        self.skips_left.store(skips, Relaxed);
    }

    /// Notes that an attempt has succeeded: nothing is skipped any more.
    pub fn succeed(&self) {
        // Loaded first: nearly always there is nothing to store, and the cache line
        // stays shared.
        if self.last_skips.load(Relaxed) != 0 {
            self.last_skips.store(0, Relaxed);
            self.skips_left.store(0, Relaxed);
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    /// How many attempts are skipped before the next one that is made.
    fn count_skips<const LIMIT: u32>(backoff: &Backoff<LIMIT>) -> usize {
        (0..10_000).take_while(|_| !backoff.begin_attempt()).count()
    }

    #[test]
    fn failures_in_a_row_skip_ever_more_attempts_up_to_the_limit() {
        let backoff = Backoff::<20>::new();
        assert_eq!(count_skips(&backoff), 0);
        let skips = [(); 7].map(|()| {
            backoff.fail();
            count_skips(&backoff)
        });
        assert_eq!(skips, [1, 2, 4, 8, 16, 20, 20]);
    }

    #[test]
    fn a_success_begins_a_new_row() {
        let backoff = Backoff::<1024>::new();
        for _ in 0..5 {
            backoff.fail();
        }
        backoff.succeed();
        assert_eq!(count_skips(&backoff), 0);
        backoff.fail();
        assert_eq!(count_skips(&backoff), 1);
    }
}
