//! Whether everything in a runtime waits: only then does a paused clock advance by
//! itself, to the next timer.
//!
//! The *participants* are the workers, the threads that block on the runtime, and
//! blocking work. The last participant to become idle finds all others idle, and
//! advances the clock.
//!
//! L1. A participant is idle while its `idle_at` equals its `changes`. A thread that
//!     wakes it adds to `changes` first, and it does so itself when it resumes: while
//!     neither number changes, it has been idle all the time. If it was woken after it
//!     resumed, it is not idle, although it is about to sleep: it wakes at once.
//! L2. A participant wakes others only before it becomes idle itself; blocking work
//!     counts from before it is queued until after it has woken its waiter. Threads
//!     outside the runtime are not counted, and may wake a participant at any time.
//! L3. A participant that becomes idle, or a thread that ends blocking work, stores
//!     that, passes a fence, and then checks the others. One of the fences is the
//!     last: its thread sees all others idle.
//! L4. The marks of all participants are read twice. If all are idle the first time,
//!     and none has changed the second time, all were idle at once in between. A wake
//!     before the first reading is seen by the second, by L2.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use blitzen_util::quiet::quietly;
use blitzen_util::shim::Mutex;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use blitzen_util::shim::atomic::{AtomicU64, AtomicUsize, fence};

/// Whether a participant is idle.
pub struct Activity {
    changes: AtomicU64,
    idle_at: AtomicU64,
    /// The `changes` when it last resumed. Only the participant uses this.
    active_at: AtomicU64,
}

impl Activity {
    /// Creates the activity of a participant that is idle, since no thread runs it yet.
    #[cfg(not(blitzen_loom))]
    pub const fn new() -> Self {
        Self {
            changes: AtomicU64::new(0),
            idle_at: AtomicU64::new(0),
            active_at: AtomicU64::new(0),
        }
    }

    /// Creates the activity of a participant that is idle, since no thread runs it yet.
    #[cfg(blitzen_loom)]
    pub fn new() -> Self {
        Self {
            changes: AtomicU64::new(0),
            idle_at: AtomicU64::new(0),
            active_at: AtomicU64::new(0),
        }
    }

    /// Notes that another thread wakes the participant.
    #[inline]
    pub fn wake(&self) {
        // Release, met by the Acquire in `set_active`: what is to be done is
        // published before.
        self.changes.fetch_add(1, Release);
    }

    /// Notes that the participant resumes. The thread that gives a worker a thread may
    /// call this for it.
    pub fn set_active(&self) {
        // Acquire, met by the Release in `wake`: it sees what it was woken for, since
        // it will not be woken for that again.
        let before = self.changes.fetch_add(1, Acquire);
        self.active_at.store(before + 1, Relaxed);
    }

    /// Marks the participant as idle, before it sleeps. Returns false, and does not
    /// mark it, if it was woken since it resumed.
    pub fn set_idle(&self) -> bool {
        let changes = self.changes.load(Relaxed);
        if changes != self.active_at.load(Relaxed) {
            return false; // L1
        }
        // Release, met by the Acquire in `idle_mark`: L2.
        self.idle_at.store(changes, Release);
        fence(SeqCst); // L3
        true
    }

    /// Marks an idle participant as not idle while it checks the others. Returns the
    /// number for [`end_check`](Self::end_check), or `None` if it has been woken.
    fn begin_check(&self) -> Option<u64> {
        // Relaxed: whoever is woken meanwhile, and becomes idle again, publishes this, too.
        let before = self.changes.fetch_add(1, Relaxed);
        (before == self.idle_at.load(Relaxed)).then_some(before + 1)
    }

    /// Marks the participant as idle again; returns false if it was woken meanwhile.
    /// `set_active` and `set_idle` are for a participant that has checked what it was
    /// woken for; this is not, so a wake stays unseen.
    fn end_check(&self, number: u64) -> bool {
        if self.changes.load(Relaxed) != number {
            return false;
        }
        // Release, met by the Acquire in `idle_mark`: L2.
        self.idle_at.store(number, Release);
        fence(SeqCst); // L3
        true
    }

    /// Marks a participant that no thread runs any more as idle, even if it was woken. The
    /// caller calls [`participant_left`] next.
    pub fn set_undriven(&self) {
        // Release, met by the Acquire in `idle_mark`: L2.
        self.idle_at.store(self.changes.load(Relaxed), Release);
    }

    /// Returns a number that stays the same while the participant is idle; `None` if
    /// it is not idle.
    fn idle_mark(&self) -> Option<u64> {
        // Acquire, met by the Releases of `set_idle`, `end_check` and `set_undriven`: L2.
        let idle_at = self.idle_at.load(Acquire);
        // Relaxed: a number that equals `idle_at` is the one that was seen when that was stored.
        (self.changes.load(Relaxed) == idle_at).then_some(idle_at)
    }
}

