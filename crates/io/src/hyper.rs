//! An adapter to and from hyper's `rt::Read` and `rt::Write`.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ::hyper::rt;
use pin_project_lite::pin_project;

use crate::async_write::delegate_write;
use crate::{AsyncRead, AsyncWrite, ReadBuf, check};

pin_project! {
    /// An adapter that implements hyper's traits for a stream of this crate, and the
    /// traits of this crate for a stream of hyper.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::hyper::HyperIo;
    ///
    /// fn serve(_connection: impl hyper::rt::Read + hyper::rt::Write) {}
    ///
    /// let (stream, _peer) = blitzen::io::duplex(64);
    /// serve(HyperIo::new(stream));
    /// ```
    #[derive(Debug)]
    pub struct HyperIo<T> {
        #[pin]
        inner: T,
    }
}

impl<T> HyperIo<T> {
    /// Wraps `inner`.
    ///
    /// # Examples
    ///
    /// ```
    /// let io = blitzen::io::hyper::HyperIo::new(blitzen::io::empty());
    /// ```
    pub fn new(inner: T) -> Self {
        Self { inner }
    }

    /// Returns a reference to the stream.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(blitzen::io::hyper::HyperIo::new(1).get_ref(), &1);
    /// ```
    pub fn get_ref(&self) -> &T {
        &self.inner
    }

    /// Returns a mutable reference to the stream.
    ///
    /// # Examples
    ///
    /// ```
    /// *blitzen::io::hyper::HyperIo::new(1).get_mut() = 2;
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// Returns the stream.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(blitzen::io::hyper::HyperIo::new(1).into_inner(), 1);
    /// ```
    pub fn into_inner(self) -> T {
        self.inner
    }
}

impl<T: AsyncRead> rt::Read for HyperIo<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut cursor: rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // SAFETY: `ReadBuf` does not uninitialise what is initialised.
        let mut room = ReadBuf::uninit(unsafe { cursor.as_mut() });
        ready!(check::poll_read(self.project().inner, cx, &mut room))?;
        let amount = room.filled().len();
        // SAFETY: the room is the cursor's, and this much of it is filled.
        unsafe { cursor.advance(amount) };
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite> rt::Write for HyperIo<T> {
    delegate_write!(this => this.project().inner, this => this.inner);
}

impl<T: rt::Read> AsyncRead for HyperIo<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // SAFETY: hyper's buffer does not uninitialise what is initialised.
        let mut room = rt::ReadBuf::uninit(unsafe { buf.unfilled_mut() });
        ready!(self.project().inner.poll_read(cx, room.unfilled()))?;
        let amount = room.filled().len();
        // SAFETY: the reader was given a cursor, which cannot be pointed at
        // other memory; so this much of ours is filled.
        unsafe { buf.assume_init(amount) };
        buf.advance(amount);
        Poll::Ready(Ok(()))
    }
}

impl<T: rt::Write> AsyncWrite for HyperIo<T> {
    delegate_write!(this => this.project().inner, this => this.inner);
}
