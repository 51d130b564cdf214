//! Named bit ranges of a packed 64-bit word.
//!
//! ```
//! use blitzen_util::field::Field;
//!
//! const COUNT: Field = Field::new(40, 24);
//! let word = COUNT.set(0, 7);
//! assert_eq!(COUNT.get(word + COUNT.one()), 8);
//! ```

/// A run of bits within a word.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    shift: u32,
    width: u32,
}

impl Field {
    /// The `width` bits from bit `shift` upwards.
    pub const fn new(shift: u32, width: u32) -> Self {
        assert!(width >= 1 && shift + width <= 64);
        Self { shift, width }
    }

    /// The largest value the field holds.
    pub const fn max(self) -> u64 {
        u64::MAX >> (64 - self.width)
    }

    /// The field's bits set, all others clear.
    pub const fn mask(self) -> u64 {
        self.max() << self.shift
    }

    /// What to add to the word to add one to the field.
    pub const fn one(self) -> u64 {
        1 << self.shift
    }

    /// Reads the field.
    #[inline(always)]
    pub const fn get(self, word: u64) -> u64 {
        (word >> self.shift) & self.max()
    }

    /// The word with the field replaced.
    #[inline(always)]
    pub const fn set(self, word: u64, value: u64) -> u64 {
        debug_assert!(value <= self.max());
        (word & !self.mask()) | (value << self.shift)
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_field_touches_only_its_own_bits() {
        let field = Field::new(8, 4);
        let word = field.set(u64::MAX, 0b0101);
        assert_eq!(field.get(word), 0b0101);
        assert_eq!(word | field.mask(), u64::MAX);
        assert_eq!(field.get(word + field.one()), 0b0110);
    }

    #[test]
    fn a_field_may_fill_the_word() {
        let field = Field::new(0, 64);
        assert_eq!(field.get(field.set(0, u64::MAX)), u64::MAX);
    }
}
