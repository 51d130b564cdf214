//! When tasks were queued: kept beside the tasks, which have no room for it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, PoisonError};

use blitzen_util::pad::Padded;

/// Threads that wake tasks at the same time seldom meet in one of so many locks.
const SHARDS: usize = 16;

/// The moment at which each task was queued that waits to be polled.
///
/// ```
/// let stamps = blitzen_observe::WakeStamps::default();
/// stamps.set(7, 1_000);
/// assert_eq!(stamps.take(7), Some(1_000));
/// assert_eq!(stamps.take(7), None);
/// ```
#[derive(Debug, Default)]
pub struct WakeStamps {
    shards: [Padded<Mutex<StampMap>>; SHARDS],
}

type StampMap = HashMap<u64, u64, BuildHasherDefault<IdHasher>>;

impl WakeStamps {
    /// Notes that the task with the number `id` was queued at `now_ns`.
    ///
    /// ```
    /// let stamps = blitzen_observe::WakeStamps::default();
    /// stamps.set(7, 1_000);
    /// assert_eq!(stamps.take(7), Some(1_000));
    /// ```
    pub fn set(&self, id: u64, now_ns: u64) {
        self.with(id, |shard| shard.insert(id, now_ns));
    }

    /// Returns when a task was queued that is about to be polled, and forgets it.
    ///
    /// ```
    /// assert_eq!(blitzen_observe::WakeStamps::default().take(7), None);
    /// ```
    pub fn take(&self, id: u64) -> Option<u64> {
        self.with(id, |shard| shard.remove(&id))
    }

    /// Forgets all tasks.
    ///
    /// ```
    /// let stamps = blitzen_observe::WakeStamps::default();
    /// stamps.set(7, 1_000);
    /// stamps.clear();
    /// assert_eq!(stamps.take(7), None);
    /// ```
    pub fn clear(&self) {
        for shard in &self.shards {
            *shard.lock().unwrap_or_else(PoisonError::into_inner) = StampMap::default();
        }
    }

    fn with<R>(&self, id: u64, visit: impl FnOnce(&mut StampMap) -> R) -> R {
        let shard = self.shards[id as usize % SHARDS].lock();
        visit(&mut shard.unwrap_or_else(PoisonError::into_inner))
    }
}

/// Spreads the numbers of tasks, which follow each other, over a table.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write_u64(&mut self, id: u64) {
        self.0 = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("the numbers of tasks are u64");
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_task_has_the_stamp_of_its_last_wake() {
        let stamps = WakeStamps::default();
        for id in 0..1_000 {
            stamps.set(id, id);
            stamps.set(id, id + 5);
        }
        for id in 0..1_000 {
            assert_eq!(stamps.take(id), Some(id + 5));
            assert_eq!(stamps.take(id), None);
        }
        assert!(
            stamps
                .shards
                .iter()
                .all(|shard| shard.lock().unwrap().is_empty())
        );
    }
}
