//! An unbounded queue in linked blocks, for many producers and one consumer.
//!
//! ```text
//!   oldest ──► block ──► block ──► block ──► null
//!                ▲                   ▲
//!             receiver           tail_block
//! ```
//!
//! Before it pushes, a sender claims a position by a read-modify-write of a word
//! that its channel keeps ([`PositionCounter`]); positions are claimed in order.
//!
//! B1. Between its claim and the store of its slot's mark, a sender may access
//!     every block from the one it found in `tail_block` up to the one of its
//!     position; before and after, none.
//! B2. `tail_block` moves forward only, and leaves a block only when all of its
//!     slots are marked. So it is never beyond a position not yet published.
//! B3. The sender that moves `tail_block` away from a block then reads the number
//!     of claims by a read-modify-write of the same word, and stores it in the
//!     block as `retired_at`. A later claim sees the new `tail_block`, so every
//!     sender that may access the block has a position below `retired_at`.
//! B4. The receiver recycles a block once it has passed `retired_at`: by B1 and B3
//!     no sender can access it any more.
//! B5. A slot belongs to the sender that claimed it until it has the mark of its
//!     position, and to the receiver then. A block that is used again keeps its old
//!     marks, as those of its new positions differ; where positions are so far apart
//!     that marks repeat, the old ones are cleared first.

use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use blitzen_util::shim::MODEL;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use blitzen_util::shim::atomic::{AtomicPtr, AtomicU32, AtomicUsize};
use blitzen_util::shim::cell::UnsafeCell;

/// Slots in a block; in a model so few that blocks are linked and recycled soon.
const BLOCK_LEN: usize = if MODEL { 2 } else { 32 };

/// The bits of a position that a mark holds: no more than positions have, which are
/// 30 in the unbounded channels of a 32-bit system. Few in tests, so that marks
/// repeat.
const MARK_BITS: u32 = if cfg!(test) { 7 } else { 30 };

/// Positions this far apart have the same mark.
const MARK_PERIOD: usize = 1 << MARK_BITS;

/// `retired_at` of a block that `tail_block` has not left.
const NOT_RETIRED: usize = usize::MAX;

const _: () = assert!(BLOCK_LEN.is_power_of_two());

/// The mark of a slot that holds the value of `position`. Never zero, the initial
/// mark.
#[inline(always)]
fn mark(position: usize) -> u32 {
    (position as u32) << (u32::BITS - MARK_BITS) | 1
}

/// The word in which senders claim positions.
///
/// # Safety
/// Positions are handed out once each and in order, modulo the number of positions
/// there are; the three methods agree on that number.
pub(super) unsafe trait PositionCounter {
    /// The distance from `start` to `position`, which is not before it.
    fn distance(position: usize, start: usize) -> usize;

    /// Whether `head` has reached `position`.
    fn has_passed(head: usize, position: usize) -> bool;

    /// Reads the next position to be claimed, by a read-modify-write that
    /// releases; every claim acquires.
    fn claimed(&self) -> usize;
}

/// The senders' end of the queue.
pub(super) struct BlockList<T> {
    tail_block: AtomicPtr<Block<T>>,
    /// A block taken back and not used again yet.
    spare: AtomicPtr<Block<T>>,
}

/// The receiver's end of the queue.
pub(super) struct BlockHead<T> {
    /// How many values have been taken.
    position: usize,
    /// The slot of `block` to look at next; `BLOCK_LEN` if that is in another block.
    index: usize,
    block: NonNull<Block<T>>,
    /// The first block that has not been taken back.
    oldest: NonNull<Block<T>>,
}

struct Block<T> {
    /// The position of the first slot.
    start: UnsafeCell<usize>,
    retired_at: AtomicUsize,
    next: AtomicPtr<Block<T>>,
    slots: [BlockSlot<T>; BLOCK_LEN],
}

struct BlockSlot<T> {
    mark: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the queue hands a `T` from one thread to another and never lends it.
unsafe impl<T: Send> Send for BlockHead<T> {}
// SAFETY: as above, and B1 to B5 keep two threads from one block or slot.
unsafe impl<T: Send> Sync for BlockList<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for BlockList<T> {}

impl<T> Block<T> {
    fn new() -> NonNull<Self> {
        NonNull::from(Box::leak(Box::new(Self {
            start: UnsafeCell::new(0),
            retired_at: AtomicUsize::new(NOT_RETIRED),
            next: AtomicPtr::new(ptr::null_mut()),
            slots: std::array::from_fn(|_| BlockSlot {
                mark: AtomicU32::new(0),
                value: UnsafeCell::new(MaybeUninit::uninit()),
            }),
        })))
    }

