//! A reader, cut at every occurrence of a byte.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::read_until::poll_read_until;
use crate::AsyncBufRead;

pin_project! {
    /// The parts of a reader between the occurrences of a byte: see
    /// [`AsyncBufReadExt::split`](crate::AsyncBufReadExt::split).
    #[must_use = "parts are read when they are asked for"]
    #[derive(Debug)]
    pub struct Split<R> {
        #[pin]
        reader: R,
        // The part that has not been met the end of.
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
    /// The next part, without the delimiter; `None` after the last.
    ///
    /// # Errors
    /// The reader's: what came before is kept for the next call.
    ///
    /// # Cancel safety
    /// Cancel safe: half a part is kept for the next call.
    ///
    /// ```
    /// # use blitzen_io::{AsyncBufReadExt, BufReader};
    /// # futures::executor::block_on(async {
    /// let mut parts = BufReader::new(&b"one,two"[..]).split(b',');
    /// while let Some(part) = parts.next_segment().await? {
    ///     assert_eq!(part.len(), 3);
    /// }
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub async fn next_segment(&mut self) -> io::Result<Option<Vec<u8>>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next_segment(cx)).await
    }
}

impl<R: AsyncBufRead> Split<R> {
    /// Like [`next_segment`](Split::next_segment), polled.
    ///
    /// ```
    /// # use std::{pin::pin, task::{Context, Poll, Waker}};
    /// # use blitzen_io::{AsyncBufReadExt, BufReader};
    /// let parts = pin!(BufReader::new(&b"one,two"[..]).split(b','));
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let Poll::Ready(Ok(Some(part))) = parts.poll_next_segment(&mut cx) else { panic!() };
    /// assert_eq!(part, b"one");
    /// ```
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
