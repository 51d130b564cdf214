//! A number with one writer and any readers.

// Plain atomics also under loom: a count synchronises nothing, and modelling it would only
// multiply the interleavings.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A count that only its owner increases, without a locked instruction.
///
/// ```
/// let polls = blitzen_observe::Counter::new();
/// polls.add(2);
/// assert_eq!(polls.get(), 2);
/// ```
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Creates a counter at zero.
    ///
    /// ```
    /// assert_eq!(blitzen_observe::Counter::new().get(), 0);
    /// ```
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds `amount`. Only the owner calls this: of two concurrent calls one would be lost.
    ///
    /// ```
    /// let polls = blitzen_observe::Counter::new();
    /// polls.add(2);
    /// assert_eq!(polls.get(), 2);
    /// ```
    #[inline(always)]
    pub fn add(&self, amount: u64) {
        self.set(self.get().wrapping_add(amount));
    }

    /// Adds one. Only the owner calls this.
    ///
    /// ```
    /// let polls = blitzen_observe::Counter::new();
    /// polls.bump();
    /// assert_eq!(polls.get(), 1);
    /// ```
    #[inline(always)]
    pub fn bump(&self) {
        self.add(1);
    }

    /// Adds `amount`. Any thread may call this.
    ///
    /// ```
    /// let polls = blitzen_observe::Counter::new();
    /// polls.add_shared(2);
    /// assert_eq!(polls.get(), 2);
    /// ```
    #[inline]
    pub fn add_shared(&self, amount: u64) {
        self.0.fetch_add(amount, Relaxed);
    }

    /// Stores `value`. Only the owner calls this.
    ///
    /// ```
    /// let depth = blitzen_observe::Counter::new();
    /// depth.set(7);
    /// assert_eq!(depth.get(), 7);
    /// ```
    #[inline(always)]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Stores `value` if it is larger than the count. Only the owner calls this.
    ///
    /// ```
    /// let longest_ns = blitzen_observe::Counter::new();
    /// longest_ns.raise_to(7);
    /// longest_ns.raise_to(5);
    /// assert_eq!(longest_ns.get(), 7);
    /// ```
    #[inline(always)]
    pub fn raise_to(&self, value: u64) {
        if value > self.get() {
            self.set(value);
        }
    }

    /// Returns the count.
    ///
    /// ```
    /// assert_eq!(blitzen_observe::Counter::new().get(), 0);
    /// ```
    #[inline(always)]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
