//! `read_until`.

use std::future::Future;
use std::io;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use memchr::memchr;
use pin_project_lite::pin_project;

use crate::AsyncBufRead;
use crate::check::is_interrupted;

pin_project! {
    /// The future of [`AsyncBufReadExt::read_until`](crate::AsyncBufReadExt::read_until).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct ReadUntil<'a, R: ?Sized> {
        reader: &'a mut R,
        delimiter: u8,
        buf: &'a mut Vec<u8>,
        first_len: usize,
        #[pin]
        _pin: PhantomPinned,
    }
}

pub(super) fn read_until<'a, R>(
    reader: &'a mut R,
    delimiter: u8,
    buf: &'a mut Vec<u8>,
) -> ReadUntil<'a, R>
where
    R: AsyncBufRead + Unpin + ?Sized,
{
    ReadUntil {
        reader,
        delimiter,
        first_len: buf.len(),
        buf,
        _pin: PhantomPinned,
    }
}

impl<R: AsyncBufRead + Unpin + ?Sized> Future for ReadUntil<'_, R> {
    type Output = io::Result<usize>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let reader = Pin::new(&mut **this.reader);
        ready!(poll_read_until(reader, cx, *this.delimiter, this.buf))?;
        Poll::Ready(Ok(this.buf.len() - *this.first_len))
    }
}

/// Appends to `buf` up to and including `delimiter`, or to the end, and returns
/// whether the delimiter was found. Bytes that were consumed are always in `buf`.
pub(super) fn poll_read_until<R: AsyncBufRead + ?Sized>(
    mut reader: Pin<&mut R>,
    cx: &mut Context<'_>,
    delimiter: u8,
    buf: &mut Vec<u8>,
) -> Poll<io::Result<bool>> {
    loop {
        let available = match ready!(reader.as_mut().poll_fill_buf(cx)) {
            Ok(available) => available,
            Err(error) if is_interrupted(&error) => continue,
            Err(error) => return Poll::Ready(Err(error)),
        };
        if available.is_empty() {
            return Poll::Ready(Ok(false));
        }
        let found = memchr(delimiter, available);
        let amount = found.map_or(available.len(), |index| index + 1);
        buf.extend_from_slice(&available[..amount]);
        reader.as_mut().consume(amount);
        if found.is_some() {
            return Poll::Ready(Ok(true));
        }
    }
}
