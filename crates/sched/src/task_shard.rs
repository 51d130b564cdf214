//! Where a task is registered: some shards for each worker and for each shard of
//! the injection queue, so that spawning writes no cache line that all workers
//! write, and seldom one that thieves of the worker's tasks write.
//!
//! A shard keeps the scheduler that it is part of alive as long as a task refers to
//! it, by a count of its own.

use std::ptr::NonNull;

use blitzen_observe::Counter;
use blitzen_task::{Header, OwnedTasks, Payload, Route, Runnable, Schedule};
use std::sync::Arc;

use crate::owner_count::OwnerCount;
use crate::scheduler::Scheduler;
use crate::world::TaskInfo;

/// One shard of a scheduler's tasks.
pub(crate) struct TaskShard {
    pub(crate) owned: OwnedTasks,
    /// Tasks spawned on a dispatcher.
    pub(crate) submitted: Counter,
    /// One reference for each task, and one until the scheduler has shut down.
    references: OwnerCount<Scheduler>,
}

impl TaskShard {
    pub(crate) fn new() -> Self {
        Self {
            owned: OwnedTasks::new(),
            submitted: Counter::new(),
            references: OwnerCount::new(),
        }
    }

    /// Sets the scheduler, which the shard is part of.
    ///
    /// # Safety
    /// No task has been registered yet, and this is called once.
    pub(crate) unsafe fn set_scheduler(&self, scheduler: Arc<Scheduler>) {
        // SAFETY: the caller upholds the same contract.
        unsafe { self.references.set_owner(scheduler) };
    }

    /// Returns a reference for a new task; `None` after the shutdown.
    #[inline]
    pub(crate) fn reference(&self) -> Option<TaskShardRef> {
        self.references
            .acquire()
            .then(|| TaskShardRef(NonNull::from(self)))
    }

    /// Gives up the reference that stands for the running scheduler.
    pub(crate) fn retire(&self) {
        drop(TaskShardRef(NonNull::from(self)));
    }
}

/// A counted reference to a task shard, and through it to the scheduler.
pub struct TaskShardRef(NonNull<TaskShard>);

// SAFETY: a shard may be reached from any thread.
unsafe impl Send for TaskShardRef {}
// SAFETY: as above.
unsafe impl Sync for TaskShardRef {}

impl TaskShardRef {
    #[inline]
    pub(crate) fn shard(&self) -> &TaskShard {
        // SAFETY: counted, so the scheduler is there, and the shard in it.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    pub(crate) fn scheduler(&self) -> &Arc<Scheduler> {
        // SAFETY: `self` is counted.
        unsafe { self.shard().references.owner() }
    }

    /// Tells the world that a task has ended, if it wants to know.
    #[inline]
    pub(crate) fn observe_end(&self, task: &Header) {
        let scheduler = self.scheduler();
        if scheduler.config.observe_ends {
            scheduler.world().task_ended(&TaskInfo::new(task));
        }
    }
}

impl Drop for TaskShardRef {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: counted, and not used again.
        unsafe { self.shard().references.release() };
    }
}

impl Schedule for TaskShardRef {
    #[inline]
    fn schedule(&self, task: Runnable) {
        self.scheduler().schedule(task);
    }

    fn dispatch(&self, task: Runnable, route: Route) {
        self.scheduler().dispatch(task, route);
    }

    fn route_owner(&self) -> *const () {
        let scheduler = self.scheduler();
        match scheduler.config.is_local {
            true => std::ptr::null(),
            false => Arc::as_ptr(scheduler).cast(),
        }
    }

    #[inline]
    fn release(&self, task: &Header) {
        self.observe_end(task);
        // SAFETY: inserted there when it was spawned, or refused.
        unsafe { self.shard().owned.remove(task) };
    }

    fn panicked(&self, _: &mut Payload) {
        let scheduler = self.scheduler();
        if scheduler.world().task_panicked() {
            scheduler.refuse_tasks();
        }
    }
}
