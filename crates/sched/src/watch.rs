//! Looking after workers that are stuck in a poll.
//!
//! A task that blocks must not take along what waits behind it: the tasks in
//! its worker's queue, and that worker's timers and sockets. So about once a
//! millisecond somebody looks whether a worker's tick stands still, and serves
//! what is due there. Busy workers do it in passing. When some workers sleep,
//! one of them, the *watcher*, sleeps no longer than a millisecond at a time;
//! when all of them have slept for a while, it sleeps without a limit too.
//!
//! W1. While a worker runs, another one watches or runs. A worker that wakes
//!     and finds no watcher appoints one.

use blitzen_util::shim::Mutex;
use blitzen_util::shim::atomic::Ordering::Relaxed;
use blitzen_util::shim::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

/// How long a task may wait behind a poll that does not end.
pub(crate) const PERIOD: Duration = Duration::from_millis(1);
const PERIOD_NS: u64 = PERIOD.as_nanos() as u64;

/// Looks at a sleeping crew before the watcher goes to sleep as well.
const LINGER: u32 = 50;

/// No worker watches.
const NOBODY: usize = usize::MAX;

/// The duty roster.
pub(crate) struct Watch {
    watcher: AtomicUsize,
    /// When the next look is due.
    due_ns: AtomicU64,
    /// What the last look saw.
    seen: Mutex<Vec<Option<u32>>>,
}

impl Watch {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            watcher: AtomicUsize::new(NOBODY),
            due_ns: AtomicU64::new(0),
            seen: Mutex::new(vec![None; workers]),
        }
    }

    /// A worker goes to sleep: whether it is, or becomes, the watcher. The
    /// highest of the sleepers should be, since the lowest is woken first.
    pub(crate) fn volunteer(&self, worker: usize) -> bool {
        let watcher = self.watcher.load(Relaxed);
        watcher == worker
            || (watcher == NOBODY || watcher < worker)
                && self
                    .watcher
                    .compare_exchange(watcher, worker, Relaxed, Relaxed)
                    .is_ok()
    }

    /// A worker stops watching: it runs, or everybody has slept long enough.
    pub(crate) fn resign(&self, worker: usize) {
        // Fails if it was not the watcher.
        let _ = self
            .watcher
            .compare_exchange(worker, NOBODY, Relaxed, Relaxed);
    }

    /// Whether this worker watches.
    pub(crate) fn is_watcher(&self, worker: usize) -> bool {
        self.watcher.load(Relaxed) == worker
    }

    /// A worker woke: makes the highest sleeper the watcher if there is none,
    /// and returns it to be interrupted (W1).
    #[inline]
    pub(crate) fn appoint(&self, highest_sleeper: impl FnOnce() -> Option<usize>) -> Option<usize> {
        if self.watcher.load(Relaxed) != NOBODY {
            return None;
        }
        let worker = highest_sleeper()?;
        self.watcher
            .compare_exchange(NOBODY, worker, Relaxed, Relaxed)
            .is_ok()
            .then_some(worker)
    }

    /// Whether the caller should look now; then nobody else does for a while.
    #[inline]
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        let due = self.due_ns.load(Relaxed);
        now_ns >= due
            && self
                .due_ns
                .compare_exchange(due, now_ns + PERIOD_NS, Relaxed, Relaxed)
                .is_ok()
    }

    /// Calls `stuck` for every worker that runs and whose tick is the same as
    /// at the last look.
    pub(crate) fn look(
        &self,
        tick_of_running: impl Fn(usize) -> Option<u32>,
        mut stuck: impl FnMut(usize),
    ) {
        // Somebody else is looking: that will do.
        let Some(mut seen) = self.seen.try_lock() else {
            return;
        };
        for (worker, seen) in seen.iter_mut().enumerate() {
            let tick = tick_of_running(worker);
            if std::mem::replace(seen, tick) == tick && tick.is_some() {
                stuck(worker);
            }
        }
    }
}

/// How long a watcher has seen everybody asleep.
#[derive(Debug, Default)]
pub(crate) struct Quiet(std::cell::Cell<u32>);

impl Quiet {
    /// Another look; true when it has been quiet for long enough.
    pub(crate) fn still(&self, everybody_sleeps: bool) -> bool {
        self.0.set(if everybody_sleeps {
            self.0.get() + 1
        } else {
            0
        });
        self.0.get() >= LINGER
    }

    /// Somebody woke.
    pub(crate) fn reset(&self) {
        self.0.set(0);
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_highest_sleeper_watches() {
        let watch = Watch::new(4);
        assert!(watch.volunteer(1));
        assert!(watch.volunteer(3));
        assert!(!watch.volunteer(2) && !watch.is_watcher(1));
        watch.resign(1);
        assert!(watch.is_watcher(3));
        watch.resign(3);
        assert_eq!(watch.appoint(|| Some(2)), Some(2));
        assert_eq!(watch.appoint(|| Some(1)), None);
    }

    #[test]
    fn a_look_is_due_once_a_period() {
        let watch = Watch::new(1);
        assert!(watch.is_due(5));
        assert!(!watch.is_due(5 + PERIOD_NS - 1));
        assert!(watch.is_due(5 + PERIOD_NS));
    }

    #[test]
    fn only_a_running_worker_whose_tick_stands_still_is_stuck() {
        let watch = Watch::new(3);
        let look = |ticks: [Option<u32>; 3]| {
            let mut stuck = Vec::new();
            watch.look(|worker| ticks[worker], |worker| stuck.push(worker));
            stuck
        };
        assert!(look([Some(5), Some(7), None]).is_empty());
        assert_eq!(look([Some(5), Some(8), None]), [0]);
        assert!(look([None, Some(9), Some(3)]).is_empty());
        assert!(look([Some(5), Some(10), None]).is_empty());
    }
}
