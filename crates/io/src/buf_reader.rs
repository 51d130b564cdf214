//! A reader with a buffer.

use std::fmt;
use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::async_write::delegate_write;
use crate::byte_buffer::ByteBuffer;
use crate::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, DEFAULT_CAPACITY, ReadBuf};

pin_project! {
    /// A reader with a buffer: many small reads become few large ones.
    ///
    /// Bytes in the buffer are lost when the `BufReader` is dropped or converted with
    /// [`into_inner`](Self::into_inner). A read that is at least as large as the
    /// buffer bypasses it if it is empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::{AsyncBufReadExt, BufReader};
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut reader = BufReader::new(&b"name: value\n"[..]);
    /// let mut name = Vec::new();
    /// reader.read_until(b':', &mut name).await?;
    /// assert_eq!(name, b"name:");
    /// assert_eq!(reader.buffer(), b" value\n");
    /// # Ok(())
    /// # }
    /// ```
    pub struct BufReader<R> {
        #[pin]
        pub(crate) inner: R,
        pub(crate) buffer: ByteBuffer,
        pub(crate) seek: ReaderSeek,
    }
}

/// How far a seek has come.
#[derive(Debug)]
pub(crate) enum ReaderSeek {
    Idle,
    /// Requested; the inner reader was not asked yet.
    Wanted(SeekFrom),
    /// The inner reader moves back by what is in the buffer, and `then` is left.
    /// Only if the two do not fit into one number.
    Rewinding {
        then: i64,
    },
    /// The inner reader moves to the requested position.
    Moving,
}

impl<R: AsyncRead> BufReader<R> {
    /// Creates a `BufReader` with a buffer of 8 KiB.
    ///
    /// # Examples
    ///
    /// ```
    /// let reader = blitzen::io::BufReader::new(blitzen::io::empty());
    /// assert!(reader.buffer().is_empty());
    /// ```
    pub fn new(inner: R) -> Self {
        Self::with_capacity(DEFAULT_CAPACITY, inner)
    }

    /// Creates a `BufReader` with a buffer of `capacity` bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// let reader = blitzen::io::BufReader::with_capacity(64, blitzen::io::empty());
    /// assert!(reader.buffer().is_empty());
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `capacity` is zero.
    #[track_caller]
    pub fn with_capacity(capacity: usize, inner: R) -> Self {
        assert!(capacity > 0, "capacity must be greater than zero");
        Self {
            inner,
            buffer: ByteBuffer::zeroed(capacity),
            seek: ReaderSeek::Idle,
        }
    }

    /// Returns a reference to the inner reader.
    ///
    /// Reading from it directly skips the bytes in the buffer.
    ///
    /// # Examples
    ///
    /// ```
    /// let reader = blitzen::io::BufReader::new(&b"abc"[..]);
    /// assert_eq!(reader.get_ref(), b"abc");
    /// ```
    pub fn get_ref(&self) -> &R {
        &self.inner
    }

    /// Returns a mutable reference to the inner reader.
    ///
    /// Reading from it directly skips the bytes in the buffer.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut reader = blitzen::io::BufReader::new(&b"abc"[..]);
    /// *reader.get_mut() = b"def";
    /// assert_eq!(reader.get_ref(), b"def");
    /// ```
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.inner
    }

    /// Returns a pinned mutable reference to the inner reader.
    ///
    /// Reading from it directly skips the bytes in the buffer.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// let reader = pin!(blitzen::io::BufReader::new(&b"abc"[..]));
    /// assert_eq!(*reader.get_pin_mut(), b"abc");
    /// ```
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut R> {
        self.project().inner
    }

    /// Returns the inner reader. Bytes in the buffer are lost.
    ///
    /// # Examples
    ///
    /// ```
    /// let reader = blitzen::io::BufReader::new(&b"abc"[..]);
    /// assert_eq!(reader.into_inner(), b"abc");
    /// ```
    pub fn into_inner(self) -> R {
        self.inner
    }

    /// Returns the bytes in the buffer that were not read yet.
    ///
    /// Unlike [`fill_buf`](crate::AsyncBufReadExt::fill_buf) this never reads from the
    /// inner reader.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use blitzen::io::{AsyncReadExt, BufReader};
    /// let mut reader = BufReader::new(&b"abc"[..]);
    /// assert_eq!(reader.read_u8().await?, b'a');
    /// assert_eq!(reader.buffer(), b"bc");
    /// # Ok(())
    /// # }
    /// ```
    pub fn buffer(&self) -> &[u8] {
        self.buffer.unread()
    }
}

