//! A coroutine as its task sees it: a future that resumes it.
//!
//! The first poll starts it. Each later one polls what the coroutine waits for, on the thread's own
//! stack, and resumes the coroutine when that is ready; and goes on so while the coroutine suspends
//! itself before the first poll of what it waits for.
//!
//! U1. Between two polls the coroutine has not started, is suspended, or has ended.
//! U2. The task is pinned to its thread with the first poll (`sched/src/thread_queue.rs`), and from
//!     then on polled and dropped there only. It is not closed by others, nor cancelled by its
//!     scheduler: when somebody asks for its end it is polled (`task/src/state.rs`, S6),
//!     unwinds, and then lets the cancellation take effect. So it is never dropped while it is
//!     suspended.

use std::cell::Cell;
use std::future::Future;
use std::mem::{self, ManuallyDrop};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::ptr::{NonNull, null};
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};

use blitzen_stack::{Fiber, FiberInfo, FiberState, HAS_OWN_THREAD, Suspender};
use blitzen_task::current;
use blitzen_util::quiet::quietly;
use blitzen_util::wait;

use super::inside::{CancelPayload, Inside, Progress, Resume, Resumer, set_current};
use super::thread_state::{KeptThreadState, ThreadState};
use crate::runtime::context::{self, KeptContext, OuterContext};
use crate::runtime::{self, Handle};

/// A future that runs a function on a stack of its own. It is small, since a spawn moves it: all
/// else is on that stack, in an [`Inside`].
pub(super) enum FiberFuture<F, T: 'static> {
    New { function: F, stack_size: usize },
    Started(Started<T>),
    Ended,
}

/// A coroutine that has started, and not ended.
pub(super) struct Started<T: 'static> {
    fiber: Fiber<(), (), thread::Result<T>>,
    /// On the stack of the coroutine.
    inside: NonNull<Inside>,
}

// SAFETY: before its first poll it holds `F`, which is `Send`; after that it stays on its thread
// (U2).
unsafe impl<F: Send, T: Send + 'static> Send for FiberFuture<F, T> {}

/// The result of running a coroutine as far as it gets; `None` if it is suspended.
type Returned<T> = Option<thread::Result<T>>;

impl<F, T> FiberFuture<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    #[inline]
    pub(super) fn new(function: F, stack_size: usize) -> Self {
        Self::New {
            function,
            stack_size,
        }
    }

    /// Gives the function its stack, and runs it as far as it gets.
    #[inline(never)]
    fn start(&mut self, cx: &mut Context<'_>) -> Returned<T> {
        if current::is_cancel_requested() {
            current::end_unwinding();
            return None; // the end of the poll cancels it
        }
        let Self::New {
            function,
            stack_size,
        } = mem::replace(self, Self::Ended)
        else {
            unreachable!("starts once");
        };
        let resumer = Resumer::new(cx);
        let started = Cell::new(null::<Inside>());
        let place = &raw const started;
        let own_thread = HAS_OWN_THREAD.then(|| Box::new(OwnThread::new()));
        let body = move |suspender: &Suspender<(), ()>, ()| {
            // Nothing is left in it when the function ends: what is put there while it is suspended
            // is taken out when it goes on.
            let inside = ManuallyDrop::new(Inside::new(suspender, resumer));
            let run = || {
                // SAFETY: it lives until the coroutine is first suspended, or has ended.
                unsafe { &*place }.set(&*inside);
                set_current(&*inside);
                let result = catch_unwind(AssertUnwindSafe(function));
                set_current(null());
                result
            };
            if HAS_OWN_THREAD {
                // SAFETY: the task lives until the coroutine has ended (U2).
                let _context = own_thread.as_ref().map(|thread| unsafe { thread.enter() });
                return run();
            }
            mem::forget(own_thread); // there is none
            run()
        };
        let mut fiber = match Fiber::new(fiber_info(stack_size), body) {
            Ok(fiber) => fiber,
            Err(error) => {
                return Some(Err(Box::new(format!("no stack for a coroutine: {error}"))));
            }
        };
        let outer = Outer::install(&KeptThreadState::default(), KeptContext::default());
        // SAFETY: U2: it has never been resumed.
        let state = unsafe { fiber.resume(()) };
        resumer.set_outer_current();
        match state {
            FiberState::Returned(result) => {
                outer.restore(None);
                Some(result)
            }
            FiberState::Suspended(()) => {
                let inside = NonNull::new(started.get().cast_mut()).expect("it has started");
                // SAFETY: on the stack of the coroutine, which is suspended: for the first time, so
                // that what it waits for was polled.
                suspended(unsafe { inside.as_ref() }, outer, cx);
                *self = Self::Started(Started { fiber, inside });
                None
            }
        }
    }
}

