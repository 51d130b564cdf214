//! Whether to spin before sleeping: arithmetic on past waits.
//!
//! Spinning takes processor time; so does falling asleep and being woken. Which costs
//! more depends on the event:
//!
//! * If a peer on another processor answers what this thread has just done, the event
//!   comes soon. A sleeper would have to be woken across processors each time, and
//!   spinning makes everything go faster.
//! * If events come by themselves, spinning hardly makes them come faster. A sleeper
//!   finds several at once.
//! * If the peer shares this thread's processor, it runs only while this thread sleeps.
//!
//! This cannot be known beforehand. So both ways are tried, a batch of waits each, and
//! their costs for an event are compared. In addition, every spin that finds nothing
//! makes the policy skip more of the following ones.
//!
//! H1. Only one thread uses a policy. Its fields are atomic so that it can be part of a
//!     shared value.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// The longest spin: twice what a wake costs.
pub(crate) const LIMIT_NS: u64 = 50_000;

/// Waits that end within this are short: the longest spin, and the time that a wake
/// would have taken.
const SHORT_NS: u64 = LIMIT_NS * 2;

/// What a long wait counts as, so that one long wait does not outweigh many short
/// ones.
const LONG_NS: u64 = SHORT_NS * 8;

/// The number of waits of a batch.
const BATCH: u32 = 16;

/// One batch in this many is spent the other way, to measure what that costs.
const TRIAL_EVERY: u32 = 64;

/// The most spins that are skipped in a batch after spins that found nothing.
const MAX_SKIPS: u32 = 1023;

/// What a thread has learnt from its past waits.
#[derive(Debug)]
pub(crate) struct SpinPolicy {
    /// The average duration of the last waits.
    recent_ns: AtomicU64,
    /// What an event cost in waits that slept at once.
    sleeping: EventCost,
    /// What an event cost in waits that began with a spin.
    spinning: EventCost,
    batch: Batch,
    skips: Skips,
}

/// Spins that are skipped because the last ones found nothing.
#[derive(Debug)]
struct Skips {
    left: AtomicU32,
    /// How many to skip after the next spin that finds nothing.
    next: AtomicU32,
    /// Whether the spin of the current wait was skipped.
    is_current: AtomicBool,
}

/// What an event cost: elapsed time, and the thread's processor time. 0 if not yet
/// known.
#[derive(Debug, Default)]
struct EventCost {
    ns: AtomicU64,
    cpu_ns: AtomicU64,
}

/// Waits in a batch that are all meant to be spent in the same way.
#[derive(Debug)]
struct Batch {
    /// Whether they begin with a spin.
    spins: AtomicBool,
    /// The clocks at the end of the wait before the first one.
    began_ns: AtomicU64,
    began_cpu_ns: AtomicU64,
    /// How many waits there were, including the one before the first; 0 if that one
    /// is still to come.
    waits: AtomicU32,
    events: AtomicU64,
    /// How many batches there were before.
    number: AtomicU32,
}

/// A wait that has ended with an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedWait {
    pub(crate) ns: u64,
    pub(crate) has_spun: bool,
    /// Whether it began with a spin that found nothing.
    pub(crate) has_missed: bool,
    pub(crate) events: u64,
}

/// Readings of two clocks, or the difference of two such readings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clocks {
    pub(crate) ns: u64,
    /// The processor time of the calling thread.
    pub(crate) cpu_ns: u64,
}

impl SpinPolicy {
    pub(crate) fn new() -> Self {
        Self {
            recent_ns: AtomicU64::new(LONG_NS),
            sleeping: EventCost::default(),
            spinning: EventCost::default(),
            batch: Batch {
                spins: AtomicBool::new(false),
                began_ns: AtomicU64::new(0),
                began_cpu_ns: AtomicU64::new(0),
                waits: AtomicU32::new(0),
                events: AtomicU64::new(0),
                number: AtomicU32::new(0),
            },
            skips: Skips {
                left: AtomicU32::new(0),
                next: AtomicU32::new(1),
                is_current: AtomicBool::new(false),
            },
        }
    }

    /// Begins a wait; returns whether to spin first.
    pub(crate) fn decide_to_spin(&self) -> bool {
        let would_spin = self.recent_ns.load(Relaxed) <= SHORT_NS && self.batch.spins.load(Relaxed);
        would_spin && !self.skips.skip_spin()
    }

