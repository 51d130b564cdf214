//! Which slot a tick belongs to, and which slots hold something: arithmetic on words.
//!
//! ```text
//!   level        5    4    3    2    1    0
//!   tick    …………… dddd dddd dddd dddd dddd     a digit is 6 bits
//!                  │    └ slot of level 3: 64³ ticks
//!                  └ slot of level 4: 64⁴ ticks
//!           └ differs from now: overflow
//! ```
//!
//! A tick goes to the level of the highest digit in which it differs from the tick the wheel
//! has reached, and there to the slot that its own digit names. Hence, for ticks not in the
//! past:
//!
//! P1. A slot of level `n` covers `64ⁿ` consecutive ticks, and these share every digit from
//!     `n` up.
//! P2. Above level 0, a slot in use lies strictly after the one that holds the present. No
//!     level wraps around: the lowest bit set is the first slot due.
//! P3. Everything in a lower level is due before anything in a higher one.
//! P4. While the wheel stays before the first tick of a slot, no tick of that slot belongs
//!     elsewhere.

/// Levels, not counting the overflow. One is enough for a model, whose threads have small stacks.
pub(crate) const LEVELS: usize = if blitzen_util::shim::MODEL { 1 } else { 5 };

/// Bits of a tick that choose a slot within one level.
const DIGIT_BITS: u32 = 6;

/// Slots in a level.
const SLOTS: usize = 1 << DIGIT_BITS;

/// Slots of all levels, and one for everything that lies beyond them.
pub(crate) const PLACES: usize = LEVELS * SLOTS + 1;

const _: () = assert!(SLOTS == u64::BITS as usize); // one word of occupancy per level
const _: () = assert!(LEVELS < u8::BITS as usize); // one bit per level, one for the overflow

/// A slot of a level, or the overflow: `level * 64 + slot`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place(u16);

/// The places that hold something.
#[derive(Debug)]
pub(crate) struct Occupancy {
    /// Bit `n`: some place of level `n` is occupied.
    levels: u8,
    /// Bit `n`: slot `n` of that level is occupied. The last level is the overflow's one slot.
    slots: [u64; LEVELS + 1],
}

impl Place {
    /// Holds what lies beyond the last level.
    pub(crate) const OVERFLOW: Place = Place((LEVELS * SLOTS) as u16);

    /// Where `tick` belongs in a wheel that has reached `elapsed`, which is not later.
    #[inline]
    pub(crate) fn of(elapsed: u64, tick: u64) -> Place {
        // Ticks that differ in the last digit, or not at all, are both level 0.
        let differing = (elapsed ^ tick) | (SLOTS as u64 - 1);
        let level = differing.ilog2() / DIGIT_BITS;
        if level >= LEVELS as u32 {
            return Place::OVERFLOW;
        }
        let slot = (tick >> (level * DIGIT_BITS)) as usize % SLOTS;
        Place((level as usize * SLOTS + slot) as u16)
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The first tick that this place covers, given any tick that it covers.
    ///
    /// The overflow is no single stretch of ticks. Of it, this is the beginning of the stretch
    /// of `64⁵` around the given tick: the moment at which that tick fits into the levels.
    #[inline]
    pub(crate) fn start(self, covered: u64) -> u64 {
        let shift = self.level() * DIGIT_BITS;
        covered >> shift << shift
    }

    /// Whether `tick` belongs here, given that `covered` does and that `tick` is not before
    /// the first tick of this place.
    #[inline]
    pub(crate) fn covers(self, covered: u64, tick: u64) -> bool {
        self == Place::OVERFLOW || self.start(covered) == self.start(tick)
    }

    /// Whether this is a slot of level 0, all of whose timers are due together.
    #[inline]
    pub(crate) fn is_one_tick(self) -> bool {
        self.index() < SLOTS
    }

    #[inline]
    fn level(self) -> u32 {
        u32::from(self.0) / SLOTS as u32
    }

    #[inline]
    fn slot_bit(self) -> u64 {
        1 << (self.0 as usize % SLOTS)
    }
}

impl Occupancy {
    pub(crate) const fn new() -> Occupancy {
        Occupancy {
            levels: 0,
            slots: [0; LEVELS + 1],
        }
    }

    #[inline]
    pub(crate) fn set(&mut self, place: Place) {
        let level = place.level();
        self.slots[level as usize] |= place.slot_bit();
        self.levels |= 1 << level;
    }

