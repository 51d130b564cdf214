//! The monitor: a thread that looks after workers that are stuck in a poll, as
//! sysmon does in Go.
//!
//! A task that blocks must not hold up what waits behind it: the tasks in its
//! worker's queue, and that worker's timers and sockets. So about once a
//! millisecond there is a *look*: it compares the tick of every running worker with
//! that of the last look. A worker whose tick stands still is stuck, and what is due
//! there is served. Running workers look as part of their maintenance. While some
//! workers run and others are parked, the monitor looks too. So parked workers need
//! no timeout: to wake a thread that sleeps with a timeout takes the kernel several
//! times as long, since it has a timer to cancel first.
//!
//! A worker whose thread is in a [blocking section](crate::blocking_section), and
//! was in the same one at the last look, is given a relief thread.
//!
//! What is due on a stuck worker has wakers, which are foreign code and may block. So a
//! thread that has found stuck workers first makes another thread the monitor, then
//! serves them, and then stands by to become the monitor again. There are two such threads,
//! and one more for each waker that blocks: a waker that never returns costs its
//! thread, and holds up neither the monitor nor the other timers and sockets.
//!
//! When there is nothing to look after, the monitor parks.
//!
//! Where the system refuses a thread for the monitor, or for one of the workers,
//! no worker sleeps without a timeout. They wake every few milliseconds and look
//! for workers that are stuck, or never had a thread.
//!
//! M1. While one worker runs and another is parked, or one is in a blocking
//!     section, the monitor is not parked: the worker that parks, is unparked or
//!     enters the section unparks it.
//!
//! ```text
//!   monitor:  set parked                        fence   look at the workers
//!   worker:   park, unpark or enter a section   fence   load parked
//! ```

use std::sync::Arc;
use std::time::Duration;

use blitzen_observe::Counter;
use blitzen_util::park::Parker;
use blitzen_util::quiet::quietly;
use blitzen_util::shim::Mutex;
use blitzen_util::shim::atomic::Ordering::Relaxed;
use blitzen_util::shim::atomic::{AtomicBool, AtomicU64, fence};
use std::sync::atomic::Ordering::SeqCst;

use crate::context_depth::context_depth;
use crate::handoff::Epoch;
use crate::scheduler::Scheduler;

/// The time between two looks. A task waits one or two periods behind a poll that
/// does not end.
const PERIOD: Duration = Duration::from_millis(1);
const PERIOD_NS: u64 = PERIOD.as_nanos() as u64;

/// How many looks in a row may find nothing to do before the monitor parks. One: a
/// worker that wakes up every few milliseconds then unparks the monitor each time,
/// and that costs less than a look every millisecond.
const IDLE_LOOKS: u32 = 1;

/// How long a parked worker sleeps at most where there is no monitor.
const MAX_SLEEP_WITHOUT_MONITOR: Duration = PERIOD.saturating_mul(5);

/// What the monitor shares with the workers.
pub(crate) struct MonitorState {
    is_parked: AtomicBool,
    /// Whether the monitor's thread runs.
    is_running: AtomicBool,
    /// Whether a worker has tried to start the monitor.
    was_started: AtomicBool,
    parker: Parker,
    /// The thread that stands by to become the monitor, if one does.
    standby: Mutex<Option<Arc<Parker>>>,
    /// Whether the system has refused a thread for the monitor or for a worker.
    is_missing: AtomicBool,
    /// When the next look is due.
    next_look_ns: AtomicU64,
    /// The progress of each worker at the last look; `None` if it was parked.
    seen: Mutex<Vec<Option<Progress>>>,
    /// Stuck workers that the monitor has served.
    pub(crate) rescues: Counter,
}

/// A worker that has made no progress since the last look.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StuckWorker {
    pub(crate) worker: usize,
    /// The blocking section that its thread has been in since then.
    pub(crate) section: Option<Epoch>,
}

