//! What a worker counts, and what can be read of it.

use std::time::Duration;

use blitzen_util::pad::Padded;

use crate::counter::Counter;

macro_rules! worker_counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of one worker, on cache lines that only it writes.
        #[derive(Debug, Default)]
        pub struct WorkerCounters {
            $($(#[$doc])* pub $name: Counter,)*
            _padding: Padded<()>,
        }

        /// What one worker, or all of them, had counted at some moment.
        ///
        /// The numbers are read one after another while the workers go on, so
        /// they belong to nearly the same moment, not to exactly one.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct WorkerStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl WorkerCounters {
            /// Reads every counter.
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
    /// Tasks that ended here.
    tasks_completed,
    /// Polls of tasks.
    polls,
    /// Looks into another worker's queue.
    steal_attempts,
    /// Looks that brought at least one task.
    steal_successes,
    /// Tasks that came that way.
    tasks_stolen,
    /// Tasks run out of the newest-task slot.
    lifo_hits,
    /// Batches taken from the injection queue.
    global_batch_fetches,
    /// Tasks that came that way.
    tasks_fetched,
    /// Times the ring was full and half of it went to the injection queue.
    inject_queue_overflows,
    /// Tasks this worker put into a queue of its own.
    local_schedules,
    /// Times it went to sleep.
    park_events,
    /// Times it was woken.
    unpark_events,
    /// Times it slept, and woke, for nothing to do.
    idle_wakes,
    /// Times it served a sibling that was stuck in a poll.
    rescues,
    /// Times a task ran out of budget or yielded.
    yields,
    /// Nanoseconds between waking and sleeping.
    busy_ns,
    /// Nanoseconds spent in sampled stretches of polls.
    sampled_run_ns,
    /// Polls in those stretches.
    sampled_runs,
    /// The longest average run of a stretch, in nanoseconds.
    max_run_ns,
}

impl WorkerStats {
    /// Time between waking and sleeping.
    pub fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_ns)
    }

    /// What a poll took on average, as far as it was sampled.
    pub fn average_run(&self) -> Duration {
        Duration::from_nanos(
            self.sampled_run_ns
                .checked_div(self.sampled_runs)
                .unwrap_or(0),
        )
    }

    /// The longest average of a sampled stretch of polls.
    pub fn max_run(&self) -> Duration {
        Duration::from_nanos(self.max_run_ns)
    }
}

/// The statistics of a whole scheduler.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Each worker's own.
    pub workers: Vec<WorkerStats>,
    /// Tasks spawned from outside the workers.
    pub remote_submitted: u64,
    /// Tasks put into the injection queue from outside the workers.
    pub remote_schedules: u64,
    /// Times the monitor thread, and no worker, served a worker that was stuck
    /// in a poll.
    pub monitor_rescues: u64,
    /// Tasks that are not complete.
    pub alive_tasks: usize,
    /// Tasks in the injection queue.
    pub global_queue_depth: usize,
}

impl Stats {
    /// The sum over the workers.
    pub fn total(&self) -> WorkerStats {
        let mut total = WorkerStats::default();
        for worker in &self.workers {
            total.add(worker);
        }
        total
    }

    /// Tasks ever spawned.
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
