//! Whether looking around before sleeping pays: arithmetic on past waits.
//!
//! It takes processor time, and so does falling asleep and being woken; which is
//! more, nobody can say beforehand. Where the next event answers what was done about
//! the last one, by a peer with a processor of its own, it comes soon, and a sleeper
//! would have to be woken across processors each time: looking makes everything go
//! faster. Where events come of themselves, they come hardly faster, and a sleeper,
//! who is busy for most of the time, finds several at once. And where both share a
//! processor, the peer runs only when this thread sleeps. So both ways are
//! tried, some waits in a row, and what counts is what an event took. And looks in
//! vain make for ever longer breaks between them.
//!
//! H1. Only the owner uses it; the atomics are there to share it, not to agree.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// How long to look around at the most: twice what a wake costs.
pub(crate) const LIMIT_NS: u64 = 50_000;

/// Waits that end within this are short: what looking around takes at the most,
/// and the time a wake would have taken.
const SHORT_NS: u64 = LIMIT_NS * 2;

/// What a long wait counts for, so that one long night does not outweigh many
/// short naps.
const LONG_NS: u64 = SHORT_NS * 8;

/// So many waits in a row are spent in one way.
const ROW: u32 = 16;

/// One row in so many is spent the other way, to see how that would be.
const TRY_EVERY: u32 = 64;

/// At the most this many waits go by without a look after looks in vain.
const LONGEST_BREAK: u32 = 1023;

/// A worker's past waits.
#[derive(Debug)]
pub(crate) struct SpinPolicy {
    /// How long the last waits took.
    recent_ns: AtomicU64,
    /// What an event took when waits were spent asleep at once, and when they
    /// began with a look around.
    asleep: Price,
    looking: Price,
    row: Row,
    breaks: Breaks,
}

/// Waits that go by without a look although looking is the way to spend them.
#[derive(Debug)]
struct Breaks {
    left: AtomicU32,
    /// How many there are after the next look in vain.
    next: AtomicU32,
    /// The current wait is one of them.
    is_on: AtomicBool,
}

/// What an event took: time, and the thread's processor time. 0 if that is not
/// known.
#[derive(Debug, Default)]
struct Price {
    ns: AtomicU64,
    cpu_ns: AtomicU64,
}

/// Waits that are spent in one way.
#[derive(Debug)]
struct Row {
    looks: AtomicBool,
    /// After the wait before the first.
    began_ns: AtomicU64,
    began_cpu_ns: AtomicU64,
    /// How many there were, and the one before the first.
    waits: AtomicU32,
    events: AtomicU64,
    /// How many rows there were before.
    number: AtomicU32,
}

/// A wait that is over, and something has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) ns: u64,
    pub(crate) has_looked: bool,
    /// It has, and did not find what has come.
    pub(crate) in_vain: bool,
    pub(crate) events: u64,
}

/// What two clocks say, from some moment on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clocks {
    pub(crate) ns: u64,
    /// Of the calling thread.
    pub(crate) cpu_ns: u64,
}

impl SpinPolicy {
    pub(crate) fn new() -> Self {
        Self {
            recent_ns: AtomicU64::new(LONG_NS),
            asleep: Price::default(),
            looking: Price::default(),
            row: Row {
                looks: AtomicBool::new(false),
                began_ns: AtomicU64::new(0),
                began_cpu_ns: AtomicU64::new(0),
                waits: AtomicU32::new(0),
                events: AtomicU64::new(0),
                number: AtomicU32::new(0),
            },
            breaks: Breaks {
                left: AtomicU32::new(0),
                next: AtomicU32::new(1),
                is_on: AtomicBool::new(false),
            },
        }
    }

    /// Whether the next wait should begin with a look around.
    pub(crate) fn wants_to_look(&self) -> bool {
        let would_look = self.recent_ns.load(Relaxed) <= SHORT_NS && self.row.looks.load(Relaxed);
        would_look && !self.breaks.goes_on()
    }

