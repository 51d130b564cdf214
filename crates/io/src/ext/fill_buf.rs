//! `fill_buf`.

use std::future::Future;
use std::io;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::AsyncBufRead;

pin_project! {
    /// The future of [`AsyncBufReadExt::fill_buf`](crate::AsyncBufReadExt::fill_buf).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct FillBuf<'a, R: ?Sized> {
        // `None` once the buffer was returned.
        reader: Option<&'a mut R>,
        #[pin]
        _pin: PhantomPinned,
    }
}

pub(super) fn fill_buf<R>(reader: &mut R) -> FillBuf<'_, R>
where
    R: AsyncBufRead + Unpin + ?Sized,
{
    FillBuf {
        reader: Some(reader),
        _pin: PhantomPinned,
    }
}

impl<'a, R: AsyncBufRead + Unpin + ?Sized> Future for FillBuf<'a, R> {
    type Output = io::Result<&'a [u8]>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let reader = this.reader.take().expect("polled after completion");
        match Pin::new(&mut *reader).poll_fill_buf(cx) {
            Poll::Ready(Ok(bytes)) => {
                // SAFETY: `bytes` is borrowed from `*reader`, which nobody else may
                // use for 'a. The reference was taken out of the future and ends
                // here, so that nothing touches the reader for the rest of 'a.
                Poll::Ready(Ok(unsafe { std::mem::transmute::<&[u8], &'a [u8]>(bytes) }))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                *this.reader = Some(reader);
                Poll::Pending
            }
        }
    }
}
