//! The timers of one worker: a wheel behind a lock, which its owner turns.
//!
//! The owner arms, fires and drops timers on its own shard, and finds lock and wheel in its own
//! cache. Others come for three reasons: to arm a timer from a thread that has no shard, to take
//! out one whose task has moved, and to fire what is due while the owner is stuck.
//!
//! S1. `next` is not later than the first tick at which something is due. It is stored under the
//!     lock only; whoever reads it without learns whether taking the lock is worth while.
//! S2. An owner that sleeps has said under the lock until when. Whoever arms something earlier
//!     says so to its bell, once, after letting go of the lock.
//! S3. Wakers are cloned, called and dropped without the lock: they are foreign code, and may
//!     well arm or drop another timer of this shard.
//! S4. A shard has one tenant at a time, or none. Without one nothing is armed, and closing takes
//!     out everything that is; so a timer that is armed is the present tenant's.
//!
//! A shard need not be freed with its tenant: it can be handed to another, and timers of the old
//! one that still point to it are told apart by S4. So timers can borrow their shard for good,
//! and need no count of who uses it.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use blitzen_util::shim::atomic::AtomicU64;
use blitzen_util::shim::atomic::Ordering::Relaxed;
use blitzen_util::shim::{Mutex, MutexGuard};
use blitzen_util::wake_batch;

use crate::timer::{Slot, State};
use crate::wheel::Wheel;

/// No tick: nothing is armed.
const NEVER: u64 = u64::MAX;

/// The timers of one worker.
///
/// ```
/// use blitzen_wheel::{Shard, Timer};
/// use std::pin::pin;
/// use std::sync::Arc;
/// use std::task::Waker;
///
/// let shard = Arc::new(Shard::new());
/// shard.open(1, Waker::noop().clone());
/// let mut timer = pin!(Timer::new(shard.clone(), 1));
/// timer.as_mut().arm(None, 30, Waker::noop()).unwrap();
///
/// assert_eq!(shard.doze(), Some(30)); // sleep until tick 30 …
/// shard.rouse();
/// assert!(shard.fire(30));
/// ```
pub struct Shard {
    /// S1.
    next: AtomicU64,
    inner: Mutex<Inner>,
}

struct Inner {
    wheel: Wheel<Slot>,
    owner: Owner,
    tenant: Option<Tenant>,
}

/// What the owner does, as far as whoever arms a timer needs to know.
enum Owner {
    /// It will look at `next` before it sleeps.
    Awake,
    /// It sleeps until this tick.
    Asleep(u64),
}

struct Tenant {
    id: u64,
    bell: Waker,
}

