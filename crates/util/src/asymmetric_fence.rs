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
//! A2. Before the kernel knows that the process makes such calls, `light` is a real fence. `prepare`
//!     tells it first and `IS_PREPARED` afterwards, and whoever acquires that loads `b` later: a `heavy`
//!     that the kernel has refused because it came earlier has stored `b` by then.
//! A3. A filter may take the call away at any time: then `heavy` says so.

pub use chosen::{heavy, interrupt_processors, light, prepare};

/// The side that comes here seldom has to look again after a while: the kernel has refused to interrupt
/// the other side (A3).
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heavy {
    /// Whether A1 holds.
    pub is_fence: bool,
}

#[cfg(all(
    any(target_os = "linux", target_os = "android"),
    not(any(blitzen_loom, miri))
))]
mod chosen {
    use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
    use std::sync::atomic::{AtomicBool, compiler_fence, fence};

    use super::Heavy;

    const PRIVATE_EXPEDITED: i32 = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;

    /// Whether the kernel knows that this process interrupts its processors.
    static IS_PREPARED: AtomicBool = AtomicBool::new(false);

    fn membarrier(command: i32) -> bool {
        // SAFETY: takes numbers, and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    /// Makes [`light`] nearly free from now on, and returns whether the kernel can do that. Takes some
    /// ten milliseconds, once, in a process with several threads.
    pub fn prepare() -> bool {
        if IS_PREPARED.load(Relaxed) {
            return true;
        }
        let is_known = membarrier(REGISTER_PRIVATE_EXPEDITED);
        if is_known {
            // Release, met by the Acquire in `light` (A2).
            IS_PREPARED.store(true, Release);
        }
        is_known
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
        match IS_PREPARED.load(Acquire) {
            true => compiler_fence(SeqCst),
            false => fence(SeqCst),
        }
    }

    /// The fence of the side that comes here seldom.
    #[cold]
    pub fn heavy() -> Heavy {
        fence(SeqCst);
        let is_interrupted = membarrier(PRIVATE_EXPEDITED);
        Heavy {
            is_fence: is_interrupted || !IS_PREPARED.load(Acquire),
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

    /// Returns false: both fences are real ones.
    pub fn prepare() -> bool {
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
