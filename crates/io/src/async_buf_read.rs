//! Reading from a buffer the source owns.

use std::io::{self, Cursor};
use std::ops::DerefMut;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::AsyncRead;
use crate::async_read::cursor_rest;

/// A source of bytes that has a buffer of its own, and lends it.
///
/// [`AsyncBufReadExt`](crate::AsyncBufReadExt) has the methods to call, and
/// [`BufReader`](crate::BufReader) makes one of any [`AsyncRead`].
///
/// ```
/// use std::pin::Pin;
/// use std::task::{Context, Poll, Waker};
/// use blitzen_io::AsyncBufRead;
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
    /// The unread part of the buffer, filled first if there is none.
    ///
    /// An empty slice is the end of the source. `Pending` means that the task
    /// will be woken when it is worth trying again.
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>>;

    /// Marks the first `amt` bytes of the buffer as read.
    ///
    /// `amt` is at most the length of what the last
    /// [`poll_fill_buf`](Self::poll_fill_buf) returned.
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
