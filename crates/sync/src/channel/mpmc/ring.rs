//! A bounded queue for many on both ends: a ring of slots, each with a sequence
//! number that says whose turn it is there.
//!
//! ```text
//!   slot      [ 8 ][ 9 ][ 3 ][ 4 ]      sequence numbers, capacity 4, lap 8
//!               ▲         ▲
//!             tail      head
//! ```
//!
//! A position is a lap and an index. At position `p` of lap `l`,
//!
//! S1. sequence `p` means free: whoever moves `tail` on from `p` fills the slot
//!     and stores `p + 1`;
//! S2. sequence `p + 1` means full: whoever moves `head` on from `p` empties it
//!     and stores `p` of the next lap.
//! S3. A lap counts more than there are slots, so that no two of these are equal.
//! S4. The lowest bit of `tail` says closed. It is set once, and `tail` does not
//!     move after it.

use std::mem::MaybeUninit;

use blitzen_util::pad::Padded;
use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use blitzen_util::shim::cell::UnsafeCell;

use super::{Pop, Push};

const CLOSED: usize = 1;
const SHIFT: u32 = 1;

pub(super) struct Ring<T> {
    tail: Padded<AtomicUsize>,
    head: Padded<AtomicUsize>,
    slots: Box<[Slot<T>]>,
    /// What a lap counts: a power of two.
    lap: usize,
}

struct Slot<T> {
    sequence: AtomicUsize,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the ring hands a `T` from one thread to another and never lends it;
// S1 and S2 give a slot to one thread at a time.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    /// # Panics
    /// If `capacity` is zero or so large that positions have no bits left.
    #[track_caller]
    pub(super) fn new(capacity: usize) -> Self {
        assert!(
            capacity > 0,
            "a bounded channel needs room for one at least"
        );
        assert!(
            capacity <= usize::MAX >> 4,
            "a channel of {capacity} fits no memory"
        );
        let slot = |index| Slot {
            sequence: AtomicUsize::new(index),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        };
        Self {
            tail: Padded(AtomicUsize::new(0)),
            head: Padded(AtomicUsize::new(0)),
            slots: (0..capacity).map(slot).collect(),
            lap: (capacity + 1).next_power_of_two(), // S3
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.slots.len()
    }

    #[inline(always)]
    fn slot(&self, position: usize) -> &Slot<T> {
        &self.slots[position & (self.lap - 1)]
    }

    #[inline(always)]
    fn after(&self, position: usize) -> usize {
        let index = position & (self.lap - 1);
        match index + 1 < self.slots.len() {
            true => position + 1,
            false => (position - index).wrapping_add(self.lap),
        }
    }

    /// Adds a value. Ends with a read-modify-write if it has.
    #[inline(always)]
    pub(super) fn push(&self, value: T) -> Result<(), (Push, T)> {
        let mut tail = self.tail.load(Relaxed);
        loop {
            if tail & CLOSED != 0 {
                return Err((Push::Closed, value));
            }
            let position = tail >> SHIFT;
            let slot = self.slot(position);
            // Acquire, met by the Release in `pop`: the slot has been emptied.
            let sequence = slot.sequence.load(Acquire);
            if sequence == position {
                let next = self.after(position) << SHIFT;
                // Relaxed: the sequence orders what is in the slot.
                match (self.tail).compare_exchange_weak(tail, next, Relaxed, Relaxed) {
                    Ok(_) => {
                        // SAFETY: S1.
                        slot.value.with_mut(|slot| unsafe { (*slot).write(value) });
                        // AcqRel: Release, met by the Acquire in `pop`.
                        slot.sequence.swap(position.wrapping_add(1), AcqRel);
                        return Ok(());
                    }
                    Err(changed) => tail = changed,
                }
                continue;
            }
            // If nobody has moved on, what was put there a lap ago still is.
            match self.tail.load(Relaxed) {
                same if same == tail => return Err((Push::Full, value)),
                changed => tail = changed,
            }
        }
    }

    /// Takes a value. Ends with a read-modify-write if it has.
    #[inline(always)]
    pub(super) fn pop(&self) -> Result<T, Pop> {
        let mut head = self.head.load(Relaxed);
        loop {
            let slot = self.slot(head);
            // Acquire, met by the Release in `push`: the value is seen.
            let sequence = slot.sequence.load(Acquire);
            if sequence == head.wrapping_add(1) {
                // Relaxed: the sequence orders what is in the slot.
                match (self.head).compare_exchange_weak(head, self.after(head), Relaxed, Relaxed) {
                    Ok(_) => {
                        // SAFETY: S2, and it is read once.
                        let value = slot
                            .value
                            .with(|slot| unsafe { (*slot).assume_init_read() });
                        // AcqRel: Release, met by the Acquire in `push`.
                        slot.sequence.swap(head.wrapping_add(self.lap), AcqRel);
                        return Ok(value);
                    }
                    Err(changed) => head = changed,
                }
                continue;
            }
            match self.head.load(Relaxed) {
                same if same == head => return Err(self.why_empty(head)),
                changed => head = changed,
            }
        }
    }

    #[inline(never)]
    fn why_empty(&self, head: usize) -> Pop {
        // Acquire, met by the Release in `close`.
        let tail = self.tail.load(Acquire);
        match (tail >> SHIFT == head, tail & CLOSED != 0) {
            (true, true) => Pop::End, // S4
            (true, false) => Pop::Empty,
            (false, _) => Pop::OnItsWay,
        }
    }

    /// Refuses values from now on; true if it did not before.
    pub(super) fn close(&self) -> bool {
        // AcqRel: Release, met by the Acquire in `is_closed` and `why_empty`.
        self.tail.fetch_or(CLOSED, AcqRel) & CLOSED == 0
    }

    pub(super) fn is_closed(&self) -> bool {
        // Acquire, met by the Release in `close`.
        self.tail.load(Acquire) & CLOSED != 0
    }

    pub(super) fn len(&self) -> usize {
        loop {
            let tail = self.tail.load(Acquire) >> SHIFT;
            let head = self.head.load(Acquire);
            if self.tail.load(Acquire) >> SHIFT != tail {
                continue; // they must belong together
            }
            let index = |position: usize| position & (self.lap - 1);
            let laps_apart = (tail - index(tail)) != (head - index(head));
            let head_index = index(head);
            return match laps_apart {
                true => self.capacity() - head_index + index(tail),
                false => index(tail) - head_index,
            };
        }
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        struct Rest<'a, T>(&'a Ring<T>);

        impl<T> Drop for Rest<'_, T> {
            fn drop(&mut self) {
                while self.0.pop().is_ok() {}
            }
        }

        let rest = Rest(self);
        while rest.0.pop().is_ok() {}
    }
}