    /// The longest spin. Not much longer than the wait of a sleeper: if the event has
    /// not come by then, spinning only holds up a peer on the same processor.
    pub(crate) fn limit_ns(&self) -> u64 {
        match self.sleeping.get().ns {
            0 => LIMIT_NS,
            ns => (ns + ns / 2).min(LIMIT_NS),
        }
    }

    /// Learns from a wait that began with a spin that found nothing, and was ended by
    /// something that was not urgent.
    pub(crate) fn learn_not_urgent(&self) {
        average(&self.recent_ns, LONG_NS, 4);
        self.skips.learn(true);
        self.batch.discard();
    }

    /// Learns from a wait that has ended with an event. Reads `clocks` only once in a
    /// batch: one of them takes a system call.
    pub(crate) fn learn(&self, wait: EndedWait, clocks: impl Fn() -> Clocks) {
        average(&self.recent_ns, wait.ns.min(LONG_NS), 4);
        if wait.has_spun {
            self.skips.learn(wait.has_missed);
        }
        let was_skipped = self.skips.is_current.swap(false, Relaxed);
        let batch = &self.batch;
        // A long wait says nothing about the better way to spend short ones, nor does
        // one that was spent in another way than intended.
        let is_as_intended = wait.has_spun == batch.spins.load(Relaxed) || was_skipped;
        if wait.ns > SHORT_NS * 2 || !is_as_intended {
            return batch.discard();
        }
        match batch.add(wait.events) {
            0 => batch.begin(clocks()),
            BATCH => {
                let now = clocks();
                self.learn_batch(batch.cost(now));
                batch.begin(now);
            }
            _ => {}
        }
    }

    /// Learns what an event of the batch cost, and decides how to spend the next one.
    fn learn_batch(&self, cost: Clocks) {
        match self.batch.spins.load(Relaxed) {
            true => self.spinning.learn(cost),
            false => self.sleeping.learn(cost),
        }
        let number = self.batch.number.load(Relaxed).wrapping_add(1);
        self.batch.number.store(number, Relaxed);
        let is_trial = number.is_multiple_of(TRIAL_EVERY);
        let spins = self.is_spinning_better() != is_trial;
        let spun = self.batch.spins.swap(spins, Relaxed);
        if spins && !spun {
            self.skips.left.store(0, Relaxed); // a new chance
        }
    }

    /// Whether spinning is the better way, as far as is known. Either it is faster and
    /// takes less processor time; or it is twice as fast and takes little more
    /// processor time, on a thread that is not busy most of the time.
    fn is_spinning_better(&self) -> bool {
        let (spinning, sleeping) = (self.spinning.get(), self.sleeping.get());
        let saves =
            spinning.cpu_ns * 8 <= sleeping.cpu_ns * 7 && spinning.ns * 3 <= sleeping.ns * 2;
        let quickens = spinning.ns * 2 <= sleeping.ns
            && sleeping.cpu_ns * 5 <= sleeping.ns * 3
            && spinning.cpu_ns * 2 <= sleeping.cpu_ns * 3;
        saves || quickens
    }
}

impl Skips {
    /// Counts a spin that is due; returns true if it is to be skipped.
    fn skip_spin(&self) -> bool {
        let left = self.left.load(Relaxed);
        self.left.store(left.saturating_sub(1), Relaxed);
        self.is_current.store(left > 0, Relaxed);
        left > 0
    }

    fn learn(&self, has_missed: bool) {
        let next = self.next.load(Relaxed);
        let longer = match has_missed {
            true => (next * 2 + 1).min(MAX_SKIPS),
            false => 1,
        };
        self.next.store(longer, Relaxed);
        if has_missed {
            self.left.store(next, Relaxed);
        }
    }
}

impl EventCost {
    fn get(&self) -> Clocks {
        Clocks {
            ns: self.ns.load(Relaxed),
            cpu_ns: self.cpu_ns.load(Relaxed),
        }
    }

    fn learn(&self, cost: Clocks) {
        for (known_ns, new_ns) in [(&self.ns, cost.ns), (&self.cpu_ns, cost.cpu_ns)] {
            match known_ns.load(Relaxed) {
                0 => known_ns.store(new_ns, Relaxed),
                _ => average(known_ns, new_ns, 4),
            }
        }
    }
}

