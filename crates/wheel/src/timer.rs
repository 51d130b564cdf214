//! One timer of a shard: its state, and the waker that it wakes.
//!
//! ```text
//!            arm                    its tick comes up
//!   Idle ───────────► Armed ───────────────────────────► Fired
//!    ▲                │  │                                 │
//!    │     disarm     │  │  the shard closes               │
//!    ├────────────────┘  └───────────────► Closed          │
//!    └──────────────────── reset ──────────────────────────┘
//! ```
//!
//! T1. While armed, the entry is in the wheel of `shard`, and links and waker belong to the thread
//!     that holds that shard's lock. Otherwise they belong to the timer's owner.
//! T2. Only the owner arms a timer, and only under the lock. The thread that takes it out of the
//!     wheel changes its state under the same lock, as the last thing it does with the entry: an
//!     owner that sees another state than armed may free it at once.
//! T3. `shard` changes only while the timer is not armed.
//! T4. The state of an armed timer is its deadline. The owner may set a later one without the lock,
//!     by a compare-exchange; the entry then stays where it is in the wheel. A thread that finds
//!     it due there fires it by a compare-exchange from a deadline that is due, or puts it back.

use std::ops::Deref;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::Waker;

use blitzen_util::shim::MODEL;
use blitzen_util::shim::atomic::AtomicU64;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use blitzen_util::shim::cell::UnsafeCell;
use std::fmt;

use crate::entry::WheelEntry;
use crate::shard::{Closed, ShardGuard, TimerShard};

/// The state of a [`Timer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerState {
    /// In no wheel, and not fired.
    Idle,
    /// In a wheel.
    Armed,
    /// Its tick has come.
    Fired,
    /// Its shard was closed before its tick came.
    Closed,
}

/// The latest deadline of a timer, in nanoseconds. The words above stand for the other states (T4).
const LAST_DEADLINE_NS: u64 = u64::MAX - 3;
const CLOSED: u64 = u64::MAX - 2;
const FIRED: u64 = u64::MAX - 1;
const IDLE: u64 = u64::MAX;

impl TimerState {
    #[inline]
    fn of(word: u64) -> Self {
        match word {
            IDLE => Self::Idle,
            FIRED => Self::Fired,
            CLOSED => Self::Closed,
            _ => Self::Armed,
        }
    }
}

/// The value of an entry in a shard's wheel.
pub(crate) struct TimerCell {
    /// T4.
    state: AtomicU64,
    /// T1.
    waker: UnsafeCell<Option<Waker>>,
}

// SAFETY: the waker is reached by one thread at a time (T1).
unsafe impl Sync for TimerCell {}

impl TimerCell {
    fn new() -> Self {
        Self {
            state: AtomicU64::new(IDLE),
            waker: UnsafeCell::new(None),
        }
    }

    /// Takes the waker.
    ///
    /// # Safety
    /// T1 gives it to the caller.
    unsafe fn take_waker(&self) -> Option<Waker> {
        // SAFETY: the caller guarantees that nobody else accesses it.
        self.waker.with_mut(|waker| unsafe { (*waker).take() })
    }

    /// Ends the wait of an entry that was just taken out of the wheel, if `is_due` agrees with its
    /// deadline, and returns the waker to wake. The entry may be freed as soon as this returns (T2).
    ///
    /// # Errors
    /// Returns the deadline that its owner has set meanwhile (T4): then it is still armed, and has
    /// to be put back.
    ///
    /// # Safety
    /// The caller took the entry out of the wheel, and holds the lock since before that.
    pub(crate) unsafe fn finish(
        entry: NonNull<WheelEntry<TimerCell>>,
        end: TimerEnd,
        is_due: impl Fn(u64) -> bool,
    ) -> Result<Option<Waker>, u64> {
        // SAFETY: it is alive until its state changes below: its owner, seeing it armed, waits
        // for the lock (T2).
        let cell = unsafe { entry.as_ref() }.value();
        let mut deadline_ns = cell.state.load(Relaxed);
        if !is_due(deadline_ns) {
            return Err(deadline_ns);
        }
        // SAFETY: armed, and the caller has the lock.
        let waker = unsafe { cell.take_waker() };
        loop {
            // Release, met by the Acquire in `Timer::state`: the owner that sees it finds the
            // entry unlinked and its waker taken.
            match cell
                .state
                .compare_exchange(deadline_ns, end as u64, Release, Relaxed)
            {
                Ok(_) => return Ok(waker),
                Err(later_ns) if is_due(later_ns) => deadline_ns = later_ns,
                Err(later_ns) => {
                    // SAFETY: as above; and empty, so that nothing is dropped.
                    cell.waker.with_mut(|place| unsafe { place.write(waker) });
                    return Err(later_ns);
                }
            }
        }
    }
}

