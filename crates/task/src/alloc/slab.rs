//! A slab: memory of the system's, cut into blocks of a class, and bits that say which of them nobody
//! has.
//!
//! L1. A block is in use, or in a stack, or its slab has its bit set.
//! L2. A slab is in the list `unused` of its class while all bits are set, in the list `partial` while
//!     some are, and else in none.
//! L3. A block whose bit is set holds nothing: its pages may be discarded.

use std::alloc::{Layout, handle_alloc_error};
use std::mem::{self, ManuallyDrop};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use blitzen_util::pages;

use super::class::Class;
use super::stack::Stack;

/// How large a slab is, and how it is aligned: so a block leads to its slab.
pub(super) const SLAB_BYTES: usize = 512 * 1024;

/// Where the blocks begin.
pub(super) const BLOCKS_OFFSET: usize = size_of::<Slab>().next_multiple_of(64);

/// The most blocks that a slab has bits for.
pub(super) const MAX_BLOCKS: usize = WORDS * 64;
const WORDS: usize = 103;

/// The most blocks that are taken at once.
const MAX_TAKEN: usize = 128;

/// How many slabs that nobody uses may stay, so that they are not mapped and unmapped in turn.
const MAX_UNUSED: usize = 4;

/// How many slabs nobody uses.
static UNUSED: AtomicUsize = AtomicUsize::new(0);

/// How many bytes the blocks have that were given to slabs and have not been trimmed since, each slab
/// being counted once at the most.
static UNTRIMMED: AtomicUsize = AtomicUsize::new(0);

pub(super) fn untrimmed_bytes() -> usize {
    UNTRIMMED.load(Relaxed)
}

/// The number of the present period.
static PERIOD: AtomicUsize = AtomicUsize::new(0);

/// Begins a period.
pub(super) fn start_period() {
    PERIOD.fetch_add(1, Relaxed);
}

/// How many slabs there are.
static SLABS: AtomicUsize = AtomicUsize::new(0);

/// How many bytes all slabs take from the system.
pub(super) fn bytes_of_slabs() -> usize {
    SLABS.load(Relaxed) * SLAB_BYTES
}

/// The beginning of a slab.
struct Slab {
    /// The blocks that nobody has.
    free: [u64; WORDS],
    free_len: usize,
    /// How many blocks, at the most, were freed since pages were last discarded.
    untrimmed: usize,
    /// The [period](start_period) in which it was given a block last.
    last_given: usize,
    previous: Option<NonNull<Slab>>,
    next: Option<NonNull<Slab>>,
}

/// The slabs of a class of which a bit is set (L2).
pub(super) struct SlabLists {
    partial: SlabList,
    unused: SlabList,
}

struct SlabList(Option<NonNull<Slab>>);

// SAFETY: whoever has the lists is the only one to use the slabs of their class, in a list or not,
// apart from the blocks that others have.
unsafe impl Send for SlabLists {}

/// A slab that no list has, and no block of which is in use. Dropping it gives it back to the system.
pub(super) struct UnusedSlab(NonNull<Slab>);

impl UnusedSlab {
    /// Maps a slab of a class.
    pub(super) fn map(class: Class) -> Self {
        let Some(slab) = pages::map(SLAB_BYTES) else {
            handle_alloc_error(Layout::new::<[u8; SLAB_BYTES]>());
        };
        SLABS.fetch_add(1, Relaxed);
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
                untrimmed: 0,
                last_given: 0,
                previous: None,
                next: None,
            });
        }
        Self(slab)
    }
}

impl Drop for UnusedSlab {
    fn drop(&mut self) {
        SLABS.fetch_sub(1, Relaxed);
        // SAFETY: mapped with this size; nobody has it, or a block of it.
        unsafe { pages::unmap(self.0.cast(), SLAB_BYTES) };
    }
}

impl SlabLists {
    pub(super) const EMPTY: Self = Self {
        partial: SlabList(None),
        unused: SlabList(None),
    };

    /// Adds a slab.
    ///
    /// # Safety
    /// The slab was mapped for the class of these lists.
    pub(super) unsafe fn add(&mut self, slab: UnusedSlab) {
        UNUSED.fetch_add(1, Relaxed);
        let slab = ManuallyDrop::new(slab);
        // SAFETY: it is in no list.
        unsafe { self.unused.push(slab.0) };
    }

    /// Takes some blocks, at most `most`, in the order of their addresses; `None` if there is none.
    pub(super) fn take(&mut self, class: Class, most: usize) -> Option<Stack> {
        let mut slab = match self.partial.0 {
            Some(slab) => slab,
            None => self.begin_unused()?,
        };
        let mut taken = [0; MAX_TAKEN];
        // SAFETY: in the list, so it is alive, and the list's.
        let bits = unsafe { slab.as_mut() };
        let taken = bits.take(&mut taken[..most.min(MAX_TAKEN)]);
        let is_empty = bits.free_len == 0;
        let mut stack = Stack::EMPTY;
        for &index in taken.iter().rev() {
            // SAFETY: the bit was set, so nobody has the block (L1), and it is in the slab.
            unsafe { stack.push(block_at(slab, class, index.into())) };
        }
        if is_empty {
            // SAFETY: it is in the list.
            unsafe { self.partial.remove(slab) }; // L2
        }
        Some(stack)
    }

