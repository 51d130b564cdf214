//! A worker's run queue: its owner pushes and pops, any thief takes half.
//!
//! ```text
//!    free │ claimed │ ready │ free
//!         ▲         ▲       ▲
//!    head.steal  head.real  tail
//! ```
//!
//! R1. Only the owner moves `tail` or fills a slot.
//! R2. Slots in `steal..real` belong to the thief that moved `real`; while
//!     there are any, no other thief claims.
//! R3. `tail - steal` never exceeds `CAPACITY`.
//! R4. A slot in `real..tail` holds a task that nobody else holds.
//!
//! Positions are counted modulo 2³² and packed into one word, so that claiming
//! and releasing are one compare-exchange each. A slot is an atomic pointer, so
//! reading one that another thread has just claimed is harmless.

use std::ptr::{NonNull, null_mut};

use blitzen_task::{Header, Runnable};
use blitzen_util::field::Field;
use blitzen_util::pad::Padded;
use blitzen_util::prefetch::prefetch;
use blitzen_util::shim::AccessCheck;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use blitzen_util::shim::atomic::{AtomicPtr, AtomicU32, AtomicU64};

/// Slots of a ring.
#[cfg(not(blitzen_loom))]
pub(crate) const CAPACITY: u32 = 256;
/// Few enough that models reach a full ring.
#[cfg(blitzen_loom)]
pub(crate) const CAPACITY: u32 = 4;

/// How many tasks a full ring overflows at once, and the most that a thief takes. Also the
/// number of free slots that a driver turn waits for: so it derives from the ring's size
/// alone, and a driver that takes in at most as many events in a turn overflows no ring.
pub(crate) const HALF: u32 = CAPACITY / 2;

/// The tasks for which a worker's ring has room when the worker turns its drivers. A
/// turn that wakes more sends the rest to the injection queue, behind everything that
/// comes later.
pub const ROOM_FOR_EVENTS: usize = HALF as usize;

const _: () = assert!(CAPACITY.is_power_of_two()); // slots are found by masking

const REAL: Field = Field::new(0, 32);
const STEAL: Field = Field::new(32, 32);

/// Both heads, unpacked.
#[derive(Clone, Copy)]
struct Heads {
    steal: u32,
    real: u32,
}

impl Heads {
    fn unpack(word: u64) -> Self {
        Self {
            steal: STEAL.get(word) as u32,
            real: REAL.get(word) as u32,
        }
    }

    fn pack(self) -> u64 {
        STEAL.set(REAL.set(0, self.real.into()), self.steal.into())
    }

    /// Whether a thief has claimed slots (R2).
    fn is_claimed(self) -> bool {
        self.steal != self.real
    }

    /// With `real` moved on by `count`, as the owner does: the steal head goes
    /// along unless a thief is at work.
    fn taken(self, count: u32) -> Self {
        let real = self.real.wrapping_add(count);
        let steal = if self.is_claimed() { self.steal } else { real };
        Self { steal, real }
    }
}

/// The queue. The methods that only the owner may call say so.
pub(crate) struct RunQueue {
    head: Padded<AtomicU64>,
    tail: Padded<AtomicU32>,
    slots: Box<[Slot]>,
}

struct Slot {
    task: AtomicPtr<Header>,
    /// By R2 and R4 it is filled after it was read, and read after it was filled.
    accesses: AccessCheck,
}

impl RunQueue {
    /// An empty ring.
    pub(crate) fn new() -> Self {
        let slots = (0..CAPACITY).map(|_| Slot {
            task: AtomicPtr::new(null_mut()),
            accesses: AccessCheck::new(),
        });
        Self {
            head: Padded(AtomicU64::new(0)),
            tail: Padded(AtomicU32::new(0)),
            slots: slots.collect(),
        }
    }

    fn slot(&self, position: u32) -> &Slot {
        &self.slots[(position & (CAPACITY - 1)) as usize]
    }

    /// Returns the task in a slot that the caller has just claimed.
    ///
    /// # Safety
    /// The caller moved a head over `position`: R4 makes the task its own.
    unsafe fn take(&self, position: u32) -> Runnable {
        let slot = self.slot(position);
        slot.accesses.read();
        // Relaxed: a thief has seen the tail beyond it, with Acquire, and the owner has
        // filled it itself (R1).
        let task = slot.task.load(Relaxed);
        // SAFETY: a ready slot was filled from `into_raw`, and is taken once.
        unsafe { Runnable::from_raw(NonNull::new_unchecked(task)) }
    }

