//! Gives memory of ended tasks back, once nobody has used it for a while: the business of workers
//! that are parked, each for all.
//!
//! A worker that parks while there is a surplus wakes after a tenth of a second. If no thread has
//! used the memory since, it gives some back, and parks again. So a runtime that is idle gives back
//! all of the surplus within a second, and then sleeps for good. The memory is the process's: what a
//! runtime leaves when it ends is used, or given back, by the others and by the next one.

use std::time::Duration;

use blitzen_task::kept_memory;

/// How long memory has to be unused before some of it is given back.
const UNUSED_FOR: Duration = Duration::from_millis(100);

/// A surplus that a parked worker has an eye on.
pub(crate) struct SurplusWatch {
    use_count: usize,
    since_ns: u64,
}

impl SurplusWatch {
    /// Starts at `now_ns`; `None` if there is no surplus.
    #[inline]
    pub(crate) fn start(now_ns: u64) -> Option<Self> {
        kept_memory::has_surplus().then(|| Self {
            use_count: kept_memory::use_count(),
            since_ns: now_ns,
        })
    }

    /// Returns how long the worker may wait.
    pub(crate) fn max_wait(&self) -> Duration {
        UNUSED_FOR
    }

    /// Gives some memory back if none was used for long enough until `now_ns`.
    pub(crate) fn end(self, now_ns: u64) {
        let waited = Duration::from_nanos(now_ns.saturating_sub(self.since_ns));
        if waited >= UNUSED_FOR && kept_memory::use_count() == self.use_count {
            kept_memory::give_back();
        }
    }
}
