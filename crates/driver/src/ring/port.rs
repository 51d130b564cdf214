//! The two queues that are shared with the kernel.
//!
//! Everything the ring asks of the kernel goes through here, so that its
//! protocol between threads can be modelled with a kernel of our own making
//! ([`model`](super)), which exports the same names.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use io_uring::squeue::Entry;
use io_uring::{IoUring, types};

use super::setup::{self, Features, Flavour, Refusal, RingConfig};
use crate::Poller;

/// A completion: what was given to the kernel to keep, the result, and flags.
pub(super) use io_uring::cqueue::Entry as Cqe;

/// Completions that are looked at together.
pub(super) const REAPED_AT_ONCE: usize = 16;

/// One end of an io_uring.
///
/// P1. The queues may be touched under the ring's lock only, and by nobody
///     else while its owner is in the kernel.
pub(super) struct Port {
    uring: IoUring,
    /// The thread whose the ring is, for the kernel: the first that enters.
    owner: AtomicI32,
}

/// The ring obeys nobody yet.
const NOBODY: i32 = 0;
/// The ring obeys all threads.
const EVERYBODY: i32 = -1;

impl Port {
    pub(super) fn open(config: &RingConfig) -> Result<(Self, Features), Refusal> {
        let (uring, features) = setup::build(config)?;
        if config.flavour == Flavour::Shared {
            barrier::announce();
        }
        let owner = AtomicI32::new(match config.flavour {
            Flavour::Shared => EVERYBODY,
            Flavour::Pinned => NOBODY,
        });
        Ok((Self { uring, owner }, features))
    }

    /// Whether the kernel would let any thread enter.
    pub(super) fn obeys_everybody(&self) -> bool {
        self.owner.load(Relaxed) == EVERYBODY
    }

    /// Whether the kernel would let the calling thread enter.
    pub(super) fn obeys_us(&self) -> bool {
        // Relaxed: what matters is only whether this thread has written it.
        match self.owner.load(Relaxed) {
            EVERYBODY => true,
            owner => owner == this_thread(),
        }
    }

    /// Tells the kernel of buffers to pick from: `count` entries at `address`,
    /// known as `group`.
    ///
    /// # Safety
    /// The entries, and the buffers they name, live as long as anything may be
    /// received.
    pub(super) unsafe fn provide(&self, address: u64, count: u16, group: u16) -> io::Result<()> {
        let submitter = self.uring.submitter();
        // SAFETY: the caller's.
        unsafe { submitter.register_buf_ring_with_flags(address, count, group, 0) }
    }

    /// Puts an entry into the submission queue; false if that is full.
    ///
    /// # Safety
    /// P1; and what the entry points to lives until the kernel's last word on
    /// it.
    pub(super) unsafe fn push(&self, entry: &Entry) -> bool {
        // SAFETY: the caller's.
        unsafe { self.uring.submission_shared().push(entry) }.is_ok()
    }

    /// Whether entering the kernel without waiting would do anything.
    ///
    /// # Safety
    /// P1.
    pub(super) unsafe fn needs_enter(&self) -> bool {
        // SAFETY: the caller's.
        let queue = unsafe { self.uring.submission_shared() };
        !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
    }

    /// Whether the kernel has completions that it will post when a thread that has
    /// submitted them enters the kernel.
    ///
    /// # Safety
    /// P1.
    pub(super) unsafe fn waits_for_submitter(&self) -> bool {
        // SAFETY: the caller's.
        unsafe { self.uring.submission_shared() }.taskrun()
    }

    /// Whether there are completions to take in.
    ///
    /// # Safety
    /// P1.
    pub(super) unsafe fn has_completions(&self) -> bool {
        // SAFETY: the caller's.
        !unsafe { self.uring.completion_shared() }.is_empty()
    }

    /// Takes completions in, some at a time, as long as `visit` wants more.
    ///
    /// # Safety
    /// P1.
    pub(super) unsafe fn reap(&self, mut visit: impl FnMut(&[Cqe]) -> bool) {
        // SAFETY: the caller's.
        let mut queue = unsafe { self.uring.completion_shared() };
        let mut room = [const { MaybeUninit::uninit() }; REAPED_AT_ONCE];
        loop {
            let cqes = queue.fill(&mut room);
            if cqes.is_empty() || !visit(cqes) {
                break;
            }
        }
    }

    /// Enters the kernel: it takes what the submission queue holds, and, if
    /// there is a limit for it, waits for a completion.
    pub(super) fn enter(&self, wait: Option<Option<Duration>>) -> io::Result<()> {
        let submitter = self.uring.submitter();
        // Relaxed: only one thread ever finds nobody.
        if self.owner.load(Relaxed) == NOBODY {
            submitter.register_enable_rings()?;
            self.owner.store(this_thread(), Relaxed);
        }
        let args = types::SubmitArgs::new();
        let entered = match wait {
            None => submitter.submit(),
            Some(None) => submitter.submit_with_args(1, &args),
            Some(Some(limit)) => {
                let limit = types::Timespec::from(limit);
                submitter.submit_with_args(1, &args.timespec(&limit))
            }
        };
        entered.map(drop)
    }

    /// The descriptor of the ring.
    pub(super) fn as_raw_fd(&self) -> RawFd {
        self.uring.as_raw_fd()
    }

    /// Makes all running threads of this process enter the kernel.
    pub(super) fn interrupt_submitters(&self) {
        barrier::interrupt_everybody();
    }

    /// Wakes an owner that waits in [`enter`](Self::enter).
    pub(super) fn wake(&self, poller: &Poller) {
        poller.wake_selector();
    }
}

/// The kernel's name of the calling thread.
fn this_thread() -> i32 {
    // SAFETY: no memory is passed.
    unsafe { libc::gettid() }
}

/// Interrupting all processors that run threads of this process.
mod barrier {
    const PRIVATE_EXPEDITED: i32 = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;

    fn membarrier(command: i32) {
        // SAFETY: takes numbers, and touches no memory of ours. Where it is
        // not to be had, a rescue comes with the owner's next clock tick.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    }

    /// Says that this process will want to.
    pub(super) fn announce() {
        membarrier(REGISTER_PRIVATE_EXPEDITED);
    }

    pub(super) fn interrupt_everybody() {
        membarrier(PRIVATE_EXPEDITED);
    }
}
