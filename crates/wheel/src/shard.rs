//! The timers of one worker: a wheel behind a lock.
//!
//! The worker arms, fires and drops timers on its own shard, and finds lock and wheel in its own
//! cache. Other threads take the lock for three reasons: to arm a timer from a thread that has no
//! shard, to take out a timer whose task has moved, and to fire what is due while the worker is
//! stuck.
//!
//! S1. `next_ns` is not later than the first moment at which something is due. It is stored only
//!     under the lock. A thread that reads it without the lock learns whether taking it is worth
//!     while.
//! S2. A parked worker has stored, under the lock, when it wakes, or when another worker wakes on
//!     its behalf. A thread that arms an earlier timer unparks it once, after releasing the lock.
//! S3. Wakers are cloned, called and dropped without the lock: they are foreign code, and may
//!     arm or drop another timer of this shard.
//! S4. A shard is open for one runtime at a time, or closed. While it is closed nothing is armed,
//!     and closing takes out every timer; so an armed timer belongs to the present runtime.
//!
//! A shard is not freed with its runtime. It is opened again for another one, and timers of the old
//! one that still point to it are recognised by S4. So a timer can borrow its shard for `'static`,
//! and needs no reference count.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::Waker;

use blitzen_util::lock::{AsymmetricLock, AsymmetricLockGuard};
use blitzen_util::prefetch::prefetch;
use blitzen_util::quiet::quietly;
use blitzen_util::shim::atomic::AtomicU64;
use blitzen_util::shim::atomic::Ordering::Relaxed;
use blitzen_util::wake_batch;
use blitzen_util::wake_cause::{self, WakeCause};

use crate::tick_scale::TickScale;
use crate::timer::{TimerCell, TimerEnd};
use crate::wheel::Wheel;

/// No tick, and no moment: nothing is armed.
const NEVER: u64 = u64::MAX;

/// The timers of one worker.
///
/// ```
/// use blitzen_wheel::{TickScale, TimerShard, Timer};
/// use std::pin::pin;
/// use std::sync::Arc;
/// use std::task::Waker;
///
/// let shard = Arc::new(TimerShard::new());
/// shard.open(1, TickScale::new(0, 125_000), Waker::noop().clone());
/// let mut timer = pin!(Timer::new(shard.clone(), 1));
/// timer.as_mut().arm(None, 999_999, Waker::noop()).unwrap();
///
/// assert_eq!(shard.begin_park(), Some(1_000_000)); // park until then …
/// shard.end_park();
/// assert!(shard.fire(1_000_000));
/// ```
pub struct TimerShard {
    /// S1.
    next_ns: AtomicU64,
    state: AsymmetricLock<ShardState>,
}

struct ShardState {
    wheel: Wheel<TimerCell>,
    scale: TickScale,
    worker: WorkerState,
    runtime: Option<OpenRuntime>,
}

/// What the worker does, as far as a thread that arms a timer needs to know.
enum WorkerState {
    /// It will look under the lock before it parks.
    Running,
    /// It is parked until this moment, in nanoseconds.
    Parked(u64),
}

struct OpenRuntime {
    id: u64,
    unpark: Waker,
}

