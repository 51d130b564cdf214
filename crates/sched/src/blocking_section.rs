//! Blocking sections: code that blocks on a worker's thread, while another thread may
//! take over the worker.
//!
//! The thread leaves its worker in the [handoff slot](crate::handoff), runs the
//! code, and takes the worker back. A relief thread runs the worker meanwhile: at
//! once, if the code is known to block; otherwise when the monitor finds that the code
//! takes long.
//!
//! A worker in the slot is never lost: without a relief thread it waits there for
//! its own.

use std::sync::Arc;

use blitzen_util::shim::atomic::Ordering::Relaxed;

use crate::current;
use crate::dispatch::suspend_permits;
use crate::handoff::Epoch;
use crate::monitor::Need;
use crate::scheduler::Scheduler;
use crate::worker::{Worker, wake_deferred};

/// How a blocking section ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionEnd {
    /// The thread has its worker again.
    Kept,
    /// A relief thread has the worker. The thread finishes the poll it is in,
    /// and ends.
    HandedOff,
}

/// A thread that has left its worker.
struct BlockingSection<'a> {
    scheduler: &'a Arc<Scheduler>,
    worker: *mut Worker,
    index: usize,
    epoch: Epoch,
    has_ended: bool,
}

impl<'a> BlockingSection<'a> {
    /// Leaves the current worker, if it is one of `scheduler` and polls a task.
    fn enter(scheduler: &'a Arc<Scheduler>) -> Option<Self> {
        let mut epoch = Epoch::NONE;
        let worker = current::take_polling(|worker| {
            let leaves = worker.belongs_to(scheduler) && worker.can_move();
            if leaves {
                epoch = worker.advance_epoch();
            }
            leaves
        })?;
        // SAFETY: this thread's own until `leave` below.
        let index = unsafe { (*worker).index() };
        scheduler.shared[index].handoff.leave(worker, epoch);
        scheduler.monitor.state_changed(|| Need::Often);
        Some(Self {
            scheduler,
            worker,
            index,
            epoch,
            has_ended: false,
        })
    }

    fn relief(&self) -> Relief {
        Relief {
            scheduler: self.scheduler.clone(),
            worker: self.index,
            epoch: self.epoch,
            sent_by_monitor: false,
        }
    }

    fn end(mut self) -> SectionEnd {
        self.take_back()
    }

    fn take_back(&mut self) -> SectionEnd {
        self.has_ended = true;
        let shared = &self.scheduler.shared[self.index];
        match shared.handoff.take_back(self.epoch) {
            true => {
                // SAFETY: H2: this thread's own again, from `take_polling`.
                unsafe { current::put_back(self.worker) };
                SectionEnd::Kept
            }
            false => {
                self.scheduler.world().handed_off();
                SectionEnd::HandedOff
            }
        }
    }
}

impl Drop for BlockingSection<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.take_back(); // the code has panicked
        }
    }
}

/// Runs `code`, which blocks, on the calling thread. If the thread is polling a
/// task for a worker, another thread goes on with the worker meanwhile.
pub fn block_in_place<R>(code: impl FnOnce() -> R) -> R {
    // Futures that have yielded must not wait for a relief thread.
    wake_deferred();
    let _suspended = suspend_permits();
    let scheduler = current::with_worker(|worker| Some(worker?.scheduler().clone()));
    let section = scheduler.as_ref().and_then(BlockingSection::enter);
    if let Some(section) = &section {
        section.scheduler.world().relieve(section.relief());
    }
    let output = code();
    section.map(BlockingSection::end);
    output
}

/// Whether the calling thread drives a current-thread scheduler: no other thread
/// can go on with its worker.
pub fn is_current_thread_driver() -> bool {
    current::with_worker(|worker| worker.is_some_and(|worker| !worker.scheduler().has_threads()))
}

