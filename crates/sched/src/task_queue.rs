//! A queue of tasks that are linked through their headers, so that none of them needs memory for it.

use std::ptr::NonNull;

use blitzen_task::{Header, Runnable};

/// Tasks linked through their headers.
pub(crate) struct TaskQueue {
    first: Option<NonNull<Header>>,
    last: Option<NonNull<Header>>,
    pub(crate) closed: bool,
}

// SAFETY: the tasks in a queue are runnables, which may go anywhere.
unsafe impl Send for TaskQueue {}

impl TaskQueue {
    pub(crate) fn new() -> Self {
        Self {
            first: None,
            last: None,
            closed: false,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, task: Runnable) {
        // SAFETY: the caller holds the lock of the queue the task goes into.
        unsafe { task.set_queue_next(None) };
        let task = task.into_raw();
        match self.last.replace(task) {
            None => self.first = Some(task),
            Some(last) => {
                // SAFETY: in the queue, so not taken out of it; lock as above.
                unsafe {
                    let last = Runnable::from_raw(last);
                    last.set_queue_next(Some(task));
                    last.forget();
                }
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Runnable> {
        // SAFETY: put in from `into_raw`, and out of the queue with this; lock
        // as above.
        unsafe {
            let task = Runnable::from_raw(self.first?);
            self.first = task.queue_next();
            if self.first.is_none() {
                self.last = None;
            }
            Some(task)
        }
    }
}
