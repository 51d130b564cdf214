//! How many stacks there are. The counts are of the process: threads of all runtimes share the
//! stacks that no fiber uses.

// Not loom's: they are no part of any protocol.
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

use blitzen_util::pad::Padded;
use blitzen_util::thread_shard::thread_shard;

/// A number of shards, so that threads that start fibers seldom write the same line.
const SHARDS: usize = 16;

/// A count that many threads change. A shard may be negative: a stack may be taken on one
/// thread and come back on another.
pub(crate) struct ShardedCount([Padded<AtomicI64>; SHARDS]);

impl ShardedCount {
    const fn new() -> Self {
        Self([const { Padded(AtomicI64::new(0)) }; SHARDS])
    }

    pub(crate) fn add(&self, change: i64) {
        self.0[thread_shard() % SHARDS].fetch_add(change, Relaxed);
    }

    fn get(&self) -> u64 {
        let sum: i64 = self.0.iter().map(|shard| shard.load(Relaxed)).sum();
        sum.max(0) as u64
    }
}

/// Stacks that a fiber uses, or a thread keeps.
pub(crate) static TAKEN: ShardedCount = ShardedCount::new();
pub(crate) static CREATED: ShardedCount = ShardedCount::new();

/// The numbers of stacks of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StackCounts {
    /// Stacks that a fiber uses.
    pub live: u64,
    /// Stacks that a thread keeps for its next fibers.
    pub cached: u64,
    /// Stacks that were ever set up.
    pub created: u64,
}

/// Returns the numbers of stacks of the process.
pub fn stack_counts() -> StackCounts {
    let cached = crate::cached_stacks();
    let taken = TAKEN.get();
    StackCounts {
        live: taken.saturating_sub(cached),
        cached,
        created: CREATED.get(),
    }
}