impl<R: AsyncRead> AsyncRead for BufReader<R> {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.project();
        if this.buffer.is_empty() {
            if buf.remaining() >= this.buffer.capacity() {
                return this.inner.poll_read(cx, buf);
            }
            ready!(this.buffer.poll_fill(this.inner, cx))?;
        }
        let unread = this.buffer.unread();
        let amount = unread.len().min(buf.remaining());
        buf.put_slice(&unread[..amount]);
        this.buffer.consume(amount);
        Poll::Ready(Ok(()))
    }
}

impl<R: AsyncRead> AsyncBufRead for BufReader<R> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.project();
        if this.buffer.is_empty() {
            ready!(this.buffer.poll_fill(this.inner, cx))?;
        }
        Poll::Ready(Ok(this.buffer.unread()))
    }

    fn consume(self: Pin<&mut Self>, amt: usize) {
        self.project().buffer.consume(amt);
    }
}

/// A seek empties the buffer. One that fails leaves the reader where it was.
/// `SeekFrom::Current` counts from the next byte to be read, not from the position of
/// the inner reader.
impl<R: AsyncRead + AsyncSeek> AsyncSeek for BufReader<R> {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        let this = self.project();
        match this.seek {
            ReaderSeek::Idle | ReaderSeek::Wanted(_) => {
                *this.seek = ReaderSeek::Wanted(position);
                Ok(())
            }
            ReaderSeek::Rewinding { .. } | ReaderSeek::Moving => Err(io::Error::other(
                "a seek is under way: wait for it with poll_complete first",
            )),
        }
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let mut this = self.project();
        loop {
            let position = ready!(this.inner.as_mut().poll_complete(cx));
            // Any error from here on ends the seek. The buffer is emptied only when
            // the inner reader has moved.
            let seek = std::mem::replace(this.seek, ReaderSeek::Idle);
            let position = position?;
            match seek {
                ReaderSeek::Idle => return Poll::Ready(Ok(position)),
                ReaderSeek::Wanted(wanted) => {
                    let (now, next) = step(wanted, this.buffer.unread().len());
                    this.inner.as_mut().start_seek(now)?;
                    *this.seek = next;
                }
                ReaderSeek::Rewinding { then } => {
                    this.buffer.clear();
                    this.inner.as_mut().start_seek(SeekFrom::Current(then))?;
                    *this.seek = ReaderSeek::Moving;
                }
                ReaderSeek::Moving => {
                    this.buffer.clear();
                    return Poll::Ready(Ok(position));
                }
            }
        }
    }
}

/// Returns the inner reader's next move on the way to `wanted`, when the buffer
/// holds `ahead` bytes.
fn step(wanted: SeekFrom, ahead: usize) -> (SeekFrom, ReaderSeek) {
    let SeekFrom::Current(offset) = wanted else {
        return (wanted, ReaderSeek::Moving);
    };
    let ahead = ahead as i64; // a slice has no more than `isize::MAX` bytes
    match offset.checked_sub(ahead) {
        Some(offset) => (SeekFrom::Current(offset), ReaderSeek::Moving),
        None => (
            SeekFrom::Current(-ahead),
            ReaderSeek::Rewinding { then: offset },
        ),
    }
}

impl<R: AsyncRead + AsyncWrite> AsyncWrite for BufReader<R> {
    delegate_write!(this => this.get_pin_mut(), this => this.inner);
}

impl<R: fmt::Debug> fmt::Debug for BufReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufReader")
            .field("reader", &self.inner)
            .field("buffer", &self.buffer)
            .finish()
    }
}
