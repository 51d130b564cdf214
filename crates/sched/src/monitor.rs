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
//! While all workers run, they look, and the monitor only has to see whether they still do: it
//! looks less often. If all of them are stuck, it serves them every millisecond, and sends
//! [rescuers](crate::rescue) for the tasks that wait.
//!
//! A worker whose thread is in a [blocking section](crate::blocking_section), and
//! was in the same one at the last look, is given a relief thread.
//!
//! What is due on a stuck worker has wakers, which are foreign code and may block. So a
//! thread that has found stuck workers first makes another thread the monitor, then
//! serves them, and then stands by to become the monitor again. There are up to three such threads,
//! and one more for each waker that blocks: a waker that never returns costs its
//! thread, and holds up neither the monitor nor what becomes due later. Wakers that were taken out
//! together with it, at most 32, wait behind it.
//!
//! When all workers are parked and have polled nothing since it last saw them so, the monitor parks
//! without a timeout. If they have polled, they park now and then only: to be unparked by them each
//! time would cost more than a look every few milliseconds.
//!
//! Where the system refuses a thread for the monitor, or for one of the workers,
//! no worker sleeps without a timeout. They wake every few milliseconds and look
//! for workers that are stuck, or never had a thread.
//!
//! M1. While one worker runs and another is parked, or one is in a blocking section, the monitor
//!     looks every millisecond; while any worker runs, it is not parked without a timeout. The
//!     worker that parks, is unparked, was marked as parked and stays awake, or enters the section
//!     unparks it if it sleeps longer than that.
//!
//! ```text
//!   monitor:  set its sleep                     fence   look at the workers
//!   worker:   park, unpark or enter a section   fence   load its sleep
//! ```

use std::sync::Arc;
use std::time::Duration;

use blitzen_observe::Counter;
use blitzen_util::park::Parker;
use blitzen_util::quiet::quietly;
use blitzen_util::shim::Mutex;
use blitzen_util::shim::atomic::Ordering::Relaxed;
use blitzen_util::shim::atomic::{AtomicBool, AtomicU8, AtomicU64, fence};
use std::sync::atomic::Ordering::SeqCst;

use crate::context_depth::context_depth;
use crate::handoff::Epoch;
use crate::rescue::StuckLooks;
use crate::scheduler::Scheduler;

/// The time between two looks. A task waits one or two periods behind a poll that
/// does not end.
const PERIOD: Duration = Duration::from_millis(1);
const PERIOD_NS: u64 = PERIOD.as_nanos() as u64;

/// The time between two looks of the monitor while all workers run: they look, too.
const BUSY_PERIOD: Duration = PERIOD.saturating_mul(3);

/// How many looks in a row may find that no worker needs them often, before the monitor sleeps
/// longer.
const IDLE_LOOKS: u32 = 1;

/// How many threads stand by at most. Two: one more often than not still serves when the next
/// look finds stuck workers, and starting a thread for each of them would cost more than they do.
const MAX_STANDBY: usize = 2;

/// How long a parked worker sleeps at most where there is no monitor.
const MAX_SLEEP_WITHOUT_MONITOR: Duration = PERIOD.saturating_mul(5);

/// What needs the monitor (M1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// All workers are parked.
    Nothing,
    /// All workers run: they look after each other, unless all of them are stuck.
    Seldom,
    /// A worker runs while another is parked, or is in a blocking section.
    Often,
}

impl Need {
    /// What so many running workers need, if none is in a blocking section.
    pub(crate) fn of(running: usize, workers: usize) -> Self {
        match running {
            0 => Self::Nothing,
            _ if running < workers => Self::Often,
            _ => Self::Seldom,
        }
    }
}

/// What the monitor shares with the workers.
pub(crate) struct MonitorState {
    /// How the monitor sleeps: the least [`Need`] that does not have to end it (M1).
    /// `Need::Often` while it is awake, or about to be.
    slept_through: AtomicU8,
    /// Whether the monitor's thread runs.
    is_running: AtomicBool,
    parker: Parker,
    /// The threads that stand by to become the monitor.
    standby: Mutex<Vec<Arc<Parker>>>,
    /// Whether the system has refused a thread for the monitor or for a worker.
    is_missing: AtomicBool,
    /// When the next look is due.
    next_look_ns: AtomicU64,
    seen: Mutex<Seen>,
    /// Stuck workers that the monitor has served.
    pub(crate) rescues: Counter,
}

/// What the last look has seen.
struct Seen {
    /// The progress of each worker; `None` if it was parked.
    progress: Vec<Option<Progress>>,
    stuck_looks: StuckLooks,
}

