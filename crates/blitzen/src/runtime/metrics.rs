//! The metrics of a runtime.

use std::fmt;
use std::time::Duration;

pub use blitzen_observe::{Stats, WorkerStats};

use super::handle::Handle;

/// A view of the metrics of a runtime, which can be read at any time without stopping anything.
///
/// [`Runtime::metrics`](super::Runtime::metrics) and [`Handle::metrics`] return it. Counts only grow.
/// Each number is read by itself, so that two of them may belong to different moments.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::Runtime;
///
/// let runtime = Runtime::new().unwrap();
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

    /// Returns every count of the scheduler, for each worker and in total.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let stats = runtime.metrics().stats();
    /// assert_eq!(stats.workers.len(), runtime.metrics().num_workers());
    /// ```
    pub fn stats(&self) -> Stats {
        self.handle.inner.scheduler().stats()
    }

    /// Returns the number of workers, whether or not their threads have started.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
    /// assert_eq!(runtime.metrics().num_workers(), 2);
    /// ```
    pub fn num_workers(&self) -> usize {
        self.handle.inner.scheduler().workers()
    }

    /// Returns the number of tasks that were spawned and have not ended.
    ///
    /// Blocking code and the futures of `block_on` are not counted.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// runtime.spawn(std::future::pending::<()>());
    /// assert_eq!(runtime.metrics().num_alive_tasks(), 1);
    /// ```
    pub fn num_alive_tasks(&self) -> usize {
        self.handle.inner.scheduler().alive_tasks()
    }

    /// Returns the number of tasks in the global queue, where those wait that were spawned or
    /// woken outside the workers.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().build().unwrap();
    /// runtime.spawn(async {});
    /// assert_eq!(runtime.metrics().global_queue_depth(), 1);
    /// ```
    pub fn global_queue_depth(&self) -> usize {
        self.handle.inner.scheduler().global_queue_depth()
    }

    /// Returns the number of tasks in the local queue of the worker with the index `worker`.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().worker_local_queue_depth(0), 0);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no worker with the index `worker`.
    #[track_caller]
    pub fn worker_local_queue_depth(&self, worker: usize) -> usize {
        self.handle.inner.scheduler().local_queue_depth(worker)
    }

    /// Returns how often the worker with the index `worker` has parked.
    ///
    /// A worker that has not started counts as parked once.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert!(runtime.metrics().worker_park_count(0) >= 1);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no worker with the index `worker`.
    #[track_caller]
    pub fn worker_park_count(&self, worker: usize) -> u64 {
        self.worker(worker).park_events
    }

    /// Returns how often the worker with the index `worker` has parked or been unparked.
    ///
    /// The number is odd while it is parked.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().worker_park_unpark_count(0), 1);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no worker with the index `worker`.
    #[track_caller]
    pub fn worker_park_unpark_count(&self, worker: usize) -> u64 {
        let stats = self.worker(worker);
        stats.park_events + stats.unpark_events
    }

    /// Returns how long the worker with the index `worker` was not parked.
    ///
    /// The time since it was last unparked is not included.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().worker_total_busy_duration(0), Duration::ZERO);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no worker with the index `worker`.
    #[track_caller]
    pub fn worker_total_busy_duration(&self, worker: usize) -> Duration {
        self.worker(worker).busy()
    }

    /// Returns how many tasks were put into the global queue by threads that are not workers of
    /// the runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// runtime.spawn(async {});
    /// assert_eq!(runtime.metrics().remote_schedule_count(), 1);
    /// ```
    pub fn remote_schedule_count(&self) -> u64 {
        self.stats().remote_schedules
    }

    /// Returns the number of threads of the blocking pool.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().num_blocking_threads(), 0);
    /// ```
    pub fn num_blocking_threads(&self) -> usize {
        self.handle.inner.pool().threads()
    }

    /// Returns the number of threads of the blocking pool that wait for work.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().num_idle_blocking_threads(), 0);
    /// ```
    pub fn num_idle_blocking_threads(&self) -> usize {
        self.handle.inner.pool().idle_threads()
    }

    /// Returns the number of calls of `spawn_blocking` that wait for a thread of the blocking
    /// pool.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
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
