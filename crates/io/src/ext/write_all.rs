//! `write_all`.

use std::future::Future;
use std::io;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::write_zero;
use crate::AsyncWrite;
use crate::check::{is_interrupted, written};

pin_project! {
    /// The future of [`AsyncWriteExt::write_all`](crate::AsyncWriteExt::write_all).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct WriteAll<'a, W: ?Sized> {
        writer: &'a mut W,
        rest: &'a [u8],
        #[pin]
        _pin: PhantomPinned,
    }
}

pub(super) fn write_all<'a, W>(writer: &'a mut W, buf: &'a [u8]) -> WriteAll<'a, W>
where
    W: AsyncWrite + Unpin + ?Sized,
{
    WriteAll {
        writer,
        rest: buf,
        _pin: PhantomPinned,
    }
}

impl<W: AsyncWrite + Unpin + ?Sized> Future for WriteAll<'_, W> {
    type Output = io::Result<()>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut writer = Pin::new(&mut **this.writer);
        while !this.rest.is_empty() {
            match ready!(writer.as_mut().poll_write(cx, this.rest)) {
                Ok(0) => return Poll::Ready(Err(write_zero())),
                Ok(amount) => *this.rest = &this.rest[written(amount, this.rest.len())..],
                Err(error) if is_interrupted(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }
}
