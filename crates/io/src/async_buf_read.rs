//! The trait of readers with a buffer.

use std::io::{self, Cursor};
use std::ops::DerefMut;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::AsyncRead;
use crate::async_read::cursor_rest;

/// A source of bytes with a buffer of its own, which it lends to its users.
///
/// [`AsyncBufReadExt`](crate::AsyncBufReadExt) has the methods to call.
/// [`BufReader`](crate::BufReader) adds a buffer to any [`AsyncRead`].
///
/// # Examples
///
/// ```
/// use std::pin::Pin;
/// use std::task::{Context, Poll, Waker};
/// use blitzen::io::AsyncBufRead;
///
/// let mut source: &[u8] = b"abc";
/// let mut cx = Context::from_waker(Waker::noop());
/// let mut source = Pin::new(&mut source);
/// let Poll::Ready(Ok(seen)) = source.as_mut().poll_fill_buf(&mut cx) else { panic!() };
/// assert_eq!(seen, b"abc");
/// source.as_mut().consume(2);
/// assert_eq!(*source, b"c");
/// ```
pub trait AsyncBufRead: AsyncRead {
    /// Attempts to return the unread bytes of the buffer, filling it first if there
    /// are none.
    ///
    /// An empty slice means that the source has ended. Returns `Poll::Pending` if
    /// there is nothing to read yet; the task of `cx` is woken when it should try
    /// again.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::Pin;
    /// use std::task::{Context, Poll, Waker};
    /// use blitzen::io::{AsyncBufRead, BufReader};
    ///
    /// let mut reader = BufReader::new(&b"abc"[..]);
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let polled = Pin::new(&mut reader).poll_fill_buf(&mut cx);
    /// assert!(matches!(polled, Poll::Ready(Ok(b"abc"))));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of the source, such as that of `read(2)`.
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>>;

    /// Marks the first `amt` bytes of the buffer as read.
    ///
    /// `amt` must not exceed the length of what the last
    /// [`poll_fill_buf`](Self::poll_fill_buf) returned.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::Pin;
    /// use blitzen::io::AsyncBufRead;
    ///
    /// let mut reader: &[u8] = b"abc";
    /// Pin::new(&mut reader).consume(2);
    /// assert_eq!(reader, b"c");
    /// ```
    fn consume(self: Pin<&mut Self>, amt: usize);
}

impl<T: ?Sized + AsyncBufRead + Unpin> AsyncBufRead for Box<T> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        Pin::new(&mut **self.get_mut()).poll_fill_buf(cx)
    }

    fn consume(mut self: Pin<&mut Self>, amt: usize) {
        Pin::new(&mut **self).consume(amt);
    }
}

impl<T: ?Sized + AsyncBufRead + Unpin> AsyncBufRead for &mut T {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        Pin::new(&mut **self.get_mut()).poll_fill_buf(cx)
    }

    fn consume(mut self: Pin<&mut Self>, amt: usize) {
        Pin::new(&mut **self).consume(amt);
    }
}

impl<P> AsyncBufRead for Pin<P>
where
    P: DerefMut,
    P::Target: AsyncBufRead,
{
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.as_deref_mut().poll_fill_buf(cx)
    }

    fn consume(self: Pin<&mut Self>, amt: usize) {
        self.as_deref_mut().consume(amt);
    }
}

impl AsyncBufRead for &[u8] {
    fn poll_fill_buf(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        Poll::Ready(Ok(*self))
    }

    fn consume(mut self: Pin<&mut Self>, amt: usize) {
        *self = &self[amt..];
    }
}

impl<T: AsRef<[u8]> + Unpin> AsyncBufRead for Cursor<T> {
    fn poll_fill_buf(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        Poll::Ready(Ok(cursor_rest(self.get_mut())))
    }

    fn consume(mut self: Pin<&mut Self>, amt: usize) {
        let position = self.position() + amt as u64;
        self.set_position(position);
    }
}
