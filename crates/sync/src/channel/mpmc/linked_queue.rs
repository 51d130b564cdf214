//! An unbounded queue for many on both ends: the blocks of
//! [`mpsc`](crate::channel::mpsc), and a lock for the receivers.
//!
//! ```text
//!   tail:  │ position: all other bits │ WAITING │ CLOSED │
//! ```
//!
//! K1. `CLOSED` is set once, and the position does not change after it.
//! K2. `WAITING` says that receivers wait: a sender that claims a position sees it,
//!     and wakes one.

use blitzen_util::lock::AsymmetricLock;
use blitzen_util::pad::Padded;
use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::{PopError, PushError};
use crate::channel::block_list::{BlockHead, BlockList, PositionCounter};

const CLOSED: usize = 1;
const WAITING: usize = 2;
const ONE: usize = 4;

/// The bits of a position.
const MASK: usize = usize::MAX / ONE;

pub(super) struct LinkedQueue<T> {
    tail: TailCounter,
    blocks: BlockList<T>,
    /// Padded: receivers write it with every value that they take, and senders what is beside it.
    head: Padded<AsymmetricLock<BlockHead<T>>>,
}

struct TailCounter(AtomicUsize);

// SAFETY: positions are all bits but two of the word, which claims advance.
unsafe impl PositionCounter for TailCounter {
    #[inline(always)]
    fn distance(position: usize, start: usize) -> usize {
        position.wrapping_sub(start) & MASK
    }

    #[inline(always)]
    fn has_passed(head: usize, position: usize) -> bool {
        Self::distance(head, position) <= MASK / 2
    }

    fn claimed(&self) -> usize {
        // AcqRel: Release, met by the Acquire in `LinkedQueue::push`.
        self.0.fetch_add(0, AcqRel) / ONE
    }
}

impl<T> LinkedQueue<T> {
    pub(super) fn new() -> Self {
        let (blocks, head) = BlockList::new();
        Self {
            tail: TailCounter(AtomicUsize::new(0)),
            blocks,
            head: Padded(AsymmetricLock::new(head)),
        }
    }

    /// Adds a value; true if receivers wait for it.
    #[inline(always)]
    pub(super) fn push(&self, value: T) -> Result<bool, (PushError, T)> {
        let mut tail = self.tail.0.load(Relaxed);
        loop {
            if tail & CLOSED != 0 {
                return Err((PushError::Closed, value));
            }
            let next = tail.wrapping_add(ONE);
            // Acquire, met by the Release in `claimed`.
            match (self.tail.0).compare_exchange_weak(tail, next, Acquire, Relaxed) {
                Ok(_) => break,
                Err(changed) => tail = changed,
            }
        }
        // SAFETY: just claimed.
        unsafe { self.blocks.push(&self.tail, tail / ONE, value) };
        Ok(tail & WAITING != 0)
    }

    /// Takes a value.
    #[inline(always)]
    pub(super) fn pop(&self) -> Result<T, PopError> {
        let mut head = self.head.lock();
        // SAFETY: they came together, and the lock makes us the only one.
        match unsafe { self.blocks.pop::<TailCounter>(&mut head) } {
            Some(value) => Ok(value),
            None => {
                let position = head.position() & MASK;
                drop(head);
                Err(self.empty_or_filling(position))
            }
        }
    }

    fn empty_or_filling(&self, head: usize) -> PopError {
        // Acquire, met by the Release in `close`.
        let tail = self.tail.0.load(Acquire);
        match (tail / ONE == head, tail & CLOSED != 0) {
            (true, true) => PopError::Closed, // K1
            (true, false) => PopError::Empty,
            (false, _) => PopError::Filling,
        }
    }

    /// Says that receivers wait, or that none does.
    pub(super) fn set_waiting(&self, waits: bool) {
        // Relaxed, as for the ring.
        match waits {
            true => self.tail.0.fetch_or(WAITING, Relaxed),
            false => self.tail.0.fetch_and(!WAITING, Relaxed),
        };
    }

    /// Refuses values from now on; true if it did not before.
    pub(super) fn close(&self) -> bool {
        // Release, met by the Acquire in `is_closed` and `empty_or_filling`.
        self.tail.0.fetch_or(CLOSED, Release) & CLOSED == 0
    }

    pub(super) fn is_closed(&self) -> bool {
        // Acquire, met by the Release in `close`.
        self.tail.0.load(Acquire) & CLOSED != 0
    }

    pub(super) fn len(&self) -> usize {
        let head = self.head.lock().position();
        // Relaxed: what was received has its claim in the tail.
        TailCounter::distance(self.tail.0.load(Relaxed) / ONE, head)
    }
}

impl<T> Drop for LinkedQueue<T> {
    fn drop(&mut self) {
        struct DrainOnDrop<'a, T>(&'a mut LinkedQueue<T>);

        impl<T> Drop for DrainOnDrop<'_, T> {
            fn drop(&mut self) {
                while self.0.pop().is_ok() {}
                // SAFETY: they came together, and nobody else is left.
                unsafe { self.0.blocks.free(self.0.head.get_mut()) };
            }
        }

        let drain = DrainOnDrop(self);
        while drain.0.pop().is_ok() {}
    }
}
