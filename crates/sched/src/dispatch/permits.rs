//! The permits that a thread has as a runner. It gives them back while it blocks in place, so that
//! others poll the tasks that wait behind it.
//!
//! P1. A permit is on the stack of the runner that has it, and in the thread's list as long as the
//!     runner polls a task. Runners of a view of a view are nested.
//! P2. While the thread blocks, the list is empty: code that blocks inside gives no permit back
//!     again.

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

use blitzen_util::thread_local_const;

use super::{DispatcherCore, Target};
use crate::scheduler::Scheduler;

thread_local_const! {
    /// The innermost permit that the calling thread has; or null.
    static PERMIT: Cell<*const RunnerPermit> = Cell::new(ptr::null());
}

/// Whose permit it is: borrowed by the runner for as long as it polls a task.
pub(super) enum PermitOf<'a> {
    Dispatcher(&'a Arc<DispatcherCore>),
    /// One of those that all groups share.
    Groups(&'a Arc<Scheduler>),
}

struct RunnerPermit {
    /// Of a lifetime that ends with the poll (P1).
    owner: *const PermitOf<'static>,
    outer: *const RunnerPermit,
}

/// Restores the thread's list on drop.
struct PermitGuard(*const RunnerPermit);

impl Drop for PermitGuard {
    fn drop(&mut self) {
        PERMIT.with(|innermost| innermost.set(self.0));
    }
}

/// Polls a task with a permit.
#[inline]
pub(super) fn poll_with<R>(owner: PermitOf<'_>, poll: impl FnOnce() -> R) -> R {
    let permit = RunnerPermit {
        owner: (&raw const owner).cast(),
        outer: PERMIT.with(Cell::get),
    };
    let _restore = PermitGuard(permit.outer);
    PERMIT.with(|innermost| innermost.set(&permit));
    poll()
}

/// A permit that was given back.
enum Suspended {
    Dispatcher(Arc<DispatcherCore>),
    Groups(Arc<Scheduler>),
}

/// Takes back, on drop, the permits that runners have given up to block.
pub(crate) struct PermitsSuspended {
    suspended: Vec<Suspended>,
    _list: PermitGuard,
}

/// Gives the permits of the calling thread back while it blocks, if it is a runner.
pub(crate) fn suspend_permits() -> PermitsSuspended {
    let mut permit = PERMIT.with(|innermost| innermost.replace(ptr::null())); // P2
    let mut permits = PermitsSuspended {
        suspended: Vec::new(),
        _list: PermitGuard(permit),
    };
    // SAFETY: P1: `poll_with`, which is on this thread's stack, owns it.
    while let Some(frame) = unsafe { permit.as_ref() } {
        permit = frame.outer;
        // SAFETY: as above.
        permits.suspend(unsafe { &*frame.owner });
    }
    permits
}

impl PermitsSuspended {
    fn suspend(&mut self, owner: &PermitOf<'_>) {
        match owner {
            PermitOf::Groups(scheduler) => {
                let demand = scheduler.groups.suspend();
                self.suspended.push(Suspended::Groups((*scheduler).clone()));
                scheduler.satisfy_groups(demand);
            }
            PermitOf::Dispatcher(core) => {
                let queue = match &core.target {
                    Target::Runners { queue, .. } | Target::Elastic { queue, .. } => queue,
                    // Has no limit, or no permits.
                    Target::Threads(_) | Target::Foreign { .. } | Target::Group(_) => return,
                };
                if let Some(demand) = queue.suspend() {
                    self.suspended.push(Suspended::Dispatcher((*core).clone()));
                    core.satisfy(demand);
                }
            }
        }
    }
}

impl Drop for PermitsSuspended {
    fn drop(&mut self) {
        for suspended in &self.suspended {
            match suspended {
                Suspended::Groups(scheduler) => scheduler.groups.resume(),
                Suspended::Dispatcher(core) => {
                    if let Some(queue) = core.queue() {
                        queue.resume();
                    }
                }
            }
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use blitzen_task::RunOutcome;

    use crate::block_in_place;
    use crate::scheduler::Config;
    use crate::testing::{StillWorld, Tasks};

    #[test]
    fn code_that_blocks_in_code_that_blocks_gives_a_permit_back_once() {
        const LIMIT: usize = 2;
        let scheduler = Scheduler::new(Config::new(1), Box::new(StillWorld::default()));
        let core = DispatcherCore::limited(&scheduler, None, LIMIT, None, None).unwrap();
        let queue = core.queue().unwrap();
        let free = Arc::new(AtomicUsize::new(0));
        assert!(queue.try_enter(), "for the runner of the task below");
        let (in_task, counted) = (core.clone(), free.clone());
        let task = Tasks::job(move || {
            let queue = in_task.queue().unwrap();
            let enter_all = || while queue.try_enter() && counted.fetch_add(1, Relaxed) < 9 {};
            block_in_place(|| block_in_place(enter_all));
        });
        assert!(matches!(core.poll(task), RunOutcome::Complete));
        let free = free.load(Relaxed);
        assert_eq!(free, LIMIT, "the runner that blocks does not count");
        (0..free + 1).for_each(|_| drop(queue.leave()));
        scheduler.close();
    }
}
