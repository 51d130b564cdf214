//! A task that blocks in place hands its worker on, and everything ends.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::mpsc;
use std::time::Duration;

use blitzen::runtime::{Builder, Handle, Runtime};
use blitzen::task::{self, block_in_place};

/// Long enough that only what never comes runs into it.
const FOREVER: Duration = Duration::from_secs(20);

#[test]
fn the_worker_goes_on_while_its_thread_blocks() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    let (send, receive) = mpsc::channel();
    let task = runtime.spawn(async move {
        let other = blitzen::spawn(async move { send.send(()).unwrap() });
        block_in_place(|| receive.recv_timeout(FOREVER)).unwrap();
        other.await.unwrap();
    });
    runtime.block_on(task).unwrap();
}

#[test]
fn runtimes_end_after_workers_were_handed_on() {
    for workers in [1, 2, 4] {
        for round in 0..50 {
            let runtime = Builder::new_multi_thread()
                .worker_threads(workers)
                .build()
                .unwrap();
            let tasks: Vec<_> = (0..8)
                .map(|index| {
                    runtime.spawn(async move {
                        for _ in 0..index {
                            block_in_place(std::thread::yield_now);
                            task::yield_now().await;
                        }
                    })
                })
                .collect();
            if round % 2 == 0 {
                runtime.block_on(async {
                    for task in tasks {
                        task.await.unwrap();
                    }
                });
            }
            drop(runtime);
        }
    }
}

#[test]
fn another_runtime_may_run_inside() {
    let outer = Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    let task = outer.spawn(async {
        let own = task::id();
        let inner = block_in_place(|| {
            let inner = Builder::new_current_thread().build().unwrap();
            inner.block_on(inner.spawn(async { task::id() })).unwrap()
        });
        assert_ne!(own, inner);
        assert_eq!(own, task::id());
    });
    outer.block_on(task).unwrap();
}

#[test]
fn a_thread_that_only_waits_beside_a_current_thread_runtime_may_block() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let _inside = runtime.enter();
    let handle = runtime.handle();
    let value = handle.block_on(async {
        block_in_place(|| handle.block_on(async { blitzen::task::yield_now().await }));
        5
    });
    assert_eq!(value, 5);
    let refused = std::panic::catch_unwind(|| runtime.block_on(async { block_in_place(|| ()) }));
    assert!(refused.is_err(), "its only thread would be blocked");
}

/// Waits in place for a timer that is far away.
async fn sleep_in_place(handle: Handle, polled: mpsc::Sender<()>) {
    block_in_place(|| {
        handle.block_on(async {
            let mut sleep = pin!(blitzen::time::sleep(FOREVER * 1000));
            poll_fn(|cx| {
                let is_over = sleep.as_mut().poll(cx);
                let _ = polled.send(());
                is_over
            })
            .await;
        });
    });
}

/// Spawns `tasks` that wait in place for a timer, drops the runtime when all of them do, and
/// checks that they are told.
fn drop_while_tasks_sleep_in_place(runtime: Runtime, tasks: usize) {
    let (polled, is_polled) = mpsc::channel();
    let tasks: Vec<_> = (0..tasks)
        .map(|_| runtime.spawn(sleep_in_place(runtime.handle().clone(), polled.clone())))
        .collect();
    for _ in &tasks {
        is_polled.recv().unwrap();
    }
    let (ended, has_ended) = mpsc::channel();
    std::thread::spawn(move || {
        drop(runtime);
        ended.send(()).unwrap();
    });
    has_ended.recv_timeout(FOREVER).expect("the runtime ends");
    let other = Builder::new_current_thread().build().unwrap();
    for task in tasks {
        let panic = other.block_on(task).unwrap_err().into_panic();
        let panic = panic.downcast_ref::<&str>().unwrap();
        assert!(panic.contains("being shutdown"), "{panic}");
    }
}

#[test]
fn a_blocking_section_that_waits_for_a_timer_ends_with_the_runtime() {
    for workers in [1, 2, 4] {
        let runtime = Builder::new_multi_thread()
            .worker_threads(workers)
            .enable_time()
            .build()
            .unwrap();
        drop_while_tasks_sleep_in_place(runtime, 1);
    }
}

#[test]
fn a_worker_that_no_relief_thread_was_free_for_leaves_when_the_runtime_ends() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(1)
        .enable_time()
        .build()
        .unwrap();
    // Both workers' threads block, and the only relief thread.
    drop_while_tasks_sleep_in_place(runtime, 3);
}
