//! A writer that discards.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;

use crate::AsyncWrite;
use crate::async_write::total_len;

/// A writer that discards everything. See [`sink`].
///
/// # Examples
///
/// ```
/// use blitzen::io::{AsyncWriteExt, Sink};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut discard: Sink = blitzen::io::sink();
/// assert_eq!(discard.write(b"hello").await?, 5);
/// # Ok(())
/// # }
/// ```
pub struct Sink {
    _private: (),
}

/// Creates a writer that discards everything.
///
/// # Examples
///
/// ```
/// use blitzen::io::AsyncWriteExt;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// assert_eq!(blitzen::io::sink().write(b"hello").await?, 5);
/// # Ok(())
/// # }
/// ```
pub fn sink() -> Sink {
    Sink { _private: () }
}

/// Implements [`AsyncWrite`] for a type that discards everything.
macro_rules! discard_writes {
    ($sink:ty) => {
        impl AsyncWrite for $sink {
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
    };
}

pub(crate) use discard_writes;

discard_writes!(Sink);

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Sink { .. }")
    }
}