/// The shard is closed, or open for another runtime.
///
/// ```
/// # use blitzen_wheel::{TimerShard, Timer};
/// # use std::{pin::pin, task::Waker};
/// let timer = pin!(Timer::new(Box::new(TimerShard::new()), 1));
/// assert_eq!(timer.arm(None, 1, Waker::noop()), Err(blitzen_wheel::Closed));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl TimerShard {
    /// Creates a closed shard. It is some twelve kibibytes: box it.
    ///
    /// ```
    /// let shard = Box::new(blitzen_wheel::TimerShard::new());
    /// assert!(!shard.fire(1_000));
    /// ```
    pub fn new() -> Self {
        Self {
            next_ns: AtomicU64::new(NEVER),
            state: AsymmetricLock::new(ShardState {
                wheel: Wheel::new(),
                scale: TickScale::new(0, u64::MAX),
                worker: WorkerState::Running,
                runtime: None,
            }),
        }
    }

    /// Opens the shard for a runtime. `unpark` is woken when the worker is parked and a timer is
    /// armed that is due before it wakes. At first the worker counts as parked.
    ///
    /// ```
    /// # use blitzen_wheel::{TickScale, TimerShard};
    /// # use std::task::Waker;
    /// let shard = Box::new(TimerShard::new());
    /// shard.open(1, TickScale::new(0, 1_000_000), Waker::noop().clone());
    /// shard.close();
    /// shard.open(2, TickScale::new(0, 1_000), Waker::noop().clone());
    /// ```
    ///
    /// # Panics
    /// If it is open.
    #[track_caller]
    pub fn open(&self, runtime_id: u64, scale: TickScale, unpark: Waker) {
        let mut state = self.state.lock();
        assert!(
            state.runtime.is_none(),
            "a shard is open for one runtime at a time"
        );
        state.wheel.rewind();
        state.scale = scale;
        state.worker = WorkerState::Parked(NEVER);
        state.runtime = Some(OpenRuntime {
            id: runtime_id,
            unpark,
        });
    }

    /// Closes the shard: every armed timer is closed, and the task that waits for it is woken.
    ///
    /// ```
    /// use blitzen_wheel::{TickScale, TimerShard, TimerState, Timer};
    /// # use std::{pin::pin, sync::Arc, task::Waker};
    ///
    /// let shard = Arc::new(TimerShard::new());
    /// shard.open(1, TickScale::new(0, 1_000), Waker::noop().clone());
    /// let mut timer = pin!(Timer::new(shard.clone(), 1));
    /// timer.as_mut().arm(None, 30_000, Waker::noop()).unwrap();
    /// shard.close();
    /// assert_eq!(timer.state(), TimerState::Closed);
    /// ```
    pub fn close(&self) {
        let runtime = self.state.lock().runtime.take(); // S4: from here on nothing is armed
        self.expire(NEVER, TimerEnd::Closed, || Some(self.lock()));
        drop(runtime);
    }

    /// Fires every timer that is due at `now_ns`, and returns whether there was one. Any thread may
    /// do this.
    ///
    /// ```
    /// # let shard = Box::new(blitzen_wheel::TimerShard::new());
    /// assert!(!shard.fire(1_000));
    /// ```
    #[inline]
    pub fn fire(&self, now_ns: u64) -> bool {
        now_ns >= self.next_ns() && self.expire(now_ns, TimerEnd::Fired, || Some(self.lock()))
    }

    /// Like [`fire`](Self::fire), but leaves the timers to the thread that holds the lock, if there
    /// is one. That thread fires them itself, or makes room in a moment: a thread that helps must
    /// not wait for it.
    ///
    /// ```
    /// # let shard = Box::new(blitzen_wheel::TimerShard::new());
    /// assert!(!shard.try_fire(1_000));
    /// ```
    pub fn try_fire(&self, now_ns: u64) -> bool {
        now_ns >= self.next_ns() && self.expire(now_ns, TimerEnd::Fired, || self.try_lock())
    }

    /// Returns a moment that is not later than when the first timer is due; [`u64::MAX`] if there is
    /// none.
    ///
    /// ```
    /// # let shard = Box::new(blitzen_wheel::TimerShard::new());
    /// assert_eq!(shard.next_ns(), u64::MAX);
    /// ```
    #[inline]
    pub fn next_ns(&self) -> u64 {
        // Relaxed: a worker that reads an old value looks again under the lock, in `begin_park`,
        // before it parks.
        self.next_ns.load(Relaxed)
    }

    /// Returns when the first timer is due, as exactly as [`Wheel::next_expiry`] knows it.
    ///
    /// ```
    /// # let shard = Box::new(blitzen_wheel::TimerShard::new());
    /// assert_eq!(shard.next_expiry_ns(), None);
    /// ```
    pub fn next_expiry_ns(&self) -> Option<u64> {
        self.lock().update_next_ns()
    }

    /// Marks the worker as parked, and returns until when it may be. It parks until then, or until
    /// it is unparked, and then calls [`end_park`](Self::end_park).
    ///
    /// ```
    /// # let shard = Box::new(blitzen_wheel::TimerShard::new());
    /// assert_eq!(shard.begin_park(), None);
    /// shard.end_park();
    /// ```
    pub fn begin_park(&self) -> Option<u64> {
        let mut locked = self.lock();
        let next = locked.update_next_ns();
        locked.state.worker = WorkerState::Parked(next.unwrap_or(NEVER));
        next
    }

    /// Marks the worker as running: it will fire what is armed.
    ///
    /// ```
    /// # let shard = Box::new(blitzen_wheel::TimerShard::new());
    /// shard.end_park();
    /// ```
    pub fn end_park(&self) {
        self.state.lock().worker = WorkerState::Running;
    }

    /// Returns how many timers are armed.
    ///
    /// ```
    /// assert_eq!(Box::new(blitzen_wheel::TimerShard::new()).len(), 0);
    /// ```
    pub fn len(&self) -> usize {
        self.state.lock().wheel.len()
    }

    /// Returns whether no timer is armed.
    ///
    /// ```
    /// assert!(Box::new(blitzen_wheel::TimerShard::new()).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(crate) fn lock(&self) -> ShardGuard<'_> {
        ShardGuard {
            next_ns: &self.next_ns,
            state: self.state.lock(),
        }
    }

    fn try_lock(&self) -> Option<ShardGuard<'_>> {
        let next_ns = &self.next_ns;
        let state = self.state.try_lock()?;
        Some(ShardGuard { next_ns, state })
    }

    /// Takes out the timers that are due, ends their waits, and wakes their tasks (S3), a batch
    /// at a time, for as long as `lock` acquires the lock.
    fn expire<'a>(
        &'a self,
        now_ns: u64,
        end: TimerEnd,
        lock: impl Fn() -> Option<ShardGuard<'a>>,
    ) -> bool {
        let mut any = false;
        // The panic hook has reported a waker that panics. It must not end the thread that fires
        // everybody's timers.
        wake_cause::during(WakeCause::Timer, || {
            quietly(|| {
                wake_batch::in_rounds(|batch| {
                    let Some(mut locked) = lock() else {
                        return false;
                    };
                    let now_tick = match now_ns {
                        NEVER => NEVER, // also timers that are never due
                        // A thread with a later clock may have been here since this one read its
                        // own. What the wheel takes for due by then is due: a timer that was put
                        // back would come out again at once, and for ever.
                        _ => {
                            let reached = locked.state.scale.tick_reached(now_ns);
                            reached.max(locked.elapsed())
                        }
                    };
                    while !batch.is_full() {
                        let Some(entry) = locked.poll(now_tick) else {
                            locked.update_next_ns();
                            return false;
                        };
                        let is_due = |deadline_ns| locked.tick_of(deadline_ns) <= now_tick;
                        // SAFETY: taken out just now, under the lock.
                        match unsafe { TimerCell::finish(entry, end, is_due) } {
                            Ok(waker) => {
                                any = true;
                                if let Some(waker) = waker {
                                    prefetch(waker.data()); // most likely a task
                                    batch.push(waker);
                                }
                            }
                            Err(later_ns) => {
                                let tick = locked.tick_of(later_ns);
                                // SAFETY: still armed, so alive, pinned, and taken out before it
                                // is freed; in no wheel since `poll`.
                                unsafe { locked.insert(Pin::new_unchecked(entry.as_ref()), tick) };
                            }
                        }
                    }
                    true
                });
            });
        });
        any
    }
}