/// The progress of a running worker, to be compared with a later look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Changes with every poll.
    pub(crate) tick: u32,
    /// The blocking section that its thread is in.
    pub(crate) section: Option<Epoch>,
}

impl MonitorState {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            is_parked: AtomicBool::new(false),
            is_running: AtomicBool::new(false),
            was_started: AtomicBool::new(false),
            parker: Parker::new(),
            standby: Mutex::new(None),
            is_missing: AtomicBool::new(false),
            next_look_ns: AtomicU64::new(0),
            seen: Mutex::new(vec![None; workers]),
            rescues: Counter::default(),
        }
    }

    /// Notes that a worker has parked, was unparked, or has entered a blocking
    /// section: unparks the monitor if there is now something to do for it (M1).
    #[inline]
    pub(crate) fn state_changed(&self, needs_monitor: impl FnOnce() -> bool) {
        fence(SeqCst); // M1
        if self.is_parked.load(Relaxed) && needs_monitor() {
            self.unpark();
        }
    }

    /// Whether there is a monitor.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.is_running.load(Relaxed)
    }

    /// Returns true to the first caller, which then starts the monitor.
    pub(crate) fn claim_start(&self) -> bool {
        !self.was_started.swap(true, Relaxed)
    }

    /// Notes that a thread is missing, the monitor's or a worker's.
    pub(crate) fn set_missing(&self) {
        // Relaxed: the workers that have to know are interrupted after it.
        self.is_missing.store(true, Relaxed);
    }

    /// Whether workers look after each other because there is no monitor.
    #[inline]
    pub(crate) fn is_missing(&self) -> bool {
        self.is_missing.load(Relaxed)
    }

    /// Returns `max_wait`, the longest sleep of a worker, or a shorter one where
    /// there is no monitor.
    pub(crate) fn limit_wait(&self, max_wait: Option<Duration>) -> Option<Duration> {
        let limit = MAX_SLEEP_WITHOUT_MONITOR;
        match self.is_missing() {
            true => Some(max_wait.map_or(limit, |wait| wait.min(limit))),
            false => max_wait,
        }
    }

    #[cold]
    fn unpark(&self) {
        self.is_parked.store(false, Relaxed);
        self.parker.unpark();
    }

    /// Parks the monitor until it is unparked, unless there is something to do for
    /// it.
    fn park(&self, needs_monitor: impl FnOnce() -> bool) {
        self.is_parked.store(true, Relaxed);
        fence(SeqCst); // M1
        match needs_monitor() {
            true => self.is_parked.store(false, Relaxed),
            false => self.parker.park(),
        }
    }

    /// Returns true if a look is due. Only one caller in a period gets true, and
    /// then looks.
    #[inline]
    pub(crate) fn claim_look(&self, now_ns: u64) -> bool {
        let due = self.next_look_ns.load(Relaxed);
        now_ns >= due
            && self
                .next_look_ns
                .compare_exchange(due, now_ns + PERIOD_NS, Relaxed, Relaxed)
                .is_ok()
    }

    /// Returns every running worker whose tick is the same as at the last look, with
    /// its blocking section if that is the same too. Calls `moved` for every running
    /// worker that has polled tasks since, with about the nanoseconds that a poll took.
    #[must_use]
    pub(crate) fn look(
        &self,
        progress_of_running: impl Fn(usize) -> Option<Progress>,
        mut moved: impl FnMut(usize, u64),
    ) -> Vec<StuckWorker> {
        let mut stuck = Vec::new();
        // Another thread is looking already.
        let Some(mut seen) = self.seen.try_lock() else {
            return stuck;
        };
        for (worker, seen) in seen.iter_mut().enumerate() {
            let progress = progress_of_running(worker);
            if let (Some(before), Some(now)) = (std::mem::replace(seen, progress), progress) {
                match now.tick.wrapping_sub(before.tick) {
                    0 => stuck.push(StuckWorker {
                        worker,
                        section: now.section.filter(|_| before.section == now.section),
                    }),
                    polls => moved(worker, PERIOD_NS / u64::from(polls)),
                }
            }
        }
        stuck
    }

    /// Makes the thread that stands by the monitor, if there is one; returns whether
    /// there was.
    fn unpark_standby(&self) -> bool {
        let standby = self.standby.lock().take();
        standby.map(|parker| parker.unpark()).is_some()
    }

    /// Waits on the calling thread to become the monitor again; returns false if it
    /// should end, since another thread stands by or the scheduler has closed.
    fn stand_by(&self, is_closed: impl Fn() -> bool) -> bool {
        let parker = Arc::new(Parker::new());
        {
            // The thread that closes the scheduler takes this lock after it has said
            // so: either this sees it, or that thread finds the parker here.
            let mut standby = self.standby.lock();
            if standby.is_some() || is_closed() {
                return false;
            }
            *standby = Some(parker.clone());
        }
        parker.park();
        !is_closed()
    }

    /// Ends the monitor's threads: the scheduler has closed.
    pub(crate) fn dismiss(&self) {
        self.unpark();
        self.unpark_standby();
    }
}

