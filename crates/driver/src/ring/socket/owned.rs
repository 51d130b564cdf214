//! Sending from a buffer that the operation owns.
//!
//! ```text
//!   Sending(memory) ──── the send has ended ───► Done(memory, result) ──► Taken
//! ```
//!
//! O1. The table's reference keeps the memory until the last completion, whether or
//!     not the future was dropped. Only then does `finish` let the future take it.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;
use blitzen_util::shim::Mutex;
use blitzen_util::wait::{self, WaitKind};
use io_uring::opcode;

use super::stream::{LeftRing, RingStream, SendWait};
use super::table::StreamDirection;
use super::waiters::{PollWithNode, WaitAs};
use crate::ring::Memory;
use crate::shutdown_error;

/// An owned buffer, as the table uses it.
pub(in crate::ring) trait OwnedSend: Send + Sync {
    /// Returns start and length, the same every time.
    fn bytes(&self) -> (*const u8, usize);

    /// Called when the kernel has finished with the memory (O1). The result is the
    /// number of bytes that were sent, or an error number.
    fn finish(&self, result: Result<usize, i32>);
}

struct OwnedBuffer<B> {
    start: *const u8,
    len: usize,
    state: Mutex<OwnedState<B>>,
}

enum OwnedState<B> {
    Sending(Memory<B>),
    Done(Memory<B>, Result<usize, i32>),
    Taken,
}

// SAFETY: the pointer is to memory of the `Memory`, which may go to any thread.
unsafe impl<B: Send> Send for OwnedBuffer<B> {}
// SAFETY: as above; the state is behind a lock.
unsafe impl<B: Send> Sync for OwnedBuffer<B> {}

impl<B> OwnedBuffer<B> {
    fn new(memory: Memory<B>) -> Self {
        Self {
            start: memory.start().cast_const(),
            len: memory.len(),
            state: Mutex::new(OwnedState::Sending(memory)),
        }
    }

    fn is_done(&self) -> bool {
        matches!(*self.state.lock(), OwnedState::Done(..))
    }

    /// Takes the buffer of a send that has ended, or was never begun.
    fn take(&self) -> (Result<usize, i32>, B) {
        match std::mem::replace(&mut *self.state.lock(), OwnedState::Taken) {
            OwnedState::Sending(memory) => (Ok(0), memory.into_buffer()),
            OwnedState::Done(memory, result) => (result, memory.into_buffer()),
            OwnedState::Taken => unreachable!("taken once, by the future"),
        }
    }
}

impl<B: Send> OwnedSend for OwnedBuffer<B> {
    fn bytes(&self) -> (*const u8, usize) {
        (self.start, self.len)
    }

    fn finish(&self, result: Result<usize, i32>) {
        let mut state = self.state.lock();
        *state = match std::mem::replace(&mut *state, OwnedState::Taken) {
            OwnedState::Sending(memory) => OwnedState::Done(memory, result),
            state => state,
        };
    }
}

impl RingStream {
    /// Sends all of a buffer, after what was written before, and returns the
    /// buffer. With `zero_copy` the kernel does not copy the bytes, if it can, and
    /// the buffer is returned when the network no longer needs it.
    ///
    /// Returns the buffer, unsent, as an error if the stream has left the ring.
    ///
    /// # Errors
    /// The inner result has the error of `send(2)`, and
    /// [`shutdown_error()`] if the ring was shut.
    ///
    /// # Cancel safety
    /// A future that is dropped before its send has begun has sent nothing. Later,
    /// the ring keeps the buffer and sends all of it, unless the ring is shut.
    pub async fn write_owned<B: Send + 'static>(
        &self,
        memory: Memory<B>,
        zero_copy: bool,
    ) -> Result<(io::Result<usize>, B), B> {
        let zero_copy = zero_copy && self.ring().supports(opcode::SendZc::CODE);
        let buffer = Arc::new(OwnedBuffer::new(memory));
        let begun = PollWithNode::new(self, StreamDirection::Send, |cx, waiter| {
            self.poll_begin_owned(cx, waiter, &buffer, zero_copy)
        });
        match begun.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Ok((Err(error), buffer.take().1)),
            Err(LeftRing) => return Err(buffer.take().1),
        }
        let done = PollWithNode::new(self, StreamDirection::Send, |cx, waiter| {
            self.poll_owned_done(cx, waiter, &buffer)
        });
        done.await;
        let (result, buffer) = buffer.take();
        let result = result.map_err(|error| match error {
            libc::ECANCELED => shutdown_error(), // nothing else cancels it
            error => io::Error::from_raw_os_error(error),
        });
        Ok((result, buffer))
    }

    /// Waits until everything that was written before is sent, and begins the send.
    fn poll_begin_owned<B: Send + 'static>(
        &self,
        cx: &mut Context<'_>,
        waiter: WaitAs<'_>,
        buffer: &Arc<OwnedBuffer<B>>,
        zero_copy: bool,
    ) -> Poll<Result<io::Result<()>, LeftRing>> {
        let spent = ready!(coop::poll_proceed(cx));
        let begun = ready!(self.poll_write_locked(cx, waiter, || {
            match self.flush_locked() {
                SendWait::Ready(Ok(Ok(()))) => {}
                step => return step,
            }
            let buffer = buffer.clone();
            SendWait::Ready(self.visit(|table| table.begin_owned(self.key(), buffer, zero_copy)))
        }));
        spent.made_progress();
        Poll::Ready(begun)
    }

    fn poll_owned_done<B: Send + 'static>(
        &self,
        cx: &mut Context<'_>,
        waiter: WaitAs<'_>,
        buffer: &Arc<OwnedBuffer<B>>,
    ) -> Poll<()> {
        let waker = cx.waker().clone(); // foreign code: before the lock
        let done = self.with_table(|table, deferred| {
            // With the ring's lock held, as `finish` is called.
            if buffer.is_done() {
                deferred.drop_waker(Some(waker));
                return Poll::Ready(());
            }
            let waiters = table.waiters(self.key(), StreamDirection::Send);
            waiters.add(waiter, waker, deferred);
            Poll::Pending
        });
        if done.is_pending() {
            wait::pending_on(WaitKind::RingSend, self);
        }
        done
    }
}