/// A shard whose lock is held.
pub(crate) struct ShardGuard<'a> {
    next_ns: &'a AtomicU64,
    state: AsymmetricLockGuard<'a, ShardState>,
}

impl ShardGuard<'_> {
    #[inline]
    pub(crate) fn is_open_for(&self, runtime_id: u64) -> bool {
        self.state
            .runtime
            .as_ref()
            .is_some_and(|runtime| runtime.id == runtime_id)
    }

    /// Returns the tick of a deadline.
    #[inline]
    pub(crate) fn tick_of(&self, deadline_ns: u64) -> u64 {
        self.state.scale.tick_of_deadline(deadline_ns)
    }

    /// Releases the lock after a timer was armed for `tick`, and unparks the worker if that is
    /// before it wakes (S1, S2).
    #[inline]
    pub(crate) fn unlock_after_arming(mut self, tick: u64) {
        let due_ns = self.state.scale.tick_start_ns(tick);
        if due_ns < self.next_ns.load(Relaxed) {
            self.next_ns.store(due_ns, Relaxed);
        }
        if let WorkerState::Parked(until_ns) = self.state.worker
            && due_ns < until_ns
        {
            self.state.worker = WorkerState::Running; // it is about to be
            let unpark = self
                .state
                .runtime
                .as_ref()
                .map(|runtime| runtime.unpark.clone());
            drop(self);
            if let Some(unpark) = unpark {
                unpark.wake();
            }
        }
    }

    /// Brings `next_ns` up to date, and returns it.
    fn update_next_ns(&mut self) -> Option<u64> {
        let next_tick = self.state.wheel.next_expiry();
        let next_ns = next_tick.map_or(NEVER, |tick| self.state.scale.tick_start_ns(tick));
        self.next_ns.store(next_ns, Relaxed);
        // A thread that fires for a parked worker also stores what it is parked for now (S2).
        if let WorkerState::Parked(until_ns) = &mut self.state.worker {
            *until_ns = next_ns;
        }
        (next_ns != NEVER).then_some(next_ns)
    }
}

