//! A small fast random source: xorshift64+ over two 32-bit halves, and a
//! range reduction without bias or, nearly always, division.

use std::cell::Cell;

/// The golden ratio as a 64-bit fraction: spreads neighbouring seeds apart.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// A random sequence that its seed determines.
///
/// ```
/// use blitzen_util::rng::Rng;
///
/// let (mut one, mut same) = (Rng::new(7), Rng::new(7));
/// assert_eq!(one.next_u32(), same.next_u32());
/// assert!(one.below(10) < 10);
/// ```
#[derive(Clone, Debug)]
pub struct Rng {
    one: u32,
    two: u32,
}

impl Rng {
    /// The sequence that belongs to `seed`.
    pub const fn new(seed: u64) -> Self {
        // A step of splitmix64, so that seeds 1, 2, 3, … give unrelated states.
        let mut mixed = seed.wrapping_add(GOLDEN);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        let one = (mixed >> 32) as u32;
        let two = mixed as u32;
        // Both halves zero is the one state xorshift never leaves.
        Self {
            one,
            two: if one == 0 && two == 0 { 1 } else { two },
        }
    }

    /// The seed of the `index`-th of several sequences derived from one seed.
    pub const fn derive(seed: u64, index: u64) -> u64 {
        seed.wrapping_add(index.wrapping_add(1).wrapping_mul(GOLDEN))
    }

    /// The next 32 random bits.
    #[inline]
    pub const fn next_u32(&mut self) -> u32 {
        let mut s1 = self.one;
        let s0 = self.two;
        s1 ^= s1 << 17;
        s1 = s1 ^ s0 ^ (s1 >> 7) ^ (s0 >> 16);
        self.one = s0;
        self.two = s1;
        s0.wrapping_add(s1)
    }

    /// A number below `bound`, each with the same chance.
    ///
    /// # Panics
    /// If `bound` is zero.
    #[inline]
    #[track_caller]
    pub const fn below(&mut self, bound: u32) -> u32 {
        assert!(bound > 0, "a range needs at least one number");
        let mut product = self.next_u32() as u64 * bound as u64;
        // The multiplication maps 2^32 inputs onto `bound` outputs; the first
        // `2^32 mod bound` low halves of each output are one input too many.
        if (product as u32) < bound {
            let surplus = bound.wrapping_neg() % bound;
            while (product as u32) < surplus {
                product = self.next_u32() as u64 * bound as u64;
            }
        }
        (product >> 32) as u32
    }
}

thread_local! {
    static THREAD: Cell<Option<Rng>> = const { Cell::new(None) };
}

/// Replaces the calling thread's sequence, and returns the one it had.
///
/// A runtime with a seed does this on its threads, so that what draws from
/// [`thread_below`] repeats with the seed.
pub fn replace_thread_rng(rng: Option<Rng>) -> Option<Rng> {
    THREAD.with(|slot| slot.replace(rng))
}

/// A number below `bound` from the calling thread's own sequence.
#[track_caller]
pub fn thread_below(bound: u32) -> u32 {
    THREAD.with(|slot| {
        let mut rng = slot.take().unwrap_or_else(|| Rng::new(entropy()));
        let drawn = rng.below(bound);
        slot.set(Some(rng));
        drawn
    })
}

/// An unpredictable seed.
pub fn entropy() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    // std keys every `RandomState` differently, from the system's randomness.
    RandomState::new().hash_one(0)
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_the_sequence() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            (0..64).map(|_| rng.next_u32()).collect::<Vec<_>>()
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }

    #[test]
    fn every_number_of_a_small_range_comes_up_about_as_often() {
        let mut rng = Rng::new(1);
        let mut seen = [0u32; 6];
        for _ in 0..60_000 {
            seen[rng.below(6) as usize] += 1;
        }
        assert!(
            seen.iter().all(|&n| (9_500..10_500).contains(&n)),
            "{seen:?}"
        );
    }

    #[test]
    fn a_range_that_does_not_divide_the_word_has_no_bias() {
        // With three quarters of 2^32 a plain multiply would give every third
        // number twice the chance of its neighbours.
        let bound = 3 << 30;
        let mut rng = Rng::new(9);
        let mut thirds = [0u32; 3];
        for _ in 0..90_000 {
            thirds[(rng.below(bound) % 3) as usize] += 1;
        }
        assert!(
            thirds.iter().all(|&n| (29_000..31_000).contains(&n)),
            "{thirds:?}"
        );
    }

    #[test]
    fn the_thread_sequence_can_be_replaced_and_comes_back() {
        let before = replace_thread_rng(Some(Rng::new(5)));
        let first: Vec<_> = (0..8).map(|_| thread_below(1000)).collect();
        replace_thread_rng(Some(Rng::new(5)));
        let second: Vec<_> = (0..8).map(|_| thread_below(1000)).collect();
        replace_thread_rng(before);
        assert_eq!(first, second);
    }
}
