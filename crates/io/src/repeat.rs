//! A reader of one byte.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;
use bytes::BufMut;

use crate::{AsyncRead, ReadBuf};

/// A reader that returns one byte forever. See [`repeat`].
///
/// # Examples
///
/// ```
/// use blitzen::io::{AsyncReadExt, Repeat};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut sevens: Repeat = blitzen::io::repeat(7);
/// assert_eq!(sevens.read_u16().await?, 0x0707);
/// # Ok(())
/// # }
/// ```
pub struct Repeat {
    byte: u8,
}

/// Creates a reader that returns `byte` forever.
///
/// # Examples
///
/// ```
/// use blitzen::io::AsyncReadExt;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut bytes = [0; 3];
/// blitzen::io::repeat(7).read_exact(&mut bytes).await?;
/// assert_eq!(bytes, [7; 3]);
/// # Ok(())
/// # }
/// ```
pub fn repeat(byte: u8) -> Repeat {
    Repeat { byte }
}

impl AsyncRead for Repeat {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(coop::poll_proceed(cx)).made_progress();
        buf.put_bytes(self.byte, buf.remaining());
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for Repeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Repeat { .. }")
    }
}