/// The shard has no tenant, or another one.
///
/// ```
/// # use blitzen_wheel::{Shard, Timer};
/// # use std::{pin::pin, task::Waker};
/// let timer = pin!(Timer::new(Box::new(Shard::new()), 1));
/// assert_eq!(timer.arm(None, 1, Waker::noop()), Err(blitzen_wheel::Closed));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl Shard {
    /// A shard without a tenant. It is some ten kibibytes: box it.
    ///
    /// ```
    /// let shard = Box::new(blitzen_wheel::Shard::new());
    /// assert!(!shard.fire(1_000));
    /// ```
    pub fn new() -> Self {
        Self {
            next: AtomicU64::new(NEVER),
            inner: Mutex::new(Inner {
                wheel: Wheel::new(),
                owner: Owner::Awake,
                tenant: None,
            }),
        }
    }

    /// Lets a tenant in, whose ticks begin at 0. Its `bell` is woken when the owner sleeps and a
    /// timer is armed that is due earlier; for a start, the owner counts as asleep.
    ///
    /// ```
    /// # use std::task::Waker;
    /// let shard = Box::new(blitzen_wheel::Shard::new());
    /// shard.open(1, Waker::noop().clone());
    /// shard.close();
    /// shard.open(2, Waker::noop().clone());
    /// ```
    ///
    /// # Panics
    /// If it has a tenant.
    #[track_caller]
    pub fn open(&self, tenant: u64, bell: Waker) {
        let mut inner = self.inner.lock();
        assert!(inner.tenant.is_none(), "a shard has one tenant at a time");
        inner.wheel.rewind();
        inner.owner = Owner::Asleep(NEVER);
        inner.tenant = Some(Tenant { id: tenant, bell });
    }

    /// Ends the tenancy: every armed timer is closed, and whoever waits for it is woken.
    ///
    /// ```
    /// use blitzen_wheel::{Shard, State, Timer};
    /// # use std::{pin::pin, sync::Arc, task::Waker};
    ///
    /// let shard = Arc::new(Shard::new());
    /// shard.open(1, Waker::noop().clone());
    /// let mut timer = pin!(Timer::new(shard.clone(), 1));
    /// timer.as_mut().arm(None, 30, Waker::noop()).unwrap();
    /// shard.close();
    /// assert_eq!(timer.state(), State::Closed);
    /// ```
    pub fn close(&self) {
        let tenant = self.inner.lock().tenant.take(); // S4: from here on nothing is armed
        self.take_out(u64::MAX, State::Closed);
        drop(tenant);
    }

    /// Fires every timer that is due at `now_tick`; tells whether there was one. Any thread may
    /// do this.
    ///
    /// ```
    /// # let shard = Box::new(blitzen_wheel::Shard::new());
    /// assert!(!shard.fire(1_000));
    /// ```
    #[inline]
    pub fn fire(&self, now_tick: u64) -> bool {
        now_tick >= self.next() && self.take_out(now_tick, State::Fired)
    }

    /// A tick that is not later than that of the first timer; [`u64::MAX`] if there is none.
    ///
    /// ```
    /// # let shard = Box::new(blitzen_wheel::Shard::new());
    /// assert_eq!(shard.next(), u64::MAX);
    /// ```
    #[inline]
    pub fn next(&self) -> u64 {
        // Relaxed: an owner that reads an old value looks again under the lock, in `doze`, before
        // it sleeps.
        self.next.load(Relaxed)
    }

    /// The tick of the first timer, as exactly as [`Wheel::next_expiry`] knows it.
    ///
    /// ```
    /// # let shard = Box::new(blitzen_wheel::Shard::new());
    /// assert_eq!(shard.next_expiry(), None);
    /// ```
    pub fn next_expiry(&self) -> Option<u64> {
        self.lock().settle_next()
    }

    /// The owner is about to sleep: until when it may. It sleeps until then, or until its bell
    /// rings, and then [rouses](Self::rouse).
    ///
    /// ```
    /// # let shard = Box::new(blitzen_wheel::Shard::new());
    /// assert_eq!(shard.doze(), None);
    /// shard.rouse();
    /// ```
    pub fn doze(&self) -> Option<u64> {
        let mut locked = self.lock();
        let next = locked.settle_next();
        locked.inner.owner = Owner::Asleep(next.unwrap_or(NEVER));
        next
    }

    /// The owner is awake, and will see to what is armed.
    ///
    /// ```
    /// # let shard = Box::new(blitzen_wheel::Shard::new());
    /// shard.rouse();
    /// ```
    pub fn rouse(&self) {
        self.inner.lock().owner = Owner::Awake;
    }

    /// How many timers are armed.
    ///
    /// ```
    /// assert_eq!(Box::new(blitzen_wheel::Shard::new()).len(), 0);
    /// ```
    pub fn len(&self) -> usize {
        self.inner.lock().wheel.len()
    }

    /// Whether no timer is armed.
    ///
    /// ```
    /// assert!(Box::new(blitzen_wheel::Shard::new()).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_> {
        Locked {
            next: &self.next,
            inner: self.inner.lock(),
        }
    }

    /// Takes out what is due, and wakes (S3), some at a time.
    fn take_out(&self, now_tick: u64, state: State) -> bool {
        let mut any = false;
        let rounds = AssertUnwindSafe(|| {
            wake_batch::in_rounds(|batch| {
                let mut locked = self.lock();
                while !batch.is_full() {
                    let Some(entry) = locked.poll(now_tick) else {
                        locked.settle_next();
                        return false;
                    };
                    any = true;
                    // SAFETY: taken out just now, under the lock.
                    if let Some(waker) = unsafe { Slot::settle(entry, state) } {
                        batch.push(waker);
                    }
                }
                true
            });
        });
        // A foreign waker that panics has been heard of by the panic hook, and must not take
        // along the thread that fires for everybody.
        let _ = catch_unwind(rounds);
        any
    }
}

