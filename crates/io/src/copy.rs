//! Moves bytes from a reader to a writer.
//!
//! C1. Every byte that was read is written once, in order, before the end or
//!     an error of the reader is reported.
//! C2. Before waiting for the reader the writer is flushed: what it holds back
//!     may be what the other side waits for before it sends more.
//! C3. A buffer whose size nobody asked for grows when reads fill it: who sends
//!     a lot at a time is served with fewer, larger reads and writes.
//! C4. A round of reading and writing spends a unit of the task's budget, for
//!     neither side need ever wait.

use std::future::poll_fn;
use std::io;
use std::panic::RefUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;

use crate::byte_buffer::ByteBuffer;
use crate::check::{is_interrupted, written};
use crate::{AsyncBufRead, AsyncRead, AsyncWrite, DEFAULT_CAPACITY};

/// What a buffer may grow to (C3).
const MAX_CAPACITY: usize = 64 * 1024;

/// Copies everything from `reader` to `writer`, flushes, and returns how many
/// bytes that was.
///
/// # Errors
/// The reader's and the writer's, and
/// [`WriteZero`](std::io::ErrorKind::WriteZero) if the writer takes no more.
/// Reads and writes that were interrupted are tried again.
///
/// # Cancel safety
/// Not cancel safe: bytes that were read and not yet written are lost with the
/// future.
///
/// ```
/// # futures::executor::block_on(async {
/// let mut reader: &[u8] = b"hello";
/// let mut writer = Vec::new();
/// assert_eq!(blitzen_io::copy(&mut reader, &mut writer).await?, 5);
/// assert_eq!(writer, b"hello");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub async fn copy<'a, R, W>(reader: &'a mut R, writer: &'a mut W) -> io::Result<u64>
where
    R: AsyncRead + Unpin + ?Sized,
    W: AsyncWrite + Unpin + ?Sized,
{
    let mut copying = CopyBuffer::growing();
    poll_fn(|cx| copying.poll(Pin::new(&mut *reader), Pin::new(&mut *writer), cx)).await
}

