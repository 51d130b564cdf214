//! Which task holds a lock, for locks that were made while this is noted.
//!
//! A lock that nobody waits for is one atomic instruction, which leaves no room to note an owner.
//! So it is noted only of locks that were made after [`set_on`]: those take their slow path each
//! time (`blitzen_sync::batch_semaphore`, T1 to T3).
//!
//! An owner is known only if it has a guard that borrows the lock. Guards that own their lock are
//! made to be moved to other tasks.
//!
//! Of a waiter in the queue of a lock it is noted which task has polled it last, and whether with the
//! task's own waker. The same is noted of tasks that wait for the end of another one. A wait that is
//! given up is forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

/// How many joins are remembered. They are forgotten when there are more: those of tasks that
/// have ended are not removed otherwise.
const MAX_JOINS: usize = 1 << 16;

/// Whether locks that are made now are to note their owner.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Whether anything may have been noted: set with the first [`set_on`], and never cleared.
static HAS_NOTES: AtomicBool = AtomicBool::new(false);

/// What is known of the task that the calling thread polls.
static CURRENT_TASK: OnceLock<CurrentTaskFns> = OnceLock::new();

static NOTES: Mutex<LockNotes> = Mutex::new(LockNotes {
    owners: BTreeMap::new(),
    joins: BTreeMap::new(),
    queued: BTreeMap::new(),
    own_wakers: BTreeSet::new(),
    next: 0,
});

/// What is noted of locks. Locks are known by their addresses.
struct LockNotes {
    /// Who holds each lock.
    owners: BTreeMap<u64, LockOwner>,
    /// For the end of which task each task waits with its own waker, as of the last poll of such a
    /// wait.
    joins: BTreeMap<u64, u64>,
    /// The waiters in the queues of locks, by their addresses.
    queued: BTreeMap<u64, QueuedWaiter>,
    /// Task, lock and address of those of them whose waker is the task's own.
    own_wakers: BTreeSet<(u64, u64, u64)>,
    /// The number of the next note.
    next: u64,
}

/// Who holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockOwner {
    /// The number of the task.
    pub task: u64,
    /// Tells this time that the lock is held from all others.
    pub note: u64,
}

/// A waiter in the queue of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct QueuedWaiter {
    task: u64,
    lock: u64,
    /// Whether its task is the owner once the lock is granted to it.
    notes_owner: bool,
}

impl LockNotes {
    fn forget_queued(&mut self, waiter: u64) -> Option<QueuedWaiter> {
        let forgotten = self.queued.remove(&waiter)?;
        let QueuedWaiter { task, lock, .. } = forgotten;
        self.own_wakers.remove(&(task, lock, waiter));
        Some(forgotten)
    }
}

/// Functions that say something of the task that the calling thread polls.
#[derive(Clone, Copy, Debug)]
pub struct CurrentTaskFns {
    /// Its number.
    pub number: fn() -> Option<u64>,
    /// Whether a waker is its own, and not one that a future inside it has made for its children.
    pub owns: fn(&Waker) -> bool,
}

/// Decides whether locks that are made from now on note their owner. The first `current_task`
/// that is given stays.
pub fn set_on(on: bool, current_task: CurrentTaskFns) {
    CURRENT_TASK.get_or_init(|| current_task);
    // Relaxed: they decide for locks and waits that come later, and publish nothing.
    HAS_NOTES.store(true, Relaxed);
    IS_ON.store(on, Relaxed);
}

/// Whether locks that are made now are to note their owner.
#[inline]
pub fn is_on() -> bool {
    IS_ON.load(Relaxed)
}

/// Notes that the task that this thread polls holds a lock; that nobody known does if there is no
/// task.
#[cold]
#[inline(never)]
pub fn note<T: ?Sized>(lock: &T) {
    let task = current_number();
    let mut notes = lock_notes();
    let note = notes.next;
    notes.next += 1;
    match task {
        Some(task) => notes.owners.insert(address(lock), LockOwner { task, note }),
        None => notes.owners.remove(&address(lock)),
    };
}

/// Notes that the task that this thread polls has a waiter with that waker in the queue of a lock, and
/// whether it is the owner once the lock is granted to it; that nobody known has it if there is no
/// task. Called under the lock of that queue, as are the next two.
#[cold]
#[inline(never)]
pub fn note_queued<T: ?Sized, W>(lock: &T, waiter: &W, waker: &Waker, notes_owner: bool) {
    let (task, is_own) = (current_number(), is_own(waker));
    let (lock, waiter) = (address(lock), address(waiter));
    let mut notes = lock_notes();
    notes.forget_queued(waiter);
    let Some(task) = task else { return };
    let queued = QueuedWaiter {
        task,
        lock,
        notes_owner,
    };
    notes.queued.insert(waiter, queued);
    if is_own {
        notes.own_wakers.insert((task, lock, waiter));
    }
}

/// Forgets a waiter that leaves the queue.
#[cold]
#[inline(never)]
pub fn forget_queued<T>(waiter: &T) {
    lock_notes().forget_queued(address(waiter));
}

/// Notes that a lock is granted to a waiter, and so that its task holds the lock. It may be long
/// until the task polls the future that has the waiter, or never.
#[cold]
#[inline(never)]
pub fn note_granted<T: ?Sized>(lock: &T, waiter_address: usize) {
    let mut notes = lock_notes();
    let granted = notes.forget_queued(waiter_address as u64);
    if let Some(QueuedWaiter { task, .. }) = granted.filter(|waiter| waiter.notes_owner) {
        let note = notes.next;
        notes.next += 1;
        notes.owners.insert(address(lock), LockOwner { task, note });
    }
}

