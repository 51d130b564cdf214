//! What the tests of the engine share.

#![allow(dead_code)] // each test file uses some of it

use std::future::{Future, poll_fn};
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use blitzen::runtime::{Builder, Handle, Id, Runtime};
use blitzen::task::yield_now;
use blitzen::time::sleep;

/// Long enough that only what never comes runs into it.
pub(crate) const FOREVER: Duration = Duration::from_secs(60);
pub(crate) const SHORT: Duration = Duration::from_millis(1);

pub(crate) fn multi_thread(workers: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(workers)
        .enable_all()
        .build()
        .unwrap()
}

pub(crate) fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Runs `test` on a thread of its own, and panics if it takes forever.
pub(crate) fn must_end(test: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        test();
        drop(done);
    });
    match is_done.recv_timeout(FOREVER) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        _ => thread.join().unwrap(),
    }
}

/// Tasks, timers and handles of `runtime` work as they should.
pub(crate) async fn assert_works(id: Id) {
    for _ in 0..20 {
        let task = blitzen::spawn(async {
            sleep(SHORT).await;
            yield_now().await;
            Handle::current().id()
        });
        assert_eq!(task.await.unwrap(), id, "a task sees its own runtime");
    }
}

/// Calls `on_wake` when it is woken, then wakes the waker that it stands for.
struct Hostile<F> {
    on_wake: F,
    inner: Waker,
}

impl<F: Fn() + Send + Sync + 'static> Wake for Hostile<F> {
    fn wake(self: Arc<Self>) {
        let inner = self.inner.clone();
        // Whatever happens, the task goes on.
        struct WakeOnDrop(Waker);
        impl Drop for WakeOnDrop {
            fn drop(&mut self) {
                self.0.wake_by_ref();
            }
        }
        let _wake = WakeOnDrop(inner);
        (self.on_wake)();
    }
}

/// Polls `future` with wakers that call `on_wake` first.
pub(crate) async fn with_hostile_waker<T>(
    future: impl Future<Output = T>,
    on_wake: impl Fn() + Clone + Send + Sync + 'static,
) -> T {
    let mut future = std::pin::pin!(future);
    poll_fn(|cx| {
        let waker = Waker::from(Arc::new(Hostile {
            on_wake: on_wake.clone(),
            inner: cx.waker().clone(),
        }));
        future.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await
}
