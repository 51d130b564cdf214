//! Room for everything.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;

use crate::AsyncWrite;
use crate::async_write::total_len;

/// A writer that keeps nothing: see [`sink`].
#[non_exhaustive]
pub struct Sink;

/// A writer that takes everything and keeps nothing.
///
/// ```
/// use blitzen_io::AsyncWriteExt;
///
/// # futures::executor::block_on(async {
/// assert_eq!(blitzen_io::sink().write(b"hello").await?, 5);
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub fn sink() -> Sink {
    Sink
}

impl AsyncWrite for Sink {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(coop::poll_proceed(cx)).made_progress();
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(coop::poll_proceed(cx)).made_progress();
        Poll::Ready(Ok(total_len(bufs)))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(coop::poll_proceed(cx)).made_progress();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Sink { .. }")
    }
}