/// How the wait of an armed timer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum TimerEnd {
    Fired = FIRED,
    Closed = CLOSED,
}

/// A timer that lives in the future that waits, and is linked into a [`TimerShard`]. Dropping it
/// takes it out.
///
/// ```
/// use blitzen_wheel::{TickScale, TimerShard, TimerState, Timer};
/// use std::pin::pin;
/// use std::sync::Arc;
/// use std::task::Waker;
///
/// let shard = Arc::new(TimerShard::new());
/// shard.open(1, TickScale::new(0, 1_000), Waker::noop().clone());
///
/// let mut timer = pin!(Timer::new(shard.clone(), 1));
/// timer.as_mut().arm(None, 30_000, Waker::noop()).unwrap();
/// assert!(!shard.fire(29_999));
/// assert_eq!(timer.state(), TimerState::Armed);
/// assert!(shard.fire(30_000));
/// assert_eq!(timer.state(), TimerState::Fired);
/// ```
pub struct Timer<S: Deref<Target = TimerShard>> {
    /// Where it is armed, or will be unless `arm` is given another one.
    shard: S,
    runtime_id: u64,
    entry: WheelEntry<TimerCell>,
}

impl<S: Deref<Target = TimerShard>> Timer<S> {
    /// Creates a timer of a runtime, to be armed on one of its shards.
    ///
    /// ```
    /// # use blitzen_wheel::{TimerShard, TimerState, Timer};
    /// let timer = Timer::new(Box::new(TimerShard::new()), 1);
    /// assert_eq!(timer.state(), TimerState::Idle);
    /// ```
    #[inline]
    pub fn new(shard: S, runtime_id: u64) -> Self {
        Self {
            shard,
            runtime_id,
            entry: WheelEntry::new(TimerCell::new()),
        }
    }

    /// Returns the state. A timer that was armed may have fired meanwhile.
    ///
    /// ```
    /// # use blitzen_wheel::{TimerShard, TimerState, Timer};
    /// # let timer = Timer::new(Box::new(TimerShard::new()), 1);
    /// assert_eq!(timer.state(), TimerState::Idle);
    /// ```
    #[inline]
    pub fn state(&self) -> TimerState {
        // Acquire, met by the Release in `TimerCell::finish`.
        TimerState::of(self.entry.value().state.load(Acquire))
    }

    /// Returns the id of the runtime that it belongs to.
    ///
    /// ```
    /// # use blitzen_wheel::{TimerShard, Timer};
    /// assert_eq!(Timer::new(Box::new(TimerShard::new()), 7).runtime_id(), 7);
    /// ```
    #[inline]
    pub fn runtime_id(&self) -> u64 {
        self.runtime_id
    }

    #[inline]
    fn entry(self: Pin<&Self>) -> Pin<&WheelEntry<TimerCell>> {
        // SAFETY: the entry is pinned as the timer is: nothing moves it out.
        unsafe { self.map_unchecked(|timer| &timer.entry) }
    }

    /// Stores the state, or the deadline: by the owner of a timer that is not armed, or under the
    /// lock. Relaxed: nobody but the owner reads it, or the lock orders it.
    #[inline]
    fn set_state(&self, word: u64) {
        self.entry.value().state.store(word, Relaxed);
    }

