//! `read_buf`.

use std::future::Future;
use std::io;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BufMut;
use pin_project_lite::pin_project;

use crate::{AsyncRead, ReadBuf, check};

pin_project! {
    /// The future of [`AsyncReadExt::read_buf`](crate::AsyncReadExt::read_buf).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct ReadIntoBuf<'a, R: ?Sized, B: ?Sized> {
        reader: &'a mut R,
        buf: &'a mut B,
        #[pin]
        _pin: PhantomPinned,
    }
}

pub(super) fn read_buf<'a, R, B>(reader: &'a mut R, buf: &'a mut B) -> ReadIntoBuf<'a, R, B>
where
    R: AsyncRead + Unpin + ?Sized,
    B: BufMut + ?Sized,
{
    ReadIntoBuf {
        reader,
        buf,
        _pin: PhantomPinned,
    }
}

impl<R, B> Future for ReadIntoBuf<'_, R, B>
where
    R: AsyncRead + Unpin + ?Sized,
    B: BufMut + ?Sized,
{
    type Output = io::Result<usize>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if !this.buf.has_remaining_mut() {
            return Poll::Ready(Ok(0));
        }
        // SAFETY: `ReadBuf` does not uninitialise what is initialised.
        let chunk = unsafe { this.buf.chunk_mut().as_uninit_slice_mut() };
        let mut room = ReadBuf::uninit(chunk);
        ready!(check::poll_read(
            Pin::new(&mut **this.reader),
            cx,
            &mut room
        ))?;
        let amount = room.filled().len();
        // SAFETY: `room` is the chunk, and its first `amount` bytes are filled.
        unsafe { this.buf.advance_mut(amount) };
        Poll::Ready(Ok(amount))
    }
}
