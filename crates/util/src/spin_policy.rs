//! Whether to spin before sleeping: a rule on the last waits.
//!
//! Spinning takes processor time, and so does falling asleep and being woken.
//! Where waits are short, the event comes about as soon as a sleeper would be asleep.
//! So a thread spins while its last waits were short on average; spins that find
//! nothing are followed by ever more waits without one.
//!
//! Where events come from many sides, a sleeper finds several of them when it wakes, which
//! saves more than the spin does: it would take them one by one. So a thread spins only while
//! its last waits brought little more than one event each. A new source counts as an event: where
//! connections come and go, a sleeper finds several of them behind one event of the listener.
//!
//! Only the owner uses it, but for the count of new sources.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::backoff::Backoff;

/// How long to spin at most: twice what a wake costs.
pub(crate) const LIMIT_NS: u64 = 50_000;

/// Waits that end within this are short: what a spin takes at most, and the time a
/// wake would have taken.
const SHORT_NS: u64 = LIMIT_NS * 2;

/// What a long wait counts for, so that one does not outweigh many short ones.
const LONG_NS: u64 = SHORT_NS * 8;

/// One event, in the unit of their average.
const ONE_EVENT: u64 = 16;

/// With more events in a wait than this, a sleep gathers enough of them.
const FEW_EVENTS: u64 = ONE_EVENT * 3 / 2;

/// What a wait with many events counts for, so that one does not outweigh many others.
const MANY_EVENTS: u64 = ONE_EVENT * 8;

/// A thread's past waits.
#[derive(Debug)]
pub(crate) struct SpinPolicy {
    /// The average of how long the last waits took.
    recent_ns: AtomicU64,
    /// The average of how many events the last waits brought.
    recent_events: AtomicU64,
    /// Sources that any thread has added since the last wait ended.
    new_sources: AtomicU64,
    /// At most 1,024 waits go by without a spin.
    backoff: Backoff<1024>,
}

impl SpinPolicy {
    pub(crate) fn new() -> Self {
        Self {
            recent_ns: AtomicU64::new(LONG_NS),
            recent_events: AtomicU64::new(ONE_EVENT),
            new_sources: AtomicU64::new(0),
            backoff: Backoff::new(),
        }
    }

    /// Returns whether the wait that begins starts with a spin.
    pub(crate) fn begin_wait(&self) -> bool {
        self.recent_ns.load(Relaxed) <= SHORT_NS
            && self.recent_events.load(Relaxed) <= FEW_EVENTS
            && self.backoff.begin_attempt()
    }

    /// Counts a source that was added, until the next wait ends.
    pub(crate) fn note_source(&self) {
        self.new_sources.fetch_add(1, Relaxed);
    }

    /// Notes that a spin has found nothing, and nothing came after it either.
    pub(crate) fn note_vain_spin(&self) {
        self.backoff.fail();
    }

    /// Notes that a wait took `ns` and brought that many events. If it started with a spin,
    /// `spin_found` says whether the spin paid.
    pub(crate) fn end_wait(&self, ns: u64, events: usize, spin_found: Option<bool>) {
        // Loaded first: nearly always there is none.
        let new_sources = match self.new_sources.load(Relaxed) {
            0 => 0,
            _ => self.new_sources.swap(0, Relaxed),
        };
        let events = (events as u64).saturating_add(new_sources);
        let events = events.saturating_mul(ONE_EVENT).min(MANY_EVENTS);
        let average = (self.recent_events.load(Relaxed) * 7 + events) / 8;
        self.recent_events.store(average, Relaxed);
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
            policy.end_wait(1_000, 1, None);
        }
        policy
    }

    #[test]
    fn a_thread_spins_after_short_waits_only() {
        assert!(!SpinPolicy::new().begin_wait());
        let policy = after_short_waits();
        assert!(policy.begin_wait());
        for _ in 0..3 {
            policy.end_wait(u64::MAX, 1, None);
        }
        assert!(!policy.begin_wait());
    }

    #[test]
    fn a_thread_that_finds_several_events_at_once_sleeps_for_them() {
        let policy = after_short_waits();
        (0..20).for_each(|_| policy.end_wait(1_000, 3, None));
        assert!(!policy.begin_wait());
        (0..20).for_each(|_| policy.end_wait(1_000, 1, None));
        assert!(policy.begin_wait());
    }

    #[test]
    fn a_thread_to_which_connections_come_sleeps_for_them() {
        let policy = after_short_waits();
        for _ in 0..20 {
            policy.note_source();
            policy.end_wait(1_000, 1, None);
        }
        assert!(!policy.begin_wait());
        (0..20).for_each(|_| policy.end_wait(1_000, 1, None));
        assert!(policy.begin_wait());
    }

    #[test]
    fn spins_in_vain_become_rare() {
        let policy = after_short_waits();
        let mut spins = 0;
        for _ in 0..10_000 {
            let spun = policy.begin_wait();
            spins += u32::from(spun);
            policy.end_wait(SHORT_NS, 1, spun.then_some(false));
        }
        assert!((10..30).contains(&spins), "{spins}");
    }
}
