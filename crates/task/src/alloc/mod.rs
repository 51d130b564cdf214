//! Memory of tasks, in blocks of some sizes, the [classes](class). What a finished task had is kept
//! for the next one of its class:
//!
//! ```text
//!   allocate ◄── loaded ◄── spare ◄──┐           one thread, one class
//!   release  ──► loaded ──► spare ──►│ depot     all threads, one class
//!                                    ▲
//!                                    ▼
//!                                  slabs ◄──► the system
//! ```
//!
//! Where one thread spawns tasks and another one ends them, the memory goes back in whole stacks, and
//! neither meets the other at a lock for each block. A burst of tasks leaves most of its memory in the
//! [`depot`], for the next burst. What no thread has used for a while is [given back](give_back_some): it
//! goes to the slabs that it comes from, and pages and [slabs](slab) that nobody uses to the system.
//!
//! A1. A block in a stack of a class comes from a slab of that class, and nobody uses it.
//! A2. A thread keeps at most two stacks of a class ([`Class::full_len`](class)), and all depots
//!     together a bounded number of bytes ([`MAX_KEPT`](depot)) in stacks.
//! A3. `spare` is full, or empty.

mod class;
mod depot;
mod slab;
mod stack;

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::mem;
use std::ptr::NonNull;

use class::{CLASSES, Class};
use depot::Depot;
use stack::Stack;

/// What a thread has of a class.
struct ThreadStacks {
    loaded: Stack,
    spare: Stack,
}

struct Cache([ThreadStacks; CLASSES]);

impl Cache {
    #[inline(always)]
    fn of(&mut self, class: Class) -> &mut ThreadStacks {
        &mut self.0[class.index()]
    }
}

impl ThreadStacks {
    const EMPTY: Self = Self {
        loaded: Stack::EMPTY,
        spare: Stack::EMPTY,
    };

    #[inline(always)]
    fn take(&mut self) -> Option<NonNull<u8>> {
        if self.loaded.is_empty() {
            mem::swap(&mut self.loaded, &mut self.spare);
        }
        self.loaded.pop()
    }

    /// Adds blocks; returns a stack for which there is no room.
    #[cold]
    fn load(&mut self, stack: Stack) -> Stack {
        mem::replace(&mut self.loaded, stack)
    }

    /// Keeps a block; returns a full stack if there is no room for it.
    ///
    /// # Safety
    /// A1 holds for the block.
    #[inline(always)]
    unsafe fn keep(&mut self, class: Class, block: NonNull<u8>) -> Option<Stack> {
        let surplus = match self.loaded.len() < class.full_len() {
            true => None,
            false => self.unload(),
        };
        // SAFETY: the caller upholds the same contract.
        unsafe { self.loaded.push(block) };
        surplus
    }

    /// Makes room where what is loaded is full.
    #[cold]
    fn unload(&mut self) -> Option<Stack> {
        let loaded = mem::replace(&mut self.loaded, Stack::EMPTY);
        let spare = mem::replace(&mut self.spare, loaded);
        (!spare.is_empty()).then_some(spare)
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        for class in Class::all() {
            let stacks = mem::replace(self.of(class), ThreadStacks::EMPTY);
            for stack in [stacks.loaded, stacks.spare] {
                if !stack.is_empty() {
                    Depot::of(class).put_away(class, stack);
                }
            }
        }
    }
}

thread_local! {
    static CACHE: RefCell<Cache> = const { RefCell::new(Cache([ThreadStacks::EMPTY; CLASSES])) };
}

/// Memory for a task of this layout.
#[inline]
pub(crate) fn allocate(layout: Layout) -> NonNull<u8> {
    let Some(class) = Class::of(layout) else {
        return from_system(layout);
    };
    match CACHE.try_with(|cache| cache.borrow_mut().of(class).take()) {
        Ok(Some(block)) => block,
        _ => from_depot(class),
    }
}

/// A block for a thread that has none. Its cache is not borrowed meanwhile.
#[cold]
fn from_depot(class: Class) -> NonNull<u8> {
    let depot = Depot::of(class);
    let mut stack = depot.take(class);
    let Some(block) = stack.pop() else {
        unreachable!("a depot has at least one block");
    };
    // A thread that is ending has lost its cache.
    let mut rest = Some(stack);
    let _ = CACHE.try_with(|cache| {
        let mut cache = cache.borrow_mut();
        rest = rest.take().map(|stack| cache.of(class).load(stack));
    });
    if let Some(rest) = rest.filter(|stack| !stack.is_empty()) {
        depot.put_away(class, rest);
    }
    block
}

#[cold]
fn from_system(layout: Layout) -> NonNull<u8> {
    // SAFETY: a task's layout is never empty: it has a header.
    match NonNull::new(unsafe { alloc(layout) }) {
        Some(block) => block,
        None => handle_alloc_error(layout),
    }
}

/// Gives back memory from [`allocate`].
///
/// # Safety
/// `block` came from [`allocate`] with the same layout, and is not used again.
#[inline]
pub(crate) unsafe fn release(block: NonNull<u8>, layout: Layout) {
    let Some(class) = Class::of(layout) else {
        // SAFETY: a layout without a class is served by the system.
        return unsafe { dealloc(block.as_ptr(), layout) };
    };
    // SAFETY: the same layout had the same class in `allocate`, which took the block from a slab of
    // that class.
    let kept = CACHE.try_with(|cache| unsafe { cache.borrow_mut().of(class).keep(class, block) });
    match kept {
        Ok(None) => {}
        Ok(Some(full)) => Depot::of(class).keep(class, full),
        Err(_) => {
            let mut stack = Stack::EMPTY;
            // SAFETY: as above.
            unsafe { stack.push(block) };
            Depot::of(class).put_away(class, stack);
        }
    }
}

/// How many bytes are kept for any thread, and could be given back.
#[inline]
pub(crate) fn kept_bytes() -> usize {
    depot::kept_bytes() + slab::untrimmed_bytes()
}

/// How many bytes are mapped for tasks, in use or not.
pub(crate) fn mapped_bytes() -> usize {
    slab::bytes_of_slabs()
}

/// Begins to look for what nobody uses.
pub(crate) fn start_period() {
    slab::start_period();
    Class::all().for_each(|class| Depot::of(class).start_period());
}

/// Does a bit to give back what nobody has used in the present period; returns false if there is
/// nothing to do.
pub(crate) fn give_back_some() -> bool {
    let step = |class: Class| {
        let depot = Depot::of(class);
        depot.put_away_unused(class) || depot.unmap_one(class) || depot.trim_one(class)
    };
    Class::all().any(step)
}

#[cfg(all(test, not(any(blitzen_loom, blitzen_no_recycle))))]
mod tests;
