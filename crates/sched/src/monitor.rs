//! Looking after workers that are stuck in a poll.
//!
//! A task that blocks must not take along what waits behind it: the tasks in
//! its worker's queue, and that worker's timers and sockets. So about once a
//! millisecond somebody looks whether a worker's tick stands still, and serves
//! what is due there. Workers that run do it in passing. While some run and
//! others sleep, so does the *monitor*, on a thread of its own: it naps between
//! its looks, and they sleep until they are woken. (To wake a thread whose sleep
//! has an end takes the system several times as long, since it has a timer to
//! take back first.)
//!
//! A worker whose thread is on an [errand](crate::handoff), and has been at the last
//! look, is given to another thread.
//!
//! When there has been nothing to monitor for a while, the monitor naps longer,
//! and at last goes to bed.
//!
//! Where the system gives no thread for a monitor, or for one of the workers,
//! nobody sleeps without an end: workers nap, and in between look after those
//! that are stuck, or never began.
//!
//! W1. While one worker runs and another sleeps, or one is on an errand, the
//!     monitor is up: whoever brings that about calls it.
//!
//! ```text
//!   monitor:  set in_bed              fence   look who sleeps, or is out
//!   worker:    sleep, wake, or go out  fence   load in_bed
//! ```

use std::sync::Arc;
use std::time::Duration;

use blitzen_observe::Counter;
use blitzen_util::park::Parker;
use blitzen_util::shim::Mutex;
use blitzen_util::shim::atomic::Ordering::Relaxed;
use blitzen_util::shim::atomic::{AtomicBool, AtomicU64, fence};
use std::sync::atomic::Ordering::SeqCst;

use crate::handoff::Epoch;
use crate::scheduler::Scheduler;

/// How far apart looks are: a task waits for one or two of them behind a poll
/// that does not end.
const PERIOD: Duration = Duration::from_millis(1);
const PERIOD_NS: u64 = PERIOD.as_nanos() as u64;

/// Looks at nothing before the monitor goes to bed; meanwhile its naps are twice
/// as long. Not longer: a poll that gets stuck then is noticed so much later.
const LINGER: u32 = 20;
const QUIET_NAP: Duration = PERIOD.saturating_mul(2);

/// How long a worker naps where there is no monitor.
const UNWATCHED_NAP: Duration = PERIOD.saturating_mul(5);

/// What the lookers share.
pub(crate) struct MonitorState {
    in_bed: AtomicBool,
    /// There is a monitor; and somebody has called for one.
    manned: AtomicBool,
    hired: AtomicBool,
    bed: Parker,
    /// There will be no monitor, although there is something to monitor.
    is_missing: AtomicBool,
    /// When the next look is due.
    due_ns: AtomicU64,
    /// What the last look saw.
    seen: Mutex<Vec<Option<Progress>>>,
    /// Stuck workers that the monitor has served.
    pub(crate) rescues: Counter,
}

/// Where a worker that runs has got to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Changes with every poll.
    pub(crate) tick: u32,
    /// The errand that its thread is on.
    pub(crate) errand: Option<Epoch>,
}

