//! The queue for tasks that come from outside the workers, and for what
//! overflows from their rings: cut into shards, so that no two producers need
//! share a lock.
//!
//! I1. A shard's `len` and counters are written under its lock only.
//! I2. A closed shard refuses what is pushed: such tasks are late ([`LateTasks`]).
//!
//! [`LateTasks`]: crate::late_tasks::LateTasks

use std::cell::Cell;
use std::collections::VecDeque;
use std::mem;

use blitzen_observe::Counter;
use blitzen_task::Runnable;
use blitzen_util::lock::{AsymmetricLock, AsymmetricLockGuard};
use blitzen_util::pad::Padded;
use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::Relaxed;

use crate::pace::share_of;

/// How many tasks a queue has room for at least, once it had one.
const MIN_CAPACITY: usize = 64;

/// A buffer with more room than this is not kept when it is empty.
const MAX_EMPTY_CAPACITY: usize = 1024;

/// More shards than this would take too long to look through.
const MAX_SHARDS: usize = 64;

/// The queue.
pub(crate) struct Inject {
    shards: Box<[Padded<InjectShard>]>,
    workers: usize,
}

struct InjectShard {
    queue: AsymmetricLock<ShardQueue>,
    len: AtomicUsize,
    /// Tasks that were spawned outside the workers.
    spawned: Counter,
    /// Tasks that came from outside the workers, spawned or woken.
    scheduled: Counter,
}

/// Why a task comes from outside the workers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    Spawned,
    Woken,
}

/// The tasks of a shard. Pointers to them, and not a list through their headers: who takes a batch
/// would wait for the memory of each of its tasks in turn, under the lock.
struct ShardQueue {
    tasks: VecDeque<Runnable>,
    closed: bool,
}

/// A buffer that has become too small, or was too large for what is left. To be dropped without the
/// lock: an allocator is foreign code.
type OldBuffer = VecDeque<Runnable>;

impl InjectShard {
    #[inline]
    fn push_all(
        &self,
        mut queue: AsymmetricLockGuard<'_, ShardQueue>,
        tasks: impl IntoIterator<Item = Runnable>,
        refuse: impl FnMut(Runnable),
    ) {
        if queue.closed {
            drop(queue);
            tasks.into_iter().for_each(refuse); // I2
            return;
        }
        let mut tasks = tasks.into_iter();
        let mut left = None;
        for task in tasks.by_ref() {
            if queue.tasks.len() == queue.tasks.capacity() {
                left = Some(task);
                break;
            }
            queue.tasks.push_back(task);
        }
        // Relaxed: the fences of the idle protocol order it. A worker that looks
        // before it sleeps sees that there is something.
        self.len.store(queue.tasks.len(), Relaxed); // I1
        drop(queue);
        if let Some(task) = left {
            self.push_rest([task].into_iter().chain(tasks), refuse);
        }
    }

    /// [`push_all`](Self::push_all) where there is no room.
    #[cold]
    fn push_rest(&self, tasks: impl Iterator<Item = Runnable>, refuse: impl FnMut(Runnable)) {
        let tasks: Vec<_> = tasks.collect();
        let mut old = OldBuffer::new();
        let mut queue = self.queue.lock();
        loop {
            let needed = queue.tasks.len() + tasks.len();
            if queue.closed || needed <= queue.tasks.capacity() {
                break;
            }
            drop(queue);
            old = OldBuffer::with_capacity(needed.next_power_of_two().max(MIN_CAPACITY));
            queue = self.queue.lock();
            if queue.tasks.capacity() < old.capacity() && queue.tasks.len() <= old.capacity() {
                old.append(&mut queue.tasks);
                mem::swap(&mut old, &mut queue.tasks);
            }
        }
        if queue.closed {
            drop(queue);
            tasks.into_iter().for_each(refuse); // I2
            return;
        }
        queue.tasks.extend(tasks);
        self.len.store(queue.tasks.len(), Relaxed);
        drop(queue);
        drop(old);
    }
}

