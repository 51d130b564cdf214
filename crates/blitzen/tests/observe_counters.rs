//! Every counter of a runtime, moved by a known amount.

use std::future::poll_fn;
use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use blitzen::runtime::{Builder, Runtime, WorkerStats};
use blitzen::task::{spawn_blocking, yield_now};

mod engine_common;
use engine_common::{current_thread, multi_thread, must_end};

fn worker(runtime: &Runtime, index: usize) -> WorkerStats {
    runtime.metrics().stats().workers[index].clone()
}

/// Waits until the worker is parked; returns what it had counted by then.
fn parked_worker(runtime: &Runtime, index: usize) -> WorkerStats {
    let metrics = runtime.metrics();
    loop {
        let changes = metrics.worker_park_unpark_count(index);
        let stats = worker(runtime, index);
        // Otherwise it was running, or has changed while its counters were read.
        if !changes.is_multiple_of(2) && metrics.worker_park_unpark_count(index) == changes {
            return stats;
        }
        thread::yield_now();
    }
}

fn spin_for(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        std::hint::spin_loop();
    }
}

#[test]
fn tasks_from_outside_are_submitted_scheduled_and_fetched_once() {
    let runtime = current_thread();
    let tasks: Vec<_> = (0..5).map(|_| runtime.spawn(async {})).collect();
    let stats = runtime.metrics().stats();
    assert_eq!(stats.remote_submitted, 5);
    assert_eq!(stats.remote_schedules, 5);
    assert_eq!((stats.alive_tasks, stats.global_queue_depth), (5, 5));
    assert_eq!(stats.total_spawned(), 5);
    runtime.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
    let stats = runtime.metrics().stats();
    let total = stats.total();
    assert_eq!((total.global_batch_fetches, total.tasks_fetched), (1, 5));
    assert_eq!((total.polls, total.tasks_completed), (5, 5));
    assert_eq!((stats.alive_tasks, stats.global_queue_depth), (0, 0));
    assert_eq!((total.tasks_submitted, total.local_schedules), (0, 0));
}

#[test]
fn tasks_from_a_worker_are_submitted_and_scheduled_there() {
    let runtime = current_thread();
    runtime.block_on(async {
        for _ in 0..4 {
            blitzen::spawn(async {}).await.unwrap();
        }
    });
    let stats = runtime.metrics().stats();
    let total = stats.total();
    assert_eq!((total.tasks_submitted, total.tasks_completed), (4, 4));
    assert_eq!((total.polls, total.local_schedules), (4, 4));
    assert_eq!((stats.remote_submitted, stats.remote_schedules), (0, 0));
}

#[test]
fn every_yield_of_a_task_is_counted() {
    let runtime = current_thread();
    let task = runtime.spawn(async {
        for _ in 0..3 {
            yield_now().await;
        }
    });
    runtime.block_on(task).unwrap();
    let total = runtime.metrics().stats().total();
    assert_eq!((total.yields, total.polls), (3, 4));
}

#[test]
fn every_wake_of_a_task_during_its_own_poll_is_counted() {
    let runtime = current_thread();
    let mut polls = 0;
    let task = runtime.spawn(poll_fn(move |cx| {
        polls += 1;
        match polls {
            8 => Poll::Ready(()),
            _ => {
                cx.waker().wake_by_ref();
                cx.waker().wake_by_ref(); // once is enough
                Poll::Pending
            }
        }
    }));
    runtime.block_on(task).unwrap();
    let total = runtime.metrics().stats().total();
    assert_eq!((total.self_wakes, total.yields, total.polls), (7, 0, 8));
}

#[test]
fn the_newest_task_is_a_lifo_hit() {
    must_end(|| {
        let runtime = multi_thread(1);
        let parent = runtime.spawn(async { blitzen::spawn(async {}).await.unwrap() });
        runtime.block_on(parent).unwrap();
        let stats = parked_worker(&runtime, 0);
        // The child, and the parent that it wakes.
        assert_eq!((stats.lifo_hits, stats.polls), (2, 3));
    });
}

