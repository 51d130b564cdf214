//! A stream with a buffer for each direction.

use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::async_write::delegate_write;
use crate::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, BufReader, BufWriter, ReadBuf};

pin_project! {
    /// A stream with a buffer for reading and one for writing: a [`BufReader`] and a
    /// [`BufWriter`] in one.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let (near, far) = blitzen::io::duplex(64);
    /// let (mut near, mut far) = (BufStream::new(near), BufStream::new(far));
    /// near.write_all(b"hello\n").await?;
    /// near.flush().await?;
    /// let mut line = String::new();
    /// far.read_line(&mut line).await?;
    /// assert_eq!(line, "hello\n");
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Debug)]
    pub struct BufStream<RW> {
        #[pin]
        inner: BufReader<BufWriter<RW>>,
    }
}

impl<RW: AsyncRead + AsyncWrite> BufStream<RW> {
    /// Creates a `BufStream` with two buffers of 8 KiB.
    ///
    /// # Examples
    ///
    /// ```
    /// let stream = blitzen::io::BufStream::new(blitzen::io::duplex(8).0);
    /// ```
    pub fn new(stream: RW) -> BufStream<RW> {
        BufStream {
            inner: BufReader::new(BufWriter::new(stream)),
        }
    }

    /// Creates a `BufStream` with buffers of `reader_capacity` and `writer_capacity`
    /// bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// let stream = blitzen::io::BufStream::with_capacity(64, 32, blitzen::io::duplex(8).0);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `reader_capacity` is zero.
    #[track_caller]
    pub fn with_capacity(
        reader_capacity: usize,
        writer_capacity: usize,
        stream: RW,
    ) -> BufStream<RW> {
        let writer = BufWriter::with_capacity(writer_capacity, stream);
        BufStream {
            inner: BufReader::with_capacity(reader_capacity, writer),
        }
    }

    /// Returns a reference to the inner stream.
    ///
    /// # Examples
    ///
    /// ```
    /// let stream = blitzen::io::BufStream::new(std::io::Cursor::new(vec![1]));
    /// assert_eq!(stream.get_ref().get_ref(), &[1]);
    /// ```
    pub fn get_ref(&self) -> &RW {
        self.inner.get_ref().get_ref()
    }

    /// Returns a mutable reference to the inner stream.
    ///
    /// Reading from it or writing to it directly bypasses the buffers.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut stream = blitzen::io::BufStream::new(std::io::Cursor::new(vec![1]));
    /// stream.get_mut().set_position(1);
    /// ```
    pub fn get_mut(&mut self) -> &mut RW {
        self.inner.get_mut().get_mut()
    }

    /// Returns a pinned mutable reference to the inner stream.
    ///
    /// Reading from it or writing to it directly bypasses the buffers.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// let stream = pin!(blitzen::io::BufStream::new(std::io::Cursor::new(vec![1])));
    /// stream.get_pin_mut().set_position(1);
    /// ```
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut RW> {
        self.project().inner.get_pin_mut().get_pin_mut()
    }

    /// Returns the inner stream. Bytes in the buffers are lost.
    ///
    /// # Examples
    ///
    /// ```
    /// let stream = blitzen::io::BufStream::new(std::io::Cursor::new(vec![1]));
    /// assert_eq!(stream.into_inner().into_inner(), [1]);
    /// ```
    pub fn into_inner(self) -> RW {
        self.inner.into_inner().into_inner()
    }
}

impl<RW> From<BufReader<BufWriter<RW>>> for BufStream<RW> {
    fn from(inner: BufReader<BufWriter<RW>>) -> Self {
        BufStream { inner }
    }
}

/// The buffers change places. Nothing in them is lost.
impl<RW> From<BufWriter<BufReader<RW>>> for BufStream<RW> {
    fn from(writer: BufWriter<BufReader<RW>>) -> Self {
        let BufWriter {
            inner: reader,
            buffer: write_buffer,
            seek: writer_seek,
        } = writer;
        let BufReader {
            inner,
            buffer,
            seek: reader_seek,
        } = reader;
        BufStream {
            inner: BufReader {
                inner: BufWriter {
                    inner,
                    buffer: write_buffer,
                    seek: writer_seek,
                },
                buffer,
                seek: reader_seek,
            },
        }
    }
}

impl<RW: AsyncRead + AsyncWrite> AsyncRead for BufStream<RW> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.project().inner.poll_read(cx, buf)
    }
}

impl<RW: AsyncRead + AsyncWrite> AsyncBufRead for BufStream<RW> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.project().inner.poll_fill_buf(cx)
    }

    fn consume(self: Pin<&mut Self>, amt: usize) {
        self.project().inner.consume(amt);
    }
}

impl<RW: AsyncRead + AsyncWrite> AsyncWrite for BufStream<RW> {
    delegate_write!(this => this.project().inner, this => this.inner);
}

impl<RW: AsyncRead + AsyncWrite + AsyncSeek> AsyncSeek for BufStream<RW> {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        self.project().inner.start_seek(position)
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        self.project().inner.poll_complete(cx)
    }
}
