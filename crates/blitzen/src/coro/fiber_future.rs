//! A coroutine as its task sees it: a future that resumes it.
//!
//! Each poll polls what the coroutine waits for, on the thread's own stack, and resumes the
//! coroutine when that is ready.
//!
//! U1. Between two polls the coroutine has not started, is suspended, or has ended.
//! U2. The task is pinned to its thread with the first poll (`sched/src/thread_queue.rs`), and from
//!     then on polled and dropped there only. It is not closed by others, nor cancelled by its
//!     scheduler: when somebody asks for its end it is polled (`task/src/state.rs`, S6),
//!     unwinds, and then lets the cancellation take effect. So it is never dropped while it is
//!     suspended.

use std::any::Any;
use std::future::Future;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::ptr::{NonNull, null};
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};

use blitzen_stack::{Fiber, FiberInfo, FiberState, HAS_OWN_THREAD, Suspender};
use blitzen_task::current;

use super::inside::{CancelPayload, Inside, Resume, Suspension, replace_current};
use super::thread_state::ThreadState;
use crate::runtime::context::{self, KeptContext};
use crate::runtime::{self, Handle};

/// A future that runs a function on a stack of its own.
pub(super) struct FiberFuture<F, T: 'static> {
    stage: Stage<F, T>,
    /// What the coroutine waits for, if it is suspended.
    suspension: Option<NonNull<Suspension>>,
    /// The coroutine in its own eyes; null before it has started.
    inside: *const Inside,
    thread_state: ThreadState,
    context: KeptContext,
}

enum Stage<F, T: 'static> {
    New { function: F, stack_size: usize },
    Started(Fiber<Resume, NonNull<Suspension>, thread::Result<T>>),
    Ended,
}

// SAFETY: before its first poll it holds `F`, which is `Send`; after that it stays on its thread
// (U2).
unsafe impl<F: Send, T: Send + 'static> Send for FiberFuture<F, T> {}

impl<F, T> FiberFuture<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    #[inline]
    pub(super) fn new(function: F, stack_size: usize) -> Self {
        Self {
            stage: Stage::New {
                function,
                stack_size,
            },
            suspension: None,
            inside: null(),
            thread_state: ThreadState::new(),
            context: KeptContext::default(),
        }
    }

    /// Gives the function its stack.
    fn start(&mut self) -> Result<(), Box<dyn Any + Send>> {
        let Stage::New {
            function,
            stack_size,
        } = mem::replace(&mut self.stage, Stage::Ended)
        else {
            unreachable!("starts once");
        };
        let own_thread = HAS_OWN_THREAD.then(OwnThread::new);
        let body = move |suspender: &Suspender<Resume, NonNull<Suspension>>, _: Resume| {
            // SAFETY: the task lives until the coroutine has ended (U2).
            let _context = own_thread.as_ref().map(|thread| unsafe { thread.enter() });
            let inside = Inside::new(suspender);
            replace_current(&inside);
            let result = catch_unwind(AssertUnwindSafe(function));
            replace_current(null());
            result
        };
        match Fiber::new(fiber_info(stack_size), body) {
            Ok(fiber) => {
                self.stage = Stage::Started(fiber);
                Ok(())
            }
            Err(error) => Err(Box::new(format!("no stack for a coroutine: {error}"))),
        }
    }

    /// Runs the coroutine as far as it gets.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<thread::Result<T>> {
        let mut resume = match self.suspension {
            None => {
                if current::is_closing() {
                    return Poll::Pending; // the end of the poll cancels it
                }
                current::start_unwinding_itself();
                if let Err(payload) = self.start() {
                    return Poll::Ready(Err(payload));
                }
                Resume::Ready
            }
            // SAFETY: the coroutine is suspended with it.
            Some(suspension) => match unsafe { next_resume(suspension, cx) } {
                Some(resume) => resume,
                None => return Poll::Pending,
            },
        };
        let Stage::Started(fiber) = &mut self.stage else {
            unreachable!("a coroutine that has ended is not polled");
        };
        let result = loop {
            let outer = replace_current(self.inside);
            // SAFETY: U2; it has not returned: that ends the stage.
            let state = unsafe { fiber.resume(resume) };
            self.inside = replace_current(outer);
            let suspension = match state {
                FiberState::Suspended(suspension) => suspension,
                FiberState::Returned(result) => break result,
            };
            // SAFETY: the coroutine is suspended with it.
            match unsafe { next_resume(suspension, cx) } {
                Some(next) => resume = next,
                None => {
                    self.suspension = Some(suspension);
                    return Poll::Pending;
                }
            }
        };
        self.suspension = None;
        self.stage = Stage::Ended; // its stack is for the next one
        Poll::Ready(result)
    }
}

/// Whose stack it is: what the task that is polled was spawned with.
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

/// How to resume a coroutine that is suspended; `None` if it has to wait.
///
/// # Safety
/// The coroutine is suspended with `suspension`.
#[inline]
unsafe fn next_resume(suspension: NonNull<Suspension>, cx: &mut Context<'_>) -> Option<Resume> {
    // Without unwinding there is no way to end a coroutine but its own.
    let must_unwind = || {
        cfg!(panic = "unwind")
            && current::is_cancel_due()
            // SAFETY: on the stack of the coroutine, which is suspended.
            && !unsafe { suspension.as_ref() }.is_shielded
    };
    if must_unwind() {
        return Some(Resume::Cancel);
    }
    // SAFETY: as the caller guarantees.
    if unsafe { Suspension::poll(suspension, cx) } {
        return Some(Resume::Ready);
    }
    // Again: the poll may have ended a `task::shield`.
    must_unwind().then_some(Resume::Cancel)
}

impl<F, T> Future for FiberFuture<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // SAFETY: nothing is moved out but the function, before it runs.
        let this = unsafe { self.get_unchecked_mut() };
        // Nothing from here to the other end panics.
        let depth = this.context.install();
        let outer = this.thread_state.install();
        let advanced = this.advance(cx);
        this.thread_state.put_away(outer);
        this.context.put_away(depth);
        match advanced {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(output)) => Poll::Ready(output),
            Poll::Ready(Err(payload))
                if payload.is::<CancelPayload>() && current::is_cancel_requested() =>
            {
                current::stop_unwinding_itself();
                Poll::Pending // the end of the poll cancels it
            }
            Poll::Ready(Err(payload)) => resume_unwind(payload),
        }
    }
}
