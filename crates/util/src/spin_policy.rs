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
//! What a sleep costs differs much between machines: some of the processor time of sleeps is
//! measured. A spin that has found an event of a source, but has taken longer than one and a half
//! sleeps cost, counts as one in vain. Both include the delivery of the events and the calls of
//! their wakers. Spins for what other threads of the process do are not judged by that: while both
//! sides spin, they answer each other at once.
//!
//! Only the owner uses it, but for the count of new sources.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

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

/// So many sleeps are measured first, and then one of [`SLEEPS_PER_MEASUREMENT`]: reading the
/// processor time of a thread is a system call.
const FIRST_MEASURED: u32 = 8;
const SLEEPS_PER_MEASUREMENT: u32 = 64;

/// After so much time of spins that paid, one wait begins without a spin, and its sleep is measured:
/// a thread whose spins always pay would otherwise never learn that sleeps cost less than it thinks.
const SPUN_NS_PER_MEASUREMENT: u64 = LIMIT_NS * 1_000;

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
    sleeps: AtomicU32,
    /// The average of how much processor time the measured sleeps took; 0 before the first.
    sleep_cost_ns: AtomicU64,
    /// How long spins have taken that cost less than a sleep, since one was measured instead.
    spun_ns: AtomicU64,
}

impl SpinPolicy {
    pub(crate) fn new() -> Self {
        Self {
            recent_ns: AtomicU64::new(LONG_NS),
            recent_events: AtomicU64::new(ONE_EVENT),
            new_sources: AtomicU64::new(0),
            backoff: Backoff::new(),
            sleeps: AtomicU32::new(0),
            sleep_cost_ns: AtomicU64::new(0),
            spun_ns: AtomicU64::new(0),
        }
    }

    /// Returns whether the wait that begins starts with a spin.
    pub(crate) fn begin_wait(&self) -> bool {
        self.recent_ns.load(Relaxed) <= SHORT_NS
            && self.recent_events.load(Relaxed) <= FEW_EVENTS
            && self.backoff.begin_attempt()
            && !self.begin_measurement()
    }

    /// Returns whether a sleep must be measured; then the next one is.
    fn begin_measurement(&self) -> bool {
        let is_due = self.spun_ns.load(Relaxed) >= SPUN_NS_PER_MEASUREMENT;
        if is_due {
            self.spun_ns.store(0, Relaxed);
            self.sleeps.store(SLEEPS_PER_MEASUREMENT - 1, Relaxed);
        }
        is_due
    }

    /// Counts a source that was added, until the next wait ends.
    pub(crate) fn note_source(&self) {
        self.new_sources.fetch_add(1, Relaxed);
    }

    /// Notes that a spin has found nothing, and nothing came after it either.
    pub(crate) fn note_vain_spin(&self) {
        self.backoff.fail();
    }

    /// Counts a sleep that begins; returns whether to measure it.
    pub(crate) fn begin_sleep(&self) -> bool {
        let sleeps = self.sleeps.load(Relaxed).wrapping_add(1);
        self.sleeps.store(sleeps, Relaxed);
        sleeps <= FIRST_MEASURED || sleeps.is_multiple_of(SLEEPS_PER_MEASUREMENT)
    }

    /// Notes that a sleep took so much processor time; 0 if the clock is too coarse to see it.
    pub(crate) fn end_sleep(&self, processor_ns: u64) {
        if processor_ns == 0 {
            return;
        }
        let cost_ns = processor_ns.min(LIMIT_NS);
        let average_ns = match self.sleep_cost_ns.load(Relaxed) {
            0 => cost_ns,
            average_ns => (average_ns * 7 + cost_ns) / 8,
        };
        self.sleep_cost_ns.store(average_ns, Relaxed);
    }

    /// Notes that a spin has found something after `ns`, and brought so many events: it has paid
    /// unless a sleep would have cost less, about.
    fn note_spin(&self, ns: u64, events: usize) {
        let cost_ns = self.sleep_cost_ns.load(Relaxed);
        if events == 0 || cost_ns == 0 {
            return self.backoff.succeed();
        }
        if ns > cost_ns + cost_ns / 2 {
            return self.backoff.fail();
        }
        self.backoff.succeed();
        let spun_ns = self.spun_ns.load(Relaxed).saturating_add(ns);
        self.spun_ns.store(spun_ns, Relaxed);
    }

    /// Notes that a wait took `ns` and brought that many events. If it started with a spin,
    /// `spin_found` says whether the spin found something while the thread had its processor.
    pub(crate) fn end_wait(&self, ns: u64, events: usize, spin_found: Option<bool>) {
        match spin_found {
            Some(true) => self.note_spin(ns, events),
            Some(false) => self.backoff.fail(),
            None => {}
        }
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

    /// How many of 10,000 waits start with a spin, each of which finds so many events after `ns`.
    /// The others sleep.
    fn spins_that_find(policy: &SpinPolicy, ns: u64, events: usize, sleep_cost_ns: u64) -> u32 {
        let mut spins = 0;
        for _ in 0..10_000 {
            let spun = policy.begin_wait();
            spins += u32::from(spun);
            if !spun && policy.begin_sleep() {
                policy.end_sleep(sleep_cost_ns);
            }
            policy.end_wait(ns, events, spun.then_some(true));
        }
        spins
    }

    #[test]
    fn spins_that_take_longer_than_sleeps_cost_become_rare() {
        let policy = after_short_waits();
        assert_eq!(
            spins_that_find(&policy, 9_000, 1, 6_000),
            10_000,
            "nothing is known"
        );
        for _ in 0..100 {
            policy.end_sleep(6_000);
        }
        assert!(spins_that_find(&policy, 9_000, 1, 6_000) >= 9_990);
        assert!(
            spins_that_find(&policy, 20_000, 0, 6_000) >= 9_990,
            "no source"
        );
        assert!(spins_that_find(&policy, 9_100, 1, 6_000) < 30);
        for _ in 0..100 {
            policy.end_sleep(7_000);
        }
        assert!(
            spins_that_find(&policy, 9_100, 1, 7_000) > 8_000,
            "sleeps cost more"
        );
    }

    #[test]
    fn a_cost_that_was_measured_too_high_comes_down_although_all_spins_find_something() {
        let policy = after_short_waits();
        for _ in 0..FIRST_MEASURED {
            assert!(policy.begin_sleep());
            policy.end_sleep(LIMIT_NS);
        }
        let spins = spins_that_find(&policy, 20_000, 1, 5_000);
        assert!((9_990..10_000).contains(&spins), "{spins}");
        assert!(policy.sleep_cost_ns.load(Relaxed) < LIMIT_NS);
        for _ in 0..5 {
            spins_that_find(&policy, 20_000, 1, 5_000);
        }
        assert!(spins_that_find(&policy, 20_000, 1, 5_000) < 30);
    }

    #[test]
    fn a_clock_too_coarse_to_see_a_sleep_says_nothing() {
        let policy = after_short_waits();
        (0..100).for_each(|_| policy.end_sleep(0));
        assert_eq!(spins_that_find(&policy, 9_000, 1, 0), 10_000);
    }

    #[test]
    fn the_first_sleeps_are_measured_and_few_of_the_others() {
        let policy = SpinPolicy::new();
        let measured = (0..6_400).filter(|_| policy.begin_sleep()).count();
        assert_eq!(measured, 8 + 100);
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
