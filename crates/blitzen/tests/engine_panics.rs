//! Panics in foreign code take neither a worker nor a task along.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use blitzen::runtime::{Builder, Runtime, UnhandledPanic};

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("in drop");
        }
    }
}

fn one_worker() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap()
}

/// The runtime still works, and holds nothing.
fn assert_sound(runtime: &Runtime) {
    for round in 0..10 {
        assert_eq!(
            runtime
                .block_on(runtime.spawn(async move { round }))
                .unwrap(),
            round
        );
    }
    while runtime.metrics().num_alive_tasks() > 0 {
        std::thread::yield_now(); // the last one is just being taken off the list
    }
}

#[test]
fn a_panic_in_a_task() {
    let runtime = one_worker();
    let error = runtime
        .block_on(runtime.spawn(async { panic!("in poll") }))
        .unwrap_err();
    assert!(error.is_panic());
    assert_sound(&runtime);
}

#[test]
fn a_panic_in_the_drop_of_a_future() {
    let runtime = one_worker();
    let (begun, beginning) = blitzen::channel::oneshot::channel();
    let task = runtime.spawn(async {
        let _bomb = Bomb;
        begun.send(()).unwrap();
        pending::<()>().await
    });
    runtime.block_on(beginning).unwrap();
    task.abort();
    assert!(runtime.block_on(task).unwrap_err().is_panic());
    assert_sound(&runtime);
}

#[test]
fn a_panic_in_the_drop_of_an_output() {
    let runtime = one_worker();
    drop(runtime.spawn(async { Bomb }));
    let late = runtime.spawn(async { Bomb });
    while !late.is_finished() {
        std::thread::yield_now();
    }
    drop(late);
    assert_sound(&runtime);
}

#[test]
fn a_panic_in_a_waker() {
    struct Angry;
    impl Wake for Angry {
        fn wake(self: Arc<Self>) {
            panic!("in wake");
        }
    }
    let runtime = one_worker();
    let (go, wait) = blitzen::channel::oneshot::channel::<()>();
    let mut task = runtime.spawn(wait);
    let waker = Waker::from(Arc::new(Angry));
    let polled = Pin::new(&mut task).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    go.send(()).unwrap();
    while !task.is_finished() {
        std::thread::yield_now();
    }
    // One that is called behind the drivers, after a yield.
    let poll_yield = || {
        let waker = Waker::from(Arc::new(Angry));
        let mut inner = Box::pin(blitzen::task::yield_now());
        let _ = inner.as_mut().poll(&mut Context::from_waker(&waker));
    };
    let yielding = runtime.spawn(async move { poll_yield() });
    runtime.block_on(yielding).unwrap();
    // And one that is called at once, where there is no worker.
    runtime
        .block_on(runtime.spawn_blocking(poll_yield))
        .unwrap();
    assert_sound(&runtime);
}

#[test]
fn a_panic_in_blocking_work() {
    let runtime = one_worker();
    let error = runtime
        .block_on(runtime.spawn_blocking(|| panic!("on the pool")))
        .unwrap_err();
    assert!(error.is_panic());
    assert_eq!(runtime.block_on(runtime.spawn_blocking(|| 1)).unwrap(), 1);
}

#[test]
fn panics_while_the_runtime_shuts_down() {
    for workers in [1, 3] {
        let runtime = Builder::new_multi_thread()
            .worker_threads(workers)
            .build()
            .unwrap();
        for _ in 0..100 {
            runtime.spawn(async {
                let _bomb = Bomb;
                pending::<()>().await
            });
        }
        drop(runtime);
    }
}

#[test]
fn a_runtime_that_a_panic_has_shut_down_cancels_what_is_spawned() {
    let runtime = Builder::new_current_thread()
        .unhandled_panic(UnhandledPanic::ShutdownRuntime)
        .build()
        .unwrap();
    let run = || {
        runtime.block_on(async {
            blitzen::spawn(async { panic!("in a task") });
            pending::<()>().await
        })
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_err();

    let refused = runtime.spawn(async {});
    assert!(refused.is_finished());
    let error = one_worker().block_on(refused).unwrap_err();
    assert!(error.is_cancelled());
}
