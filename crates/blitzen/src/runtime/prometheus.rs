//! The metrics of a runtime as a page for Prometheus.

use std::fmt;

use blitzen_observe::{LintKind, OpenMetrics, WorkerStats};

use super::metrics::RuntimeMetrics;

/// A count of each worker: its name, what it means, and where it stands.
pub(super) type WorkerCount = (&'static str, &'static str, fn(&WorkerStats) -> u64);

pub(super) const COUNTS: [WorkerCount; 17] = [
    ("tasks_submitted", "Tasks spawned from this worker.", |s| {
        s.tasks_submitted
    }),
    (
        "tasks_completed",
        "Tasks that this worker completed.",
        |s| s.tasks_completed,
    ),
    ("polls", "Polls of tasks.", |s| s.polls),
    ("steal_attempts", "Attempts to steal tasks.", |s| {
        s.steal_attempts
    }),
    ("steal_successes", "Attempts that stole tasks.", |s| {
        s.steal_successes
    }),
    ("tasks_stolen", "Tasks stolen from other workers.", |s| {
        s.tasks_stolen
    }),
    ("lifo_hits", "Tasks run from the LIFO slot.", |s| {
        s.lifo_hits
    }),
    (
        "global_batch_fetches",
        "Batches taken from the global queue.",
        |s| s.global_batch_fetches,
    ),
    ("tasks_fetched", "Tasks taken from the global queue.", |s| {
        s.tasks_fetched
    }),
    (
        "inject_queue_overflows",
        "Times the local queue was full.",
        |s| s.inject_queue_overflows,
    ),
    ("local_schedules", "Tasks put into the local queue.", |s| {
        s.local_schedules
    }),
    ("park_events", "Times the worker parked.", |s| s.park_events),
    ("unpark_events", "Times the worker was unparked.", |s| {
        s.unpark_events
    }),
    (
        "idle_wakes",
        "Times it was unparked and found no task.",
        |s| s.idle_wakes,
    ),
    ("rescues", "Times it served a worker that was stuck.", |s| {
        s.rescues
    }),
    ("yields", "Times a task yielded.", |s| s.yields),
    (
        "self_wakes",
        "Times a task was woken during its own poll.",
        |s| s.self_wakes,
    ),
];

/// Times of each worker, in nanoseconds.
const TIMES: [WorkerCount; 2] = [
    (
        "busy_seconds",
        "Time for which the worker was not parked.",
        |s| s.busy_ns,
    ),
    ("poll_time_seconds", "Time of all polls.", |s| {
        s.sampled_run_ns
    }),
];

pub(super) fn write(metrics: &RuntimeMetrics, out: &mut dyn fmt::Write) -> fmt::Result {
    let stats = metrics.stats();
    let mut page = OpenMetrics::new(out, &metrics.runtime_label());
    let total = |value| [(None, value)];
    let workers = |count: fn(&WorkerStats) -> u64| {
        let values = stats.workers.iter().map(count).enumerate();
        values.map(|(worker, value)| (Some(worker), value))
    };
    for (name, help, count) in COUNTS {
        page.counter(name, help, workers(count))?;
    }
    for (name, help, time) in TIMES {
        page.seconds(name, help, workers(time))?;
    }
    page.counter(
        "remote_submitted",
        "Tasks spawned outside the workers.",
        total(stats.remote_submitted),
    )?;
    page.counter(
        "remote_schedules",
        "Tasks queued outside the workers.",
        total(stats.remote_schedules),
    )?;
    page.counter(
        "monitor_rescues",
        "Times the monitor served a stuck worker.",
        total(stats.monitor_rescues),
    )?;
    page.counter(
        "forced_yields",
        "Budgets that were used up.",
        total(metrics.budget_forced_yield_count()),
    )?;
    let lints = LintKind::ALL
        .iter()
        .map(|kind| (kind.name(), metrics.lint_count(*kind)));
    page.labelled_counter("lints", "Lints that were found.", "kind", lints)?;
    let gauges = [
        ("workers", "Workers.", metrics.num_workers()),
        (
            "alive_tasks",
            "Tasks that have not ended.",
            stats.alive_tasks,
        ),
        (
            "global_queue_depth",
            "Tasks in the global queue.",
            stats.global_queue_depth,
        ),
        (
            "blocking_threads",
            "Threads of the blocking pool.",
            metrics.num_blocking_threads(),
        ),
        (
            "idle_blocking_threads",
            "Threads of the blocking pool without work.",
            metrics.num_idle_blocking_threads(),
        ),
        (
            "blocking_queue_depth",
            "Blocking code that waits for a thread.",
            metrics.blocking_queue_depth(),
        ),
    ];
    for (name, help, value) in gauges {
        page.gauge(name, help, total(value as u64))?;
    }
    let depths = (0..metrics.num_workers()).map(|worker| {
        (
            Some(worker),
            metrics.worker_local_queue_depth(worker) as u64,
        )
    });
    page.gauge("local_queue_depth", "Tasks in the local queue.", depths)?;
    if metrics.poll_time_histogram_enabled() {
        page.histogram(
            "poll_seconds",
            "How long polls take.",
            &metrics.poll_times(),
        )?;
    }
    if metrics.schedule_latency_histogram_enabled() {
        let delays = metrics.schedule_delays();
        page.histogram(
            "schedule_delay_seconds",
            "How long tasks wait in queues.",
            &delays,
        )?;
    }
    page.finish()
}
