//! A pipe in memory.

use std::io::{self, IoSlice};
use std::iter;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;
use blitzen_util::wait::{self, WaitKind};
use blitzen_util::wake_batch::WakeBatch;

use crate::pipe::{DeferredWake, Pipe, slices};
use crate::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf, WriteHalf, split};

/// A pipe in memory: bytes written to it can be read from it. See [`simplex`].
///
/// # Examples
///
/// ```
/// use blitzen::io::{AsyncReadExt, AsyncWriteExt, SimplexStream};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut pipe = SimplexStream::new_unsplit(64);
/// pipe.write_all(b"hi").await?;
/// assert_eq!(pipe.read_u8().await?, b'h');
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SimplexStream {
    pipe: Pipe,
}

/// Creates a pipe in memory that holds at most `max_buf_size` bytes, and returns
/// its two ends.
///
/// A writer waits until the reader has made room. The reader reaches the end after
/// [`shutdown`](crate::AsyncWriteExt::shutdown) of the writer. Dropping one end
/// does not close the other.
///
/// # Examples
///
/// ```
/// use blitzen::io::{AsyncReadExt, AsyncWriteExt};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let (mut reader, mut writer) = blitzen::io::simplex(64);
/// writer.write_all(b"hello").await?;
/// writer.shutdown().await?;
/// let mut text = String::new();
/// reader.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// Panics if `max_buf_size` is zero.
#[track_caller]
pub fn simplex(max_buf_size: usize) -> (ReadHalf<SimplexStream>, WriteHalf<SimplexStream>) {
    split(SimplexStream::new_unsplit(max_buf_size))
}

impl SimplexStream {
    /// Calls `act` with the pipe, and wakes afterwards. Spends a unit of the task's
    /// budget, unless `act` returns `Pending`: then the task waits for `kind`.
    fn poll_with<R>(
        &mut self,
        kind: WaitKind,
        cx: &mut Context<'_>,
        act: impl FnOnce(&mut Pipe, &mut Context<'_>) -> (Poll<R>, DeferredWake),
    ) -> Poll<R> {
        let spent = ready!(coop::poll_proceed(cx));
        let (result, deferred) = act(&mut self.pipe, cx);
        match result.is_ready() {
            true => spent.made_progress(),
            false => wait::pending_on(kind, &self.pipe),
        }
        deferred.run();
        result
    }

    /// Creates a pipe in memory that holds at most `max_buf_size` bytes, as one
    /// stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::{AsyncReadExt, AsyncWriteExt, SimplexStream};
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut stream = SimplexStream::new_unsplit(64);
    /// stream.write_u8(7).await?;
    /// assert_eq!(stream.read_u8().await?, 7);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `max_buf_size` is zero.
    #[track_caller]
    pub fn new_unsplit(max_buf_size: usize) -> SimplexStream {
        SimplexStream {
            pipe: Pipe::with_capacity(max_buf_size),
        }
    }
}

impl AsyncRead for SimplexStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_with(WaitKind::PipeRead, cx, |pipe, cx| pipe.poll_read(cx, buf))
    }
}

impl AsyncWrite for SimplexStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_with(WaitKind::PipeWrite, cx, |pipe, cx| {
            pipe.poll_write(cx, iter::once(buf))
        })
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_with(WaitKind::PipeWrite, cx, |pipe, cx| {
            pipe.poll_write(cx, slices(bufs))
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut wakers = WakeBatch::new();
        self.pipe.close(&mut wakers);
        wakers.wake_all();
        Poll::Ready(Ok(()))
    }
}
