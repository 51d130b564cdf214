//! A coroutine as the code on its stack sees it.
//!
//! What it waits for is polled on the stack of whoever has resumed it, which is the thread's own or
//! that of a coroutine that blocks it. The task does that (`fiber_future.rs`), while the coroutine is
//! suspended; but for the first time the coroutine's stack calls over to there, which costs no switch
//! if the future is ready. If the last future was not, the next one is not expected to be, and the
//! coroutine is suspended at once.

use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::ptr::{NonNull, null};
use std::task::{Context, Poll};

use blitzen_stack::Suspender;
use blitzen_task::current;
use blitzen_util::wait;

use super::thread_state::{self, KeptThreadState};
use crate::runtime::context::KeptContext;

thread_local! {
    /// The coroutine whose stack this thread is on, unless something in between must not be
    /// suspended with it.
    static CURRENT: Cell<*const Inside> = const { Cell::new(null()) };
}

/// What a coroutine waits for: the head of a [`Waiting`] on its stack, which stays there until
/// the coroutine goes on.
pub(super) struct Suspension {
    /// Polls the future; returns whether it is ready.
    poll: unsafe fn(NonNull<Suspension>, &mut Context<'_>) -> bool,
}

/// Whether a coroutine goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Not yet.
    Waits,
    /// Yes: what it waits for is ready.
    Ready,
    /// Yes: it is cancelled, and has to unwind.
    Cancelled,
}

/// How a suspended coroutine is resumed.
#[derive(Default)]
pub(super) enum Resume {
    /// What it waits for is ready.
    #[default]
    Ready,
    /// It is cancelled, and has to unwind.
    Cancelled,
    /// The future that it waits for has panicked.
    Panicked(Box<dyn Any + Send>),
}

/// A coroutine that has started. It lies at the base of the coroutine's stack.
pub(super) struct Inside {
    suspender: NonNull<Suspender<(), ()>>,
    /// The poll that has resumed the coroutine.
    resumer: Cell<Resumer>,
    /// What the coroutine waits for; `None` if that is its next turn.
    suspension: Cell<Option<NonNull<Suspension>>>,
    /// Whether the last future was not ready in its first poll.
    expects_wait: Cell<bool>,
    /// Whether it is suspended before the first poll of what it waits for.
    is_unpolled: Cell<bool>,
    /// Whether `resume` was set, before it is resumed.
    has_resume: Cell<bool>,
    resume: Cell<Resume>,
    shields: Cell<u32>,
    /// What the coroutine has in thread-locals, while it is suspended.
    pub(super) thread_state: KeptThreadState,
    pub(super) context: Cell<KeptContext>,
}

/// What a poll lends the coroutine that it resumes, until it is suspended.
#[derive(Clone, Copy)]
pub(super) struct Resumer {
    context: NonNull<Context<'static>>,
    /// The coroutine that the thread was in.
    outer: *const Inside,
}

impl Resumer {
    /// What a poll with the context `cx` lends.
    #[inline]
    pub(super) fn new(cx: &mut Context<'_>) -> Self {
        Self {
            context: NonNull::from(cx).cast(),
            outer: CURRENT.get(),
        }
    }

    /// Notes that the thread is in the coroutine again that it was in before.
    #[inline]
    pub(super) fn set_outer_current(self) {
        CURRENT.set(self.outer);
    }
}

/// The payload of the panic that unwinds a cancelled coroutine.
pub(super) struct CancelPayload;

/// Unwinds a cancelled coroutine.
#[cold]
fn unwind() -> ! {
    resume_unwind(Box::new(CancelPayload));
}

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
        "a wait inside `LocalKey::with`: other coroutines of the thread may need the task-local \
         meanwhile. Take a copy of its value first."
    );
}

/// Sets the coroutine that the thread is in.
#[inline]
pub(super) fn set_current(inside: *const Inside) {
    CURRENT.set(inside);
}

/// Marks the code until the guard is dropped as outside of any coroutine: it must not be
/// suspended.
pub(crate) struct Outside(*const Inside, PhantomData<*const ()>);

impl Outside {
    pub(crate) fn enter() -> Self {
        Self::enter_outer(null())
    }

