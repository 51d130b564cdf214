//! A number for every thread, by which threads choose among shards.

use std::cell::Cell;
// Not loom's: which lane a thread gets is no part of any protocol.
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

thread_local! {
    static LANE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The number of the calling thread, always the same one: the first thread that asks
/// gets 0, the next 1, so that they spread evenly over any number of shards.
///
/// ```
/// use blitzen_util::lane::lane;
///
/// let own = lane();
/// assert_eq!(lane(), own);
/// assert_ne!(std::thread::spawn(lane).join().unwrap(), own);
/// ```
pub fn lane() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    LANE.with(|lane| {
        lane.get().unwrap_or_else(|| {
            let next = NEXT.fetch_add(1, Relaxed);
            lane.set(Some(next));
            next
        })
    })
}
