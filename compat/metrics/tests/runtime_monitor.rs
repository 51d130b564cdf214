//! `tokio-metrics` sees what a runtime really does.

#![cfg(tokio_unstable)]

use std::time::Duration;

use tokio::runtime::{Builder, HistogramConfiguration, LogHistogram};
use tokio_metrics::{RuntimeMonitor, TaskMonitor};

#[test]
fn a_runtime_monitor_counts_polls_spawns_and_busy_time() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .enable_metrics_poll_time_histogram()
        .metrics_poll_time_histogram_configuration(HistogramConfiguration::log(
            LogHistogram::default(),
        ))
        .build()
        .unwrap();
    let monitor = RuntimeMonitor::new(runtime.handle());
    let mut intervals = monitor.intervals();
    let before = intervals.next().unwrap();
    assert_eq!((before.workers_count, before.total_polls_count), (2, 0));

    runtime.block_on(async {
        for _ in 0..10 {
            let task = async { std::thread::sleep(Duration::from_millis(1)) };
            tokio::spawn(task).await.unwrap();
        }
    });
    // Idle workers have added up their busy time by then.
    let metrics = runtime.metrics();
    while metrics.worker_park_count(0) + metrics.worker_park_count(1) < 4 {
        std::thread::yield_now();
    }
    // A task is seen to end a moment before the time of its last poll is counted.
    let buckets = metrics.poll_time_histogram_num_buckets();
    let timed_polls = || -> u64 {
        let places = (0..2).flat_map(|worker| (0..buckets).map(move |bucket| (worker, bucket)));
        places
            .map(|(worker, bucket)| metrics.poll_time_histogram_bucket_count(worker, bucket))
            .sum()
    };
    while timed_polls() < 10 {
        std::thread::yield_now();
    }

    let after = intervals.next().unwrap();
    assert_eq!(after.total_polls_count, 10);
    assert_eq!(after.poll_time_histogram.iter().sum::<u64>(), 10);
    assert!(after.num_remote_schedules >= 10);
    assert!(after.total_busy_duration >= Duration::from_millis(5));
    assert!(after.total_park_count > 0);
    assert!(after.mean_poll_duration > Duration::ZERO);
}

#[test]
fn a_task_monitor_counts_polls() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let monitor = TaskMonitor::new();
    runtime.block_on(async {
        let task = monitor.instrument(async { tokio::task::yield_now().await });
        tokio::spawn(task).await.unwrap();
    });
    let metrics = monitor.cumulative();
    assert_eq!(metrics.instrumented_count, 1);
    assert_eq!(metrics.total_poll_count, 2);
    assert!(metrics.total_scheduled_count >= 1);
}
