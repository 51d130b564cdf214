//! The two queues that are shared with the kernel.
//!
//! All submissions and completions go through this file. `queues_model.rs` exports
//! the same names over a simulated kernel, so that loom can model the ring's
//! protocol between threads.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use blitzen_util::asymmetric_fence::interrupt_processors;
use blitzen_util::kernel_thread::kernel_thread_id;
use io_uring::squeue::Entry;
use io_uring::{IoUring, types};

use super::setup::{self, Features, Flavour, Refusal, RingConfig};
use crate::Poller;

/// A completion: the user data of its request, the result, and flags.
pub(super) use io_uring::cqueue::Entry as Cqe;

/// How many completions are taken from the queue at a time.
pub(super) const REAPED_AT_ONCE: usize = 16;

/// The submission queue and the completion queue of an io_uring.
///
/// P1. The queues may be touched under the ring's lock only, and by nobody
///     else while its owner is in the kernel.
pub(super) struct RingQueues {
    uring: IoUring,
    /// The thread that the kernel allows to enter the ring: the first one that
    /// enters a pinned ring.
    owner: AtomicU32,
}

/// No thread has entered the pinned ring yet.
const NO_THREAD: u32 = 0;
/// Any thread may enter the ring.
const ANY_THREAD: u32 = u32::MAX;

impl RingQueues {
    pub(super) fn open(config: &RingConfig) -> Result<(Self, Features), Refusal> {
        let (uring, features) = setup::build(config)?;
        let owner = AtomicU32::new(match config.flavour {
            Flavour::Shared => ANY_THREAD,
            Flavour::Pinned => NO_THREAD,
        });
        Ok((Self { uring, owner }, features))
    }

    /// Whether the kernel would let any thread enter.
    pub(super) fn allows_any_thread(&self) -> bool {
        self.owner.load(Relaxed) == ANY_THREAD
    }

    /// Whether the kernel would let the calling thread enter.
    pub(super) fn allows_current_thread(&self) -> bool {
        // Relaxed: what matters is only whether this thread has written it.
        match self.owner.load(Relaxed) {
            ANY_THREAD => true,
            owner => owner == kernel_thread_id(),
        }
    }

    /// Registers provided buffers with the kernel: `count` entries at `address`,
    /// as the buffer group `group`.
    ///
    /// # Safety
    /// The entries, and the buffers they name, live as long as the kernel may
    /// receive into them.
    pub(super) unsafe fn provide(&self, address: u64, count: u16, group: u16) -> io::Result<()> {
        let submitter = self.uring.submitter();
        // SAFETY: the caller upholds the same contract.
        unsafe { submitter.register_buf_ring_with_flags(address, count, group, 0) }
    }

    /// Puts an entry into the submission queue; false if that is full.
    ///
    /// # Safety
    /// P1; and what the entry points to lives until its last completion.
    pub(super) unsafe fn push(&self, entry: &Entry) -> bool {
        // SAFETY: the caller upholds the same contract.
        unsafe { self.uring.submission_shared().push(entry) }.is_ok()
    }

    /// Whether entering the kernel without waiting would do anything.
    ///
    /// # Safety
    /// P1.
    pub(super) unsafe fn needs_enter(&self) -> bool {
        // SAFETY: the caller upholds the same contract.
        let queue = unsafe { self.uring.submission_shared() };
        !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
    }

    /// Whether the kernel has completions that it will post when a thread that has
    /// submitted them enters the kernel.
    ///
    /// # Safety
    /// P1.
    pub(super) unsafe fn waits_for_submitter(&self) -> bool {
        // SAFETY: the caller upholds the same contract.
        unsafe { self.uring.submission_shared() }.taskrun()
    }

    /// Whether there are completions in the queue.
    ///
    /// # Safety
    /// P1.
    pub(super) unsafe fn has_completions(&self) -> bool {
        // SAFETY: the caller upholds the same contract.
        !unsafe { self.uring.completion_shared() }.is_empty()
    }

    /// Takes completions from the queue, some at a time, while `visit` returns
    /// true.
    ///
    /// # Safety
    /// P1.
    pub(super) unsafe fn reap(&self, mut visit: impl FnMut(&[Cqe]) -> bool) {
        // SAFETY: the caller upholds the same contract.
        let mut queue = unsafe { self.uring.completion_shared() };
        let mut room = [const { MaybeUninit::uninit() }; REAPED_AT_ONCE];
        loop {
            let cqes = queue.fill(&mut room);
            if cqes.is_empty() || !visit(cqes) {
                break;
            }
        }
    }

    /// Enters the kernel, which takes the entries of the submission queue. With
    /// `wait`, waits for a completion: `Some(None)` without a limit.
    pub(super) fn enter(&self, wait: Option<Option<Duration>>) -> io::Result<()> {
        let submitter = self.uring.submitter();
        // Relaxed: only the ring's owner enters while no thread is stored.
        if self.owner.load(Relaxed) == NO_THREAD {
            submitter.register_enable_rings()?;
            self.owner.store(kernel_thread_id(), Relaxed);
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

    /// Makes all running threads of this process enter the kernel, so that it posts their completions. If
    /// it refuses, they are posted at the next clock tick.
    pub(super) fn interrupt_submitters(&self) {
        interrupt_processors();
    }

    /// Wakes an owner that waits in [`enter`](Self::enter).
    pub(super) fn wake(&self, poller: &Poller) {
        poller.wake_selector();
    }
}