    /// How many tasks are ready; exact for the owner, a guess for others.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        let real = Heads::unpack(self.head.load(Relaxed)).real;
        // A stale tail may lie behind `real`, and the difference wraps: count the
        // ring as empty.
        let len = self.tail.load(Relaxed).wrapping_sub(real);
        if len > CAPACITY { 0 } else { len }
    }

    /// Whether no task is ready; exact for the owner, a guess for others.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many tasks fit. Owner only.
    pub(crate) fn room(&self) -> u32 {
        // Acquire, met by the Release in `steal_into`, as in `push`.
        let heads = Heads::unpack(self.head.load(Acquire));
        CAPACITY - self.tail.load(Relaxed).wrapping_sub(heads.steal)
    }

    /// Adds a task. When the ring is full, it and the older half go to
    /// `overflow`, or, with a thief at work, the task alone. Owner only.
    #[inline]
    pub(crate) fn push(&self, task: Runnable, overflow: impl FnOnce(Overflow)) {
        // Acquire, met by the Release in `steal_into`: a slot that a thief has
        // released is read no more.
        let heads = Heads::unpack(self.head.load(Acquire));
        let tail = self.tail.load(Relaxed); // R1
        if tail.wrapping_sub(heads.steal) < CAPACITY {
            self.fill(tail, task);
            // Release, met by the Acquire in `steal_into`: a thief that sees
            // this tail sees the slot filled above.
            self.tail.store(tail.wrapping_add(1), Release);
        } else {
            overflow(self.make_room(heads, task));
        }
    }

    fn fill(&self, position: u32, task: Runnable) {
        let slot = self.slot(position);
        slot.accesses.write();
        slot.task.store(task.into_raw().as_ptr(), Relaxed);
    }

    #[cold]
    fn make_room(&self, heads: Heads, task: Runnable) -> Overflow {
        let mut overflow = Overflow {
            tasks: Vec::with_capacity(HALF as usize + 1),
        };
        if !heads.is_claimed() {
            let moved = heads.taken(HALF);
            // Release as in `pop`. If it fails, a thief has just claimed tasks: it
            // makes room, and only the new task overflows.
            let claimed = self
                .head
                .compare_exchange(heads.pack(), moved.pack(), Release, Relaxed)
                .is_ok();
            if claimed {
                for count in 0..HALF {
                    // SAFETY: the head was moved over these slots.
                    let task = unsafe { self.take(heads.real.wrapping_add(count)) };
                    overflow.tasks.push(task);
                }
            }
        }
        overflow.tasks.push(task);
        overflow
    }

    /// Takes the oldest task. Owner only.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Runnable> {
        let tail = self.tail.load(Relaxed); // R1
        // Relaxed: the owner takes what it has put in itself.
        let mut word = self.head.load(Relaxed);
        loop {
            let heads = Heads::unpack(word);
            if heads.real == tail {
                return None;
            }
            // Release, met by the Acquire loads of `head` in `steal_into`: a thief that sees
            // this head sees a tail that is not behind it.
            match self
                .head
                .compare_exchange_weak(word, heads.taken(1).pack(), Release, Relaxed)
            {
                Ok(_) => {
                    let next = heads.real.wrapping_add(1);
                    if next != tail {
                        self.prefetch(next);
                    }
                    // SAFETY: the head was moved over the slot.
                    return Some(unsafe { self.take(heads.real) });
                }
                Err(newer) => word = newer,
            }
        }
    }

    /// Prefetches the header of the task in a slot, which is likely to run next, and the beginning
    /// of its future. A hint: what the slot holds need not be a live task.
    #[inline(always)]
    fn prefetch(&self, position: u32) {
        let line = self.slot(position).task.load(Relaxed).cast::<[u8; 64]>();
        prefetch(line);
        prefetch(line.wrapping_add(1));
    }

    /// Moves half of the ready tasks into `into`, the caller's own ring with
    /// at least half its slots free, and returns one of them.
    pub(crate) fn steal_into(&self, into: &RunQueue) -> Option<Stolen> {
        let room = into.room();
        // Acquire, met by the Release in `pop` and `make_room`: a stale tail could lie behind a
        // newer head, and `tail - real` would wrap.
        let mut word = self.head.load(Acquire);
        let (heads, count) = loop {
            let heads = Heads::unpack(word);
            // Acquire, met by the Release in `push`.
            let tail = self.tail.load(Acquire);
            let ready = tail.wrapping_sub(heads.real);
            let count = (ready - ready / 2).min(HALF).min(room);
            if count == 0 || heads.is_claimed() {
                return None;
            }
            let claim = Heads {
                steal: heads.steal,
                real: heads.real.wrapping_add(count),
            };
            // Claim. Relaxed: the word is the one that was loaded. If it is another one,
            // Acquire as above.
            match self
                .head
                .compare_exchange_weak(word, claim.pack(), Relaxed, Acquire)
            {
                Ok(_) => break (heads, count),
                Err(newer) => word = newer,
            }
        };

        // Copy. R2: these slots stay as they are until the release.
        // SAFETY: the claim moved the head over them.
        let first = unsafe { self.take(heads.real) };
        let tail = into.tail.load(Relaxed); // R1: the caller owns `into`
        for offset in 1..count {
            // SAFETY: as above.
            let task = unsafe { self.take(heads.real.wrapping_add(offset)) };
            into.fill(tail.wrapping_add(offset - 1), task);
        }

        // Release. The owner may have moved `real` on meanwhile, never `steal`.
        let mut word = self.head.load(Relaxed);
        loop {
            let real = Heads::unpack(word).real;
            let released = Heads { steal: real, real };
            // Release, met by the Acquire in `push` and `room`: the owner fills a slot
            // again only after it was read above.
            match self
                .head
                .compare_exchange_weak(word, released.pack(), Release, Relaxed)
            {
                Ok(_) => break,
                Err(newer) => word = newer,
            }
        }
        // Release, met by the Acquire in `steal_into` of the next thief.
        into.tail.store(tail.wrapping_add(count - 1), Release);
        Some(Stolen { first, count })
    }
}

