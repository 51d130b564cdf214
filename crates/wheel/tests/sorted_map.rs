//! The wheel does what a sorted map of deadlines does, whatever is asked of it in whatever
//! order, over jumps of every size.
//!
//! The random tests print their seed, which libtest shows if they fail. `BLITZEN_SEED` in the
//! environment repeats such a run.

#![cfg(not(blitzen_loom))]

use blitzen_wheel::{Wheel, WheelEntry};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::pin::Pin;

/// A wheel and a sorted set of (deadline, name), given the same operations. The wheel is dropped first.
struct Pair {
    wheel: Box<Wheel<usize>>,
    timers: Vec<Pin<Box<WheelEntry<usize>>>>,
    sorted: BTreeSet<(u64, usize)>,
    /// The deadline of each timer that is armed.
    armed: Vec<Option<u64>>,
    now: u64,
    /// What the last one fired was due at, since time last moved.
    last: u64,
}

/// An operation on both.
#[derive(Clone, Debug)]
enum Step {
    Arm(usize, When),
    Disarm(usize),
    /// Moves the clock, and takes out everything due.
    Jump(When),
    /// Moves the clock, and takes out so many at most.
    PollAtMost(When, usize),
    NextExpiry,
}

/// A tick, as seen from the present.
#[derive(Clone, Debug)]
enum When {
    Ahead(u64),
    /// Ahead, and rounded down to a multiple of a power of two: the edge of a slot.
    Edge(u64, u32),
    Ago(u64),
    Never,
}

impl When {
    fn tick(&self, now: u64) -> u64 {
        match *self {
            When::Ahead(by) => now.saturating_add(by),
            When::Edge(by, shift) => now.saturating_add(by) >> shift << shift,
            When::Ago(by) => now.saturating_sub(by),
            When::Never => u64::MAX,
        }
    }
}

impl Pair {
    fn new(timer_count: usize, start: u64) -> Pair {
        let mut pair = Pair {
            wheel: Box::default(),
            timers: (0..timer_count)
                .map(|n| Box::pin(WheelEntry::new(n)))
                .collect(),
            sorted: BTreeSet::new(),
            armed: vec![None; timer_count],
            now: 0,
            last: 0,
        };
        pair.run(&Step::Jump(When::Ahead(start)));
        pair
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Arm(name, ref when) => self.arm(name, when.tick(self.now)),
            Step::Disarm(name) => self.disarm(name),
            Step::Jump(ref when) => self.jump(when.tick(self.now), usize::MAX),
            Step::PollAtMost(ref when, count) => self.jump(when.tick(self.now), count),
            Step::NextExpiry => self.compare_next_expiry(),
        }
        assert_eq!(self.wheel.len(), self.sorted.len());
        assert_eq!(self.wheel.is_empty(), self.sorted.is_empty());
    }

    fn arm(&mut self, name: usize, tick: u64) {
        let entry = self.timers[name].as_ref();
        if let Some(was) = self.armed[name] {
            assert!(self.sorted.remove(&(was, name)));
            // SAFETY: no other wheel knows the entry, and it is dropped after this one.
            unsafe { self.wheel.reset(entry, tick) };
        } else {
            // SAFETY: as above, and it is in no wheel.
            unsafe { self.wheel.insert(entry, tick) };
        }
        // What has passed counts as the tick that the wheel has reached.
        let due = tick.max(self.wheel.elapsed());
        self.armed[name] = Some(due);
        self.sorted.insert((due, name));
    }

    fn disarm(&mut self, name: usize) {
        // SAFETY: no other wheel knows the entry.
        let was_in = unsafe { self.wheel.remove(self.timers[name].as_ref()) };
        let was = self.armed[name].take();
        assert_eq!(was_in, was.is_some());
        if let Some(was) = was {
            assert!(self.sorted.remove(&(was, name)));
        }
    }

    fn jump(&mut self, asked: u64, count: usize) {
        self.now = self.now.max(asked);
        // The clock may seem to have gone back: then the tick reached stands for it.
        let now = asked.max(self.wheel.elapsed());
        for _ in 0..count {
            let Some(entry) = self.wheel.poll(asked) else {
                let left = self.sorted.first().map(|first| first.0);
                assert!(left.is_none_or(|due| due > now), "{left:?} is overdue");
                assert_eq!(self.wheel.elapsed(), now);
                return;
            };
            // SAFETY: the timers are alive.
            let name = *unsafe { entry.as_ref() }.value();
            let due = self.armed[name].take().expect("only what is armed fires");
            assert!(due <= now, "{due} fired early, at {now}");
            assert!(due >= self.last, "{due} fired after {}", self.last);
            assert_eq!(due, self.sorted.first().expect("not empty").0);
            assert!(self.sorted.remove(&(due, name)));
            self.last = due;
        }
    }

    /// Exact, unless there are so many that one slot can be crowded.
    fn compare_next_expiry(&mut self) {
        let asked = self.wheel.next_expiry();
        let first = self.sorted.first().map(|first| first.0);
        if self.timers.len() <= 64 {
            assert_eq!(asked, first);
        } else {
            assert_eq!(asked.is_some(), first.is_some());
            assert!(asked <= first, "asked for {asked:?}, due is {first:?}");
        }
        let again = self.wheel.next_expiry();
        assert_eq!(asked, again, "asking changes nothing");
    }

    /// Sleeps as a worker does until something fires; returns how often it woke in vain.
    fn sleep(&mut self) -> usize {
        let armed = self.sorted.len();
        let mut in_vain = 0;
        while let Some(tick) = self.wheel.next_expiry() {
            self.jump(tick, usize::MAX);
            if self.sorted.len() < armed {
                break;
            }
            in_vain += 1;
        }
        in_vain
    }
}

