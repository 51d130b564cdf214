//! The memory of stacks: slabs of up to 64 of them, each with a guard area at its low end.
//!
//! ```text
//!   ┌───────┬───────────────┬─────┬───────┬───────────────┬─────┬──
//!   │ guard │ stack 0     ◄─│ gap │ guard │ stack 1     ◄─│ gap │ …
//!   └───────┴───────────────┴─────┴───────┴───────────────┴─────┴──
//! ```
//!
//! The gap above a stack is less than half a page, and of another size in each slot. Without it the
//! hot ends of all stacks would be at the same place of a page, and share a few sets of the
//! processor's caches. The stack has a page more than was asked for, so that what is left of the
//! highest page is room enough for a coroutine that waits.
//!
//! Memory is reserved, and provided by the system page by page as it is used. The guard areas
//! are made by `guard.rs`: by an advice that costs no mappings, or by `mprotect`.
//!
//! B1. A slot's bit in `free` is set while no [`Stack`] has the slot.
//! B2. A slot has its guard area before the first [`Stack`] gets it, and keeps it.
//! B3. A slab that has a free slot is in its size's list, and in no other.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::guard::{self, GUARD_SIZE};
use crate::metrics;

/// The largest number of stacks in a slab: bits of a word.
const MAX_SLOTS: usize = 64;

/// The gap above a stack is one of so many sizes, each by so many bytes larger: a line of the cache.
const GAPS: usize = 32;
const GAP_STEP: usize = 64;

/// About the largest slab, unless one stack is larger.
const MAX_SLAB_SIZE: usize = 64 * 1024 * 1024;

/// Asks for memory that is not reserved before it is used. FreeBSD has no such flag.
const MAP_NORESERVE: libc::c_int = cfg_select! {
    any(target_os = "freebsd", target_os = "dragonfly") => { 0 }
    _ => { libc::MAP_NORESERVE }
};

/// The slabs that have a free slot, by the size of their stacks (B3).
static WITH_ROOM: Mutex<BTreeMap<usize, Vec<Arc<Slab>>>> = Mutex::new(BTreeMap::new());

fn lock() -> MutexGuard<'static, BTreeMap<usize, Vec<Arc<Slab>>>> {
    WITH_ROOM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One mapping with room for some stacks of a size.
struct Slab {
    start: NonNull<u8>,
    stack_size: usize,
    /// The distance between two stacks.
    slot_size: usize,
    slots: usize,
    state: Mutex<SlabState>,
}

struct SlabState {
    /// B1.
    free: u64,
    /// The slots that have their guard area (B2).
    guarded: u64,
}

// SAFETY: the memory is reached through `Stack`s, each of which has a slot of its own.
unsafe impl Send for Slab {}
// SAFETY: as above; the state is behind a lock.
unsafe impl Sync for Slab {}

/// A stack: the right to use one slot of a slab.
pub(crate) struct Stack {
    slab: Arc<Slab>,
    /// The address above the stack, which every switch needs.
    base: usize,
}

