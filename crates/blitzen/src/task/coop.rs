//! Cooperation: a task that never waits still lets others run.
//!
//! Each poll of a task has a budget of 128 operations. Locks, channels, sockets
//! and timers spend one each, and when none is left they make the task give way
//! once. Code that loops without any of these calls [`consume_budget`].

use std::cell::Cell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use blitzen_util::coop::{self, Spent};
use pin_project_lite::pin_project;

/// Whether the next operation of this task may go on without giving way.
///
/// ```
/// assert!(blitzen::task::coop::has_budget_remaining());
/// ```
pub fn has_budget_remaining() -> bool {
    coop::has_budget_remaining()
}

/// Spends one unit of the budget, giving way if none is left.
///
/// ```
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// for chunk in [1, 2, 3] {
///     // … work on the chunk …
///     blitzen::task::coop::consume_budget().await;
/// }
/// # });
/// ```
///
/// # Cancel safety
/// Nothing is lost if it is dropped.
pub async fn consume_budget() {
    let mut spent = Poll::Pending;
    poll_fn(move |cx| {
        if spent.is_pending() {
            let unit = std::task::ready!(coop::poll_proceed(cx));
            unit.made_progress();
            spent = Poll::Ready(());
        }
        spent
    })
    .await;
}

/// One unit of the budget, which comes back if the operation it was for turns
/// out not to make progress.
///
/// ```
/// use std::task::{Context, Poll, Waker};
/// use blitzen::task::coop;
///
/// let mut cx = Context::from_waker(Waker::noop());
/// let Poll::Ready(unit) = coop::poll_proceed(&mut cx) else { panic!() };
/// unit.made_progress();
/// ```
#[must_use]
pub struct RestoreOnPending(Cell<Option<Spent>>);

impl RestoreOnPending {
    /// The operation made progress: the unit stays spent.
    ///
    /// ```
    /// # use std::task::{Context, Poll, Waker};
    /// # use blitzen::task::coop;
    /// # let mut cx = Context::from_waker(Waker::noop());
    /// if let Poll::Ready(unit) = coop::poll_proceed(&mut cx) {
    ///     unit.made_progress();
    /// }
    /// ```
    pub fn made_progress(&self) {
        if let Some(spent) = self.0.take() {
            spent.made_progress();
        }
    }
}

impl fmt::Debug for RestoreOnPending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestoreOnPending").finish_non_exhaustive()
    }
}

/// Spends one unit of the budget, or makes the task give way.
///
/// ```
/// use std::task::{Context, Poll, Waker};
///
/// let mut cx = Context::from_waker(Waker::noop());
/// assert!(blitzen::task::coop::poll_proceed(&mut cx).is_ready());
/// ```
pub fn poll_proceed(cx: &mut Context<'_>) -> Poll<RestoreOnPending> {
    coop::poll_proceed(cx).map(|spent| RestoreOnPending(Cell::new(Some(spent))))
}

/// Runs a future without a budget: it may starve other tasks.
///
/// ```
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// blitzen::task::coop::unconstrained(async {}).await;
/// # });
/// ```
pub fn unconstrained<F>(inner: F) -> Unconstrained<F> {
    Unconstrained { inner }
}

pin_project! {
    /// The future of [`unconstrained`].
    #[must_use = "Unconstrained does nothing unless polled"]
    pub struct Unconstrained<F> {
        #[pin]
        inner: F,
    }
}

impl<F: Future> Future for Unconstrained<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        coop::with_unconstrained(|| self.project().inner.poll(cx))
    }
}

/// Makes a future spend one unit of the budget for each poll that ends it, so
/// that a loop over it cannot starve other tasks.
///
/// ```
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let value = blitzen::task::coop::cooperative(async { 1 }).await;
/// assert_eq!(value, 1);
/// # });
/// ```
pub fn cooperative<F: Future>(fut: F) -> Coop<F> {
    Coop { fut }
}

pin_project! {
    /// The future of [`cooperative`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Coop<F: Future> {
        #[pin]
        fut: F,
    }
}

impl<F: Future> Future for Coop<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let spent = std::task::ready!(coop::poll_proceed(cx));
        let output = std::task::ready!(self.project().fut.poll(cx));
        spent.made_progress();
        Poll::Ready(output)
    }
}