    #[inline]
    pub(crate) fn clear(&mut self, place: Place) {
        let level = place.level();
        let slots = &mut self.slots[level as usize];
        *slots &= !place.slot_bit();
        if *slots == 0 {
            self.levels &= !(1 << level);
        }
    }

    /// The occupied place whose ticks come first: by P3 in the lowest level in use, by P2 the
    /// lowest bit of it.
    #[inline]
    pub(crate) fn first(&self) -> Option<Place> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros() as usize;
        let slot = self.slots[level].trailing_zeros() as usize;
        Some(Place((level * SLOTS + slot) as u16))
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Ticks that all levels cover together.
    const RANGE: u64 = 1 << (DIGIT_BITS * LEVELS as u32);

    fn place(level: usize, slot: usize) -> Place {
        Place((level * SLOTS + slot) as u16)
    }

    #[test]
    fn the_level_is_that_of_the_highest_digit_that_differs() {
        assert_eq!(Place::of(0, 0), place(0, 0));
        assert_eq!(Place::of(0, 63), place(0, 63));
        assert_eq!(Place::of(0, 64), place(1, 1));
        assert_eq!(Place::of(0, 4095), place(1, 63));
        assert_eq!(Place::of(0, 4096), place(2, 1));
        assert_eq!(Place::of(0, RANGE - 1), place(4, 63));
        assert_eq!(Place::of(0, RANGE), Place::OVERFLOW);
        assert_eq!(Place::of(0, u64::MAX), Place::OVERFLOW);
        assert_eq!(Place::of(u64::MAX, u64::MAX), place(0, 63));
    }

    #[test]
    fn a_short_wait_over_a_boundary_goes_to_a_high_level() {
        assert_eq!(Place::of(63, 64), place(1, 1));
        assert_eq!(Place::of(RANGE - 1, RANGE), Place::OVERFLOW);
    }

    #[test]
    fn the_overflow_starts_where_its_tick_fits_into_the_levels() {
        assert_eq!(Place::OVERFLOW.start(RANGE + 5), RANGE);
        assert_eq!(Place::OVERFLOW.start(u64::MAX), u64::MAX - (RANGE - 1));
    }

    #[test]
    fn the_first_place_is_the_lowest_slot_of_the_lowest_level() {
        let mut occupied = Occupancy::new();
        assert_eq!(occupied.first(), None);
        for place in [
            Place::OVERFLOW,
            place(4, 0),
            place(1, 63),
            place(1, 7),
            place(0, 63),
        ] {
            occupied.set(place);
            assert_eq!(occupied.first(), Some(place));
        }
        for (cleared, then) in [
            (place(0, 63), Some(place(1, 7))),
            (place(1, 7), Some(place(1, 63))),
            (place(4, 0), Some(place(1, 63))),
            (place(1, 63), Some(Place::OVERFLOW)),
            (Place::OVERFLOW, None),
        ] {
            occupied.clear(cleared);
            assert_eq!(occupied.first(), then);
        }
    }

    /// A present and a tick not before it, near and far alike.
    fn present_and_tick() -> impl Strategy<Value = (u64, u64)> {
        (any::<u64>(), 0u32..64, any::<u64>())
            .prop_map(|(elapsed, shift, ahead)| (elapsed, elapsed.saturating_add(ahead >> shift)))
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 8 } else { 2_000 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn a_place_covers_its_tick_and_begins_after_the_present((elapsed, tick) in present_and_tick()) {
            let place = Place::of(elapsed, tick);
            prop_assert!(place.covers(tick, tick));
            prop_assert!(place.start(tick) <= tick);
            if place.level() > 0 {
                prop_assert!(elapsed < place.start(tick), "P2");
            }
        }

        #[test]
        fn of_two_places_the_earlier_tick_has_the_first(
            (elapsed, sooner) in present_and_tick(),
            ahead in any::<u64>(),
            shift in 0u32..64,
        ) {
            let later = sooner.saturating_add(ahead >> shift);
            let mut occupied = Occupancy::new();
            occupied.set(Place::of(elapsed, later));
            occupied.set(Place::of(elapsed, sooner));
            prop_assert_eq!(occupied.first(), Some(Place::of(elapsed, sooner)), "P2 and P3");
        }

        #[test]
        fn a_place_stays_right_until_it_begins(
            (elapsed, tick) in present_and_tick(),
            progress in any::<u64>(),
        ) {
            let place = Place::of(elapsed, tick);
            let start = place.start(tick);
            prop_assume!(elapsed < start);
            let later = elapsed + progress % (start - elapsed);
            prop_assert_eq!(Place::of(later, tick), place, "P4");
        }
    }
}
