//! Leaving the ring: how a stream moves to readiness.
//!
//! ```text
//!   leave ──► the kernel ends the receive ──► received bytes are read ──► by readiness
//!         └─► the kernel ends the send    ──────────────────────────────► by readiness
//! ```
//!
//! The two directions are drained separately: a writer does not wait for a reader.

use std::io;
use std::mem::MaybeUninit;
use std::task::{Context, Poll};

use blitzen_util::shim::atomic::Ordering::Relaxed;
use blitzen_util::shim::thread;

use super::{DrainStep, RingStream, SendWait};
use crate::ring::socket::deferred::Deferred;
use crate::ring::socket::prefix::{Prefix, READ_AHEAD};
use crate::ring::socket::table::{RecvStep, StreamDirection};
use crate::ring::socket::waiters::{PollWithNode, WaitAs};

impl RingStream {
    /// Begins to leave the ring, for good: buffered bytes are sent, requests are
    /// cancelled, and tasks that wait here are woken to continue by readiness. Usually
    /// that is all; otherwise the owner of the ring does the rest with its next turn,
    /// see [`recv_drained`](Self::recv_drained).
    pub fn leave(&self) {
        let mut deferred = Deferred::default();
        let writer = self.writer.lock();
        if let SendWait::Ready(Ok(Err(error))) = self.flush_locked() {
            let error = error.raw_os_error().unwrap_or(libc::EIO);
            self.visit(|table| table.keep_send_error(self.key, error));
        }
        self.visit(|table| table.leave(self.key, &mut deferred));
        drop(writer);
        deferred.finish();
        self.ring.submit_now();
    }

    /// Whether all requests of one direction have ended.
    fn is_drained(&self, direction: StreamDirection) -> bool {
        let is_known = match direction {
            StreamDirection::Recv => &self.is_read_out,
            StreamDirection::Send => &self.is_sent_out,
        };
        // Relaxed: once true it stays true, and it publishes nothing else.
        is_known.load(Relaxed) || self.visit(|table| table.is_drained(self.key, direction))
    }

    /// Blocks until the kernel has ended the receive of a stream that leaves.
    ///
    /// # Errors
    /// Returns an error of kind [`ResourceBusy`](io::ErrorKind::ResourceBusy) if only
    /// another thread can end it, or an owned buffer is still being sent.
    pub fn drain(&self) -> io::Result<()> {
        while !self.is_drained(StreamDirection::Recv) {
            if !self.ring.submit_now() {
                return Err(busy(
                    "the kernel works on this socket for a runtime that stays on another thread: \
                     do this on that thread",
                ));
            }
            thread::yield_now(); // another thread is at it
        }
        match self.is_drained(StreamDirection::Send) {
            true => Ok(()),
            false => Err(busy("the kernel is still sending from an owned buffer")),
        }
    }

    /// Waits until the ring receives nothing any more. Of several callers, the last one
    /// is woken.
    pub fn poll_recv_drained(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_drained(cx, WaitAs::Latest, StreamDirection::Recv)
    }

    /// Waits until the ring sends nothing any more. Of several callers, the last one is
    /// woken.
    pub fn poll_send_drained(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_drained(cx, WaitAs::Latest, StreamDirection::Send)
    }

    /// Waits until the ring receives nothing any more. All callers are woken.
    pub async fn recv_drained(&self) {
        self.drained(StreamDirection::Recv).await;
    }

    /// Waits until the ring sends nothing any more. All callers are woken.
    pub async fn send_drained(&self) {
        self.drained(StreamDirection::Send).await;
    }

    async fn drained(&self, direction: StreamDirection) {
        PollWithNode::new(self, direction, |cx, waiter| {
            self.poll_drained(cx, waiter, direction)
        })
        .await;
    }

