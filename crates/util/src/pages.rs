//! Memory that comes straight from the system, and goes straight back.
//!
//! An allocator keeps what it is given, in places that pin each other. What is mapped here goes back
//! when it is unmapped, and page by page when it is discarded. Where the system has no mmap(2), it
//! comes from the allocator after all, which may need twice as much, and is not discarded.

use std::ptr::NonNull;

/// Maps `bytes` bytes, aligned to their number, which is a power of two. `None` if there is no memory.
///
/// ```
/// use blitzen_util::pages;
///
/// let memory = pages::map(1 << 20).unwrap();
/// assert_eq!(memory.addr().get() % (1 << 20), 0);
/// // SAFETY: mapped above with this size, and not used again.
/// unsafe { pages::unmap(memory, 1 << 20) };
/// ```
///
/// # Panics
/// If `bytes` is no power of two, or less than a page.
#[track_caller]
pub fn map(bytes: usize) -> Option<NonNull<u8>> {
    assert!(bytes.is_power_of_two() && bytes >= page_bytes());
    sys::map(bytes)
}

/// Gives memory back.
///
/// # Safety
/// `memory` came from [`map`] with as many bytes, and nobody uses it any more.
pub unsafe fn unmap(memory: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller upholds the same contract.
    unsafe { sys::unmap(memory, bytes) };
}

/// Lets the system take pages until somebody writes to them. What they hold is lost, now or later.
///
/// # Safety
/// The pages are whole, in memory from [`map`], and nobody reads them before they are written.
pub unsafe fn discard(pages: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller upholds the same contract.
    unsafe { sys::discard(pages, bytes) };
}

/// Returns how large a page is.
///
/// ```
/// assert!(blitzen_util::pages::page_bytes().is_power_of_two());
/// ```
pub fn page_bytes() -> usize {
    sys::page_bytes()
}

#[cfg(unix)]
mod sys {
    use super::*;
    use std::ptr;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    // Elsewhere than on Linux, "don't need" only says that pages may be swapped out.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const NOT_NEEDED: libc::c_int = libc::MADV_DONTNEED;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const NOT_NEEDED: libc::c_int = libc::MADV_FREE;

    /// What systems have that report no size.
    const USUAL_PAGE_BYTES: usize = 4096;

    pub(super) fn page_bytes() -> usize {
        static PAGE_BYTES: AtomicUsize = AtomicUsize::new(0);
        match PAGE_BYTES.load(Relaxed) {
            0 => {
                // SAFETY: reads a constant of the system.
                let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
                let bytes = usize::try_from(bytes).unwrap_or(USUAL_PAGE_BYTES);
                PAGE_BYTES.store(bytes, Relaxed);
                bytes
            }
            bytes => bytes,
        }
    }

    pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
        // Maps below each other are aligned if the first one is.
        let first = map_anywhere(bytes)?;
        if first.addr().get().is_multiple_of(bytes) {
            return Some(first);
        }
        // SAFETY: mapped above, and used by nobody.
        unsafe { unmap(first, bytes) };
        let twice = map_anywhere(bytes.checked_mul(2)?)?;
        let before = twice.addr().get().wrapping_neg() % bytes;
        // SAFETY: both ends of what was mapped, which nobody uses. The middle is aligned.
        unsafe {
            let memory = twice.add(before);
            unmap(twice, before);
            unmap(memory.add(bytes), bytes - before);
            Some(memory)
        }
    }

    fn map_anywhere(bytes: usize) -> Option<NonNull<u8>> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON;
        // SAFETY: a new mapping, where the kernel finds room.
        let memory = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        match memory {
            libc::MAP_FAILED => None,
            memory => NonNull::new(memory.cast()),
        }
    }

    pub(super) unsafe fn unmap(memory: NonNull<u8>, bytes: usize) {
        if bytes > 0 {
            // SAFETY: the caller says that it is mapped, and unused.
            let result = unsafe { libc::munmap(memory.as_ptr().cast(), bytes) };
            if result != 0 {
                // The kernel would have to split a map, and may not: the addresses are lost.
                // SAFETY: as above.
                unsafe { discard(memory, bytes) };
            }
        }
    }

    pub(super) unsafe fn discard(pages: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller says that they are mapped, and that what they hold is not read.
        let result = unsafe { libc::madvise(pages.as_ptr().cast(), bytes, NOT_NEEDED) };
        let _ = result; // a hint, which may be refused: the pages stay
    }
}

#[cfg(not(unix))]
mod sys {
    use super::*;
    use std::alloc::{Layout, alloc, dealloc};

    pub(super) fn page_bytes() -> usize {
        4096
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, bytes).expect("a power of two")
    }

    pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
        // SAFETY: at least a page.
        NonNull::new(unsafe { alloc(layout(bytes)) })
    }

    pub(super) unsafe fn unmap(memory: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller says that it is from `map`, and unused.
        unsafe { dealloc(memory.as_ptr(), layout(bytes)) };
    }

    pub(super) unsafe fn discard(_: NonNull<u8>, _: usize) {}
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    const BYTES: usize = 256 * 1024;

    #[test]
    fn maps_are_aligned_and_apart() {
        let maps: Vec<_> = (0..20).map(|_| map(BYTES).unwrap()).collect();
        for (index, memory) in maps.iter().enumerate() {
            assert_eq!(memory.addr().get() % BYTES, 0);
            // SAFETY: mapped with this size.
            unsafe { memory.write_bytes(index as u8, BYTES) };
        }
        for (index, memory) in maps.into_iter().enumerate() {
            // SAFETY: written above; not used after it is unmapped.
            unsafe {
                assert_eq!(memory.read(), index as u8);
                assert_eq!(memory.add(BYTES - 1).read(), index as u8);
                unmap(memory, BYTES);
            }
        }
    }

    #[test]
    fn discarded_pages_can_be_written_again() {
        let memory = map(BYTES).unwrap();
        // SAFETY: mapped with this size; what is discarded is written before it is read.
        unsafe {
            memory.write_bytes(1, BYTES);
            discard(memory, BYTES / 2);
            memory.write(2);
            assert_eq!(memory.read(), 2);
            assert_eq!(
                memory.add(BYTES / 2).read(),
                1,
                "the others keep what they hold"
            );
            unmap(memory, BYTES);
        }
    }
}
