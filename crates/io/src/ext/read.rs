//! `read`.

use std::future::Future;
use std::io;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::{AsyncRead, ReadBuf, check};

pin_project! {
    /// The future of [`AsyncReadExt::read`](crate::AsyncReadExt::read).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct Read<'a, R: ?Sized> {
        reader: &'a mut R,
        buf: &'a mut [u8],
        #[pin]
        _pin: PhantomPinned,
    }
}

pub(super) fn read<'a, R>(reader: &'a mut R, buf: &'a mut [u8]) -> Read<'a, R>
where
    R: AsyncRead + Unpin + ?Sized,
{
    Read {
        reader,
        buf,
        _pin: PhantomPinned,
    }
}

impl<R: AsyncRead + Unpin + ?Sized> Future for Read<'_, R> {
    type Output = io::Result<usize>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut buf = ReadBuf::new(this.buf);
        ready!(check::poll_read(Pin::new(&mut **this.reader), cx, &mut buf))?;
        Poll::Ready(Ok(buf.filled().len()))
    }
}