/// Notes that nobody known holds a lock.
#[cold]
#[inline(never)]
pub fn clear<T: ?Sized>(lock: &T) {
    lock_notes().owners.remove(&address(lock));
}

/// Notes that the task that this thread polls waits for the end of another one, if it is woken by
/// `waker`.
#[cold]
#[inline(never)]
pub fn note_join(joined: u64, waker: &Waker) {
    let Some(task) = current_number() else { return };
    let is_own = is_own(waker);
    let mut notes = lock_notes();
    if notes.joins.len() >= MAX_JOINS {
        notes.joins.clear();
    }
    match is_own {
        true => notes.joins.insert(task, joined),
        false => notes.joins.remove(&task),
    };
}

/// Forgets that somebody waits for the end of a task: nobody does any more.
#[cold]
#[inline(never)]
pub fn forget_join(joined: u64) {
    let task = current_number();
    let mut notes = lock_notes();
    match task.filter(|task| notes.joins.get(task) == Some(&joined)) {
        Some(task) => drop(notes.joins.remove(&task)),
        // Not the task that this thread polls, but any other.
        None => notes.joins.retain(|_, noted| *noted != joined),
    }
}

/// Whether anything may have been noted.
#[inline]
pub fn has_notes() -> bool {
    HAS_NOTES.load(Relaxed)
}

/// Who holds the lock at an address, if that is known. The address is compared, not followed.
pub fn owner_of(lock: u64) -> Option<LockOwner> {
    lock_notes().owners.get(&lock).copied()
}

/// Whether a task has a waiter with its own waker in the queue of the lock at an address.
pub fn is_queued(task: u64, lock: u64) -> bool {
    let notes = lock_notes();
    let waiters = (task, lock, 0)..=(task, lock, u64::MAX);
    notes.own_wakers.range(waiters).next().is_some()
}

/// For the end of which task a task waited with its own waker when it last polled such a wait.
pub fn join_of(task: u64) -> Option<u64> {
    lock_notes().joins.get(&task).copied()
}

fn current_number() -> Option<u64> {
    CURRENT_TASK.get().and_then(|current| (current.number)())
}

fn is_own(waker: &Waker) -> bool {
    let current = CURRENT_TASK.get();
    current.is_some_and(|current| (current.owns)(waker))
}

fn address<T: ?Sized>(lock: &T) -> u64 {
    (&raw const *lock).addr() as u64
}

fn lock_notes() -> MutexGuard<'static, LockNotes> {
    NOTES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    struct Foreign;

    impl Wake for Foreign {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn each_time_that_a_lock_is_held_has_a_note_of_its_own() {
        thread_local!(static TASK: Cell<Option<u64>> = const { Cell::new(None) });
        let current_task = CurrentTaskFns {
            number: || TASK.get(),
            owns: |waker| waker.will_wake(Waker::noop()),
        };
        set_on(false, current_task);
        let lock = 0_u64;
        let owner = || owner_of(address(&lock));
        TASK.set(Some(7));
        note(&lock);
        let first = owner().unwrap();
        assert_eq!(first.task, 7);
        note(&lock);
        assert_ne!(owner().unwrap(), first);
        clear(&lock);
        assert_eq!(owner(), None);
        note(&lock);
        TASK.set(None);
        note(&lock);
        assert_eq!(owner(), None, "no task: nobody known");

        TASK.set(Some(8));
        note_join(3, Waker::noop());
        assert_eq!(join_of(8), Some(3));
        let foreign = Waker::from(Arc::new(Foreign));
        note_join(3, &foreign);
        assert_eq!(join_of(8), None, "something inside the task waits");
        for task in [8, 9, 10] {
            TASK.set(Some(task));
            note_join(3, Waker::noop());
        }
        forget_join(3);
        assert_eq!((join_of(9), join_of(10)), (Some(3), None));
        forget_join(3);
        assert_eq!((join_of(8), join_of(9)), (None, None));
        TASK.set(Some(11));
        let (waiter, given_up) = (1_u64, 2_u64);
        let own = Waker::noop();
        note_queued(&lock, &waiter, own, true);
        note_queued(&lock, &given_up, own, true);
        forget_queued(&given_up);
        assert!(is_queued(11, address(&lock)) && !is_queued(12, address(&lock)));
        note_queued(&lock, &waiter, &foreign, true);
        assert!(!is_queued(11, address(&lock)), "something inside it waits");
        note_queued(&lock, &waiter, own, true);
        TASK.set(Some(12));
        clear(&lock);
        note_granted(&lock, (&raw const given_up).addr());
        assert_eq!(owner(), None);
        note_granted(&lock, (&raw const waiter).addr());
        assert_eq!(owner().unwrap().task, 11, "not the one that grants it");
        assert!(!is_queued(11, address(&lock)));
        clear(&lock);
        note_granted(&lock, (&raw const waiter).addr());
        assert_eq!(owner(), None, "once");
        note_queued(&lock, &waiter, own, false);
        note_granted(&lock, (&raw const waiter).addr());
        assert_eq!(owner(), None, "a reader");
        note_queued(&lock, &waiter, own, true);
        TASK.set(None);
        note_queued(&lock, &waiter, own, true);
        note_granted(&lock, (&raw const waiter).addr());
        assert_eq!(owner(), None, "it has left its task");
    }
}
