//! The work that is under way, in shards, so that workers do not contend.
//!
//! L1. A guard's entry is in the shard of the thread that created it, until the
//!     guard is dropped, on whatever thread.
//! L2. Counting locks all shards at once: work that moves from one guard to
//!     another, which is created before the first is dropped, is always counted. The members of the
//!     scope are counted under these locks too, so that work which moves from them is.
//! L3. A drain cancels the scope, then counts. A guard that is dropped removes
//!     its entry, then asks whether the scope was cancelled. Both take the shard's
//!     lock: if the drain had it first, the guard sees that, and notifies the drain.
//!
//! Nothing is shared but what the locks protect, and the scope, which has models of its own.

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard};

use blitzen_util::pad::Padded;
use blitzen_util::thread_shard::thread_shard;

use super::ShutdownShared;
use super::report::{Work, WorkingTask};
use crate::scope::RootScope;
use crate::time::Instant;

const SHARDS: usize = 16;

/// All work that is under way.
pub(super) struct WorkTracker([Padded<Mutex<TrackerShard>>; SHARDS]);

#[derive(Default)]
struct TrackerShard {
    entries: Vec<Option<WorkEntry>>,
    free: Vec<usize>,
}

struct WorkEntry {
    task: Option<WorkingTask>,
    taken_at: &'static Location<'static>,
    since: Instant,
}

impl TrackerShard {
    fn add(&mut self, entry: WorkEntry) -> usize {
        match self.free.pop() {
            Some(index) => {
                self.entries[index] = Some(entry);
                index
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() - 1
            }
        }
    }

    fn remove(&mut self, index: usize) -> Option<WorkEntry> {
        self.free.push(index);
        self.entries[index].take()
    }

    fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

impl WorkTracker {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| Padded(Mutex::default())))
    }

    fn shard(&self, index: usize) -> MutexGuard<'_, TrackerShard> {
        self.0[index].lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Locks all shards (L2).
    pub(super) fn lock(&self) -> LockedTracker<'_> {
        LockedTracker(std::array::from_fn(|index| self.shard(index)))
    }
}

/// A tracker whose shards are all locked.
pub(super) struct LockedTracker<'a>([MutexGuard<'a, TrackerShard>; SHARDS]);

impl LockedTracker<'_> {
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|shard| shard.len()).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all work, the oldest first.
    pub(super) fn list(&self) -> Vec<Work> {
        let now = Instant::now();
        let entries = self
            .0
            .iter()
            .flat_map(|shard| shard.entries.iter().flatten());
        let mut work: Vec<Work> = entries
            .map(|entry| Work {
                task: entry.task.clone(),
                taken_at: entry.taken_at,
                age: now.saturating_duration_since(entry.since),
            })
            .collect();
        work.sort_by_key(|work| std::cmp::Reverse(work.age));
        work
    }
}

/// A guard that counts as work until it is dropped; see
/// [`Shutdown::work`](super::Shutdown::work).
///
/// A guard that is leaked keeps a drain waiting until its limit, and is named in the
/// report.
///
/// # Examples
/// ```
/// let shutdown = blitzen::shutdown::Shutdown::new();
/// let guard = shutdown.work();
/// std::thread::spawn(move || drop(guard)).join().unwrap();
/// assert_eq!(shutdown.at_work(), 0);
/// ```
#[must_use = "work ends when its guard is dropped"]
pub struct WorkGuard {
    shared: Arc<ShutdownShared>,
    /// The shard's index, and the entry's in it.
    shard: usize,
    index: usize,
}

impl WorkGuard {
    pub(super) fn new(shared: Arc<ShutdownShared>, taken_at: &'static Location<'static>) -> Self {
        let shard = thread_shard() % SHARDS;
        let entry = WorkEntry {
            task: WorkingTask::current(),
            taken_at,
            since: Instant::now(),
        };
        let index = shared.tracker.shard(shard).add(entry);
        Self {
            shared,
            shard,
            index,
        }
    }

    /// The scope around the work.
    pub(super) fn scope(&self) -> &RootScope {
        &self.shared.scope
    }

    /// Makes it the work of the current task.
    pub(super) fn assign_to_current_task(&self) {
        let task = WorkingTask::current();
        let mut shard = self.shared.tracker.shard(self.shard);
        let before = match &mut shard.entries[self.index] {
            Some(entry) => std::mem::replace(&mut entry.task, task),
            None => unreachable!("L1"),
        };
        drop(shard);
        drop(before);
    }
}

impl Drop for WorkGuard {
    fn drop(&mut self) {
        let mut shard = self.shared.tracker.shard(self.shard);
        let entry = shard.remove(self.index);
        let is_last = shard.len() == 0;
        drop(shard);
        drop(entry);
        if is_last && self.shared.scope.is_cancelled() {
            self.shared.scope.progress().notify_waiters(); // L3
        }
    }
}

impl fmt::Debug for WorkGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkGuard").finish_non_exhaustive()
    }
}
