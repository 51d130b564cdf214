//! What the tests of scopes share.

#![allow(dead_code)] // each test file uses some of it

use std::future::{Future, pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::time::Duration;

use blitzen::runtime::{Builder, Runtime};

/// Long enough that only what never comes runs into it.
pub(crate) const FOREVER: Duration = Duration::from_secs(60);

pub(crate) fn workers(count: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(count).enable_all().build().unwrap()
}

pub(crate) fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A runtime in which time passes only when there is nothing else to do.
pub(crate) fn paused() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

/// Runs `test` on one thread and on several.
pub(crate) fn on_both<F: Future<Output = ()>>(test: impl Fn() -> F) {
    for runtime in [one_thread(), workers(2)] {
        runtime.block_on(async {
            blitzen::time::timeout(FOREVER, test())
                .await
                .expect("it hangs");
        });
    }
}

/// Counts what is alive.
#[derive(Clone, Default)]
pub(crate) struct Alive(Arc<AtomicUsize>);

pub(crate) struct AliveGuard(Arc<AtomicUsize>);

impl Alive {
    pub(crate) fn guard(&self) -> AliveGuard {
        self.0.fetch_add(1, SeqCst);
        AliveGuard(self.0.clone())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(SeqCst)
    }

    /// Waits for ever, and counts as alive until it is dropped.
    pub(crate) fn forever<E>(&self) -> impl Future<Output = Result<(), E>> + Send + use<E>
    where
        E: Send + 'static,
    {
        let guard = self.guard();
        async move {
            let _guard = guard;
            pending().await
        }
    }

    /// Waits until `count` are alive.
    pub(crate) async fn reaches(&self, count: usize) {
        while self.count() != count {
            blitzen::task::yield_now().await;
        }
    }
}

impl Drop for AliveGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// Polls `future` once.
pub(crate) async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx))).await
}
