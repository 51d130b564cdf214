//! The trait of sources of bytes.

use std::io::{self, Cursor};
use std::ops::DerefMut;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::ReadBuf;

/// A source of bytes that a task can wait for.
///
/// Streams implement this trait; their users call the methods of
/// [`AsyncReadExt`](crate::AsyncReadExt).
///
/// # Examples
///
/// ```
/// use std::io;
/// use std::pin::Pin;
/// use std::task::{Context, Poll};
/// use blitzen::io::{AsyncRead, AsyncReadExt, ReadBuf};
///
/// /// Counts upwards for ever.
/// struct Counter(u8);
///
/// impl AsyncRead for Counter {
///     fn poll_read(
///         mut self: Pin<&mut Self>,
///         _cx: &mut Context<'_>,
///         buf: &mut ReadBuf<'_>,
///     ) -> Poll<io::Result<()>> {
///         while buf.remaining() > 0 {
///             buf.put_slice(&[self.0]);
///             self.0 = self.0.wrapping_add(1);
///         }
///         Poll::Ready(Ok(()))
///     }
/// }
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut bytes = [0; 4];
/// Counter(7).read_exact(&mut bytes).await?;
/// assert_eq!(bytes, [7, 8, 9, 10]);
/// # Ok(())
/// # }
/// ```
pub trait AsyncRead {
    /// Attempts to read into the unfilled part of `buf`.
    ///
    /// Returns:
    ///
    /// * `Poll::Ready(Ok(()))` when the bytes that were read have been appended to
    ///   `buf`. If `buf` had room and nothing was appended, the source has ended.
    /// * `Poll::Pending` when there is nothing to read yet. Nothing was read, and
    ///   the task of `cx` is woken when it should try again.
    /// * `Poll::Ready(Err(error))` when the source failed. Nothing was read.
    ///
    /// An implementation must not put another buffer in the place of `buf`: the
    /// readers of this crate panic if it does.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::Pin;
    /// use std::task::{Context, Poll, Waker};
    /// use blitzen::io::{AsyncRead, ReadBuf};
    ///
    /// let mut reader: &[u8] = b"hello";
    /// let mut storage = [0; 4];
    /// let mut buf = ReadBuf::new(&mut storage);
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let polled = Pin::new(&mut reader).poll_read(&mut cx, &mut buf);
    /// assert!(matches!(polled, Poll::Ready(Ok(()))));
    /// assert_eq!(buf.filled(), b"hell");
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of the source, such as that of `read(2)`.
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>>;
}

impl<T: ?Sized + AsyncRead + Unpin> AsyncRead for Box<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut **self).poll_read(cx, buf)
    }
}

impl<T: ?Sized + AsyncRead + Unpin> AsyncRead for &mut T {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut **self).poll_read(cx, buf)
    }
}

impl<P> AsyncRead for Pin<P>
where
    P: DerefMut,
    P::Target: AsyncRead,
{
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.as_deref_mut().poll_read(cx, buf)
    }
}

impl AsyncRead for &[u8] {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (now, later) = self.split_at(self.len().min(buf.remaining()));
        buf.put_slice(now);
        *self = later;
        Poll::Ready(Ok(()))
    }
}

impl<T: AsRef<[u8]> + Unpin> AsyncRead for Cursor<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let rest = cursor_rest(&self);
        let now = &rest[..rest.len().min(buf.remaining())];
        buf.put_slice(now);
        let position = self.position() + now.len() as u64;
        self.set_position(position);
        Poll::Ready(Ok(()))
    }
}

/// Returns what lies behind the cursor; nothing if it is beyond the end.
pub(crate) fn cursor_rest<T: AsRef<[u8]>>(cursor: &Cursor<T>) -> &[u8] {
    let bytes = cursor.get_ref().as_ref();
    let start = usize::try_from(cursor.position()).unwrap_or(usize::MAX);
    &bytes[start.min(bytes.len())..]
}