impl Default for Activity {
    fn default() -> Self {
        Self::new()
    }
}

/// A thread that blocks on a runtime without being its worker.
pub trait BlockedThread: Send + Sync {
    /// Returns whether the thread is idle.
    fn activity(&self) -> &Activity;
}

/// The participants of a runtime except its workers.
#[derive(Default)]
pub struct Quiescence {
    blocked: Mutex<Vec<Arc<dyn BlockedThread>>>,
    /// Blocking work that is queued or runs.
    blocking_work: AtomicUsize,
    /// Held by the thread that checks whether all are idle.
    check: Mutex<()>,
}

/// The runtime that may be quiescent.
pub trait PausedWorld {
    /// Returns the participants except the workers.
    fn quiescence(&self) -> &Quiescence;

    /// Calls `visit` for every worker.
    fn for_each_worker(&self, visit: &mut dyn FnMut(&Activity));

    /// Whether the clock is paused.
    fn is_paused(&self) -> bool;

    /// Whether the kernel works on operations of the runtime.
    fn has_operations(&self) -> bool;

    /// Fires whatever is due; returns whether there was anything.
    fn serve_all(&self) -> bool;

    /// When the first timer is due.
    fn next_timer_ns(&self) -> Option<u64>;

    /// Sets the paused clock.
    fn advance_to(&self, ns: u64);

    /// Fires the timers that are due.
    fn fire_timers(&self);
}

impl Quiescence {
    /// Creates the state of a runtime on which no thread blocks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts blocking work that is about to be queued.
    pub fn begin_blocking(&self) {
        // Relaxed: the caller becomes idle later, which is a Release.
        self.blocking_work.fetch_add(1, Relaxed);
    }

    /// Returns the marks of all participants; `None` if one is not idle.
    fn idle_marks(&self, world: &dyn PausedWorld) -> Option<Vec<u64>> {
        let mut marks = Some(Vec::new());
        let mut add = |activity: &Activity| match (activity.idle_mark(), &mut marks) {
            (Some(mark), Some(marks)) => marks.push(mark),
            _ => marks = None,
        };
        world.for_each_worker(&mut add);
        for thread in self.blocked.lock().iter() {
            add(thread.activity());
        }
        marks
    }
}

/// Counts a thread that blocks on the runtime as a participant, until the guard is
/// dropped.
pub fn count_thread<'a>(
    world: &'a dyn PausedWorld,
    thread: Arc<dyn BlockedThread>,
) -> CountedThread<'a> {
    world.quiescence().blocked.lock().push(thread.clone());
    CountedThread { world, thread }
}

/// The guard of [`count_thread`].
#[must_use]
pub struct CountedThread<'a> {
    world: &'a dyn PausedWorld,
    thread: Arc<dyn BlockedThread>,
}

impl Drop for CountedThread<'_> {
    fn drop(&mut self) {
        let own = Arc::as_ptr(&self.thread);
        let mut blocked = self.world.quiescence().blocked.lock();
        blocked.retain(|thread| !std::ptr::addr_eq(Arc::as_ptr(thread), own));
        drop(blocked);
        participant_left(self.world);
    }
}

/// Uncounts blocking work that has ended and woken its waiter; advances the clock if
/// all are idle now.
pub fn end_blocking(world: &dyn PausedWorld) {
    // Release, met by the Acquire in `advance_if_quiescent`: L2. Acquire, met by the
    // Release of earlier calls: the one that reads the last value sees all of them.
    world.quiescence().blocking_work.fetch_sub(1, AcqRel);
    fence(SeqCst); // L3
    while world.is_paused() && advance_if_quiescent(world, None) {}
}

/// Checks whether all others are idle (L3), after a participant has left or is no longer
/// driven.
pub fn participant_left(world: &dyn PausedWorld) {
    fence(SeqCst); // L3
    // Wakers are foreign code, and the thread may be unwinding already.
    quietly(|| while world.is_paused() && advance_if_quiescent(world, None) {});
}