/// The monitor of a scheduler, to be run on a thread of its own.
pub struct Monitor {
    scheduler: Arc<Scheduler>,
}

impl Monitor {
    pub(crate) fn new(scheduler: Arc<Scheduler>) -> Self {
        Self { scheduler }
    }

    /// Looks after the workers from the calling thread until the scheduler closes, or
    /// other threads do so.
    pub fn run(self) {
        let scheduler = &self.scheduler;
        scheduler.monitor.is_running.store(true, Relaxed);
        let depth = context_depth();
        while let Some(stuck) = self.watch() {
            let has_successor = self.hand_over();
            for stuck in stuck {
                scheduler.monitor.rescues.add_shared(1);
                quietly(|| scheduler.serve_stuck(&stuck));
                if scheduler.has_local_work(stuck.worker) {
                    scheduler.notify(); // a thief
                }
            }
            if context_depth() != depth {
                scheduler.world().restore_context(depth);
            }
            if has_successor && !scheduler.monitor.stand_by(|| scheduler.is_closed()) {
                return;
            }
        }
    }

    /// Looks until workers are stuck, and returns them; `None` when the scheduler has
    /// closed. Calls no foreign code.
    fn watch(&self) -> Option<Vec<StuckWorker>> {
        let scheduler = &*self.scheduler;
        let state = &scheduler.monitor;
        let mut idle_looks = 0;
        while !scheduler.is_closed() {
            match self.look() {
                Some(stuck) if stuck.is_empty() => idle_looks = 0,
                Some(stuck) => return Some(stuck),
                None => idle_looks += 1,
            }
            if idle_looks <= IDLE_LOOKS {
                state.parker.park_timeout(PERIOD);
            } else {
                state.park(|| scheduler.is_closed() || scheduler.needs_monitor());
                idle_looks = 0;
            }
        }
        None
    }

    /// Returns the workers that are stuck, or `None` if there is nothing to do for the
    /// monitor.
    fn look(&self) -> Option<Vec<StuckWorker>> {
        let scheduler = &self.scheduler;
        if !scheduler.needs_monitor() {
            return None;
        }
        if !scheduler.monitor.claim_look(scheduler.world().now_ns()) {
            return Some(Vec::new());
        }
        Some(scheduler.monitor.look(
            |worker| scheduler.progress_of_running(worker),
            |worker, run_ns| scheduler.share_queue_of(worker, run_ns),
        ))
    }