impl Scheduler {
    /// Runs `code`, which should be short and may turn out to block, on the thread
    /// of a worker of this scheduler. If it takes long, another thread goes on
    /// with the worker.
    ///
    /// # Errors
    /// Returns `code` unless the calling thread is polling a task for a worker of
    /// this scheduler, and there is a monitor.
    pub fn blocking_section<R, F: FnOnce() -> R>(
        self: &Arc<Self>,
        code: F,
    ) -> Result<(R, SectionEnd), F> {
        if !self.monitor.is_running() {
            return Err(code);
        }
        let Some(section) = BlockingSection::enter(self) else {
            return Err(code);
        };
        let output = code();
        Ok((output, section.end()))
    }

    /// Sends a relief thread to a worker whose own thread has been in the same
    /// blocking section for long. At most one is on its way to a worker at a time.
    pub(crate) fn send_relief(self: &Arc<Self>, worker: usize, epoch: Epoch) {
        // Relaxed: the flag only bounds how many threads there are.
        if !self.shared[worker].has_relief.swap(true, Relaxed) {
            self.world().relieve(Relief {
                scheduler: self.clone(),
                worker,
                epoch,
                sent_by_monitor: true,
            });
        }
    }

    /// What it takes to relieve each worker whose own thread is in a blocking section.
    pub fn reliefs(self: &Arc<Self>) -> Vec<Relief> {
        let relief = |worker: usize| {
            let epoch = self.shared[worker].handoff.epoch()?;
            Some(Relief {
                scheduler: self.clone(),
                worker,
                epoch,
                sent_by_monitor: false,
            })
        };
        (0..self.shared.len()).filter_map(relief).collect()
    }
}

/// What a relief thread is started for: to go on with a worker whose own thread
/// blocks. Dropping it leaves the worker to its thread.
pub struct Relief {
    scheduler: Arc<Scheduler>,
    worker: usize,
    epoch: Epoch,
    sent_by_monitor: bool,
}

impl Relief {
    /// The worker's index.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Whether the worker still needs it: its own thread is in the same blocking section.
    pub fn is_needed(&self) -> bool {
        let handoff = &self.scheduler.shared[self.worker].handoff;
        handoff.epoch() == Some(self.epoch)
    }

    /// Runs the worker on the calling thread until the scheduler closes or a task
    /// blocks again; false if the worker's own thread is back.
    pub fn run(self) -> bool {
        let scheduler = self.scheduler.clone();
        let handoff = &scheduler.shared[self.worker].handoff;
        // The thread that blocks leaves on its own, so it is counted on its own. It
        // is present while its worker is, which nobody else can end now.
        let Some(worker) = handoff.claim(self.epoch, || scheduler.join()) else {
            return false;
        };
        drop(self); // the next section of this worker may need relief too
        // SAFETY: H2, and from the box that `install` took.
        unsafe { Box::from_raw(worker) }.run_boxed();
        true
    }
}

impl Drop for Relief {
    fn drop(&mut self) {
        if self.sent_by_monitor {
            self.scheduler.shared[self.worker]
                .has_relief
                .store(false, Relaxed);
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::scheduler::Config;
    use crate::testing::StillWorld;

    #[test]
    fn the_monitor_sends_one_relief_thread_at_a_time() {
        let world = StillWorld::default();
        let reliefs = world.reliefs.clone();
        let scheduler = Scheduler::new(Config::new(2), Box::new(world));
        let epoch = Epoch::NONE.next();
        let sent = || reliefs.lock().unwrap().len();
        for _ in 0..10 {
            scheduler.send_relief(0, epoch);
        }
        assert_eq!(sent(), 1);
        scheduler.send_relief(1, epoch);
        assert_eq!(sent(), 2, "another worker is another matter");
        // They come too late: the worker's own thread is back.
        for relief in std::mem::take(&mut *reliefs.lock().unwrap()) {
            assert!(!relief.run());
        }
        scheduler.send_relief(0, epoch.next());
        assert_eq!(sent(), 1);
        reliefs.lock().unwrap().clear();
        scheduler.close();
    }
}
