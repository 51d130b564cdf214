//! The metrics of a dispatcher.

use std::time::Duration;

use blitzen_sched::DispatcherStats;

use crate::runtime::Stats;

/// The metrics of a dispatcher.
///
/// [`Dispatcher::metrics`](super::Dispatcher::metrics) returns it.
///
/// # Examples
///
/// ```
/// use blitzen::dispatch::Dispatcher;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let two = Dispatcher::default().limited(2);
/// two.spawn(async {}).await.unwrap();
/// let metrics = two.metrics();
/// assert_eq!((metrics.submitted, metrics.polls), (1, 1));
/// # });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DispatcherMetrics {
    /// The tasks that were spawned on it.
    pub submitted: u64,
    /// The tasks that were spawned on it and have ended.
    pub completed: u64,
    /// The polls that it has begun, also of tasks that are there by
    /// [`with_dispatcher`](super::with_dispatcher).
    pub polls: u64,
    /// The tasks that wait for a poll.
    pub queued: usize,
    /// The tasks that are being polled. For threads of its own, the threads that are not
    /// asleep.
    pub running: usize,
    /// How long its polls have taken together. For views with a limit, and
    /// [`io`](super::Dispatcher::io), this is an estimate: some turns of its runners are timed. The
    /// polls that `with_dispatcher` has on a worker's own thread, for `io` and its views, are counted in
    /// `polls` and not timed.
    pub busy: Duration,
    /// How long tasks wait for a poll: a moving average, for which one task in 64 is timed. `None`
    /// until one was. Workers and threads of its own are not timed here:
    /// [`Handle::set_schedule_delays`](crate::runtime::Handle::set_schedule_delays) has those of a
    /// runtime measured.
    pub queue_delay: Option<Duration>,
}

impl DispatcherMetrics {
    pub(super) fn of_dispatcher(stats: DispatcherStats) -> Self {
        Self {
            submitted: stats.submitted,
            completed: stats.completed,
            polls: stats.polls,
            queued: stats.queued,
            running: stats.running,
            busy: Duration::from_nanos(stats.busy_ns),
            queue_delay: stats.queue_delay_ns.map(Duration::from_nanos),
        }
    }

    /// Of the workers of a runtime, of which `running` are not parked.
    pub(super) fn of_runtime(stats: &Stats, running: usize) -> Self {
        let workers = &stats.workers;
        let sum = |count: fn(&crate::runtime::WorkerStats) -> u64| workers.iter().map(count).sum();
        let completed: u64 = sum(|worker| worker.tasks_completed);
        Self {
            submitted: stats.total_spawned(),
            completed,
            polls: sum(|worker| worker.polls),
            queued: stats.global_queue_depth,
            running,
            busy: Duration::from_nanos(sum(|worker| worker.busy_ns)),
            queue_delay: None,
        }
    }
}