impl Batch {
    fn begin(&self, now: Clocks) {
        self.began_ns.store(now.ns, Relaxed);
        self.began_cpu_ns.store(now.cpu_ns, Relaxed);
        self.waits.store(1, Relaxed);
        self.events.store(0, Relaxed);
    }

    /// Forgets the waits so far: the next one is the one before the first.
    fn discard(&self) {
        self.waits.store(0, Relaxed);
    }

    /// Adds a wait; returns how many there were before.
    fn add(&self, events: u64) -> u32 {
        let waits = self.waits.load(Relaxed);
        self.waits.store(waits + 1, Relaxed);
        self.events
            .store(self.events.load(Relaxed) + events, Relaxed);
        waits
    }

    /// What an event of the batch has cost.
    fn cost(&self, now: Clocks) -> Clocks {
        let events = self.events.load(Relaxed).max(1);
        let since = |now_ns: u64, began_ns: &AtomicU64| {
            now_ns.saturating_sub(began_ns.load(Relaxed)) / events
        };
        Clocks {
            ns: since(now.ns, &self.began_ns),
            cpu_ns: since(now.cpu_ns, &self.began_cpu_ns),
        }
    }
}

/// Moves an average by a `share`-th of the difference towards a new value.
fn average(average_ns: &AtomicU64, new_ns: u64, share: u64) {
    let before = average_ns.load(Relaxed);
    average_ns.store((before * (share - 1) + new_ns) / share, Relaxed);
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    /// What a wait costs and brings if it is spent in one way.
    #[derive(Clone, Copy)]
    struct Way {
        wait_ns: u64,
        cpu_ns: u64,
        events: u64,
    }

    /// A wait that is spent spinning.
    const fn spinning(wait_ns: u64, events: u64) -> Way {
        Way {
            wait_ns,
            cpu_ns: wait_ns,
            events,
        }
    }

    /// A wait that is spent asleep; falling asleep and waking up take `cpu_ns`.
    const fn sleeping(wait_ns: u64, cpu_ns: u64, events: u64) -> Way {
        Way {
            wait_ns,
            cpu_ns,
            events,
        }
    }

    struct Worker {
        policy: SpinPolicy,
        clocks: Clocks,
    }

    impl Worker {
        fn new() -> Self {
            Self {
                policy: SpinPolicy::new(),
                clocks: Clocks::default(),
            }
        }

        fn wait_once(&mut self, has_spun: bool, way: Way) {
            let work_ns = 5_000 * way.events;
            self.clocks.ns += work_ns + way.wait_ns;
            self.clocks.cpu_ns += work_ns + way.cpu_ns;
            let wait = EndedWait {
                ns: way.wait_ns,
                has_spun,
                has_missed: has_spun && way.wait_ns > LIMIT_NS,
                events: way.events,
            };
            self.policy.learn(wait, || self.clocks);
        }

        /// Waits `waits` times, each as the policy decides; returns how many waits
        /// began with a spin.
        fn wait(&mut self, waits: usize, spinning: Way, sleeping: Way) -> usize {
            let spend = |_: &usize| {
                let spins = self.policy.decide_to_spin();
                self.wait_once(spins, if spins { spinning } else { sleeping });
                spins
            };
            (0..waits).filter(spend).count()
        }
    }

    #[test]
    fn long_waits_are_slept_through() {
        let mut worker = Worker::new();
        let (spinning, sleeping) = (spinning(1_000_000, 1), sleeping(1_000_000, 2_000_000, 1));
        assert_eq!(worker.wait(1000, spinning, sleeping), 0);
    }

    #[test]
    fn short_waits_are_spent_spinning_where_that_costs_less() {
        let mut worker = Worker::new();
        let (quick, dear) = (spinning(15_000, 1), sleeping(60_000, 20_000, 1));
        let spins = worker.wait(1000, quick, dear);
        assert!(spins > 950, "{spins}");
        // A peer that is slow now and then does not end the spinning.
        for _ in 0..10 {
            worker.wait_once(true, spinning(50_000, 1));
            assert!(worker.wait(100, quick, dear) > 70);
        }
        // One long wait interrupts it for a moment.
        worker.wait_once(true, sleeping(1_000_000_000, 70_000, 1));
        assert!(!worker.policy.decide_to_spin());
        assert!(worker.wait(100, quick, dear) > 70);
    }

    #[test]
    fn a_worker_sleeps_while_it_waits_for_events_that_come_by_themselves() {
        let mut worker = Worker::new();
        // One every 12 µs: a sleeper wakes late, and finds several of them.
        let (single, several) = (spinning(7_000, 1), sleeping(23_000, 4_000, 4));
        worker.wait(2000, single, several);
        let spins = worker.wait(6400, single, several);
        assert!(spins <= 200, "{spins}");
    }

    #[test]
    fn a_worker_that_is_busy_does_not_spin() {
        let mut worker = Worker::new();
        let (single, busy) = (spinning(0, 1), sleeping(3_000, 500, 1));
        worker.wait(2000, single, busy);
        assert!(worker.wait(6400, single, busy) <= 200);
    }

    #[test]
    fn a_busy_worker_spins_if_that_is_faster_and_costs_less() {
        let mut worker = Worker::new();
        let (quick, dear) = (spinning(30_000, 1), sleeping(52_000, 38_000, 1));
        assert!(worker.wait(1000, quick, dear) > 900);
    }

    #[test]
    fn a_worker_does_not_spin_if_that_is_faster_but_costs_more() {
        let mut worker = Worker::new();
        let (quick, cheap) = (spinning(15_000, 1), sleeping(60_000, 3_000, 1));
        worker.wait(2000, quick, cheap);
        assert!(worker.wait(6400, quick, cheap) <= 200);
    }

    #[test]
    fn a_worker_does_not_spin_where_that_delays_the_event() {
        let mut worker = Worker::new();
        let (slow, slower, cheap) = (
            spinning(8_000, 1),
            spinning(54_000, 1),
            sleeping(5_000, 3_000, 1),
        );
        worker.wait(2000, slow, cheap);
        assert!(worker.wait(6400, slow, cheap) <= 200);
        assert!(worker.wait(6400, slower, cheap) <= 200);
        // The spins of trial batches are short.
        assert!(worker.policy.limit_ns() < 20_000);
        // It spins again when that pays.
        let (quick, dear) = (spinning(15_000, 1), sleeping(60_000, 20_000, 1));
        worker.wait(12_800, quick, dear);
        assert!(worker.wait(1000, quick, dear) > 950);
    }

    #[test]
    fn spins_that_find_nothing_become_ever_fewer_even_if_no_batch_comes_to_its_end() {
        let mut worker = Worker::new();
        worker.wait(25, spinning(15_000, 1), sleeping(60_000, 20_000, 1));
        assert!(worker.policy.decide_to_spin());
        let mut spins = 0;
        for _ in 0..2000 {
            spins += worker.wait(5, spinning(60_000, 1), sleeping(60_000, 20_000, 1));
            worker.wait_once(false, sleeping(250_000, 20_000, 1));
        }
        assert!((5..50).contains(&spins), "{spins}");
        // It spins again when that finds something.
        worker.wait(12_800, spinning(15_000, 1), sleeping(60_000, 20_000, 1));
        assert!(worker.wait(1000, spinning(15_000, 1), sleeping(60_000, 20_000, 1)) > 950);
    }

    #[test]
    fn a_batch_that_could_not_be_spent_as_intended_is_not_counted() {
        let mut worker = Worker::new();
        worker.wait(100, spinning(15_000, 1), sleeping(60_000, 20_000, 1));
        assert!(worker.policy.decide_to_spin());
        let before = worker.policy.spinning.get().ns;
        for _ in 0..100 {
            worker.wait_once(false, sleeping(90_000, 50_000, 1)); // another worker has the permit
        }
        assert_eq!(worker.policy.spinning.get().ns, before);
    }

    impl SpinPolicy {
        /// A policy that spins in the next wait.
        pub(crate) fn of_spinning() -> Self {
            let mut worker = Worker::new();
            worker.wait(100, spinning(15_000, 1), sleeping(60_000, 20_000, 1));
            assert!(worker.policy.decide_to_spin());
            worker.policy
        }

        pub(crate) fn learn_long(&self) {
            let wait = EndedWait {
                ns: 1_000_000_000,
                has_spun: true,
                has_missed: true,
                events: 1,
            };
            self.learn(wait, Clocks::default);
        }
    }
}