/// The seed of a test: that of the environment, or another one in every run.
fn seed() -> u64 {
    let seed = match std::env::var("BLITZEN_SEED") {
        Ok(seed) => seed.parse().expect("BLITZEN_SEED is a number"),
        Err(_) => std::hash::RandomState::new().hash_one(0),
    };
    println!("BLITZEN_SEED={seed}");
    seed
}

/// A generator (xorshift64*) whose seed determines what it generates.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.max(1)) // it never leaves zero
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Every magnitude up to so many bits is as likely as any other.
    fn ahead(&mut self, bits: u64) -> u64 {
        let magnitude = self.below(bits + 1);
        self.next().checked_shr(64 - magnitude as u32).unwrap_or(0)
    }

    fn when(&mut self, bits: u64) -> When {
        match self.below(100) {
            0..75 => When::Ahead(self.ahead(bits)),
            75..93 => When::Edge(self.ahead(bits), self.below(32) as u32),
            93..99 => When::Ago(self.ahead(bits)),
            _ => When::Never,
        }
    }

    /// `bits` bounds how far timers reach; a jump that cannot be taken back is rarer.
    fn step(&mut self, timer_count: usize, bits: u64) -> Step {
        let name = self.below(timer_count as u64) as usize;
        match self.below(100) {
            0..55 => Step::Arm(name, self.when(bits)),
            55..75 => Step::Disarm(name),
            75..82 => Step::Jump(When::Ahead(self.ahead(bits.min(14)))),
            82..84 => Step::Jump(When::Edge(self.ahead(bits.min(40)), self.below(32) as u32)),
            84..90 => Step::PollAtMost(
                When::Ahead(self.ahead(bits.min(20))),
                self.below(4) as usize,
            ),
            _ => Step::NextExpiry,
        }
    }
}

/// Steps of the long tests: millions where they are fast.
const STEPS: usize = if cfg!(miri) {
    2_000
} else if cfg!(debug_assertions) {
    200_000
} else {
    4_000_000
};

/// Wheels that such a test goes through: each begins at a time of its own.
const WHEELS: usize = if cfg!(miri) { 4 } else { 40 };