/// If all participants are idle, advances the clock to the next timer and fires what
/// is due; returns whether it did, or somebody was woken otherwise.
///
/// Called by a participant that has become idle. If this returns true it is not idle
/// any more: it calls [`set_active`](Activity::set_active) and looks for what to do. Or,
/// without `caller`, by any other thread.
pub fn advance_if_quiescent(world: &dyn PausedWorld, caller: Option<&Activity>) -> bool {
    let quiescence = world.quiescence();
    if quiescence.idle_marks(world).is_none() {
        return false;
    }
    // Sockets may be ready. Their wakers are foreign code, which may do anything that
    // a task may: so the caller is not idle meanwhile, and holds no lock.
    match caller {
        Some(activity) => {
            let Some(number) = activity.begin_check() else {
                return true;
            };
            if world.serve_all() || !activity.end_check(number) {
                return true;
            }
        }
        None => {
            let _busy = Busy::begin(quiescence);
            if world.serve_all() {
                return true;
            }
        }
    }
    let check = quiescence.check.lock();
    let before = quiescence.idle_marks(world);
    // Acquire, met by the Release in `end_blocking`.
    let is_blocking = quiescence.blocking_work.load(Acquire) > 0;
    if before.is_none() || is_blocking || world.has_operations() {
        return false;
    }
    let next_ns = world
        .next_timer_ns()
        .filter(|_| quiescence.idle_marks(world) == before); // L4
    let Some(next_ns) = next_ns else {
        return false;
    };
    world.advance_to(next_ns);
    // No other thread finds all idle until the timers have fired.
    let _busy = match caller {
        Some(activity) => {
            let _number = activity.begin_check();
            None
        }
        None => Some(Busy::begin(quiescence)),
    };
    drop(check);
    world.fire_timers();
    true
}

/// A thread that is no participant and calls wakers: it counts as blocking work.
struct Busy<'a>(&'a Quiescence);

