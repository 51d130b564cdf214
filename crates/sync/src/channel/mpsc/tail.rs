//! Positions of an unbounded channel.
//!
//! ```text
//!   word:  │ tail: all the rest │ CLOSED │
//! ```
//!
//! T1. `CLOSED` is never cleared. A claim made after it is void: the sender
//!     keeps its value, and the receiver stops at `closed_at`.

use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::chan::Flow;
use super::waker_cell::WakerCell;
use crate::channel::blocks::Positions;

const CLOSED: usize = 1;
const ONE: usize = 2;

/// The bits of a position.
const MASK: usize = usize::MAX / ONE;

pub(super) struct Tail {
    word: AtomicUsize,
    /// The tail at the time of the close; the receiver's.
    closed_at: AtomicUsize,
    receiver: WakerCell,
}

impl Tail {
    pub(super) fn new() -> Self {
        Self {
            word: AtomicUsize::new(0),
            closed_at: AtomicUsize::new(0),
            receiver: WakerCell::new(),
        }
    }

    /// A position, unless the channel is closed.
    #[inline(always)]
    pub(super) fn claim(&self) -> Option<usize> {
        // Acquire, met by the Release in `claimed`.
        let word = self.word.fetch_add(ONE, Acquire);
        (word & CLOSED == 0).then_some(word / ONE)
    }
}

impl Positions for Tail {
    #[inline(always)]
    fn distance(position: usize, start: usize) -> usize {
        position.wrapping_sub(start) & MASK
    }

    #[inline(always)]
    fn has_passed(head: usize, position: usize) -> bool {
        Self::distance(head, position) <= MASK / 2
    }

    fn claimed(&self) -> usize {
        // AcqRel: Release, met by the Acquire in `claim`.
        self.word.fetch_add(0, AcqRel) / ONE
    }
}

impl Flow for Tail {
    #[inline(always)]
    fn receiver(&self) -> &WakerCell {
        &self.receiver
    }

    #[inline(always)]
    fn is_closed(&self) -> bool {
        // Acquire, met by the Release in `close`.
        self.word.load(Acquire) & CLOSED != 0
    }

    fn is_idle(&self, head: usize) -> bool {
        self.is_closed() && self.len(head) == 0
    }

    fn len(&self, head: usize) -> usize {
        let word = self.word.load(Acquire);
        let end = match word & CLOSED {
            0 => word / ONE,
            _ => self.closed_at.load(Relaxed), // T1
        };
        Self::distance(end, head)
    }

    #[inline(always)]
    fn taken(&self, _count: usize) {}

    fn close(&self) {
        // AcqRel: Release, met by the Acquire in `is_closed`. Only the receiver
        // comes here, and only once.
        let word = self.word.fetch_or(CLOSED, AcqRel);
        self.closed_at.store(word / ONE, Relaxed);
    }
}
