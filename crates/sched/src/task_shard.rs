//! Where a task is registered: some shards for each worker and for each shard of
//! the injection queue, so that spawning writes no cache line that all workers
//! write, and seldom one that thieves of the worker's tasks write.
//!
//! T1. A shard counts its tasks' references to it, and one more until the scheduler
//!     has shut down. While the count is not zero it holds one strong reference to
//!     the scheduler, which it is part of.
//! T2. Once zero the count stays zero.

use std::ops::Deref;
use std::ptr::NonNull;

use blitzen_observe::Counter;
use blitzen_task::{Header, OwnedTasks, Runnable, Schedule};
use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Relaxed};
use blitzen_util::shim::cell::UnsafeCell;
use std::sync::Arc;

use crate::scheduler::Scheduler;

/// One shard of a scheduler's tasks.
pub(crate) struct TaskShard {
    pub(crate) owned: OwnedTasks,
    /// Tasks spawned here from outside the workers.
    pub(crate) submitted: Counter,
    /// Tasks that came to the injection queue through its shard of that queue.
    pub(crate) scheduled: Counter,
    references: AtomicUsize,
    /// The strong reference of T1. Written before the shard is shared, and taken
    /// by whoever lowers the count to zero.
    scheduler: UnsafeCell<Option<Arc<Scheduler>>>,
}

// SAFETY: the cell is written before the shard is shared and by the last of all
// references (T1); the rest is made of atomics and locks.
unsafe impl Send for TaskShard {}
// SAFETY: as above.
unsafe impl Sync for TaskShard {}

impl TaskShard {
    pub(crate) fn new() -> Self {
        Self {
            owned: OwnedTasks::new(),
            submitted: Counter::new(),
            scheduled: Counter::new(),
            references: AtomicUsize::new(1),
            scheduler: UnsafeCell::new(None),
        }
    }

    /// Gives the task_shard its strong reference (T1).
    ///
    /// # Safety
    /// No task has been registered yet, and this is called once.
    pub(crate) unsafe fn adopt(&self, scheduler: Arc<Scheduler>) {
        self.scheduler
            // SAFETY: nobody else looks yet, by the caller's word.
            .with_mut(|slot| unsafe { *slot = Some(scheduler) });
    }

    /// A reference for a new task; `None` after the shutdown (T2).
    #[inline]
    pub(crate) fn reference(&self) -> Option<TaskShardRef> {
        let mut count = self.references.load(Relaxed);
        while count != 0 {
            // Relaxed: the caller holds the scheduler in some other way.
            match self
                .references
                .compare_exchange_weak(count, count + 1, Relaxed, Relaxed)
            {
                Ok(_) => return Some(TaskShardRef(NonNull::from(self))),
                Err(newer) => count = newer,
            }
        }
        None
    }

    /// Gives up the reference that stands for the running scheduler.
    pub(crate) fn retire(&self) {
        drop(TaskShardRef(NonNull::from(self)));
    }
}

/// A counted reference to a task shard, and through it to the scheduler.
pub(crate) struct TaskShardRef(NonNull<TaskShard>);

// SAFETY: a shard may be reached from any thread.
unsafe impl Send for TaskShardRef {}
// SAFETY: as above.
unsafe impl Sync for TaskShardRef {}

impl Deref for TaskShardRef {
    type Target = TaskShard;

    fn deref(&self) -> &TaskShard {
        // SAFETY: T1: the count is not zero, so the scheduler is there.
        unsafe { self.0.as_ref() }
    }
}

impl TaskShardRef {
    fn scheduler(&self) -> &Arc<Scheduler> {
        self.scheduler.with(|slot| {
            // SAFETY: written before any reference was given, taken after the
            // last is gone.
            match unsafe { &*slot } {
                Some(scheduler) => scheduler,
                None => unreachable!("T1"),
            }
        })
    }
}

impl Drop for TaskShardRef {
    #[inline]
    fn drop(&mut self) {
        // AcqRel, met by itself: who drops the scheduler sees all that others
        // did with it.
        if self.references.fetch_sub(1, AcqRel) == 1 {
            // SAFETY: T2: nobody looks any more.
            let scheduler = self.scheduler.with_mut(|slot| unsafe { (*slot).take() });
            // Last: this may be what keeps the shard itself in memory.
            drop(scheduler);
        }
    }
}

impl Schedule for TaskShardRef {
    #[inline]
    fn schedule(&self, task: Runnable) {
        self.scheduler().schedule(task);
    }

    #[inline]
    fn release(&self, task: &Header) {
        // SAFETY: inserted there when it was spawned, or refused.
        unsafe { self.owned.remove(task) };
    }

    fn panicked(&self) {
        self.scheduler().world().task_panicked();
    }
}
