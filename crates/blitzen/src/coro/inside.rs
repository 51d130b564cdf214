//! A coroutine as the code on its stack sees it.

use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::ptr::{NonNull, null};
use std::task::{Context, Poll};

use blitzen_stack::Suspender;

use super::thread_state;

thread_local! {
    /// The coroutine whose stack this thread is on, unless something in between must not be
    /// suspended with it.
    static CURRENT: Cell<*const Inside> = const { Cell::new(null()) };
}

/// How a coroutine is resumed.
pub(super) enum Resume {
    /// It starts, or the future that it waits for is ready.
    Ready,
    /// It is cancelled, and has to unwind.
    Cancel,
}

/// What a coroutine says when it suspends.
pub(super) struct Suspension {
    /// The future that it waits for, on its stack. It stays there until the next resume.
    pub(super) waiting: NonNull<dyn PollWaiting>,
    /// Whether it must not be unwound here.
    pub(super) is_shielded: bool,
}

/// A coroutine that runs, on its own stack.
pub(super) struct Inside {
    suspender: NonNull<Suspender<Resume, Suspension>>,
    shields: Cell<u32>,
}

/// The payload of the panic that unwinds a cancelled coroutine.
pub(super) struct CancelPayload;

/// The coroutine that the calling code is in.
pub(super) fn current<'a>() -> Option<&'a Inside> {
    // A thread that is ending is in none.
    let inside = CURRENT.try_with(Cell::get).unwrap_or(null());
    // SAFETY: it lives at the base of the stack that the caller is on.
    unsafe { inside.as_ref() }
}

/// Panics where a coroutine cannot be suspended.
#[track_caller]
pub(super) fn assert_can_suspend() {
    assert!(
        thread_state::can_suspend(),
        "a coroutine cannot be suspended inside `LocalKey::with`"
    );
}

/// Sets the coroutine that the thread is in; returns the one before.
#[inline]
pub(super) fn replace_current(inside: *const Inside) -> *const Inside {
    CURRENT.replace(inside)
}

/// Marks the code until the guard is dropped as outside of any coroutine: it must not be
/// suspended.
pub(crate) struct Outside(*const Inside, PhantomData<*const ()>);

impl Outside {
    pub(crate) fn enter() -> Self {
        let before = CURRENT.try_with(|current| current.replace(null()));
        Self(before.unwrap_or(null()), PhantomData)
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = CURRENT.try_with(|current| current.set(self.0));
    }
}

impl Inside {
    pub(super) fn new(suspender: &Suspender<Resume, Suspension>) -> Self {
        Self {
            suspender: NonNull::from(suspender),
            shields: Cell::new(0),
        }
    }

    /// Suspends the coroutine until `future` is ready.
    #[track_caller]
    pub(super) fn wait<F: Future>(&self, future: F) -> F::Output {
        assert_can_suspend();
        let mut waiting = Waiting {
            future: Some(future),
            output: None,
        };
        let erased: *mut (dyn PollWaiting + '_) = &mut waiting;
        let suspension = Suspension {
            // SAFETY: not null. The lifetime is forgotten: the pointer is used only until the
            // coroutine is resumed, and `waiting` is not left before.
            waiting: unsafe {
                NonNull::new_unchecked(std::mem::transmute::<
                    *mut (dyn PollWaiting + '_),
                    *mut (dyn PollWaiting + 'static),
                >(erased))
            },
            is_shielded: self.shields.get() > 0,
        };
        // SAFETY: `self` lives in the function that the suspender was lent to.
        let resume = unsafe { self.suspender.as_ref() }.suspend(suspension);
        match (resume, waiting.output.take()) {
            (Resume::Ready, Some(Ok(output))) => output,
            (Resume::Ready, Some(Err(payload))) => resume_unwind(payload),
            (Resume::Ready, None) => unreachable!("resumed only when the future is ready"),
            (Resume::Cancel, _) => {
                // Before the panic, so that its destructor may panic too. In place: it is
                // pinned.
                waiting.future = None;
                resume_unwind(Box::new(CancelPayload));
            }
        }
    }

    /// Whether an abort takes effect where the coroutine next waits.
    pub(super) fn can_cancel(&self) -> bool {
        cfg!(panic = "unwind") && self.shields.get() == 0
    }

    pub(super) fn raise_shield(&self) -> ShieldLevel<'_> {
        let deeper = self.shields.get().checked_add(1);
        self.shields
            .set(deeper.expect("shields are nested too deep"));
        ShieldLevel(self)
    }
}

/// One level of shield of a coroutine.
pub(super) struct ShieldLevel<'a>(&'a Inside);

impl Drop for ShieldLevel<'_> {
    fn drop(&mut self) {
        self.0.shields.set(self.0.shields.get() - 1);
    }
}

/// A future on the stack of a coroutine, which is polled from outside.
struct Waiting<F: Future> {
    /// Pinned, since the coroutine does not leave it before it is `None`.
    future: Option<F>,
    output: Option<Result<F::Output, Box<dyn Any + Send>>>,
}

/// What a suspended coroutine waits for.
pub(super) trait PollWaiting {
    /// Polls the future; returns whether it is ready, or has panicked.
    fn poll(&mut self, cx: &mut Context<'_>) -> bool;
}

impl<F: Future> PollWaiting for Waiting<F> {
    fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let Some(future) = &mut self.future else {
                unreachable!("a future that is ready is not polled");
            };
            // SAFETY: it does not move until it is dropped.
            unsafe { Pin::new_unchecked(future) }.poll(cx)
        }));
        self.output = match polled {
            Ok(Poll::Pending) => return false,
            Ok(Poll::Ready(output)) => Some(Ok(output)),
            Err(payload) => Some(Err(payload)),
        };
        true
    }
}
