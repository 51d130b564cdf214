//! A runtime that goes away drops every task once, waits as long as it was
//! told to, and says what did not stop.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

use blitzen::runtime::{Builder, Handle, LocalRuntime, Runtime};

struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn runtimes() -> Vec<Runtime> {
    let mut runtimes = vec![Builder::new_current_thread().build().unwrap()];
    for workers in [1, 2, 4] {
        let mut builder = Builder::new_multi_thread();
        runtimes.push(builder.worker_threads(workers).build().unwrap());
    }
    runtimes
}

#[test]
fn every_future_is_dropped_once_in_whatever_state() {
    for runtime in runtimes() {
        let drops = Arc::new(AtomicUsize::new(0));
        let held = || Dropped(drops.clone());
        // Waiting, waiting under a shield, yielding, spawning, not begun.
        for _ in 0..100 {
            let (one, two, three, four) = (held(), held(), held(), held());
            runtime.spawn(async move {
                let _one = one;
                pending::<()>().await
            });
            runtime.spawn(async move {
                let _two = two;
                blitzen::task::shield(pending::<()>()).await
            });
            runtime.spawn(async move {
                let _three = three;
                loop {
                    blitzen::task::yield_now().await;
                }
            });
            runtime.spawn(async move {
                blitzen::spawn(async move {
                    let _four = four;
                    pending::<()>().await
                });
            });
        }
        runtime.block_on(async {
            for _ in 0..10 {
                blitzen::task::yield_now().await;
            }
        });
        let five = held();
        runtime.spawn(async move {
            let _five = five;
            pending::<()>().await
        });
        drop(runtime);
        assert_eq!(drops.load(Relaxed), 401);
    }
}

#[test]
fn a_runtime_that_ran_nothing_drops_what_was_spawned() {
    for runtime in runtimes() {
        let drops = Arc::new(AtomicUsize::new(0));
        let held = Dropped(drops.clone());
        let handle = runtime.spawn(async move {
            let _held = held;
            pending::<()>().await
        });
        drop(runtime);
        assert_eq!(drops.load(Relaxed), 1);
        assert!(handle.is_finished());
    }
}

#[test]
fn a_task_that_drops_its_own_runtime_in_the_background_is_fine() {
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    let (done, end) = mpsc::channel();
    handle.spawn(async move {
        runtime.shutdown_background();
        done.send(()).unwrap();
        pending::<()>().await
    });
    end.recv().unwrap();
}

#[test]
fn what_is_spawned_on_a_dead_runtime_is_cancelled_at_once() {
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    drop(runtime);
    let drops = Arc::new(AtomicUsize::new(0));
    let held = Dropped(drops.clone());
    let task = handle.spawn(async move { drop(held) });
    assert!(task.is_finished());
    assert_eq!(drops.load(Relaxed), 1);
    let blocking = handle.spawn_blocking(|| ());
    assert!(blocking.is_finished());
}

#[test]
fn destructors_run_inside_the_runtime_and_may_spawn_and_wake() {
    struct Busy(Option<blitzen::channel::oneshot::Sender<()>>);
    impl Drop for Busy {
        fn drop(&mut self) {
            assert!(Handle::try_current().is_ok());
            let refused = blitzen::spawn(async {});
            assert!(refused.is_finished());
            // Wakes another task, which is just as dead.
            let _ = self.0.take().unwrap().send(());
        }
    }
    for runtime in runtimes() {
        for _ in 0..50 {
            let (send, receive) = blitzen::channel::oneshot::channel();
            let busy = Busy(Some(send));
            runtime.spawn(async move {
                let _busy = busy;
                pending::<()>().await
            });
            runtime.spawn(receive);
        }
        runtime.block_on(async { blitzen::task::yield_now().await });
        drop(runtime);
    }
}

#[test]
fn a_drain_that_reaches_its_deadline_reports_the_work_that_is_left() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    let (release, hold) = mpsc::channel::<()>();
    let (begun, beginning) = mpsc::channel();
    let also_begun = begun.clone();
    let stubborn = async move {
        begun.send(()).unwrap();
        let _ = hold.recv();
    };
    let blocked = blitzen::task::Builder::new()
        .name("stubborn")
        .spawn_on(stubborn, runtime.handle())
        .unwrap();
    let (release_too, hold_too) = mpsc::channel::<()>();
    runtime.spawn_blocking(move || {
        also_begun.send(()).unwrap();
        let _ = hold_too.recv();
    });
    beginning.recv().unwrap();
    beginning.recv().unwrap();
    let drops = Arc::new(AtomicUsize::new(0));
    let held = Dropped(drops.clone());
    runtime.spawn(async move {
        let _held = held;
        pending::<()>().await
    });

    let stragglers = runtime
        .shutdown_within(Duration::from_millis(50))
        .unwrap_err();
    assert_eq!(stragglers.blocking_threads, 1);
    let [task] = &stragglers.tasks[..] else {
        panic!("one task is still at work: {stragglers}");
    };
    assert_eq!(task.name.as_deref(), Some("stubborn"));
    assert_eq!(task.state, "running");
    assert_eq!(task.id, blocked.id());
    assert!(task.spawned_at.file().ends_with("engine_shutdown.rs"));
    assert!(stragglers.to_string().contains("stubborn"), "{stragglers}");
    assert_eq!(drops.load(Relaxed), 1, "the others are gone");
    drop((release, release_too));
}

#[test]
fn blocking_work_that_has_begun_is_waited_for_and_the_rest_is_dropped() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(1)
        .build()
        .unwrap();
    let (begun, beginning) = mpsc::channel();
    let (release, hold) = mpsc::channel::<()>();
    let ran = Arc::new(AtomicUsize::new(0));
    let first = runtime.spawn_blocking({
        let ran = ran.clone();
        move || {
            begun.send(()).unwrap();
            let _ = hold.recv();
            ran.fetch_add(1, Relaxed);
        }
    });
    beginning.recv().unwrap();
    let second = runtime.spawn_blocking({
        let ran = ran.clone();
        move || ran.fetch_add(100, Relaxed)
    });
    let helper = std::thread::spawn(move || {
        while !second.is_finished() {
            std::thread::yield_now();
        }
        drop(release); // only now may the first one end
    });
    drop(runtime);
    helper.join().unwrap();
    assert!(first.is_finished());
    assert_eq!(ran.load(Relaxed), 1);
}

#[test]
fn local_tasks_are_dropped_on_their_thread() {
    struct Here(std::rc::Rc<std::cell::Cell<u32>>, std::thread::ThreadId);
    impl Drop for Here {
        fn drop(&mut self) {
            assert_eq!(std::thread::current().id(), self.1);
            self.0.set(self.0.get() + 1);
        }
    }
    let count = std::rc::Rc::new(std::cell::Cell::new(0));
    let runtime = LocalRuntime::new().unwrap();
    for _ in 0..10 {
        let here = Here(count.clone(), std::thread::current().id());
        runtime.spawn_local(async move {
            let _here = here;
            pending::<()>().await
        });
    }
    runtime.block_on(async { blitzen::task::yield_now().await });
    drop(runtime);
    assert_eq!(count.get(), 10);
}
