//! `flush` and `shutdown`.

use std::future::Future;
use std::io;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::AsyncWrite;

pin_project! {
    /// The future of [`AsyncWriteExt::flush`](crate::AsyncWriteExt::flush).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct Flush<'a, W: ?Sized> {
        writer: &'a mut W,
        #[pin]
        _pin: PhantomPinned,
    }
}

pub(super) fn flush<W: AsyncWrite + Unpin + ?Sized>(writer: &mut W) -> Flush<'_, W> {
    Flush {
        writer,
        _pin: PhantomPinned,
    }
}

impl<W: AsyncWrite + Unpin + ?Sized> Future for Flush<'_, W> {
    type Output = io::Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut **self.project().writer).poll_flush(cx)
    }
}

pin_project! {
    /// The future of [`AsyncWriteExt::shutdown`](crate::AsyncWriteExt::shutdown).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct Shutdown<'a, W: ?Sized> {
        writer: &'a mut W,
        #[pin]
        _pin: PhantomPinned,
    }
}

pub(super) fn shutdown<W: AsyncWrite + Unpin + ?Sized>(writer: &mut W) -> Shutdown<'_, W> {
    Shutdown {
        writer,
        _pin: PhantomPinned,
    }
}

impl<W: AsyncWrite + Unpin + ?Sized> Future for Shutdown<'_, W> {
    type Output = io::Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut **self.project().writer).poll_shutdown(cx)
    }
}