impl Inject {
    /// An empty queue for `workers` workers.
    pub(crate) fn new(workers: usize) -> Self {
        let shards = workers.next_power_of_two().min(MAX_SHARDS);
        let shard = || {
            Padded(InjectShard {
                queue: AsymmetricLock::new(ShardQueue {
                    tasks: VecDeque::new(),
                    closed: false,
                }),
                len: AtomicUsize::new(0),
                spawned: Counter::new(),
                scheduled: Counter::new(),
            })
        };
        Self {
            shards: (0..shards).map(|_| shard()).collect(),
            workers,
        }
    }

    /// How many shards there are.
    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    fn shard(&self, shard: usize) -> &InjectShard {
        &self.shards[shard & (self.shards.len() - 1)]
    }

    /// Whether both indices stand for the same shard.
    fn is_shard(&self, index: usize, other: usize) -> bool {
        std::ptr::eq(self.shard(index), self.shard(other))
    }

    /// Adds a task from outside the workers, and counts it; calls `refuse` with it if the queue is
    /// closed (I2).
    #[inline]
    pub(crate) fn push(
        &self,
        shard: usize,
        task: Runnable,
        arrival: Arrival,
        refuse: impl FnMut(Runnable),
    ) {
        let shard = self.shard(shard);
        let queue = shard.queue.lock();
        shard.scheduled.bump(); // I1
        if arrival == Arrival::Spawned {
            shard.spawned.bump();
        }
        shard.push_all(queue, [task], refuse);
    }

    /// Adds tasks in one go; calls `refuse` with each if the queue is closed (I2).
    pub(crate) fn push_all(
        &self,
        shard: usize,
        tasks: impl IntoIterator<Item = Runnable>,
        refuse: impl FnMut(Runnable),
    ) {
        let shard = self.shard(shard);
        shard.push_all(shard.queue.lock(), tasks, refuse);
    }

    /// How many tasks have come from outside the workers, and how many of them were spawned there.
    pub(crate) fn arrivals(&self) -> (u64, u64) {
        let shards = self.shards.iter();
        shards.fold((0, 0), |(scheduled, spawned), shard| {
            // Spawned first: of a task that comes in between, only that it was scheduled is seen. On
            // a weakly ordered processor it may still be the other way round.
            let spawned = spawned + shard.spawned.get();
            (scheduled + shard.scheduled.get(), spawned)
        })
    }

    /// How many tasks wait; a guess, since they come and go.
    pub(crate) fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.len.load(Relaxed))
            .sum()
    }

    /// Whether no task waits; a guess, as above.
    pub(crate) fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.len.load(Relaxed) == 0)
    }

    /// Takes a worker's fair share, at most `most`, of the first shard from `next`
    /// on that is not empty; calls `each` with every task. Sets `next` to the shard
    /// after that one: for a caller that keeps it, every shard has its turn, however fast
    /// the others are filled.
    pub(crate) fn fetch(
        &self,
        next: &Cell<usize>,
        most: usize,
        mut each: impl FnMut(Runnable),
    ) -> usize {
        let start = next.get();
        for index in start..start + self.shards.len() {
            let shard = self.shard(index);
            if shard.len.load(Relaxed) == 0 {
                continue;
            }
            next.set((index + 1) % self.shards.len());
            let mut queue = shard.queue.lock();
            let len = queue.tasks.len();
            let share = share_of(len, self.workers).min(most).min(len);
            queue.tasks.drain(..share).for_each(&mut each);
            shard.len.store(len - share, Relaxed); // I1
            let is_too_large = len == share && queue.tasks.capacity() > MAX_EMPTY_CAPACITY;
            let old = is_too_large.then(|| mem::take(&mut queue.tasks));
            drop(queue);
            drop(old);
            if share > 0 {
                return share;
            }
        }
        0
    }

    /// Closes every shard, and returns what was queued; what comes later is
    /// refused (I2).
    pub(crate) fn close(&self) -> Vec<Runnable> {
        let mut queued = Vec::new();
        for shard in &self.shards {
            let mut queue = shard.queue.lock();
            queue.closed = true;
            let tasks = mem::take(&mut queue.tasks);
            shard.len.store(0, Relaxed);
            drop(queue);
            queued.extend(tasks);
        }
        queued
    }
}

