//! A stream with a buffer for each direction.

use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::async_write::delegate_write;
use crate::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, BufReader, BufWriter, ReadBuf};

pin_project! {
    /// A [`BufReader`] and a [`BufWriter`] around one stream.
    ///
    /// ```
    /// use blitzen_io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
    ///
    /// # futures::executor::block_on(async {
    /// let (near, far) = blitzen_io::duplex(64);
    /// let (mut near, mut far) = (BufStream::new(near), BufStream::new(far));
    /// near.write_all(b"hello\n").await?;
    /// near.flush().await?;
    /// let mut line = String::new();
    /// far.read_line(&mut line).await?;
    /// assert_eq!(line, "hello\n");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    #[derive(Debug)]
    pub struct BufStream<RW> {
        #[pin]
        inner: BufReader<BufWriter<RW>>,
    }
}

impl<RW: AsyncRead + AsyncWrite> BufStream<RW> {
    /// Puts two buffers of 8 KiB in front of `stream`.
    ///
    /// ```
    /// let stream = blitzen_io::BufStream::new(blitzen_io::duplex(8).0);
    /// ```
    pub fn new(stream: RW) -> BufStream<RW> {
        BufStream {
            inner: BufReader::new(BufWriter::new(stream)),
        }
    }

    /// Puts buffers of the given capacities in front of `stream`.
    ///
    /// # Panics
    /// If the reader's capacity is zero.
    ///
    /// ```
    /// let stream = blitzen_io::BufStream::with_capacity(64, 32, blitzen_io::duplex(8).0);
    /// ```
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

    /// The stream, without its buffers.
    ///
    /// ```
    /// let stream = blitzen_io::BufStream::new(std::io::Cursor::new(vec![1]));
    /// assert_eq!(stream.get_ref().get_ref(), &[1]);
    /// ```
    pub fn get_ref(&self) -> &RW {
        self.inner.get_ref().get_ref()
    }

    /// The stream, without its buffers, to change it.
    ///
    /// ```
    /// let mut stream = blitzen_io::BufStream::new(std::io::Cursor::new(vec![1]));
    /// stream.get_mut().set_position(1);
    /// ```
    pub fn get_mut(&mut self) -> &mut RW {
        self.inner.get_mut().get_mut()
    }

    /// The stream, without its buffers, pinned.
    ///
    /// ```
    /// use std::pin::pin;
    /// let stream = pin!(blitzen_io::BufStream::new(std::io::Cursor::new(vec![1])));
    /// stream.get_pin_mut().set_position(1);
    /// ```
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut RW> {
        self.project().inner.get_pin_mut().get_pin_mut()
    }

    /// The stream; what is in the buffers is lost.
    ///
    /// ```
    /// let stream = blitzen_io::BufStream::new(std::io::Cursor::new(vec![1]));
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

/// The buffers change places; nothing in them is lost.
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
