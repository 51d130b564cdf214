//! Sending from a buffer that the operation owns.
//!
//! ```text
//!   Sending(memory) ──── the send has ended ───► Done(memory, result) ──► Taken
//! ```
//!
//! O1. The table's reference keeps the memory until the kernel's last completion,
//!     whether or not the future is still there. Only then does `finish` let the
//!     future take it.

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

/// An owned buffer, as the table sees it.
pub(in crate::ring) trait OwnedSend: Send + Sync {
    /// Start and length, the same every time.
    fn bytes(&self) -> (*const u8, usize);

    /// The kernel is through with the memory (O1). The result is the number of bytes
    /// that were sent, or an error number.
    fn finish(&self, result: Result<usize, i32>);
}

struct OwnedBuffer<K> {
    start: *const u8,
    len: usize,
    state: Mutex<OwnedState<K>>,
}

enum OwnedState<K> {
    Sending(Memory<K>),
    Done(Memory<K>, Result<usize, i32>),
    Taken,
}

// SAFETY: the pointer is to memory of the `Memory`, which may go to any thread.
unsafe impl<K: Send> Send for OwnedBuffer<K> {}
// SAFETY: as above; the state is behind a lock.
unsafe impl<K: Send> Sync for OwnedBuffer<K> {}

impl<K> OwnedBuffer<K> {
    fn new(memory: Memory<K>) -> Self {
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
    fn take(&self) -> (Result<usize, i32>, K) {
        match std::mem::replace(&mut *self.state.lock(), OwnedState::Taken) {
            OwnedState::Sending(memory) => (Ok(0), memory.into_keeper()),
            OwnedState::Done(memory, result) => (result, memory.into_keeper()),
            OwnedState::Taken => unreachable!("taken once, by the future"),
        }
    }
}

impl<K: Send> OwnedSend for OwnedBuffer<K> {
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
    /// Sends all of a buffer from where it is, after what was written before, and
    /// gives it back. With `zero_copy` the kernel copies nothing, if it can, and
    /// the buffer comes back when the network is through with it.
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
    pub async fn write_owned<K: Send + 'static>(
        &self,
        memory: Memory<K>,
        zero_copy: bool,
    ) -> Result<(io::Result<usize>, K), K> {
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
            libc::ECANCELED => shutdown_error(), // cancelled by nobody else
            error => io::Error::from_raw_os_error(error),
        });
        Ok((result, buffer))
    }

    /// Waits until everything before is out, and begins.
    fn poll_begin_owned<K: Send + 'static>(
        &self,
        cx: &mut Context<'_>,
        waiter: WaitAs<'_>,
        buffer: &Arc<OwnedBuffer<K>>,
        zero_copy: bool,
    ) -> Poll<Result<io::Result<()>, LeftRing>> {
        let spent = ready!(coop::poll_proceed(cx));
        let begun = ready!(self.poll_write_locked(cx, waiter, || {
            match self.flush_locked() {
                SendWait::Ready(Ok(Ok(()))) => {}
                step => return step,
            }
            let begun =
                self.visit(|table| table.begin_owned(self.key(), buffer.clone(), zero_copy));
            SendWait::Ready(Ok(begun))
        }));
        spent.made_progress();
        Poll::Ready(begun)
    }

    fn poll_owned_done<K: Send + 'static>(
        &self,
        cx: &mut Context<'_>,
        waiter: WaitAs<'_>,
        buffer: &Arc<OwnedBuffer<K>>,
    ) -> Poll<()> {
        let waker = cx.waker().clone(); // foreign code: before the lock
        self.with_table(|table, deferred| {
            // Under the ring's lock, under which it is finished.
            if buffer.is_done() {
                deferred.drop_waker(Some(waker));
                return Poll::Ready(());
            }
            let waiters = table.waiters(self.key(), StreamDirection::Send);
            waiters.add(waiter, waker, deferred);
            wait::pending_on(WaitKind::RingSend, self);
            Poll::Pending
        })
    }
}
