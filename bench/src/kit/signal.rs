//! A flag one task waits for: set and wake, as a channel would.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Relaxed, Ordering::Release};
use std::task::Poll;

use atomic_waker::AtomicWaker;

#[derive(Default)]
pub(crate) struct Signal {
    is_set: AtomicBool,
    waker: AtomicWaker,
}

impl Signal {
    pub(crate) fn fire(&self) {
        // Release, met by the AcqRel swap in `take`: the waiter sees what came before.
        self.is_set.store(true, Release);
        self.waker.wake();
    }

    /// Waits until [`fire`](Signal::fire) and clears the flag. One waiter at a time.
    pub(crate) async fn wait(&self) {
        poll_fn(|cx| {
            if self.take() {
                return Poll::Ready(());
            }
            self.waker.register(cx.waker());
            if self.take() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await
    }

    /// Clears the flag; whether it was set.
    pub(crate) fn take(&self) -> bool {
        self.is_set.load(Relaxed) && self.is_set.swap(false, AcqRel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn no_signal_is_lost_between_threads() {
        let (ping, pong) = (Arc::new(Signal::default()), Arc::new(Signal::default()));
        let other = std::thread::spawn({
            let (ping, pong) = (ping.clone(), pong.clone());
            move || {
                futures_lite::future::block_on(async {
                    for _ in 0..10_000 {
                        ping.wait().await;
                        pong.fire();
                    }
                })
            }
        });
        futures_lite::future::block_on(async {
            for _ in 0..10_000 {
                ping.fire();
                pong.wait().await;
            }
        });
        other.join().unwrap();
    }
}
