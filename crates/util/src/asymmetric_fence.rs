//! Two fences that belong together: one is nearly free, the other pays for both.
//!
//! Where each of two threads writes one word and then reads the other's, both need a fence in between, or
//! both may miss what the other has written. If one side comes here far more often than the other,
//! Linux can spare it the fence: membarrier(2) interrupts every processor that runs a thread of this
//! process, which is a fence there.
//!
//! ```text
//!   often:    store a   light   load b
//!   seldom:   store b   heavy   load a
//! ```
//!
//! A1. One of the loads sees the other side's store. Either the interrupt comes after the store of `a`,
//!     and then the load of `a` sees it; or it comes before, and then the load of `b` sees the store of
//!     `b`, which was made before the call.
//! A2. The kernel has to be told first that the process makes such calls. Until that is announced both
//!     sides are real fences. `light` is one until the kernel knows; a `heavy` that has not seen the
//!     announcement has its fence before that of `prepare`, and so before every `light` that is none.
//! A3. From the announcement on, `heavy` has to interrupt the others. If the kernel refuses, then or
//!     later, it says so.

pub use chosen::{IS_POSSIBLE, heavy, interrupt_processors, is_prepared, light, prepare};

/// What [`heavy`] has done.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heavy {
    /// Whether A1 holds. Otherwise the caller has to look at the other side's word again after a
    /// while (A3).
    pub is_fence: bool,
}

#[cfg(all(
    any(target_os = "linux", target_os = "android"),
    not(any(blitzen_loom, miri))
))]
mod chosen {
    use std::sync::OnceLock;
    use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
    use std::sync::atomic::{AtomicU8, compiler_fence, fence};

    use super::Heavy;
    use crate::pad::Padded;

    const PRIVATE_EXPEDITED: i32 = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;

    /// Whether [`prepare`] can have an effect on this system.
    pub const IS_POSSIBLE: bool = true;

    const UNPREPARED: u8 = 0;
    /// `prepare` is about to tell the kernel.
    const ANNOUNCED: u8 = 1;
    /// The kernel knows.
    const PREPARED: u8 = 2;

    /// Padded: every release of a lock reads it.
    static STAGE: Padded<AtomicU8> = Padded(AtomicU8::new(UNPREPARED));

    fn membarrier(command: i32) -> bool {
        // SAFETY: takes numbers, and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    /// Makes [`light`] nearly free from now on, and returns whether the kernel can do that. The first
    /// call takes some ten milliseconds in a process with several threads.
    pub fn prepare() -> bool {
        static IS_KNOWN: OnceLock<bool> = OnceLock::new();
        *IS_KNOWN.get_or_init(|| {
            STAGE.0.store(ANNOUNCED, Relaxed);
            fence(SeqCst); // A2
            let is_known = membarrier(REGISTER_PRIVATE_EXPEDITED);
            // Release, met by the Acquire in `light` (A2).
            STAGE
                .0
                .store(if is_known { PREPARED } else { UNPREPARED }, Release);
            is_known
        })
    }

    /// Returns whether [`light`] is nearly free.
    pub fn is_prepared() -> bool {
        STAGE.0.load(Relaxed) == PREPARED
    }

    /// Interrupts all processors that run threads of this process, so that these enter the kernel, if it
    /// is [prepared](prepare) and the kernel does not refuse.
    pub fn interrupt_processors() {
        membarrier(PRIVATE_EXPEDITED);
    }

    /// The fence of the side that comes here often.
    #[inline(always)]
    pub fn light() {
        // Acquire, met by the Release in `prepare` (A2).
        match STAGE.0.load(Acquire) {
            PREPARED => compiler_fence(SeqCst),
            _ => fence(SeqCst),
        }
    }

    /// The fence of the side that comes here seldom.
    #[cold]
    pub fn heavy() -> Heavy {
        fence(SeqCst);
        Heavy {
            is_fence: STAGE.0.load(Relaxed) == UNPREPARED || membarrier(PRIVATE_EXPEDITED),
        }
    }
}

/// Where nothing interrupts other processors both sides are real fences. So they are in models.
#[cfg(not(all(
    any(target_os = "linux", target_os = "android"),
    not(any(blitzen_loom, miri))
)))]
mod chosen {
    use crate::shim::atomic::Ordering::SeqCst;
    use crate::shim::atomic::fence;

    use super::Heavy;

    /// Whether [`prepare`] can have an effect on this system.
    pub const IS_POSSIBLE: bool = false;

    /// Returns false: both fences are real ones.
    pub fn prepare() -> bool {
        false
    }

    /// Returns false.
    pub fn is_prepared() -> bool {
        false
    }

    /// Does nothing.
    pub fn interrupt_processors() {}

    /// The fence of the side that comes here often.
    #[inline(always)]
    pub fn light() {
        fence(SeqCst);
    }

    /// The fence of the side that comes here seldom.
    pub fn heavy() -> Heavy {
        fence(SeqCst);
        Heavy { is_fence: true }
    }
}
