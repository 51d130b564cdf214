//! The segments of a reader.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::read_until::poll_read_until;
use crate::AsyncBufRead;

pin_project! {
    /// The segments of a reader that a byte separates. See
    /// [`AsyncBufReadExt::split`](crate::AsyncBufReadExt::split).
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::{AsyncBufReadExt, BufReader, Split};
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut segments: Split<BufReader<&[u8]>> = BufReader::new(&b"one,two"[..]).split(b',');
    /// assert_eq!(segments.next_segment().await?.as_deref(), Some(&b"one"[..]));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "parts are read when they are asked for"]
    #[derive(Debug)]
    pub struct Split<R> {
        #[pin]
        reader: R,
        // The segment whose end was not read yet.
        partial: Vec<u8>,
        delimiter: u8,
    }
}

pub(super) fn split<R: AsyncBufRead>(reader: R, delimiter: u8) -> Split<R> {
    Split {
        reader,
        partial: Vec::new(),
        delimiter,
    }
}

impl<R: AsyncBufRead + Unpin> Split<R> {
    /// Returns the next segment without the delimiter, or `None` at the end.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::{AsyncBufReadExt, BufReader};
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut parts = BufReader::new(&b"one,two"[..]).split(b',');
    /// while let Some(part) = parts.next_segment().await? {
    ///     assert_eq!(part.len(), 3);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the next call continues with the part of the segment that was read.
    ///
    /// # Errors
    ///
    /// Returns the error of the reader; the next call continues with the part of the
    /// segment that was read.
    pub async fn next_segment(&mut self) -> io::Result<Option<Vec<u8>>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next_segment(cx)).await
    }
}

impl<R: AsyncBufRead> Split<R> {
    /// Attempts to return the next segment without the delimiter, or `None` at the end.
    ///
    /// Returns `Poll::Pending` while the segment is incomplete; the task of `cx` is
    /// woken when it should try again.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{pin::pin, task::{Context, Poll, Waker}};
    /// use blitzen::io::{AsyncBufReadExt, BufReader};
    /// let parts = pin!(BufReader::new(&b"one,two"[..]).split(b','));
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let Poll::Ready(Ok(Some(part))) = parts.poll_next_segment(&mut cx) else { panic!() };
    /// assert_eq!(part, b"one");
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`next_segment`](Split::next_segment).
    pub fn poll_next_segment(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Option<Vec<u8>>>> {
        let this = self.project();
        let delimiter = *this.delimiter;
        let has_end = ready!(poll_read_until(this.reader, cx, delimiter, this.partial))?;
        if !has_end && this.partial.is_empty() {
            return Poll::Ready(Ok(None));
        }
        let mut part = std::mem::take(this.partial);
        if has_end {
            part.pop();
        }
        Poll::Ready(Ok(Some(part)))
    }
}
