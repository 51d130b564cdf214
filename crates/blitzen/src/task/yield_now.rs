//! Giving way to other tasks.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use crate::runtime::context;
use crate::runtime::dump::trace_leaf;

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
        ready!(trace_leaf(cx));
        poll_yield(&mut yielded, cx)
    })
    .await;
}

/// The poll of [`yield_now`], for one under another path: stacks of tasks have its name in them.
#[doc(hidden)]
#[inline]
pub fn poll_yield(yielded: &mut bool, cx: &mut Context<'_>) -> Poll<()> {
    if std::mem::replace(yielded, true) {
        return Poll::Ready(());
    }
    context::defer(cx.waker());
    Poll::Pending
}
