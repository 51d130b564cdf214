//! The runtime this thread is in: a thread-local, nothing else.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::MutexGuard;
use std::task::Waker;

use blitzen_util::coop;

use super::handle::{Handle, TryCurrentError};
use super::timers::{self, TimerPlace};

thread_local! {
    static CURRENT: RefCell<Option<Handle>> = const { RefCell::new(None) };
    /// How many guards are alive, to notice when they go in the wrong order.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Lends the current runtime. `visit` runs no foreign code.
#[inline]
pub(crate) fn with_current<R>(visit: impl FnOnce(&Handle) -> R) -> Result<R, TryCurrentError> {
    match CURRENT.try_with(|current| current.borrow().as_ref().map(visit)) {
        Ok(Some(result)) => Ok(result),
        Ok(None) => Err(TryCurrentError::missing()),
        Err(_) => Err(TryCurrentError::destroyed()),
    }
}

/// Puts back on drop the runtime that was current before.
#[must_use]
pub(crate) struct Entered {
    before: Option<Handle>,
    timers_before: Option<TimerPlace>,
    depth: usize,
    /// The runtime is this thread's: as a lock's guard, it cannot leave it.
    not_send: PhantomData<MutexGuard<'static, ()>>,
}

/// Makes a runtime current until the guard is dropped.
#[track_caller]
pub(crate) fn enter(handle: &Handle) -> Entered {
    match try_enter(handle) {
        Some(entered) => entered,
        None => panic!("{}", TryCurrentError::destroyed()),
    }
}

/// Like [`enter`], on a thread that may be ending: `None` there.
pub(crate) fn try_enter(handle: &Handle) -> Option<Entered> {
    let before = CURRENT.try_with(|current| current.replace(Some(handle.clone())));
    let before = before.ok()?;
    let depth = DEPTH.get() + 1;
    DEPTH.set(depth);
    Some(Entered {
        before,
        timers_before: timers::enter(timers::place_in(handle)),
        depth,
        not_send: PhantomData,
    })
}

impl Drop for Entered {
    fn drop(&mut self) {
        if DEPTH.get() != self.depth {
            if !std::thread::panicking() {
                panic!(
                    "`EnterGuard` values dropped out of order. Guards returned by \
                     `tokio::runtime::Handle::enter()` must be dropped in the reverse order as \
                     they were acquired."
                );
            }
            return;
        }
        DEPTH.set(self.depth - 1);
        timers::enter(self.timers_before);
        // A thread that is being destroyed has no current runtime any more.
        let own = CURRENT.try_with(|current| current.replace(self.before.take()));
        // Outside the cell: the last handle of a runtime runs foreign code.
        drop(own);
    }
}

/// Calls `waker` when others have had their turn, and the drivers a look.
pub(crate) fn defer(waker: &Waker) {
    if !blitzen_task::current::yield_if_own(waker) && !blitzen_sched::defer(waker) {
        waker.wake_by_ref();
    }
}

/// Puts back on drop the way budgets yielded before.
#[must_use]
pub(crate) struct Deferring(Option<fn(&Waker)>);

/// Makes exhausted budgets on this thread yield like [`defer`] does, until the
/// guard is dropped.
pub(crate) fn defer_here() -> Deferring {
    Deferring(coop::set_defer(Some(defer)))
}

impl Drop for Deferring {
    fn drop(&mut self) {
        coop::set_defer(self.0);
    }
}
