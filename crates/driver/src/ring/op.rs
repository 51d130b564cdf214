//! One operation as a future, which owns the memory that the kernel accesses.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;
use io_uring::squeue::Entry;

use super::Ring;
use super::slab::{AbandonedPayload, OpToken};

/// An operation of the kernel, with everything that its entry refers to.
///
/// ```
/// use blitzen_driver::ring::Operation;
/// use io_uring::{opcode, squeue};
///
/// struct Nothing;
///
/// // SAFETY: the entry points to nothing.
/// unsafe impl Operation for Nothing {
///     type Output = std::io::Result<()>;
///
///     fn entry(&mut self) -> squeue::Entry {
///         opcode::Nop::new().build()
///     }
///
///     fn finish(self, result: std::io::Result<u32>) -> Self::Output {
///         result.map(drop)
///     }
/// }
/// ```
///
/// # Safety
/// Everything that [`entry`](Self::entry) points to, and the descriptor it
/// names, stays valid until the value is dropped or finished, even if the value
/// is moved, and is used by nobody else in a way that the kernel's access
/// forbids.
pub unsafe trait Operation: Send + 'static {
    /// The output of the future.
    type Output;

    /// Whether the operation may be submitted again after the kernel has cancelled it
    /// because the thread that submitted it has ended. The kernel has then done nothing
    /// of it.
    const REPEATABLE: bool = false;

    /// Returns the submission queue entry. Called once, and again each time that the
    /// operation is submitted again.
    fn entry(&mut self) -> Entry;

    /// Makes the output of `result`. The kernel has finished with everything that the
    /// entry refers to.
    fn finish(self, result: io::Result<u32>) -> Self::Output;
}

/// The future of an [`Operation`] in a [`Ring`].
///
/// ```
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// # use blitzen_driver::Poller;
/// # use blitzen_driver::ring::{Ring, RingConfig, file::Stat};
/// # let poller = Arc::new(Poller::new(16)?);
/// # let Ok(ring) = Ring::new(&RingConfig::default(), poller) else { return Ok(()) };
/// # let ring = Arc::new(ring);
/// let stat = ring.submit(Stat::path(c"/".into(), 0));
/// drop(stat); // requests cancellation
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Cancel safety
/// Dropping the future requests cancellation. The ring owns buffers and descriptors until
/// the operation has ended. Whether it took place is then unknown. Its output, such as an
/// opened file, is dropped.
#[must_use = "dropping an operation cancels it; `detach` lets it go on"]
#[derive(Debug)]
pub struct Op<T: Operation> {
    ring: Arc<Ring>,
    token: OpToken,
    /// `None` once the future has ended.
    payload: Option<T>,
}

/// The payload is never pinned: what the kernel points to does not move with it.
impl<T: Operation> Unpin for Op<T> {}

impl<T: Operation> Op<T> {
    pub(super) fn new(ring: Arc<Ring>, token: OpToken, payload: T) -> Self {
        Self {
            ring,
            token,
            payload: Some(payload),
        }
    }

    /// Lets the operation run to its end in the background.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use blitzen_driver::Poller;
    /// # use blitzen_driver::ring::{Ring, RingConfig, file::Stat};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let Ok(ring) = Ring::new(&RingConfig::default(), poller) else { return Ok(()) };
    /// # let ring = Arc::new(ring);
    /// ring.submit(Stat::path(c"/".into(), 0)).detach();
    /// while ring.in_flight() > 0 {
    ///     ring.turn(None)?;
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn detach(mut self) {
        self.abandon(true);
    }

    fn abandon(&mut self, detached: bool) {
        if let Some(payload) = self.payload.take() {
            self.ring.abandon(self.token, payload, detached);
        }
    }
}

impl<T: Operation> Future for Op<T> {
    type Output = T::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T::Output> {
        let this = self.get_mut();
        let spent = ready!(coop::poll_proceed(cx));
        let result = loop {
            let result = ready!(this.ring.poll_op(this.token, cx));
            let payload = this.payload.as_mut();
            let payload = payload.expect("not polled after the operation's end");
            if !(T::REPEATABLE && was_cancelled(&result)) {
                break result;
            }
            this.token = this.ring.queue_request(payload.entry()); // R5
        };
        spent.made_progress();
        let payload = this.payload.take().expect("it was there just now");
        Poll::Ready(payload.finish(result))
    }
}

/// Returns whether the kernel has cancelled the operation before it did anything.
fn was_cancelled(result: &io::Result<u32>) -> bool {
    match result {
        Ok(_) => false,
        Err(error) => matches!(error.raw_os_error(), Some(libc::ECANCELED | libc::EINTR)),
    }
}

impl<T: Operation> Drop for Op<T> {
    fn drop(&mut self) {
        self.abandon(false);
    }
}

/// The payload of an operation whose future was dropped.
pub(super) struct Abandoned<T>(pub(super) T);

impl<T: Operation> AbandonedPayload for Abandoned<T> {
    fn finish(self: Box<Self>, result: io::Result<u32>) {
        drop(self.0.finish(result));
    }
}