impl Slab {
    fn new(stack_size: usize) -> io::Result<Self> {
        // Pointers into it may not be further apart. A 32-bit system would map more.
        let slot_size = stack_size
            .checked_add(GUARD_SIZE + page_size())
            .filter(|&size| size <= isize::MAX as usize)
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let slots = (MAX_SLAB_SIZE / slot_size).clamp(1, MAX_SLOTS);
        let length = slots * slot_size;
        // SAFETY: a new mapping at an address that the system chooses.
        let start = unsafe {
            libc::mmap(
                null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        #[cfg(target_os = "linux")]
        // SAFETY: the mapping made above. Without the advice it works as well: a stack may then
        // get 2 MiB where it uses a page.
        unsafe {
            libc::madvise(start, length, libc::MADV_NOHUGEPAGE);
        }
        Ok(Self {
            start: NonNull::new(start.cast()).expect("mmap(2) does not return null"),
            stack_size,
            slot_size,
            slots,
            state: Mutex::new(SlabState {
                free: ones(slots),
                guarded: 0,
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, SlabState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn length(&self) -> usize {
        self.slots * self.slot_size
    }

    /// The low end of a slot: its guard area, then its stack.
    fn slot_start(&self, slot: usize) -> NonNull<u8> {
        assert!(slot < self.slots);
        // SAFETY: within the mapping.
        unsafe { self.start.add(slot * self.slot_size) }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`; no `Stack` is left, each of which refers to this.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length()) };
    }
}

/// The size of a page.
pub(crate) fn page_size() -> usize {
    // SAFETY: only asks.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// A word whose lowest `count` bits are set.
fn ones(count: usize) -> u64 {
    match count {
        64 => u64::MAX,
        _ => (1 << count) - 1,
    }
}

impl Stack {
    /// Takes a stack of `size` bytes, a multiple of [`GUARD_SIZE`]'s pages, from a slab.
    pub(crate) fn new(size: usize) -> io::Result<Self> {
        let mut with_room = lock();
        let slabs = with_room.entry(size).or_default();
        if slabs.is_empty() {
            slabs.push(Arc::new(Slab::new(size)?));
        }
        let slab = slabs.last().expect("just made").clone();
        let mut state = slab.state();
        let slot = state.free.trailing_zeros() as usize; // B3: there is one
        if state.guarded & 1 << slot == 0 {
            // SAFETY: the low end of a slot that no stack has.
            unsafe { guard::install(slab.slot_start(slot).as_ptr().cast()) }?;
            state.guarded |= 1 << slot;
            metrics::CREATED.add(1);
        }
        state.free &= !(1 << slot);
        if state.free == 0 {
            slabs.pop();
        }
        drop(state);
        metrics::TAKEN.add(1);
        let gap = slot % GAPS * GAP_STEP;
        let base = slab.slot_start(slot).as_ptr() as usize + slab.slot_size - gap;
        Ok(Self { slab, base })
    }

    /// The size that was asked for.
    pub(crate) fn size(&self) -> usize {
        self.slab.stack_size
    }

    /// The lowest address of the guard area.
    #[inline]
    pub(crate) fn limit(&self) -> usize {
        // The slot ends with a page, and the gap is smaller than the largest one.
        self.base.next_multiple_of(GAPS * GAP_STEP) - self.slab.slot_size
    }

    /// The address above the stack, which grows downwards.
    #[inline]
    pub(crate) fn base(&self) -> usize {
        self.base
    }

    /// Which slot of its slab it has.
    fn slot(&self) -> usize {
        (self.limit() - self.slab.start.as_ptr() as usize) / self.slab.slot_size
    }
}

impl Drop for Stack {
    /// Gives the stack's pages back to the system, and its slot to the slab.
    fn drop(&mut self) {
        let start = (self.limit() + GUARD_SIZE) as *mut c_void;
        let length = self.slab.slot_size - GUARD_SIZE;
        unpoison(start, length);
        // SAFETY: the slot's own memory, which nobody uses any more.
        unsafe { libc::madvise(start, length, libc::MADV_DONTNEED) };
        metrics::TAKEN.add(-1);
        let mut with_room = lock();
        let slabs = with_room.entry(self.size()).or_default();
        let mut state = self.slab.state();
        let was_full = state.free == 0;
        state.free |= 1 << self.slot();
        let is_unused = state.free == ones(self.slab.slots);
        drop(state);
        if was_full {
            slabs.push(self.slab.clone());
        }
        // One that is unused stays, so that a stack made and dropped again and again maps
        // nothing.
        if is_unused && slabs.len() > 1 {
            slabs.retain(|slab| !Arc::ptr_eq(slab, &self.slab));
        }
    }
}

/// Forgets what the address sanitizer knows of frames that were left without returning.
pub(crate) fn unpoison(start: *mut c_void, length: usize) {
    #[cfg(blitzen_asan)]
    {
        unsafe extern "C" {
            fn __asan_unpoison_memory_region(start: *const c_void, length: usize);
        }
        // SAFETY: the memory of a stack that nobody uses.
        unsafe { __asan_unpoison_memory_region(start, length) };
    }
    let _ = (start, length);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A size that no other test uses.
    const SIZE: usize = 36 * 1024;

    #[test]
    fn stacks_do_not_overlap_and_their_slots_are_used_again() {
        let stacks: Vec<_> = (0..200).map(|_| Stack::new(SIZE).unwrap()).collect();
        let mut areas: Vec<_> = stacks.iter().map(|s| (s.limit(), s.base())).collect();
        areas.sort_unstable();
        for pair in areas.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "{pair:x?}");
        }
        for stack in &stacks {
            let top = (stack.base() - 8) as *mut u64;
            // SAFETY: on the stack.
            unsafe {
                assert_eq!(top.read(), 0);
                top.write(7);
            }
        }
        drop(stacks);
        assert_eq!(lock()[&SIZE].len(), 1, "unused slabs are unmapped but one");
        let again = Stack::new(SIZE).unwrap();
        let top = (again.base() - 8) as *const u64;
        // SAFETY: on the stack.
        assert_eq!(unsafe { top.read() }, 0, "its pages were given back");
    }

    #[test]
    fn a_stack_that_is_too_large_is_refused() {
        for size in [usize::MAX / GUARD_SIZE * GUARD_SIZE, isize::MAX as usize / 4096 * 4096] {
            assert!(Stack::new(size).is_err());
        }
    }

    #[test]
    fn a_slab_has_at_most_64_stacks_and_at_least_one() {
        let slots = |size| Slab::new(size).unwrap().slots;
        assert_eq!(slots(16 * 1024), 64);
        assert_eq!(slots(1 << 30), 1);
        assert_eq!(ones(64), u64::MAX);
        assert_eq!(ones(3), 0b111);
    }
}
