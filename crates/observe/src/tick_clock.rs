//! Times between two looks at the clock, by the processor's counter.
//!
//! A look at the clock takes about 25 ns, one at the counter 10.
//!
//! K1. The counter measures only the time since the last look, and no more than a millisecond of
//!     it. So a counter that is no longer steady moves events by less than that.
//! K2. Times do not go back, and are not ahead of the clock: the counter is read after the clock,
//!     and counts a little too slowly.

use std::cell::Cell;

/// How long the counter is used after a look.
const MAX_NS: u64 = 1_000_000;

/// Between which looks the rate of the counter is measured. With [`MAX_PAIR_TICKS`] that is exact to
/// less than the part that is taken off: K2.
const RATE_NS: u64 = 10_000_000;

/// How far the counter may advance during a look: a thread that is interrupted in between does not
/// know which time belongs to which count.
const MAX_PAIR_TICKS: u64 = 1_000;

/// Which part of the rate is taken off, as a shift: 1/2048.
const SLOWER: u32 = 11;

/// A clock that the processor's counter helps, where that is steady.
///
/// ```
/// let clock = blitzen_observe::TickClock::default();
/// assert_eq!(clock.now_ns(|| 7), 7, "without the counter it is the clock");
/// ```
#[derive(Debug, Default)]
pub struct TickClock {
    is_steady: Cell<bool>,
    last: Cell<Look>,
    /// For how many ticks after the last look the counter is used; zero before its rate is known.
    max_ticks: Cell<u64>,
    /// Nanoseconds per tick, in units of 2^-32.
    rate: Cell<u64>,
    /// Where the measuring of the rate began.
    anchor: Cell<Option<Look>>,
}

/// A time, and the count that belongs to it.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    ns: u64,
    ticks: u64,
}

impl TickClock {
    /// Says whether the counter is steady: whether the kernel itself takes the time from it.
    ///
    /// ```
    /// let clock = blitzen_observe::TickClock::default();
    /// clock.set_steady(false);
    /// assert_eq!(clock.now_ns(|| 7), 7);
    /// ```
    pub fn set_steady(&self, is_steady: bool) {
        if self.is_steady.replace(is_steady) != is_steady {
            self.anchor.set(None);
            self.rate.set(0);
            self.max_ticks.set(0);
        }
    }

    /// Returns the time, which `clock` tells if the counter cannot.
    ///
    /// ```
    /// let clock = blitzen_observe::TickClock::default();
    /// assert_eq!(clock.now_ns(|| 5), 5);
    /// ```
    #[inline]
    pub fn now_ns(&self, clock: impl Fn() -> u64) -> u64 {
        let max_ticks = self.max_ticks.get();
        if max_ticks > 0 {
            let last = self.last.get();
            let ticks = counter::read().wrapping_sub(last.ticks);
            if ticks <= max_ticks {
                return last.ns + ((ticks * self.rate.get()) >> 32);
            }
        }
        self.look(clock, counter::read)
    }

    /// Makes the next time a look at the clock: the caller has used one of its own, which is
    /// ahead of the counter.
    ///
    /// ```
    /// let clock = blitzen_observe::TickClock::default();
    /// clock.forget();
    /// assert_eq!(clock.now_ns(|| 9), 9);
    /// ```
    #[inline]
    pub fn forget(&self) {
        self.max_ticks.set(0);
    }

    /// Looks at the clock.
    #[inline(never)]
    fn look(&self, clock: impl Fn() -> u64, counter: impl Fn() -> u64) -> u64 {
        if !self.is_steady.get() {
            return clock();
        }
        let before = counter();
        let ns = clock();
        let ticks = counter();
        if ticks.wrapping_sub(before) > MAX_PAIR_TICKS {
            self.max_ticks.set(0);
            return ns;
        }
        let look = Look { ns, ticks };
        self.last.set(look);
        self.measure_rate(look);
        // Without a rate there are none.
        let max_ticks = (MAX_NS << 32).checked_div(self.rate.get());
        self.max_ticks.set(max_ticks.unwrap_or(0));
        ns
    }

    fn measure_rate(&self, look: Look) {
        let Some(anchor) = self.anchor.get() else {
            self.anchor.set(Some(look));
            return;
        };
        let elapsed_ns = look.ns.saturating_sub(anchor.ns);
        if elapsed_ns < RATE_NS {
            return;
        }
        self.anchor.set(Some(look));
        let ticks = look.ticks.wrapping_sub(anchor.ticks);
        // A counter that stood still, or counts less than once in four nanoseconds, is no help.
        let rate = (u128::from(elapsed_ns) << 32).checked_div(ticks.into());
        let rate = rate.and_then(|rate| u64::try_from(rate).ok());
        let rate = rate.filter(|&rate| rate < 1 << 34).unwrap_or(0);
        self.rate.set(rate - (rate >> SLOWER));
    }
}

