//! The counters of a worker, and snapshots of them.

use std::time::Duration;

use blitzen_util::pad::Padded;

use crate::counter::Counter;

macro_rules! worker_counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of one worker, on cache lines that only it writes.
        ///
        /// ```
        /// let counters = blitzen_observe::WorkerCounters::default();
        /// counters.polls.bump();
        /// assert_eq!(counters.read().polls, 1);
        /// ```
        #[derive(Debug, Default)]
        pub struct WorkerCounters {
            $($(#[$doc])* pub $name: Counter,)*
            _padding: Padded<()>,
        }

        /// A snapshot of the counters of one worker, or the sum over all of them.
        ///
        /// The counters are read one after another while the workers run, so they
        /// are not of exactly the same moment.
        ///
        /// # Examples
        /// ```
        /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
        /// runtime.block_on(runtime.spawn(async {})).unwrap();
        /// let total = runtime.metrics().stats().total();
        /// println!("{} polls, {} steals", total.polls, total.steal_successes);
        /// # assert!(total.polls <= 1);
        /// ```
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct WorkerStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl WorkerCounters {
            /// Reads every counter.
            ///
            /// ```
            /// let counters = blitzen_observe::WorkerCounters::default();
            /// assert_eq!(counters.read().polls, 0);
            /// ```
            pub fn read(&self) -> WorkerStats {
                WorkerStats { $($name: self.$name.get(),)* }
            }
        }

        impl WorkerStats {
            /// Adds another worker's numbers.
            fn add(&mut self, other: &Self) {
                let max_run_ns = self.max_run_ns.max(other.max_run_ns);
                $(self.$name += other.$name;)*
                self.max_run_ns = max_run_ns;
            }
        }
    };
}

worker_counters! {
    /// Tasks spawned from this worker.
    tasks_submitted,
    /// Tasks that this worker completed.
    tasks_completed,
    /// Polls of tasks.
    polls,
    /// Attempts to steal from another worker's queue.
    steal_attempts,
    /// Attempts that stole at least one task.
    steal_successes,
    /// Tasks that came that way.
    tasks_stolen,
    /// Tasks run from the LIFO slot, which holds the newest task.
    lifo_hits,
    /// Batches taken from the injection queue.
    global_batch_fetches,
    /// Tasks that came that way.
    tasks_fetched,
    /// Times the worker's queue was full and half of it went to the injection queue.
    inject_queue_overflows,
    /// Tasks that this worker scheduled on its own queue.
    local_schedules,
    /// Times it parked.
    park_events,
    /// Times it was unparked.
    unpark_events,
    /// Times it was unparked and found nothing to do.
    idle_wakes,
    /// Times it served the drivers and the queue of a worker that was stuck in a poll.
    rescues,
    /// Times a task yielded or used up its budget.
    yields,
    /// Times a task was woken during its own poll, by itself or by another, and queued again.
    self_wakes,
    /// Nanoseconds for which it was not parked.
    busy_ns,
    /// Nanoseconds of the sampled polls.
    sampled_run_ns,
    /// Polls that were sampled.
    sampled_runs,
    /// An upper bound of the longest poll, in nanoseconds: see [`WorkerStats::max_run`].
    max_run_ns,
}

impl WorkerStats {
    /// Returns the time for which the worker was not parked.
    ///
    /// # Examples
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(runtime.spawn(async {})).unwrap();
    /// println!("busy for {:?}", runtime.metrics().stats().total().busy());
    /// ```
    pub fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_ns)
    }

    /// Returns the average time of a poll, over those that were sampled; zero if none was.
    ///
    /// # Examples
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let total = runtime.metrics().stats().total();
    /// assert!(total.average_run().is_zero(), "no task was polled");
    /// ```
    pub fn average_run(&self) -> Duration {
        Duration::from_nanos(
            self.sampled_run_ns
                .checked_div(self.sampled_runs)
                .unwrap_or(0),
        )
    }

    /// Returns an upper bound of the longest poll: no poll that has ended took longer.
    ///
    /// Polls of a millisecond and more are timed one by one. Shorter ones are timed in groups of
    /// that length, and a group counts as if it were one poll: so the result is too large by the
    /// rest of its group, a millisecond at most as long as polls take about as long as those
    /// before them.
    ///
    /// # Examples
    /// ```
    /// # let runtime = blitzen::runtime::Builder::new_current_thread().build().unwrap();
    /// # runtime.block_on(runtime.spawn(async {})).unwrap();
    /// let total = runtime.metrics().stats().total();
    /// assert!(total.max_run() >= total.average_run());
    /// ```
    pub fn max_run(&self) -> Duration {
        Duration::from_nanos(self.max_run_ns)
    }
}

/// A snapshot of what a runtime's scheduler has done.
///
/// # Examples
/// ```
/// let runtime = blitzen::runtime::Runtime::new().unwrap();
/// runtime.block_on(runtime.spawn(async {})).unwrap();
/// let stats = runtime.metrics().stats();
/// assert_eq!(stats.remote_submitted, 1);
/// for (index, worker) in stats.workers.iter().enumerate() {
///     println!("worker {index} has polled {} times", worker.polls);
/// }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The counters of each worker.
    pub workers: Vec<WorkerStats>,
    /// Tasks spawned from outside the workers.
    pub remote_submitted: u64,
    /// Tasks put into the injection queue from outside the workers.
    pub remote_schedules: u64,
    /// Times the monitor thread, and no worker, served a worker that was stuck
    /// in a poll.
    pub monitor_rescues: u64,
    /// Tasks that have not completed.
    pub alive_tasks: usize,
    /// Tasks in the injection queue.
    pub global_queue_depth: usize,
}

impl Stats {
    /// Returns the sum over all workers. Its `max_run_ns` is the largest one.
    ///
    /// # Examples
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(runtime.spawn(async {})).unwrap();
    /// let stats = runtime.metrics().stats();
    /// let polls: u64 = stats.workers.iter().map(|worker| worker.polls).sum();
    /// assert_eq!(stats.total().polls, polls);
    /// ```
    pub fn total(&self) -> WorkerStats {
        let mut total = WorkerStats::default();
        for worker in &self.workers {
            total.add(worker);
        }
        total
    }

    /// Returns the number of tasks that were spawned.
    ///
    /// # Examples
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// runtime.spawn(async {});
    /// assert_eq!(runtime.metrics().stats().total_spawned(), 1);
    /// ```
    pub fn total_spawned(&self) -> u64 {
        self.remote_submitted + self.total().tasks_submitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_add_up_and_the_longest_run_is_the_longest() {
        let (one, two) = (WorkerCounters::default(), WorkerCounters::default());
        one.polls.add(3);
        two.polls.add(4);
        one.max_run_ns.raise_to(10);
        two.max_run_ns.raise_to(7);
        let stats = Stats {
            workers: vec![one.read(), two.read()],
            ..Default::default()
        };
        assert_eq!(stats.total().polls, 7);
        assert_eq!(stats.total().max_run(), Duration::from_nanos(10));
    }
}
