//! The clock stopped, moved by hand, and moved when there is nothing else to do.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use blitzen::runtime::{Builder, Runtime};
use blitzen::time::{Instant, advance, pause, resume, sleep};

const HOUR: Duration = Duration::from_secs(3_600);

fn paused() -> [Runtime; 3] {
    let build = |builder: &mut Builder| builder.enable_all().start_paused(true).build().unwrap();
    [
        build(&mut Builder::new_current_thread()),
        build(Builder::new_multi_thread().worker_threads(1)),
        build(Builder::new_multi_thread().worker_threads(4)),
    ]
}

#[test]
fn hours_pass_in_order_when_everybody_waits() {
    for runtime in paused() {
        let (order, begun) = (Arc::new(Mutex::new(Vec::new())), std::time::Instant::now());
        runtime.block_on(async {
            let start = Instant::now();
            let tasks: Vec<_> = [3, 1, 4, 2]
                .into_iter()
                .map(|hours| {
                    let order = order.clone();
                    blitzen::spawn(async move {
                        sleep(hours * HOUR).await;
                        assert!(start.elapsed() >= hours * HOUR);
                        order.lock().unwrap().push(hours);
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            assert!(start.elapsed() >= 4 * HOUR && start.elapsed() < 5 * HOUR);
        });
        assert_eq!(*order.lock().unwrap(), [1, 2, 3, 4]);
        assert!(begun.elapsed() < HOUR);
    }
}

/// Lets `work` wait for an outsider while a task sleeps; the hour must not pass
/// before the work is done.
fn time_stands_still_while(
    runtime: &Runtime,
    work: impl FnOnce(&Runtime, Box<dyn FnOnce() + Send>),
) {
    let is_done = Arc::new(AtomicBool::new(false));
    let (begin, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    let done = is_done.clone();
    work(
        runtime,
        Box::new(move || {
            begin.send(()).unwrap();
            ended.recv().unwrap();
            done.store(true, SeqCst);
        }),
    );
    let outsider = thread::spawn(move || {
        begun.recv().unwrap();
        // Long enough to catch a clock that moves too early.
        thread::sleep(Duration::from_millis(30));
        end.send(()).unwrap();
    });
    runtime.block_on(async { sleep(HOUR).await });
    assert!(is_done.load(SeqCst), "the clock moved while there was work");
    outsider.join().unwrap();
}

#[test]
fn time_stands_still_while_a_job_blocks() {
    for runtime in paused() {
        time_stands_still_while(&runtime, |runtime, work| {
            runtime.spawn_blocking(work);
        });
    }
}

#[test]
fn time_stands_still_while_a_worker_runs() {
    let [_, _, many] = paused();
    time_stands_still_while(&many, |runtime, work| {
        runtime.spawn(async { work() });
    });
}

#[test]
fn time_stands_still_while_a_task_blocks_in_place() {
    let [_, one, many] = paused();
    for runtime in [one, many] {
        time_stands_still_while(&runtime, |runtime, work| {
            runtime.spawn(async { blitzen::task::block_in_place(work) });
        });
    }
}

#[test]
fn the_clock_is_moved_by_hand_and_let_go() {
    for runtime in paused() {
        runtime.block_on(async {
            let start = Instant::now();
            advance(HOUR).await;
            assert_eq!(start.elapsed(), HOUR);

            let sleeping = blitzen::spawn(async {
                sleep(HOUR).await;
                Instant::now()
            });
            // It takes part in the hour only once it has begun to sleep.
            while runtime.metrics().num_alive_tasks() == 0 {
                blitzen::task::yield_now().await;
            }
            let woken = sleeping.await.unwrap();
            assert!(woken >= start + 2 * HOUR);

            resume();
            let (before, real) = (Instant::now(), std::time::Instant::now());
            sleep(Duration::from_millis(5)).await;
            assert!(before.elapsed() >= Duration::from_millis(5));
            assert!(real.elapsed() >= Duration::from_millis(5), "it runs again");
            pause();
            let stopped = Instant::now();
            thread::sleep(Duration::from_millis(2));
            assert_eq!(Instant::now(), stopped);
        });
    }
}

#[test]
fn a_clock_paused_at_any_moment_fires_a_sleep_when_it_is_advanced_by_its_duration() {
    for _ in 0..20 {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            pause();
            let task = blitzen::spawn(sleep(HOUR));
            blitzen::task::yield_now().await;
            advance(HOUR).await;
            blitzen::task::yield_now().await;
            assert!(task.is_finished());
        });
    }
}
