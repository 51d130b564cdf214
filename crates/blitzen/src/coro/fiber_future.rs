//! A coroutine as its task sees it: a future that resumes it.
//!
//! Each poll polls what the coroutine waits for, on the thread's own stack, and resumes the
//! coroutine when that is ready.
//!
//! U1. Between two polls the coroutine has not started, is suspended, or has ended.
//! U2. The task is pinned to its thread with the first poll (`sched/src/thread_queue.rs`), and from
//!     then on polled and dropped there only. It is not closed by others, nor cancelled by its
//!     scheduler: when somebody asks for its end it is polled (`task/src/state.rs`, S4),
//!     unwinds, and then lets the cancellation take effect. So it is never dropped while it is
//!     suspended.

use std::any::Any;
use std::cell::UnsafeCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::ptr::null;
use std::task::{Context, Poll};
use std::thread;

use blitzen_stack::{Fiber, FiberInfo, HAS_OWN_THREAD, Suspender};
use blitzen_task::current;

use super::inside::{CancelPayload, Inside, Resume, Suspension, replace_current};
use super::thread_state::ThreadState;
use crate::runtime::Handle;
use crate::runtime::context::{self, KeptContext};

/// A future that runs a function on a stack of its own.
pub(super) struct FiberFuture<F, T> {
    stage: Stage<F>,
    /// What the coroutine waits for, if it is suspended.
    suspension: Option<Suspension>,
    /// What the function returned or panicked with. The function writes it.
    output: UnsafeCell<Option<thread::Result<T>>>,
    /// The coroutine in its own eyes; null before it has started.
    inside: *const Inside,
    thread_state: ThreadState,
    context: KeptContext,
}

enum Stage<F> {
    New(F, FiberInfo),
    Started(Fiber<Resume, Suspension>),
    Ended,
}

// SAFETY: before its first poll it holds `F`, which is `Send`; after that it stays on its thread
// (U2).
unsafe impl<F: Send, T: Send> Send for FiberFuture<F, T> {}

impl<F, T> FiberFuture<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    pub(super) fn new(f: F, info: FiberInfo) -> Self {
        Self {
            stage: Stage::New(f, info),
            suspension: None,
            output: UnsafeCell::new(None),
            inside: null(),
            thread_state: ThreadState::default(),
            context: KeptContext::default(),
        }
    }

    /// Gives the function its stack.
    fn start(&mut self) -> Result<(), Box<dyn Any + Send>> {
        let Stage::New(f, info) = std::mem::replace(&mut self.stage, Stage::Ended) else {
            unreachable!("starts once");
        };
        let output = self.output.get();
        let own_thread = HAS_OWN_THREAD.then(OwnThread::new);
        let body = move |suspender: &Suspender<Resume, Suspension>, _: Resume| {
            // SAFETY: the task lives until the coroutine has ended (U2).
            let _context = own_thread.as_ref().map(|thread| unsafe { thread.enter() });
            let inside = Inside::new(suspender);
            replace_current(&inside);
            let result = catch_unwind(AssertUnwindSafe(f));
            replace_current(null());
            // SAFETY: the future is pinned, and neither dropped (U2) nor reached by others while
            // it resumes the coroutine.
            unsafe { *output = Some(result) };
        };
        match Fiber::new(info, body) {
            Ok(fiber) => {
                self.stage = Stage::Started(fiber);
                Ok(())
            }
            Err(error) => Err(Box::new(format!("no stack for a coroutine: {error}"))),
        }
    }

    /// Resumes the coroutine until it suspends again; `None` when it has ended.
    fn resume(&mut self, resume: Resume) -> Option<Suspension> {
        let Stage::Started(fiber) = &mut self.stage else {
            unreachable!("started");
        };
        let outer = replace_current(self.inside);
        // SAFETY: U2; it has not returned: that ends the stage.
        let said = unsafe { fiber.resume(resume) };
        self.inside = replace_current(outer);
        if said.is_none() {
            self.stage = Stage::Ended; // its stack is for the next one
        }
        said
    }

    /// Runs the coroutine as far as it gets.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<thread::Result<T>> {
        let mut resume = Resume::Ready;
        match self.suspension.take() {
            None => {
                if current::is_closing() {
                    return Poll::Pending; // the end of the poll cancels it
                }
                current::start_unwinding_itself();
                if let Err(payload) = self.start() {
                    return Poll::Ready(Err(payload));
                }
            }
            Some(mut suspension) => match next_resume(&mut suspension, cx) {
                Some(next) => resume = next,
                None => {
                    self.suspension = Some(suspension);
                    return Poll::Pending;
                }
            },
        }
        loop {
            match self.resume(resume) {
                None => {
                    let output = self.output.get_mut().take();
                    return Poll::Ready(output.expect("written before the function returns"));
                }
                Some(mut suspension) => match next_resume(&mut suspension, cx) {
                    Some(next) => resume = next,
                    None => {
                        self.suspension = Some(suspension);
                        return Poll::Pending;
                    }
                },
            }
        }
    }
}

/// What a coroutine that runs on a thread of its own needs there.
struct OwnThread {
    runtime: Handle,
    task: Option<current::CurrentTask>,
}

impl OwnThread {
    fn new() -> Self {
        Self {
            runtime: Handle::current(),
            task: current::CurrentTask::get(),
        }
    }

    /// Makes the thread one that runs the task.
    ///
    /// # Safety
    /// The task lives until what this returns is dropped.
    unsafe fn enter(&self) -> impl Sized {
        (
            context::enter(&self.runtime),
            context::defer_here(),
            blitzen_util::entered::enter(),
            // SAFETY: handed on.
            self.task.map(|task| unsafe { task.enter() }),
        )
    }
}

/// How to resume a coroutine that is suspended; `None` if it has to wait.
fn next_resume(suspension: &mut Suspension, cx: &mut Context<'_>) -> Option<Resume> {
    // Without unwinding there is no way to end a coroutine but its own.
    let can_unwind = cfg!(panic = "unwind") && !suspension.is_shielded;
    let must_unwind = || can_unwind && current::is_cancel_due();
    if must_unwind() {
        return Some(Resume::Cancel);
    }
    // SAFETY: on the stack of the coroutine, which is suspended.
    if unsafe { suspension.waiting.as_mut() }.poll(cx) {
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
        let mut context = std::mem::take(&mut this.context);
        let advanced = context.poll_inside(|| {
            let outer = this.thread_state.install();
            let advanced = this.advance(cx);
            this.thread_state.put_away(outer);
            advanced
        });
        this.context = context;
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
