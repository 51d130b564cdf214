//! Adapters to and from the traits of the `futures-io` crate.
//!
//! ```
//! use blitzen_io::AsyncWriteExt;
//! use blitzen_io::futures_io::{FromFutures, ToFutures};
//! use futures::io::AsyncReadExt;
//!
//! # futures::executor::block_on(async {
//! let (near, far) = blitzen_io::duplex(64);
//! FromFutures::new(ToFutures::new(near)).write_all(b"hello").await?;
//! let mut text = [0; 5];
//! ToFutures::new(far).read_exact(&mut text).await?;
//! assert_eq!(&text, b"hello");
//! # std::io::Result::Ok(())
//! # }).unwrap();
//! ```

use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf, check};

macro_rules! accessors {
    ($name:ident) => {
        impl<T> $name<T> {
            /// Wraps a stream.
            ///
            /// ```
            #[doc = concat!("use blitzen_io::futures_io::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(", stringify!($name), "::new(1).into_inner(), 1);")]
            /// ```
            pub fn new(inner: T) -> Self {
                Self {
                    inner,
                    seek: Default::default(),
                }
            }

            /// The stream.
            ///
            /// ```
            #[doc = concat!("use blitzen_io::futures_io::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(", stringify!($name), "::new(1).get_ref(), &1);")]
            /// ```
            pub fn get_ref(&self) -> &T {
                &self.inner
            }

            /// The stream, to change it.
            ///
            /// ```
            #[doc = concat!("use blitzen_io::futures_io::", stringify!($name), ";")]
            #[doc = concat!("*", stringify!($name), "::new(1).get_mut() = 2;")]
            /// ```
            pub fn get_mut(&mut self) -> &mut T {
                &mut self.inner
            }

            /// The stream.
            ///
            /// ```
            #[doc = concat!("use blitzen_io::futures_io::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(", stringify!($name), "::new(1).into_inner(), 1);")]
            /// ```
            pub fn into_inner(self) -> T {
                self.inner
            }
        }
    };
}

pin_project! {
    /// Gives a stream with our traits those of `futures-io`.
    ///
    /// ```
    /// use blitzen_io::futures_io::ToFutures;
    /// use futures::io::AsyncReadExt;
    ///
    /// # futures::executor::block_on(async {
    /// let mut text = String::new();
    /// ToFutures::new(&b"hello"[..]).read_to_string(&mut text).await?;
    /// assert_eq!(text, "hello");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    #[derive(Debug)]
    pub struct ToFutures<T> {
        #[pin]
        inner: T,
        // The seek that has been started.
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
        // A seek to somewhere else that was given up, and whatever else is
        // under way, ends first.
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
    /// Gives a stream with the traits of `futures-io` ours.
    ///
    /// ```
    /// use blitzen_io::AsyncReadExt;
    /// use blitzen_io::futures_io::FromFutures;
    ///
    /// # futures::executor::block_on(async {
    /// let mut text = String::new();
    /// let reader = futures::io::Cursor::new(b"hello");
    /// FromFutures::new(reader).read_to_string(&mut text).await?;
    /// assert_eq!(text, "hello");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    #[derive(Debug)]
    pub struct FromFutures<T> {
        #[pin]
        inner: T,
        seek: PendingSeek,
    }
}

accessors!(FromFutures);

/// The seek under way, and where the last one led.
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

    /// Without a seek under way, where the last one led.
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
