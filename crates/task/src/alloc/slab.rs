//! A slab: memory of the system's, cut into blocks of a class, and bits that say which of them nobody
//! has.
//!
//! L1. A block is in use, or in a stack, or its slab has its bit set.
//! L2. A slab whose bits are all set is given back to the system by whoever set the last one.
//! L3. A slab is in the list of its class while a bit is set.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use super::class::Class;
use super::stack::Stack;

/// How large a slab is, and how it is aligned: so a block leads to its slab. Where the system's
/// allocator maps each slab on its own, it adds a page or two, which are little beside these.
pub(super) const SLAB_BYTES: usize = 512 * 1024;

/// Where the blocks begin.
pub(super) const BLOCKS_OFFSET: usize = size_of::<Slab>().next_multiple_of(64);

/// The most blocks that a slab has bits for.
pub(super) const MAX_BLOCKS: usize = WORDS * 64;
const WORDS: usize = 103;

/// The most blocks that are taken at once.
const MAX_TAKEN: usize = 128;

const LAYOUT: Layout = match Layout::from_size_align(SLAB_BYTES, SLAB_BYTES) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};

/// The beginning of a slab.
struct Slab {
    /// The blocks that nobody has.
    free: [u64; WORDS],
    free_len: usize,
    previous: Option<NonNull<Slab>>,
    next: Option<NonNull<Slab>>,
}

/// The slabs of a class of which a bit is set (L3).
pub(super) struct SlabList(Option<NonNull<Slab>>);

// SAFETY: whoever has the list is the only one to use the slabs of its class, in the list or not,
// apart from the blocks that others have.
unsafe impl Send for SlabList {}

/// Slabs that no list has, and no block of which is in use. Dropping them gives them back to the
/// system.
pub(super) struct UnusedSlabs(Option<NonNull<Slab>>);

impl UnusedSlabs {
    const NONE: Self = Self(None);

    /// # Safety
    /// Nobody else has the slab, or a block of it.
    unsafe fn push(&mut self, mut slab: NonNull<Slab>) {
        // SAFETY: alive, and the caller's.
        unsafe { slab.as_mut() }.next = self.0.replace(slab);
    }
}

impl Drop for UnusedSlabs {
    fn drop(&mut self) {
        while let Some(slab) = self.0 {
            // SAFETY: allocated with this layout, and used by nobody (L2).
            unsafe {
                self.0 = slab.as_ref().next;
                dealloc(slab.as_ptr().cast(), LAYOUT);
            }
        }
    }
}

/// A slab that is about to be [added](SlabList::add), all bits of which are set.
pub(super) struct NewSlab(NonNull<Slab>);

impl NewSlab {
    /// Allocates a slab of a class.
    pub(super) fn alloc(class: Class) -> Self {
        // SAFETY: the layout is not empty.
        let Some(slab) = NonNull::new(unsafe { alloc(LAYOUT) }) else {
            handle_alloc_error(LAYOUT);
        };
        let slab = slab.cast::<Slab>();
        let blocks = class.blocks_of_slab();
        let mut free = [0; WORDS];
        for (word, bits) in free.iter_mut().enumerate() {
            *bits = match blocks.saturating_sub(word * 64) {
                64.. => u64::MAX,
                left => (1 << left) - 1,
            };
        }
        // SAFETY: new memory, large enough and aligned.
        unsafe {
            slab.write(Slab {
                free,
                free_len: blocks,
                previous: None,
                next: None,
            });
        }
        Self(slab)
    }
}

impl SlabList {
    pub(super) const EMPTY: Self = Self(None);

    /// Adds a slab.
    ///
    /// # Safety
    /// The slab was allocated for the class of this list.
    pub(super) unsafe fn add(&mut self, slab: NewSlab) {
        // SAFETY: new, so in no list.
        unsafe { self.push(slab.0) };
    }

