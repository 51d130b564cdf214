//! The worker of a current-thread scheduler, run by the caller of `block_on`
//! beside its own future.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use blitzen_task::Runnable;
use blitzen_util::coop;
use blitzen_util::wait;

use crate::context_depth::context_depth;
use crate::current::{self, Previous};
use crate::future_wake::FutureWake;
use crate::worker::{PollLoop, Worker, run_observed, run_recorded, run_task};

/// The right to drive a current-thread scheduler, on the thread that has it.
pub struct CoreGuard {
    previous: Option<Previous>,
    /// How many runtimes the thread had entered when it took the core.
    depth: usize,
    /// The worker is installed on this thread.
    not_send: PhantomData<*const ()>,
}

impl CoreGuard {
    /// Installs the worker: its tasks run on the calling thread.
    pub fn enter(worker: Box<Worker>) -> Self {
        let guard = Self {
            previous: Some(current::install(worker)),
            depth: context_depth(),
            not_send: PhantomData,
        };
        guard.with(Worker::start);
        guard
    }

    /// Lends the worker. It is of a current-thread scheduler, so nobody takes it
    /// away from this thread.
    fn with<R>(&self, visit: impl FnOnce(&Worker) -> R) -> R {
        current::with_worker(|worker| match worker {
            Some(worker) => visit(worker),
            None => unreachable!("the worker of a current-thread scheduler stays"),
        })
    }

    /// Polls `future`, and the worker's tasks beside it, until the future ends.
    /// Its `waker` notes that in `wake` and interrupts the worker's driver turn.
    pub fn drive<F: Future>(
        &self,
        mut future: Pin<&mut F>,
        waker: &Waker,
        wake: &FutureWake,
    ) -> F::Output {
        let mut cx = Context::from_waker(waker);
        loop {
            if wake.take()
                && let Poll::Ready(output) =
                    coop::with_budget(|| wait::isolated(|| future.as_mut().poll(&mut cx)))
            {
                return output;
            }
            match self.with(Worker::poll_loop) {
                PollLoop::Unobserved => self.run_tasks(wake, run_task),
                PollLoop::Recorded => self.run_tasks(wake, run_recorded),
                PollLoop::Observed => self.run_tasks(wake, run_observed),
            }
        }
    }

    /// Runs tasks until the future has been woken, and parks when there are none;
    /// returns now and then even if it has not.
    fn run_tasks(&self, wake: &FutureWake, run: impl Fn(Runnable, usize)) {
        for _ in 0..self.with(Worker::event_interval) {
            self.with(|worker| worker.scheduler().world().between_polls());
            // The future has its turn among tasks that yield.
            if self.with(Worker::end_yield_round) && wake.is_woken() {
                return;
            }
            match self.with(Worker::next_task_beside) {
                Some(task) => run(task, self.depth),
                None if wake.is_woken() => return,
                None => return self.with(Worker::park),
            }
        }
        self.with(Worker::maintain);
    }

    /// Gives the worker back, for the next thread that wants to drive it.
    pub fn leave(mut self) -> Box<Worker> {
        self.with(Worker::park_undriven);
        match self.previous.take().and_then(current::uninstall) {
            Some(worker) => worker,
            None => unreachable!("the worker of a current-thread scheduler stays"),
        }
    }

    /// Cancels every task; the scheduler is closed.
    pub fn close(mut self) {
        let scheduler = self.with(|worker| worker.scheduler().clone());
        self.with(Worker::close);
        drop(self.previous.take().and_then(current::uninstall));
        if scheduler.config.is_local {
            scheduler.cancel_local(); // here: another thread may leave last
        }
        scheduler.leave();
    }
}

impl Drop for CoreGuard {
    /// Whoever has it gives it back or closes it, also when a future panics.
    fn drop(&mut self) {
        if let Some(previous) = self.previous.take() {
            drop(current::uninstall(previous));
        }
    }
}
