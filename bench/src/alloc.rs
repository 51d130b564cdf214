//! The allocator every contender shares, and the count of what it handed out.
//!
//! Counting two cores' allocations in one word costs each of them a cache-line
//! transfer, more than many of the operations measured here. So the count is off
//! while anything is timed: the first round of every row counts and is not
//! timed, all later ones are timed and not counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

static COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// The system's allocator behind a switchable counter.
pub(crate) struct Counting;

/// Allocations made and bytes asked for since the process started counting.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) allocations: u64,
    pub(crate) bytes: u64,
}

impl Counts {
    pub(crate) fn now() -> Counts {
        Counts {
            allocations: ALLOCATIONS.load(Relaxed),
            bytes: BYTES.load(Relaxed),
        }
    }

    pub(crate) fn since(self, earlier: Counts) -> Counts {
        Counts {
            allocations: self.allocations - earlier.allocations,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

/// Turns the counter on or off for the whole process.
pub(crate) fn count(on: bool) {
    COUNTING.store(on, Relaxed);
}

pub(crate) fn is_counting() -> bool {
    COUNTING.load(Relaxed)
}

fn note(bytes: usize) {
    if is_counting() {
        ALLOCATIONS.fetch_add(1, Relaxed);
        BYTES.fetch_add(bytes as u64, Relaxed);
    }
}

// SAFETY: every method passes its arguments on to `System` unchanged and returns
// what `System` returned, so `System`'s guarantees are this allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's contract is `System`'s.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's contract is `System`'s.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note(new_size);
        // SAFETY: the caller's contract is `System`'s.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is `System`'s.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    // One test, since the counter is the process's: other tests allocate beside it,
    // so only lower bounds hold.
    #[test]
    fn a_counted_box_is_seen() {
        count(true);
        let before = Counts::now();
        drop(black_box(Box::new([0u8; 4096])));
        let made = Counts::now().since(before);
        count(false);
        assert!(made.allocations >= 1 && made.bytes >= 4096, "{made:?}");
    }
}