#[cfg(target_arch = "x86_64")]
mod counter {
    #[inline(always)]
    pub(super) fn read() -> u64 {
        // SAFETY: reads a register. It is read only where the kernel takes the time from it, in
        // this process too, so it is not forbidden.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
}

/// Other processors have a counter that is coarse, or takes as long to read as the clock.
#[cfg(not(target_arch = "x86_64"))]
mod counter {
    #[inline(always)]
    pub(super) fn read() -> u64 {
        0
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    /// A clock and a counter of three ticks a nanosecond.
    struct Machine {
        ns: Cell<u64>,
    }

    impl Machine {
        fn look(&self, clock: &TickClock) -> u64 {
            clock.look(|| self.ns.get(), || 3 * self.ns.get())
        }
    }

    fn steady() -> (TickClock, Machine) {
        let clock = TickClock::default();
        clock.set_steady(true);
        (clock, Machine { ns: Cell::new(5) })
    }

    #[test]
    fn the_rate_is_known_after_a_while_and_a_little_too_slow() {
        let (clock, machine) = steady();
        assert_eq!(machine.look(&clock), 5);
        assert_eq!(clock.max_ticks.get(), 0);
        machine.ns.set(5 + RATE_NS - 1);
        machine.look(&clock);
        assert_eq!(clock.max_ticks.get(), 0);
        machine.ns.set(5 + RATE_NS);
        machine.look(&clock);
        let max_ticks = clock.max_ticks.get();
        assert!((3 * MAX_NS..3 * MAX_NS + 3 * MAX_NS / 1000).contains(&max_ticks));
        let (counted_ns, true_ns) = ((max_ticks * clock.rate.get()) >> 32, max_ticks / 3);
        assert!(counted_ns < true_ns && true_ns - counted_ns < true_ns / 1000);
    }

    #[test]
    fn a_look_that_was_interrupted_is_no_pair() {
        let (clock, machine) = steady();
        machine.look(&clock);
        machine.ns.set(5 + RATE_NS);
        let reads = Cell::new(0);
        let interrupted = || {
            reads.set(reads.get() + 1);
            reads.get() * 2 * MAX_PAIR_TICKS
        };
        assert_eq!(clock.look(|| 77, interrupted), 77);
        assert_eq!((clock.max_ticks.get(), clock.rate.get()), (0, 0));
    }

    #[test]
    fn a_counter_that_stands_still_or_jumps_back_is_not_used() {
        for ticks in [0, 5 * RATE_NS] {
            let clock = TickClock::default();
            clock.set_steady(true);
            clock.look(|| 0, || ticks);
            clock.look(|| RATE_NS, || ticks);
            assert_eq!(clock.max_ticks.get(), 0, "stands still");
            clock.look(|| 2 * RATE_NS, || ticks.wrapping_sub(1));
            clock.look(|| 3 * RATE_NS, || ticks);
            assert_eq!(clock.rate.get(), 0, "one tick in that time");
        }
    }

    #[test]
    fn what_is_not_steady_is_not_used_any_more() {
        let (clock, machine) = steady();
        machine.look(&clock);
        machine.ns.set(5 + RATE_NS);
        machine.look(&clock);
        assert!(clock.max_ticks.get() > 0);
        clock.set_steady(false);
        assert_eq!(clock.now_ns(|| 3), 3);
        assert_eq!(clock.now_ns(|| 4), 4);
    }

    /// The clock of other systems may be coarser than the counter, which is not used there.
    #[test]
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    fn times_do_not_go_back_and_are_not_ahead_of_the_clock() {
        let start = std::time::Instant::now();
        let real = || start.elapsed().as_nanos() as u64;
        let clock = TickClock::default();
        clock.set_steady(true);
        let (mut last, mut counted) = (0, 0_u64);
        // As long as it takes: the machine may be busy with other programs.
        while counted < 1_000 && real() < 60_000_000_000 {
            // A sanitizer may make every look too long for a pair.
            if real() > 100 * RATE_NS && clock.anchor.get().is_none() {
                return;
            }
            counted += u64::from(clock.max_ticks.get() > 0);
            let now_ns = clock.now_ns(real);
            assert!(last <= now_ns && now_ns <= real(), "{last} {now_ns}");
            last = now_ns;
        }
        assert!(counted > 0, "the counter is never used");
    }
}