fn run_random_steps(timer_count: usize, bits: u64) {
    let mut random = Random::new(seed());
    for wheel in 0..WHEELS {
        let start = if wheel == 0 { 0 } else { random.ahead(63) };
        let mut pair = Pair::new(timer_count, start);
        for _ in 0..STEPS / WHEELS {
            let step = random.step(timer_count, bits);
            pair.run(&step);
        }
        pair.jump(u64::MAX, usize::MAX);
        assert!(pair.wheel.is_empty());
    }
}

#[test]
fn a_few_timers_near_and_far() {
    run_random_steps(48, 63);
}

#[test]
fn a_few_timers_within_the_levels() {
    run_random_steps(60, 30);
}

#[test]
fn many_timers_near() {
    run_random_steps(if cfg!(miri) { 200 } else { 20_000 }, 13);
}

#[test]
fn many_timers_near_and_far() {
    run_random_steps(if cfg!(miri) { 200 } else { 5_000 }, 40);
}

#[test]
fn a_few_timers_never_wake_a_parked_worker_in_vain() {
    let mut random = Random::new(seed());
    let mut pair = Pair::new(64, 0);
    for _ in 0..STEPS / 20 {
        for _ in 0..random.below(8) {
            let name = random.below(64) as usize;
            match random.below(3) {
                0 => pair.disarm(name),
                _ => pair.arm(name, pair.now + random.ahead(34)),
            }
        }
        assert_eq!(pair.sleep(), 0);
    }
}

#[test]
fn many_timers_wake_a_parked_worker_in_vain_no_more_than_once_a_level() {
    let timer_count = if cfg!(miri) { 300 } else { 3_000 };
    let mut random = Random::new(seed());
    let mut pair = Pair::new(timer_count, 0);
    for _ in 0..STEPS / 100 {
        for _ in 0..random.below(40) {
            // Half of what happens strikes those due first.
            let name = match pair.sorted.first() {
                Some((_, name)) if random.below(2) == 0 => *name,
                _ => random.below(timer_count as u64) as usize,
            };
            match random.below(3) {
                0 => pair.disarm(name),
                _ => pair.arm(name, pair.now + random.ahead(24)),
            }
        }
        let in_vain = pair.sleep();
        assert!(in_vain <= 5, "woken {in_vain} times for nothing");
    }
}

fn when() -> impl Strategy<Value = When> {
    let ahead =
        (0u32..=64, any::<u64>()).prop_map(|(bits, any)| any.checked_shr(64 - bits).unwrap_or(0));
    (0u32..100, ahead, 0u32..36).prop_map(|(kind, by, shift)| match kind {
        0..70 => When::Ahead(by),
        70..90 => When::Edge(by, shift),
        90..97 => When::Ago(by),
        _ => When::Never,
    })
}

fn step(timer_count: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..timer_count, when()).prop_map(|(name, when)| Step::Arm(name, when)),
        2 => (0..timer_count).prop_map(Step::Disarm),
        1 => when().prop_map(Step::Jump),
        1 => (when(), 0usize..4).prop_map(|(when, count)| Step::PollAtMost(when, count)),
        2 => Just(Step::NextExpiry),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else if cfg!(debug_assertions) { 500 } else { 10_000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_steps_at_all(start in any::<u64>(), steps in prop::collection::vec(step(12), 0..120)) {
        let mut pair = Pair::new(12, start);
        for step in &steps {
            pair.run(step);
        }
        pair.jump(u64::MAX, usize::MAX);
        prop_assert!(pair.wheel.is_empty());
    }

    #[test]
    fn any_steps_in_a_crowd(steps in prop::collection::vec(step(150), 0..600)) {
        let mut pair = Pair::new(150, 0);
        for step in &steps {
            pair.run(step);
        }
        pair.jump(u64::MAX, usize::MAX);
        prop_assert!(pair.wheel.is_empty());
    }
}
