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
pub(crate) const SLOT_COUNT: usize = LEVELS * SLOTS + 1;

const _: () = assert!(SLOTS == u64::BITS as usize); // one word of occupancy per level
const _: () = assert!(LEVELS < u8::BITS as usize); // one bit per level, one for the overflow

/// A slot of a level, or the overflow: `level * 64 + slot`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SlotIndex(u16);

/// The slots that hold something.
#[derive(Debug)]
pub(crate) struct Occupancy {
    /// Bit `n`: some slot of level `n` is occupied.
    levels: u8,
    /// Bit `n`: slot `n` of that level is occupied. The last level is the overflow's one slot.
    slots: [u64; LEVELS + 1],
}

impl SlotIndex {
    /// Holds what lies beyond the last level.
    pub(crate) const OVERFLOW: SlotIndex = SlotIndex((LEVELS * SLOTS) as u16);

    /// Where `tick` belongs in a wheel that has reached `elapsed`, which is not later.
    #[inline]
    pub(crate) fn of(elapsed: u64, tick: u64) -> SlotIndex {
        // Ticks that differ in the last digit, or not at all, are both level 0.
        let differing = (elapsed ^ tick) | (SLOTS as u64 - 1);
        let level = differing.ilog2() / DIGIT_BITS;
        if level >= LEVELS as u32 {
            return SlotIndex::OVERFLOW;
        }
        let slot = (tick >> (level * DIGIT_BITS)) as usize % SLOTS;
        SlotIndex((level as usize * SLOTS + slot) as u16)
    }

    #[inline]
    pub(crate) fn get(self) -> usize {
        usize::from(self.0)
    }

    /// The first tick that this slot covers, given any tick that it covers.
    ///
    /// The overflow is no single stretch of ticks. Of it, this is the beginning of the stretch
    /// of `64⁵` around the given tick: the moment at which that tick fits into the levels.
    #[inline]
    pub(crate) fn start(self, covered: u64) -> u64 {
        let shift = self.level() * DIGIT_BITS;
        covered >> shift << shift
    }

    /// Whether `tick` belongs here, given that `covered` does and that `tick` is not before
    /// the first tick of this slot.
    #[inline]
    pub(crate) fn covers(self, covered: u64, tick: u64) -> bool {
        self == SlotIndex::OVERFLOW || self.start(covered) == self.start(tick)
    }

    /// Whether this is a slot of level 0, all of whose timers are due together.
    #[inline]
    pub(crate) fn is_one_tick(self) -> bool {
        self.get() < SLOTS
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
    pub(crate) fn set(&mut self, slot_index: SlotIndex) {
        let level = slot_index.level();
        self.slots[level as usize] |= slot_index.slot_bit();
        self.levels |= 1 << level;
    }

    #[inline]
    pub(crate) fn clear(&mut self, slot_index: SlotIndex) {
        let level = slot_index.level();
        let slots = &mut self.slots[level as usize];
        *slots &= !slot_index.slot_bit();
        if *slots == 0 {
            self.levels &= !(1 << level);
        }
    }

    /// The occupied slot whose ticks come first: by P3 in the lowest level in use, by P2 the
    /// lowest bit of it.
    #[inline]
    pub(crate) fn first(&self) -> Option<SlotIndex> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros() as usize;
        let slot = self.slots[level].trailing_zeros() as usize;
        Some(SlotIndex((level * SLOTS + slot) as u16))
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Ticks that all levels cover together.
    const RANGE: u64 = 1 << (DIGIT_BITS * LEVELS as u32);

    fn slot_index(level: usize, slot: usize) -> SlotIndex {
        SlotIndex((level * SLOTS + slot) as u16)
    }

    #[test]
    fn the_level_is_that_of_the_highest_digit_that_differs() {
        assert_eq!(SlotIndex::of(0, 0), slot_index(0, 0));
        assert_eq!(SlotIndex::of(0, 63), slot_index(0, 63));
        assert_eq!(SlotIndex::of(0, 64), slot_index(1, 1));
        assert_eq!(SlotIndex::of(0, 4095), slot_index(1, 63));
        assert_eq!(SlotIndex::of(0, 4096), slot_index(2, 1));
        assert_eq!(SlotIndex::of(0, RANGE - 1), slot_index(4, 63));
        assert_eq!(SlotIndex::of(0, RANGE), SlotIndex::OVERFLOW);
        assert_eq!(SlotIndex::of(0, u64::MAX), SlotIndex::OVERFLOW);
        assert_eq!(SlotIndex::of(u64::MAX, u64::MAX), slot_index(0, 63));
    }

    #[test]
    fn a_short_wait_over_a_boundary_goes_to_a_high_level() {
        assert_eq!(SlotIndex::of(63, 64), slot_index(1, 1));
        assert_eq!(SlotIndex::of(RANGE - 1, RANGE), SlotIndex::OVERFLOW);
    }

    #[test]
    fn the_overflow_starts_where_its_tick_fits_into_the_levels() {
        assert_eq!(SlotIndex::OVERFLOW.start(RANGE + 5), RANGE);
        assert_eq!(SlotIndex::OVERFLOW.start(u64::MAX), u64::MAX - (RANGE - 1));
    }

    #[test]
    fn the_first_slot_is_the_lowest_slot_of_the_lowest_level() {
        let mut occupied = Occupancy::new();
        assert_eq!(occupied.first(), None);
        for slot_index in [
            SlotIndex::OVERFLOW,
            slot_index(4, 0),
            slot_index(1, 63),
            slot_index(1, 7),
            slot_index(0, 63),
        ] {
            occupied.set(slot_index);
            assert_eq!(occupied.first(), Some(slot_index));
        }
        for (cleared, then) in [
            (slot_index(0, 63), Some(slot_index(1, 7))),
            (slot_index(1, 7), Some(slot_index(1, 63))),
            (slot_index(4, 0), Some(slot_index(1, 63))),
            (slot_index(1, 63), Some(SlotIndex::OVERFLOW)),
            (SlotIndex::OVERFLOW, None),
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
        fn a_slot_covers_its_tick_and_begins_after_the_present((elapsed, tick) in present_and_tick()) {
            let slot_index = SlotIndex::of(elapsed, tick);
            prop_assert!(slot_index.covers(tick, tick));
            prop_assert!(slot_index.start(tick) <= tick);
            if slot_index.level() > 0 {
                prop_assert!(elapsed < slot_index.start(tick), "P2");
            }
        }

        #[test]
        fn of_two_slots_the_earlier_tick_has_the_first(
            (elapsed, sooner) in present_and_tick(),
            ahead in any::<u64>(),
            shift in 0u32..64,
        ) {
            let later = sooner.saturating_add(ahead >> shift);
            let mut occupied = Occupancy::new();
            occupied.set(SlotIndex::of(elapsed, later));
            occupied.set(SlotIndex::of(elapsed, sooner));
            prop_assert_eq!(occupied.first(), Some(SlotIndex::of(elapsed, sooner)), "P2 and P3");
        }

        #[test]
        fn a_slot_stays_right_until_it_begins(
            (elapsed, tick) in present_and_tick(),
            progress in any::<u64>(),
        ) {
            let slot_index = SlotIndex::of(elapsed, tick);
            let start = slot_index.start(tick);
            prop_assume!(elapsed < start);
            let later = elapsed + progress % (start - elapsed);
            prop_assert_eq!(SlotIndex::of(later, tick), slot_index, "P4");
        }
    }
}
