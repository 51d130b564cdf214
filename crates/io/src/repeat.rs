//! One byte, for ever.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;
use bytes::BufMut;

use crate::{AsyncRead, ReadBuf};

/// A reader of one byte over and over: see [`repeat`].
pub struct Repeat {
    byte: u8,
}

/// A reader that never ends and always gives `byte`.
///
/// ```
/// use blitzen_io::AsyncReadExt;
///
/// # futures::executor::block_on(async {
/// let mut bytes = [0; 3];
/// blitzen_io::repeat(7).read_exact(&mut bytes).await?;
/// assert_eq!(bytes, [7; 3]);
/// # std::io::Result::Ok(())
/// # }).unwrap();
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
