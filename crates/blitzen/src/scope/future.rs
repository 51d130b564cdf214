//! The future of a scope.

use std::fmt;
use std::future::Future;
use std::mem::needs_drop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use blitzen_task::current::{self, AbortStatus};
use blitzen_task::scope::ScopePhase;
use blitzen_util::quiet::{catch, quietly};
use blitzen_util::wait::{self, WaitKind};
use pin_project_lite::pin_project;

use super::Scope;
use super::context;
use super::driver::Driver;
use super::error::Stopped;
use super::scope_core::{self, Cause, Node, Settings};

pin_project! {
    /// The future of [`scope`](super::scope()) and [`ScopeBuilder::run`](super::ScopeBuilder::run).
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::scope::{ScopeFuture, Stopped, scope};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let future: ScopeFuture<_, _, i32, Stopped> = scope(|_| async { Ok(1) });
    /// assert_eq!(future.await, Ok(1));
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the body and cancels the children. They may still be running when the
    /// drop returns; the scope around this one waits for them.
    ///
    /// # Panics
    ///
    /// Polling it again after it has returned a result panics.
    #[must_use = "futures do nothing unless polled"]
    pub struct ScopeFuture<B, F, T, E> {
        #[pin]
        body: Body<B, F>,
        // `None` before the first poll, and after the last.
        driver: Option<Driver>,
        // What the body returned.
        outcome: Option<Result<T, E>>,
        // Shields that the body is under.
        body_shields: isize,
    }

    impl<B, F, T, E> PinnedDrop for ScopeFuture<B, F, T, E> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            let Some(driver) = this.driver.take() else {
                return;
            };
            driver.cancel(Cause::Stopped(Stopped::Cancelled));
            let rest = Rest {
                has_body: !matches!(*this.body, Body::Ended),
                driver: Some(driver),
            };
            let Some(driver) = &rest.driver else { return };
            context::inside(&driver.node, || this.body.set(Body::Ended));
        }
    }
}