    /// Marks the code as inside of `outer`, another coroutine or none.
    #[inline]
    fn enter_outer(outer: *const Inside) -> Self {
        Self(CURRENT.replace(outer), PhantomData)
    }
}

impl Drop for Outside {
    #[inline]
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl Inside {
    /// A coroutine that starts, on whose stack the caller is.
    #[inline]
    pub(super) fn new(suspender: &Suspender<(), ()>, resumer: Resumer) -> Self {
        Self {
            suspender: NonNull::from(suspender),
            resumer: Cell::new(resumer),
            suspension: Cell::new(None),
            expects_wait: Cell::new(false),
            is_unpolled: Cell::new(false),
            has_resume: Cell::new(false),
            resume: Cell::default(),
            shields: Cell::new(0),
            thread_state: KeptThreadState::default(),
            context: Cell::default(),
        }
    }

    #[inline]
    fn suspender(&self) -> &Suspender<(), ()> {
        // SAFETY: `self` lives in the function that the suspender was lent to.
        unsafe { self.suspender.as_ref() }
    }

    /// Notes which poll resumes the coroutine.
    #[inline]
    pub(super) fn set_resumer(&self, resumer: Resumer) {
        self.resumer.set(resumer);
    }

    /// Sets how the coroutine, which is suspended, is resumed, unless what it waits for is ready.
    pub(super) fn set_resume(&self, resume: Resume) {
        self.has_resume.set(true);
        self.resume.set(resume);
    }

    /// Suspends the coroutine; returns how it was resumed.
    #[inline]
    fn suspend(&self) -> Resume {
        self.suspender().suspend(());
        match self.has_resume.replace(false) {
            true => self.resume.take(),
            false => Resume::Ready,
        }
    }

    /// Whether the coroutine waits for its next turn, and nothing else.
    #[inline]
    pub(super) fn waits_for_turn(&self) -> bool {
        self.suspension.get().is_none()
    }

    /// Suspends the coroutine until `future` is ready.
    #[inline]
    #[track_caller]
    pub(super) fn wait<F: Future>(&self, future: F) -> F::Output {
        /// Drops the future where it is, since it is pinned.
        struct DropPinned<F>(*mut ManuallyDrop<F>);
        impl<F> Drop for DropPinned<F> {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: once, and nobody polls it again.
                unsafe { ManuallyDrop::drop(&mut *self.0) };
            }
        }
        assert_can_suspend();
        let mut waiting = Waiting {
            suspension: Suspension {
                poll: Waiting::<F>::poll,
            },
            future: ManuallyDrop::new(future),
            output: None,
        };
        let pinned: *mut Waiting<F> = &mut waiting;
        // SAFETY: `waiting` lives until the end of this function.
        let future = DropPinned(unsafe { &raw mut (*pinned).future });
        // SAFETY: not null, since it is that of a local.
        let suspension = unsafe { NonNull::new_unchecked(pinned) }.cast::<Suspension>();
        match self.wait_for(suspension) {
            // SAFETY: nobody else uses it any more.
            Resume::Ready => match unsafe { (*pinned).output.take() } {
                Some(output) => output,
                None => unreachable!("resumed only when the future is ready"),
            },
            // Before the panic, so that its destructor may panic too, and shielded, so that it may
            // wait.
            Resume::Cancelled => {
                let shielded = self.raise_shield();
                drop(future);
                drop(shielded);
                unwind();
            }
            Resume::Panicked(payload) => resume_unwind(payload),
        }
    }

    /// Suspends the coroutine until the future of `suspension`, which is on the caller's stack, is
    /// ready. A panic of its first poll goes on here, or is returned.
    #[inline]
    fn wait_for(&self, suspension: NonNull<Suspension>) -> Resume {
        self.suspension.set(Some(suspension));
        if self.expects_wait.get() {
            self.is_unpolled.set(true);
            return self.suspend();
        }
        let first_poll = || {
            let Resumer { mut context, outer } = self.resumer.get();
            let _outside = Outside::enter_outer(outer);
            // SAFETY: lent by the poll that has resumed the coroutine, until it is suspended. The
            // coroutine waits, and does not touch the suspension meanwhile.
            unsafe { self.poll_suspension(context.as_mut()) }
        };
        // SAFETY: the closure marks what it calls as outside of this coroutine.
        match unsafe { self.suspender().call_on_resumer(first_poll) } {
            Progress::Ready => Resume::Ready,
            Progress::Cancelled => Resume::Cancelled,
            Progress::Waits => {
                self.expects_wait.set(true);
                self.suspend()
            }
        }
    }

