//! Deferred cancellation: while a shield is up, an abort waits.

use std::fmt;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};
use std::thread;

use crate::context::{self, FrameValue};
use crate::current;
use crate::header::Header;
use crate::raw;
use crate::state::Wake;
use blitzen_util::quiet::{catch, quietly};

/// Returns a future that runs `future` to its end even if the task is aborted meanwhile.
///
/// The abort takes effect where the task next waits after the outermost shield has ended.
/// Outside a task the future runs as it is. A runtime that shuts down does not wait for
/// shields.
///
/// # Examples
///
/// ```
/// use blitzen::channel::oneshot;
/// use blitzen::task;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let (started, starting) = oneshot::channel();
/// let (finish, finishing) = oneshot::channel();
/// let handle = task::spawn(async {
///     task::shield(async {
///         started.send(()).unwrap();
///         finishing.await.unwrap(); // not cut in half
///     })
///     .await;
///     std::future::pending::<()>().await
/// });
/// starting.await.unwrap();
/// handle.abort();
/// finish.send(()).unwrap(); // somebody still receives it
/// assert!(handle.await.unwrap_err().is_cancelled());
/// # });
/// ```
///
/// # Cancel safety
///
/// Dropping the returned future drops `future`, and lets a deferred abort through.
///
/// # Panics
///
/// The returned future panics when it is first polled under 255 other shields of its task.
pub fn shield<F: Future>(future: F) -> Shield<F> {
    Shield {
        // The guard is declared before the future in the struct, yet dropped
        // explicitly after it: see `Drop`.
        guard: ShieldGuard::Down,
        future: Some(future),
    }
}

/// The future that [`shield`] returns.
///
/// # Examples
///
/// ```
/// use blitzen::task::{Shield, shield};
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let shielded: Shield<_> = shield(async { 5 });
/// assert_eq!(shielded.await, 5);
/// # });
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct Shield<F> {
    guard: ShieldGuard,
    /// `None` once it has ended.
    future: Option<F>,
}

/// One level of shield on a task.
enum ShieldGuard {
    /// Not polled yet, or ended.
    Down,
    /// Polled outside a task.
    Nowhere,
    /// Holds a reference.
    Up(NonNull<Header>),
}

// SAFETY: the guard reaches only the header, which is made for any thread.
unsafe impl Send for ShieldGuard {}
// SAFETY: as above.
unsafe impl Sync for ShieldGuard {}

impl ShieldGuard {
    #[track_caller]
    fn raise(&mut self) {
        let current = current::task();
        if let Some(task) = current {
            // SAFETY: the current task is alive.
            let state = unsafe { &task.as_ref().state };
            state.raise_shield(); // it may panic: before anything is counted
            state.reference();
            *self = Self::Up(task);
        } else {
            *self = Self::Nowhere;
        }
        current::count_shield(current, 1);
    }

    fn lower(&mut self) {
        let task = match std::mem::replace(self, Self::Down) {
            Self::Down => return,
            Self::Nowhere => return current::count_shield(None, -1),
            Self::Up(task) => task,
        };
        current::count_shield(Some(task), -1);
        // SAFETY: the guard's reference.
        let wake = unsafe { task.as_ref().state.lower_shield() };
        let panic = match wake {
            Wake::Nothing => None,
            // SAFETY: alive by the reference.
            wake => catch(|| unsafe { raw::enqueue(task, wake) }),
        };
        // SAFETY: the guard's reference, used no more.
        unsafe { raw::release(task) };
        match panic {
            // A set of local tasks has called its user's waker. A second panic
            // while the first unwinds would end the process.
            Some(payload) if thread::panicking() => quietly(|| drop(payload)),
            Some(payload) => resume_unwind(payload),
            None => {}
        }
    }
}

impl<F: Future> Future for Shield<F> {
    type Output = F::Output;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is pinned with the shield: it is only dropped in
        // place, by assigning `None`; the guard is not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        let Some(future) = &mut this.future else {
            panic!("`Shield` polled after completion");
        };
        if matches!(this.guard, ShieldGuard::Down) {
            this.guard.raise();
        }
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(future) };
        match context::with_frame(FrameValue::Shield, || future.poll(cx)) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(output) => {
                this.future = None;
                this.guard.lower();
                Poll::Ready(output)
            }
        }
    }
}

impl<F> Drop for Shield<F> {
    fn drop(&mut self) {
        // The level goes even if the future's destructor panics.
        struct Lower<'a>(&'a mut ShieldGuard);
        impl Drop for Lower<'_> {
            fn drop(&mut self) {
                self.0.lower();
            }
        }
        let _lower = Lower(&mut self.guard);
        // In place, as pinning demands. Its destructor is shielded as its polls were.
        context::with_frame(FrameValue::Shield, || self.future = None);
    }
}

impl<F> fmt::Debug for Shield<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shield")
            .field("up", &matches!(self.guard, ShieldGuard::Up(_)))
            .finish_non_exhaustive()
    }
}