/// With which shard a worker begins to look for tasks.
///
/// It takes three batches of four from its own shard, if there is a task in it: what has overflowed
/// there is still in the cache of its processor. Where there are more shards than workers, some
/// workers have two shards of their own, from which these batches come in turn. All other batches are
/// from the other shards, each in its turn, and single tasks are taken from all shards in turn: so
/// none starves, also if its worker is stuck.
#[derive(Debug)]
pub(crate) struct InjectTurns {
    worker: usize,
    /// The shard of its own from which to take a batch next.
    next_own: Cell<usize>,
    /// The shard from which to take a single task next.
    next_single: Cell<usize>,
    /// The shard from which to take the next batch that is not from its own.
    next_other: Cell<usize>,
    /// How many batches from its own shards are to come before one from another.
    own_batches: Cell<u32>,
}

/// How many batches in a row are from the worker's own shards.
const OWN_BATCHES: u32 = 3;

impl InjectTurns {
    /// The turns of a worker.
    pub(crate) fn new(worker: usize) -> Self {
        Self {
            worker,
            next_own: Cell::new(worker),
            next_single: Cell::new(worker),
            next_other: Cell::new(worker + 1),
            own_batches: Cell::new(0),
        }
    }

    /// [Fetches](Inject::fetch) from the shard that has its turn.
    ///
    /// Single tasks and batches have turns of their own: a busy worker fetches them in a fixed
    /// pattern, in which a shard might otherwise have its turn for single tasks only.
    pub(crate) fn fetch(&self, inject: &Inject, most: usize, each: impl FnMut(Runnable)) -> usize {
        if most == 1 {
            return inject.fetch(&self.next_single, 1, each);
        }
        if let Some(own) = self.take_own_turn(inject) {
            return inject.fetch(&Cell::new(own), most, each);
        }
        if inject.is_shard(self.next_other.get(), self.worker) {
            self.next_other.set(self.worker + 1);
        }
        inject.fetch(&self.next_other, most, each)
    }

    /// Returns the shard of its own that has its turn; `None` if others have theirs, or if no task is
    /// in its own: a fetch from there would take from the next shard that has some, always the same
    /// one.
    fn take_own_turn(&self, inject: &Inject) -> Option<usize> {
        match self.own_batches.get() {
            0 => {
                self.own_batches.set(OWN_BATCHES);
                None
            }
            left => {
                self.own_batches.set(left - 1);
                self.pick_own_shard(inject)
            }
        }
    }