    /// Takes some blocks, at most `most`, in the order of their addresses; `None` if there is none.
    pub(super) fn take(&mut self, class: Class, most: usize) -> Option<Stack> {
        let mut slab = self.0?;
        // SAFETY: in the list, so it is alive, and the list's.
        let bits = unsafe { slab.as_mut() };
        let mut stack = Stack::EMPTY;
        let mut taken = [0; MAX_TAKEN];
        let taken = bits.take(&mut taken[..most.min(MAX_TAKEN)]);
        for &index in taken.iter().rev() {
            // SAFETY: the bit was set, so nobody has the block (L1), and it is in the slab.
            unsafe { stack.push(block_at(slab, class, index.into())) };
        }
        if bits.free_len == 0 {
            // SAFETY: it is in the list.
            unsafe { self.remove(slab) }; // L3
        }
        Some(stack)
    }

    /// Takes over all blocks of a stack; returns the slabs that nobody uses any more (L2).
    ///
    /// # Safety
    /// The stack is of this class, and its blocks are of slabs of this list.
    pub(super) unsafe fn give(&mut self, class: Class, mut stack: Stack) -> UnusedSlabs {
        let mut unused = UnusedSlabs::NONE;
        while let Some(block) = stack.pop() {
            let (mut slab, index) = slab_of(block, class);
            // SAFETY: a slab is alive while a block of it is in use, or in a stack (L2).
            let bits = unsafe { slab.as_mut() };
            bits.put(index);
            if bits.free_len == 1 {
                // SAFETY: no bit was set, so it is in no list (L3).
                unsafe { self.push(slab) };
            }
            if bits.free_len == class.blocks_of_slab() {
                // SAFETY: a bit is set (L3).
                unsafe {
                    self.remove(slab);
                    unused.push(slab);
                }
            }
        }
        unused
    }

    /// # Safety
    /// The slab is alive, of this class, and in no list.
    unsafe fn push(&mut self, mut slab: NonNull<Slab>) {
        let next = self.0.replace(slab);
        // SAFETY: alive by the caller's word, and the list's from here on.
        unsafe {
            slab.as_mut().previous = None;
            slab.as_mut().next = next;
        }
        if let Some(mut next) = next {
            // SAFETY: in the list.
            unsafe { next.as_mut() }.previous = Some(slab);
        }
    }

    /// # Safety
    /// The slab is in this list.
    unsafe fn remove(&mut self, slab: NonNull<Slab>) {
        // SAFETY: in the list, as its neighbours are.
        unsafe {
            let (previous, next) = (slab.as_ref().previous, slab.as_ref().next);
            match previous {
                Some(mut previous) => previous.as_mut().next = next,
                None => self.0 = next,
            }
            if let Some(mut next) = next {
                next.as_mut().previous = previous;
            }
        }
    }
}

impl Slab {
    /// Clears the lowest bits that are set, and fills `taken` with their indices as far as there are
    /// enough; returns them.
    fn take<'a>(&mut self, taken: &'a mut [u16]) -> &'a [u16] {
        let mut len = 0;
        for (word, bits) in self.free.iter_mut().enumerate() {
            while *bits != 0 && len < taken.len() {
                taken[len] = (word * 64) as u16 + bits.trailing_zeros() as u16;
                *bits &= *bits - 1;
                len += 1;
            }
        }
        self.free_len -= len;
        &taken[..len]
    }

    /// Sets a bit.
    fn put(&mut self, index: usize) {
        let (word, bit) = (index / 64, 1 << (index % 64));
        debug_assert_eq!(self.free[word] & bit, 0, "a block has one owner (L1)");
        self.free[word] |= bit;
        self.free_len += 1;
    }
}

fn block_at(slab: NonNull<Slab>, class: Class, index: usize) -> NonNull<u8> {
    // SAFETY: in bounds of the slab, whose blocks have these indices.
    unsafe {
        slab.cast::<u8>()
            .add(BLOCKS_OFFSET + index * class.block_bytes())
    }
}

/// The slab that a block is in, and its index there.
fn slab_of(block: NonNull<u8>, class: Class) -> (NonNull<Slab>, usize) {
    let offset = block.addr().get() % SLAB_BYTES;
    // SAFETY: slabs are aligned to their size, so this is the beginning of the block's slab.
    let slab = unsafe { block.sub(offset) };
    let index = (offset - BLOCKS_OFFSET) / class.block_bytes();
    (slab.cast(), index)
}