/// A shard whose lock is held.
pub(crate) struct Locked<'a> {
    next: &'a AtomicU64,
    inner: MutexGuard<'a, Inner>,
}

impl Locked<'_> {
    #[inline]
    pub(crate) fn is_open_for(&self, tenant: u64) -> bool {
        self.inner
            .tenant
            .as_ref()
            .is_some_and(|present| present.id == tenant)
    }

    /// Lets go of the lock after a timer was armed for a tick, and has the owner know if it
    /// sleeps for longer (S1, S2).
    #[inline]
    pub(crate) fn unlock_for(mut self, tick: u64) {
        if tick < self.next.load(Relaxed) {
            self.next.store(tick, Relaxed);
        }
        if let Owner::Asleep(until) = self.inner.owner
            && tick < until
        {
            self.inner.owner = Owner::Awake; // as good as
            let bell = self.inner.tenant.as_ref().map(|tenant| tenant.bell.clone());
            drop(self);
            if let Some(bell) = bell {
                bell.wake();
            }
        }
    }

    /// Brings `next` up to date.
    fn settle_next(&mut self) -> Option<u64> {
        let next = self.inner.wheel.next_expiry();
        self.next.store(next.unwrap_or(NEVER), Relaxed);
        next
    }
}

impl Deref for Locked<'_> {
    type Target = Wheel<Slot>;

    #[inline]
    fn deref(&self) -> &Wheel<Slot> {
        &self.inner.wheel
    }
}

impl DerefMut for Locked<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Wheel<Slot> {
        &mut self.inner.wheel
    }
}

impl Default for Shard {
    /// As [`Shard::new`].
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shard")
            .field("next", &self.next())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::timer::Timer;
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

    fn open(bell: Waker) -> Arc<Shard> {
        let shard = Arc::new(Shard::new());
        shard.open(1, bell);
        shard
    }

    type Boxed = Pin<Box<Timer<Arc<Shard>>>>;

    fn armed(shard: &Arc<Shard>, tick: u64, waker: &Waker) -> Boxed {
        let mut timer = Box::pin(Timer::new(shard.clone(), 1));
        timer.as_mut().arm(None, tick, waker).unwrap();
        timer
    }

    #[test]
    fn more_timers_than_a_batch_holds_all_fire() {
        let shard = open(Waker::noop().clone());
        let (woken, waker) = count();
        let timers: Vec<_> = (0..100).map(|_| armed(&shard, 5, &waker)).collect();
        assert!(shard.fire(5));
        assert_eq!((woken.get(), shard.len()), (100, 0));
        assert!(timers.iter().all(|timer| timer.state() == State::Fired));
        assert_eq!(shard.next(), NEVER);
    }

    #[test]
    fn a_sleeper_is_told_of_what_is_earlier_and_once() {
        let (rung, bell) = count();
        let shard = open(bell);
        let first = armed(&shard, 100, Waker::noop());
        assert_eq!(rung.get(), 1, "an owner that never ran is asleep");
        assert_eq!(shard.doze(), Some(100));
        let later = armed(&shard, 200, Waker::noop());
        let equal = armed(&shard, 100, Waker::noop());
        assert_eq!(rung.get(), 1, "it wakes by itself");
        let mut earlier = armed(&shard, 50, Waker::noop());
        assert_eq!(rung.get(), 2);
        earlier.as_mut().reset(40);
        assert_eq!(rung.get(), 2, "it has been told");
        shard.rouse();
        let own = armed(&shard, 1, Waker::noop());
        assert_eq!(rung.get(), 2, "it is awake");
        drop((first, later, equal, earlier, own));
    }

    #[test]
    fn a_reset_to_an_earlier_tick_tells_the_sleeper() {
        let (rung, bell) = count();
        let shard = open(bell);
        shard.rouse();
        let mut timer = armed(&shard, 100, Waker::noop());
        shard.doze();
        timer.as_mut().reset(200);
        assert_eq!(rung.get(), 0);
        timer.as_mut().reset(50);
        assert_eq!(rung.get(), 1);
    }

