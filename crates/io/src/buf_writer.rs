//! A writer with a buffer.

use std::fmt;
use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::async_write::total_len;
use crate::check::{is_interrupted, written};
use crate::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, DEFAULT_CAPACITY, ReadBuf};

pin_project! {
    /// A writer with a buffer: many small writes become few large ones.
    ///
    /// Bytes in the buffer are lost when the `BufWriter` is dropped or converted with
    /// [`into_inner`](Self::into_inner): call
    /// [`flush`](crate::AsyncWriteExt::flush) or
    /// [`shutdown`](crate::AsyncWriteExt::shutdown) first. A write that is at least
    /// as large as the buffer bypasses it, after the buffer was written.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::{AsyncWriteExt, BufWriter};
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut writer = BufWriter::new(Vec::new());
    /// writer.write_all(b"abc").await?;
    /// assert_eq!((writer.buffer(), writer.get_ref().len()), (&b"abc"[..], 0));
    /// writer.flush().await?;
    /// assert_eq!(writer.into_inner(), b"abc");
    /// # Ok(())
    /// # }
    /// ```
    pub struct BufWriter<W> {
        #[pin]
        pub(crate) inner: W,
        pub(crate) buffer: WriteBuffer,
        pub(crate) seek: WriterSeek,
    }
}

/// Bytes that were written to the buffer and not yet to the inner writer.
pub(crate) struct WriteBuffer {
    bytes: Vec<u8>,
    /// How many of `bytes` the inner writer has taken.
    written_len: usize,
    /// The capacity that was asked for; `bytes` may have more.
    capacity: usize,
}

/// How far a seek has come.
#[derive(Debug)]
pub(crate) enum WriterSeek {
    Idle,
    /// Requested; the buffer has to be written first.
    Wanted(SeekFrom),
    /// The inner writer moves to the requested position.
    Moving,
}

impl<W: AsyncWrite> BufWriter<W> {
    /// Creates a `BufWriter` with a buffer of 8 KiB.
    ///
    /// # Examples
    ///
    /// ```
    /// let writer = blitzen::io::BufWriter::new(Vec::new());
    /// assert!(writer.buffer().is_empty());
    /// ```
    pub fn new(inner: W) -> Self {
        Self::with_capacity(DEFAULT_CAPACITY, inner)
    }

    /// Creates a `BufWriter` with a buffer of `capacity` bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// let writer = blitzen::io::BufWriter::with_capacity(64, Vec::new());
    /// assert!(writer.buffer().is_empty());
    /// ```
    pub fn with_capacity(capacity: usize, inner: W) -> Self {
        Self {
            inner,
            buffer: WriteBuffer {
                bytes: Vec::with_capacity(capacity),
                written_len: 0,
                capacity,
            },
            seek: WriterSeek::Idle,
        }
    }

    /// Returns a reference to the inner writer.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(blitzen::io::BufWriter::new(Vec::new()).get_ref().is_empty());
    /// ```
    pub fn get_ref(&self) -> &W {
        &self.inner
    }

    /// Returns a mutable reference to the inner writer.
    ///
    /// Bytes written to it directly overtake those in the buffer.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut writer = blitzen::io::BufWriter::new(Vec::new());
    /// writer.get_mut().push(1);
    /// assert_eq!(writer.get_ref(), &[1]);
    /// ```
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.inner
    }

    /// Returns a pinned mutable reference to the inner writer.
    ///
    /// Bytes written to it directly overtake those in the buffer.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// let writer = pin!(blitzen::io::BufWriter::new(Vec::new()));
    /// writer.get_pin_mut().push(1);
    /// ```
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut W> {
        self.project().inner
    }

    /// Returns the inner writer. Bytes in the buffer are lost.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(blitzen::io::BufWriter::new(Vec::new()).into_inner().is_empty());
    /// ```
    pub fn into_inner(self) -> W {
        self.inner
    }

    /// Returns the bytes in the buffer that were not written to the inner writer
    /// yet.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use blitzen::io::{AsyncWriteExt, BufWriter};
    /// let mut writer = BufWriter::new(Vec::new());
    /// writer.write_all(b"abc").await?;
    /// assert_eq!(writer.buffer(), b"abc");
    /// # Ok(())
    /// # }
    /// ```
    pub fn buffer(&self) -> &[u8] {
        &self.buffer.bytes[self.buffer.written_len..]
    }
}

impl WriteBuffer {
    #[inline]
    fn room(&self) -> usize {
        self.capacity - self.bytes.len()
    }

    #[inline]
    fn fits(&self, amount: usize) -> bool {
        amount <= self.room()
    }

    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        debug_assert!(self.fits(bytes.len()));
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes what does not fit, or fills the buffer: the buffer first, and then
    /// `buf`, past the buffer if it is large.
    fn poll_write_full<W: AsyncWrite>(
        &mut self,
        mut sink: Pin<&mut W>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.fits(buf.len()) {
            ready!(self.poll_flush_buffer(sink.as_mut(), cx))?;
        }
        if buf.len() >= self.capacity {
            return sink.poll_write(cx, buf);
        }
        self.push(buf);
        Poll::Ready(Ok(buf.len()))
    }

