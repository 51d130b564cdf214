//! Tasks that become runnable after the shutdown of their scheduler has begun, when no queue takes
//! them any more.
//!
//! They are not dropped where they are woken: the caller of a waker may hold locks that a future's
//! destructor needs. Nor can all of them wait until every thread has left: a thread that has not
//! may be waiting for just this task.
//!
//! L1. A late task stays here until a thread that waits for the end of the shutdown, or for its
//!     pinned tasks, cancels it. That thread is counted meanwhile, so it is not X3 that cancels the
//!     task. Whoever adds a task ends the waits of these threads afterwards.
//! L2. X3 closes this first. What is here then, or comes later, is forgotten: X3 cancels it through
//!     the lists of live tasks.

use blitzen_task::Runnable;
use blitzen_util::shim::Mutex;

use crate::scheduler::Scheduler;
use crate::task_queue::TaskQueue;

pub(crate) struct LateTasks(Mutex<TaskQueue>);

impl LateTasks {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(TaskQueue::new()))
    }

    /// Adds a task; returns whether somebody has to cancel it (L1).
    #[must_use]
    fn push(&self, task: Runnable) -> bool {
        let mut tasks = self.0.lock();
        match tasks.closed {
            true => task.forget(), // L2
            false => tasks.push(task),
        }
        !tasks.closed
    }

    fn pop(&self) -> Option<Runnable> {
        self.0.lock().pop()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Forgets what is here, and what comes later (L2).
    pub(crate) fn close(&self) {
        let mut tasks = self.0.lock();
        tasks.closed = true;
        while let Some(task) = tasks.pop() {
            task.forget();
        }
    }
}

impl Scheduler {
    /// Takes a task that was spawned or woken, and that no queue takes since the scheduler has
    /// closed.
    #[cold]
    pub(crate) fn refuse(&self, task: Runnable) {
        let Some(task) = self.world().refuse(task) else {
            return;
        };
        if task.is_borrowing() {
            drop(task); // nobody who waits for the shutdown may be there
        } else if self.late.push(task) {
            self.notify_pinned();
            self.notify_closers();
        }
    }

    /// Cancels the tasks that have come too late (L1). Futures that are not `Send` belong to the
    /// calling thread.
    #[cold]
    pub(crate) fn cancel_late(&self) {
        if self.late.is_empty() || !self.try_stay() {
            return; // X3 cancels them
        }
        self.world().run_inside(&mut || {
            while let Some(task) = self.late.pop() {
                drop(task); // which cancels it
            }
            self.leave(); // inside: the last one that leaves drops futures
        });
    }
}