    fn poll_drained(
        &self,
        cx: &mut Context<'_>,
        waiter: WaitAs<'_>,
        direction: StreamDirection,
    ) -> Poll<()> {
        if self.is_drained(direction) {
            return Poll::Ready(());
        }
        let waker = cx.waker().clone(); // foreign code: before the lock
        self.with_table(|table, deferred| {
            if table.is_drained(self.key, direction) {
                deferred.drop_waker(Some(waker));
                return Poll::Ready(());
            }
            table
                .waiters(self.key, direction)
                .add(waiter, waker, deferred);
            Poll::Pending
        })
    }

    /// Reads bytes that the ring had received before the stream left.
    pub fn drain_read(&self, room: &mut [MaybeUninit<u8>]) -> DrainStep {
        self.drain_with(|prefix| match room.is_empty() {
            true => Some(0), // an empty read
            false => Some(prefix.read(room)).filter(|&count| count > 0),
        })
    }

    /// Like [`drain_read`](Self::drain_read), without removing the bytes.
    pub fn drain_peek(&self, room: &mut [MaybeUninit<u8>]) -> DrainStep {
        self.drain_with(|prefix| Some(prefix.peek(room)).filter(|&count| count > 0))
    }

    fn drain_with(&self, mut take: impl FnMut(&mut Prefix) -> Option<usize>) -> DrainStep {
        // Relaxed: as in `is_drained`.
        if self.is_read_out.load(Relaxed) {
            return DrainStep::Done;
        }
        let prefix = &mut *self.reader.lock();
        loop {
            if let Some(count) = take(prefix) {
                return DrainStep::Bytes(count);
            }
            let (mut waker, mut deferred) = (None, Deferred::default());
            let room = prefix.spare(READ_AHEAD);
            // In one visit: a receive that ends between two visits may return bytes.
            let (step, is_drained) = self.visit(|table| {
                let step = table.recv(self.key, room, WaitAs::Latest, &mut waker, &mut deferred);
                (step, table.is_drained(self.key, StreamDirection::Recv))
            });
            debug_assert!(deferred.is_empty(), "without a waker nobody waits");
            match step {
                // SAFETY: the table has copied that many bytes.
                RecvStep::Bytes(count) => unsafe { prefix.advance(count) },
                RecvStep::Error(error) => {
                    return DrainStep::Error(io::Error::from_raw_os_error(error));
                }
                _ if !is_drained => {
                    prefix.trim();
                    return DrainStep::Pending;
                }
                // The end of the stream is read from the socket.
                _ => {
                    prefix.trim();
                    self.is_read_out.store(true, Relaxed);
                    return DrainStep::Done;
                }
            }
        }
    }

    /// Whether the next read finds bytes or an error here; `None` while the last
    /// receive may return more.
    pub fn has_undrained(&self) -> Option<bool> {
        match self.drain_peek(&mut [MaybeUninit::uninit(); 1]) {
            DrainStep::Bytes(_) => Some(true),
            DrainStep::Pending => None,
            DrainStep::Done => Some(false),
            DrainStep::Error(error) => {
                // The error is for a read.
                let error = error.raw_os_error().unwrap_or(libc::EIO);
                self.visit(|table| table.keep_recv_error(self.key, error));
                Some(true)
            }
        }
    }

    /// Returns `Pending` while the ring still sends bytes of a stream that has left,
    /// and the error of such a send once.
    pub fn drain_send(&self) -> DrainStep {
        // Relaxed: as in `is_drained`.
        if self.is_sent_out.load(Relaxed) {
            return DrainStep::Done;
        }
        let (is_drained, error) = self.visit(|table| {
            let is_drained = table.is_drained(self.key, StreamDirection::Send);
            (is_drained, table.take_send_error(self.key))
        });
        match error {
            Some(error) => DrainStep::Error(io::Error::from_raw_os_error(error)),
            None if !is_drained => DrainStep::Pending,
            None => {
                self.is_sent_out.store(true, Relaxed);
                DrainStep::Done
            }
        }
    }

    /// Whether everything that was written before the stream left has been sent.
    pub fn is_sent_out(&self) -> bool {
        self.is_drained(StreamDirection::Send)
    }
}

fn busy(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, text)
}