#[test]
fn a_full_queue_overflows_once_for_each_half() {
    must_end(|| {
        let runtime = multi_thread(1);
        let parent = runtime.spawn(async {
            let tasks: Vec<_> = (0..300).map(|_| blitzen::spawn(async {})).collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        runtime.block_on(parent).unwrap();
        assert_eq!(worker(&runtime, 0).inject_queue_overflows, 1);
        assert_eq!(worker(&runtime, 0).tasks_submitted, 300);
    });
}

#[test]
fn what_another_worker_runs_was_stolen() {
    const TASKS: usize = 100;
    must_end(|| {
        let runtime = multi_thread(2);
        assert_eq!(runtime.metrics().num_workers(), 2);
        let parent = runtime.spawn(async {
            let (ran, has_run) = mpsc::channel();
            for _ in 0..TASKS {
                let ran = ran.clone();
                blitzen::spawn(async move { ran.send(()).unwrap() });
            }
            // It blocks its worker until the other one has run all of them.
            (0..TASKS).for_each(|_| has_run.recv().unwrap());
            blitzen::runtime::worker_index().unwrap()
        });
        let blocked = runtime.block_on(parent).unwrap();
        let (thief, victim) = (worker(&runtime, 1 - blocked), worker(&runtime, blocked));
        assert_eq!(thief.tasks_stolen, TASKS as u64);
        assert_eq!(victim.tasks_stolen, 0);
        assert!(thief.steal_attempts >= thief.steal_successes, "{thief:?}");
        assert!(thief.steal_successes + thief.rescues > 0, "{thief:?}");
        assert_eq!(victim.tasks_submitted, TASKS as u64);
    });
}

#[test]
fn each_park_has_its_unpark() {
    must_end(|| {
        let runtime = multi_thread(1);
        assert_eq!(
            (
                worker(&runtime, 0).park_events,
                worker(&runtime, 0).unpark_events
            ),
            (1, 0)
        );
        for round in 1..=3 {
            runtime.block_on(runtime.spawn(async {})).unwrap();
            let stats = parked_worker(&runtime, 0);
            assert_eq!(stats.park_events, stats.unpark_events + 1);
            // It may have been unparked too early for the task, and parked again.
            assert_eq!(stats.unpark_events, round + stats.idle_wakes);
        }
    });
}

#[test]
fn a_worker_that_wakes_up_for_no_task_has_an_idle_wake() {
    must_end(|| {
        let runtime = current_thread();
        let (wakers, waker) = mpsc::channel::<Option<std::task::Waker>>();
        let waking = thread::spawn({
            let metrics = runtime.metrics();
            move || {
                for waker in waker {
                    // Parked, so that each wake ends a park.
                    while metrics.worker_park_unpark_count(0).is_multiple_of(2) {
                        thread::yield_now();
                    }
                    waker.unwrap().wake();
                }
            }
        });
        let mut polls = 0;
        runtime.block_on(poll_fn(|cx| {
            polls += 1;
            if polls == 6 {
                return Poll::Ready(());
            }
            wakers.send(Some(cx.waker().clone())).unwrap();
            Poll::Pending
        }));
        drop(wakers);
        waking.join().unwrap();
        let total = runtime.metrics().stats().total();
        // Five parks, after none of which a task was polled.
        assert_eq!((total.idle_wakes, total.polls), (5, 0));
    });
}

#[test]
fn a_stuck_worker_is_rescued() {
    must_end(|| {
        let runtime = multi_thread(2);
        // Once more if another worker has stolen the child, and has its timer.
        let mut is_own = false;
        while !is_own {
            let stuck = runtime.spawn(async {
                let (ended, has_ended) = mpsc::channel();
                blitzen::spawn(async move {
                    let armed_by = thread::current().id();
                    blitzen::time::sleep(Duration::from_millis(2)).await;
                    ended.send(armed_by).unwrap();
                });
                yield_now().await;
                // If the timer is this worker's own, only a rescue can fire it.
                has_ended.recv().unwrap() == thread::current().id()
            });
            is_own = runtime.block_on(stuck).unwrap();
        }
        let stats = runtime.metrics().stats();
        assert!(
            stats.monitor_rescues + stats.total().rescues > 0,
            "{stats:?}"
        );
    });
}

#[test]
fn every_poll_is_timed_and_none_takes_longer_than_the_longest() {
    const LONG: Duration = Duration::from_millis(30);
    must_end(|| {
        let runtime = multi_thread(1);
        let task = runtime.spawn(async {
            for round in 0..1_000 {
                if round == 500 {
                    spin_for(LONG);
                }
                yield_now().await;
            }
        });
        runtime.block_on(task).unwrap();
        let stats = parked_worker(&runtime, 0);
        assert_eq!((stats.polls, stats.sampled_runs), (1_001, 1_001));
        assert!(stats.max_run() >= LONG, "{:?}", stats.max_run());
        assert!(stats.busy() >= LONG);
        assert!(stats.busy_ns >= stats.sampled_run_ns);
        assert!(stats.sampled_run_ns >= stats.max_run_ns);
        assert!(stats.average_run() < LONG, "{:?}", stats.average_run());
    });
}

#[test]
fn the_last_poll_before_a_runtime_stops_is_timed() {
    const LONG: Duration = Duration::from_millis(5);
    let runtime = current_thread();
    let task = runtime.spawn(async { spin_for(LONG) });
    runtime.block_on(task).unwrap();
    let total = runtime.metrics().stats().total();
    assert!(total.max_run() >= LONG, "nobody drives it now");
    let runtime = multi_thread(1);
    let (begun, has_begun) = mpsc::channel();
    runtime.spawn(async move {
        begun.send(()).unwrap();
        spin_for(LONG);
    });
    has_begun.recv().unwrap();
    let metrics = runtime.metrics();
    drop(runtime);
    assert!(
        metrics.stats().total().max_run() >= LONG,
        "it was shut down"
    );
}

#[test]
fn threads_and_queue_of_the_blocking_pool_are_counted() {
    must_end(|| {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(1)
            .build()
            .unwrap();
        let metrics = runtime.metrics();
        let (release, wait) = mpsc::channel::<()>();
        let (begun, has_begun) = mpsc::channel();
        let first = runtime.spawn_blocking(move || {
            begun.send(()).unwrap();
            let _ = wait.recv();
        });
        has_begun.recv().unwrap();
        let _entered = runtime.enter();
        let others: Vec<_> = (0..2).map(|_| spawn_blocking(|| {})).collect();
        assert_eq!(
            (
                metrics.num_blocking_threads(),
                metrics.num_idle_blocking_threads()
            ),
            (1, 0)
        );
        assert_eq!(metrics.blocking_queue_depth(), 2);
        drop(release);
        runtime.block_on(async {
            first.await.unwrap();
            for other in others {
                other.await.unwrap();
            }
        });
        assert_eq!(metrics.blocking_queue_depth(), 0);
        while metrics.num_idle_blocking_threads() != 1 {
            thread::yield_now();
        }
        assert_eq!(metrics.num_blocking_threads(), 1);
    });
}
