//! The metrics of a runtime.

use std::fmt;
use std::ops::Range;
use std::thread::ThreadId;
use std::time::Duration;

use blitzen_observe::{Histogram, HistogramCounts, LintKind};
use blitzen_sched::Observation;

pub use blitzen_observe::{Stats, WorkerStats};

use super::handle::{Handle, RuntimeFlavor};
use super::prometheus;

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

    /// Returns the number of coroutines that have started and not ended.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::{channel::oneshot, coro, runtime::Handle};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let (started, starting) = oneshot::channel();
    /// // SAFETY: no thread-locals.
    /// let waiting = unsafe {
    ///     coro::spawn(move || {
    ///         started.send(()).unwrap();
    ///         coro::block_on(std::future::pending::<()>());
    ///     })
    /// };
    /// starting.await.unwrap();
    /// assert_eq!(Handle::current().metrics().num_pinned_coroutines(), 1);
    /// waiting.abort();
    /// # });
    /// ```
    #[cfg(feature = "coro")]
    pub fn num_pinned_coroutines(&self) -> usize {
        self.handle.inner.scheduler().pinned_tasks()
    }

    /// Returns the number of stacks that coroutines of this process use, in all runtimes.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::coro;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// // SAFETY: no thread-locals.
    /// unsafe { coro::spawn(coro::yield_now) }.await.unwrap();
    /// let metrics = blitzen::runtime::Handle::current().metrics();
    /// let _ = metrics.coroutine_stacks_live();
    /// # });
    /// ```
    #[cfg(feature = "coro")]
    pub fn coroutine_stacks_live(&self) -> u64 {
        blitzen_stack::stack_counts().live
    }

    /// Returns the number of stacks that threads of this process keep for their next coroutines.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::coro;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// // SAFETY: no thread-locals.
    /// unsafe { coro::spawn(coro::yield_now) }.await.unwrap();
    /// let metrics = blitzen::runtime::Handle::current().metrics();
    /// let _ = metrics.coroutine_stacks_cached();
    /// # });
    /// ```
    #[cfg(feature = "coro")]
    pub fn coroutine_stacks_cached(&self) -> u64 {
        blitzen_stack::stack_counts().cached
    }

    /// Returns the number of stacks that were ever set up in this process.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::coro;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// // SAFETY: no thread-locals.
    /// unsafe { coro::spawn(coro::yield_now) }.await.unwrap();
    /// let metrics = blitzen::runtime::Handle::current().metrics();
    /// assert!(metrics.coroutine_stacks_created() >= 1);
    /// # });
    /// ```
    #[cfg(feature = "coro")]
    pub fn coroutine_stacks_created(&self) -> u64 {
        blitzen_stack::stack_counts().created
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

    /// Returns the number of tasks in the local queue of the worker with the index `worker`,
    /// without the newest one, which is to run next.
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
        self.handle.inner.scheduler().ring_depth(worker)
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

    /// Returns the number of tasks that were spawned.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// runtime.spawn(async {});
    /// assert_eq!(runtime.metrics().spawned_tasks_count(), 1);
    /// ```
    pub fn spawned_tasks_count(&self) -> u64 {
        self.stats().total_spawned()
    }

    /// Returns how often a task, or the future of `block_on`, was made to yield because its
    /// cooperative budget was used up.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().budget_forced_yield_count(), 0);
    /// ```
    pub fn budget_forced_yield_count(&self) -> u64 {
        self.handle.inner.world().forced_yields().get()
    }

    /// Returns the id of the thread that runs the worker with the index `worker`, or ran it last.
    ///
    /// A worker that has not started has no thread. One whose task blocks may move to another.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().worker_thread_id(0), None, "it has not started");
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no worker with the index `worker`.
    #[track_caller]
    pub fn worker_thread_id(&self, worker: usize) -> Option<ThreadId> {
        self.handle.inner.scheduler().thread_id(worker)
    }

    /// Returns how often the worker with the index `worker` was unparked and found no task.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().worker_noop_count(0), 0);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no worker with the index `worker`.
    #[track_caller]
    pub fn worker_noop_count(&self, worker: usize) -> u64 {
        self.worker(worker).idle_wakes
    }

    /// Returns how many tasks the worker with the index `worker` has stolen from others.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().worker_steal_count(0), 0);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no worker with the index `worker`.
    #[track_caller]
    pub fn worker_steal_count(&self, worker: usize) -> u64 {
        self.worker(worker).tasks_stolen
    }

    /// Returns how often the worker with the index `worker` has stolen tasks from another.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().worker_steal_operations(0), 0);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no worker with the index `worker`.
    #[track_caller]
    pub fn worker_steal_operations(&self, worker: usize) -> u64 {
        self.worker(worker).steal_successes
    }

    /// Returns how many tasks the worker with the index `worker` has polled.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().worker_poll_count(0), 0);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no worker with the index `worker`.
    #[track_caller]
    pub fn worker_poll_count(&self, worker: usize) -> u64 {
        self.worker(worker).polls
    }

    /// Returns how many tasks the worker with the index `worker` has put into its own queue.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().worker_local_schedule_count(0), 0);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no worker with the index `worker`.
    #[track_caller]
    pub fn worker_local_schedule_count(&self, worker: usize) -> u64 {
        self.worker(worker).local_schedules
    }

    /// Returns how often the queue of the worker with the index `worker` was full.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().worker_overflow_count(0), 0);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no worker with the index `worker`.
    #[track_caller]
    pub fn worker_overflow_count(&self, worker: usize) -> u64 {
        self.worker(worker).inject_queue_overflows
    }

    /// Returns how long a poll of the worker with the index `worker` takes on average, over the
    /// polls that were sampled. It is zero for a current-thread runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert!(runtime.metrics().worker_mean_poll_time(0).is_zero(), "no task was polled");
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no worker with the index `worker`.
    #[track_caller]
    pub fn worker_mean_poll_time(&self, worker: usize) -> Duration {
        let average = self.worker(worker).average_run();
        match self.handle.runtime_flavor() {
            RuntimeFlavor::MultiThread => average,
            // As in Tokio.
            _ => Duration::ZERO,
        }
    }

    /// Returns how long polls take, over all workers and other threads that poll tasks: what was
    /// counted while the histogram was on. The histogram is empty if it never was.
    ///
    /// A poll that has left its worker to `block_in_place` is not counted.
    ///
    /// [`Handle::set_poll_times`] and
    /// [`Builder::enable_metrics_poll_time_histogram`](super::Builder::enable_metrics_poll_time_histogram)
    /// switch it on.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().build().unwrap();
    /// runtime.handle().set_poll_times(true);
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// let polls = runtime.metrics().poll_times();
    /// println!("{} polls, p99 {:?}", polls.count(), polls.quantile(0.99));
    /// # assert_eq!(polls.count(), 1);
    /// ```
    pub fn poll_times(&self) -> Histogram {
        self.observation().all_poll_times()
    }

    /// Returns how long tasks wait from being spawned or woken until they are polled, over all
    /// workers and other threads that poll tasks: what was counted while the histogram was on. The
    /// histogram is empty if it never was.
    ///
    /// [`Handle::set_schedule_delays`] and
    /// [`Builder::enable_metrics_schedule_latency_histogram`](super::Builder::enable_metrics_schedule_latency_histogram)
    /// switch it on.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().build().unwrap();
    /// runtime.handle().set_schedule_delays(true);
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// let delays = runtime.metrics().schedule_delays();
    /// println!("a task waits {:?} at the most", delays.quantile(1.0));
    /// # assert_eq!(delays.count(), 1);
    /// ```
    pub fn schedule_delays(&self) -> Histogram {
        self.observation().all_schedule_delays()
    }

    /// Writes all metrics in the text format of OpenMetrics, which Prometheus and the collector
    /// of OpenTelemetry read.
    ///
    /// Serve it with the content type
    /// `application/openmetrics-text; version=1.0.0; charset=utf-8`. Each sample has the label
    /// `runtime`, the name that was given to [`Builder::name`](super::Builder::name) or the id of
    /// the runtime. Histograms are written if they are on.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = blitzen::runtime::Builder::new_current_thread().name("api").build().unwrap();
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// let mut page = String::new();
    /// runtime.metrics().write_prometheus(&mut page)?;
    /// assert!(page.contains("polls_total{runtime=\"api\",worker=\"0\"} 1\n"));
    /// # Ok::<(), std::fmt::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of `out`.
    pub fn write_prometheus(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        prometheus::write(self, out)
    }

    /// Returns the number of lints of a kind that were found. They are looked for if somebody has
    /// asked for [lints](super::lint).
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::{Runtime, lint::LintKind};
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().lint_count(LintKind::Deadlock), 0);
    /// ```
    pub fn lint_count(&self, kind: LintKind) -> u64 {
        self.observation().lint_count(kind)
    }

    /// The label of the runtime.
    pub(super) fn runtime_label(&self) -> String {
        match self.handle.name() {
            Some(name) => name.to_owned(),
            None => self.handle.id().to_string(),
        }
    }

    fn observation(&self) -> &Observation {
        self.handle.inner.scheduler().observation()
    }

    /// Returns whether the histogram of poll times is on.
    ///
    /// See [`Builder::enable_metrics_poll_time_histogram`](super::Builder::enable_metrics_poll_time_histogram)
    /// and [`Handle::set_poll_times`].
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert!(!runtime.metrics().poll_time_histogram_enabled());
    /// ```
    pub fn poll_time_histogram_enabled(&self) -> bool {
        self.observation().has_poll_times()
    }

    /// Returns the number of buckets of the histogram of poll times, or 0 if there is none.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().poll_time_histogram_num_buckets(), 0);
    /// ```
    pub fn poll_time_histogram_num_buckets(&self) -> usize {
        let counts = self.observation().poll_times(0);
        counts.map_or(0, HistogramCounts::buckets)
    }

    /// Returns the poll times that the bucket `bucket` counts.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let range = runtime.metrics().poll_time_histogram_bucket_range(0);
    /// assert!(range.is_empty(), "there is no histogram");
    /// ```
    #[track_caller]
    pub fn poll_time_histogram_bucket_range(&self, bucket: usize) -> Range<Duration> {
        bucket_range(self.observation().poll_times(0), bucket)
    }

    /// Returns how many polls of the worker with the index `worker` the bucket `bucket` has
    /// counted.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().poll_time_histogram_bucket_count(0, 0), 0);
    /// ```
    #[track_caller]
    pub fn poll_time_histogram_bucket_count(&self, worker: usize, bucket: usize) -> u64 {
        let counts = self.observation().poll_times(worker);
        counts.map_or(0, |counts| counts.count(bucket))
    }

    /// Returns whether the histogram of schedule delays is on.
    ///
    /// See [`Builder::enable_metrics_schedule_latency_histogram`](super::Builder::enable_metrics_schedule_latency_histogram)
    /// and [`Handle::set_schedule_delays`].
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert!(!runtime.metrics().schedule_latency_histogram_enabled());
    /// ```
    pub fn schedule_latency_histogram_enabled(&self) -> bool {
        self.observation().has_schedule_delays()
    }

    /// Returns the number of buckets of the histogram of schedule delays, or 0 if there is none.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().schedule_latency_histogram_num_buckets(), 0);
    /// ```
    pub fn schedule_latency_histogram_num_buckets(&self) -> usize {
        let counts = self.observation().schedule_delays(0);
        counts.map_or(0, HistogramCounts::buckets)
    }

    /// Returns the schedule delays that the bucket `bucket` counts.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let range = runtime.metrics().schedule_latency_histogram_bucket_range(0);
    /// assert!(range.is_empty(), "there is no histogram");
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is a histogram without a bucket `bucket`.
    #[track_caller]
    pub fn schedule_latency_histogram_bucket_range(&self, bucket: usize) -> Range<Duration> {
        bucket_range(self.observation().schedule_delays(0), bucket)
    }

    /// Returns how many polls of the worker with the index `worker` the bucket `bucket` has
    /// counted, by how long their tasks had waited.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().schedule_latency_histogram_bucket_count(0, 0), 0);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is a histogram without a bucket `bucket`.
    #[track_caller]
    pub fn schedule_latency_histogram_bucket_count(&self, worker: usize, bucket: usize) -> u64 {
        let counts = self.observation().schedule_delays(worker);
        counts.map_or(0, |counts| counts.count(bucket))
    }

    /// Returns how many descriptors were registered with the pollers of the workers.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().io_driver_fd_registered_count(), 0);
    /// ```
    pub fn io_driver_fd_registered_count(&self) -> u64 {
        let world = self.handle.inner.world();
        world.sum_pollers(|poller| poller.counts().registered)
    }

    /// Returns how many descriptors were registered with the pollers of the workers and are not
    /// any more.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().io_driver_fd_deregistered_count(), 0);
    /// ```
    pub fn io_driver_fd_deregistered_count(&self) -> u64 {
        let world = self.handle.inner.world();
        // In this order: a source that comes in between is not subtracted.
        world.sum_pollers(|poller| {
            let live = poller.sources() as u64;
            poller.counts().registered.saturating_sub(live)
        })
    }

    /// Returns how many events the pollers of the workers have reported.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().io_driver_ready_count(), 0);
    /// ```
    pub fn io_driver_ready_count(&self) -> u64 {
        let world = self.handle.inner.world();
        world.sum_pollers(|poller| poller.counts().events)
    }

    /// The old name of [`num_alive_tasks`](Self::num_alive_tasks).
    #[doc(hidden)]
    #[deprecated = "use `num_alive_tasks`"]
    pub fn active_tasks_count(&self) -> usize {
        self.num_alive_tasks()
    }

    /// The old name of [`global_queue_depth`](Self::global_queue_depth).
    #[doc(hidden)]
    #[deprecated = "use `global_queue_depth`"]
    pub fn injection_queue_depth(&self) -> usize {
        self.global_queue_depth()
    }

    /// The old name of [`poll_time_histogram_enabled`](Self::poll_time_histogram_enabled).
    #[doc(hidden)]
    #[deprecated = "use `poll_time_histogram_enabled`"]
    pub fn poll_count_histogram_enabled(&self) -> bool {
        self.poll_time_histogram_enabled()
    }

    /// The old name of [`poll_time_histogram_num_buckets`](Self::poll_time_histogram_num_buckets).
    #[doc(hidden)]
    #[deprecated = "use `poll_time_histogram_num_buckets`"]
    pub fn poll_count_histogram_num_buckets(&self) -> usize {
        self.poll_time_histogram_num_buckets()
    }

    /// The old name of [`poll_time_histogram_bucket_range`](Self::poll_time_histogram_bucket_range).
    #[doc(hidden)]
    #[deprecated = "use `poll_time_histogram_bucket_range`"]
    #[track_caller]
    pub fn poll_count_histogram_bucket_range(&self, bucket: usize) -> Range<Duration> {
        self.poll_time_histogram_bucket_range(bucket)
    }

    /// The old name of [`poll_time_histogram_bucket_count`](Self::poll_time_histogram_bucket_count).
    #[doc(hidden)]
    #[deprecated = "use `poll_time_histogram_bucket_count`"]
    #[track_caller]
    pub fn poll_count_histogram_bucket_count(&self, worker: usize, bucket: usize) -> u64 {
        self.poll_time_histogram_bucket_count(worker, bucket)
    }
}

/// The durations that a bucket counts; none without a histogram.
fn bucket_range(counts: Option<&HistogramCounts>, bucket: usize) -> Range<Duration> {
    let range = counts.map_or(0..0, |counts| counts.range(bucket));
    Duration::from_nanos(range.start)..Duration::from_nanos(range.end)
}

impl fmt::Debug for RuntimeMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeMetrics")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
