//! The live tasks of a scheduler, or of one of its shards, so that they can be
//! counted, listed, and dropped when it closes.
//!
//! O1. A task is in the list from its spawn until it is complete.
//! O2. Once closed, the list takes no task.
//! O3. The cursor of a walk is a task in the list, or none: who takes that task out moves the
//!     cursor to the next one first.

use std::ptr::NonNull;

use blitzen_util::list::List;
use blitzen_util::lock::AsymmetricLock;
use blitzen_util::shim::Mutex;
use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::Relaxed;

use crate::header::Header;
use crate::join::AbortHandle;
use crate::raw::{self, Runnable};
use crate::state::{CloseOutcome, Wake};
use crate::watch::WatchHandle;

/// The runtime is shutting down, and takes no more tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// A list of live tasks.
#[derive(Debug)]
pub struct OwnedTasks {
    tasks: AsymmetricLock<LiveTasks>,
    /// The length of the list; written under the lock only, so exact there.
    len: AtomicUsize,
    /// Held by the walk that uses the cursor.
    walking: Mutex<()>,
}

#[derive(Debug)]
struct LiveTasks {
    list: List<Header>,
    closed: bool,
    /// The task that a walk visits next (O3).
    cursor: Option<NonNull<Header>>,
}

// SAFETY: the headers are reached under the lock, and are made for any thread.
unsafe impl Send for LiveTasks {}

impl LiveTasks {
    /// Moves the cursor off a task that leaves its position (O3).
    ///
    /// # Safety
    /// `task` is in the list.
    #[inline]
    unsafe fn leave_cursor(&mut self, task: NonNull<Header>) {
        if self.cursor == Some(task) {
            // SAFETY: in the list by the caller's word.
            self.cursor = unsafe { self.list.after(task) };
        }
    }

    fn pop_front(&mut self) -> Option<NonNull<Header>> {
        let task = self.list.front()?;
        // SAFETY: the first of the list.
        unsafe { self.leave_cursor(task) };
        self.list.pop_front()
    }
}

impl OwnedTasks {
    /// An empty list.
    pub fn new() -> Self {
        Self {
            tasks: AsymmetricLock::new(LiveTasks {
                list: List::new(),
                closed: false,
                cursor: None,
            }),
            len: AtomicUsize::new(0),
            walking: Mutex::new(()),
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

    /// Asks every task whose future unwinds itself to end, as
    /// [`AbortHandle::abort`](crate::AbortHandle::abort) does, but whatever its shields: the runtime
    /// shuts down.
    pub fn close_unwinding(&self) {
        let mut woken = Vec::new();
        let tasks = self.tasks.lock();
        tasks.list.for_each(|task| {
            // SAFETY: O1, under the lock.
            if unsafe { task.as_ref() }.state.close_unwinding() != Wake::Nothing {
                woken.push(task);
            }
        });
        drop(tasks);
        for task in woken {
            // SAFETY: moved to `SCHEDULED` above: nobody polls it, and so completes it, before.
            unsafe { raw::schedule(task) };
        }
    }

    /// Takes a task out that is complete.
    ///
    /// # Safety
    /// The task is in this list or in none.
    pub unsafe fn remove(&self, task: &Header) {
        let mut tasks = self.tasks.lock();
        let task = NonNull::from(task);
        // SAFETY: the cursor is in the list (O3).
        unsafe { tasks.leave_cursor(task) };
        // SAFETY: alive while it is borrowed; the caller guarantees that it is in this list
        // or in none.
        if unsafe { tasks.list.remove(task) } {
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

    /// Orders the caller after every visit of the list that is over, and before every later one.
    pub fn follow_visits(&self) {
        drop(self.tasks.lock());
    }

    /// Refuses tasks from now on.
    pub fn close(&self) {
        self.tasks.lock().closed = true;
    }

    /// Drops the future of every task that waits to be woken, and tells the
    /// others to stop when their turn comes, but for those that unwind themselves. The list must
    /// be closed.
    ///
    /// # Safety
    /// Futures that are not `Send` belong to the calling thread.
    pub unsafe fn cancel_idle(&self) {
        let rounds = self.len();
        for _ in 0..rounds {
            let mut tasks = self.tasks.lock();
            let Some(task) = tasks.pop_front() else {
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
    /// others to stop, but for those that unwind themselves. Closes the list.
    ///
    /// # Safety
    /// No [`Runnable`] of another task in the list is left or can be made: the queues
    /// were emptied and forget what still comes, and whoever took one out has
    /// begun to run it. Futures that are not `Send` belong to the calling thread.
    pub unsafe fn cancel_all(&self) {
        self.close();
        // None is added any more (O2), and those that stay go to the end.
        for _ in 0..self.len() {
            let mut tasks = self.tasks.lock();
            let Some(task) = tasks.pop_front() else {
                return;
            };
            // SAFETY: O1, under the lock: the thread that completes a task removes it here
            // before it gives up the scheduler's reference. So it is alive until the lock is
            // released.
            let close = unsafe { task.as_ref() }.state.close_other();
            match close {
                // SAFETY: it was just taken from the list, so it is in none; O1 as before.
                CloseOutcome::Unwinds => unsafe { tasks.list.push_back(task) },
                _ => self.len.store(self.len.load(Relaxed) - 1, Relaxed),
            }
            drop(tasks);
            if close == CloseOutcome::Cancel {
                // SAFETY: moved to running above.
                unsafe { raw::cancel(task) };
            }
        }
    }

    /// Shows every task that is live throughout, at most `batch` under one hold of the lock. A
    /// task that changes its position in a list that closes is shown twice. `visit` must not
    /// call foreign code.
    pub fn walk(&self, batch: usize, mut visit: impl FnMut(&Header)) {
        // SAFETY: alive while it is shown.
        self.walk_raw(batch, |task| visit(unsafe { task.as_ref() }));
    }

    /// [`walk`](Self::walk), with references that can have a task watched.
    pub fn walk_watchable(&self, batch: usize, mut visit: impl FnMut(WatchHandle)) {
        // SAFETY: alive while it is shown; the list has pointers to whole tasks.
        self.walk_raw(batch, |task| visit(unsafe { WatchHandle::new(task) }));
    }

    /// Shows pointers to tasks that are alive meanwhile.
    fn walk_raw(&self, batch: usize, mut visit: impl FnMut(NonNull<Header>)) {
        let _walking = self.walking.lock();
        let mut tasks = self.tasks.lock();
        tasks.cursor = tasks.list.front();
        // New tasks are behind those that were there, and the walk need not reach them. A closed
        // list takes none, and is walked to its end since tasks move there.
        let mut left = self.len();
        loop {
            for _ in 0..batch {
                let is_over = left == 0 && !tasks.closed;
                let Some(task) = tasks.cursor.filter(|_| !is_over) else {
                    tasks.cursor = None;
                    return;
                };
                left = left.saturating_sub(1);
                // SAFETY: O3.
                tasks.cursor = unsafe { tasks.list.after(task) };
                visit(task); // O1, under the lock
            }
            drop(tasks);
            tasks = self.tasks.lock();
        }
    }

    /// Adds a handle of every live task that `matches` to `tasks`.
    pub fn collect(&self, tasks: &mut Vec<AbortHandle>, matches: impl Fn(&Header) -> bool) {
        let live = self.tasks.lock();
        live.list.for_each(|task| {
            // SAFETY: O1, under the lock: the scheduler's reference is there.
            let header = unsafe { task.as_ref() };
            if matches(header) {
                tasks.push(AbortHandle::new(header));
            }
        });
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
