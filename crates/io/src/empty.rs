//! A reader at its end, and a writer that discards.

use std::fmt;
use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;

use crate::async_write::total_len;
use crate::sink::discard_writes;
use crate::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

/// A reader that is always at its end, and a writer that discards everything. See
/// [`empty`].
///
/// # Examples
///
/// ```
/// use blitzen::io::{AsyncWriteExt, Empty};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut discard: Empty = blitzen::io::empty();
/// discard.write_all(b"nobody reads this").await?;
/// # Ok(())
/// # }
/// ```
pub struct Empty {
    _private: (),
}

/// Creates a reader that is always at its end, and a writer that discards
/// everything.
///
/// # Examples
///
/// ```
/// use blitzen::io::AsyncReadExt;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut text = String::new();
/// blitzen::io::empty().read_to_string(&mut text).await?;
/// assert_eq!(text, "");
/// # Ok(())
/// # }
/// ```
pub fn empty() -> Empty {
    Empty { _private: () }
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

    /// Returns zero, the only position there is.
    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        ready!(coop::poll_proceed(cx)).made_progress();
        Poll::Ready(Ok(0))
    }
}

discard_writes!(Empty);

impl fmt::Debug for Empty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Empty { .. }")
    }
}
