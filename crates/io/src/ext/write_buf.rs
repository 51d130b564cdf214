//! `write_buf` and `write_all_buf`.

use std::future::Future;
use std::io::{self, IoSlice};
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use pin_project_lite::pin_project;

use super::write_zero;
use crate::AsyncWrite;
use crate::async_write::total_len;
use crate::check::{is_interrupted, written};

/// The most slices of a buffer that a vectored writer is offered at once.
const MAX_SLICES: usize = 64;

/// Writes once, and advances `buf` by what was written.
fn poll_write_buf<W, B>(
    writer: Pin<&mut W>,
    cx: &mut Context<'_>,
    buf: &mut B,
) -> Poll<io::Result<usize>>
where
    W: AsyncWrite + ?Sized,
    B: Buf + ?Sized,
{
    let amount = if writer.is_write_vectored() {
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let count = buf.chunks_vectored(&mut slices);
        let slices = &slices[..count];
        let amount = ready!(writer.poll_write_vectored(cx, slices))?;
        written(amount, total_len(slices))
    } else {
        let chunk = buf.chunk();
        written(ready!(writer.poll_write(cx, chunk))?, chunk.len())
    };
    buf.advance(amount);
    Poll::Ready(Ok(amount))
}

pin_project! {
    /// The future of [`AsyncWriteExt::write_buf`](crate::AsyncWriteExt::write_buf).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct WriteBuf<'a, W: ?Sized, B> {
        writer: &'a mut W,
        buf: &'a mut B,
        #[pin]
        _pin: PhantomPinned,
    }
}

pub(super) fn write_buf<'a, W, B>(writer: &'a mut W, buf: &'a mut B) -> WriteBuf<'a, W, B>
where
    W: AsyncWrite + Unpin + ?Sized,
    B: Buf,
{
    WriteBuf {
        writer,
        buf,
        _pin: PhantomPinned,
    }
}

impl<W, B> Future for WriteBuf<'_, W, B>
where
    W: AsyncWrite + Unpin + ?Sized,
    B: Buf,
{
    type Output = io::Result<usize>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if !this.buf.has_remaining() {
            return Poll::Ready(Ok(0));
        }
        poll_write_buf(Pin::new(&mut **this.writer), cx, *this.buf)
    }
}

pin_project! {
    /// The future of [`AsyncWriteExt::write_all_buf`](crate::AsyncWriteExt::write_all_buf).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct WriteAllBuf<'a, W: ?Sized, B> {
        writer: &'a mut W,
        buf: &'a mut B,
        #[pin]
        _pin: PhantomPinned,
    }
}

pub(super) fn write_all_buf<'a, W, B>(writer: &'a mut W, buf: &'a mut B) -> WriteAllBuf<'a, W, B>
where
    W: AsyncWrite + Unpin + ?Sized,
    B: Buf,
{
    WriteAllBuf {
        writer,
        buf,
        _pin: PhantomPinned,
    }
}

impl<W, B> Future for WriteAllBuf<'_, W, B>
where
    W: AsyncWrite + Unpin + ?Sized,
    B: Buf,
{
    type Output = io::Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        while this.buf.has_remaining() {
            match ready!(poll_write_buf(Pin::new(&mut **this.writer), cx, *this.buf)) {
                Ok(0) => return Poll::Ready(Err(write_zero())),
                Ok(_) => {}
                Err(error) if is_interrupted(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }
}
