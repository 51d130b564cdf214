//! A future that counts as work.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::tracker::WorkGuard;

pin_project! {
    /// A future that counts as work until it is ready or dropped; see
    /// [`Shutdown::track`](super::Shutdown::track).
    ///
    /// # Examples
    /// ```
    /// # #[blitzen::main]
    /// # async fn main() {
    /// let shutdown = blitzen::shutdown::Shutdown::new();
    /// let tracked = shutdown.track(async { shutdown.at_work() });
    /// assert_eq!(tracked.await, 1);
    /// assert_eq!(shutdown.at_work(), 0);
    /// # }
    /// ```
    #[must_use = "futures do nothing unless awaited"]
    #[derive(Debug)]
    pub struct Tracked<F> {
        // Dropped before the guard: what its destructor does is work too.
        #[pin]
        future: Option<F>,
        guard: Option<WorkGuard>,
        is_assigned: bool,
    }

    impl<F> PinnedDrop for Tracked<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if let Some(guard) = this.guard {
                guard.scope().inside(|| this.future.set(None));
            }
        }
    }
}

impl<F> Tracked<F> {
    pub(super) fn new(future: F, guard: WorkGuard) -> Self {
        Self {
            future: Some(future),
            guard: Some(guard),
            is_assigned: false,
        }
    }
}

impl<F: Future> Future for Tracked<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        if let Some(guard) = this.guard
            && !std::mem::replace(this.is_assigned, true)
        {
            guard.assign_to_current_task();
        }
        let (Some(future), Some(guard)) = (this.future.as_mut().as_pin_mut(), &this.guard) else {
            panic!("`Tracked` polled after completion");
        };
        let output = ready!(guard.scope().inside(|| future.poll(cx)));
        guard.scope().inside(|| this.future.set(None));
        *this.guard = None;
        Poll::Ready(output)
    }
}