/// Like [`copy`], straight from the reader's own buffer.
///
/// # Errors
/// As for [`copy`].
///
/// # Cancel safety
/// What has not been written is still in the reader: nothing is lost. How much
/// was written is not known.
///
/// ```
/// use blitzen_io::BufReader;
///
/// # futures::executor::block_on(async {
/// let mut reader = BufReader::new(&b"hello"[..]);
/// let mut writer = Vec::new();
/// assert_eq!(blitzen_io::copy_buf(&mut reader, &mut writer).await?, 5);
/// assert_eq!(writer, b"hello");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub async fn copy_buf<'a, R, W>(reader: &'a mut R, writer: &'a mut W) -> io::Result<u64>
where
    R: AsyncBufRead + Unpin + ?Sized,
    W: AsyncWrite + Unpin + ?Sized,
{
    let mut total = 0;
    let mut needs_flush = false;
    poll_fn(|cx| {
        loop {
            ready!(coop::poll_proceed(cx)).made_progress(); // C4
            let (mut reader, mut writer) = (Pin::new(&mut *reader), Pin::new(&mut *writer));
            let bytes = match reader.as_mut().poll_fill_buf(cx) {
                Poll::Ready(Ok(bytes)) => bytes,
                Poll::Ready(Err(error)) if is_interrupted(&error) => continue,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    if needs_flush {
                        ready!(writer.poll_flush(cx))?; // C2
                        needs_flush = false;
                    }
                    return Poll::Pending;
                }
            };
            if bytes.is_empty() {
                ready!(writer.poll_flush(cx))?;
                return Poll::Ready(Ok(total));
            }
            match ready!(poll_write_some(writer.as_mut(), bytes, cx)) {
                Ok(amount) => {
                    reader.consume(amount);
                    total += amount as u64;
                    needs_flush = true;
                }
                Err(error) if is_interrupted(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    })
    .await
}

/// One direction of a copy.
#[derive(Debug)]
pub(crate) struct CopyBuffer {
    /// What was read and not yet written.
    buffer: ByteBuffer,
    /// Whether the buffer may become larger.
    grows: bool,
    /// Whether the last read filled it.
    was_full: bool,
    reader: ReaderState,
    /// What was written and not yet flushed.
    needs_flush: bool,
    total: u64,
}

/// Whether the reader has more to give.
#[derive(Debug)]
enum ReaderState {
    Open,
    Ended,
    /// Reported when everything before it has been written (C1).
    Failed(io::Error),
}

// The error in `ReaderState` is what keeps it from being so by itself. Nobody sees it
// before it is returned.
impl RefUnwindSafe for CopyBuffer {}

/// What one look at the reader brought.
enum FillOutcome {
    /// Bytes, or the end, or an error.
    Progress,
    /// It has to be waited for.
    Pending,
    /// Not asked: there is no room, or nothing to expect.
    NotPolled,
}

impl CopyBuffer {
    /// One whose buffer is as large as asked.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self::new(capacity, false)
    }

    /// One whose buffer grows as needed (C3).
    pub(crate) fn growing() -> Self {
        Self::new(DEFAULT_CAPACITY, true)
    }

    fn new(capacity: usize, grows: bool) -> Self {
        Self {
            buffer: ByteBuffer::uninit(capacity),
            grows,
            was_full: false,
            reader: ReaderState::Open,
            needs_flush: false,
            total: 0,
        }
    }

    /// Copies until the reader ends; returns how many bytes that was.
    pub(crate) fn poll<R, W>(
        &mut self,
        mut reader: Pin<&mut R>,
        mut writer: Pin<&mut W>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<u64>>
    where
        R: AsyncRead + ?Sized,
        W: AsyncWrite + ?Sized,
    {
        loop {
            ready!(coop::poll_proceed(cx)).made_progress(); // C4

            if self.buffer.is_empty() {
                match self.fill(reader.as_mut(), cx) {
                    FillOutcome::Progress => {}
                    FillOutcome::Pending => {
                        if self.needs_flush {
                            ready!(writer.as_mut().poll_flush(cx))?; // C2
                            self.needs_flush = false;
                        }
                        return Poll::Pending;
                    }
                    FillOutcome::NotPolled => return self.poll_finish(writer, cx),
                }
            }

            while !self.buffer.is_empty() {
                match poll_write_some(writer.as_mut(), self.buffer.unread(), cx) {
                    Poll::Ready(Ok(amount)) => {
                        self.buffer.consume(amount);
                        self.total += amount as u64;
                        self.needs_flush = true;
                    }
                    Poll::Ready(Err(error)) if is_interrupted(&error) => break,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => {
                        // While the writer is busy, the reader can go ahead.
                        match self.fill(reader.as_mut(), cx) {
                            FillOutcome::Progress => break,
                            FillOutcome::Pending | FillOutcome::NotPolled => return Poll::Pending,
                        }
                    }
                }
            }
        }
    }

    /// Reads once behind what is already there, if that makes sense.
    #[inline]
    fn fill<R: AsyncRead + ?Sized>(
        &mut self,
        reader: Pin<&mut R>,
        cx: &mut Context<'_>,
    ) -> FillOutcome {
        if !matches!(self.reader, ReaderState::Open) || !self.buffer.has_room() {
            return FillOutcome::NotPolled;
        }
        if self.was_full && self.grows && self.buffer.is_empty() {
            self.buffer
                .grow(MAX_CAPACITY.min(2 * self.buffer.capacity())); // C3
            self.grows = self.buffer.capacity() < MAX_CAPACITY;
        }
        match self.buffer.poll_fill(reader, cx) {
            Poll::Pending => return FillOutcome::Pending,
            Poll::Ready(Ok(0)) => self.reader = ReaderState::Ended,
            Poll::Ready(Ok(_)) => self.was_full = !self.buffer.has_room(),
            Poll::Ready(Err(error)) if is_interrupted(&error) => {}
            Poll::Ready(Err(error)) => self.reader = ReaderState::Failed(error),
        }
        FillOutcome::Progress
    }

    /// Everything that was read has been written.
    fn poll_finish<W: AsyncWrite + ?Sized>(
        &mut self,
        writer: Pin<&mut W>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<u64>> {
        match std::mem::replace(&mut self.reader, ReaderState::Ended) {
            ReaderState::Failed(error) => Poll::Ready(Err(error)),
            ReaderState::Open | ReaderState::Ended => {
                ready!(writer.poll_flush(cx))?;
                self.needs_flush = false;
                Poll::Ready(Ok(self.total))
            }
        }
    }
}

/// One write of bytes that are there; zero is an error.
fn poll_write_some<W: AsyncWrite + ?Sized>(
    writer: Pin<&mut W>,
    bytes: &[u8],
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    match ready!(writer.poll_write(cx, bytes))? {
        0 => Poll::Ready(Err(io::Error::new(
            io::ErrorKind::WriteZero,
            "the writer takes no more of what is copied",
        ))),
        amount => Poll::Ready(Ok(written(amount, bytes.len()))),
    }
}
