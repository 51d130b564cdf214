//! What code in a scope can find out about its cancellation.

use std::future::{Future, pending};
use std::time::Duration;

use blitzen_task::shield;

use crate::scope::cancellation as scope;
use crate::time::{Instant, error::Elapsed, timeout_at};

/// Returns whether the [scope](mod@crate::scope) that the calling code runs in, or one around it, was
/// cancelled.
///
/// Returns `false` outside a scope and inside a [`shield`](crate::task::shield).
///
/// # Examples
///
/// ```
/// use blitzen::scope::{Stopped, scope};
/// use blitzen::task;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let done = scope(|s| async move {
///     s.cancel();
///     assert!(task::is_cancelled());
///     task::shield(async { assert!(!task::is_cancelled()) }).await;
///     Ok::<_, Stopped>(())
/// });
/// done.await.unwrap();
/// # });
/// ```
pub fn is_cancelled() -> bool {
    scope::is_cancelled()
}

/// Waits until the [scope](mod@crate::scope) that the calling code runs in, or one around it, is
/// cancelled.
///
/// Waits for ever outside a scope and inside a [`shield`](crate::task::shield).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use blitzen::scope::{Scope, Stopped};
/// use blitzen::task;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let done = Scope::builder().grace(Duration::from_secs(10)).run(|s| async move {
///     s.spawn(async {
///         task::cancelled().await;
///         println!("goodbye");
///         Ok(())
///     });
///     s.cancel();
///     Ok::<_, Stopped>(())
/// });
/// done.await.unwrap();
/// # });
/// ```
///
/// # Cancel safety
///
/// Dropping the future only ends the wait.
pub async fn cancelled() {
    match scope::token() {
        Some(token) => token.cancelled().await,
        None => pending().await,
    }
}

/// Runs `future`, or drops it when the [scope](mod@crate::scope) that the calling code runs in, or one
/// around it, is cancelled.
///
/// Returns `None` if it was dropped, or the scope was cancelled before. Outside a scope and
/// inside a [`shield`](crate::task::shield) it runs `future` to its end.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use blitzen::scope::{Scope, Stopped};
/// use blitzen::task;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let done = Scope::builder().grace(Duration::from_secs(10)).run(|s| async move {
///     let child = s.spawn(async {
///         Ok(task::unless_cancelled(std::future::pending::<()>()).await)
///     });
///     s.cancel();
///     child.await
/// });
/// assert_eq!(done.await, Ok::<_, Stopped>(None));
/// # });
/// ```
///
/// # Cancel safety
///
/// This function is cancel safe if `future` is.
pub async fn unless_cancelled<F: Future>(future: F) -> Option<F::Output> {
    if is_cancelled() {
        return None;
    }
    match scope::token() {
        Some(token) => token.run_until_cancelled(future).await,
        None => Some(future.await),
    }
}

/// Returns the time at which the [scope](mod@crate::scope) that the calling code runs in is cancelled:
/// the earliest deadline of this scope and of those around it.
///
/// Returns `None` if there is no deadline. Inside [`shield_within`] it returns the end of that
/// time, and inside another [`shield`](crate::task::shield) `None`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use blitzen::scope::{Scope, Stopped};
/// use blitzen::task;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// assert_eq!(task::deadline(), None);
/// let done = Scope::builder().within(Duration::from_secs(10)).run(|_| async {
///     assert!(task::deadline().is_some());
///     Ok::<_, Stopped>(())
/// });
/// done.await.unwrap();
/// # });
/// ```
pub fn deadline() -> Option<Instant> {
    scope::deadline()
}

/// Runs `future` in a [`shield`](crate::task::shield), for at most `limit`.
///
/// It is for cleanup that should not be interrupted but must not take for ever.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use blitzen::task::shield_within;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let limit = Duration::from_millis(1);
/// assert_eq!(shield_within(limit, async { 1 }).await, Ok(1));
/// assert!(shield_within(limit, std::future::pending::<()>()).await.is_err());
/// # });
/// ```
///
/// # Cancel safety
///
/// Dropping the returned future drops `future`, and lets a deferred abort through.
///
/// # Errors
///
/// Returns [`Elapsed`] if `future` was not ready in time.
///
/// # Panics
///
/// Panics outside a runtime, and in a runtime without
/// [`enable_time`](crate::runtime::Builder::enable_time).
pub async fn shield_within<F: Future>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
    let deadline = Instant::after(limit);
    let limited = timeout_at(deadline, future);
    shield(scope::with_shield_deadline(deadline, limited)).await
}
