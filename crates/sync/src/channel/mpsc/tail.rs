//! Positions of an unbounded channel.
//!
//! ```text
//!   word:  │ tail: all the rest │ WAITING │ CLOSED │
//! ```
//!
//! T1. `CLOSED` is never cleared. A claim made after it is void: the sender
//!     keeps its value, and the receiver stops at `closed_at`.
//! T2. `WAITING` is set by the receiver when it has left its waker, and cleared
//!     by whoever takes that: by a claim, which fires it when the message is
//!     there.

use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::chan::{Claim, Flow};
use super::waker_cell::WakerCell;
use crate::channel::blocks::Positions;

const CLOSED: usize = 1;
const WAITING: usize = 2;
const ONE: usize = 4;

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

    /// Where the messages end.
    fn end_of(&self, word: usize) -> usize {
        match word & CLOSED {
            0 => word / ONE,
            _ => self.closed_at.load(Relaxed), // T1
        }
    }

    /// A position, unless the channel is closed.
    #[inline(always)]
    pub(super) fn claim(&self) -> Option<Claim> {
        // Acquire, met by the Release in `claimed` and in `wait`.
        let word = self.word.fetch_add(ONE, Acquire);
        (word & CLOSED == 0).then(|| Claim {
            position: word / ONE,
            wakes: word & WAITING != 0 && self.stop_waiting(),
        })
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

    fn wait(&self) -> usize {
        // AcqRel: Release, met by the Acquire in `claim`: it sees the waker.
        self.end_of(self.word.fetch_or(WAITING, AcqRel))
    }

    fn waits(&self) -> Option<usize> {
        // Acquire, met by the Release of every change.
        let word = self.word.load(Acquire);
        (word & WAITING != 0).then(|| self.end_of(word))
    }

    fn stop_waiting(&self) -> bool {
        // AcqRel: Acquire, met by the Release in `wait`: the waker is seen.
        // Release, met by the Acquire there: so is what the receiver missed.
        self.word.fetch_and(!WAITING, AcqRel) & WAITING != 0
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
        Self::distance(self.end_of(self.word.load(Acquire)), head)
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