    /// How long to look around, at the most. What comes later than to a sleeper makes
    /// looking no better, and only holds up a peer on the same processor.
    pub(crate) fn limit_ns(&self) -> u64 {
        match self.asleep.get().ns {
            0 => LIMIT_NS,
            ns => (ns + ns / 2).min(LIMIT_NS),
        }
    }

    /// A wait is over that nobody was in a hurry to end, after a look in vain.
    pub(crate) fn learn_leisure(&self) {
        average(&self.recent_ns, LONG_NS, 4);
        self.breaks.learn(true);
        self.row.break_off();
    }

    /// A wait is over, and something has come. The clocks are looked at now and
    /// then: one of them takes a system call.
    pub(crate) fn learn(&self, wait: Wait, clocks: impl Fn() -> Clocks) {
        average(&self.recent_ns, wait.ns.min(LONG_NS), 4);
        if wait.has_looked {
            self.breaks.learn(wait.in_vain);
        }
        let is_on_break = self.breaks.is_on.swap(false, Relaxed);
        let row = &self.row;
        // A long one says nothing about which is the better way to spend short
        // ones, nor does one that was spent another way than intended.
        let is_as_meant = wait.has_looked == row.looks.load(Relaxed) || is_on_break;
        if wait.ns > SHORT_NS * 2 || !is_as_meant {
            return row.break_off();
        }
        match row.add(wait.events) {
            0 => row.begin(clocks()),
            ROW => {
                let now = clocks();
                self.learn_row(row.price(now));
                row.begin(now);
            }
            _ => {}
        }
    }

    /// A row is over: how the next one is spent.
    fn learn_row(&self, price: Clocks) {
        match self.row.looks.load(Relaxed) {
            true => self.looking.learn(price),
            false => self.asleep.learn(price),
        }
        let number = self.row.number.load(Relaxed).wrapping_add(1);
        self.row.number.store(number, Relaxed);
        let is_trial = number.is_multiple_of(TRY_EVERY);
        let looks = self.is_better() != is_trial;
        let looked = self.row.looks.swap(looks, Relaxed);
        if looks && !looked {
            self.breaks.left.store(0, Relaxed); // a new chance
        }
    }

    /// Whether looking is the better way, as far as is known: it goes faster and
    /// takes less processor time; or it goes twice as fast, where a sleeper does
    /// sleep for a good part of the time, and takes little more.
    fn is_better(&self) -> bool {
        let (looking, asleep) = (self.looking.get(), self.asleep.get());
        let saves = looking.cpu_ns * 8 <= asleep.cpu_ns * 7 && looking.ns * 3 <= asleep.ns * 2;
        let quickens = looking.ns * 2 <= asleep.ns
            && asleep.cpu_ns * 5 <= asleep.ns * 3
            && looking.cpu_ns * 2 <= asleep.cpu_ns * 3;
        saves || quickens
    }
}

impl Breaks {
    /// Whether the wait that begins goes by without a look.
    fn goes_on(&self) -> bool {
        let left = self.left.load(Relaxed);
        self.left.store(left.saturating_sub(1), Relaxed);
        self.is_on.store(left > 0, Relaxed);
        left > 0
    }

    fn learn(&self, in_vain: bool) {
        let next = self.next.load(Relaxed);
        let longer = match in_vain {
            true => (next * 2 + 1).min(LONGEST_BREAK),
            false => 1,
        };
        self.next.store(longer, Relaxed);
        if in_vain {
            self.left.store(next, Relaxed);
        }
    }
}

impl Price {
    fn get(&self) -> Clocks {
        Clocks {
            ns: self.ns.load(Relaxed),
            cpu_ns: self.cpu_ns.load(Relaxed),
        }
    }

