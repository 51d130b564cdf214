//! One stream as two halves that can go separate ways.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use blitzen_util::shim::Arc;

use crate::bi_lock::BiLock;
use crate::{AsyncRead, AsyncWrite, ReadBuf};

/// The half of a stream that reads: see [`split`].
pub struct ReadHalf<T> {
    stream: Pin<Arc<BiLock<T>>>,
}

/// The half of a stream that writes: see [`split`].
pub struct WriteHalf<T> {
    stream: Pin<Arc<BiLock<T>>>,
    /// As it was when the stream was split, to be told without the lock.
    is_write_vectored: bool,
}

// SAFETY: a shared half lends nothing of the stream, not even to read.
unsafe impl<T> Sync for ReadHalf<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for WriteHalf<T> {}

/// Splits a stream into a half that reads and one that writes.
///
/// They share the stream behind a lock that neither waits for on its thread:
/// while one half is being polled, the other is told to come back. A stream
/// with a `split` or `into_split` of its own does without.
///
/// [`unsplit`](ReadHalf::unsplit) puts the halves together again. The stream
/// is dropped with the second of them: shut it down to tell the other side
/// that no more comes.
///
/// ```
/// use blitzen_io::{AsyncReadExt, AsyncWriteExt};
///
/// # futures::executor::block_on(async {
/// let (near, mut far) = blitzen_io::duplex(64);
/// let (mut reader, mut writer) = blitzen_io::split(near);
/// writer.write_all(b"ping").await?;
/// far.write_all(b"pong").await?;
/// let mut buf = [0; 4];
/// reader.read_exact(&mut buf).await?;
/// assert_eq!(&buf, b"pong");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub fn split<T>(stream: T) -> (ReadHalf<T>, WriteHalf<T>)
where
    T: AsyncRead + AsyncWrite,
{
    let is_write_vectored = stream.is_write_vectored();
    let stream = Arc::pin(BiLock::new(stream));
    let reader = ReadHalf {
        stream: stream.clone(),
    };
    let writer = WriteHalf {
        stream,
        is_write_vectored,
    };
    (reader, writer)
}

impl<T> ReadHalf<T> {
    /// Whether both halves are of one stream.
    ///
    /// ```
    /// let (reader, writer) = blitzen_io::split(blitzen_io::duplex(8).0);
    /// assert!(reader.is_pair_of(&writer));
    /// ```
    pub fn is_pair_of(&self, other: &WriteHalf<T>) -> bool {
        other.is_pair_of(self)
    }

    /// Puts the stream together again.
    ///
    /// # Panics
    /// If the other half is of another stream; ask
    /// [`is_pair_of`](Self::is_pair_of) first.
    ///
    /// ```
    /// let (reader, writer) = blitzen_io::split(blitzen_io::duplex(8).0);
    /// let stream = reader.unsplit(writer);
    /// ```
    #[track_caller]
    pub fn unsplit(self, wr: WriteHalf<T>) -> T
    where
        T: Unpin,
    {
        assert!(
            self.is_pair_of(&wr),
            "the halves given to `unsplit` are of different streams"
        );
        drop(wr);
        let Ok(stream) = Arc::try_unwrap(Pin::into_inner(self.stream)) else {
            unreachable!("a stream has two halves, and one of them is gone")
        };
        stream.into_inner()
    }
}

impl<T> WriteHalf<T> {
    /// Whether both halves are of one stream.
    ///
    /// ```
    /// let (reader, writer) = blitzen_io::split(blitzen_io::duplex(8).0);
    /// assert!(writer.is_pair_of(&reader));
    /// ```
    pub fn is_pair_of(&self, other: &ReadHalf<T>) -> bool {
        std::ptr::eq(&*self.stream, &*other.stream)
    }
}

impl<T: AsyncRead> AsyncRead for ReadHalf<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream
            .as_ref()
            .poll_with(cx, |stream, cx| stream.poll_read(cx, buf))
    }
}

impl<T: AsyncWrite> AsyncWrite for WriteHalf<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream
            .as_ref()
            .poll_with(cx, |stream, cx| stream.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream
            .as_ref()
            .poll_with(cx, |stream, cx| stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.is_write_vectored
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream
            .as_ref()
            .poll_with(cx, |stream, cx| stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream
            .as_ref()
            .poll_with(cx, |stream, cx| stream.poll_shutdown(cx))
    }
}

impl<T: fmt::Debug> fmt::Debug for ReadHalf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadHalf").finish_non_exhaustive()
    }
}

impl<T: fmt::Debug> fmt::Debug for WriteHalf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteHalf").finish_non_exhaustive()
    }
}