    /// Locks the wheel it is in; `None` if it is not armed, or no longer.
    #[inline]
    fn lock_armed(&self) -> Option<ShardGuard<'_>> {
        if self.state() != TimerState::Armed {
            return None;
        }
        let locked = self.shard.lock();
        (self.state() == TimerState::Armed).then_some(locked)
    }

    /// Arms a timer for `deadline_ns`, on `shard` if given; then `waker` is woken. The worker of the
    /// shard is unparked if it would wake later.
    ///
    /// # Errors
    /// If the shard is closed, or open for another runtime: then the timer is closed too.
    ///
    /// # Panics
    /// If it is armed.
    ///
    /// ```
    /// # use blitzen_wheel::{TimerShard, TimerState, Timer};
    /// # use std::{pin::pin, task::Waker};
    /// let mut timer = pin!(Timer::new(Box::new(TimerShard::new()), 1));
    /// assert!(timer.as_mut().arm(None, 1, Waker::noop()).is_err(), "not open");
    /// assert_eq!(timer.state(), TimerState::Closed);
    /// ```
    #[inline]
    #[track_caller]
    pub fn arm(
        mut self: Pin<&mut Self>,
        shard: Option<S>,
        deadline_ns: u64,
        waker: &Waker,
    ) -> Result<(), Closed> {
        assert!(
            self.state() != TimerState::Armed,
            "a timer is armed once at a time"
        );
        if let Some(shard) = shard {
            // SAFETY: `shard` is not pinned, and T3 allows the change.
            unsafe { self.as_mut().get_unchecked_mut() }.shard = shard;
        }
        let timer = self.as_ref();
        let waker = waker.clone(); // foreign code: not under the lock
        let mut locked = timer.shard.lock();
        if !locked.is_open_for(timer.runtime_id) {
            drop(locked); // before the waker
            timer.set_state(CLOSED);
            return Err(Closed);
        }
        let cell = timer.entry.value();
        // SAFETY: not armed, hence the owner's (T1); and empty, so that nothing is dropped.
        cell.waker.with_mut(|place| unsafe { *place = Some(waker) });
        timer.set_state(deadline_ns.min(LAST_DEADLINE_NS));
        let tick = locked.tick_of(deadline_ns);
        // SAFETY: in no wheel (T1), and `drop` takes it out.
        unsafe { locked.insert(timer.entry(), tick) };
        locked.unlock_after_arming(tick);
        Ok(())
    }

    /// Replaces the waker of an armed timer; returns false if it is not armed, or no longer.
    ///
    /// ```
    /// # use blitzen_wheel::{TimerShard, Timer};
    /// # use std::{pin::pin, task::Waker};
    /// let mut timer = pin!(Timer::new(Box::new(TimerShard::new()), 1));
    /// assert!(!timer.as_mut().update_waker(Waker::noop()), "it never was");
    /// ```
    #[inline]
    pub fn update_waker(self: Pin<&mut Self>, waker: &Waker) -> bool {
        let timer = self.into_ref().get_ref();
        let Some(locked) = timer.lock_armed() else {
            return false;
        };
        // SAFETY: armed, and the lock is held (T1).
        let wakes = |place: *const Option<Waker>| match unsafe { &*place } {
            Some(known) => known.will_wake(waker),
            None => false,
        };
        if timer.entry.value().waker.with(wakes) {
            return true;
        }
        drop(locked);
        timer.swap_waker(waker)
    }

    /// Cloning and dropping wakers is foreign code, which must not run under the lock. The timer may
    /// fire in between, and then wakes the old one.
    #[cold]
    fn swap_waker(&self, waker: &Waker) -> bool {
        let mut waker = Some(waker.clone());
        let locked = self.lock_armed();
        let is_armed = locked.is_some();
        if is_armed {
            self.entry
                .value()
                .waker
                // SAFETY: armed, and the lock is held (T1); both places are valid.
                .with_mut(|place| unsafe { std::ptr::swap(place, &mut waker) });
        }
        drop(locked); // before the waker that is left
        is_armed
    }

    /// Moves an armed timer to another deadline, and keeps its waker. A timer that has fired is
    /// idle again.
    ///
    /// ```
    /// # use blitzen_wheel::{TickScale, TimerShard, TimerState, Timer};
    /// # use std::{pin::pin, sync::Arc, task::Waker};
    /// # let shard = Arc::new(TimerShard::new());
    /// # shard.open(1, TickScale::new(0, 1_000), Waker::noop().clone());
    /// let mut timer = pin!(Timer::new(shard.clone(), 1));
    /// timer.as_mut().arm(None, 10_000, Waker::noop()).unwrap();
    /// timer.as_mut().reset(20_000);
    /// assert!(!shard.fire(19_999));
    /// assert!(shard.fire(20_000));
    /// timer.as_mut().reset(30_000);
    /// assert_eq!(timer.state(), TimerState::Idle);
    /// ```
    #[inline]
    pub fn reset(self: Pin<&mut Self>, deadline_ns: u64) {
        let timer = self.as_ref();
        let deadline_ns = deadline_ns.min(LAST_DEADLINE_NS);
        if timer.extend(deadline_ns) {
            return;
        }
        match timer.lock_armed() {
            Some(mut locked) => {
                timer.set_state(deadline_ns);
                let tick = locked.tick_of(deadline_ns);
                // SAFETY: it is in this wheel (T1).
                unsafe { locked.reset(timer.entry(), tick) };
                locked.unlock_after_arming(tick);
            }
            None if timer.state() == TimerState::Fired => timer.set_state(IDLE),
            None => {}
        }
    }

    /// Sets a later deadline, without the lock (T4); returns false if it is not later, or the
    /// timer is not armed.
    #[inline]
    fn extend(&self, deadline_ns: u64) -> bool {
        let state = &self.entry.value().state;
        let known = state.load(Relaxed); // above every deadline, unless it is one
        // Relaxed: whoever fires the timer reads nothing but the deadline.
        known <= deadline_ns
            && state
                .compare_exchange(known, deadline_ns, Relaxed, Relaxed)
                .is_ok()
    }

    /// Fires the timer now, whatever its deadline, and wakes its waker.
    ///
    /// ```
    /// # use blitzen_wheel::{TimerShard, TimerState, Timer};
    /// # use std::pin::pin;
    /// let mut timer = pin!(Timer::new(Box::new(TimerShard::new()), 1));
    /// timer.as_mut().expire();
    /// assert_eq!(timer.state(), TimerState::Fired);
    /// ```
    pub fn expire(self: Pin<&mut Self>) {
        let timer = self.as_ref();
        match timer.lock_armed() {
            Some(locked) => {
                if let Some(waker) = timer.take_out(locked, FIRED) {
                    waker.wake();
                }
            }
            None if timer.state() == TimerState::Idle => timer.set_state(FIRED),
            None => {}
        }
    }

    /// Checks a timer that is not armed, so without the lock (T2).
    fn assert_has_no_waker(&self) {
        // SAFETY: the owner's (T1).
        let is_empty = |place: *const Option<Waker>| unsafe { &*place }.is_none();
        assert!(self.entry.value().waker.with(is_empty), "a waker is left");
    }

    /// Takes the timer out of its wheel, and returns its waker.
    #[inline]
    fn take_out(self: Pin<&Self>, mut locked: ShardGuard<'_>, state: u64) -> Option<Waker> {
        // SAFETY: it is in this wheel (T1).
        let was_in = unsafe { locked.remove(self.entry()) };
        debug_assert!(was_in, "T1");
        self.set_state(state);
        // SAFETY: not armed any more, hence the owner's (T1).
        unsafe { self.entry.value().take_waker() }
    }
}

impl<S: Deref<Target = TimerShard>> Drop for Timer<S> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: it was pinned if it was ever armed, and does not move until it is freed.
        let timer = unsafe { Pin::new_unchecked(&*self) };
        match timer.lock_armed() {
            // The lock is released first: dropping a waker is foreign code.
            Some(locked) => drop(timer.take_out(locked, IDLE)),
            None if MODEL || cfg!(debug_assertions) => timer.assert_has_no_waker(),
            None => {}
        }
    }
}

impl<S: Deref<Target = TimerShard>> fmt::Debug for Timer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer")
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