impl<T> Started<T> {
    /// Runs the coroutine, which is suspended, as far as it gets. Inlined, as `poll` is: the
    /// processor mispredicts every return after a switch of stacks.
    #[inline(always)]
    fn advance(&mut self, cx: &mut Context<'_>) -> Returned<T> {
        // SAFETY: on the stack of the coroutine, which is suspended.
        let inside = unsafe { self.inside.as_ref() };
        let outer = Outer::install(&inside.thread_state, inside.context.take());
        loop {
            // SAFETY: it is suspended.
            let poll = || unsafe { inside.poll_suspended(cx) };
            match catch_unwind(AssertUnwindSafe(poll)) {
                Ok(Progress::Waits) => {
                    outer.restore(Some(inside));
                    return None;
                }
                Ok(Progress::Ready) => {}
                Ok(Progress::Cancelled) => inside.set_resume(Resume::Cancelled),
                Err(payload) => inside.set_resume(Resume::Panicked(payload)),
            }
            let resumer = Resumer::new(cx);
            inside.set_resumer(resumer);
            set_current(inside);
            // SAFETY: U2; it has not returned: that ends the stage.
            let state = unsafe { self.fiber.resume(()) };
            resumer.set_outer_current();
            match state {
                FiberState::Suspended(()) if inside.is_unpolled() => {}
                FiberState::Suspended(()) => {
                    suspended(inside, outer, cx);
                    return None;
                }
                FiberState::Returned(result) => {
                    outer.restore(None); // what is inside is gone
                    return Some(result);
                }
            }
        }
    }
}

/// Ends a poll in which the coroutine was suspended.
#[inline]
fn suspended(inside: &Inside, outer: Outer, cx: &mut Context<'_>) {
    outer.restore(Some(inside));
    if inside.waits_for_turn() {
        debug_assert!(current::is_own_waker(cx.waker()), "its task polls it");
        wait::request_yield();
    }
}

/// What the thread had before a coroutine's state was installed. Nothing panics in between.
struct Outer {
    /// `None` if it is the default one, as nearly always.
    thread_state: Option<Box<ThreadState>>,
    context: OuterContext,
}

impl Outer {
    /// Installs what a coroutine has; returns what the thread had.
    #[inline]
    fn install(thread_state: &KeptThreadState, context: KeptContext) -> Self {
        Self {
            context: context.install(),
            thread_state: ThreadState::install_from(thread_state),
        }
    }

    /// Takes what the coroutine has, which is suspended or has ended, and restores this.
    #[inline]
    fn restore(self, inside: Option<&Inside>) {
        let place = inside.map(|inside| &inside.thread_state);
        ThreadState::put_away_into(self.thread_state, place);
        if let Some(context) = KeptContext::put_away(self.context) {
            match inside {
                Some(inside) => inside.context.set(context),
                // A runtime that the function has entered and not left.
                None => quietly(|| drop(context)),
            }
        }
    }
}

/// Whose stack it is: what the task that is polled was spawned with.
#[inline]
fn fiber_info(stack_size: usize) -> FiberInfo {
    let info = current::with_spawn_meta(|_, meta| FiberInfo {
        // SAFETY: only the lifetime changes: the task, which has the name, lives until the
        // coroutine has ended (U2).
        name: unsafe { mem::transmute::<Option<&str>, Option<&'static str>>(meta.name()) },
        spawned_at: meta.location(),
        stack_size,
    });
    info.expect("a coroutine is polled by its task")
}

/// What a coroutine that runs on a thread of its own needs there.
struct OwnThread {
    runtime: Handle,
    task: Option<current::CurrentTask>,
    resumer: ThreadId,
}

impl OwnThread {
    fn new() -> Self {
        Self {
            runtime: Handle::current(),
            task: current::CurrentTask::get(),
            resumer: thread::current().id(),
        }
    }

    /// Makes the thread one that runs the task.
    ///
    /// # Safety
    /// The task lives until what this returns is dropped.
    unsafe fn enter(&self) -> impl Sized {
        runtime::set_resumer(self.resumer);
        (
            context::enter(&self.runtime),
            context::defer_here(),
            blitzen_util::entered::enter(),
            self.runtime.inner.scheduler().mark_thread(),
            // SAFETY: handed on.
            self.task.map(|task| unsafe { task.enter() }),
        )
    }
}

impl<F, T> Future for FiberFuture<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    type Output = T;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // SAFETY: nothing is moved out but the function, before it runs, and the fiber, which need
        // not stay where it is.
        let this = unsafe { self.get_unchecked_mut() };
        let returned = match this {
            Self::Started(started) => started.advance(cx),
            Self::New { .. } => this.start(cx),
            Self::Ended => unreachable!("a coroutine that has ended is not polled"),
        };
        let Some(result) = returned else {
            return Poll::Pending;
        };
        *this = Self::Ended; // its stack is for the next one
        match result {
            Ok(output) => Poll::Ready(output),
            Err(payload) if payload.is::<CancelPayload>() && current::is_cancel_requested() => {
                current::end_unwinding();
                wait::forget_holds(); // by scopes that were on its stack
                Poll::Pending // the end of the poll cancels it
            }
            Err(payload) => resume_unwind(payload),
        }
    }
}
