//! Reading bytes into a buffer the caller owns.

use std::io::{self, Cursor};
use std::ops::DerefMut;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::ReadBuf;

/// A source of bytes.
///
/// This is what a stream implements; [`AsyncReadExt`](crate::AsyncReadExt) is
/// what its users call.
///
/// ```
/// use std::io;
/// use std::pin::Pin;
/// use std::task::{Context, Poll};
/// use blitzen_io::{AsyncRead, AsyncReadExt, ReadBuf};
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
/// # futures::executor::block_on(async {
/// let mut bytes = [0; 4];
/// Counter(7).read_exact(&mut bytes).await?;
/// assert_eq!(bytes, [7, 8, 9, 10]);
/// # io::Result::Ok(())
/// # }).unwrap();
/// ```
pub trait AsyncRead {
    /// Reads into the unfilled part of `buf`.
    ///
    /// * `Ready(Ok(()))`: what was read has been appended to `buf`. If nothing
    ///   was, although there was room, the source has ended.
    /// * `Pending`: nothing was read, and the task will be woken when it is
    ///   worth trying again.
    /// * `Ready(Err(e))`: nothing was read.
    ///
    /// An implementation fills the buffer it was given and never puts another
    /// in its place.
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

/// What lies behind the cursor; nothing if it stands beyond the end.
pub(crate) fn cursor_rest<T: AsRef<[u8]>>(cursor: &Cursor<T>) -> &[u8] {
    let bytes = cursor.get_ref().as_ref();
    let start = usize::try_from(cursor.position()).unwrap_or(usize::MAX);
    &bytes[start.min(bytes.len())..]
}
