//! Size classes: which blocks serve a task, as arithmetic.

use std::alloc::Layout;

use super::slab::{BLOCKS_OFFSET, MAX_BLOCKS, SLAB_BYTES};

/// The sizes of blocks are multiples of this, and it is their alignment.
const STEP: usize = 16;

/// Smaller blocks would be too many for the bits of a slab. Every task is larger.
const MIN_BYTES: usize = 80;
const _: () = assert!((SLAB_BYTES - BLOCKS_OFFSET) / MIN_BYTES <= MAX_BLOCKS);

/// Classes of up to `16 * CLASSES - 16` bytes; larger tasks have no block.
pub(super) const CLASSES: usize = 80;

/// The most blocks of a stack, and the most bytes of two.
const MAX_LEN: usize = 128;
const MAX_BYTES_OF_TWO: usize = 64 * 1024;

/// How much a thread gets from a slab at a time.
const BYTES_FROM_SLAB: usize = 4 * 1024;
const MIN_LEN_FROM_SLAB: usize = 8;

/// Off under a sanitizer, which cannot see the use of a finished task whose memory is kept.
const RECYCLES: bool = cfg!(not(blitzen_no_recycle));

/// Blocks of the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(usize);

impl Class {
    /// The class whose blocks serve tasks of this layout; `None` if the system does.
    #[inline(always)]
    pub(super) const fn of(layout: Layout) -> Option<Self> {
        let bytes = match layout.size() < MIN_BYTES {
            true => MIN_BYTES,
            false => layout.size(),
        };
        let class = bytes.div_ceil(STEP);
        match RECYCLES && layout.align() <= STEP && class < CLASSES {
            true => Some(Self(class)),
            false => None,
        }
    }

    /// All classes, the largest first.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (MIN_BYTES / STEP..CLASSES).rev().map(Self)
    }

    #[inline(always)]
    pub(super) const fn index(self) -> usize {
        self.0
    }

    /// How many bytes a block has.
    #[inline(always)]
    pub(super) const fn block_bytes(self) -> usize {
        self.0 * STEP
    }

    /// How many blocks a slab has.
    pub(super) const fn blocks_of_slab(self) -> usize {
        (SLAB_BYTES - BLOCKS_OFFSET) / self.block_bytes()
    }

    /// How many blocks a thread gets from a slab at a time: as many as a page or two have, so that
    /// tasks of many sizes take little memory.
    pub(super) const fn len_from_slab(self) -> usize {
        let fitting = BYTES_FROM_SLAB / self.block_bytes();
        match fitting < MIN_LEN_FROM_SLAB {
            true => MIN_LEN_FROM_SLAB,
            false => fitting,
        }
    }

    /// How many blocks a full stack has.
    #[inline(always)]
    pub(super) const fn full_len(self) -> usize {
        let fitting = MAX_BYTES_OF_TWO / 2 / self.block_bytes();
        match fitting < MAX_LEN {
            true => fitting,
            false => MAX_LEN,
        }
    }

    /// How many bytes the blocks of a full stack have.
    #[inline(always)]
    pub(super) const fn full_bytes(self) -> usize {
        self.full_len() * self.block_bytes()
    }
}

#[cfg(all(test, not(any(blitzen_loom, blitzen_no_recycle))))]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_large_enough_for_their_layouts() {
        for size in 1..2000 {
            let layout = Layout::from_size_align(size, 8).unwrap();
            match Class::of(layout) {
                Some(class) => {
                    assert!((size..size.max(MIN_BYTES) + STEP).contains(&class.block_bytes()))
                }
                None => assert!(size > (CLASSES - 1) * STEP, "{size} has no class"),
            }
        }
        let aligned = Layout::from_size_align(64, 32).unwrap();
        assert_eq!(Class::of(aligned), None);
    }

    #[test]
    fn a_slab_has_bits_for_its_blocks() {
        for class in Class::all() {
            let blocks = class.blocks_of_slab();
            assert!((1..=MAX_BLOCKS).contains(&blocks));
            assert!(BLOCKS_OFFSET + blocks * class.block_bytes() <= SLAB_BYTES);
            assert!((1..=MAX_LEN).contains(&class.full_len()));
            assert!((1..=class.full_len()).contains(&class.len_from_slab()));
        }
    }
}
