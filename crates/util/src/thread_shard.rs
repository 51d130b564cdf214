//! A number for every thread, by which threads choose among shards.

use std::cell::Cell;
// Not loom's: which shard a thread gets is no part of any protocol.
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

thread_local! {
    static SHARD: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Returns the number of the calling thread, always the same one. The first thread
/// that calls this gets 0, the next one 1, so that threads spread evenly over any
/// number of shards.
///
/// ```
/// use blitzen_util::thread_shard::thread_shard;
///
/// let own = thread_shard();
/// assert_eq!(thread_shard(), own);
/// assert_ne!(std::thread::spawn(thread_shard).join().unwrap(), own);
/// ```
pub fn thread_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    SHARD.with(|shard| {
        shard.get().unwrap_or_else(|| {
            let next = NEXT.fetch_add(1, Relaxed);
            shard.set(Some(next));
            next
        })
    })
}
