//! A stream as two halves.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use blitzen_util::shim::Arc;

use crate::bi_lock::BiLock;
use crate::{AsyncRead, AsyncWrite, ReadBuf};

/// The half of a stream that reads, created by [`split`].
///
/// # Examples
///
/// ```
/// use blitzen::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let (stream, mut peer) = blitzen::io::duplex(8);
/// let (mut reader, _writer): (ReadHalf<DuplexStream>, _) = blitzen::io::split(stream);
/// peer.write_u8(7).await?;
/// assert_eq!(reader.read_u8().await?, 7);
/// # Ok(())
/// # }
/// ```
pub struct ReadHalf<T> {
    stream: Pin<Arc<BiLock<T>>>,
}

/// The half of a stream that writes, created by [`split`].
///
/// # Examples
///
/// ```
/// use blitzen::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, WriteHalf};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let (stream, mut peer) = blitzen::io::duplex(8);
/// let (_reader, mut writer): (_, WriteHalf<DuplexStream>) = blitzen::io::split(stream);
/// writer.write_u8(7).await?;
/// assert_eq!(peer.read_u8().await?, 7);
/// # Ok(())
/// # }
/// ```
pub struct WriteHalf<T> {
    stream: Pin<Arc<BiLock<T>>>,
    /// The stream's answer when it was split.
    is_write_vectored: bool,
}

// SAFETY: a shared reference to a half gives no access to the stream.
unsafe impl<T> Sync for ReadHalf<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for WriteHalf<T> {}

/// Splits `stream` into a half that reads and one that writes.
///
/// The halves can be used by different tasks. They share the stream behind a lock:
/// while one half is polled, the other returns `Pending` and is woken afterwards. A
/// stream with a `split` or `into_split` of its own does without the lock.
///
/// [`unsplit`](ReadHalf::unsplit) restores the stream. The stream is dropped with
/// the second half: call [`shutdown`](crate::AsyncWriteExt::shutdown) to close it
/// for writing before.
///
/// # Examples
///
/// ```
/// use blitzen::io::{AsyncReadExt, AsyncWriteExt};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let (near, mut far) = blitzen::io::duplex(64);
/// let (mut reader, mut writer) = blitzen::io::split(near);
/// writer.write_all(b"ping").await?;
/// far.write_all(b"pong").await?;
/// let mut buf = [0; 4];
/// reader.read_exact(&mut buf).await?;
/// assert_eq!(&buf, b"pong");
/// # Ok(())
/// # }
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
    /// Returns whether `other` is a half of the same stream.
    ///
    /// # Examples
    ///
    /// ```
    /// let (reader, writer) = blitzen::io::split(blitzen::io::duplex(8).0);
    /// assert!(reader.is_pair_of(&writer));
    /// ```
    pub fn is_pair_of(&self, other: &WriteHalf<T>) -> bool {
        other.is_pair_of(self)
    }

    /// Puts the two halves of a stream together again, and returns the stream.
    ///
    /// # Examples
    ///
    /// ```
    /// let (reader, writer) = blitzen::io::split(blitzen::io::duplex(8).0);
    /// let stream = reader.unsplit(writer);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `wr` is a half of another stream. See
    /// [`is_pair_of`](Self::is_pair_of).
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
    /// Returns whether `other` is a half of the same stream.
    ///
    /// # Examples
    ///
    /// ```
    /// let (reader, writer) = blitzen::io::split(blitzen::io::duplex(8).0);
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
