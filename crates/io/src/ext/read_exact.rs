//! `read_exact`.

use std::future::Future;
use std::io;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::early_eof;
use crate::check::is_interrupted;
use crate::{AsyncRead, ReadBuf, check};

pin_project! {
    /// The future of [`AsyncReadExt::read_exact`](crate::AsyncReadExt::read_exact).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct ReadExact<'a, R: ?Sized> {
        reader: &'a mut R,
        buf: ReadBuf<'a>,
        #[pin]
        _pin: PhantomPinned,
    }
}

pub(super) fn read_exact<'a, R>(reader: &'a mut R, buf: &'a mut [u8]) -> ReadExact<'a, R>
where
    R: AsyncRead + Unpin + ?Sized,
{
    ReadExact {
        reader,
        buf: ReadBuf::new(buf),
        _pin: PhantomPinned,
    }
}

impl<R: AsyncRead + Unpin + ?Sized> Future for ReadExact<'_, R> {
    type Output = io::Result<usize>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        ready!(poll_fill(Pin::new(&mut **this.reader), cx, this.buf))?;
        Poll::Ready(Ok(this.buf.capacity()))
    }
}

/// Reads until `buf` is full; what has been read stays in it.
#[inline]
pub(super) fn poll_fill<R: AsyncRead + ?Sized>(
    mut reader: Pin<&mut R>,
    cx: &mut Context<'_>,
    buf: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    while buf.remaining() > 0 {
        let before = buf.remaining();
        match ready!(check::poll_read(reader.as_mut(), cx, buf)) {
            Ok(()) if buf.remaining() == before => return Poll::Ready(Err(early_eof())),
            Ok(()) => {}
            Err(error) if is_interrupted(&error) => {}
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
    Poll::Ready(Ok(()))
}