impl Default for RunQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for RunQueue {
    fn drop(&mut self) {
        while let Some(task) = self.pop() {
            drop(task);
        }
    }
}

/// What a thief got: one task in hand, and the others in its own ring.
#[derive(Debug)]
pub(crate) struct Stolen {
    /// The oldest.
    pub(crate) first: Runnable,
    /// How many in all.
    pub(crate) count: u32,
}

/// Tasks that had no room in a ring, oldest first.
#[derive(Debug)]
pub(crate) struct Overflow {
    /// Half a ring and one, or just one.
    pub(crate) tasks: Vec<Runnable>,
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::testing::{Tasks, id};

    fn no_overflow(_: Overflow) {
        panic!("there is room");
    }

    #[test]
    fn tasks_leave_in_the_order_they_came() {
        let tasks = Tasks::new();
        let ring = RunQueue::new();
        for _ in 0..CAPACITY {
            ring.push(tasks.next(), no_overflow);
        }
        assert_eq!(ring.len(), CAPACITY);
        let order: Vec<_> = std::iter::from_fn(|| ring.pop()).map(|t| id(&t)).collect();
        assert_eq!(order, tasks.ids()[..CAPACITY as usize]);
        assert!(ring.is_empty() && ring.pop().is_none());
    }

    #[test]
    fn a_full_ring_gives_up_its_older_half_and_the_new_task() {
        let tasks = Tasks::new();
        let ring = RunQueue::new();
        for _ in 0..CAPACITY {
            ring.push(tasks.next(), no_overflow);
        }
        let mut given = Vec::new();
        ring.push(tasks.next(), |overflow| given = overflow.tasks);
        let ids = tasks.ids();
        let mut expected = ids[..HALF as usize].to_vec();
        expected.push(*ids.last().unwrap());
        assert_eq!(given.iter().map(id).collect::<Vec<_>>(), expected);
        assert_eq!(ring.len(), HALF);
    }