    #[test]
    fn a_timer_wakes_the_last_waker_it_was_given() {
        let shard = open(Waker::noop().clone());
        let ((old, old_waker), (new, new_waker)) = (count(), count());
        let mut timer = armed(&shard, 5, &old_waker);
        assert!(timer.as_mut().refresh(&old_waker));
        assert!(timer.as_mut().refresh(&new_waker));
        shard.fire(5);
        assert_eq!((old.get(), new.get()), (0, 1));
        assert!(!timer.as_mut().refresh(&old_waker), "it has fired");
    }

    #[test]
    fn what_is_dropped_does_not_fire() {
        let shard = open(Waker::noop().clone());
        let (woken, waker) = count();
        drop(armed(&shard, 5, &waker));
        assert!(!shard.fire(5));
        assert_eq!((woken.get(), shard.len()), (0, 0));
        assert_eq!(Arc::strong_count(&woken), 2, "the timer let its waker go");
    }

    #[test]
    fn an_armed_timer_can_be_made_to_fire_at_once() {
        let shard = open(Waker::noop().clone());
        let (woken, waker) = count();
        let mut timer = armed(&shard, 5, &waker);
        timer.as_mut().expire();
        assert_eq!(
            (timer.state(), woken.get(), shard.len()),
            (State::Fired, 1, 0)
        );
    }

    #[test]
    fn the_next_tenant_does_not_see_timers_of_the_last() {
        let shard = open(Waker::noop().clone());
        let (woken, waker) = count();
        let mut old: Vec<_> = (0..100).map(|_| armed(&shard, 1 << 40, &waker)).collect();
        shard.close();
        assert_eq!(woken.get(), 100, "those who wait are told");
        shard.open(2, Waker::noop().clone());
        for timer in &mut old {
            assert_eq!(timer.state(), State::Closed);
            timer.as_mut().reset(3);
            assert!(!timer.as_mut().refresh(&waker));
            assert_eq!(timer.as_mut().arm(None, 3, &waker), Err(Closed));
        }
        assert!(shard.is_empty());
        // Ticks begin anew.
        let mut new = Box::pin(Timer::new(shard.clone(), 2));
        new.as_mut().arm(None, 3, &waker).unwrap();
        assert!(!shard.fire(2));
        assert!(shard.fire(3));
    }

    #[test]
    fn a_waker_may_use_the_shard_and_may_panic() {
        struct Rearm(Arc<Shard>, std::sync::Mutex<Vec<Boxed>>);
        impl Wake for Rearm {
            fn wake(self: Arc<Self>) {
                // The timers that it owns are dropped, and another is armed.
                let timer = armed(&self.0, 7, Waker::noop());
                *self.1.lock().unwrap() = vec![timer];
                panic!("a waker that panics");
            }
        }
        let shard = open(Waker::noop().clone());
        let rearm = Arc::new(Rearm(shard.clone(), Default::default()));
        let (woken, waker) = count();
        let timers = [
            armed(&shard, 5, &rearm.clone().into()),
            armed(&shard, 5, &waker),
        ];
        rearm.1.lock().unwrap().extend([armed(&shard, 9, &waker)]);
        assert!(shard.fire(5));
        assert_eq!((woken.get(), shard.len()), (1, 1));
        assert_eq!(shard.next_expiry(), Some(7));
        drop(timers);
        rearm.1.lock().unwrap().clear();
    }

