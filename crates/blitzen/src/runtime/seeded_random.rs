//! Random choices on the threads of a runtime that has a seed.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use blitzen_util::rng::{Rng, replace_thread_rng};

/// The random sequences of a runtime's threads, derived from one seed.
pub(crate) struct SeededRandom {
    seed: u64,
    entries: AtomicU64,
}

/// A guard: the thread draws from a sequence of the runtime until it is
/// dropped.
pub(crate) struct SeededRandomGuard {
    before: Option<Rng>,
}

impl SeededRandom {
    pub(crate) fn new(seed: u64) -> Self {
        // Different from the sequences with which workers choose whom to steal
        // from.
        let seed = Rng::derive(!seed, 0);
        Self {
            seed,
            entries: AtomicU64::new(0),
        }
    }

    /// Gives the calling thread, which is in `block_on`, the next sequence:
    /// they follow the order of the calls.
    pub(crate) fn enter(&self) -> SeededRandomGuard {
        let entry = self.entries.fetch_add(1, Relaxed);
        self.draw(entry.wrapping_mul(2))
    }

    /// Gives the calling thread the sequence of a worker.
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