impl<'a> Busy<'a> {
    fn begin(quiescence: &'a Quiescence) -> Self {
        quiescence.begin_blocking();
        Self(quiescence)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.blocking_work.fetch_sub(1, AcqRel); // as in `end_blocking`
        fence(SeqCst); // L3: the caller checks again
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::park::Parker;
    use blitzen_util::shim::atomic::AtomicBool;
    use blitzen_util::shim::thread;

    const TIMER_NS: u64 = 10;

    /// Two workers that sleep on parkers, and timers, of which the last ends everything.
    struct Model {
        quiescence: Quiescence,
        workers: [(Activity, Parker); 2],
        now_ns: AtomicU64,
        /// Work for the second worker, or for whoever waits for blocking work.
        work: AtomicBool,
        timers: AtomicUsize,
        /// The first worker that has a thread.
        first: usize,
    }

    impl Model {
        fn new(first: usize, timers: usize) -> Arc<Self> {
            Arc::new(Self {
                quiescence: Quiescence::new(),
                workers: [(); 2].map(|()| (Activity::new(), Parker::new())),
                now_ns: AtomicU64::new(0),
                work: AtomicBool::new(false),
                timers: AtomicUsize::new(timers),
                first,
            })
        }

        fn is_over(&self) -> bool {
            self.timers.load(Relaxed) == 0
        }

        fn give_work(&self) {
            self.work.store(true, Relaxed);
            self.workers[1].0.wake();
            self.workers[1].1.unpark();
        }

        /// Runs a worker until the timer has fired; work that it finds must not be
        /// late.
        fn run(&self, worker: usize) {
            let (activity, parker) = &self.workers[worker];
            loop {
                if worker == 1 && self.work.swap(false, Relaxed) {
                    assert_eq!(self.now_ns.load(Relaxed), 0, "time passed before the work");
                }
                if self.is_over() {
                    return;
                }
                if activity.set_idle() && advance_if_quiescent(self, Some(activity)) {
                    activity.set_active();
                    continue;
                }
                parker.park();
                activity.set_active();
            }
        }
    }

    impl PausedWorld for Model {
        fn quiescence(&self) -> &Quiescence {
            &self.quiescence
        }
        fn for_each_worker(&self, visit: &mut dyn FnMut(&Activity)) {
            self.workers
                .iter()
                .for_each(|(activity, _)| visit(activity));
        }
        fn is_paused(&self) -> bool {
            !self.is_over()
        }
        fn has_operations(&self) -> bool {
            false
        }
        fn serve_all(&self) -> bool {
            false
        }
        fn next_timer_ns(&self) -> Option<u64> {
            (!self.is_over()).then_some(TIMER_NS)
        }
        fn advance_to(&self, ns: u64) {
            self.now_ns.store(ns, Relaxed);
        }
        fn fire_timers(&self) {
            let fire = |left: usize| left.checked_sub(1);
            let has_timer = self.timers.fetch_update(Relaxed, Relaxed, fire).is_ok();
            if self.now_ns.load(Relaxed) == TIMER_NS && has_timer {
                for (activity, parker) in &self.workers[self.first..] {
                    activity.wake();
                    parker.unpark();
                }
            }
        }
    }

    #[test]
    fn time_passes_after_the_work_that_one_worker_gives_another() {
        loom::model(|| {
            let model = Model::new(0, 1);
            model
                .workers
                .iter()
                .for_each(|(activity, _)| activity.set_active());
            let other = thread::spawn({
                let model = model.clone();
                move || model.run(1)
            });
            model.give_work();
            model.run(0);
            other.join().unwrap();
            assert!(!model.work.load(Relaxed), "the work was done");
        });
    }

    struct Leaving(Activity);

    impl BlockedThread for Leaving {
        fn activity(&self) -> &Activity {
            &self.0
        }
    }

    fn check_leaving(timers: usize) {
        let model = Model::new(1, timers);
        model.workers[1].0.set_active();
        let leaving = Arc::new(Leaving(Activity::new()));
        leaving.0.set_active();
        let other = thread::spawn({
            let model = model.clone();
            move || drop(count_thread(&*model, leaving))
        });
        model.run(1);
        other.join().unwrap();
    }

    #[test]
    fn time_passes_after_a_thread_that_blocked_on_the_runtime_has_left() {
        loom::model(|| check_leaving(1));
    }

    #[test]
    fn time_passes_again_after_a_thread_has_fired_timers_for_others() {
        loom::model(|| check_leaving(2));
    }

    /// Three participants. No thread runs the first one, so when it is woken it stays awake, and the
    /// clock must not advance from then on.
    struct Undriven {
        quiescence: Quiescence,
        workers: [Activity; 3],
        advances: AtomicUsize,
    }

    impl Undriven {
        fn new() -> Arc<Self> {
            let workers = [(); 3].map(|()| Activity::new());
            workers[1..].iter().for_each(Activity::set_active);
            Arc::new(Self {
                quiescence: Quiescence::new(),
                workers,
                advances: AtomicUsize::new(0),
            })
        }

        fn become_idle(&self, worker: usize) {
            let activity = &self.workers[worker];
            if activity.set_idle() {
                while advance_if_quiescent(self, Some(activity)) {
                    activity.set_active();
                    if !activity.set_idle() {
                        return;
                    }
                }
            }
        }

        fn leave(&self, worker: usize) {
            self.workers[worker].set_undriven();
            participant_left(self);
        }
    }

    impl PausedWorld for Undriven {
        fn quiescence(&self) -> &Quiescence {
            &self.quiescence
        }
        fn for_each_worker(&self, visit: &mut dyn FnMut(&Activity)) {
            self.workers.iter().for_each(visit);
        }
        fn is_paused(&self) -> bool {
            true
        }
        fn has_operations(&self) -> bool {
            false
        }
        fn serve_all(&self) -> bool {
            false
        }
        fn next_timer_ns(&self) -> Option<u64> {
            Some(TIMER_NS)
        }
        fn advance_to(&self, _: u64) {
            self.advances.fetch_add(1, Relaxed);
        }
        fn fire_timers(&self) {
            self.workers[0].wake();
        }
    }

    /// Runs `one` against `other`, and returns how often the clock has advanced. The second is the
    /// spawned thread, so that loom tries all that it may see of the first.
    fn advances(one: fn(&Undriven), other: fn(&Undriven)) -> usize {
        let model = Undriven::new();
        let thread = thread::spawn({
            let model = model.clone();
            move || other(&model)
        });
        one(&model);
        thread.join().unwrap();
        model.advances.load(Relaxed)
    }

    #[test]
    fn no_time_passes_after_a_worker_has_woken_another_and_become_idle() {
        loom::model(|| {
            let one = |model: &Undriven| {
                model.workers[0].wake();
                model.become_idle(1);
            };
            assert_eq!(advances(one, |model| model.become_idle(2)), 0);
        });
    }

    #[test]
    fn no_time_passes_after_a_participant_has_woken_another_and_left() {
        loom::model(|| {
            let one = |model: &Undriven| {
                model.workers[0].wake();
                model.leave(1);
            };
            assert_eq!(advances(one, |model| model.become_idle(2)), 0);
        });
    }

    #[test]
    fn timers_that_a_thread_has_fired_for_others_wake_somebody_once() {
        loom::model(|| {
            let count = advances(|model| model.leave(1), |model| model.become_idle(2));
            assert_eq!(count, 1, "once, and then the first participant is awake");
        });
    }

    #[test]
    fn time_passes_after_blocking_work_has_woken_its_waiter() {
        loom::model(|| {
            let model = Model::new(1, 1);
            model.workers[1].0.set_active();
            model.quiescence.begin_blocking();
            let blocking = thread::spawn({
                let model = model.clone();
                move || {
                    model.give_work();
                    end_blocking(&*model);
                }
            });
            model.run(1);
            blocking.join().unwrap();
            assert!(!model.work.load(Relaxed), "the work was done");
        });
    }
}
