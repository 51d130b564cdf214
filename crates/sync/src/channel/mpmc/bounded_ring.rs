//! A bounded queue for many producers and many consumers: a ring of slots, each with
//! a sequence number that says which side may use it next.
//!
//! ```text
//!   slot      [ 8 ][ 9 ][ 3 ][ 4 ]      sequence numbers, capacity 4, lap 8
//!               ▲         ▲
//!             tail      head
//! ```
//!
//! A position is a lap and an index. At position `p` of lap `l`,
//!
//! S1. sequence `p` means free: the sender that advances `tail` from `p` fills the
//!     slot and stores `p + 1`;
//! S2. sequence `p + 1` means full: the receiver that advances `head` from `p`
//!     empties it and stores `p` of the next lap.
//! S3. A lap has more positions than there are slots, so no two of these are equal.
//! S4. The lowest bit of `tail` says closed. It is set once, and the position in
//!     `tail` does not change after it.
//! S5. Another bit of `tail` says that receivers wait, and the lowest one of `head`
//!     that senders do. The thread that advances the word keeps the bit, and sees
//!     whether it has to wake a waiter.

use std::mem::MaybeUninit;

use blitzen_util::pad::Padded;
use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use blitzen_util::shim::cell::UnsafeCell;

use super::{PopError, PushError, WaitSide};

/// Bits of `tail`.
const CLOSED: usize = 1;
const RECEIVERS_WAIT: usize = 2;
const TAIL_SHIFT: u32 = 2;

/// Bits of `head`.
const SENDERS_WAIT: usize = 1;
const HEAD_SHIFT: u32 = 1;

pub(super) struct BoundedRing<T> {
    tail: Padded<AtomicUsize>,
    head: Padded<AtomicUsize>,
    slots: Box<[RingSlot<T>]>,
    /// What a lap counts: a power of two.
    lap: usize,
}

