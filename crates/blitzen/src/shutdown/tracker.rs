//! Who is at work: in shards, so that workers do not meet in it.
//!
//! L1. A guard's entry is in the shard of the thread that took it, until the
//!     guard is dropped, wherever that is.
//! L2. Counting holds all shards at once: work that is handed on from one guard
//!     to another, which is taken before the first is dropped, is always seen.
//! L3. A drain triggers, then looks. A guard that is dropped takes its entry out,
//!     then looks whether it is time to end. Both use the shard's lock: if the
//!     drain had it first, the guard knows, and tells of the progress.

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard};

use blitzen_util::lane::lane;
use blitzen_util::pad::Padded;

use super::Shared;
use super::report::{Work, WorkingTask};
use crate::time::Instant;

const SHARDS: usize = 16;

/// All work that is under way.
pub(super) struct Ledger([Padded<Mutex<Shard>>; SHARDS]);

#[derive(Default)]
struct Shard {
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
}

struct Entry {
    task: Option<WorkingTask>,
    taken_at: &'static Location<'static>,
    since: Instant,
}

impl Shard {
    fn add(&mut self, entry: Entry) -> usize {
        match self.free.pop() {
            Some(place) => {
                self.entries[place] = Some(entry);
                place
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() - 1
            }
        }
    }

    fn remove(&mut self, place: usize) -> Option<Entry> {
        self.free.push(place);
        self.entries[place].take()
    }

    fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| Padded(Mutex::default())))
    }

    fn shard(&self, index: usize) -> MutexGuard<'_, Shard> {
        self.0[index].lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Holds it still (L2).
    pub(super) fn lock(&self) -> Still<'_> {
        Still(std::array::from_fn(|index| self.shard(index)))
    }
}

/// A ledger that is held still.
pub(super) struct Still<'a>([MutexGuard<'a, Shard>; SHARDS]);

impl Still<'_> {
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|shard| shard.len()).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All work, the oldest first.
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

/// Counts as work as long as it lives; see [`Shutdown::work`](super::Shutdown::work).
///
/// A panic that unwinds through its owner drops it. One that is leaked holds a
/// drain up until its deadline, and is named in the report.
///
/// ```
/// let shutdown = blitzen::shutdown::Shutdown::new();
/// let guard = shutdown.work();
/// std::thread::spawn(move || drop(guard)).join().unwrap();
/// assert_eq!(shutdown.at_work(), 0);
/// ```
#[must_use = "work ends when its guard is dropped"]
pub struct WorkGuard {
    shared: Arc<Shared>,
    shard: usize,
    place: usize,
}

impl WorkGuard {
    pub(super) fn new(shared: Arc<Shared>, taken_at: &'static Location<'static>) -> Self {
        let shard = lane() % SHARDS;
        let entry = Entry {
            task: WorkingTask::current(),
            taken_at,
            since: Instant::now(),
        };
        let place = shared.ledger.shard(shard).add(entry);
        Self {
            shared,
            shard,
            place,
        }
    }

    /// From now on it is the work of the task this code runs in.
    pub(super) fn hand_to_current_task(&self) {
        let task = WorkingTask::current();
        let mut shard = self.shared.ledger.shard(self.shard);
        let before = match &mut shard.entries[self.place] {
            Some(entry) => std::mem::replace(&mut entry.task, task),
            None => unreachable!("L1"),
        };
        drop(shard);
        drop(before);
    }
}

impl Drop for WorkGuard {
    fn drop(&mut self) {
        let mut shard = self.shared.ledger.shard(self.shard);
        let entry = shard.remove(self.place);
        let is_last = shard.len() == 0;
        drop(shard);
        drop(entry);
        if is_last && self.shared.token.is_cancelled() {
            self.shared.progress.notify_waiters(); // L3
        }
    }
}

impl fmt::Debug for WorkGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkGuard").finish_non_exhaustive()
    }
}