    #[inline(always)]
    fn start(&self) -> usize {
        // SAFETY: written before the block was linked, and by B4 not again
        // while anybody can reach it.
        self.start.with(|start| unsafe { *start })
    }

    /// Whether all slots have been published (B2).
    fn is_full(&self) -> bool {
        let marked = |(index, slot): (usize, &BlockSlot<T>)| {
            // Acquire, met by the Release in `push`: a thread that learns
            // later that the tail has left sees that the slots were published.
            slot.mark.load(Acquire) == mark(self.start().wrapping_add(index))
        };
        // From the end: what is missing is most likely there.
        self.slots.iter().enumerate().rev().all(marked)
    }

    #[cold]
    fn clear_marks(&self) {
        // Relaxed: linking the block publishes them.
        (self.slots.iter()).for_each(|slot| slot.mark.store(0, Relaxed));
    }

    fn next(&self) -> Option<NonNull<Self>> {
        // Acquire, met by the Release in `next_or_link`: its start is seen.
        NonNull::new(self.next.load(Acquire))
    }
}

impl<T> BlockList<T> {
    pub(super) fn new() -> (Self, BlockHead<T>) {
        let block = Block::new();
        let blocks = Self {
            tail_block: AtomicPtr::new(block.as_ptr()),
            spare: AtomicPtr::new(ptr::null_mut()),
        };
        let head = BlockHead {
            position: 0,
            index: 0,
            block,
            oldest: block,
        };
        (blocks, head)
    }

    /// Stores a value where the receiver finds it.
    ///
    /// # Safety
    /// The caller has just claimed `position` from `positions`, and pushes there
    /// once.
    #[inline(always)]
    pub(super) unsafe fn push<P: PositionCounter>(&self, positions: &P, position: usize, value: T) {
        // Acquire, met by the Release in `advance`: the block's start is seen.
        let tail = self.tail_block.load(Acquire);
        // SAFETY: B1 and B4, it is there until we have published.
        let mut block = unsafe { &*tail };
        let mut index = P::distance(position, block.start()); // B2
        if index >= BLOCK_LEN {
            // SAFETY: the claim is the caller's, and not yet published.
            block = unsafe { self.advance(positions, block, index / BLOCK_LEN) };
            index %= BLOCK_LEN;
        }
        let slot = &block.slots[index];
        // SAFETY: B5, the slot is ours.
        slot.value.with_mut(|slot| unsafe { (*slot).write(value) });
        // Release, met by the Acquire in `pop` and `is_full`. The last touch: B1.
        slot.mark.store(mark(position), Release);
    }

