//! A number with one writer and any readers.

// Plain atomics also under loom: a count synchronises nothing, and modelling
// it would only multiply the interleavings.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A count that only its owner raises: no locked instruction.
///
/// ```
/// let polls = blitzen_observe::Counter::new();
/// polls.add(2);
/// assert_eq!(polls.get(), 2);
/// ```
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Raises the count. Only the owner calls this: two at once would lose one.
    #[inline(always)]
    pub fn add(&self, amount: u64) {
        self.set(self.get().wrapping_add(amount));
    }

    /// Raises the count by one. Only the owner calls this.
    #[inline(always)]
    pub fn bump(&self) {
        self.add(1);
    }

    /// Raises the count, whoever calls.
    #[inline]
    pub fn add_shared(&self, amount: u64) {
        self.0.fetch_add(amount, Relaxed);
    }

    /// Replaces the count. Only the owner calls this.
    #[inline(always)]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Keeps the larger of the count and `value`. Only the owner calls this.
    #[inline(always)]
    pub fn raise_to(&self, value: u64) {
        if value > self.get() {
            self.set(value);
        }
    }

    /// The count now.
    #[inline(always)]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
