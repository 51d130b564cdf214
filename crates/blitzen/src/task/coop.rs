//! Cooperative scheduling: a task that never waits still lets others run.
//!
//! Each poll of a task has a budget of 128 operations. Locks, channels, sockets and timers spend
//! one unit each; when none is left, they make the task yield once. Code that loops without any
//! of these can call [`consume_budget`].
//!
//! # Examples
//!
//! ```
//! use blitzen::task::coop;
//!
//! # let runtime = blitzen::runtime::Runtime::new().unwrap();
//! # runtime.block_on(async {
//! let mut sum = 0;
//! for n in 0..1_000 {
//!     sum += n;
//!     coop::consume_budget().await; // others run now and then
//! }
//! assert_eq!(sum, 499_500);
//! # });
//! ```

use std::cell::Cell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use blitzen_util::coop::{self, Spent};
use pin_project_lite::pin_project;

/// Returns whether the running task has budget left.
///
/// Outside a task it has.
///
/// # Examples
///
/// ```
/// use blitzen::task::coop;
///
/// assert!(coop::has_budget_remaining());
/// ```
pub fn has_budget_remaining() -> bool {
    coop::has_budget_remaining()
}

/// Spends one unit of the budget, and yields first if none is left.
///
/// It is meant for loops that do much work without any other operation of this crate.
///
/// # Examples
///
/// ```
/// use blitzen::task::coop;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// for chunk in [1, 2, 3] {
///     // … work on the chunk …
///     coop::consume_budget().await;
/// }
/// # });
/// ```
///
/// # Cancel safety
///
/// Dropping the future spends nothing.
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

/// A unit of the budget, which is given back when this is dropped, unless
/// [`made_progress`](Self::made_progress) was called.
///
/// [`poll_proceed`] returns it.
///
/// # Examples
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
    /// Keeps the unit spent: the operation made progress.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::task::{Context, Poll, Waker};
    /// use blitzen::task::coop;
    ///
    /// let mut cx = Context::from_waker(Waker::noop());
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

/// Spends one unit of the budget.
///
/// Returns `Poll::Pending` if none is left; the task is then polled again after others have
/// run.
///
/// # Examples
///
/// ```
/// use std::task::{Context, Waker};
/// use blitzen::task::coop;
///
/// let mut cx = Context::from_waker(Waker::noop());
/// assert!(coop::poll_proceed(&mut cx).is_ready());
/// ```
pub fn poll_proceed(cx: &mut Context<'_>) -> Poll<RestoreOnPending> {
    coop::poll_proceed_to_inner(cx).map(|spent| RestoreOnPending(Cell::new(Some(spent))))
}

/// Returns a future that runs `inner` without a budget.
///
/// Such a future never yields by itself, and may starve other tasks.
///
/// # Examples
///
/// ```
/// use blitzen::task::coop;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// assert_eq!(coop::unconstrained(async { 1 }).await, 1);
/// # });
/// ```
pub fn unconstrained<F>(inner: F) -> Unconstrained<F> {
    Unconstrained { inner }
}

pin_project! {
    /// The future that [`unconstrained`] returns.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::coop;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let future: coop::Unconstrained<_> = coop::unconstrained(async { 1 });
    /// assert_eq!(future.await, 1);
    /// # });
    /// ```
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

/// Returns a future that runs `fut` and spends one unit of the budget when it ends.
///
/// A loop over such futures cannot starve other tasks.
///
/// # Examples
///
/// ```
/// use blitzen::task::coop;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// assert_eq!(coop::cooperative(async { 1 }).await, 1);
/// # });
/// ```
pub fn cooperative<F: Future>(fut: F) -> Coop<F> {
    Coop { fut }
}

pin_project! {
    /// The future that [`cooperative`] returns.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::coop;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let future: coop::Coop<_> = coop::cooperative(async { 1 });
    /// assert_eq!(future.await, 1);
    /// # });
    /// ```
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
        let spent = std::task::ready!(coop::poll_proceed_to_inner(cx));
        let output = std::task::ready!(self.project().fut.poll(cx));
        spent.made_progress();
        Poll::Ready(output)
    }
}
