//! One timer of a shard: whether it waits, and whom it wakes.
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
//! T1. While armed, the entry is in the wheel of `shard`, and links and waker belong to whoever
//!     holds that shard's lock. Otherwise they belong to the timer's owner.
//! T2. Only the owner makes a timer armed, and only under the lock. Whoever takes it out of the
//!     wheel makes it something else under the same lock, as the last thing it does with the
//!     entry: the owner that sees another state than armed may free it at once.
//! T3. `shard` changes only while the timer is not armed.

use std::ops::Deref;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::Waker;

use blitzen_util::shim::MODEL;
use blitzen_util::shim::atomic::AtomicU8;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use blitzen_util::shim::cell::UnsafeCell;
use std::fmt;

use crate::entry::Entry;
use crate::shard::{Closed, Locked, Shard};

/// What a [`Timer`] is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// In no wheel, and not fired.
    Idle,
    /// In a wheel.
    Armed,
    /// Its tick has come.
    Fired,
    /// Its shard was closed before its tick came.
    Closed,
}

impl State {
    const ALL: [Self; 4] = [Self::Idle, Self::Armed, Self::Fired, Self::Closed];
}

/// What an entry of a shard's wheel carries.
pub(crate) struct Slot {
    state: AtomicU8,
    /// T1.
    waker: UnsafeCell<Option<Waker>>,
}

// SAFETY: the waker is reached by one thread at a time (T1).
unsafe impl Sync for Slot {}

impl Slot {
    fn new() -> Self {
        Self {
            state: AtomicU8::new(State::Idle as u8),
            waker: UnsafeCell::new(None),
        }
    }

    /// Takes the waker.
    ///
    /// # Safety
    /// T1 gives it to the caller.
    unsafe fn take_waker(&self) -> Option<Waker> {
        // SAFETY: nobody else reaches it, by the caller's word.
        self.waker.with_mut(|waker| unsafe { (*waker).take() })
    }

    /// Ends the time in the wheel of an entry that was just taken out of it, and answers whom to
    /// wake. The entry may be gone afterwards (T2).
    ///
    /// # Safety
    /// The caller took the entry out of the wheel, and holds the lock since before that.
    pub(crate) unsafe fn settle(entry: NonNull<Entry<Slot>>, state: State) -> Option<Waker> {
        // SAFETY: it is alive until its state changes below: its owner, seeing it armed, waits
        // for the lock (T2).
        let slot = unsafe { entry.as_ref() }.value();
        // SAFETY: armed, and the caller has the lock.
        let waker = unsafe { slot.take_waker() };
        // Release, met by the Acquire in `Timer::state`: the owner that sees it finds the entry
        // unlinked and its waker taken.
        slot.state.store(state as u8, Release);
        waker
    }
}

/// A timer that lives where the waiting is done, and waits in a [`Shard`]. It
/// leaves it when it is dropped.
///
/// ```
/// use blitzen_wheel::{Scale, Shard, State, Timer};
/// use std::pin::pin;
/// use std::sync::Arc;
/// use std::task::Waker;
///
/// let shard = Arc::new(Shard::new());
/// shard.open(1, Scale::new(0, 1_000), Waker::noop().clone());
///
/// let mut timer = pin!(Timer::new(shard.clone(), 1));
/// timer.as_mut().arm(None, 30_000, Waker::noop()).unwrap();
/// assert!(!shard.fire(29_999));
/// assert_eq!(timer.state(), State::Armed);
/// assert!(shard.fire(30_000));
/// assert_eq!(timer.state(), State::Fired);
/// ```
pub struct Timer<S: Deref<Target = Shard>> {
    /// Where it is armed, or will be unless it is told another place.
    shard: S,
    tenant: u64,
    entry: Entry<Slot>,
}

impl<S: Deref<Target = Shard>> Timer<S> {
    /// A timer of a tenant, to be armed on one of its shards.
    ///
    /// ```
    /// # use blitzen_wheel::{Shard, State, Timer};
    /// let timer = Timer::new(Box::new(Shard::new()), 1);
    /// assert_eq!(timer.state(), State::Idle);
    /// ```
    #[inline]
    pub fn new(shard: S, tenant: u64) -> Self {
        Self {
            shard,
            tenant,
            entry: Entry::new(Slot::new()),
        }
    }

