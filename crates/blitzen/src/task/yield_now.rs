//! Giving way to other tasks.

use std::future::poll_fn;
use std::task::Poll;

use crate::runtime::context;

/// Yields to the scheduler once.
///
/// Other tasks that are ready run before this one goes on, and the worker may look at its
/// timers and sockets.
///
/// # Examples
///
/// ```
/// use blitzen::task;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// task::yield_now().await;
/// # });
/// ```
///
/// # Cancel safety
///
/// Dropping the future has no effect on other tasks.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context::defer(cx.waker());
        Poll::Pending
    })
    .await;
}
