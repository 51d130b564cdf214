//! Hooks about tasks, and the metrics that need them.

use std::future::{pending, poll_fn};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use blitzen::runtime::{Builder, HistogramConfiguration, Runtime, TaskMeta};
use blitzen::task;

/// How often each hook was called.
#[derive(Default)]
struct Calls {
    spawns: AtomicUsize,
    ends: AtomicUsize,
    before: AtomicUsize,
    after: AtomicUsize,
}

fn hooked(mut builder: Builder) -> (Runtime, Arc<Calls>) {
    let calls = Arc::new(Calls::default());
    let count = |which: fn(&Calls) -> &AtomicUsize| {
        let calls = calls.clone();
        move |task: &TaskMeta<'_>| {
            assert!(task.spawned_at().file().ends_with("task_hooks.rs"));
            which(&calls).fetch_add(1, SeqCst);
        }
    };
    let runtime = builder
        .on_task_spawn(count(|calls| &calls.spawns))
        .on_task_terminate(count(|calls| &calls.ends))
        .on_before_task_poll(count(|calls| &calls.before))
        .on_after_task_poll(count(|calls| &calls.after))
        .build()
        .unwrap();
    (runtime, calls)
}

fn both() -> [Builder; 2] {
    let mut multi = Builder::new_multi_thread();
    multi.worker_threads(2);
    [Builder::new_current_thread(), multi]
}

#[test]
fn hooks_see_every_spawn_poll_and_end() {
    for builder in both() {
        let (runtime, calls) = hooked(builder);
        runtime.spawn(pending::<()>());
        runtime.block_on(async {
            task::spawn(async { task::yield_now().await })
                .await
                .unwrap();
            let aborted = task::spawn(pending::<()>());
            aborted.abort();
            aborted.await.unwrap_err();
        });
        assert_eq!(calls.spawns.load(SeqCst), 3);
        drop(runtime); // which ends the first task
        assert_eq!(calls.ends.load(SeqCst), 3);
        let before = calls.before.load(SeqCst);
        assert!(before >= 2, "{before}");
        assert_eq!(calls.after.load(SeqCst), before);
    }
}

#[test]
fn a_hook_may_spawn_and_may_panic() {
    for mut builder in both() {
        let inner = Arc::new(Runtime::new().unwrap());
        let seen = Arc::new(Mutex::new(0));
        let counted = seen.clone();
        builder.on_task_spawn(move |_| {
            // Enters another runtime while this one spawns.
            let _entered = inner.enter();
            task::spawn(async {});
            *counted.lock().unwrap() += 1;
            panic!("reported, and no more");
        });
        let runtime = builder.build().unwrap();
        runtime.block_on(async {
            task::spawn(async { task::spawn(async {}).await.unwrap() })
                .await
                .unwrap();
        });
        drop(runtime);
        assert_eq!(*seen.lock().unwrap(), 2);
    }
}

#[test]
fn the_histogram_counts_every_poll_in_its_bucket() {
    for mut builder in both() {
        let width = Duration::from_millis(20);
        let runtime = builder
            .enable_metrics_poll_time_histogram()
            .metrics_poll_time_histogram_configuration(HistogramConfiguration::linear(width, 2))
            .build()
            .unwrap();
        runtime.block_on(async {
            task::spawn(async {}).await.unwrap();
            task::spawn(async move { std::thread::sleep(width) })
                .await
                .unwrap();
        });
        let metrics = runtime.metrics();
        drop(runtime);
        let count = |bucket| -> u64 {
            (0..metrics.num_workers())
                .map(|worker| metrics.poll_time_histogram_bucket_count(worker, bucket))
                .sum()
        };
        assert_eq!(count(0) + count(1), 2);
        assert!(count(1) >= 1, "the one that slept");
    }
}

#[test]
fn forced_yields_are_counted_once_in_a_poll() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let mut polls = 0;
    runtime.block_on(poll_fn(|cx| {
        polls += 1;
        let mut unit = || task::coop::poll_proceed(cx).map(|unit| unit.made_progress());
        match polls {
            1 => {
                while unit().is_ready() {}
                assert!(unit().is_pending(), "refused again");
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }));
    assert_eq!(runtime.metrics().budget_forced_yield_count(), 1);
}

#[test]
fn descriptors_are_counted_as_they_come_and_go() {
    let runtime = Builder::new_current_thread().enable_io().build().unwrap();
    let metrics = runtime.metrics();
    let socket = runtime.block_on(blitzen::net::UdpSocket::bind("127.0.0.1:0"));
    assert_eq!(metrics.io_driver_fd_registered_count(), 1);
    assert_eq!(metrics.io_driver_fd_deregistered_count(), 0);
    drop(socket);
    assert_eq!(metrics.io_driver_fd_deregistered_count(), 1);
}

#[test]
fn a_worker_names_the_thread_that_runs_it() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    let metrics = runtime.metrics();
    let own = runtime.spawn(async { std::thread::current().id() });
    let own = runtime.block_on(own).unwrap();
    assert_eq!(metrics.worker_thread_id(0), Some(own));
}
