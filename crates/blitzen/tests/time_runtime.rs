//! Timers on the real clock: never early, whatever other tasks do.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Barrier, mpsc};
use std::task::{Context, Waker};
use std::time::Duration;

use blitzen::runtime::{Builder, Runtime};
use blitzen::sync::oneshot;
use blitzen::time::{Instant, Sleep, interval, interval_at, sleep, sleep_until, timeout};
use blitzen_util::block_on::block_on;
use blitzen_util::rng::Rng;

/// Longer than any of these tests takes.
const LONG: Duration = Duration::from_secs(3_600);
/// How long to wait for what must come.
const TEST_LIMIT: Duration = Duration::from_secs(30);

fn two_workers() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Polls once, so that the timer is on the wheel of the worker this runs on.
fn arm(sleep: &mut Pin<Box<Sleep>>) {
    let poll = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll.is_pending());
}

#[test]
fn a_timer_of_a_blocked_worker_is_fired_by_others() {
    let runtime = two_workers();
    let (pass, passed) = oneshot::channel::<Pin<Box<Sleep>>>();
    let (report, reported) = mpsc::channel();
    runtime.spawn(async move {
        passed.await.unwrap().await;
        report.send(()).unwrap();
    });
    let blocked = runtime.spawn(async move {
        let mut timer = Box::pin(sleep(Duration::from_millis(20)));
        arm(&mut timer);
        pass.send(timer).unwrap();
        // Blocks this worker, on whose wheel the timer is.
        reported.recv_timeout(TEST_LIMIT)
    });
    assert_eq!(runtime.block_on(blocked).unwrap(), Ok(()));
}

/// One parked worker wakes for the timers of all; if a task blocks that one, the timers of
/// those that sleep and trust in it must be fired all the same.
#[test]
fn timers_of_parked_workers_fire_although_the_one_that_wakes_for_them_is_blocked() {
    let started = AtomicUsize::new(0);
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name_fn(move || format!("worker-{}", started.fetch_add(1, Relaxed)))
        .enable_all()
        .build()
        .unwrap();
    let metrics = runtime.metrics();
    let wait_until_parked = move |worker| {
        while metrics.worker_park_unpark_count(worker).is_multiple_of(2) {
            std::thread::yield_now();
        }
    };
    let barrier = Arc::new(Barrier::new(2));
    let (report, reported) = mpsc::channel();
    // One on each worker, since each blocks until the other is there.
    let armed = [(); 2].map(|()| {
        let (barrier, report) = (barrier.clone(), report.clone());
        let wait_until_parked = wait_until_parked.clone();
        runtime.spawn(async move {
            barrier.wait();
            // So that the second finds the first asleep, and trusts in it.
            if std::thread::current().name() != Some("worker-0") {
                wait_until_parked(0);
            }
            let mut timer = Box::pin(sleep(Duration::from_millis(200)));
            arm(&mut timer);
            // Awaited on a thread that is none of the runtime's.
            std::thread::spawn(move || {
                block_on(timer);
                report.send(()).unwrap();
            })
        })
    });
    let waiting = armed.map(|task| runtime.block_on(task).unwrap());
    wait_until_parked(0);
    wait_until_parked(1);
    // The parked worker with the lowest index gets it, which is the one that wakes for both timers.
    let blocked = runtime.spawn(async move {
        let one = reported.recv_timeout(TEST_LIMIT);
        one.and(reported.recv_timeout(TEST_LIMIT))
    });
    assert_eq!(runtime.block_on(blocked).unwrap(), Ok(()));
    for thread in waiting {
        thread.join().unwrap();
    }
}

#[test]
fn a_timer_armed_on_a_thread_that_is_no_worker_fires() {
    let runtime = two_workers();
    let timer = {
        let _inside = runtime.enter();
        let mut timer = Box::pin(sleep(Duration::from_millis(5)));
        arm(&mut timer);
        timer
    };
    let deadline = timer.deadline();
    block_on(timer);
    assert!(Instant::now() >= deadline);
}

#[test]
fn a_sleeping_runtime_wakes_for_a_timer_that_is_earlier_than_the_one_it_sleeps_for() {
    for runtime in [two_workers(), one_thread()] {
        let handle = runtime.handle().clone();
        let (done, is_done) = oneshot::channel();
        let late = runtime.spawn(async { sleep(LONG).await });
        // From a thread of its own, while the runtime sleeps for the late one.
        let outside = std::thread::spawn(move || {
            handle.spawn(async move {
                sleep(Duration::from_millis(5)).await;
                done.send(()).unwrap();
            });
        });
        runtime.block_on(async {
            timeout(TEST_LIMIT, is_done).await.unwrap().unwrap();
        });
        outside.join().unwrap();
        late.abort();
    }
}

#[test]
fn no_sleep_ends_early() {
    let runtime = two_workers();
    let woken = Arc::new(AtomicUsize::new(0));
    runtime.block_on(async {
        let mut rng = Rng::new(5);
        let tasks: Vec<_> = (0..2_000)
            .map(|_| {
                let span = Duration::from_micros(rng.below(40_000).into());
                let woken = woken.clone();
                blitzen::spawn(async move {
                    let begun = std::time::Instant::now();
                    sleep(span).await;
                    assert!(begun.elapsed() >= span);
                    woken.fetch_add(1, Relaxed);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(woken.load(Relaxed), 2_000);
}

#[test]
fn deadlines_beyond_all_clocks_are_waited_for() {
    for runtime in [two_workers(), one_thread()] {
        runtime.block_on(async {
            let two_ms = Duration::from_millis(2);
            let end_of_time = sleep(Duration::MAX);
            assert!(end_of_time.deadline() > Instant::now() + LONG);
            assert!(timeout(two_ms, end_of_time).await.is_err());
            assert_eq!(timeout(Duration::MAX, async { 5 }).await, Ok(5));

            // Beyond the levels of the wheel.
            let next_year = Instant::now() + Duration::from_secs(400 * 86_400);
            assert!(timeout(two_ms, sleep_until(next_year)).await.is_err());

            let mut timer = std::pin::pin!(sleep(Duration::MAX));
            assert!(timeout(two_ms, timer.as_mut()).await.is_err());
            timer.as_mut().reset(Instant::now() + two_ms);
            timer.await;

            let mut ticks = interval(Duration::MAX);
            ticks.tick().await;
            assert!(timeout(two_ms, ticks.tick()).await.is_err());
        });
    }
}

#[test]
#[should_panic(expected = "`period` must be non-zero.")]
fn an_interval_without_a_period_is_refused() {
    one_thread().block_on(async {
        let _ = interval_at(Instant::now(), Duration::ZERO);
    });
}

#[test]
fn a_runtime_that_is_dropped_leaves_no_timer_behind() {
    for runtime in [two_workers(), one_thread()] {
        let kept = Arc::new(());
        for _ in 0..100 {
            let kept = kept.clone();
            runtime.spawn(async move {
                sleep(LONG).await;
                drop(kept);
            });
        }
        runtime.block_on(async {
            for _ in 0..10 {
                blitzen::task::yield_now().await;
            }
        });
        drop(runtime);
        assert_eq!(Arc::strong_count(&kept), 1);
    }
}