    /// Returns its own shard, or one of the two in turn, unless there is no task in it.
    fn pick_own_shard(&self, inject: &Inject) -> Option<usize> {
        let shard = self.next_own.get();
        let second = shard + inject.workers;
        let is_shard = second < inject.shards();
        let next = if is_shard { second } else { self.worker };
        self.next_own.set(next);
        let has_tasks = |shard: &usize| inject.shard(*shard).len.load(Relaxed) > 0;
        [shard, next].into_iter().find(has_tasks)
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::pace::BUSY_BATCH;
    use crate::testing::{Tasks, id};

    #[test]
    fn a_shard_is_first_in_first_out() {
        let tasks = Tasks::new();
        let inject = Inject::new(1);
        for _ in 0..10 {
            inject.push(0, tasks.next(), Arrival::Woken, Runnable::forget);
        }
        assert_eq!(inject.len(), 10);
        let mut order = Vec::new();
        while inject.fetch(&Cell::new(0), 3, |task| order.push(id(&task))) > 0 {}
        assert_eq!(order, tasks.ids());
        assert!(inject.is_empty());
    }

    #[test]
    fn a_fetch_takes_a_fair_share_and_looks_into_every_shard() {
        let tasks = Tasks::new();
        let inject = Inject::new(4);
        inject.push_all(3, (0..100).map(|_| tasks.next()), Runnable::forget);
        assert_eq!(inject.fetch(&Cell::new(0), 64, drop), 25);
        assert_eq!(inject.fetch(&Cell::new(0), 8, drop), 8);
        assert_eq!(inject.fetch(&Cell::new(2), 64, drop), 16);
        while inject.fetch(&Cell::new(1), 64, drop) > 0 {}
        assert!(inject.is_empty());
    }

    #[test]
    fn every_shard_has_its_turn_however_fast_the_others_are_filled() {
        for workers in [1, 2, 3, 6, 12] {
            let tasks = Tasks::new();
            let inject = Inject::new(workers);
            for worker in 0..workers {
                let next = Cell::new(worker);
                for starved in 0..inject.shards() {
                    while inject.fetch(&Cell::new(0), 64, drop) > 0 {}
                    inject.push(starved, tasks.next(), Arrival::Woken, Runnable::forget);
                    let waiting = *tasks.ids().last().unwrap();
                    let mut fetches = 0;
                    let mut has_come = false;
                    while !has_come {
                        for other in (0..inject.shards()).filter(|&shard| shard != starved) {
                            inject.push(other, tasks.next(), Arrival::Woken, Runnable::forget);
                        }
                        inject.fetch(&next, 64, |task| {
                            has_come |= id(&task) == waiting;
                            drop(task);
                        });
                        fetches += 1;
                        assert!(fetches <= inject.shards(), "shard {starved} of {workers}");
                    }
                }
            }
            while inject.fetch(&Cell::new(0), 64, drop) > 0 {}
        }
    }

    /// How many tasks of each shard a worker has taken after some rounds of what a busy one does: one
    /// batch, then single tasks. No shard ever runs empty.
    fn taken_by_shard(workers: usize, rounds: usize, singles: usize) -> Vec<usize> {
        let tasks = Tasks::new();
        let inject = Inject::new(workers);
        let turns = InjectTurns::new(1);
        let mut taken = vec![0; inject.shards()];
        let filled = 2 * BUSY_BATCH * workers;
        for _ in 0..rounds {
            for fetch in 0..=singles {
                for (shard, taken) in taken.iter_mut().enumerate() {
                    let missing = filled - inject.shards[shard].len.load(Relaxed);
                    *taken += missing;
                    let more = (0..missing).map(|_| tasks.next());
                    inject.push_all(shard, more, Runnable::forget);
                }
                turns.fetch(&inject, if fetch == 0 { BUSY_BATCH } else { 1 }, drop);
            }
        }
        while inject.fetch(&Cell::new(0), 64, drop) > 0 {}
        taken.iter().map(|taken| taken - filled).collect()
    }

    #[test]
    fn a_worker_mostly_takes_from_its_own_shards_and_from_each_other_in_turn() {
        for workers in [2, 3, 6, 12] {
            for singles in [0, 3, 7] {
                let shards = Inject::new(workers).shards();
                let others = shards - 1;
                let taken = taken_by_shard(workers, 40 * others, singles);
                let own = if 1 + workers < shards { 2 } else { 1 };
                for (shard, &taken) in taken.iter().enumerate() {
                    // Each other shard has had ten of the batches that are not of the own.
                    let (low, high) = match shard % workers {
                        1 => (29 * others * BUSY_BATCH / own, usize::MAX),
                        _ => (9 * BUSY_BATCH, 50 * BUSY_BATCH),
                    };
                    assert!(
                        (low..high).contains(&taken),
                        "{taken} of shard {shard}, {workers} workers, {singles} single tasks"
                    );
                }
            }
        }
    }

    /// How many tasks all workers together have taken of each of the first `shards` shards, which
    /// never run empty. The others are empty.
    fn taken_by_all(workers: usize, shards: usize) -> Vec<usize> {
        let tasks = Tasks::new();
        let inject = Inject::new(workers);
        let turns: Vec<_> = (0..workers).map(InjectTurns::new).collect();
        let mut taken = vec![0; shards];
        let filled = 2 * BUSY_BATCH * workers;
        for _ in 0..40 * shards {
            for turns in &turns {
                for (shard, taken) in taken.iter_mut().enumerate() {
                    let missing = filled - inject.shards[shard].len.load(Relaxed);
                    *taken += missing;
                    let more = (0..missing).map(|_| tasks.next());
                    inject.push_all(shard, more, Runnable::forget);
                }
                turns.fetch(&inject, BUSY_BATCH, drop);
            }
        }
        while inject.fetch(&Cell::new(0), 64, drop) > 0 {}
        taken.iter().map(|taken| taken - filled).collect()
    }

    #[test]
    fn every_shard_has_about_as_many_turns_as_the_others() {
        let all_filled = [1, 2, 3, 5, 6, 8, 33].map(|workers: usize| {
            let shards = Inject::new(workers).shards();
            (workers, shards)
        });
        // Where few threads outside the workers fill them, most are empty.
        let few_filled = [(8, 2), (8, 3), (6, 2), (3, 2)];
        for (workers, shards) in all_filled.into_iter().chain(few_filled) {
            let taken = taken_by_all(workers, shards);
            let (least, most) = (taken.iter().min().unwrap(), taken.iter().max().unwrap());
            assert!(least * 5 / 2 >= *most, "{taken:?}, {workers} workers");
        }
    }

    #[test]
    fn a_closed_queue_forgets_what_comes() {
        let tasks = Tasks::new();
        let inject = Inject::new(2);
        inject.push(0, tasks.next(), Arrival::Woken, Runnable::forget);
        assert_eq!(inject.close().len(), 1);
        inject.push(1, tasks.next(), Arrival::Woken, Runnable::forget);
        assert_eq!(inject.fetch(&Cell::new(0), 64, drop), 0);
        tasks.close();
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::testing::{Tasks, id};
    use blitzen_util::shim::{Arc, thread};

    #[test]
    fn pushes_against_fetches_lose_and_double_nothing() {
        loom::model(|| {
            let tasks = Arc::new(Tasks::new());
            let inject = Arc::new(Inject::new(2));
            let producer = thread::spawn({
                let (tasks, inject) = (tasks.clone(), inject.clone());
                move || {
                    inject.push(0, tasks.next(), Arrival::Woken, Runnable::forget);
                    inject.push(0, tasks.next(), Arrival::Woken, Runnable::forget);
                }
            });
            let fetch = |seen: &mut Vec<u64>| {
                inject.fetch(&Cell::new(1), 4, |task| {
                    seen.push(id(&task));
                    task.forget();
                })
            };
            let mut seen = Vec::new();
            fetch(&mut seen);
            producer.join().unwrap();
            while fetch(&mut seen) > 0 {}
            assert_eq!(seen, tasks.ids());
            tasks.close();
        });
    }

    #[test]
    fn a_push_against_the_close_is_queued_before_or_forgotten() {
        loom::model(|| {
            let tasks = Arc::new(Tasks::new());
            let inject = Arc::new(Inject::new(1));
            let producer = thread::spawn({
                let (tasks, inject) = (tasks.clone(), inject.clone());
                move || inject.push(0, tasks.next(), Arrival::Woken, Runnable::forget)
            });
            let queued = inject.close();
            producer.join().unwrap();
            assert!(queued.len() <= 1);
            drop(queued);
            assert_eq!(inject.fetch(&Cell::new(0), 4, drop), 0);
            assert!(inject.is_empty());
            tasks.close();
        });
    }
}