    /// Writes the buffer to `sink`. A later call continues where this one stopped.
    fn poll_flush_buffer<W: AsyncWrite>(
        &mut self,
        mut sink: Pin<&mut W>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.written_len < self.bytes.len() {
            let rest = &self.bytes[self.written_len..];
            match ready!(sink.as_mut().poll_write(cx, rest)) {
                Ok(0) => {
                    return Poll::Ready(Err(io::Error::new(
                        io::ErrorKind::WriteZero,
                        "the writer accepts no more of the buffered bytes",
                    )));
                }
                Ok(amount) => self.written_len += written(amount, rest.len()),
                Err(error) if is_interrupted(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.bytes.clear();
        self.written_len = 0;
        Poll::Ready(Ok(()))
    }
}

impl<W: AsyncWrite> AsyncWrite for BufWriter<W> {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        // A write that leaves room is also smaller than the buffer: one comparison.
        if buf.len() < this.buffer.room() {
            this.buffer.push(buf);
            return Poll::Ready(Ok(buf.len()));
        }
        this.buffer.poll_write_full(this.inner, cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut this = self.project();
        if this.inner.is_write_vectored() {
            // Large batches bypass the buffer, as large writes do.
            let total = total_len(bufs);
            if !this.buffer.fits(total) {
                ready!(this.buffer.poll_flush_buffer(this.inner.as_mut(), cx))?;
            }
            if total >= this.buffer.capacity {
                return this.inner.poll_write_vectored(cx, bufs);
            }
            bufs.iter().for_each(|buf| this.buffer.push(buf));
            return Poll::Ready(Ok(total));
        }

        let mut bufs = bufs.iter().filter(|buf| !buf.is_empty()).peekable();
        let Some(first) = bufs.peek() else {
            return Poll::Ready(Ok(0));
        };
        if !this.buffer.fits(first.len()) {
            ready!(this.buffer.poll_flush_buffer(this.inner.as_mut(), cx))?;
        }
        if first.len() >= this.buffer.capacity {
            return this.inner.poll_write(cx, first);
        }
        let mut total = 0;
        while let Some(buf) = bufs.next_if(|buf| this.buffer.fits(buf.len())) {
            this.buffer.push(buf);
            total += buf.len();
        }
        Poll::Ready(Ok(total))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut this = self.project();
        ready!(this.buffer.poll_flush_buffer(this.inner.as_mut(), cx))?;
        this.inner.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut this = self.project();
        ready!(this.buffer.poll_flush_buffer(this.inner.as_mut(), cx))?;
        this.inner.poll_shutdown(cx)
    }
}

/// A seek first writes the buffer.
impl<W: AsyncWrite + AsyncSeek> AsyncSeek for BufWriter<W> {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        let this = self.project();
        match this.seek {
            WriterSeek::Idle | WriterSeek::Wanted(_) => {
                *this.seek = WriterSeek::Wanted(position);
                Ok(())
            }
            WriterSeek::Moving => Err(io::Error::other(
                "a seek is under way: wait for it with poll_complete first",
            )),
        }
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let mut this = self.project();
        let position = ready!(poll_seek(this.inner.as_mut(), this.buffer, this.seek, cx));
        // The seek is over, whether it failed or not.
        *this.seek = WriterSeek::Idle;
        Poll::Ready(position)
    }
}

fn poll_seek<W: AsyncWrite + AsyncSeek>(
    mut sink: Pin<&mut W>,
    buffer: &mut WriteBuffer,
    seek: &mut WriterSeek,
    cx: &mut Context<'_>,
) -> Poll<io::Result<u64>> {
    if let WriterSeek::Wanted(position) = *seek {
        ready!(buffer.poll_flush_buffer(sink.as_mut(), cx))?;
        // The inner writer may still be busy with the last write.
        ready!(sink.as_mut().poll_complete(cx))?;
        sink.as_mut().start_seek(position)?;
        *seek = WriterSeek::Moving;
    }
    sink.poll_complete(cx)
}

impl<W: AsyncWrite + AsyncRead> AsyncRead for BufWriter<W> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.get_pin_mut().poll_read(cx, buf)
    }
}

impl<W: AsyncWrite + AsyncBufRead> AsyncBufRead for BufWriter<W> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.get_pin_mut().poll_fill_buf(cx)
    }

    fn consume(self: Pin<&mut Self>, amt: usize) {
        self.get_pin_mut().consume(amt);
    }
}

impl<W: fmt::Debug> fmt::Debug for BufWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufWriter")
            .field("writer", &self.inner)
            .field("buffer", &self.buffer)
            .finish()
    }
}

/// Shows `pending/capacity`, and not the bytes.
impl fmt::Debug for WriteBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}",
            self.bytes.len() - self.written_len,
            self.capacity
        )
    }
}