    /// Goes on by `steps` blocks, taking the tail along where B2 allows it.
    ///
    /// # Safety
    /// The caller has a claim that it has not published, and found `block` in
    /// `tail_block` after it (B1).
    #[cold]
    #[inline(never)]
    unsafe fn advance<'a, P: PositionCounter>(
        &'a self,
        positions: &P,
        mut block: &'a Block<T>,
        steps: usize,
    ) -> &'a Block<T> {
        let mut all_full = true;
        for _ in 0..steps {
            // SAFETY: B1, both are in reach of an unpublished claim.
            let next = unsafe { self.next_or_link(block) };
            all_full = all_full && block.is_full();
            if all_full {
                let from = ptr::from_ref(block).cast_mut();
                // AcqRel: Release, met by the Acquire in `push`.
                let moved = (self.tail_block)
                    .compare_exchange(from, next.as_ptr(), AcqRel, Relaxed)
                    .is_ok();
                if moved {
                    let retired_at = match positions.claimed() {
                        NOT_RETIRED => NOT_RETIRED.wrapping_add(1), // one later will do
                        position => position,
                    };
                    // B3. Relaxed: our own claim is below it and not yet published. A
                    // receiver that has passed it has acquired our mark.
                    block.retired_at.store(retired_at, Relaxed);
                }
            }
            // SAFETY: as above.
            block = unsafe { next.as_ref() };
        }
        block
    }

    /// The block after `block`, which is made if there is none.
    ///
    /// # Safety
    /// `block` is in reach: B1.
    unsafe fn next_or_link(&self, block: &Block<T>) -> NonNull<Block<T>> {
        if let Some(next) = block.next() {
            return next;
        }
        // Acquire, met by the Release in `recycle`: the block has been cleared.
        let spare = self.spare.swap(ptr::null_mut(), Acquire);
        let fresh = NonNull::new(spare).unwrap_or_else(Block::new);
        // SAFETY: swapped out or just made, so ours alone.
        let old_start = unsafe { fresh.as_ref() }.start();
        let start = block.start().wrapping_add(BLOCK_LEN);
        if start.wrapping_sub(old_start) >= MARK_PERIOD {
            // SAFETY: as above.
            unsafe { fresh.as_ref() }.clear_marks(); // B5
        }
        // SAFETY: as above.
        unsafe { fresh.as_ref().start.with_mut(|slot| *slot = start) };
        // AcqRel: Release, met by the Acquire in `next`; Acquire for the other.
        let linked =
            (block.next).compare_exchange(ptr::null_mut(), fresh.as_ptr(), AcqRel, Acquire);
        match linked {
            Ok(_) => fresh,
            Err(other) => {
                // SAFETY: not linked, so still ours alone. Its marks belong to the
                // old start.
                unsafe {
                    fresh.as_ref().start.with_mut(|slot| *slot = old_start);
                    self.recycle(fresh);
                }
                // SAFETY: the exchange failed because it was not null.
                unsafe { NonNull::new_unchecked(other) }
            }
        }
    }

    /// Keeps a cleared block for later, or frees it if there is one already.
    ///
    /// # Safety
    /// The block is the caller's alone.
    unsafe fn recycle(&self, block: NonNull<Block<T>>) {
        // Never under a sanitizer, which could not see that a block in use is freed.
        let is_kept = cfg!(not(blitzen_no_recycle))
            // Release, met by the Acquire in `next_or_link`.
            && (self.spare)
                .compare_exchange(ptr::null_mut(), block.as_ptr(), Release, Relaxed)
                .is_ok();
        if !is_kept {
            // SAFETY: made by `Block::new`, and nobody else has it.
            drop(unsafe { Box::from_raw(block.as_ptr()) });
        }
    }

    /// Takes the next value, if it has been published.
    ///
    /// # Safety
    /// `head` came with these blocks, and so did `P`.
    #[inline(always)]
    pub(super) unsafe fn pop<P: PositionCounter>(&self, head: &mut BlockHead<T>) -> Option<T> {
        if head.index == BLOCK_LEN {
            // SAFETY: the caller upholds the same contract.
            unsafe { self.enter_next::<P>(head)? };
        }
        // SAFETY: taken back by nobody but us.
        let slot = unsafe { &head.block.as_ref().slots[head.index] };
        // Acquire, met by the Release in `push`: the value is seen.
        if slot.mark.load(Acquire) != mark(head.position) {
            return None;
        }
        // SAFETY: B5, and it is read once: the index moves on.
        let value = slot
            .value
            .with(|slot| unsafe { (*slot).assume_init_read() });
        head.index += 1;
        head.position = head.position.wrapping_add(1);
        Some(value)
    }

    /// # Safety
    /// As for [`pop`](Self::pop).
    #[cold]
    #[inline(never)]
    unsafe fn enter_next<P: PositionCounter>(&self, head: &mut BlockHead<T>) -> Option<()> {
        // SAFETY: taken back by nobody but us.
        head.block = unsafe { head.block.as_ref() }.next()?;
        head.index = 0;
        while head.oldest != head.block {
            // SAFETY: as above.
            let block = unsafe { head.oldest.as_ref() };
            // Relaxed: see `advance`.
            let retired_at = block.retired_at.load(Relaxed);
            if retired_at == NOT_RETIRED || !P::has_passed(head.position, retired_at) {
                break;
            }
            let Some(next) = block.next() else {
                unreachable!("the head is beyond this block")
            };
            // B4. Relaxed: `recycle` releases them.
            block.retired_at.store(NOT_RETIRED, Relaxed);
            block.next.store(ptr::null_mut(), Relaxed);
            // SAFETY: B4.
            unsafe { self.recycle(head.oldest) };
            head.oldest = next;
        }
        Some(())
    }

    /// Frees every block; values still in them are not dropped.
    ///
    /// # Safety
    /// `head` came with these blocks, and nobody uses either again.
    pub(super) unsafe fn free(&mut self, head: &mut BlockHead<T>) {
        let spare = NonNull::new(self.spare.load(Relaxed));
        let mut next = Some(head.oldest);
        while let Some(block) = next {
            // SAFETY: each is made by `Block::new`, linked once, and ours now.
            let block = unsafe { Box::from_raw(block.as_ptr()) };
            next = block.next();
        }
        // SAFETY: as above, and it is not linked.
        drop(spare.map(|block| unsafe { Box::from_raw(block.as_ptr()) }));
    }
}