    /// What it is doing. An armed one may have fired by the time of the answer.
    ///
    /// ```
    /// # use blitzen_wheel::{Shard, State, Timer};
    /// # let timer = Timer::new(Box::new(Shard::new()), 1);
    /// assert_eq!(timer.state(), State::Idle);
    /// ```
    #[inline]
    pub fn state(&self) -> State {
        // Acquire, met by the Release in `Slot::settle`.
        State::ALL[usize::from(self.entry.value().state.load(Acquire))]
    }

    /// Whose timer it is.
    ///
    /// ```
    /// # use blitzen_wheel::{Shard, Timer};
    /// assert_eq!(Timer::new(Box::new(Shard::new()), 7).tenant(), 7);
    /// ```
    #[inline]
    pub fn tenant(&self) -> u64 {
        self.tenant
    }

    /// The shard it is armed on, or was last.
    ///
    /// ```
    /// # use blitzen_wheel::{Shard, Timer};
    /// let shard = std::sync::Arc::new(Shard::new());
    /// assert!(std::sync::Arc::ptr_eq(Timer::new(shard.clone(), 1).shard(), &shard));
    /// ```
    #[inline]
    pub fn shard(&self) -> &S {
        &self.shard
    }

    #[inline]
    fn entry(self: Pin<&Self>) -> Pin<&Entry<Slot>> {
        // SAFETY: the entry is pinned as the timer is: nothing moves it out.
        unsafe { self.map_unchecked(|timer| &timer.entry) }
    }

    /// For a change by the owner of a timer that is not armed, or by whoever has the lock.
    /// Relaxed: it tells nobody but the owner anything, or the lock does.
    #[inline]
    fn set_state(&self, state: State) {
        self.entry.value().state.store(state as u8, Relaxed);
    }