    /// Makes another thread the monitor; returns false if there is none.
    fn hand_over(&self) -> bool {
        let scheduler = &self.scheduler;
        scheduler.monitor.unpark_standby()
            || scheduler
                .world()
                .start_monitor(Monitor::new(scheduler.clone()))
                .is_ok()
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_due_once_a_period() {
        let monitor = MonitorState::new(1);
        assert!(monitor.claim_look(5));
        assert!(!monitor.claim_look(5 + PERIOD_NS - 1));
        assert!(monitor.claim_look(5 + PERIOD_NS));
    }

    #[test]
    fn only_a_running_worker_whose_tick_stands_still_is_stuck() {
        let monitor = MonitorState::new(3);
        let look = |ticks: [Option<u32>; 3]| {
            let mut moved = Vec::new();
            let progress = |tick| Progress {
                tick,
                section: None,
            };
            let stuck = monitor.look(
                |worker| ticks[worker].map(progress),
                |worker, run_ns| moved.push((worker, run_ns)),
            );
            let stuck: Vec<_> = stuck.iter().map(|stuck| stuck.worker).collect();
            (stuck, moved)
        };
        assert_eq!(look([Some(5), Some(7), None]), (vec![], vec![]));
        assert_eq!(
            look([Some(5), Some(9), None]),
            (vec![0], vec![(1, PERIOD_NS / 2)])
        );
        assert_eq!(
            look([None, Some(10), Some(3)]),
            (vec![], vec![(1, PERIOD_NS)])
        );
        assert_eq!(look([Some(5), Some(10), None]), (vec![1], vec![]));
    }

    #[test]
    fn only_a_section_that_lasts_from_one_look_to_the_next_is_long() {
        let monitor = MonitorState::new(1);
        let first = Epoch::NONE.next();
        let look = |section| {
            let stuck = monitor.look(
                |_| Some(Progress { tick: 7, section }),
                |_, _| unreachable!("the tick stands still"),
            );
            stuck.first().map(|stuck| stuck.section)
        };
        assert_eq!(look(Some(first)), None);
        assert_eq!(look(Some(first.next())), Some(None));
        assert_eq!(look(Some(first.next())), Some(Some(first.next())));
        assert_eq!(look(None), Some(None));
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::shim::{Arc, thread};

    use crate::handoff::Handoff;
    use crate::idle::Idle;

    /// Two workers, one of them parked.
    fn workers() -> Arc<(Idle, MonitorState)> {
        let idle = Idle::new(2);
        assert!(idle.claim(0));
        Arc::new((idle, MonitorState::new(2)))
    }

    /// The monitor parks while `change` makes something to look after; it is
    /// unparked, or the model never ends.
    fn parks_against(
        workers: Arc<(Idle, MonitorState)>,
        change: impl FnOnce(&Idle, &MonitorState) + Send + 'static,
    ) {
        let other = workers.clone();
        let worker = thread::spawn(move || change(&other.0, &other.1));
        let (idle, monitor) = &*workers;
        while !idle.is_mixed() {
            monitor.park(|| idle.is_mixed());
        }
        worker.join().unwrap();
    }

    #[test]
    fn a_worker_that_is_unparked_unparks_the_monitor() {
        loom::model(|| {
            let workers = workers();
            let _ = workers.0.park(0, None);
            parks_against(workers, |idle, monitor| {
                assert!(idle.claim(1));
                monitor.state_changed(|| idle.is_mixed());
            });
        });
    }

    #[test]
    fn a_worker_that_enters_a_blocking_section_unparks_the_monitor() {
        loom::model(|| {
            let shared = Arc::new((Handoff::<()>::new(), MonitorState::new(1)));
            let other = shared.clone();
            let worker = thread::spawn(move || {
                other.0.leave(std::ptr::null_mut(), Epoch::NONE.next());
                other.1.state_changed(|| true);
            });
            let (handoff, monitor) = &*shared;
            while handoff.epoch().is_none() {
                monitor.park(|| handoff.epoch().is_some());
            }
            worker.join().unwrap();
        });
    }

    #[test]
    fn a_worker_that_parks_unparks_the_monitor() {
        loom::model(|| {
            let workers = workers();
            assert!(workers.0.claim(1));
            parks_against(workers, |idle, monitor| {
                let _ = idle.park(0, None);
                monitor.state_changed(|| idle.is_mixed());
            });
        });
    }
}