    fn learn(&self, price: Clocks) {
        for (known_ns, new_ns) in [(&self.ns, price.ns), (&self.cpu_ns, price.cpu_ns)] {
            match known_ns.load(Relaxed) {
                0 => known_ns.store(new_ns, Relaxed),
                _ => average(known_ns, new_ns, 4),
            }
        }
    }
}

impl Row {
    fn begin(&self, now: Clocks) {
        self.began_ns.store(now.ns, Relaxed);
        self.began_cpu_ns.store(now.cpu_ns, Relaxed);
        self.waits.store(1, Relaxed);
        self.events.store(0, Relaxed);
    }

    /// Forgets what there was: the next wait that counts comes before the first.
    fn break_off(&self) {
        self.waits.store(0, Relaxed);
    }

    /// One more wait; how many of the row there were before.
    fn add(&self, events: u64) -> u32 {
        let waits = self.waits.load(Relaxed);
        self.waits.store(waits + 1, Relaxed);
        self.events
            .store(self.events.load(Relaxed) + events, Relaxed);
        waits
    }

    /// What an event of the row took.
    fn price(&self, now: Clocks) -> Clocks {
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

/// Moves an average by its share towards a new value.
fn average(average_ns: &AtomicU64, new_ns: u64, share: u64) {
    let before = average_ns.load(Relaxed);
    average_ns.store((before * (share - 1) + new_ns) / share, Relaxed);
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    /// What a wait comes to, spent in one way.
    #[derive(Clone, Copy)]
    struct Way {
        wait_ns: u64,
        cpu_ns: u64,
        events: u64,
    }

    /// One that is looked through.
    const fn looking(wait_ns: u64, events: u64) -> Way {
        Way {
            wait_ns,
            cpu_ns: wait_ns,
            events,
        }
    }

    /// One that is slept through, for so much processor time.
    const fn asleep(wait_ns: u64, cpu_ns: u64, events: u64) -> Way {
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

        fn wait_once(&mut self, has_looked: bool, way: Way) {
            let work_ns = 5_000 * way.events;
            self.clocks.ns += work_ns + way.wait_ns;
            self.clocks.cpu_ns += work_ns + way.cpu_ns;
            let wait = Wait {
                ns: way.wait_ns,
                has_looked,
                in_vain: has_looked && way.wait_ns > LIMIT_NS,
                events: way.events,
            };
            self.policy.learn(wait, || self.clocks);
        }

        /// Waits that come to something else according to how they are spent; how
        /// many of them began with a look around.
        fn wait(&mut self, waits: usize, looking: Way, asleep: Way) -> usize {
            let spend = |_: &usize| {
                let looks = self.policy.wants_to_look();
                self.wait_once(looks, if looks { looking } else { asleep });
                looks
            };
            (0..waits).filter(spend).count()
        }
    }

    #[test]
    fn long_waits_are_slept_through() {
        let mut worker = Worker::new();
        let (looking, asleep) = (looking(1_000_000, 1), asleep(1_000_000, 2_000_000, 1));
        assert_eq!(worker.wait(1000, looking, asleep), 0);
    }

    #[test]
    fn short_ones_are_looked_through_where_that_costs_less() {
        let mut worker = Worker::new();
        let (quick, dear) = (looking(15_000, 1), asleep(60_000, 20_000, 1));
        let looks = worker.wait(1000, quick, dear);
        assert!(looks > 950, "{looks}");
        // A peer that is slow now and then does not end the policy.
        for _ in 0..10 {
            worker.wait_once(true, looking(50_000, 1));
            assert!(worker.wait(100, quick, dear) > 70);
        }
        // One long wait interrupts it for a moment.
        worker.wait_once(true, asleep(1_000_000_000, 70_000, 1));
        assert!(!worker.policy.wants_to_look());
        assert!(worker.wait(100, quick, dear) > 70);
    }

    #[test]
    fn events_that_come_of_themselves_are_slept_for() {
        let mut worker = Worker::new();
        // One every 12 µs: a sleeper comes late, to several of them.
        let (single, several) = (looking(7_000, 1), asleep(23_000, 4_000, 4));
        worker.wait(2000, single, several);
        let looks = worker.wait(6400, single, several);
        assert!(looks <= 200, "{looks}");
    }

    #[test]
    fn a_worker_that_is_busy_does_not_look_around() {
        let mut worker = Worker::new();
        let (single, busy) = (looking(0, 1), asleep(3_000, 500, 1));
        worker.wait(2000, single, busy);
        assert!(worker.wait(6400, single, busy) <= 200);
    }

    #[test]
    fn what_goes_faster_and_costs_less_is_done_by_a_busy_worker_too() {
        let mut worker = Worker::new();
        let (quick, dear) = (looking(30_000, 1), asleep(52_000, 38_000, 1));
        assert!(worker.wait(1000, quick, dear) > 900);
    }

    #[test]
    fn what_goes_faster_and_costs_more_is_not_done() {
        let mut worker = Worker::new();
        let (quick, cheap) = (looking(15_000, 1), asleep(60_000, 3_000, 1));
        worker.wait(2000, quick, cheap);
        assert!(worker.wait(6400, quick, cheap) <= 200);
    }

    #[test]
    fn where_looking_holds_up_what_is_looked_for_it_is_given_up() {
        let mut worker = Worker::new();
        let (slow, slower, cheap) = (
            looking(8_000, 1),
            looking(54_000, 1),
            asleep(5_000, 3_000, 1),
        );
        worker.wait(2000, slow, cheap);
        assert!(worker.wait(6400, slow, cheap) <= 200);
        assert!(worker.wait(6400, slower, cheap) <= 200);
        // What looks there still are, are short.
        assert!(worker.policy.limit_ns() < 20_000);
        // And taken up again when things are otherwise.
        let (quick, dear) = (looking(15_000, 1), asleep(60_000, 20_000, 1));
        worker.wait(12_800, quick, dear);
        assert!(worker.wait(1000, quick, dear) > 950);
    }

    #[test]
    fn looks_in_vain_become_ever_fewer_even_if_no_row_comes_to_its_end() {
        let mut worker = Worker::new();
        worker.wait(25, looking(15_000, 1), asleep(60_000, 20_000, 1));
        assert!(worker.policy.wants_to_look());
        let mut looks = 0;
        for _ in 0..2000 {
            looks += worker.wait(5, looking(60_000, 1), asleep(60_000, 20_000, 1));
            worker.wait_once(false, asleep(250_000, 20_000, 1));
        }
        assert!((5..50).contains(&looks), "{looks}");
        // And are taken up again when they find something.
        worker.wait(12_800, looking(15_000, 1), asleep(60_000, 20_000, 1));
        assert!(worker.wait(1000, looking(15_000, 1), asleep(60_000, 20_000, 1)) > 950);
    }

    #[test]
    fn a_row_that_could_not_be_spent_as_intended_is_not_counted() {
        let mut worker = Worker::new();
        worker.wait(100, looking(15_000, 1), asleep(60_000, 20_000, 1));
        assert!(worker.policy.wants_to_look());
        let before = worker.policy.looking.get().ns;
        for _ in 0..100 {
            worker.wait_once(false, asleep(90_000, 50_000, 1)); // another one looks around
        }
        assert_eq!(worker.policy.looking.get().ns, before);
    }

    impl SpinPolicy {
        /// One that looks around next.
        pub(crate) fn of_looking() -> Self {
            let mut worker = Worker::new();
            worker.wait(100, looking(15_000, 1), asleep(60_000, 20_000, 1));
            assert!(worker.policy.wants_to_look());
            worker.policy
        }

        pub(crate) fn learn_long(&self) {
            let wait = Wait {
                ns: 1_000_000_000,
                has_looked: true,
                in_vain: true,
                events: 1,
            };
            self.learn(wait, Clocks::default);
        }
    }
}
