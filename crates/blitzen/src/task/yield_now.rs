//! Giving way to other tasks.

use std::future::poll_fn;
use std::task::Poll;

use crate::runtime::context;

/// Gives way once: other tasks that are ready run before this one goes on, and
/// timers and sockets get a look.
///
/// ```
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// blitzen::task::yield_now().await;
/// # });
/// ```
///
/// # Cancel safety
/// Nothing is lost if it is dropped.
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