impl Deref for ShardGuard<'_> {
    type Target = Wheel<TimerCell>;

    #[inline]
    fn deref(&self) -> &Wheel<TimerCell> {
        &self.state.wheel
    }
}

impl DerefMut for ShardGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Wheel<TimerCell> {
        &mut self.state.wheel
    }
}

impl Default for TimerShard {
    /// As [`TimerShard::new`].
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TimerShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerShard")
            .field("next_ns", &self.next_ns())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::timer::{Timer, TimerState};
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    impl Count {
        fn get(&self) -> usize {
            self.0.load(Relaxed)
        }
    }

    fn count() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (count.clone(), count.into())
    }

    fn open(unpark: Waker) -> Arc<TimerShard> {
        let shard = Arc::new(TimerShard::new());
        shard.open(1, TickScale::new(0, 10), unpark);
        shard
    }

    type Boxed = Pin<Box<Timer<Arc<TimerShard>>>>;

    fn armed(shard: &Arc<TimerShard>, tick: u64, waker: &Waker) -> Boxed {
        let mut timer = Box::pin(Timer::new(shard.clone(), 1));
        timer.as_mut().arm(None, tick, waker).unwrap();
        timer
    }

    #[test]
    fn a_thread_that_helps_does_not_wait_for_the_lock() {
        let shard = open(Waker::noop().clone());
        let (woken, waker) = count();
        let mut timer = Box::pin(Timer::new(shard.clone(), 1));
        timer.as_mut().arm(None, 50, &waker).unwrap();
        let locked = shard.lock();
        assert!(!shard.try_fire(50), "and it returns");
        drop(locked);
        assert_eq!(woken.get(), 0);
        assert!(shard.try_fire(50));
        assert_eq!(woken.get(), 1);
    }

    #[test]
    fn more_timers_than_a_batch_holds_all_fire() {
        let shard = open(Waker::noop().clone());
        let (woken, waker) = count();
        let timers: Vec<_> = (0..100).map(|_| armed(&shard, 50, &waker)).collect();
        assert!(shard.fire(50));
        assert_eq!((woken.get(), shard.len()), (100, 0));
        assert!(
            timers
                .iter()
                .all(|timer| timer.state() == TimerState::Fired)
        );
        assert_eq!(shard.next_ns(), NEVER);
    }

    #[test]
    fn a_parked_worker_is_unparked_once_for_an_earlier_timer() {
        let (unparked, unpark) = count();
        let shard = open(unpark);
        let first = armed(&shard, 1000, Waker::noop());
        assert_eq!(
            unparked.get(),
            1,
            "a worker that never ran counts as parked"
        );
        assert_eq!(shard.begin_park(), Some(1_000));
        let later = armed(&shard, 2000, Waker::noop());
        let equal = armed(&shard, 1000, Waker::noop());
        assert_eq!(unparked.get(), 1, "it wakes by itself");
        let mut earlier = armed(&shard, 500, Waker::noop());
        assert_eq!(unparked.get(), 2);
        earlier.as_mut().reset(400);
        assert_eq!(unparked.get(), 2, "it was unparked already");
        shard.end_park();
        let own = armed(&shard, 10, Waker::noop());
        assert_eq!(unparked.get(), 2, "it is running");
        drop((first, later, equal, earlier, own));
    }

    #[test]
    fn a_parked_worker_whose_timers_others_fire_is_unparked_for_the_next() {
        let (unparked, unpark) = count();
        let shard = open(unpark);
        shard.end_park();
        let timers = [50, 100].map(|tick| armed(&shard, tick, Waker::noop()));
        assert_eq!(shard.begin_park(), Some(50));
        assert!(shard.fire(50), "by another");
        let between = armed(&shard, 70, Waker::noop());
        assert_eq!(unparked.get(), 1);
        drop((timers, between));
    }

    #[test]
    fn a_reset_to_an_earlier_tick_unparks_the_worker() {
        let (unparked, unpark) = count();
        let shard = open(unpark);
        shard.end_park();
        let mut timer = armed(&shard, 1000, Waker::noop());
        shard.begin_park();
        timer.as_mut().reset(2000);
        assert_eq!(unparked.get(), 0);
        timer.as_mut().reset(500);
        assert_eq!(unparked.get(), 1);
    }

    #[test]
    fn a_timer_wakes_the_last_waker_it_was_given() {
        let shard = open(Waker::noop().clone());
        let ((old, old_waker), (new, new_waker)) = (count(), count());
        let mut timer = armed(&shard, 50, &old_waker);
        assert!(timer.as_mut().update_waker(&old_waker));
        assert!(timer.as_mut().update_waker(&new_waker));
        shard.fire(50);
        assert_eq!((old.get(), new.get()), (0, 1));
        assert!(!timer.as_mut().update_waker(&old_waker), "it has fired");
    }

    #[test]
    fn what_is_dropped_does_not_fire() {
        let shard = open(Waker::noop().clone());
        let (woken, waker) = count();
        drop(armed(&shard, 50, &waker));
        assert!(!shard.fire(50));
        assert_eq!((woken.get(), shard.len()), (0, 0));
        assert_eq!(Arc::strong_count(&woken), 2, "the timer let its waker go");
    }

    #[test]
    fn an_armed_timer_can_be_made_to_fire_at_once() {
        let shard = open(Waker::noop().clone());
        let (woken, waker) = count();
        let mut timer = armed(&shard, 50, &waker);
        timer.as_mut().expire();
        assert_eq!(
            (timer.state(), woken.get(), shard.len()),
            (TimerState::Fired, 1, 0)
        );
    }

    #[test]
    fn the_next_runtime_does_not_see_timers_of_the_last() {
        let shard = open(Waker::noop().clone());
        let (woken, waker) = count();
        let mut old: Vec<_> = (0..100).map(|_| armed(&shard, 1 << 40, &waker)).collect();
        shard.close();
        assert_eq!(woken.get(), 100, "those that wait are woken");
        shard.open(2, TickScale::new(0, 10), Waker::noop().clone());
        for timer in &mut old {
            assert_eq!(timer.state(), TimerState::Closed);
            timer.as_mut().reset(30);
            assert!(!timer.as_mut().update_waker(&waker));
            assert_eq!(timer.as_mut().arm(None, 30, &waker), Err(Closed));
        }
        assert!(shard.is_empty());
        // Ticks begin anew.
        let mut new = Box::pin(Timer::new(shard.clone(), 2));
        new.as_mut().arm(None, 30, &waker).unwrap();
        assert!(!shard.fire(20));
        assert!(shard.fire(30));
    }

    #[test]
    fn a_waker_may_use_the_shard_and_may_panic() {
        struct Rearm(Arc<TimerShard>, std::sync::Mutex<Vec<Boxed>>);
        impl Wake for Rearm {
            fn wake(self: Arc<Self>) {
                // The timers that it owns are dropped, and another is armed.
                let timer = armed(&self.0, 70, Waker::noop());
                *self.1.lock().unwrap() = vec![timer];
                panic!("a waker that panics");
            }
        }
        let shard = open(Waker::noop().clone());
        let rearm = Arc::new(Rearm(shard.clone(), Default::default()));
        let (woken, waker) = count();
        let timers = [
            armed(&shard, 50, &rearm.clone().into()),
            armed(&shard, 50, &waker),
        ];
        rearm.1.lock().unwrap().extend([armed(&shard, 90, &waker)]);
        assert!(shard.fire(50));
        assert_eq!((woken.get(), shard.len()), (1, 1));
        assert_eq!(shard.next_expiry_ns(), Some(70));
        drop(timers);
        rearm.1.lock().unwrap().clear();
    }

    #[test]
    fn a_thread_whose_clock_is_behind_fires_what_another_finds_due() {
        /// Stands for a thread that fires with a later clock between two batches.
        struct FireLater(Arc<TimerShard>, std::sync::Mutex<Option<Boxed>>);
        impl Wake for FireLater {
            fn wake(self: Arc<Self>) {
                self.0.fire(200);
                *self.1.lock().unwrap() = Some(armed(&self.0, 150, Waker::noop()));
            }
        }
        let shard = open(Waker::noop().clone());
        let later = Arc::new(FireLater(shard.clone(), Default::default()));
        let mut timers = vec![armed(&shard, 100, &later.clone().into())];
        timers.extend((0..100).map(|_| armed(&shard, 100, Waker::noop())));
        assert!(shard.fire(100), "and it returns");
        let late = later.1.lock().unwrap().take().unwrap();
        assert_eq!((late.state(), shard.len()), (TimerState::Fired, 0));
    }

    #[test]
    #[should_panic(expected = "one runtime at a time")]
    fn a_shard_that_is_open_cannot_be_opened() {
        open(Waker::noop().clone()).open(2, TickScale::new(0, 10), Waker::noop().clone());
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::timer::{Timer, TimerState};
    use blitzen_util::park::Parker;
    use blitzen_util::shim::atomic::AtomicUsize;
    use blitzen_util::shim::thread;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::Wake;

    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    fn count() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count(AtomicUsize::new(0)));
        (count.clone(), count.into())
    }

    fn open(unpark: Waker) -> Arc<TimerShard> {
        let shard = Arc::new(TimerShard::new());
        shard.open(1, TickScale::new(0, 10), unpark);
        shard
    }

    fn armed(
        shard: &Arc<TimerShard>,
        tick: u64,
        waker: &Waker,
    ) -> Pin<Box<Timer<Arc<TimerShard>>>> {
        let mut timer = Box::pin(Timer::new(shard.clone(), 1));
        timer.as_mut().arm(None, tick, waker).unwrap();
        timer
    }

    fn fire(shard: &Arc<TimerShard>, tick: u64) -> thread::JoinHandle<bool> {
        let shard = shard.clone();
        thread::spawn(move || shard.fire(tick))
    }

    #[test]
    fn a_timer_armed_while_others_fire_waits_or_has_fired() {
        loom::model(|| {
            let shard = open(Waker::noop().clone());
            let (woken, waker) = count();
            let other = fire(&shard, 50);
            let timer = armed(&shard, 50, &waker);
            let fired_there = other.join().unwrap();
            // The next look finds it, if the other came too early.
            assert!(fired_there ^ shard.fire(50));
            assert_eq!(timer.state(), TimerState::Fired);
            assert_eq!(woken.0.load(Relaxed), 1);
        });
    }

    #[test]
    fn firing_wakes_the_new_waker_or_the_owner_sees_that_it_fired() {
        loom::model(|| {
            let shard = open(Waker::noop().clone());
            let ((old, old_waker), (new, new_waker)) = (count(), count());
            let mut timer = armed(&shard, 50, &old_waker);
            let other = fire(&shard, 50);
            let waits = timer.as_mut().update_waker(&new_waker);
            assert!(waits || timer.state() == TimerState::Fired);
            assert!(other.join().unwrap());
            let calls = (old.0.load(Relaxed), new.0.load(Relaxed));
            assert_eq!(calls, if waits { (0, 1) } else { (1, 0) });
        });
    }

    #[test]
    fn a_fired_timer_belongs_to_its_owner_at_once() {
        loom::model(|| {
            let shard = open(Waker::noop().clone());
            let (woken, waker) = count();
            let timer = armed(&shard, 50, &waker);
            let other = fire(&shard, 50);
            while timer.state() == TimerState::Armed {
                thread::yield_now();
            }
            drop(timer); // which looks at the waker, without the lock
            assert!(other.join().unwrap());
            assert_eq!(woken.0.load(Relaxed), 1);
        });
    }

    #[test]
    fn a_reset_is_kept_or_the_timer_had_fired() {
        loom::model(|| {
            let shard = open(Waker::noop().clone());
            let (woken, waker) = count();
            let mut timer = armed(&shard, 50, &waker);
            let other = fire(&shard, 50);
            timer.as_mut().reset(90);
            let fired = other.join().unwrap();
            assert_eq!(timer.state() == TimerState::Idle, fired);
            assert_eq!(woken.0.load(Relaxed), usize::from(fired));
            assert_eq!(shard.fire(90), !fired);
        });
    }

    #[test]
    fn a_timer_dropped_while_others_fire_is_not_touched_again() {
        loom::model(|| {
            let shard = open(Waker::noop().clone());
            let (woken, waker) = count();
            let timer = armed(&shard, 50, &waker);
            let other = fire(&shard, 50);
            drop(timer);
            drop(waker);
            let fired = other.join().unwrap();
            assert_eq!(woken.0.load(Relaxed), usize::from(fired));
            assert_eq!(Arc::strong_count(&woken), 1, "no waker is left behind");
            assert!(shard.is_empty());
        });
    }

    #[test]
    fn a_parked_worker_is_unparked_for_an_earlier_timer() {
        loom::model(|| {
            let parker = Arc::new(Parker::new());
            let shard = open(parker.clone().into());
            shard.end_park();
            let far = armed(&shard, 1000, Waker::noop());
            let other = thread::spawn({
                let shard = shard.clone();
                move || armed(&shard, 50, Waker::noop())
            });
            // The worker: nothing but `unpark` wakes it in this model.
            if shard.begin_park() == Some(1_000) {
                parker.park();
            }
            shard.end_park();
            assert!(shard.fire(50), "it woke for the timer, and finds it");
            drop(far);
            let near = other.join().unwrap();
            assert_eq!(near.state(), TimerState::Fired);
        });
    }

    #[test]
    fn closing_leaves_no_timer_behind() {
        loom::model(|| {
            let shard = open(Waker::noop().clone());
            let (woken, waker) = count();
            let other = thread::spawn({
                let shard = shard.clone();
                move || shard.close()
            });
            let mut timer = Box::pin(Timer::new(shard.clone(), 1));
            let armed = timer.as_mut().arm(None, 50, &waker).is_ok();
            other.join().unwrap();
            assert_eq!(timer.state(), TimerState::Closed);
            assert_eq!(
                woken.0.load(Relaxed),
                usize::from(armed),
                "who waits is woken"
            );
        });
    }
}
