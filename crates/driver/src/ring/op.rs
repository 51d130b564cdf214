//! One operation as a future that owns what the kernel works on.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;
use io_uring::squeue::Entry;

use super::Ring;
use super::slab::{AbandonedPayload, OpToken};

/// Something to be asked of the kernel, with all it needs.
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
    /// What the future gives.
    type Output;

    /// Whether it may be asked again if the kernel called it off, as it does
    /// when the thread ends that asked. Then nothing of it was done.
    const REPEATABLE: bool = false;

    /// The request. Called once, and again each time that it is repeated.
    fn entry(&mut self) -> Entry;

    /// The end: the kernel is through with everything.
    fn finish(self, result: io::Result<u32>) -> Self::Output;
}

/// An [`Operation`] under way in a [`Ring`].
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
/// drop(stat); // asks the kernel to forget about it
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Cancel safety
/// Dropping the future asks the kernel to stop, and leaves buffers and
/// descriptors to the ring until it has. Whether the operation took place is
/// then unknown. What it made, such as an opened file, is dropped.
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

    /// Lets the operation go on to its end without anybody waiting for it.
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
            if !(T::REPEATABLE && was_called_off(&result)) {
                break result;
            }
            this.token = this.ring.ask(payload.entry()); // R5
        };
        spent.made_progress();
        let payload = this.payload.take().expect("it was there just now");
        Poll::Ready(payload.finish(result))
    }
}

/// Whether the kernel has dropped a request, with nothing done.
fn was_called_off(result: &io::Result<u32>) -> bool {
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

/// A payload in the ring's keeping.
pub(super) struct Abandoned<T>(pub(super) T);

impl<T: Operation> AbandonedPayload for Abandoned<T> {
    fn finish(self: Box<Self>, result: io::Result<u32>) {
        drop(self.0.finish(result));
    }
}