    /// Moves an unused slab to the list of those that are used in part, as it is about to be.
    fn begin_unused(&mut self) -> Option<NonNull<Slab>> {
        let slab = self.unused.0?;
        UNUSED.fetch_sub(1, Relaxed);
        // SAFETY: it is in the one list, and then in none.
        unsafe {
            self.unused.remove(slab);
            self.partial.push(slab);
        }
        Some(slab)
    }

    /// Takes over all blocks of a stack.
    ///
    /// # Safety
    /// The blocks are of slabs of these lists' class.
    pub(super) unsafe fn give(&mut self, class: Class, mut stack: Stack) {
        let (all, period) = (class.blocks_of_slab(), PERIOD.load(Relaxed));
        let mut untrimmed = 0;
        while let Some(block) = stack.pop() {
            let (mut slab, index) = slab_of(block, class);
            // SAFETY: a slab is alive while a block of it is in use, or in a stack (L1).
            let bits = unsafe { slab.as_mut() };
            if bits.untrimmed < all {
                bits.untrimmed += 1;
                untrimmed += class.block_bytes();
            }
            bits.last_given = period;
            let free_len = bits.put(index);
            if free_len == 1 {
                // SAFETY: no bit was set, so it is in no list (L2).
                unsafe { self.partial.push(slab) };
            }
            if free_len == all {
                UNUSED.fetch_add(1, Relaxed);
                // SAFETY: it is in the one list, and then in none.
                unsafe {
                    self.partial.remove(slab);
                    self.unused.push(slab);
                }
            }
        }
        UNTRIMMED.fetch_add(untrimmed, Relaxed);
    }

    /// Takes a slab that nobody uses, if there are too many.
    pub(super) fn take_unused(&mut self, class: Class) -> Option<UnusedSlab> {
        let slab = self.unused.0?;
        if UNUSED.load(Relaxed) <= MAX_UNUSED {
            return None;
        }
        UNUSED.fetch_sub(1, Relaxed);
        // SAFETY: in the list, so it is alive, and the list's.
        unsafe {
            forget_untrimmed(slab, class);
            self.unused.remove(slab);
        }
        Some(UnusedSlab(slab))
    }

    /// Discards the free pages of a slab where that was not done yet, and that was given no block in
    /// the present period: more are likely to follow. Returns false if there is none.
    pub(super) fn trim_one(&mut self, class: Class) -> bool {
        self.unused.trim_one(class) || self.partial.trim_one(class)
    }
}

/// # Safety
/// The slab is alive, of this class, and the caller's.
unsafe fn forget_untrimmed(mut slab: NonNull<Slab>, class: Class) {
    // SAFETY: by the caller's word.
    let untrimmed = mem::take(&mut unsafe { slab.as_mut() }.untrimmed);
    UNTRIMMED.fetch_sub(untrimmed * class.block_bytes(), Relaxed);
}

impl SlabList {
    /// As [`SlabLists::trim_one`].
    fn trim_one(&mut self, class: Class) -> bool {
        let period = PERIOD.load(Relaxed);
        let mut next = self.0;
        while let Some(slab) = next {
            // SAFETY: in the list, so it is alive, and the list's.
            let bits = unsafe { slab.as_ref() };
            next = bits.next;
            if bits.untrimmed == 0 || bits.last_given == period {
                continue;
            }
            bits.for_free_pages(class, |offset, bytes| {
                // SAFETY: pages of the slab, which have only blocks that hold nothing (L3).
                unsafe { pages::discard(slab.cast::<u8>().add(offset), bytes) }
            });
            // SAFETY: as above.
            unsafe { forget_untrimmed(slab, class) };
            return true;
        }
        false
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
            if len == taken.len() {
                break;
            }
        }
        self.free_len -= len;
        &taken[..len]
    }

    /// Sets a bit; returns how many are set.
    fn put(&mut self, index: usize) -> usize {
        self.free[index / 64] |= 1 << (index % 64);
        self.free_len += 1;
        self.free_len
    }

    fn is_free(&self, index: usize) -> bool {
        self.free[index / 64] & 1 << (index % 64) != 0
    }

    /// Calls `visit` with the offset and the length of each run of pages that have only free blocks.
    fn for_free_pages(&self, class: Class, mut visit: impl FnMut(usize, usize)) {
        let (page_bytes, block_bytes) = (pages::page_bytes(), class.block_bytes());
        let last_block = class.blocks_of_slab() - 1;
        let is_free = |page: usize| {
            let start = page * page_bytes;
            let first = start.saturating_sub(BLOCKS_OFFSET) / block_bytes;
            let last = (start + page_bytes - 1).saturating_sub(BLOCKS_OFFSET) / block_bytes;
            (first..=last.min(last_block)).all(|index| self.is_free(index))
        };
        let first_page = BLOCKS_OFFSET.div_ceil(page_bytes); // the pages before have the bits
        let mut run = first_page..first_page;
        for page in first_page..=SLAB_BYTES / page_bytes {
            if page < SLAB_BYTES / page_bytes && is_free(page) {
                run.end = page + 1;
                continue;
            }
            if !run.is_empty() {
                visit(run.start * page_bytes, run.len() * page_bytes);
            }
            run = page + 1..page + 1;
        }
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