impl MonitorState {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            in_bed: AtomicBool::new(false),
            manned: AtomicBool::new(false),
            hired: AtomicBool::new(false),
            bed: Parker::new(),
            is_missing: AtomicBool::new(false),
            due_ns: AtomicU64::new(0),
            seen: Mutex::new(vec![None; workers]),
            rescues: Counter::default(),
        }
    }

    /// A worker has gone to sleep, woken or gone out: calls the monitor if it is in bed
    /// and there is something to monitor (W1).
    #[inline]
    pub(crate) fn changed(&self, something_to_watch: impl FnOnce() -> bool) {
        fence(SeqCst); // W1
        if self.in_bed.load(Relaxed) && something_to_watch() {
            self.call();
        }
    }

    /// Whether there is a monitor.
    #[inline]
    pub(crate) fn is_manned(&self) -> bool {
        self.manned.load(Relaxed)
    }

    /// Whether the caller is the first that wants a monitor.
    pub(crate) fn spawn_thread(&self) -> bool {
        !self.hired.swap(true, Relaxed)
    }

    /// There will be no monitor.
    pub(crate) fn do_without(&self) {
        // Relaxed: whoever is to know is interrupted after it.
        self.is_missing.store(true, Relaxed);
    }

    /// Whether workers look after each other when they wake from a nap.
    #[inline]
    pub(crate) fn is_missing(&self) -> bool {
        self.is_missing.load(Relaxed)
    }

    /// How long a worker may sleep that wants to for `max_wait`.
    pub(crate) fn limit(&self, max_wait: Option<Duration>) -> Option<Duration> {
        match self.is_missing() {
            true => Some(max_wait.map_or(UNWATCHED_NAP, |wait| wait.min(UNWATCHED_NAP))),
            false => max_wait,
        }
    }

    /// Gets the monitor up.
    #[cold]
    pub(crate) fn call(&self) {
        self.in_bed.store(false, Relaxed);
        self.bed.unpark();
    }

    /// The monitor sleeps until it is called, unless there is something to
    /// monitor.
    fn go_to_bed(&self, something_to_watch: impl FnOnce() -> bool) {
        self.in_bed.store(true, Relaxed);
        fence(SeqCst); // W1
        match something_to_watch() {
            true => self.in_bed.store(false, Relaxed),
            false => self.bed.park(),
        }
    }

    /// Whether the caller should look now; then nobody else does for a while.
    #[inline]
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        let due = self.due_ns.load(Relaxed);
        now_ns >= due
            && self
                .due_ns
                .compare_exchange(due, now_ns + PERIOD_NS, Relaxed, Relaxed)
                .is_ok()
    }

    /// Calls `stuck` for every worker that runs and whose tick is the same as
    /// at the last look, with its errand if that is the same too; and `went_on`
    /// for those that have moved, with about how long a poll took them.
    pub(crate) fn look(
        &self,
        progress_of_running: impl Fn(usize) -> Option<Progress>,
        mut stuck: impl FnMut(usize, Option<Epoch>),
        mut went_on: impl FnMut(usize, u64),
    ) {
        // Somebody else is looking: that will do.
        let Some(mut seen) = self.seen.try_lock() else {
            return;
        };
        for (worker, seen) in seen.iter_mut().enumerate() {
            let mark = progress_of_running(worker);
            if let (Some(before), Some(mark)) = (std::mem::replace(seen, mark), mark) {
                match mark.tick.wrapping_sub(before.tick) {
                    0 => stuck(worker, mark.errand.filter(|_| before.errand == mark.errand)),
                    polls => went_on(worker, PERIOD_NS / u64::from(polls)),
                }
            }
        }
    }
}

/// Looks after the workers of a scheduler while some of them sleep.
pub struct Monitor {
    scheduler: Arc<Scheduler>,
}

impl Monitor {
    pub(crate) fn new(scheduler: Arc<Scheduler>) -> Self {
        Self { scheduler }
    }

    /// Watches on the calling thread until the scheduler closes.
    pub fn run(self) {
        let scheduler = &*self.scheduler;
        let monitor = &scheduler.monitor;
        monitor.manned.store(true, Relaxed);
        let mut quiet = 0;
        while !scheduler.is_closed() {
            quiet = match self.look() {
                true => 0,
                false => quiet + 1,
            };
            if quiet <= LINGER {
                let nap = if quiet == 0 { PERIOD } else { QUIET_NAP };
                monitor.bed.park_timeout(nap);
            } else {
                monitor.go_to_bed(|| scheduler.is_closed() || scheduler.needs_watching());
                quiet = 0;
            }
        }
    }

