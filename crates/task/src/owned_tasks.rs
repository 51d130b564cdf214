//! The live tasks of a scheduler, or of one of its shards, so that they can be
//! counted, listed, and dropped when it closes.
//!
//! O1. A task is in the list from its spawn until it is complete.
//! O2. Once closed, the list takes no task.

use std::ptr::NonNull;

use blitzen_util::list::List;
use blitzen_util::shim::Mutex;
use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::Relaxed;

use crate::header::Header;
use crate::raw::{self, Runnable};
use crate::state::CloseOutcome;

/// The runtime is shutting down, and takes no more tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// A list of live tasks.
#[derive(Debug)]
pub struct OwnedTasks {
    tasks: Mutex<TaskList>,
    /// The length of the list; written under the lock only, so exact there.
    len: AtomicUsize,
}

#[derive(Debug)]
struct TaskList {
    list: List<Header>,
    closed: bool,
}

// SAFETY: the headers are reached under the lock, and are made for any thread.
unsafe impl Send for TaskList {}

impl OwnedTasks {
    /// An empty list.
    pub fn new() -> Self {
        Self {
            tasks: Mutex::new(TaskList {
                list: List::new(),
                closed: false,
            }),
            len: AtomicUsize::new(0),
        }
    }

    /// Adds a task; refuses when closed (O2), and then the runnable should be
    /// dropped, which cancels the task.
    ///
    /// # Safety
    /// The task is in no list yet, and [`Schedule::release`](crate::Schedule::release) of its
    /// scheduler removes it from this one.
    pub unsafe fn insert(&self, task: &Runnable) -> Result<(), Closed> {
        let mut tasks = self.tasks.lock();
        if tasks.closed {
            return Err(Closed);
        }
        // SAFETY: in no list, as the caller guarantees; T1 keeps it alive until it is
        // complete, and its scheduler removes it before it is freed (O1).
        unsafe { tasks.list.push_back(task.as_ptr()) };
        self.len.store(self.len.load(Relaxed) + 1, Relaxed);
        Ok(())
    }

    /// Takes a task out that is complete.
    ///
    /// # Safety
    /// The task is in this list or in none.
    pub unsafe fn remove(&self, task: &Header) {
        let mut tasks = self.tasks.lock();
        // SAFETY: alive while it is borrowed; the caller guarantees that it is in this list
        // or in none.
        if unsafe { tasks.list.remove(NonNull::from(task)) } {
            self.len.store(self.len.load(Relaxed) - 1, Relaxed);
        }
    }

    /// How many tasks are live.
    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// Whether no task is live.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        self.tasks.lock().closed
    }

    /// Refuses tasks from now on.
    pub fn close(&self) {
        self.tasks.lock().closed = true;
    }

    /// Drops the future of every task that waits to be woken, and tells the
    /// others to stop when their turn comes. The list must be closed.
    ///
    /// # Safety
    /// Futures that are not `Send` belong to the calling thread.
    pub unsafe fn cancel_idle(&self) {
        let rounds = self.len();
        for _ in 0..rounds {
            let mut tasks = self.tasks.lock();
            let Some(task) = tasks.list.pop_front() else {
                return;
            };
            // SAFETY: O1, under the lock.
            let close = unsafe { task.as_ref() }.state.close_idle();
            // SAFETY: it was just taken from the list, so it is in none; O1 as before. The
            // thread that completes it removes it.
            unsafe { tasks.list.push_back(task) };
            drop(tasks);
            if close == CloseOutcome::Cancel {
                // SAFETY: moved to running above.
                unsafe { raw::cancel(task) };
            }
        }
    }

    /// Drops the future of every task that is not being run, and tells the
    /// others to stop. Closes the list.
    ///
    /// # Safety
    /// No [`Runnable`] of a task in the list is left or can be made: the queues
    /// were emptied and forget what still comes, and whoever took one out has
    /// begun to run it. Futures that are not `Send` belong to the calling thread.
    pub unsafe fn cancel_all(&self) {
        loop {
            let mut tasks = self.tasks.lock();
            tasks.closed = true;
            let Some(task) = tasks.list.pop_front() else {
                return;
            };
            self.len.store(self.len.load(Relaxed) - 1, Relaxed);
            // SAFETY: O1, under the lock: the thread that completes a task removes it here
            // before it gives up the scheduler's reference. So it is alive until the lock is
            // released.
            let close = unsafe { task.as_ref() }.state.close();
            drop(tasks);
            if close == CloseOutcome::Cancel {
                // SAFETY: moved to running above.
                unsafe { raw::cancel(task) };
            }
        }
    }

    /// Calls `visit` with every live task.
    pub fn for_each(&self, mut visit: impl FnMut(&Header)) {
        let tasks = self.tasks.lock();
        // SAFETY: O1, under the lock, as above.
        tasks.list.for_each(|task| visit(unsafe { task.as_ref() }));
    }
}

impl Default for OwnedTasks {
    fn default() -> Self {
        Self::new()
    }
}