    #[test]
    #[should_panic(expected = "one tenant at a time")]
    fn two_tenants_are_refused() {
        open(Waker::noop().clone()).open(2, Waker::noop().clone());
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::timer::Timer;
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

    fn open(bell: Waker) -> Arc<Shard> {
        let shard = Arc::new(Shard::new());
        shard.open(1, bell);
        shard
    }

    fn armed(shard: &Arc<Shard>, tick: u64, waker: &Waker) -> Pin<Box<Timer<Arc<Shard>>>> {
        let mut timer = Box::pin(Timer::new(shard.clone(), 1));
        timer.as_mut().arm(None, tick, waker).unwrap();
        timer
    }

    fn fire(shard: &Arc<Shard>, tick: u64) -> thread::JoinHandle<bool> {
        let shard = shard.clone();
        thread::spawn(move || shard.fire(tick))
    }

    #[test]
    fn a_timer_armed_while_others_fire_waits_or_has_fired() {
        loom::model(|| {
            let shard = open(Waker::noop().clone());
            let (woken, waker) = count();
            let other = fire(&shard, 5);
            let timer = armed(&shard, 5, &waker);
            let fired_there = other.join().unwrap();
            // Whoever looks next finds it, if the other came too early.
            assert!(fired_there ^ shard.fire(5));
            assert_eq!(timer.state(), State::Fired);
            assert_eq!(woken.0.load(Relaxed), 1);
        });
    }

    #[test]
    fn firing_wakes_the_new_waker_or_the_owner_sees_that_it_fired() {
        loom::model(|| {
            let shard = open(Waker::noop().clone());
            let ((old, old_waker), (new, new_waker)) = (count(), count());
            let mut timer = armed(&shard, 5, &old_waker);
            let other = fire(&shard, 5);
            let waits = timer.as_mut().refresh(&new_waker);
            assert!(waits || timer.state() == State::Fired);
            assert!(other.join().unwrap());
            let calls = (old.0.load(Relaxed), new.0.load(Relaxed));
            assert_eq!(calls, if waits { (0, 1) } else { (1, 0) });
        });
    }

    #[test]
    fn a_fired_timer_is_its_owners_at_once() {
        loom::model(|| {
            let shard = open(Waker::noop().clone());
            let (woken, waker) = count();
            let timer = armed(&shard, 5, &waker);
            let other = fire(&shard, 5);
            let seen = timer.state();
            drop(timer); // which looks at the waker, and without the lock if it has fired
            let fired = other.join().unwrap();
            assert!(fired || seen == State::Armed);
            assert_eq!(woken.0.load(Relaxed), usize::from(fired));
        });
    }

    #[test]
    fn a_reset_is_kept_or_the_timer_had_fired() {
        loom::model(|| {
            let shard = open(Waker::noop().clone());
            let (woken, waker) = count();
            let mut timer = armed(&shard, 5, &waker);
            let other = fire(&shard, 5);
            timer.as_mut().reset(9);
            let fired = other.join().unwrap();
            assert_eq!(timer.state() == State::Idle, fired);
            assert_eq!(woken.0.load(Relaxed), usize::from(fired));
            assert_eq!(shard.fire(9), !fired);
        });
    }

    #[test]
    fn a_timer_dropped_while_others_fire_is_not_touched_again() {
        loom::model(|| {
            let shard = open(Waker::noop().clone());
            let (woken, waker) = count();
            let timer = armed(&shard, 5, &waker);
            let other = fire(&shard, 5);
            drop(timer);
            drop(waker);
            let fired = other.join().unwrap();
            assert_eq!(woken.0.load(Relaxed), usize::from(fired));
            assert_eq!(Arc::strong_count(&woken), 1, "no waker is left behind");
            assert!(shard.is_empty());
        });
    }

    #[test]
    fn a_sleeping_owner_hears_of_an_earlier_timer() {
        loom::model(|| {
            let parker = Arc::new(Parker::new());
            let shard = open(parker.clone().into());
            shard.rouse();
            let far = armed(&shard, 100, Waker::noop());
            let other = thread::spawn({
                let shard = shard.clone();
                move || armed(&shard, 5, Waker::noop())
            });
            // The owner: nothing of tick 100 wakes it in this model.
            if shard.doze() == Some(100) {
                parker.park();
            }
            shard.rouse();
            assert!(shard.fire(5), "it woke for the timer, and finds it");
            drop(far);
            let near = other.join().unwrap();
            assert_eq!(near.state(), State::Fired);
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
            let armed = timer.as_mut().arm(None, 5, &waker).is_ok();
            other.join().unwrap();
            assert_eq!(timer.state(), State::Closed);
            assert_eq!(
                woken.0.load(Relaxed),
                usize::from(armed),
                "who waits is told"
            );
        });
    }
}
