//! How many stacks the threads keep. Each thread has a count of its own, which only it changes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

// Not loom's: they are no part of any protocol.
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The counts of the threads that keep stacks.
static CACHED: Mutex<Vec<Arc<AtomicU64>>> = Mutex::new(Vec::new());

fn cached() -> MutexGuard<'static, Vec<Arc<AtomicU64>>> {
    CACHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns how many stacks all threads keep.
pub(crate) fn cached_stacks() -> u64 {
    cached().iter().map(|count| count.load(Relaxed)).sum()
}

/// How many stacks a thread keeps. Only that thread changes it, so that this takes no atomic
/// operation but a store.
pub(crate) struct CachedCount(Arc<AtomicU64>);

impl CachedCount {
    /// A count for the calling thread.
    pub(crate) fn register() -> Self {
        let count = Arc::new(AtomicU64::new(0));
        cached().push(count.clone());
        Self(count)
    }

    #[inline]
    pub(crate) fn set(&self, count: usize) {
        self.0.store(count as u64, Relaxed);
    }
}

impl Drop for CachedCount {
    fn drop(&mut self) {
        cached().retain(|count| !Arc::ptr_eq(count, &self.0));
    }
}