    #[test]
    fn a_thief_takes_the_older_half_rounded_up() {
        for count in 1..=CAPACITY {
            let tasks = Tasks::new();
            let (victim, thief) = (RunQueue::new(), RunQueue::new());
            for _ in 0..count {
                victim.push(tasks.next(), no_overflow);
            }
            let stolen = victim.steal_into(&thief).unwrap();
            assert_eq!(stolen.count, count.div_ceil(2));
            assert_eq!(thief.len(), stolen.count - 1);
            assert_eq!(victim.len(), count - stolen.count);
            let ids = tasks.ids();
            assert_eq!(id(&stolen.first), ids[0]);
            let mut order: Vec<_> = std::iter::from_fn(|| thief.pop()).map(|t| id(&t)).collect();
            order.extend(std::iter::from_fn(|| victim.pop()).map(|t| id(&t)));
            assert_eq!(order, ids[1..]);
        }
    }

    #[test]
    fn positions_wrap_around() {
        let tasks = Tasks::new();
        let ring = RunQueue::new();
        let start = u32::MAX - 2;
        let heads = Heads {
            steal: start,
            real: start,
        };
        ring.head.store(heads.pack(), Relaxed);
        ring.tail.store(start, Relaxed);
        for _ in 0..8 {
            ring.push(tasks.next(), no_overflow);
        }
        assert_eq!(ring.len(), 8);
        let thief = RunQueue::new();
        assert_eq!(ring.steal_into(&thief).unwrap().count, 4);
        let left = std::iter::from_fn(|| ring.pop()).count();
        assert_eq!(left, 4);
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::testing::{Tasks, id};
    use blitzen_util::shim::{Arc, Mutex, thread};

    /// Every task came out exactly once.
    fn assert_all(mut seen: Vec<u64>, tasks: &Tasks) {
        seen.sort();
        let mut made = tasks.ids();
        made.sort();
        assert_eq!(seen, made);
    }

    fn thief(victim: &Arc<RunQueue>) -> thread::JoinHandle<Vec<u64>> {
        let victim = victim.clone();
        thread::spawn(move || {
            let own = RunQueue::new();
            let mut seen = Vec::new();
            if let Some(stolen) = victim.steal_into(&own) {
                seen.push(id(&stolen.first));
                stolen.first.forget();
            }
            while let Some(task) = own.pop() {
                seen.push(id(&task));
                task.forget();
            }
            seen
        })
    }

    #[test]
    fn a_thief_and_the_owner_share_every_task_out() {
        loom::model(|| {
            let tasks = Tasks::new();
            let ring = Arc::new(RunQueue::new());
            for _ in 0..3 {
                ring.push(tasks.next(), |_| unreachable!("there is room"));
            }
            let thief = thief(&ring);
            let mut seen = Vec::new();
            while let Some(task) = ring.pop() {
                seen.push(id(&task));
                task.forget();
            }
            seen.extend(thief.join().unwrap());
            assert_all(seen, &tasks);
            tasks.close();
        });
    }

    #[test]
    fn pushing_into_a_ring_while_a_thief_steals_overwrites_nothing() {
        loom::model(|| {
            let tasks = Tasks::new();
            let ring = Arc::new(RunQueue::new());
            for _ in 0..CAPACITY {
                ring.push(tasks.next(), |_| unreachable!("there is room"));
            }
            let thief = thief(&ring);
            let overflowed = Mutex::new(Vec::new());
            for _ in 0..2 {
                ring.push(tasks.next(), |overflow| {
                    overflowed.lock().extend(overflow.tasks)
                });
            }
            let mut seen = Vec::new();
            while let Some(task) = ring.pop() {
                seen.push(id(&task));
                task.forget();
            }
            for task in overflowed.into_inner() {
                seen.push(id(&task));
                task.forget();
            }
            seen.extend(thief.join().unwrap());
            assert_all(seen, &tasks);
            tasks.close();
        });
    }

    /// Runs `owner` against `thieves` thieves, and checks that every task came out
    /// once.
    fn check(thieves: usize, filled: u32, owner: impl Fn(&RunQueue, &Tasks, &mut Vec<u64>)) {
        let tasks = Tasks::new();
        let ring = Arc::new(RunQueue::new());
        for _ in 0..filled {
            ring.push(tasks.next(), |_| unreachable!("there is room"));
        }
        let thieves: Vec<_> = (0..thieves).map(|_| thief(&ring)).collect();
        let mut seen = Vec::new();
        owner(&ring, &tasks, &mut seen);
        for thief in thieves {
            seen.extend(thief.join().unwrap());
        }
        while let Some(task) = ring.pop() {
            note(task, &mut seen);
        }
        assert_all(seen, &tasks);
        tasks.close();
    }

    fn note(task: Runnable, seen: &mut Vec<u64>) {
        seen.push(id(&task));
        task.forget();
    }

    fn push(ring: &RunQueue, tasks: &Tasks, seen: &mut Vec<u64>) {
        ring.push(tasks.next(), |overflow| {
            for task in overflow.tasks {
                note(task, seen);
            }
        });
    }

    /// Steals from `own` while its owner, a spawned thread, steals from `victim` into it.
    fn check_chain(victim: RunQueue, own: Arc<RunQueue>, tasks: &Tasks) {
        let owner = thread::spawn({
            let own = own.clone();
            move || {
                let mut seen = Vec::new();
                if let Some(stolen) = victim.steal_into(&own) {
                    note(stolen.first, &mut seen);
                }
                while let Some(task) = victim.pop() {
                    note(task, &mut seen);
                }
                seen
            }
        });
        let third = RunQueue::new();
        let mut seen = Vec::new();
        if let Some(stolen) = own.steal_into(&third) {
            note(stolen.first, &mut seen);
        }
        seen.extend(owner.join().unwrap());
        for ring in [&third, &*own] {
            while let Some(task) = ring.pop() {
                note(task, &mut seen);
            }
        }
        assert_all(seen, tasks);
        tasks.close();
    }

    #[test]
    fn what_a_thief_has_stolen_is_stolen_from_it() {
        loom::model(|| {
            let tasks = Tasks::new();
            let (victim, own) = (RunQueue::new(), Arc::new(RunQueue::new()));
            for _ in 0..CAPACITY {
                victim.push(tasks.next(), |_| unreachable!("there is room"));
            }
            let thief = thief(&own);
            let mut seen = Vec::new();
            if let Some(stolen) = victim.steal_into(&own) {
                note(stolen.first, &mut seen);
            }
            seen.extend(thief.join().unwrap());
            for ring in [&victim, &*own] {
                while let Some(task) = ring.pop() {
                    note(task, &mut seen);
                }
            }
            assert_all(seen, &tasks);
            tasks.close();
        });
    }

    #[test]
    fn a_thief_fills_a_slot_of_its_own_ring_after_another_has_read_it() {
        loom::model(|| {
            let tasks = Tasks::new();
            let (victim, own) = (RunQueue::new(), Arc::new(RunQueue::new()));
            for _ in 0..CAPACITY {
                victim.push(tasks.next(), |_| unreachable!("there is room"));
                own.push(tasks.next(), |_| unreachable!("there is room"));
            }
            check_chain(victim, own, &tasks);
        });
    }

    #[test]
    fn a_thief_of_a_ring_that_overflows_sees_the_tail_that_it_has_reached() {
        loom::model(|| {
            check(1, 0, |ring, tasks, seen| {
                (0..=CAPACITY).for_each(|_| push(ring, tasks, seen));
            });
        });
    }

    #[test]
    fn two_thieves_never_get_the_same_task() {
        loom::model(|| {
            check(2, 2, |ring, _, seen| {
                if let Some(task) = ring.pop() {
                    note(task, seen);
                }
            });
        });
    }

    #[test]
    fn two_thieves_and_an_owner_that_pushes_overwrite_nothing() {
        loom::model(|| {
            check(2, CAPACITY, |ring, tasks, seen| {
                for _ in 0..3 {
                    push(ring, tasks, seen);
                }
            });
        });
    }

    #[test]
    fn a_pop_during_a_theft_frees_none_of_the_slots_being_stolen() {
        loom::model(|| {
            check(1, CAPACITY, |ring, tasks, seen| {
                if let Some(task) = ring.pop() {
                    note(task, seen);
                }
                push(ring, tasks, seen);
                push(ring, tasks, seen);
            });
        });
    }
}
