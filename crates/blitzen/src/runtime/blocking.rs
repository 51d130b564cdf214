//! Work that blocks, as tasks on the pool of threads for it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use blitzen_sched::{Job, Refused, Worker};
use blitzen_task::{Header, Id as TaskId, Origin, Runnable, Schedule};

use super::inner::Inner;
use super::lull;
use super::world::{give_way, run_worker};
use crate::task::JoinHandle;

/// A closure as a future that ends with its first poll.
struct Blocking<F>(Option<F>);

// The closure is moved out before it is called, and never pinned.
impl<F> Unpin for Blocking<F> {}

impl<F: FnOnce() -> R, R> Future for Blocking<F> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<R> {
        match self.0.take() {
            Some(code) => Poll::Ready(code()),
            None => unreachable!("a blocking task is polled once"),
        }
    }
}

/// The scheduler of a task that is never woken: it waits in the pool's queue
/// for its one poll.
struct Once;

impl Schedule for Once {
    fn schedule(&self, task: Runnable) {
        drop(task);
    }

    fn release(&self, _: &Header) {}
}

impl Inner {
    /// Runs code that blocks; `mandatory` code runs even if the runtime shuts
    /// down first.
    #[track_caller]
    pub(crate) fn spawn_blocking<F, R>(
        &self,
        code: F,
        mandatory: bool,
        origin: Origin,
    ) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let future = Blocking(Some(code));
        let (task, handle) = blitzen_task::spawn(future, Once, TaskId::next(), origin);
        self.world().lull().occupy();
        match self.pool().submit(Job { task, mandatory }) {
            Ok(()) => {}
            Err(Refused::Closed(job)) => {
                drop(job); // which cancels it
                lull::vacate(self.world());
            }
            Err(Refused::NoThread(error)) => panic!("OS can't spawn worker thread: {error}"),
        }
        handle
    }
}

impl Inner {
    /// Lets a thread of the pool go on with a worker whose own thread blocks.
    #[track_caller]
    pub(crate) fn go_on_elsewhere(&self, worker: Worker) {
        give_way(self.world());
        let world = self.world().clone();
        let run = move || {
            let worker = worker;
            // It is a worker that may rest, and blocking work only for a start.
            lull::vacate(&world);
            run_worker(worker, &world);
            world.lull().occupy();
        };
        // Mandatory: somebody has to run its tasks, or cancel them.
        drop(self.spawn_blocking(run, true, Origin::caller()));
    }
}
