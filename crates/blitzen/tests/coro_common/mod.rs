//! What the tests of coroutines have in common.

#![allow(dead_code, reason = "each test program uses a part")]

use blitzen::coro;
use blitzen::runtime::{Builder, Runtime};
use blitzen::task::JoinHandle;

/// Spawns a coroutine.
#[track_caller]
pub(crate) fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    // SAFETY: the functions of these tests do not rely on nested calls of their thread.
    unsafe { coro::spawn(f) }
}

pub(crate) fn multi(workers: usize) -> Runtime {
    multi_builder(workers).build().unwrap()
}

pub(crate) fn multi_builder(workers: usize) -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers).enable_all();
    builder
}

pub(crate) fn current() -> Runtime {
    current_builder().build().unwrap()
}

pub(crate) fn current_builder() -> Builder {
    let mut builder = Builder::new_current_thread();
    builder.enable_all();
    builder
}

/// One of each kind.
pub(crate) fn runtimes() -> [Runtime; 3] {
    [multi(1), multi(4), current()]
}