impl<T> BlockHead<T> {
    /// How many values have been taken.
    #[inline(always)]
    pub(super) fn position(&self) -> usize {
        self.position
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::shim::{Arc, thread};

    struct Counter(AtomicUsize);

    // SAFETY: a plain counter, which does not wrap in a model.
    unsafe impl PositionCounter for Counter {
        fn distance(position: usize, start: usize) -> usize {
            position - start
        }

        fn has_passed(head: usize, position: usize) -> bool {
            head >= position
        }

        fn claimed(&self) -> usize {
            self.0.fetch_add(0, AcqRel)
        }
    }

    struct Shared {
        positions: Counter,
        blocks: BlockList<usize>,
    }

    impl Shared {
        fn new() -> (Arc<Self>, BlockHead<usize>) {
            let (blocks, head) = BlockList::new();
            let positions = Counter(AtomicUsize::new(0));
            (Arc::new(Self { positions, blocks }), head)
        }

        fn push(&self, value: usize) {
            let position = self.positions.0.fetch_add(1, Acquire);
            // SAFETY: just claimed.
            unsafe { self.blocks.push(&self.positions, position, value) };
        }

        fn pop(&self, head: &mut BlockHead<usize>) -> Option<usize> {
            // SAFETY: they belong together.
            unsafe { self.blocks.pop::<Counter>(head) }
        }

        fn free(shared: Arc<Self>, mut head: BlockHead<usize>) {
            let mut shared = Arc::try_unwrap(shared).ok().expect("threads are joined");
            // SAFETY: they belong together, and nobody else is left.
            unsafe { shared.blocks.free(&mut head) };
        }
    }

    #[test]
    fn a_block_is_used_again_only_when_nobody_can_reach_it() {
        loom::model(|| {
            let (shared, mut head) = Shared::new();
            // With the first block full, the next to push moves the tail.
            for value in 0..BLOCK_LEN {
                shared.push(value);
            }
            let sender = thread::spawn({
                let shared = shared.clone();
                move || shared.push(100)
            });
            shared.push(200);
            let mut seen: Vec<_> = std::iter::from_fn(|| shared.pop(&mut head)).collect();
            // If the first block had been taken back, this would use it.
            shared.push(201);
            shared.push(202);
            seen.extend(std::iter::from_fn(|| shared.pop(&mut head)));
            sender.join().unwrap();
            seen.extend(std::iter::from_fn(|| shared.pop(&mut head)));
            seen.sort();
            let sent = (0..BLOCK_LEN).chain([100, 200, 201, 202]);
            assert!(seen.into_iter().eq(sent));
            Shared::free(shared, head);
        });
    }

    #[test]
    fn one_sender_keeps_its_order_over_block_borders() {
        loom::model(|| {
            let (shared, mut head) = Shared::new();
            let sender = thread::spawn({
                let shared = shared.clone();
                move || (0..3 * BLOCK_LEN).for_each(|value| shared.push(value))
            });
            let mut seen = Vec::new();
            while seen.len() < 3 * BLOCK_LEN {
                match shared.pop(&mut head) {
                    Some(value) => seen.push(value),
                    None => thread::yield_now(),
                }
            }
            sender.join().unwrap();
            assert!(seen.into_iter().eq(0..3 * BLOCK_LEN));
            Shared::free(shared, head);
        });
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    struct Counter(AtomicUsize);

    // SAFETY: a plain counter, which does not wrap in a test.
    unsafe impl PositionCounter for Counter {
        fn distance(position: usize, start: usize) -> usize {
            position - start
        }

        fn has_passed(head: usize, position: usize) -> bool {
            head >= position
        }

        fn claimed(&self) -> usize {
            self.0.fetch_add(0, AcqRel)
        }
    }

    #[test]
    fn a_recycled_block_does_not_show_values_of_a_mark_period_ago() {
        // As many values in the queue as there are marks: the first block is recycled
        // for positions with the marks that it already has.
        let (mut list, mut head) = BlockList::new();
        let counter = Counter(AtomicUsize::new(0));
        let push = |list: &BlockList<usize>| {
            let position = counter.0.fetch_add(1, Acquire);
            // SAFETY: just claimed.
            unsafe { list.push(&counter, position, position) };
        };
        let pop = |list: &BlockList<usize>, head: &mut BlockHead<usize>| {
            // SAFETY: they came together.
            unsafe { list.pop::<Counter>(head) }
        };
        for _ in 0..MARK_PERIOD {
            push(&list);
        }
        let mut popped: Vec<_> = (0..2 * BLOCK_LEN + 1)
            .map_while(|_| pop(&list, &mut head))
            .collect();
        push(&list);
        popped.extend(std::iter::from_fn(|| pop(&list, &mut head)));
        assert!(
            popped.into_iter().eq(0..=MARK_PERIOD),
            "each once, and no more"
        );
        // SAFETY: they came together, and are not used again.
        unsafe { list.free(&mut head) };
    }
}