    /// Serves the workers that are stuck; false if there is nothing to monitor.
    fn look(&self) -> bool {
        let scheduler = &*self.scheduler;
        if !scheduler.needs_watching() {
            return false;
        }
        if scheduler.monitor.is_due(scheduler.world().now_ns()) {
            scheduler.monitor.look(
                |worker| scheduler.progress_of_running(worker),
                |stuck, errand| {
                    scheduler.monitor.rescues.add_shared(1);
                    self.scheduler.relieve(stuck, errand);
                    scheduler.world().serve(stuck);
                    if scheduler.local_queue_depth(stuck) > 0 {
                        scheduler.notify(); // a thief
                    }
                },
                |worker, run_ns| scheduler.share_queue_of(worker, run_ns),
            );
        }
        true
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_due_once_a_period() {
        let monitor = MonitorState::new(1);
        assert!(monitor.is_due(5));
        assert!(!monitor.is_due(5 + PERIOD_NS - 1));
        assert!(monitor.is_due(5 + PERIOD_NS));
    }

    #[test]
    fn only_a_running_worker_whose_tick_stands_still_is_stuck() {
        let monitor = MonitorState::new(3);
        let look = |ticks: [Option<u32>; 3]| {
            let (mut stuck, mut went_on) = (Vec::new(), Vec::new());
            let mark = |tick| Progress { tick, errand: None };
            monitor.look(
                |worker| ticks[worker].map(mark),
                |worker, _| stuck.push(worker),
                |worker, run_ns| went_on.push((worker, run_ns)),
            );
            (stuck, went_on)
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
    fn only_an_errand_that_lasts_from_one_look_to_the_next_is_long() {
        let monitor = MonitorState::new(1);
        let first = Epoch::NONE.next();
        let look = |errand| {
            let mut long = None;
            monitor.look(
                |_| Some(Progress { tick: 7, errand }),
                |_, errand| long = Some(errand),
                |_, _| unreachable!("the tick stands still"),
            );
            long
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

    /// Two workers, one of them asleep.
    fn crew() -> Arc<(Idle, MonitorState)> {
        let idle = Idle::new(2);
        assert!(idle.claim(0));
        Arc::new((idle, MonitorState::new(2)))
    }

    /// The monitor goes to bed while `change` makes something to monitor; it is
    /// up again, or the model never ends.
    fn goes_to_bed_against(
        crew: Arc<(Idle, MonitorState)>,
        change: impl FnOnce(&Idle, &MonitorState) + Send + 'static,
    ) {
        let other = crew.clone();
        let worker = thread::spawn(move || change(&other.0, &other.1));
        let (idle, monitor) = &*crew;
        while !idle.is_mixed() {
            monitor.go_to_bed(|| idle.is_mixed());
        }
        worker.join().unwrap();
    }

    #[test]
    fn the_watchman_gets_up_for_a_worker_that_wakes() {
        loom::model(|| {
            let crew = crew();
            let _ = crew.0.park(0, None);
            goes_to_bed_against(crew, |idle, monitor| {
                assert!(idle.claim(1));
                monitor.changed(|| idle.is_mixed());
            });
        });
    }

    #[test]
    fn the_watchman_gets_up_for_a_worker_whose_thread_goes_on_an_errand() {
        loom::model(|| {
            let place = Arc::new((Handoff::<()>::new(), MonitorState::new(1)));
            let other = place.clone();
            let worker = thread::spawn(move || {
                other.0.leave(std::ptr::null_mut(), Epoch::NONE.next());
                other.1.changed(|| true);
            });
            let (handoff, monitor) = &*place;
            while handoff.epoch().is_none() {
                monitor.go_to_bed(|| handoff.epoch().is_some());
            }
            worker.join().unwrap();
        });
    }

    #[test]
    fn the_watchman_gets_up_for_a_worker_that_goes_to_sleep() {
        loom::model(|| {
            let crew = crew();
            assert!(crew.0.claim(1));
            goes_to_bed_against(crew, |idle, monitor| {
                let _ = idle.park(0, None);
                monitor.changed(|| idle.is_mixed());
            });
        });
    }
}
