//! Guard areas: pages below a stack that nothing can access.
//!
//! They are `MADV_GUARD_INSTALL`, which needs Linux 6.13: then a slab is one mapping. Elsewhere
//! they are `mprotect`ed, which makes two mappings of each stack; the usual limit of 65,530
//! mappings (`vm.max_map_count`) is then reached at about 32,000 stacks.
//!
//! G1. An area that was made by the advice cannot be read. qemu-user reports success for advice
//!     that it does not know, and does nothing, so the first area of the process is tried.

use std::ffi::c_void;
use std::io;

/// The size of a guard area. C code does not probe its frames page by page, as Rust does, so
/// that one page would not do.
pub(crate) const GUARD_SIZE: usize = 64 * 1024;

/// Makes the pages of a guard area inaccessible.
///
/// # Safety
/// There are [`GUARD_SIZE`] bytes of private memory at `start`, a multiple of the size of a page,
/// and nobody uses them.
pub(crate) unsafe fn install(start: *mut c_void) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: the caller's.
        let advise = || unsafe { libc::madvise(start, GUARD_SIZE, advice::MADV_GUARD_INSTALL) } == 0;
        if advice::STATE.take(advise, || !advice::is_readable(start)) {
            return Ok(());
        }
    }
    // SAFETY: the caller's.
    match unsafe { libc::mprotect(start, GUARD_SIZE, libc::PROT_NONE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(target_os = "linux")]
mod advice {
    use std::ffi::c_void;
    use std::io;
    use std::ptr::null;
    use std::sync::atomic::AtomicU8;
    use std::sync::atomic::Ordering::Relaxed;

    /// Of Linux 6.13.
    pub(super) const MADV_GUARD_INSTALL: libc::c_int = 102;

    pub(super) static STATE: AdviceState = AdviceState::new();

    /// Whether the system takes the advice. All accesses are `Relaxed`: threads that try at the
    /// same time find the same.
    pub(super) struct AdviceState(AtomicU8);

    const UNTRIED: u8 = 0;
    const WORKS: u8 = 1;
    const MISSING: u8 = 2;

    impl AdviceState {
        const fn new() -> Self {
            Self(AtomicU8::new(UNTRIED))
        }

        /// Gives the advice, unless it is missing. Returns whether it has made a guard area: if
        /// `advise` says so and, the first time, `is_guarded` too (G1).
        pub(super) fn take(
            &self,
            advise: impl FnOnce() -> bool,
            is_guarded: impl FnOnce() -> bool,
        ) -> bool {
            let state = self.0.load(Relaxed);
            if state == MISSING {
                return false;
            }
            let works = advise() && (state == WORKS || is_guarded());
            self.0.store(if works { WORKS } else { MISSING }, Relaxed);
            works
        }
    }

    /// Whether the word at `address` can be read. The kernel reads it, so that nothing else
    /// happens if it cannot, and an emulator has it read by the kernel beneath.
    pub(super) fn is_readable(address: *const c_void) -> bool {
        // Unused memory is zero, so the call returns at once, with EAGAIN.
        const OTHER_VALUE: u32 = 1;
        // SAFETY: the kernel reads the word, and answers EFAULT if it cannot.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_futex,
                address,
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                OTHER_VALUE,
                null::<libc::timespec>(),
            )
        };
        answer == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_first_guard_that_the_advice_makes_is_tried() {
            let state = AdviceState::new();
            assert!(state.take(|| true, || true));
            assert!(state.take(|| true, || unreachable!("only the first")));
        }

        #[test]
        fn advice_that_succeeds_and_does_nothing_is_missing() {
            let state = AdviceState::new();
            assert!(!state.take(|| true, || false));
            assert!(!state.take(|| unreachable!("not again"), || true));
        }

        #[test]
        fn advice_that_fails_is_missing() {
            let state = AdviceState::new();
            assert!(!state.take(|| false, || unreachable!("there is no guard")));
            assert!(!state.take(|| unreachable!("not again"), || true));

            let state = AdviceState::new();
            assert!(state.take(|| true, || true));
            assert!(!state.take(|| false, || true));
            assert!(!state.take(|| unreachable!("not again"), || true));
        }

        #[test]
        fn memory_that_cannot_be_accessed_is_not_readable() {
            const SIZE: usize = super::super::GUARD_SIZE;
            // SAFETY: new mappings at addresses that the system chooses.
            let map = |protection| unsafe {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let start = libc::mmap(std::ptr::null_mut(), SIZE, protection, flags, -1, 0);
                assert_ne!(start, libc::MAP_FAILED);
                start
            };
            let open = map(libc::PROT_READ | libc::PROT_WRITE);
            let closed = map(libc::PROT_NONE);
            assert!(is_readable(open));
            assert!(!is_readable(closed));
            // SAFETY: a mapping of that size, which nobody uses.
            unsafe { super::super::install(open) }.unwrap();
            assert!(!is_readable(open), "it is a guard area now");
            // SAFETY: the mappings made above.
            unsafe {
                libc::munmap(open, SIZE);
                libc::munmap(closed, SIZE);
            }
        }
    }
}