    /// Whether the coroutine, which is suspended, wants what it waits for to be polled at once.
    #[inline]
    pub(super) fn is_unpolled(&self) -> bool {
        self.is_unpolled.get()
    }

    /// Polls what the coroutine waits for, which is suspended, on the thread's stack.
    ///
    /// # Safety
    /// As for [`poll_suspension`](Self::poll_suspension).
    #[inline(always)]
    pub(super) unsafe fn poll_suspended(&self, cx: &mut Context<'_>) -> Progress {
        let is_first = self.is_unpolled.replace(false);
        // SAFETY: as the caller guarantees.
        let progress = unsafe { self.poll_suspension(cx) };
        if is_first && progress == Progress::Ready {
            self.expects_wait.set(false);
        }
        progress
    }

    /// Suspends the coroutine until others have had their turn. If it `may_unwind`, looks for an
    /// abort first.
    #[inline]
    pub(super) fn wait_for_turn(&self, may_unwind: bool) {
        self.suspension.set(None);
        let resume = match may_unwind && self.must_unwind() {
            true => Resume::Cancelled,
            false => self.suspend(),
        };
        if let Resume::Cancelled = resume {
            unwind();
        }
    }

    /// Polls what the coroutine waits for, on the thread's stack.
    ///
    /// # Safety
    /// The coroutine waits, and is in no other call of this function.
    #[inline]
    pub(super) unsafe fn poll_suspension(&self, cx: &mut Context<'_>) -> Progress {
        if self.must_unwind() {
            return Progress::Cancelled;
        }
        let Some(suspension) = self.suspension.get() else {
            return Progress::Ready;
        };
        // SAFETY: on the stack of the coroutine, which waits; the function is that of the whole
        // `Waiting`.
        if unsafe { (suspension.as_ref().poll)(suspension, cx) } {
            return Progress::Ready;
        }
        // The poll may have ended a `task::shield`, or a scope with children in it defers the abort.
        match self.must_unwind() && !wait::is_held() {
            true => Progress::Cancelled,
            false => Progress::Waits,
        }
    }

    /// Whether the coroutine has to unwind where it waits.
    #[inline]
    fn must_unwind(&self) -> bool {
        current::is_cancel_due() && self.can_cancel()
    }

    /// Whether an abort takes effect where the coroutine next waits. Without unwinding there is no
    /// way to end a coroutine but its own.
    #[inline]
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

/// A future on the stack of a coroutine, which is polled on the thread's. `repr(C)`: a pointer to
/// the suspension is a pointer to the whole.
#[repr(C)]
struct Waiting<F: Future> {
    suspension: Suspension,
    /// Pinned: it is dropped where it is.
    future: ManuallyDrop<F>,
    output: Option<F::Output>,
}

impl<F: Future> Waiting<F> {
    /// Polls the future; returns whether it is ready.
    ///
    /// # Safety
    /// `this` is the head of a `Waiting<F>`, for whose future the coroutine waits.
    unsafe fn poll(this: NonNull<Suspension>, cx: &mut Context<'_>) -> bool {
        // SAFETY: as the caller guarantees. The coroutine does not touch it while it waits.
        let this = unsafe { this.cast::<Self>().as_mut() };
        // SAFETY: it does not move until it is dropped.
        let future = unsafe { Pin::new_unchecked(&mut *this.future) };
        match future.poll(cx) {
            Poll::Pending => false,
            Poll::Ready(output) => {
                // SAFETY: a field of its own. There is no output yet that would have to be dropped.
                unsafe { (&raw mut this.output).write(Some(output)) };
                true
            }
        }
    }
}
