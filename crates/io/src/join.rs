//! A reader and a writer as one stream.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::async_write::delegate_write;
use crate::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

pin_project! {
    /// A reader and a writer combined into one stream, created by [`join`].
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::{AsyncWriteExt, Empty, Join};
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut stream: Join<Empty, Vec<u8>> = blitzen::io::join(blitzen::io::empty(), Vec::new());
    /// stream.write_all(b"out").await?;
    /// assert_eq!(stream.writer(), b"out");
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Debug)]
    pub struct Join<R, W> {
        #[pin]
        reader: R,
        #[pin]
        writer: W,
    }
}

/// Combines `reader` and `writer` into one stream.
///
/// # Examples
///
/// ```
/// use blitzen::io::{AsyncReadExt, AsyncWriteExt};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut stream = blitzen::io::join(&b"in"[..], Vec::new());
/// stream.write_all(b"out").await?;
/// assert_eq!(stream.read_u8().await?, b'i');
/// assert_eq!(stream.into_inner(), (&b"n"[..], b"out".to_vec()));
/// # Ok(())
/// # }
/// ```
pub fn join<R, W>(reader: R, writer: W) -> Join<R, W>
where
    R: AsyncRead,
    W: AsyncWrite,
{
    Join { reader, writer }
}

impl<R, W> Join<R, W>
where
    R: AsyncRead,
    W: AsyncWrite,
{
    /// Returns the reader and the writer.
    ///
    /// # Examples
    ///
    /// ```
    /// let (reader, writer) = blitzen::io::join(blitzen::io::empty(), Vec::new()).into_inner();
    /// ```
    pub fn into_inner(self) -> (R, W) {
        (self.reader, self.writer)
    }

    /// Returns a reference to the reader.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(blitzen::io::join(&b"in"[..], Vec::new()).reader(), b"in");
    /// ```
    pub fn reader(&self) -> &R {
        &self.reader
    }

    /// Returns a reference to the writer.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(blitzen::io::join(&b"in"[..], Vec::new()).writer().is_empty());
    /// ```
    pub fn writer(&self) -> &W {
        &self.writer
    }

    /// Returns a mutable reference to the reader.
    ///
    /// # Examples
    ///
    /// ```
    /// *blitzen::io::join(&b"in"[..], Vec::new()).reader_mut() = b"";
    /// ```
    pub fn reader_mut(&mut self) -> &mut R {
        &mut self.reader
    }

    /// Returns a mutable reference to the writer.
    ///
    /// # Examples
    ///
    /// ```
    /// blitzen::io::join(&b"in"[..], Vec::new()).writer_mut().push(1);
    /// ```
    pub fn writer_mut(&mut self) -> &mut W {
        &mut self.writer
    }

    /// Returns a pinned mutable reference to the reader.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// assert_eq!(*pin!(blitzen::io::join(&b"in"[..], Vec::new())).reader_pin_mut(), b"in");
    /// ```
    pub fn reader_pin_mut(self: Pin<&mut Self>) -> Pin<&mut R> {
        self.project().reader
    }

    /// Returns a pinned mutable reference to the writer.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// pin!(blitzen::io::join(&b"in"[..], Vec::new())).writer_pin_mut().push(1);
    /// ```
    pub fn writer_pin_mut(self: Pin<&mut Self>) -> Pin<&mut W> {
        self.project().writer
    }
}

impl<R: AsyncRead, W> AsyncRead for Join<R, W> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.project().reader.poll_read(cx, buf)
    }
}

impl<R: AsyncBufRead, W> AsyncBufRead for Join<R, W> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.project().reader.poll_fill_buf(cx)
    }

    fn consume(self: Pin<&mut Self>, amt: usize) {
        self.project().reader.consume(amt);
    }
}

impl<R, W: AsyncWrite> AsyncWrite for Join<R, W> {
    delegate_write!(this => this.project().writer, this => this.writer);
}