    /// The lock of the wheel it is in; `None` if it is not armed, or no longer.
    #[inline]
    fn lock_armed(&self) -> Option<Locked<'_>> {
        if self.state() != State::Armed {
            return None;
        }
        let locked = self.shard.lock();
        (self.state() == State::Armed).then_some(locked)
    }

    /// Arms a timer that is not, on `shard` if given, for a moment; `waker` is called when it
    /// comes. The owner of the shard is roused if it would sleep for longer.
    ///
    /// # Errors
    /// If the shard is closed, or another tenant's by now: then so is the timer.
    ///
    /// # Panics
    /// If it is armed.
    ///
    /// ```
    /// # use blitzen_wheel::{Shard, State, Timer};
    /// # use std::{pin::pin, task::Waker};
    /// let mut timer = pin!(Timer::new(Box::new(Shard::new()), 1));
    /// assert!(timer.as_mut().arm(None, 1, Waker::noop()).is_err(), "not open");
    /// assert_eq!(timer.state(), State::Closed);
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
            self.state() != State::Armed,
            "a timer is armed once at a time"
        );
        if let Some(shard) = shard {
            // SAFETY: `shard` is not pinned, and T3 allows the change.
            unsafe { self.as_mut().get_unchecked_mut() }.shard = shard;
        }
        let timer = self.as_ref();
        let waker = waker.clone(); // foreign code: before the lock
        let mut locked = timer.shard.lock();
        if !locked.is_open_for(timer.tenant) {
            drop(locked); // before the waker
            timer.set_state(State::Closed);
            return Err(Closed);
        }
        let slot = timer.entry.value();
        // SAFETY: not armed, hence the owner's (T1); and empty, so that nothing is dropped.
        slot.waker.with_mut(|place| unsafe { *place = Some(waker) });
        timer.set_state(State::Armed);
        let tick = locked.tick_of(deadline_ns);
        // SAFETY: in no wheel (T1), and `drop` takes it out.
        unsafe { locked.insert(timer.entry(), tick) };
        locked.unlock_for(tick);
        Ok(())
    }

    /// Changes whom an armed timer wakes; false if it is not armed, or no longer.
    ///
    /// ```
    /// # use blitzen_wheel::{Shard, Timer};
    /// # use std::{pin::pin, task::Waker};
    /// let mut timer = pin!(Timer::new(Box::new(Shard::new()), 1));
    /// assert!(!timer.as_mut().refresh(Waker::noop()), "it never was");
    /// ```
    #[inline]
    pub fn refresh(self: Pin<&mut Self>, waker: &Waker) -> bool {
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
        timer.replace_waker(waker)
    }

    /// Cloning and dropping wakers is foreign code, which must not run under the lock. In between
    /// the timer may fire, and wakes the one it knows.
    #[cold]
    fn replace_waker(&self, waker: &Waker) -> bool {
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

    /// Moves an armed timer to another moment, and leaves its waker as it is; one that has fired
    /// is idle again.
    ///
    /// ```
    /// # use blitzen_wheel::{Scale, Shard, State, Timer};
    /// # use std::{pin::pin, sync::Arc, task::Waker};
    /// # let shard = Arc::new(Shard::new());
    /// # shard.open(1, Scale::new(0, 1_000), Waker::noop().clone());
    /// let mut timer = pin!(Timer::new(shard.clone(), 1));
    /// timer.as_mut().arm(None, 10_000, Waker::noop()).unwrap();
    /// timer.as_mut().reset(20_000);
    /// assert!(!shard.fire(19_999));
    /// assert!(shard.fire(20_000));
    /// timer.as_mut().reset(30_000);
    /// assert_eq!(timer.state(), State::Idle);
    /// ```
    #[inline]
    pub fn reset(self: Pin<&mut Self>, deadline_ns: u64) {
        let timer = self.as_ref();
        match timer.lock_armed() {
            Some(mut locked) => {
                let tick = locked.tick_of(deadline_ns);
                // SAFETY: it is in this wheel (T1).
                unsafe { locked.reset(timer.entry(), tick) };
                locked.unlock_for(tick);
            }
            None if timer.state() == State::Fired => timer.set_state(State::Idle),
            None => {}
        }
    }

    /// Fires here and now, whatever its deadline: whoever waits for it is woken.
    ///
    /// ```
    /// # use blitzen_wheel::{Shard, State, Timer};
    /// # use std::pin::pin;
    /// let mut timer = pin!(Timer::new(Box::new(Shard::new()), 1));
    /// timer.as_mut().expire();
    /// assert_eq!(timer.state(), State::Fired);
    /// ```
    pub fn expire(self: Pin<&mut Self>) {
        let timer = self.as_ref();
        match timer.lock_armed() {
            Some(locked) => {
                if let Some(waker) = timer.leave(locked, State::Fired) {
                    waker.wake();
                }
            }
            None if timer.state() == State::Idle => timer.set_state(State::Fired),
            None => {}
        }
    }

    /// Not armed, so without the lock (T2).
    fn assert_left(&self) {
        // SAFETY: the owner's (T1).
        let is_empty = |place: *const Option<Waker>| unsafe { &*place }.is_none();
        assert!(self.entry.value().waker.with(is_empty), "a waker is left");
    }

    /// Leaves the wheel, and answers whom it would have woken.
    #[inline]
    fn leave(self: Pin<&Self>, mut locked: Locked<'_>, state: State) -> Option<Waker> {
        // SAFETY: it is in this wheel (T1).
        let was_in = unsafe { locked.remove(self.entry()) };
        debug_assert!(was_in, "T1");
        self.set_state(state);
        // SAFETY: not armed any more, hence the owner's (T1).
        unsafe { self.entry.value().take_waker() }
    }
}

impl<S: Deref<Target = Shard>> Drop for Timer<S> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: it was pinned if it was ever armed, and stays where it is until it is gone.
        let timer = unsafe { Pin::new_unchecked(&*self) };
        match timer.lock_armed() {
            // The waker goes after the lock, and may free what it likes.
            Some(locked) => drop(timer.leave(locked, State::Idle)),
            None if MODEL || cfg!(debug_assertions) => timer.assert_left(),
            None => {}
        }
    }
}

impl<S: Deref<Target = Shard>> fmt::Debug for Timer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer")
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