/// What a look has found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) stuck: Vec<StuckWorker>,
    /// Whether tasks wait that only a rescuer can run.
    pub(crate) needs_rescuer: bool,
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
            slept_through: AtomicU8::new(Need::Often as u8),
            is_running: AtomicBool::new(false),
            parker: Parker::new(),
            standby: Mutex::new(Vec::new()),
            is_missing: AtomicBool::new(false),
            next_look_ns: AtomicU64::new(0),
            seen: Mutex::new(Seen {
                progress: vec![None; workers],
                stuck_looks: StuckLooks::default(),
            }),
            rescues: Counter::default(),
        }
    }

    /// Notes that a worker has parked, was unparked, or has entered a blocking
    /// section: unparks the monitor if that sleeps longer than it now may (M1).
    #[inline]
    pub(crate) fn state_changed(&self, need: impl FnOnce() -> Need) {
        fence(SeqCst); // M1
        let slept_through = self.slept_through.load(Relaxed);
        if slept_through != Need::Often as u8 && need() as u8 > slept_through {
            self.unpark();
        }
    }

    /// Whether there is a monitor.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.is_running.load(Relaxed)
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
        self.slept_through.store(Need::Often as u8, Relaxed);
        self.parker.unpark();
    }

    /// Parks the monitor for as long as what needs it allows: `slept_through` is what it
    /// was a moment ago, and `need` what it is now.
    fn park(&self, slept_through: Need, need: impl FnOnce() -> Need) {
        self.slept_through.store(slept_through as u8, Relaxed);
        fence(SeqCst); // M1
        if need() <= slept_through {
            match slept_through {
                Need::Nothing => self.parker.park(),
                // Models have no time: only an unpark ends a sleep there.
                Need::Seldom if cfg!(blitzen_loom) => self.parker.park(),
                Need::Seldom => drop(self.parker.park_timeout(BUSY_PERIOD)),
                Need::Often => {}
            }
        }
        self.slept_through.store(Need::Often as u8, Relaxed);
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
    /// Asks `needs_rescuer` whether the tasks that wait need one, if all workers are stuck.
    #[must_use]
    pub(crate) fn look(
        &self,
        progress_of_running: impl Fn(usize) -> Option<Progress>,
        mut moved: impl FnMut(usize, u64),
        needs_rescuer: impl FnOnce(&mut StuckLooks, bool) -> bool,
    ) -> Look {
        // Another thread is looking already.
        let Some(mut seen) = self.seen.try_lock() else {
            return Look::default();
        };
        let seen = &mut *seen;
        let mut stuck = Vec::new();
        for (worker, seen) in seen.progress.iter_mut().enumerate() {
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
        let all_stuck = stuck.len() == seen.progress.len();
        let needs_rescuer = needs_rescuer(&mut seen.stuck_looks, all_stuck);
        Look {
            stuck,
            needs_rescuer,
        }
    }

    /// Makes a thread that stands by the monitor, if there is one; returns whether
    /// there was.
    fn unpark_standby(&self) -> bool {
        let standby = self.standby.lock().pop();
        standby.map(|parker| parker.unpark()).is_some()
    }

    /// Waits on the calling thread to become the monitor again; returns false if it
    /// should end, since enough threads stand by or the scheduler has closed.
    fn stand_by(&self, is_closed: impl Fn() -> bool) -> bool {
        let parker = Arc::new(Parker::new());
        {
            // The thread that closes the scheduler takes this lock after it has said
            // so: either this sees it, or that thread finds the parker here.
            let mut standby = self.standby.lock();
            if standby.len() >= MAX_STANDBY || is_closed() {
                return false;
            }
            standby.push(parker.clone());
        }
        parker.park();
        !is_closed()
    }

    /// Ends the monitor's threads: the scheduler has closed.
    pub(crate) fn dismiss(&self) {
        self.unpark();
        while self.unpark_standby() {}
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
        while let Some(look) = self.watch() {
            let has_successor = self.hand_over();
            if look.needs_rescuer {
                quietly(|| scheduler.send_rescuer());
            }
            for stuck in look.stuck {
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
    fn watch(&self) -> Option<Look> {
        let scheduler = &*self.scheduler;
        let state = &scheduler.monitor;
        let need = || match scheduler.is_closed() {
            true => Need::Often,
            false => scheduler.needs_monitor(),
        };
        let mut idle_looks = 0;
        let mut ticks_when_idle = None;
        while !scheduler.is_closed() {
            let needed = scheduler.needs_monitor();
            if needed != Need::Nothing && state.claim_look(scheduler.world().now_ns()) {
                let look = self.look();
                if !look.stuck.is_empty() {
                    return Some(look);
                }
            }
            if needed == Need::Often || idle_looks < IDLE_LOOKS {
                idle_looks = match needed {
                    Need::Often => 0,
                    _ => idle_looks + 1,
                };
                state.parker.park_timeout(PERIOD);
                continue;
            }
            if needed != Need::Nothing {
                state.park(needed, need);
                continue;
            }
            let ticks = Some(scheduler.ticks());
            match std::mem::replace(&mut ticks_when_idle, ticks) == ticks {
                true => {
                    state.park(Need::Nothing, need);
                    idle_looks = 0;
                }
                false => state.park(Need::Seldom, need),
            }
        }
        None
    }

    fn look(&self) -> Look {
        let scheduler = &self.scheduler;
        scheduler.monitor.look(
            |worker| scheduler.progress_of_running(worker),
            |worker, run_ns| scheduler.share_queue_of(worker, run_ns),
            |looks, all_stuck| {
                let has_work = || scheduler.has_any_work();
                let all_asleep = || scheduler.are_workers_asleep();
                scheduler
                    .rescue
                    .note_look(looks, all_stuck, has_work, all_asleep)
            },
        )
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
    use crate::scheduler::Config;
    use crate::testing::{StillWorld, Tasks};
    use crate::worker::Worker;

    #[test]
    fn a_worker_that_does_not_park_after_all_unparks_the_monitor() {
        let scheduler = Scheduler::new(Config::new(1), Box::new(StillWorld::default()));
        let worker = Worker::new(scheduler.clone(), 0);
        assert!(scheduler.idle.claim(0), "it runs");
        let tasks = Tasks::new();
        let ring = &scheduler.shared[0].ring;
        ring.push(tasks.next(), |_| unreachable!("there is room"));
        // The monitor looks at the moment at which the worker is marked as parked.
        let slept_through = &scheduler.monitor.slept_through;
        slept_through.store(Need::Nothing as u8, Relaxed);
        worker.park();
        assert!(!scheduler.idle.is_parked(0), "there is a task");
        assert_eq!(slept_through.load(Relaxed), Need::Often as u8);
        ring.pop().unwrap().forget();
        tasks.close();
        scheduler.close();
    }

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
            let look = monitor.look(
                |worker| ticks[worker].map(progress),
                |worker, run_ns| moved.push((worker, run_ns)),
                |_, all_stuck| all_stuck,
            );
            assert!(!look.needs_rescuer, "one is parked, or has moved");
            let stuck: Vec<_> = look.stuck.iter().map(|stuck| stuck.worker).collect();
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
            let look = monitor.look(
                |_| Some(Progress { tick: 7, section }),
                |_, _| unreachable!("the tick stands still"),
                |_, all_stuck| all_stuck,
            );
            assert_eq!(look.needs_rescuer, !look.stuck.is_empty());
            look.stuck.first().map(|stuck| stuck.section)
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

    fn need(idle: &Idle) -> Need {
        Need::of(idle.running(), 2)
    }

    /// The monitor parks while `change` makes a worker need more looks; it is unparked, or the
    /// model never ends.
    fn parks_against(
        workers: Arc<(Idle, MonitorState)>,
        change: impl FnOnce(&Idle, &MonitorState) + Send + 'static,
    ) {
        let other = workers.clone();
        let worker = thread::spawn(move || change(&other.0, &other.1));
        let (idle, monitor) = &*workers;
        loop {
            let needed = need(idle);
            if needed == Need::Often {
                break;
            }
            monitor.park(needed, || need(idle));
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
                monitor.state_changed(|| need(idle));
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
                other.1.state_changed(|| Need::Often);
            });
            let (handoff, monitor) = &*shared;
            let need = || match handoff.epoch() {
                Some(_) => Need::Often,
                None => Need::Seldom,
            };
            while handoff.epoch().is_none() {
                monitor.park(Need::Seldom, need);
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
                monitor.state_changed(|| need(idle));
            });
        });
    }

    #[test]
    fn a_worker_that_does_not_park_after_all_unparks_the_monitor() {
        loom::model(|| {
            parks_against(workers(), |idle, monitor| {
                let _ = idle.park(0, None);
                assert!(idle.claim(0));
                monitor.state_changed(|| need(idle));
            });
        });
    }

    #[test]
    fn the_only_worker_unparks_the_monitor() {
        loom::model(|| {
            let shared = Arc::new((Idle::new(1), MonitorState::new(1)));
            let other = shared.clone();
            let need = |idle: &Idle| Need::of(idle.running(), 1);
            let worker = thread::spawn(move || {
                let (idle, monitor) = &*other;
                assert!(idle.claim(0));
                monitor.state_changed(|| need(idle));
            });
            let (idle, monitor) = &*shared;
            while idle.running() == 0 {
                monitor.park(Need::Nothing, || need(idle));
            }
            worker.join().unwrap();
        });
    }
}
