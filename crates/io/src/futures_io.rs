//! Adapters to and from the traits of the `futures-io` crate.
//!
//! ```
//! use blitzen::io::AsyncWriteExt;
//! use blitzen::io::futures_io::{FromFutures, ToFutures};
//! use futures::io::AsyncReadExt;
//!
//! # #[blitzen::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let (client, server) = blitzen::io::duplex(64);
//! FromFutures::new(ToFutures::new(client)).write_all(b"hello").await?;
//! let mut text = [0; 5];
//! ToFutures::new(server).read_exact(&mut text).await?;
//! assert_eq!(&text, b"hello");
//! # Ok(())
//! # }
//! ```

use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf, check};

macro_rules! accessors {
    ($name:ident) => {
        impl<T> $name<T> {
            /// Wraps `inner`.
            ///
            /// # Examples
            ///
            /// ```
            #[doc = concat!("use blitzen::io::futures_io::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(", stringify!($name), "::new(1).into_inner(), 1);")]
            /// ```
            pub fn new(inner: T) -> Self {
                Self {
                    inner,
                    seek: Default::default(),
                }
            }

            /// Returns a reference to the stream.
            ///
            /// # Examples
            ///
            /// ```
            #[doc = concat!("use blitzen::io::futures_io::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(", stringify!($name), "::new(1).get_ref(), &1);")]
            /// ```
            pub fn get_ref(&self) -> &T {
                &self.inner
            }

            /// Returns a mutable reference to the stream.
            ///
            /// # Examples
            ///
            /// ```
            #[doc = concat!("use blitzen::io::futures_io::", stringify!($name), ";")]
            #[doc = concat!("*", stringify!($name), "::new(1).get_mut() = 2;")]
            /// ```
            pub fn get_mut(&mut self) -> &mut T {
                &mut self.inner
            }

            /// Returns the stream.
            ///
            /// # Examples
            ///
            /// ```
            #[doc = concat!("use blitzen::io::futures_io::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(", stringify!($name), "::new(1).into_inner(), 1);")]
            /// ```
            pub fn into_inner(self) -> T {
                self.inner
            }
        }
    };
}

pin_project! {
    /// An adapter that implements the traits of `futures-io` for a stream of this
    /// crate.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::futures_io::ToFutures;
    /// use futures::io::AsyncReadExt;
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut text = String::new();
    /// ToFutures::new(&b"hello"[..]).read_to_string(&mut text).await?;
    /// assert_eq!(text, "hello");
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Debug)]
    pub struct ToFutures<T> {
        #[pin]
        inner: T,
        // The seek that was started.
        seek: Option<SeekFrom>,
    }
}

accessors!(ToFutures);

impl<T: AsyncRead> ::futures_io::AsyncRead for ToFutures<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        ready!(check::poll_read(self.project().inner, cx, &mut buf))?;
        Poll::Ready(Ok(buf.filled().len()))
    }
}

impl<T: AsyncBufRead> ::futures_io::AsyncBufRead for ToFutures<T> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.project().inner.poll_fill_buf(cx)
    }

    fn consume(self: Pin<&mut Self>, amt: usize) {
        self.project().inner.consume(amt);
    }
}

impl<T: AsyncWrite> ::futures_io::AsyncWrite for ToFutures<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.project().inner.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().inner.poll_write_vectored(cx, bufs)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().inner.poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().inner.poll_shutdown(cx)
    }
}

impl<T: AsyncSeek> ::futures_io::AsyncSeek for ToFutures<T> {
    fn poll_seek(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        position: SeekFrom,
    ) -> Poll<io::Result<u64>> {
        let mut this = self.project();
        // Whatever is in progress is completed first, such as a seek elsewhere that
        // was given up.
        if *this.seek != Some(position) {
            let ended = ready!(this.inner.as_mut().poll_complete(cx));
            *this.seek = None;
            ended?;
            this.inner.as_mut().start_seek(position)?;
            *this.seek = Some(position);
        }
        let ended = ready!(this.inner.poll_complete(cx));
        *this.seek = None;
        Poll::Ready(ended)
    }
}

pin_project! {
    /// An adapter that implements the traits of this crate for a stream of
    /// `futures-io`.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncReadExt;
    /// use blitzen::io::futures_io::FromFutures;
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut text = String::new();
    /// let reader = futures::io::Cursor::new(b"hello");
    /// FromFutures::new(reader).read_to_string(&mut text).await?;
    /// assert_eq!(text, "hello");
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Debug)]
    pub struct FromFutures<T> {
        #[pin]
        inner: T,
        seek: PendingSeek,
    }
}

accessors!(FromFutures);

/// The seek that was started, and the position after the last one.
#[derive(Debug, Default)]
struct PendingSeek {
    wanted: Option<SeekFrom>,
    position: u64,
}

impl<T: ::futures_io::AsyncRead> AsyncRead for FromFutures<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buf.initialize_unfilled();
        let amount = ready!(self.project().inner.poll_read(cx, room))?;
        buf.advance(amount);
        Poll::Ready(Ok(()))
    }
}

impl<T: ::futures_io::AsyncBufRead> AsyncBufRead for FromFutures<T> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.project().inner.poll_fill_buf(cx)
    }

    fn consume(self: Pin<&mut Self>, amt: usize) {
        self.project().inner.consume(amt);
    }
}

impl<T: ::futures_io::AsyncWrite> AsyncWrite for FromFutures<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.project().inner.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().inner.poll_write_vectored(cx, bufs)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().inner.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().inner.poll_close(cx)
    }
}

impl<T: ::futures_io::AsyncSeek> AsyncSeek for FromFutures<T> {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        self.project().seek.wanted = Some(position);
        Ok(())
    }

    /// Returns the position after the last seek if none was started.
    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let this = self.project();
        if let Some(wanted) = this.seek.wanted {
            let ended = ready!(this.inner.poll_seek(cx, wanted));
            this.seek.wanted = None;
            this.seek.position = ended?;
        }
        Poll::Ready(Ok(this.seek.position))
    }
}
