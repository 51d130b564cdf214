//! The flow control of an unbounded channel: positions only.
//!
//! ```text
//!   state:  │ tail: all other bits │ WAITING │ CLOSED │
//! ```
//!
//! T1. `CLOSED` is never cleared. A claim made after it is void: the sender
//!     keeps its value, and the receiver stops at `closed_at`.
//! T2. `WAITING` is set by the receiver after it has stored its waker, and cleared
//!     by the thread that takes the waker: by a claim, which wakes the receiver when
//!     the message is published.

use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use blitzen_util::wake_batch::WakeBatch;

use super::chan::{FlowControl, SlotClaim};
use super::waker_cell::WakerCell;
use crate::channel::block_list::PositionCounter;

const CLOSED: usize = 1;
const WAITING: usize = 2;
const ONE: usize = 4;

/// The bits of a position.
const MASK: usize = usize::MAX / ONE;

pub(super) struct UnboundedFlow {
    state: AtomicUsize,
    /// The tail at the time of the close; written and read by the receiver.
    closed_at: AtomicUsize,
    rx_waker: WakerCell,
}

impl UnboundedFlow {
    pub(super) fn new() -> Self {
        Self {
            state: AtomicUsize::new(0),
            closed_at: AtomicUsize::new(0),
            rx_waker: WakerCell::new(),
        }
    }

    /// Where the messages end.
    fn end_of(&self, state: usize) -> usize {
        match state & CLOSED {
            0 => state / ONE,
            _ => self.closed_at.load(Relaxed), // T1
        }
    }

    /// A position, unless the channel is closed.
    #[inline(always)]
    pub(super) fn claim(&self) -> Option<SlotClaim> {
        // Acquire, met by the Release in `claimed` and in `set_waiting`.
        let state = self.state.fetch_add(ONE, Acquire);
        (state & CLOSED == 0).then(|| SlotClaim {
            position: state / ONE,
            wakes_receiver: state & WAITING != 0 && self.clear_waiting(),
        })
    }
}

// SAFETY: positions are all bits but two of the state, which claims advance.
unsafe impl PositionCounter for UnboundedFlow {
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
        self.state.fetch_add(0, AcqRel) / ONE
    }
}

// SAFETY: `WAITING` is set, read and cleared as the methods say.
unsafe impl FlowControl for UnboundedFlow {
    #[inline(always)]
    fn rx_waker(&self) -> &WakerCell {
        &self.rx_waker
    }

    fn set_waiting(&self) -> usize {
        // AcqRel: Release, met by the Acquire in `claim`: it sees the waker.
        self.end_of(self.state.fetch_or(WAITING, AcqRel))
    }

    fn waiting_tail(&self) -> Option<usize> {
        // Relaxed: if it is stale, a claim has cleared the bit and wakes the receiver.
        let state = self.state.load(Relaxed);
        (state & WAITING != 0).then(|| self.end_of(state))
    }

    fn clear_waiting(&self) -> bool {
        // AcqRel: Acquire, met by the Release in `set_waiting`: the waker is seen.
        // Release, met by the Acquire in `is_idle`: the receiver that waits again sees what it missed.
        self.state.fetch_and(!WAITING, AcqRel) & WAITING != 0
    }

    #[inline(always)]
    fn is_closed(&self) -> bool {
        // Acquire, met by the Release in `close`.
        self.state.load(Acquire) & CLOSED != 0
    }

    fn is_idle(&self, head: usize) -> bool {
        self.is_closed() && self.len(head) == 0
    }

    fn len(&self, head: usize) -> usize {
        // Relaxed: what was received has its claim in the state.
        Self::distance(self.end_of(self.state.load(Relaxed)), head)
    }

    #[inline(always)]
    fn release_received(&self, _count: usize, _expects_queued: bool) -> bool {
        false
    }

    fn close_round(&self, _batch: &mut WakeBatch) -> bool {
        if self.is_closed() {
            return false;
        }
        // Release, met by the Acquire in `is_closed`. Only the receiver
        // closes, so `closed_at` is stored once.
        let state = self.state.fetch_or(CLOSED, Release);
        self.closed_at.store(state / ONE, Relaxed);
        false
    }
}
