//! The link of a task to the next one of its queue; while the task is idle, and so in no queue,
//! what it waits for and since when.
//!
//! ```text
//!   in a queue   pointer to the next task, or null      lowest three bits zero
//!   idle         identity (48 bits)  stamp (16 bits)    not all of them zero
//! ```
//!
//! K1. The thread that runs a task stores what it waits for, before the task becomes idle. Code
//!     that may access a queue stores the links of its tasks. No task is in both hands.
//! K2. A wait is a value: nobody follows it. So any thread that keeps the task alive may read it,
//!     and take a link that it finds instead for nothing.

use std::ptr::{self, NonNull};

use blitzen_util::shim::atomic::AtomicPtr;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use blitzen_util::wait::Stamp;

use crate::header::Header;

/// Whether the word has room for what a task waits for. Where it has not, a dump shows since when
/// a task waits, and for what kind of thing.
const HAS_IDENTITY: bool = usize::BITS >= 64;

const STAMP_BITS: u32 = 16;

/// The link.
pub(crate) struct QueueLink(AtomicPtr<Header>);

// The stamps tell a wait from a pointer by its lowest three bits.
const _: () = assert!(align_of::<Header>() >= 8);

impl QueueLink {
    /// The link of a task that is in no queue.
    pub(crate) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The next task of the queue. The caller has exclusive access to the queue, which orders
    /// this: so Relaxed, here and below.
    #[inline]
    pub(crate) fn next(&self) -> Option<NonNull<Header>> {
        NonNull::new(self.0.load(Relaxed))
    }

    /// Sets the next task of the queue.
    #[inline]
    pub(crate) fn set_next(&self, next: Option<NonNull<Header>>) {
        self.0
            .store(next.map_or(ptr::null_mut(), NonNull::as_ptr), Relaxed);
    }

    /// Stores what the task waits for from now on (K1).
    #[inline]
    pub(crate) fn set_wait(&self, identity: u64) {
        let word = identity << STAMP_BITS | Stamp::now().to_word();
        // Release, met by the Acquire in `wait`: a thread that reads it sees the transition to
        // `RUNNING` that came before, and so does not take it for an earlier wait.
        self.0
            .store(ptr::without_provenance_mut(word as usize), Release);
    }

    /// What the task waits for, and since when; `None` if it is in a queue (K2).
    pub(crate) fn wait(&self) -> Option<(Option<u64>, Stamp)> {
        // Acquire, met by the Release in `set_wait`.
        let word = self.0.load(Acquire).addr() as u64;
        let stamp = Stamp::from_word(word)?;
        Some((HAS_IDENTITY.then_some(word >> STAMP_BITS), stamp))
    }
}
