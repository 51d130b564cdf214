//! Running one future on the calling thread, which sleeps while the future waits.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::coop;
use crate::park::Parker;
use crate::wait;

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.unpark();
    }
}

thread_local! {
    /// One parker for each thread. A waker of an earlier call that fires late causes
    /// one spurious poll.
    static PARKER: Arc<Parker> = Arc::new(Parker::new());
}

/// Polls `future` to its end.
///
/// The blocking forms of locks and channels call this with the asynchronous form,
/// after [`assert_may_block`](crate::entered::assert_may_block).
///
/// ```
/// assert_eq!(blitzen_util::block_on::block_on(async { 1 + 1 }), 2);
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    // A thread that is being destroyed has lost its parker: make one for this call.
    let parker = PARKER
        .try_with(Arc::clone)
        .unwrap_or_else(|_| Arc::new(Parker::new()));
    let waker = Waker::from(parker.clone());
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        // Nothing else runs on this thread meanwhile, so yielding would help no
        // task: a budget that the caller used up would only make this spin.
        let poll = coop::with_unconstrained(|| wait::isolated(|| future.as_mut().poll(&mut cx)));
        if let Poll::Ready(output) = poll {
            return output;
        }
        parker.park();
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[test]
    fn a_future_woken_by_another_thread_ends() {
        let mut thread = None;
        let out = block_on(poll_fn(|cx| {
            if thread.is_some() {
                return Poll::Ready(5);
            }
            let waker = cx.waker().clone();
            thread = Some(std::thread::spawn(move || waker.wake()));
            Poll::Pending
        }));
        assert_eq!(out, 5);
        thread.unwrap().join().unwrap();
    }

    #[test]
    fn calls_nest() {
        let out = block_on(async { block_on(async { 3 }) });
        assert_eq!(out, 3);
    }

    #[test]
    fn the_callers_budget_does_not_count() {
        coop::with_budget(|| {
            while coop::try_spend() {}
            let out = block_on(poll_fn(|cx| match coop::poll_proceed(cx) {
                Poll::Ready(_) => Poll::Ready(7),
                Poll::Pending => panic!("asked to yield, to nobody"),
            }));
            assert_eq!(out, 7);
        });
    }
}
