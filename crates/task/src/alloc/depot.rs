//! The free blocks of a class that no thread has: stacks as threads have brought them, for the next
//! ones, and what is not needed soon, in its slabs.
//!
//! D1. A stack in `stacks` is full.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use super::class::{CLASSES, Class};
use super::slab::{SlabLists, UnusedSlab};
use super::stack::{Stack, StackList};

/// The most bytes in the stacks of all depots: those of some hundred thousand small tasks.
pub(super) const MAX_KEPT: usize = 16 * 1024 * 1024;

static DEPOTS: [Depot; CLASSES] = [const {
    Depot(Mutex::new(Blocks {
        stacks: StackList::EMPTY,
        len: 0,
        unused: 0,
        slabs: SlabLists::EMPTY,
    }))
}; CLASSES];

/// How many bytes the stacks in all depots have.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// The free blocks of a class that no thread has.
pub(super) struct Depot(Mutex<Blocks>);

struct Blocks {
    stacks: StackList,
    /// How many stacks there are.
    len: usize,
    /// The fewest stacks that there were since a [period](Depot::start_period) began: those which nobody has
    /// used in it.
    unused: usize,
    slabs: SlabLists,
}

impl Blocks {
    fn push_stack(&mut self, stack: Stack) {
        self.stacks.push(stack);
        self.len += 1;
    }

    fn pop_stack(&mut self, class: Class) -> Option<Stack> {
        let stack = self.stacks.pop(class.full_len())?; // D1
        self.len -= 1;
        self.unused = self.unused.min(self.len);
        KEPT.fetch_sub(class.full_bytes(), Relaxed);
        Some(stack)
    }
}

impl Depot {
    pub(super) fn of(class: Class) -> &'static Self {
        &DEPOTS[class.index()]
    }

    /// Nothing that panics is called under the lock.
    fn lock(&self) -> MutexGuard<'_, Blocks> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Takes some blocks, at least one.
    pub(super) fn take(&self, class: Class) -> Stack {
        let mut blocks = self.lock();
        loop {
            if let Some(stack) = blocks.pop_stack(class) {
                return stack;
            }
            if let Some(stack) = blocks.slabs.take(class, class.len_from_slab()) {
                return stack;
            }
            drop(blocks); // a system call takes long
            let slab = UnusedSlab::map(class);
            blocks = self.lock();
            // SAFETY: mapped for this class.
            unsafe { blocks.slabs.add(slab) };
        }
    }

    /// Takes over a full stack (D1).
    pub(super) fn keep(&self, class: Class, stack: Stack) {
        let bytes = class.full_bytes();
        if KEPT.fetch_add(bytes, Relaxed) + bytes <= MAX_KEPT {
            return self.lock().push_stack(stack);
        }
        KEPT.fetch_sub(bytes, Relaxed);
        self.put_away(class, stack);
    }

    /// Puts the blocks of a stack into their slabs, and gives a slab that nobody uses back to the
    /// system if there are too many: only one, for whoever ends a task should not wait for more.
    pub(super) fn put_away(&self, class: Class, stack: Stack) {
        let mut blocks = self.lock();
        // SAFETY: a stack has blocks of one class.
        unsafe { blocks.slabs.give(class, stack) };
        let unused = blocks.slabs.take_unused(class);
        drop(blocks); // a system call takes long
        drop(unused);
    }

    /// [Puts away](Self::put_away) a stack that nobody has used in the present period; returns false
    /// if there is none.
    pub(super) fn put_away_unused(&self, class: Class) -> bool {
        let mut blocks = self.lock();
        if blocks.unused == 0 {
            return false;
        }
        blocks.unused -= 1;
        let stack = blocks.pop_stack(class);
        drop(blocks);
        stack.map(|stack| self.put_away(class, stack)).is_some()
    }

    /// Begins a period.
    pub(super) fn start_period(&self) {
        let mut blocks = self.lock();
        blocks.unused = blocks.len;
    }

    /// Gives a slab that nobody uses back to the system; returns false if there are not too many.
    pub(super) fn unmap_one(&self, class: Class) -> bool {
        let unused = self.lock().slabs.take_unused(class);
        unused.is_some()
    }

    /// Discards the free pages of a slab; returns false if that was done for all.
    pub(super) fn trim_one(&self, class: Class) -> bool {
        self.lock().slabs.trim_one(class)
    }
}

pub(super) fn kept_bytes() -> usize {
    KEPT.load(Relaxed)
}
