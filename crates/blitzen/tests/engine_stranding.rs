//! No task waits behind a poll that does not end, while another worker could run it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

use blitzen::dispatch::{Dispatcher, Shares};
use blitzen::runtime::{Builder, Runtime};

/// Long enough that only a task that never starts runs into it.
const FOREVER: Duration = Duration::from_secs(20);

fn two_workers() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

#[test]
fn the_child_of_a_parent_that_goes_on_computing_starts_elsewhere() {
    let runtime = two_workers();
    let parent = runtime.spawn(async {
        let (started, start) = mpsc::channel();
        blitzen::spawn(async move { started.send(()).unwrap() });
        // Blocks its worker until the child has run on the other one.
        start.recv_timeout(FOREVER)
    });
    runtime.block_on(parent).unwrap().unwrap();
}

#[test]
fn many_children_of_such_a_parent_all_start() {
    let runtime = two_workers();
    let parent = runtime.spawn(async {
        let (started, start) = mpsc::channel();
        for _ in 0..1_000 {
            let started = started.clone();
            blitzen::spawn(async move { started.send(()).unwrap() });
        }
        (0..1_000).try_for_each(|_| start.recv_timeout(FOREVER))
    });
    runtime.block_on(parent).unwrap().unwrap();
}

#[test]
fn a_task_woken_by_a_poll_that_then_blocks_runs_elsewhere() {
    let runtime = two_workers();
    let (ran, run) = mpsc::channel();
    let (wake, woken) = blitzen::channel::oneshot::channel();
    runtime.spawn(async move {
        woken.await.unwrap();
        ran.send(()).unwrap();
    });
    let blocker = runtime.spawn(async move {
        // The sleeper must wait before it is woken, or nothing is shown.
        blitzen::task::yield_now().await;
        wake.send(()).unwrap();
        run.recv_timeout(FOREVER)
    });
    runtime.block_on(blocker).unwrap().unwrap();
}

#[test]
fn work_from_outside_is_served_although_every_worker_has_a_task_that_wakes_itself() {
    for workers in [1, 2] {
        let runtime = Builder::new_multi_thread()
            .worker_threads(workers)
            .build()
            .unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..workers {
            let stop = stop.clone();
            runtime.spawn(std::future::poll_fn(move |cx| {
                if stop.load(Relaxed) {
                    return std::task::Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                std::task::Poll::Pending
            }));
        }
        for round in 0..100 {
            assert_eq!(
                runtime
                    .block_on(runtime.spawn(async move { round }))
                    .unwrap(),
                round
            );
        }
        stop.store(true, Relaxed);
    }
}

#[test]
fn a_blocked_worker_takes_no_queued_task_along() {
    let runtime = two_workers();
    let (release, hold) = mpsc::channel::<()>();
    let (blocked, blocking) = mpsc::channel();
    runtime.spawn(async move {
        blocked.send(()).unwrap();
        let _ = hold.recv();
    });
    blocking.recv().unwrap();
    // Half of what comes from outside would land on the blocked worker, if
    // workers kept what they fetch.
    for round in 0..1_000 {
        assert_eq!(
            runtime
                .block_on(runtime.spawn(async move { round }))
                .unwrap(),
            round
        );
    }
    drop(release);
}

/// Blocks as many workers as `runtime` has, by tasks of `dispatcher`, until the sender is dropped.
fn block_all(runtime: &Runtime, dispatcher: &Dispatcher) -> mpsc::Sender<()> {
    let (begun, beginnings) = mpsc::channel();
    let (release, wait) = mpsc::channel::<()>();
    let wait = Arc::new(std::sync::Mutex::new(wait));
    for _ in 0..runtime.metrics().num_workers() {
        let (begun, wait) = (begun.clone(), wait.clone());
        dispatcher.spawn(async move {
            begun.send(()).unwrap();
            let _ = wait.lock().map(|wait| wait.recv());
        });
    }
    for _ in 0..runtime.metrics().num_workers() {
        beginnings.recv_timeout(FOREVER).unwrap();
    }
    release
}

#[test]
fn tasks_of_dispatchers_run_although_every_worker_is_blocked() {
    let runtime = two_workers();
    let _entered = runtime.enter();
    let default = Dispatcher::default();
    let (busy, other) = (
        Dispatcher::group("busy", Shares(1)),
        Dispatcher::group("other", Shares(1)),
    );
    for blocked in [&default, &busy] {
        let release = block_all(&runtime, blocked);
        for free in [&default.limited(1), &busy, &other, &Dispatcher::io()] {
            let (ran, run) = mpsc::channel();
            free.spawn(async move {
                ran.send(()).unwrap();
                blitzen::task::yield_now().await;
                ran.send(()).unwrap();
            });
            for _ in 0..2 {
                run.recv_timeout(FOREVER).unwrap();
            }
        }
        drop(release);
    }
}
