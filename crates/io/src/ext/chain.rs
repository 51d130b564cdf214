//! Two readers, one after the other.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::{AsyncBufRead, AsyncRead, ReadBuf};

pin_project! {
    /// A reader that reads one reader to its end, and then another. See
    /// [`AsyncReadExt::chain`](crate::AsyncReadExt::chain).
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::{AsyncReadExt, Chain};
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut chain: Chain<&[u8], &[u8]> = (&b"ab"[..]).chain(&b"cd"[..]);
    /// let mut text = String::new();
    /// chain.read_to_string(&mut text).await?;
    /// assert_eq!(text, "abcd");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "a reader does nothing until it is read"]
    #[derive(Debug)]
    pub struct Chain<T, U> {
        #[pin]
        first: T,
        #[pin]
        second: U,
        first_ended: bool,
    }
}

pub(super) fn chain<T: AsyncRead, U: AsyncRead>(first: T, second: U) -> Chain<T, U> {
    Chain {
        first,
        second,
        first_ended: false,
    }
}

impl<T: AsyncRead, U: AsyncRead> Chain<T, U> {
    /// Returns references to both readers.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncReadExt;
    /// let chain = (&b"ab"[..]).chain(&b"cd"[..]);
    /// assert_eq!(chain.get_ref(), (&&b"ab"[..], &&b"cd"[..]));
    /// ```
    pub fn get_ref(&self) -> (&T, &U) {
        (&self.first, &self.second)
    }

    /// Returns mutable references to both readers.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncReadExt;
    /// let mut chain = (&b"ab"[..]).chain(&b"cd"[..]);
    /// *chain.get_mut().1 = b"";
    /// ```
    pub fn get_mut(&mut self) -> (&mut T, &mut U) {
        (&mut self.first, &mut self.second)
    }

    /// Returns pinned mutable references to both readers.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use blitzen::io::AsyncReadExt;
    /// let chain = pin!((&b"ab"[..]).chain(&b"cd"[..]));
    /// assert_eq!(*chain.get_pin_mut().0, b"ab");
    /// ```
    pub fn get_pin_mut(self: Pin<&mut Self>) -> (Pin<&mut T>, Pin<&mut U>) {
        let this = self.project();
        (this.first, this.second)
    }

    /// Returns both readers.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncReadExt;
    /// let chain = (&b"ab"[..]).chain(&b"cd"[..]);
    /// assert_eq!(chain.into_inner(), (&b"ab"[..], &b"cd"[..]));
    /// ```
    pub fn into_inner(self) -> (T, U) {
        (self.first, self.second)
    }
}

impl<T: AsyncRead, U: AsyncRead> AsyncRead for Chain<T, U> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.project();
        if !*this.first_ended {
            let room = buf.remaining();
            ready!(this.first.poll_read(cx, buf))?;
            // A read into no room returns nothing before the end too.
            if buf.remaining() != room || room == 0 {
                return Poll::Ready(Ok(()));
            }
            *this.first_ended = true;
        }
        this.second.poll_read(cx, buf)
    }
}

impl<T: AsyncBufRead, U: AsyncBufRead> AsyncBufRead for Chain<T, U> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.project();
        if !*this.first_ended {
            let bytes = ready!(this.first.poll_fill_buf(cx))?;
            if !bytes.is_empty() {
                return Poll::Ready(Ok(bytes));
            }
            *this.first_ended = true;
        }
        this.second.poll_fill_buf(cx)
    }

    fn consume(self: Pin<&mut Self>, amt: usize) {
        let this = self.project();
        match *this.first_ended {
            false => this.first.consume(amt),
            true => this.second.consume(amt),
        }
    }
}
