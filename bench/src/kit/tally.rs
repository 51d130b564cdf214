//! Counts what many tasks have done, for somebody who looks from time to time.
//!
//! One counter would pass between the cores with every task. Here each thread has one.

use std::cell::Cell;
use std::sync::atomic::{
    AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

/// More threads than this share counters.
const COUNTERS: usize = 64;

#[repr(align(128))]
struct Counter(AtomicU64);

pub(crate) struct Tally([Counter; COUNTERS]);

impl Tally {
    pub(crate) const fn new() -> Tally {
        Tally([const { Counter(AtomicU64::new(0)) }; COUNTERS])
    }

    /// Counts one.
    pub(crate) fn add(&self) {
        // Release, met by the Acquire of `sum`.
        self.0[own_counter()].0.fetch_add(1, Release);
    }

    /// Returns how many were counted. What was done before that is seen.
    pub(crate) fn sum(&self) -> u64 {
        self.0.iter().map(|counter| counter.0.load(Acquire)).sum()
    }
}

fn own_counter() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<Option<usize>> = const { Cell::new(None) };
    }
    OWN.get().unwrap_or_else(|| {
        let own = THREADS.fetch_add(1, Relaxed) % COUNTERS;
        OWN.set(Some(own));
        own
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_counts() {
        let tally = Tally::new();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..100).for_each(|_| tally.add()));
            }
        });
        assert_eq!(tally.sum(), 300);
    }
}
