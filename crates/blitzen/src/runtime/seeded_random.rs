//! Random choices on the threads of a runtime that has a seed.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use blitzen_util::rng::{Rng, replace_thread_rng};

/// Gives every thread that enters a sequence of its own, all from one seed.
pub(crate) struct SeededRandom {
    seed: u64,
    entries: AtomicU64,
}

/// The thread seeded_random from the runtime's seed until this is dropped.
pub(crate) struct SeededRandomGuard {
    before: Option<Rng>,
}

impl SeededRandom {
    pub(crate) fn new(seed: u64) -> Self {
        // Away from the sequences of the workers, who steal by theirs.
        let seed = Rng::derive(!seed, 0);
        Self {
            seed,
            entries: AtomicU64::new(0),
        }
    }

    /// A caller of `block_on` enters: sequences follow the order of the calls.
    pub(crate) fn enter(&self) -> SeededRandomGuard {
        let entry = self.entries.fetch_add(1, Relaxed);
        self.draw(entry.wrapping_mul(2))
    }

    /// A worker begins.
    pub(crate) fn enter_worker(&self, worker: usize) -> SeededRandomGuard {
        self.draw(2 * worker as u64 + 1)
    }

    fn draw(&self, sequence: u64) -> SeededRandomGuard {
        let rng = Rng::new(Rng::derive(self.seed, sequence));
        SeededRandomGuard {
            before: replace_thread_rng(Some(rng)),
        }
    }
}

impl Drop for SeededRandomGuard {
    fn drop(&mut self) {
        replace_thread_rng(self.before.take());
    }
}
