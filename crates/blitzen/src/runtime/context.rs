//! The runtime that the calling thread is in.
//!
//! Safe code can leak the guard of a runtime that it has entered. So only the guards of
//! users are checked for their order; those of the runtime itself restore what was current
//! before, and a thread that runs the code of many (a worker, a thread of the blocking pool)
//! restores its own runtime before the next of them.

use std::cell::RefCell;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::MutexGuard;
use std::task::{self, Poll, Waker};

use blitzen_sched::{context_depth, set_context_depth};
use blitzen_util::coop;
use blitzen_util::quiet::quietly;

use super::handle::{Handle, TryCurrentError};
use super::timers::{self, TimerPlace};
use crate::scope;

thread_local! {
    static CURRENT: RefCell<Option<Handle>> = const { RefCell::new(None) };
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

/// What is current on a thread: a runtime, its timers, and how many runtimes the thread
/// has entered.
struct Context {
    runtime: Option<Handle>,
    timers: Option<TimerPlace>,
    depth: usize,
}

impl Context {
    /// Creates the context of a thread that has entered `handle`, and `depth` runtimes in
    /// all.
    fn of(handle: &Handle, depth: usize) -> Self {
        Self {
            runtime: Some(handle.clone()),
            timers: timers::place_in(handle),
            depth,
        }
    }

    /// Makes this current; returns what was before, or `None` on a thread that is being
    /// destroyed.
    fn install(self) -> Option<Self> {
        scope::forget_kept_node();
        let runtime = CURRENT.try_with(|current| current.replace(self.runtime));
        let before = Self {
            runtime: runtime.ok()?,
            timers: timers::enter(self.timers),
            depth: context_depth(),
        };
        set_context_depth(self.depth);
        Some(before)
    }
}

/// Makes `handle` current on a thread that has entered `depth` runtimes, whatever foreign
/// code has entered and not left.
pub(crate) fn restore(handle: &Handle, depth: usize) {
    // Dropped here, outside the cell: the last handle of a runtime runs foreign code.
    let left = Context::of(handle, depth).install();
    quietly(|| drop(left));
}

/// Makes a runtime current until it is dropped, and then what was current before,
/// whatever was entered meanwhile and not left.
#[must_use]
pub(crate) struct Entered {
    /// `None` once it is left.
    before: Option<Context>,
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
    let before = Context::of(handle, context_depth() + 1).install()?;
    Some(Entered {
        before: Some(before),
        not_send: PhantomData,
    })
}

impl Entered {
    fn leave(&mut self) {
        // A thread that is being destroyed has no current runtime any more. The one that
        // is left is dropped outside the cell: its last handle runs foreign code.
        let left = self.before.take().and_then(Context::install);
        drop(left);
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Like [`Entered`], for a user's guard: it panics if it is dropped before one that was made
/// after it.
#[must_use]
pub(crate) struct EnteredInOrder(Entered);

/// Makes a runtime current until the guard is dropped, which must be the last of its
/// thread then.
#[track_caller]
pub(crate) fn enter_in_order(handle: &Handle) -> EnteredInOrder {
    EnteredInOrder(enter(handle))
}

impl Drop for EnteredInOrder {
    fn drop(&mut self) {
        let Some(before) = &self.0.before else {
            return;
        };
        let depth = before.depth + 1;
        if context_depth() == depth {
            return self.0.leave();
        }
        self.0.before = None;
        // The depth may also be smaller: the poll in which the guard was made is over, and
        // the thread has left its runtime since.
        if context_depth() > depth && !std::thread::panicking() {
            panic!(
                "`EnterGuard` values dropped out of order. Guards returned by \
                 `tokio::runtime::Handle::enter()` must be dropped in the reverse order as \
                 they were acquired."
            );
        }
    }
}

/// The future of a `block_on` that runs tasks beside it. It may hold the guards of
/// runtimes that it has entered from one poll to the next: between its polls they are left,
/// so that the tasks are in their own runtime.
pub(crate) struct KeepContext<'a, F> {
    future: Pin<&'a mut F>,
    handle: &'a Handle,
    /// What is current inside the future, if it is not what is current outside.
    inside: Option<Context>,
}

impl<'a, F: Future> KeepContext<'a, F> {
    pub(crate) fn new(handle: &'a Handle, future: Pin<&'a mut F>) -> Self {
        Self {
            future,
            handle,
            inside: None,
        }
    }
}

impl<F: Future> Future for KeepContext<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<F::Output> {
        let depth = context_depth();
        if let Some(inside) = self.inside.take() {
            drop(inside.install());
        }
        let polled = self.future.as_mut().poll(cx);
        if context_depth() != depth {
            self.inside = Context::of(self.handle, depth).install();
        }
        polled
    }
}

/// The runtimes that a coroutine has entered and not left, between its polls. Hardly any coroutine
/// is suspended inside another runtime, so that the rest is in a box.
#[cfg(feature = "coro")]
#[derive(Default)]
pub(crate) struct KeptContext(Option<Box<Context>>);

/// What a thread had before it resumed a coroutine.
#[cfg(feature = "coro")]
#[derive(Clone, Copy)]
pub(crate) struct OuterContext {
    /// How many runtimes it had entered.
    depth: usize,
    /// The depth at which the coroutine has entered none; no depth at all if what it had before
    /// was installed. Then the depth says nothing: a thread that blocks may have entered as many
    /// runtimes as the coroutine.
    usual_depth: usize,
}

#[cfg(feature = "coro")]
impl KeptContext {
    /// Makes current what the coroutine has entered; returns what the calling thread had.
    #[inline]
    pub(crate) fn install(self) -> OuterContext {
        let depth = context_depth();
        let mut usual_depth = depth;
        if let Some(inside) = self.0 {
            drop(inside.install());
            usual_depth = usize::MAX;
        }
        OuterContext { depth, usual_depth }
    }

    /// Leaves what the coroutine has entered, and returns that, if there is something. The calling
    /// thread has entered as many runtimes again as `outer` says, the last of which is the
    /// coroutine's.
    #[inline]
    pub(crate) fn put_away(outer: OuterContext) -> Option<Self> {
        (context_depth() != outer.usual_depth).then(|| Self::put_away_inside(outer.depth))
    }

    #[cold]
    fn put_away_inside(depth: usize) -> Self {
        // The coroutine has left what it had entered, so that it needs nothing of its own.
        let has_left_all = blitzen_sched::is_pinned_depth(context_depth());
        let nothing = Context {
            runtime: None,
            timers: None,
            depth,
        };
        let inside = nothing.install();
        blitzen_sched::restore_pinned_context(depth);
        match has_left_all {
            true => {
                quietly(|| drop(inside)); // its last handle runs foreign code
                Self(None)
            }
            false => Self(inside.map(Box::new)),
        }
    }
}

/// Calls `waker` after other tasks have run and the drivers were turned.
pub(crate) fn defer(waker: &Waker) {
    if !blitzen_task::current::yield_if_own(waker) && !blitzen_sched::defer(waker) {
        // As a worker would call it: one that panics does not end the poll.
        quietly(|| waker.wake_by_ref());
    }
}

/// Counts that a budget was used up, for the metrics of the current runtime.
pub(crate) fn count_forced_yield() {
    // Without a runtime nothing is counted.
    let _ = with_current(|handle| handle.inner.world().forced_yields().add_shared(1));
}

/// Restores on drop how exhausted budgets yielded before.
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
