//! Gives memory of ended tasks back, once nobody has used it for a while: the business of workers
//! that have nothing to do.
//!
//! One parked worker of the process, the watcher, wakes after a tenth of a second while there is a
//! surplus. If no thread has passed kept memory on since, it gives some back each time it parks, and
//! sleeps for short times only until all is given back. So after a burst of tasks an idle runtime
//! gives its memory back within a second or two, and then sleeps for good.
//!
//! A surplus that arises while all workers sleep (threads that are none end the last references to
//! many tasks) waits until a worker parks again. It is bounded.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use blitzen_task::kept_memory;

/// How long memory has to be unused before it is given back.
const UNUSED_FOR: Duration = Duration::from_millis(100);

/// How long the watcher gives memory back before it looks for events again, and how long it sleeps
/// in between.
const AT_ONCE_NS: u64 = 200_000;
const BETWEEN: Duration = Duration::from_millis(2);

/// Whether a parked worker watches. Relaxed: nothing else depends on it.
static HAS_WATCHER: AtomicBool = AtomicBool::new(false);

/// What a worker knows of the memory that is kept.
#[derive(Default)]
pub(crate) struct IdleMemory {
    last_use: Cell<Option<LastUse>>,
}

#[derive(Clone, Copy)]
struct LastUse {
    use_count: usize,
    /// When the worker has first seen that count.
    seen_ns: u64,
}

/// Makes the calling thread the watcher, until it is dropped.
pub(crate) struct Watch {
    pub(crate) max_sleep: Duration,
}

impl Drop for Watch {
    fn drop(&mut self) {
        HAS_WATCHER.store(false, Relaxed);
    }
}

impl IdleMemory {
    /// Gives memory back if it was unused for long enough; stops soon when `is_needed` says that the
    /// worker has something else to do. Returns a watch if the worker is the watcher for its sleep.
    #[inline]
    pub(crate) fn before_sleep(
        &self,
        now_ns: impl Fn() -> u64,
        is_needed: impl Fn() -> bool,
    ) -> Option<Watch> {
        match kept_memory::has_surplus() && !HAS_WATCHER.swap(true, Relaxed) {
            true => self.watch(now_ns, is_needed),
            false => None,
        }
    }

    #[cold]
    fn watch(&self, now_ns: impl Fn() -> u64, is_needed: impl Fn() -> bool) -> Option<Watch> {
        let mut watch = Watch {
            max_sleep: UNUSED_FOR,
        };
        let (use_count, start_ns) = (kept_memory::use_count(), now_ns());
        let last_use = self.last_use.get();
        let last_use = last_use.filter(|last| last.use_count == use_count);
        let seen_ns = last_use.map_or(start_ns, |last| last.seen_ns);
        self.last_use.set(Some(LastUse { use_count, seen_ns }));
        let unused = Duration::from_nanos(start_ns.saturating_sub(seen_ns));
        if unused < UNUSED_FOR {
            watch.max_sleep = UNUSED_FOR - unused;
            return Some(watch);
        }
        watch.max_sleep = BETWEEN;
        while kept_memory::has_surplus() {
            kept_memory::give_back();
            if is_needed() || now_ns().saturating_sub(start_ns) > AT_ONCE_NS {
                return Some(watch);
            }
        }
        None
    }
}
