//! The histograms of poll times and schedule delays, switched while the runtime runs.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use blitzen::runtime::Builder;
use blitzen::task::yield_now;

mod engine_common;
use engine_common::{current_thread, multi_thread, must_end};

const LONG: Duration = Duration::from_millis(5);

fn spin_for(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        std::hint::spin_loop();
    }
}

#[test]
fn every_poll_is_counted_while_the_histogram_is_on() {
    let runtime = current_thread();
    let (handle, metrics) = (runtime.handle(), runtime.metrics());
    let run = |yields: usize| {
        let task = runtime.spawn(async move {
            for _ in 0..yields {
                yield_now().await;
            }
        });
        runtime.block_on(task).unwrap();
    };
    run(10);
    assert!(!metrics.poll_time_histogram_enabled());
    assert_eq!(metrics.poll_times().count(), 0);
    handle.set_poll_times(true);
    assert!(metrics.poll_time_histogram_enabled());
    run(10);
    assert_eq!(metrics.poll_times().count(), 11);
    handle.set_poll_times(false);
    run(10);
    assert!(!metrics.poll_time_histogram_enabled());
    assert_eq!(metrics.poll_times().count(), 11, "what was counted stays");
    handle.set_poll_times(true);
    run(10);
    assert_eq!(metrics.poll_times().count(), 22);
}

#[test]
fn a_long_poll_is_in_its_bucket() {
    let runtime = current_thread();
    runtime.handle().set_poll_times(true);
    runtime
        .block_on(runtime.spawn(async { spin_for(LONG) }))
        .unwrap();
    let polls = runtime.metrics().poll_times();
    let (range, _) = polls.buckets().find(|(_, count)| *count == 1).unwrap();
    assert!(range.end > LONG, "{range:?}");
    assert!(polls.quantile(0.5).unwrap() >= LONG);
}

#[test]
fn polls_of_threads_that_take_over_from_blocked_workers_are_timed() {
    const WORKERS: usize = 2;
    must_end(|| {
        let runtime = multi_thread(WORKERS);
        runtime.handle().set_poll_times(true);
        let metrics = runtime.metrics();
        let (begun, has_begun) = mpsc::channel();
        let (blocked, releases): (Vec<_>, Vec<_>) = (0..WORKERS)
            .map(|_| {
                let (begun, (release, wait)) = (begun.clone(), mpsc::channel::<()>());
                let task = runtime.spawn(async move {
                    begun.send(()).unwrap();
                    let _ = wait.recv();
                });
                (task, release)
            })
            .unzip();
        (0..WORKERS).for_each(|_| has_begun.recv().unwrap());
        let task = runtime.spawn(async {
            for _ in 0..4 {
                yield_now().await;
            }
            spin_for(LONG);
        });
        runtime.block_on(task).unwrap();
        // The last of its polls is counted after its end. Those of the workers go on.
        while metrics.poll_times().count() < 5 {
            thread::yield_now();
        }
        assert_eq!(metrics.poll_times().count(), 5);
        assert!(metrics.poll_times().quantile(1.0).unwrap() >= LONG);
        drop(releases);
        for task in blocked {
            runtime.block_on(task).unwrap();
        }
        drop(runtime);
        assert_eq!(metrics.poll_times().count(), 5 + WORKERS as u64);
    });
}

#[test]
fn a_histogram_of_the_builder_can_be_switched_too() {
    let runtime = Builder::new_current_thread()
        .enable_metrics_poll_time_histogram()
        .build()
        .unwrap();
    let metrics = runtime.metrics();
    assert_eq!(metrics.poll_time_histogram_num_buckets(), 10);
    runtime.block_on(runtime.spawn(async {})).unwrap();
    runtime.handle().set_poll_times(false);
    runtime.block_on(runtime.spawn(async {})).unwrap();
    assert_eq!(metrics.poll_times().count(), 1);
    let buckets = 0..metrics.poll_time_histogram_num_buckets();
    let counts = buckets.map(|bucket| metrics.poll_time_histogram_bucket_count(0, bucket));
    assert_eq!(counts.sum::<u64>(), 1);
}

#[test]
fn a_task_waits_from_its_wake_to_its_poll() {
    let runtime = current_thread();
    runtime.handle().set_schedule_delays(true);
    let task = runtime.spawn(async { yield_now().await });
    spin_for(LONG);
    runtime.block_on(task).unwrap();
    let delays = runtime.metrics().schedule_delays();
    assert_eq!(delays.count(), 2, "it was spawned, and yielded");
    assert!(delays.quantile(1.0).unwrap() >= LONG);
}

#[test]
fn delays_are_measured_for_tasks_that_others_spawn_wake_or_steal() {
    must_end(|| {
        let runtime = multi_thread(2);
        runtime.handle().set_schedule_delays(true);
        let polls_before = runtime.metrics().stats().total().polls;
        runtime.block_on(async {
            let parents = (0..50).map(|_| {
                blitzen::spawn(async {
                    let children = (0..20).map(|_| blitzen::spawn(async { yield_now().await }));
                    for child in children.collect::<Vec<_>>() {
                        child.await.unwrap();
                    }
                })
            });
            for parent in parents.collect::<Vec<_>>() {
                parent.await.unwrap();
            }
        });
        let metrics = runtime.metrics();
        drop(runtime);
        let polls = metrics.stats().total().polls - polls_before;
        assert_eq!(metrics.schedule_delays().count(), polls);
    });
}

#[test]
fn a_stamp_from_before_a_switch_is_not_measured() {
    let runtime = current_thread();
    let handle = runtime.handle();
    handle.set_schedule_delays(true);
    let task = runtime.spawn(async {});
    handle.set_schedule_delays(false);
    handle.set_schedule_delays(true);
    runtime.block_on(task).unwrap();
    assert_eq!(runtime.metrics().schedule_delays().count(), 0);
    runtime.block_on(runtime.spawn(async {})).unwrap();
    assert_eq!(runtime.metrics().schedule_delays().count(), 1);
}

#[test]
fn hooks_see_how_long_a_task_has_waited_before_and_after_its_poll() {
    use std::sync::{Arc, Mutex};

    let seen = Arc::new(Mutex::new(Vec::new()));
    let (before, after) = (seen.clone(), seen.clone());
    let runtime = Builder::new_current_thread()
        .track_task_schedule_latency()
        .on_before_task_poll(move |task| before.lock().unwrap().push(task.schedule_latency()))
        .on_after_task_poll(move |task| after.lock().unwrap().push(task.schedule_latency()))
        .build()
        .unwrap();
    let task = runtime.spawn(async {});
    spin_for(LONG);
    runtime.block_on(task).unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0].unwrap() >= LONG);
    assert!(!runtime.metrics().schedule_latency_histogram_enabled());
}
