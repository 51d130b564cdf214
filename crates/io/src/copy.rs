//! Copies bytes from a reader to a writer.
//!
//! C1. Every byte that was read is written once, in order, before the end or an
//!     error of the reader is reported.
//! C2. The writer is flushed before the reader is waited for: the other side may
//!     need the bytes it holds back before it sends more.
//! C3. A buffer whose size nobody chose grows when reads fill it: bulk transfers
//!     use fewer and larger reads and writes.
//! C4. Each round of reading and writing spends a unit of the task's budget, since
//!     neither stream may ever have to wait.

use std::future::poll_fn;
use std::io;
use std::panic::RefUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;

use crate::byte_buffer::ByteBuffer;
use crate::check::{is_interrupted, written};
use crate::{AsyncBufRead, AsyncRead, AsyncWrite, DEFAULT_CAPACITY};

/// The largest capacity that a buffer grows to (C3).
const MAX_CAPACITY: usize = 64 * 1024;

/// Copies all bytes from `reader` to `writer`, flushes `writer`, and returns how
/// many bytes were copied.
///
/// Reads and writes that fail with
/// [`Interrupted`](std::io::ErrorKind::Interrupted) are repeated.
///
/// # Examples
///
/// ```
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut reader: &[u8] = b"hello";
/// let mut writer = Vec::new();
/// assert_eq!(blitzen::io::copy(&mut reader, &mut writer).await?, 5);
/// assert_eq!(writer, b"hello");
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// Not cancel safe: bytes that were read and not yet written are lost if the
/// future is dropped.
///
/// # Errors
///
/// Returns the first error of `reader` or `writer`, or
/// [`WriteZero`](std::io::ErrorKind::WriteZero) if `writer` accepts no more
/// bytes. Bytes that were read before an error of `reader` are written first.
pub async fn copy<'a, R, W>(reader: &'a mut R, writer: &'a mut W) -> io::Result<u64>
where
    R: AsyncRead + Unpin + ?Sized,
    W: AsyncWrite + Unpin + ?Sized,
{
    let mut copying = CopyBuffer::growing();
    poll_fn(|cx| copying.poll(Pin::new(&mut *reader), Pin::new(&mut *writer), cx)).await
}

/// Copies all bytes from `reader` to `writer` without a buffer of its own, flushes
/// `writer`, and returns how many bytes were copied.
///
/// Reads and writes that fail with
/// [`Interrupted`](std::io::ErrorKind::Interrupted) are repeated.
///
/// # Examples
///
/// ```
/// use blitzen::io::BufReader;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut reader = BufReader::new(&b"hello"[..]);
/// let mut writer = Vec::new();
/// assert_eq!(blitzen::io::copy_buf(&mut reader, &mut writer).await?, 5);
/// assert_eq!(writer, b"hello");
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// If the future is dropped, bytes that were not written are still in `reader`.
/// The number of bytes that were written is lost.
///
/// # Errors
///
/// Returns the first error of `reader` or `writer`, or
/// [`WriteZero`](std::io::ErrorKind::WriteZero) if `writer` accepts no more
/// bytes.
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

/// One direction of a copy: the buffer, and how far it has come.
#[derive(Debug)]
pub(crate) struct CopyBuffer {
    /// Bytes that were read and not yet written.
    buffer: ByteBuffer,
    /// Whether the buffer may become larger.
    grows: bool,
    /// Whether the last read filled the buffer.
    was_full: bool,
    reader: ReaderState,
    /// Whether something was written since the last flush.
    needs_flush: bool,
    total: u64,
}

/// Whether the reader may return more.
#[derive(Debug)]
enum ReaderState {
    Open,
    Ended,
    /// Reported when everything before it has been written (C1).
    Failed(io::Error),
}

// By hand because of the error in `ReaderState`, which nobody sees before it is
// returned.
impl RefUnwindSafe for CopyBuffer {}

/// The outcome of one attempt to read.
enum FillOutcome {
    /// Bytes were read, or the reader ended or failed.
    Progress,
    /// There is nothing to read yet.
    Pending,
    /// The reader was not polled: the buffer is full, or the reader has ended.
    NotPolled,
}

impl CopyBuffer {
    /// Creates one with a buffer of `capacity` bytes.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self::new(capacity, false)
    }

    /// Creates one whose buffer grows as needed (C3).
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

    /// Copies until the reader ends, and returns how many bytes were copied.
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
                        // While the writer is busy, the reader can continue.
                        match self.fill(reader.as_mut(), cx) {
                            FillOutcome::Progress => break,
                            FillOutcome::Pending | FillOutcome::NotPolled => return Poll::Pending,
                        }
                    }
                }
            }
        }
    }

    /// Reads once behind the unread bytes, if there is room.
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

    /// Flushes after everything was written, or returns the reader's error.
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

/// Writes some of `bytes`, which are not empty; zero is an error.
fn poll_write_some<W: AsyncWrite + ?Sized>(
    writer: Pin<&mut W>,
    bytes: &[u8],
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    match ready!(writer.poll_write(cx, bytes))? {
        0 => Poll::Ready(Err(io::Error::new(
            io::ErrorKind::WriteZero,
            "the writer accepts no more of the copied bytes",
        ))),
        amount => Poll::Ready(Ok(written(amount, bytes.len()))),
    }
}
