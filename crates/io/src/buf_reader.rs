//! A reader with a buffer in front of it.

use std::fmt;
use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::async_write::delegate_write;
use crate::byte_buffer::ByteBuffer;
use crate::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, DEFAULT_CAPACITY, ReadBuf};

pin_project! {
    /// Reads ahead, so that many small reads cost few of the source's.
    ///
    /// What was read ahead is lost when the `BufReader` is dropped or taken
    /// apart: look at [`buffer`](Self::buffer) first. A read that is at least
    /// as large as the buffer, while that is empty, goes straight to the source.
    ///
    /// ```
    /// use blitzen_io::{AsyncBufReadExt, BufReader};
    ///
    /// # futures::executor::block_on(async {
    /// let mut reader = BufReader::new(&b"name: value\n"[..]);
    /// let mut name = Vec::new();
    /// reader.read_until(b':', &mut name).await?;
    /// assert_eq!(name, b"name:");
    /// assert_eq!(reader.buffer(), b" value\n");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
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
    /// Asked for; the source has not heard of it.
    Wanted(SeekFrom),
    /// The source goes back to where its reader believes it is; from there it
    /// has `then` to go. Only where the two do not fit into one number.
    Rewinding {
        then: i64,
    },
    /// The source is on its way to the place asked for.
    Moving,
}

impl<R: AsyncRead> BufReader<R> {
    /// Puts a buffer of 8 KiB in front of `inner`.
    ///
    /// ```
    /// let reader = blitzen_io::BufReader::new(blitzen_io::empty());
    /// assert!(reader.buffer().is_empty());
    /// ```
    pub fn new(inner: R) -> Self {
        Self::with_capacity(DEFAULT_CAPACITY, inner)
    }

    /// Puts a buffer of `capacity` bytes in front of `inner`.
    ///
    /// # Panics
    /// If `capacity` is zero.
    ///
    /// ```
    /// let reader = blitzen_io::BufReader::with_capacity(64, blitzen_io::empty());
    /// assert!(reader.buffer().is_empty());
    /// ```
    #[track_caller]
    pub fn with_capacity(capacity: usize, inner: R) -> Self {
        assert!(capacity > 0, "capacity must be greater than zero");
        Self {
            inner,
            buffer: ByteBuffer::zeroed(capacity),
            seek: ReaderSeek::Idle,
        }
    }

    /// The source. Reading from it skips what is in the buffer.
    ///
    /// ```
    /// let reader = blitzen_io::BufReader::new(&b"abc"[..]);
    /// assert_eq!(reader.get_ref(), b"abc");
    /// ```
    pub fn get_ref(&self) -> &R {
        &self.inner
    }

    /// The source, to change it. Reading from it skips what is in the buffer.
    ///
    /// ```
    /// let mut reader = blitzen_io::BufReader::new(&b"abc"[..]);
    /// *reader.get_mut() = b"def";
    /// assert_eq!(reader.get_ref(), b"def");
    /// ```
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.inner
    }

    /// The source, pinned. Reading from it skips what is in the buffer.
    ///
    /// ```
    /// use std::pin::pin;
    /// let reader = pin!(blitzen_io::BufReader::new(&b"abc"[..]));
    /// assert_eq!(*reader.get_pin_mut(), b"abc");
    /// ```
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut R> {
        self.project().inner
    }

    /// The source; what is in the buffer is lost.
    ///
    /// ```
    /// let reader = blitzen_io::BufReader::new(&b"abc"[..]);
    /// assert_eq!(reader.into_inner(), b"abc");
    /// ```
    pub fn into_inner(self) -> R {
        self.inner
    }

    /// What was read ahead. Unlike
    /// [`fill_buf`](crate::AsyncBufReadExt::fill_buf) this never reads.
    ///
    /// ```
    /// # futures::executor::block_on(async {
    /// use blitzen_io::{AsyncReadExt, BufReader};
    /// let mut reader = BufReader::new(&b"abc"[..]);
    /// assert_eq!(reader.read_u8().await?, b'a');
    /// assert_eq!(reader.buffer(), b"bc");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
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

/// A seek empties the buffer, wherever it goes; one that fails leaves the
/// reader where it was. `SeekFrom::Current` counts from the next byte to be
/// read, not from how far the source has come.
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
            // Whatever goes wrong from here on ends the seek. The buffer is
            // emptied only when the source has moved.
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

/// The source's next move on the way to `wanted`, when it is `ahead` bytes
/// ahead of its reader.
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
