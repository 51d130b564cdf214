//! Futures with a deadline.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use blitzen_util::coop;

use super::error::Elapsed;
use super::{Instant, Sleep};

/// Runs `future` for at most `duration`.
///
/// Returns the future's output, or [`Elapsed`] if it was not ready in time; then
/// the future is dropped with the [`Timeout`]. Each poll polls the future first, so a
/// future that is ready wins, even if it is late. A timer is armed only if the
/// future has to wait.
///
/// # Examples
/// ```
/// use blitzen::time::{Duration, timeout};
///
/// # let runtime = blitzen::runtime::Builder::new_current_thread()
/// #     .enable_time().start_paused(true).build().unwrap();
/// # runtime.block_on(async {
/// let second = Duration::from_secs(1);
/// assert_eq!(timeout(second, async { 7 }).await, Ok(7));
/// assert!(timeout(second, std::future::pending::<()>()).await.is_err());
/// # });
/// ```
///
/// # Cancel safety
/// Dropping the returned future drops `future`.
///
/// # Errors
/// Returns [`Elapsed`] if `future` was not ready in time.
///
/// # Panics
/// Panics outside a runtime, and in a runtime without
/// [`enable_time`](crate::runtime::Builder::enable_time).
#[inline]
#[track_caller]
pub fn timeout<F>(duration: Duration, future: F) -> Timeout<F::IntoFuture>
where
    F: IntoFuture,
{
    Timeout {
        value: future.into_future(),
        limit: Sleep::after(duration),
    }
}

/// Runs `future` until `deadline` at the latest; see [`timeout`].
///
/// # Examples
/// ```
/// use blitzen::time::{Duration, Instant, timeout_at};
///
/// # let runtime = blitzen::runtime::Builder::new_current_thread()
/// #     .enable_time().start_paused(true).build().unwrap();
/// # runtime.block_on(async {
/// let deadline = Instant::now() + Duration::from_secs(1);
/// assert!(timeout_at(deadline, std::future::pending::<()>()).await.is_err());
/// assert_eq!(Instant::now(), deadline);
/// # });
/// ```
///
/// # Cancel safety
/// Dropping the returned future drops `future`.
///
/// # Errors
/// Returns [`Elapsed`] if `future` was not ready in time.
///
/// # Panics
/// Panics outside a runtime, and in a runtime without
/// [`enable_time`](crate::runtime::Builder::enable_time).
#[inline]
#[track_caller]
pub fn timeout_at<F>(deadline: Instant, future: F) -> Timeout<F::IntoFuture>
where
    F: IntoFuture,
{
    Timeout {
        value: future.into_future(),
        limit: Sleep::new(deadline),
    }
}

pin_project_lite::pin_project! {
    /// The future of [`timeout`] and [`timeout_at`].
    ///
    /// # Examples
    /// ```
    /// use blitzen::time::{Duration, timeout};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # let _inside = runtime.enter();
    /// let limited = timeout(Duration::from_secs(1), std::future::ready(1));
    /// assert_eq!(limited.into_inner().into_inner(), 1);
    /// ```
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    #[derive(Debug)]
    pub struct Timeout<T> {
        #[pin]
        value: T,
        #[pin]
        limit: Sleep,
    }
}

impl<T> Timeout<T> {
    /// Returns a reference to the future.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Duration, timeout};
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # let _inside = runtime.enter();
    /// let limited = timeout(Duration::from_secs(1), std::future::ready(1));
    /// let inner: &std::future::Ready<i32> = limited.get_ref();
    /// ```
    pub fn get_ref(&self) -> &T {
        &self.value
    }

    /// Returns a mutable reference to the future.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Duration, timeout};
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # let _inside = runtime.enter();
    /// let mut limited = timeout(Duration::from_secs(1), std::future::ready(1));
    /// *limited.get_mut() = std::future::ready(2);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// Returns the future, without its limit.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Duration, timeout};
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # let _inside = runtime.enter();
    /// let limited = timeout(Duration::from_secs(1), std::future::ready(1));
    /// assert_eq!(limited.into_inner().into_inner(), 1);
    /// ```
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T: Future> Future for Timeout<T> {
    type Output = Result<T::Output, Elapsed>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(value) = this.value.poll(cx) {
            return Poll::Ready(Ok(value));
        }
        // A future that has used up the task's budget, as one that never waits does,
        // must not keep the limit from being polled.
        let is_late = match had_budget && !coop::has_budget_remaining() {
            true => coop::with_unconstrained(|| this.limit.poll(cx)),
            false => this.limit.poll(cx),
        };
        is_late.map(|()| Err(Elapsed::new()))
    }
}
