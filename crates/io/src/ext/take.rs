//! The first bytes of a reader.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::{AsyncBufRead, AsyncRead, ReadBuf};

pin_project! {
    /// A reader of the first bytes of another reader. See
    /// [`AsyncReadExt::take`](crate::AsyncReadExt::take).
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::{AsyncReadExt, Take};
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut first: Take<&[u8]> = (&b"hello"[..]).take(2);
    /// let mut text = String::new();
    /// first.read_to_string(&mut text).await?;
    /// assert_eq!(text, "he");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "a reader does nothing until it is read"]
    #[derive(Debug)]
    pub struct Take<R> {
        #[pin]
        inner: R,
        // How many bytes can still be read.
        limit: u64,
    }
}

pub(super) fn take<R: AsyncRead>(inner: R, limit: u64) -> Take<R> {
    Take { inner, limit }
}

impl<R: AsyncRead> Take<R> {
    /// Returns the number of bytes that can still be read, unless the inner reader ends
    /// before.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncReadExt;
    /// assert_eq!(blitzen::io::repeat(1).take(5).limit(), 5);
    /// ```
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Sets the number of bytes that can still be read to `limit`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use blitzen::io::AsyncReadExt;
    /// let mut few = blitzen::io::repeat(1).take(2);
    /// let mut bytes = Vec::new();
    /// few.read_to_end(&mut bytes).await?;
    /// few.set_limit(3);
    /// few.read_to_end(&mut bytes).await?;
    /// assert_eq!(bytes, [1; 5]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Returns a reference to the inner reader.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncReadExt;
    /// assert_eq!((&b"abc"[..]).take(1).get_ref(), b"abc");
    /// ```
    pub fn get_ref(&self) -> &R {
        &self.inner
    }

    /// Returns a mutable reference to the inner reader.
    ///
    /// Bytes that are read from it directly do not count towards the limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncReadExt;
    /// *(&b"abc"[..]).take(1).get_mut() = b"";
    /// ```
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.inner
    }

    /// Returns a pinned mutable reference to the inner reader.
    ///
    /// Bytes that are read from it directly do not count towards the limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use blitzen::io::AsyncReadExt;
    /// assert_eq!(*pin!((&b"abc"[..]).take(1)).get_pin_mut(), b"abc");
    /// ```
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut R> {
        self.project().inner
    }

    /// Returns the inner reader.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncReadExt;
    /// assert_eq!((&b"abc"[..]).take(1).into_inner(), b"abc");
    /// ```
    pub fn into_inner(self) -> R {
        self.inner
    }
}

/// Returns the limit, or `usize::MAX` if that is less.
fn in_memory(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

impl<R: AsyncRead> AsyncRead for Take<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.project();
        if *this.limit == 0 {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let read = buf.poll_fill(in_memory(*this.limit), this.inner, cx);
        // At most `limit`: the reader was given no more room.
        *this.limit -= (buf.filled().len() - before) as u64;
        read
    }
}

impl<R: AsyncBufRead> AsyncBufRead for Take<R> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.project();
        if *this.limit == 0 {
            return Poll::Ready(Ok(&[]));
        }
        let bytes = ready!(this.inner.poll_fill_buf(cx))?;
        let end = bytes.len().min(in_memory(*this.limit));
        Poll::Ready(Ok(&bytes[..end]))
    }

    fn consume(self: Pin<&mut Self>, amt: usize) {
        let this = self.project();
        let amt = amt.min(in_memory(*this.limit));
        *this.limit -= amt as u64;
        this.inner.consume(amt);
    }
}
