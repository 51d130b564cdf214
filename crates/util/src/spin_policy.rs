//! Whether to spin before sleeping: a rule on the last waits.
//!
//! Spinning takes processor time, and so does falling asleep and being woken.
//! Where waits are short, the event comes about as soon as a sleeper would be asleep.
//! So a thread spins while its last waits were short on average; spins that find
//! nothing are followed by ever more waits without one.
//!
//! Only the owner uses it; it has atomics only so that it is `Sync`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::backoff::Backoff;

/// How long to spin at most: twice what a wake costs.
pub(crate) const LIMIT_NS: u64 = 50_000;

/// Waits that end within this are short: what a spin takes at most, and the time a
/// wake would have taken.
const SHORT_NS: u64 = LIMIT_NS * 2;

/// What a long wait counts for, so that one does not outweigh many short ones.
const LONG_NS: u64 = SHORT_NS * 8;

/// A thread's past waits.
#[derive(Debug)]
pub(crate) struct SpinPolicy {
    recent_ns: AtomicU64,
    /// At most 1,024 waits go by without a spin.
    backoff: Backoff<1024>,
}

impl SpinPolicy {
    pub(crate) fn new() -> Self {
        Self {
            recent_ns: AtomicU64::new(LONG_NS),
            backoff: Backoff::new(),
        }
    }

    /// Returns whether the wait that begins starts with a spin.
    pub(crate) fn begin_wait(&self) -> bool {
        self.recent_ns.load(Relaxed) <= SHORT_NS && self.backoff.begin_attempt()
    }

    /// Notes that a wait took `ns`. If it started with a spin, `spin_found` says
    /// whether the spin found the event.
    pub(crate) fn end_wait(&self, ns: u64, spin_found: Option<bool>) {
        let average_ns = (self.recent_ns.load(Relaxed) * 3 + ns.min(LONG_NS)) / 4;
        self.recent_ns.store(average_ns, Relaxed);
        match spin_found {
            Some(true) => self.backoff.succeed(),
            Some(false) => self.backoff.fail(),
            None => {}
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    /// A policy whose last waits were short.
    fn after_short_waits() -> SpinPolicy {
        let policy = SpinPolicy::new();
        for _ in 0..20 {
            policy.end_wait(1_000, None);
        }
        policy
    }

    #[test]
    fn a_thread_spins_after_short_waits_only() {
        assert!(!SpinPolicy::new().begin_wait());
        let policy = after_short_waits();
        assert!(policy.begin_wait());
        for _ in 0..3 {
            policy.end_wait(u64::MAX, None);
        }
        assert!(!policy.begin_wait());
    }

    #[test]
    fn spins_in_vain_become_rare() {
        let policy = after_short_waits();
        let mut spins = 0;
        for _ in 0..10_000 {
            let spun = policy.begin_wait();
            spins += u32::from(spun);
            policy.end_wait(SHORT_NS, spun.then_some(false));
        }
        assert!((10..30).contains(&spins), "{spins}");
    }
}
