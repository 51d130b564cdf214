//! What can be read of a runtime while it runs.

use std::fmt;
use std::time::Duration;

pub use blitzen_observe::{Stats, WorkerStats};

use super::handle::Handle;

/// Counts of what a runtime does, readable at any time without stopping anything.
///
/// ```
/// let runtime = blitzen::runtime::Runtime::new().unwrap();
/// let metrics = runtime.metrics();
/// runtime.block_on(runtime.spawn(async {})).unwrap();
/// assert_eq!(metrics.stats().total_spawned(), 1);
/// ```
#[derive(Clone)]
pub struct RuntimeMetrics {
    handle: Handle,
}

impl RuntimeMetrics {
    pub(crate) fn new(handle: Handle) -> Self {
        Self { handle }
    }

    fn worker(&self, worker: usize) -> WorkerStats {
        self.handle.inner.scheduler().counters(worker).read()
    }

    /// Every count of the scheduler, by worker and in total.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let stats = runtime.metrics().stats();
    /// assert_eq!(stats.workers.len(), runtime.metrics().num_workers());
    /// ```
    pub fn stats(&self) -> Stats {
        self.handle.inner.scheduler().stats()
    }

    /// How many workers run tasks.
    ///
    /// ```
    /// let runtime = blitzen::runtime::Builder::new_multi_thread()
    ///     .worker_threads(2)
    ///     .build()
    ///     .unwrap();
    /// assert_eq!(runtime.metrics().num_workers(), 2);
    /// ```
    pub fn num_workers(&self) -> usize {
        self.handle.inner.scheduler().workers()
    }

    /// How many tasks have not ended.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// runtime.spawn(std::future::pending::<()>());
    /// assert_eq!(runtime.metrics().num_alive_tasks(), 1);
    /// ```
    pub fn num_alive_tasks(&self) -> usize {
        self.handle.inner.scheduler().alive_tasks()
    }

    /// How many tasks wait in the queue for those that come from outside.
    ///
    /// ```
    /// let runtime = blitzen::runtime::Builder::new_current_thread().build().unwrap();
    /// runtime.spawn(async {});
    /// assert_eq!(runtime.metrics().global_queue_depth(), 1);
    /// ```
    pub fn global_queue_depth(&self) -> usize {
        self.handle.inner.scheduler().global_queue_depth()
    }

    /// How many tasks wait in a worker's own queue.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().worker_local_queue_depth(0), 0);
    /// ```
    #[track_caller]
    pub fn worker_local_queue_depth(&self, worker: usize) -> usize {
        self.handle.inner.scheduler().local_queue_depth(worker)
    }

    /// How often a worker went to sleep.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// assert!(runtime.metrics().worker_park_count(0) >= 1);
    /// ```
    #[track_caller]
    pub fn worker_park_count(&self, worker: usize) -> u64 {
        self.worker(worker).park_events
    }

    /// How often a worker went to sleep or woke: odd while it sleeps.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().worker_park_unpark_count(0), 1);
    /// ```
    #[track_caller]
    pub fn worker_park_unpark_count(&self, worker: usize) -> u64 {
        let stats = self.worker(worker);
        stats.park_events + stats.unpark_events
    }

    /// How long a worker was awake, not counting the time since it last woke.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let _busy = runtime.metrics().worker_total_busy_duration(0);
    /// ```
    #[track_caller]
    pub fn worker_total_busy_duration(&self, worker: usize) -> Duration {
        self.worker(worker).busy()
    }

    /// How many tasks were put into the queue for those that come from outside.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// runtime.spawn(async {});
    /// assert_eq!(runtime.metrics().remote_schedule_count(), 1);
    /// ```
    pub fn remote_schedule_count(&self) -> u64 {
        self.stats().remote_schedules
    }

    /// How many threads the blocking pool has.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().num_blocking_threads(), 0);
    /// ```
    pub fn num_blocking_threads(&self) -> usize {
        self.handle.inner.pool().threads()
    }

    /// How many of them have nothing to do.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().num_idle_blocking_threads(), 0);
    /// ```
    pub fn num_idle_blocking_threads(&self) -> usize {
        self.handle.inner.pool().idle_threads()
    }

    /// How many pieces of blocking work wait for a thread.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().blocking_queue_depth(), 0);
    /// ```
    pub fn blocking_queue_depth(&self) -> usize {
        self.handle.inner.pool().queued()
    }
}

impl fmt::Debug for RuntimeMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeMetrics")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