pin_project! {
    #[project = BodyProjection]
    enum Body<B, F> {
        New { start: Option<(B, Option<Box<Settings>>)> },
        Running { #[pin] future: F },
        Ended,
    }
}

/// What is left to do when a scope is dropped, also if the body's destructor panics.
struct Rest {
    driver: Option<Driver>,
    has_body: bool,
}

impl Drop for Rest {
    fn drop(&mut self) {
        let Some(driver) = self.driver.take() else {
            return;
        };
        if self.has_body {
            driver.node.leave_body();
        }
        driver.hand_over();
    }
}

impl<B, F, T, E> ScopeFuture<B, F, T, E> {
    pub(super) fn new(body: B, settings: Option<Box<Settings>>) -> Self {
        Self {
            body: Body::New {
                start: Some((body, settings)),
            },
            driver: None,
            outcome: None,
            body_shields: 0,
        }
    }
}

impl<B, F, T, E> ScopeFuture<B, F, T, E>
where
    B: FnOnce(Scope<E>) -> F,
    F: Future<Output = Result<T, E>>,
{
    /// Opens the scope, at the first poll.
    #[inline]
    fn open(self: Pin<&mut Self>) {
        let this = self.project();
        if let BodyProjection::New { start } = this.body.project()
            && let Some((_, settings)) = start
            && this.driver.is_none()
        {
            *this.driver = Some(Driver::open(settings.take()));
        }
    }

    /// Starts or polls the body, or drops it if its time is over. Returns whether the scope has ended
    /// with it: then its driver is gone.
    fn poll_body(self: Pin<&mut Self>, cx: &mut Context<'_>) -> bool {
        let mut this = self.project();
        let Some(driver) = this.driver.as_ref() else {
            return false;
        };
        if let Body::Ended = *this.body {
            return false;
        }
        let node = &driver.node;
        if !(node.is_forced() && *this.body_shields == 0) {
            let body = &mut this.body;
            let poll = || context::inside(node, || poll_or_start(body.as_mut(), node, cx));
            let (polled, raised) = current::count_shields(|| catch_unwind(AssertUnwindSafe(poll)));
            *this.body_shields += raised;
            match polled {
                Ok(Poll::Pending) if node.is_forced() && *this.body_shields == 0 => {}
                Ok(Poll::Pending) => return false,
                Ok(Poll::Ready(outcome)) => {
                    if outcome.is_err() {
                        scope_core::cancel_or_count(node, Cause::Body);
                    }
                    *this.outcome = Some(outcome);
                }
                Err(payload) => scope_core::cancel_or_count(node, Cause::Panic(payload)),
            }
        }
        match needs_drop::<Body<B, F>>() {
            true => {
                let dropped = catch(|| context::inside(node, || this.body.set(Body::Ended)));
                if let Some(payload) = dropped {
                    scope_core::cancel_or_count(node, Cause::Panic(payload));
                }
            }
            false => this.body.set(Body::Ended),
        }
        let is_over = Driver::end_if_alone(this.driver);
        if let Some(driver) = this.driver {
            driver.node.leave_body();
        }
        is_over
    }
}

/// Polls the body of a scope, which starts with its first poll.
#[inline]
fn poll_or_start<B, F, T, E>(
    mut body: Pin<&mut Body<B, F>>,
    node: &Arc<Node>,
    cx: &mut Context<'_>,
) -> Poll<Result<T, E>>
where
    B: FnOnce(Scope<E>) -> F,
    F: Future<Output = Result<T, E>>,
{
    if let BodyProjection::New { start } = body.as_mut().project()
        && let Some((function, _)) = start.take()
    {
        let future = function(Scope::new(node.clone()));
        body.set(Body::Running { future });
    }
    match body.project() {
        BodyProjection::Running { future } => future.poll(cx),
        BodyProjection::New { .. } | BodyProjection::Ended => {
            unreachable!("a body that has ended is not polled")
        }
    }
}

impl<B, F, T, E> Future for ScopeFuture<B, F, T, E>
where
    B: FnOnce(Scope<E>) -> F,
    F: Future<Output = Result<T, E>>,
    E: From<Stopped> + Send + 'static,
{
    type Output = Result<T, E>;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, E>> {
        self.as_mut().open();
        let Some(driver) = self.as_mut().project().driver else {
            panic!("`ScopeFuture` polled after completion");
        };
        let status = current::abort_status(cx.waker());
        let is_marked = status.is_some_and(|status| status != AbortStatus::None);
        // Seldom needed, so not looked up for nothing.
        let around = is_marked.then(|| context::surroundings(&driver.node));
        let is_aborted = around.is_some_and(|around| !around.is_shielded);
        let reacts = around.is_some_and(|around| around.is_outermost_cancelled.is_none());
        if is_aborted && reacts {
            driver.cancel(Cause::Stopped(Stopped::Cancelled));
        }
        driver.poll_times(cx);
        if self.as_mut().poll_body(cx)
            && let Some(outcome) = self.as_mut().project().outcome.take()
        {
            return Poll::Ready(outcome);
        }
        loop {
            let this = self.as_mut().project();
            let Some(driver) = this.driver else {
                unreachable!("nothing above takes it");
            };
            let view = driver.poll_view(cx);
            if view.has_ended() {
                break;
            }
            let has_body = !matches!(*this.body, Body::Ended);
            if has_body && view.phase() == ScopePhase::Forced && *this.body_shields == 0 {
                self.as_mut().poll_body(cx); // which drops it
                continue;
            }
            if status.is_some() && (view.has_others() || driver.node.owner().has_grace()) {
                let around = around.unwrap_or_else(|| context::surroundings(&driver.node));
                let is_heard = is_aborted && around.is_outermost_cancelled != Some(false);
                if !around.is_shielded {
                    current::hold_abort(is_heard);
                }
            }
            if !has_body {
                wait::pending_on(WaitKind::Scope, &*driver.node);
            }
            return Poll::Pending;
        }
        if is_aborted && status == Some(AbortStatus::Requested) && reacts {
            return Poll::Pending; // nobody holds the task any more: the abort takes effect
        }
        let this = self.as_mut().project();
        let cause = this.driver.take().and_then(Driver::end);
        let outcome = this.outcome.take();
        Poll::Ready(result(cause, outcome))
    }
}

/// The result of a scope that has ended.
fn result<T, E>(cause: Option<Cause>, outcome: Option<Result<T, E>>) -> Result<T, E>
where
    E: From<Stopped> + Send + 'static,
{
    let replaced = match cause {
        None | Some(Cause::Finished | Cause::Body) => None,
        // A body that was asked to end, and did, has the last word.
        Some(Cause::Stopped(Stopped::Cancelled)) if outcome.is_some() => None,
        Some(Cause::Stopped(stopped)) => Some(E::from(stopped)),
        Some(Cause::Error(error)) => match error.downcast() {
            Ok(error) => Some(*error),
            Err(_) => unreachable!("all children of a scope have its error type"),
        },
        Some(Cause::Panic(payload)) => {
            quietly(|| drop(outcome));
            resume_unwind(payload)
        }
    };
    match (replaced, outcome) {
        (Some(error), _) => Err(error),
        (None, Some(outcome)) => outcome,
        (None, None) => unreachable!("a body that ends without a cause has an outcome"),
    }
}

impl<B, F, T, E> fmt::Debug for ScopeFuture<B, F, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.driver.as_ref().map(|driver| &driver.node);
        f.debug_struct("ScopeFuture")
            .field("children", &node.map(|node| node.children()))
            .finish_non_exhaustive()
    }
}
