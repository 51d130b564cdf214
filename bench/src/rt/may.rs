//! may: coroutines with stacks of their own, on worker threads that never end.
//!
//! It polls no futures, so its workloads are written for it. Its threads belong to the
//! process, so each of its samples has one.

use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release};

use may::coroutine::{self, Coroutine, JoinHandle};

/// Starts the threads. A process has one set of them, whose size is set before the first
/// coroutine.
pub(crate) fn start(workers: usize) {
    may::config().set_workers(workers);
}

pub(crate) fn spawn<T, F>(work: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    may::go!(work)
}

/// Runs `work` in a coroutine and hands its result to this thread.
pub(crate) fn run_inside<T, F>(work: F) -> T
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    join(spawn(work))
}

pub(crate) fn join<T>(handle: JoinHandle<T>) -> T {
    handle
        .join()
        .expect("coroutines of a workload do not panic")
}

/// A flag that one coroutine waits for.
#[derive(Default)]
pub(crate) struct Flag {
    is_set: AtomicBool,
}

impl Flag {
    /// Sets the flag and wakes `waiter`.
    pub(crate) fn fire(&self, waiter: &Coroutine) {
        // Release, met by the AcqRel swap in `wait`.
        self.is_set.store(true, Release);
        waiter.unpark();
    }

    /// Waits until [`fire`](Flag::fire) and clears the flag.
    pub(crate) fn wait(&self) {
        while !self.is_set.swap(false, AcqRel) {
            coroutine::park();
        }
    }
}
