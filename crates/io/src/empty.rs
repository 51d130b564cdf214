//! Nothing to read, and room for everything.

use std::fmt;
use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;

use crate::async_write::total_len;
use crate::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

/// A stream that is always at its end: see [`empty`].
#[non_exhaustive]
pub struct Empty;

/// A reader that is at its end from the start, and a writer that takes
/// everything and keeps nothing.
///
/// ```
/// use blitzen_io::AsyncReadExt;
///
/// # futures::executor::block_on(async {
/// let mut text = String::new();
/// blitzen_io::empty().read_to_string(&mut text).await?;
/// assert_eq!(text, "");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub fn empty() -> Empty {
    Empty
}

impl AsyncRead for Empty {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        _buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(coop::poll_proceed(cx)).made_progress();
        Poll::Ready(Ok(()))
    }
}

impl AsyncBufRead for Empty {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        ready!(coop::poll_proceed(cx)).made_progress();
        Poll::Ready(Ok(&[]))
    }

    fn consume(self: Pin<&mut Self>, _amt: usize) {}
}

impl AsyncSeek for Empty {
    fn start_seek(self: Pin<&mut Self>, _position: SeekFrom) -> io::Result<()> {
        Ok(())
    }

    /// Zero: there is nowhere else to be.
    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        ready!(coop::poll_proceed(cx)).made_progress();
        Poll::Ready(Ok(0))
    }
}

impl AsyncWrite for Empty {
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

impl fmt::Debug for Empty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Empty { .. }")
    }
}
