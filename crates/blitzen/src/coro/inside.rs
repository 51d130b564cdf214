//! A coroutine as the code on its stack sees it.

use std::cell::Cell;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::ptr::{NonNull, null};
use std::task::{Context, Poll};
use std::thread;

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

/// What a suspended coroutine waits for: the head of a [`Waiting`] on its stack, which stays there
/// until the next resume.
pub(super) struct Suspension {
    /// Polls the future; returns whether it is ready, or has panicked.
    poll: unsafe fn(NonNull<Suspension>, &mut Context<'_>) -> bool,
    /// Whether the coroutine must not be unwound here.
    pub(super) is_shielded: bool,
}

impl Suspension {
    /// Polls the future that the coroutine waits for; returns whether it is ready, or has panicked.
    ///
    /// # Safety
    /// The coroutine is suspended with `this`.
    #[inline]
    pub(super) unsafe fn poll(this: NonNull<Self>, cx: &mut Context<'_>) -> bool {
        // SAFETY: as the caller guarantees; the function is that of the whole `Waiting`.
        unsafe { (this.as_ref().poll)(this, cx) }
    }
}

/// A coroutine that runs, on its own stack.
pub(super) struct Inside {
    suspender: NonNull<Suspender<Resume, NonNull<Suspension>>>,
    shields: Cell<u32>,
}

/// The payload of the panic that unwinds a cancelled coroutine.
pub(super) struct CancelPayload;

/// The coroutine that the calling code is in.
#[inline]
pub(super) fn current<'a>() -> Option<&'a Inside> {
    // SAFETY: it lives at the base of the stack that the caller is on.
    unsafe { CURRENT.get().as_ref() }
}

/// Panics where a coroutine cannot be suspended.
#[inline]
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
        Self(replace_current(null()), PhantomData)
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl Inside {
    pub(super) fn new(suspender: &Suspender<Resume, NonNull<Suspension>>) -> Self {
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
            suspension: Suspension {
                poll: Waiting::<F>::poll,
                is_shielded: self.shields.get() > 0,
            },
            future: Some(future),
            output: None,
        };
        let erased = NonNull::from(&mut waiting).cast::<Suspension>();
        // SAFETY: `self` lives in the function that the suspender was lent to.
        let resume = unsafe { self.suspender.as_ref() }.suspend(erased);
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

/// A future on the stack of a coroutine, which is polled from outside. `repr(C)`: a pointer to the
/// suspension is a pointer to the whole.
#[repr(C)]
struct Waiting<F: Future> {
    suspension: Suspension,
    /// Pinned, since the coroutine does not leave it before it is `None`.
    future: Option<F>,
    output: Option<thread::Result<F::Output>>,
}

impl<F: Future> Waiting<F> {
    /// Polls the future; returns whether it is ready, or has panicked.
    ///
    /// # Safety
    /// `this` is the head of a `Waiting<F>`, and the coroutine is suspended with it.
    unsafe fn poll(this: NonNull<Suspension>, cx: &mut Context<'_>) -> bool {
        // SAFETY: as the caller guarantees. The coroutine does not touch it while it is suspended.
        let this = unsafe { this.cast::<Self>().as_mut() };
        let Some(future) = &mut this.future else {
            unreachable!("a future that is ready is not polled");
        };
        // SAFETY: it does not move until it is dropped.
        let future = unsafe { Pin::new_unchecked(future) };
        this.output = match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(Poll::Pending) => return false,
            Ok(Poll::Ready(output)) => Some(Ok(output)),
            Err(payload) => Some(Err(payload)),
        };
        true
    }
}
