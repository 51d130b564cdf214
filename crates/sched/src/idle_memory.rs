//! Gives memory of ended tasks back, once nobody has used it for a while: the business of workers
//! that have nothing to do.
//!
//! While there is a surplus, one parked worker of the process, the watcher, wakes after a tenth of a
//! second. What no thread has used in that time it gives back, in portions, between which it sleeps for
//! a moment. So after a burst of tasks an idle runtime gives its memory back within a second or so, and
//! then sleeps for good. Other workers that park meanwhile look every second whether there still is a
//! watcher.
//!
//! A surplus that arises while all workers sleep waits until one of them parks again: other threads may
//! drop the last references to many tasks.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use blitzen_task::kept_memory;

/// How long memory has to be unused before it is given back.
const PERIOD: Duration = Duration::from_millis(100);
const PERIOD_NS: u64 = PERIOD.as_nanos() as u64;

/// How long the watcher gives memory back before it looks for events again, and how long it sleeps
/// in between.
const PORTION_NS: u64 = 100_000;
const BETWEEN_PORTIONS: Duration = Duration::from_millis(2);

/// How long a parked worker sleeps that is not the watcher.
const WITHOUT_WATCHING: Duration = Duration::from_secs(1);

/// Whether a parked worker watches. Relaxed: nothing else depends on it.
static HAS_WATCHER: AtomicBool = AtomicBool::new(false);

/// What a worker knows of the memory that is kept.
#[derive(Default)]
pub(crate) struct IdleMemory {
    is_watcher: Cell<bool>,
    /// When it has begun a period.
    period_start_ns: Cell<Option<u64>>,
}

impl IdleMemory {
    /// Gives memory back if it was unused for long enough; stops soon when `is_needed` says that the
    /// worker has something else to do. Returns how long the worker may sleep at most.
    #[inline]
    pub(crate) fn before_sleep(
        &self,
        now_ns: impl Fn() -> u64,
        is_needed: impl Fn() -> bool,
    ) -> Option<Duration> {
        match kept_memory::has_surplus() {
            true => self.watch(now_ns, is_needed),
            false => None,
        }
    }

    #[cold]
    fn watch(&self, now_ns: impl Fn() -> u64, is_needed: impl Fn() -> bool) -> Option<Duration> {
        if HAS_WATCHER.load(Relaxed) || HAS_WATCHER.swap(true, Relaxed) {
            return Some(WITHOUT_WATCHING);
        }
        self.is_watcher.set(true);
        let start_ns = now_ns();
        if let Some(period_start_ns) = self.period_start_ns.get() {
            let passed_ns = start_ns.saturating_sub(period_start_ns);
            if passed_ns < PERIOD_NS {
                return Some(Duration::from_nanos(PERIOD_NS - passed_ns));
            }
            while kept_memory::give_back_some() {
                if is_needed() || now_ns().saturating_sub(start_ns) > PORTION_NS {
                    return Some(BETWEEN_PORTIONS);
                }
            }
            if !kept_memory::has_surplus() {
                self.period_start_ns.set(None);
                self.end_watch();
                return None;
            }
        }
        kept_memory::start_period();
        self.period_start_ns.set(Some(start_ns));
        Some(PERIOD)
    }

    /// Notes that the worker does not sleep any more.
    #[inline]
    pub(crate) fn end_watch(&self) {
        if self.is_watcher.take() {
            HAS_WATCHER.store(false, Relaxed);
        }
    }
}

impl Drop for IdleMemory {
    fn drop(&mut self) {
        self.end_watch();
    }
}
