//! The free blocks of a class that no thread has: stacks as threads have brought them, for the next
//! ones, and what is not needed soon, in its slabs.
//!
//! D1. A stack in `stacks` is full.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use super::class::{CLASSES, Class};
use super::slab::{SlabList, UnusedSlab};
use super::stack::{Stack, StackList};

/// The most bytes in the stacks of all depots: those of some hundred thousand small tasks.
pub(super) const MAX_KEPT: usize = 16 * 1024 * 1024;

static DEPOTS: [Depot; CLASSES] = [const {
    Depot(Mutex::new(Blocks {
        stacks: StackList::EMPTY,
        slabs: SlabList::EMPTY,
    }))
}; CLASSES];

/// How many bytes the stacks in all depots have.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// How often a thread has brought a stack to a depot, or taken one.
static USES: AtomicUsize = AtomicUsize::new(0);

/// The free blocks of a class that no thread has.
pub(super) struct Depot(Mutex<Blocks>);

struct Blocks {
    stacks: StackList,
    slabs: SlabList,
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
        USES.fetch_add(1, Relaxed);
        let mut blocks = self.lock();
        loop {
            if let Some(stack) = blocks.stacks.pop(class.full_len()) {
                KEPT.fetch_sub(class.full_bytes(), Relaxed); // D1
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
        USES.fetch_add(1, Relaxed);
        let bytes = class.full_bytes();
        if KEPT.fetch_add(bytes, Relaxed) + bytes <= MAX_KEPT {
            return self.lock().stacks.push(stack);
        }
        KEPT.fetch_sub(bytes, Relaxed);
        self.put_away(class, stack);
    }

    /// Puts the blocks of a stack into their slabs. Slabs that nobody uses go back to the system, but
    /// for a few.
    pub(super) fn put_away(&self, class: Class, mut stack: Stack) {
        let mut blocks = self.lock();
        while let Some(block) = stack.pop() {
            // SAFETY: the block was the stack's, and a stack has blocks of one class.
            if let Some(unused) = unsafe { blocks.slabs.give(class, block) } {
                drop(blocks); // a system call takes long
                drop(unused);
                blocks = self.lock();
            }
        }
    }

    /// [Puts away](Self::put_away) a stack that nobody has taken; returns false if there is none.
    pub(super) fn put_away_kept(&self, class: Class) -> bool {
        let Some(stack) = self.lock().stacks.pop(class.full_len()) else {
            return false;
        };
        KEPT.fetch_sub(class.full_bytes(), Relaxed);
        self.put_away(class, stack);
        true
    }

    /// Discards the free pages of a slab; returns false if that was done for all.
    pub(super) fn trim_one(&self, class: Class) -> bool {
        self.lock().slabs.trim_one(class)
    }
}

pub(super) fn kept_bytes() -> usize {
    KEPT.load(Relaxed)
}

pub(super) fn uses() -> usize {
    USES.load(Relaxed)
}