struct RingSlot<T> {
    sequence: AtomicUsize,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the ring hands a `T` from one thread to another and never lends it;
// S1 and S2 give a slot to one thread at a time.
unsafe impl<T: Send> Send for BoundedRing<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for BoundedRing<T> {}

impl<T> BoundedRing<T> {
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
        let slot = |index| RingSlot {
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
    fn slot(&self, position: usize) -> &RingSlot<T> {
        &self.slots[position & (self.lap - 1)]
    }

    #[inline(always)]
    fn after(&self, position: usize) -> usize {
        let index = position & (self.lap - 1);
        match index + 1 < self.slots.len() {
            true => position + 1,
            false => self.next_lap(position - index),
        }
    }

    /// The same index a lap later, in the bits that `tail` has for it.
    #[inline(always)]
    fn next_lap(&self, position: usize) -> usize {
        position.wrapping_add(self.lap) & (usize::MAX >> TAIL_SHIFT)
    }

    /// Adds a value; true if receivers wait for it.
    #[inline(always)]
    pub(super) fn push(&self, value: T) -> Result<bool, (PushError, T)> {
        let mut tail = self.tail.load(Relaxed);
        loop {
            if tail & CLOSED != 0 {
                return Err((PushError::Closed, value));
            }
            let position = tail >> TAIL_SHIFT;
            let slot = self.slot(position);
            // Acquire, met by the Release in `pop`: the slot has been emptied.
            let sequence = slot.sequence.load(Acquire);
            if sequence == position {
                let waits = tail & RECEIVERS_WAIT;
                let next = self.after(position) << TAIL_SHIFT | waits;
                // Release, met by the Acquire in `len`: a thread that sees this tail
                // sees the head that has freed the slot. The sequence orders what is
                // in the slot, and the lock of the wait queue what concerns waiters.
                match (self.tail).compare_exchange_weak(tail, next, Release, Relaxed) {
                    Ok(_) => {
                        // SAFETY: S1.
                        slot.value.with_mut(|slot| unsafe { (*slot).write(value) });
                        // Release, met by the Acquire in `pop`.
                        slot.sequence.store(position.wrapping_add(1), Release);
                        return Ok(waits != 0);
                    }
                    Err(changed) => tail = changed,
                }
                continue;
            }
            // If no thread has advanced the tail, the value of the last lap is still
            // there.
            match self.tail.load(Relaxed) {
                same if same == tail => return Err((self.full_or_emptying(position), value)),
                changed => tail = changed,
            }
        }
    }

    #[cold]
    fn full_or_emptying(&self, tail: usize) -> PushError {
        // Relaxed: a sender that waits has changed the word before its last attempt (M1), and
        // sees that the receivers have moved on.
        let head = self.head.load(Relaxed) >> HEAD_SHIFT;
        match head == tail.wrapping_sub(self.lap) & (usize::MAX >> TAIL_SHIFT) {
            true => PushError::Full,
            false => PushError::Emptying,
        }
    }

    /// Takes a value, and returns whether senders wait for its slot.
    #[inline(always)]
    pub(super) fn pop(&self) -> Result<(T, bool), PopError> {
        let mut head = self.head.load(Relaxed);
        loop {
            let position = head >> HEAD_SHIFT;
            let slot = self.slot(position);
            // Acquire, met by the Release in `push`: the value is seen.
            let sequence = slot.sequence.load(Acquire);
            if sequence == position.wrapping_add(1) {
                let waits = head & SENDERS_WAIT;
                let next = self.after(position) << HEAD_SHIFT | waits;
                // Release, met by the Acquire in `len`: a thread that sees this head
                // sees the tail that has filled the slot.
                match (self.head).compare_exchange_weak(head, next, Release, Relaxed) {
                    Ok(_) => {
                        // SAFETY: S2, and it is read once.
                        let value = slot
                            .value
                            .with(|slot| unsafe { (*slot).assume_init_read() });
                        // Release, met by the Acquire in `push`.
                        (slot.sequence).store(self.next_lap(position), Release);
                        return Ok((value, waits != 0));
                    }
                    Err(changed) => head = changed,
                }
                continue;
            }
            match self.head.load(Relaxed) {
                same if same == head => return Err(self.empty_or_filling(position)),
                changed => head = changed,
            }
        }
    }

    #[cold]
    fn empty_or_filling(&self, head: usize) -> PopError {
        // Acquire, met by the Release in `close`.
        let tail = self.tail.load(Acquire);
        match (tail >> TAIL_SHIFT == head, tail & CLOSED != 0) {
            (true, true) => PopError::Closed, // S4
            (true, false) => PopError::Empty,
            (false, _) => PopError::Filling,
        }
    }

    /// Sets or clears the bit that says that tasks wait on `side`.
    pub(super) fn set_waiting(&self, side: WaitSide, waits: bool) {
        let (word, bit) = match side {
            WaitSide::Receivers => (&self.tail, RECEIVERS_WAIT),
            WaitSide::Senders => (&self.head, SENDERS_WAIT),
        };
        // Relaxed: a thread that advances the word is ordered with this by the word itself. The
        // attempt that follows (M1) loads the word again, and finds it as it is here or newer.
        match waits {
            true => word.fetch_or(bit, Relaxed),
            false => word.fetch_and(!bit, Relaxed),
        };
    }

    /// Refuses values from now on; true if it did not before.
    pub(super) fn close(&self) -> bool {
        // Release, met by the Acquire in `is_closed` and `empty_or_filling`.
        self.tail.fetch_or(CLOSED, Release) & CLOSED == 0
    }

    pub(super) fn is_closed(&self) -> bool {
        // Acquire, met by the Release in `close`.
        self.tail.load(Acquire) & CLOSED != 0
    }

    /// The number of values: at most [`capacity`](Self::capacity), however many
    /// threads push and pop meanwhile.
    pub(super) fn len(&self) -> usize {
        loop {
            // Acquire, met by the Release in `push`: the head loaded next is at most
            // `capacity` behind this tail.
            let tail = self.tail.load(Acquire) >> TAIL_SHIFT;
            // Acquire, met by the Release in `pop`: the tail loaded next is not
            // behind this head.
            let head = self.head.load(Acquire) >> HEAD_SHIFT;
            if self.tail.load(Relaxed) >> TAIL_SHIFT == tail {
                return self.distance(head, tail);
            }
        }
    }

    /// How many positions lie between `head` and `tail`.
    fn distance(&self, head: usize, tail: usize) -> usize {
        let index = |position: usize| position & (self.lap - 1);
        match tail - index(tail) == head - index(head) {
            true => index(tail) - index(head),
            false => self.capacity() - index(head) + index(tail), // one lap ahead
        }
    }
}

impl<T> Drop for BoundedRing<T> {
    fn drop(&mut self) {
        struct DrainOnDrop<'a, T>(&'a BoundedRing<T>);

        impl<T> Drop for DrainOnDrop<'_, T> {
            fn drop(&mut self) {
                while self.0.pop().is_ok() {}
            }
        }

        let drain = DrainOnDrop(self);
        while drain.0.pop().is_ok() {}
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::shim::{Arc, thread};

    /// The observer is the spawned thread, so that loom tries all that it may see of
    /// what the other has done.
    #[test]
    fn the_length_never_exceeds_the_capacity() {
        const CAPACITY: usize = 2;
        loom::model(|| {
            let ring = Arc::new(BoundedRing::new(CAPACITY));
            let observer = thread::spawn({
                let ring = ring.clone();
                move || ring.len()
            });
            for value in 0..CAPACITY {
                assert!(ring.push(value).is_ok() && ring.pop().is_ok());
            }
            (0..CAPACITY).for_each(|value| assert!(ring.push(value).is_ok()));
            let len = observer.join().unwrap();
            assert!(len <= CAPACITY, "{len} values in {CAPACITY} slots");
            assert_eq!(ring.len(), CAPACITY);
        });
    }
}
