//! A reader of text, line by line.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::read_until::poll_read_until;
use crate::AsyncBufRead;

pin_project! {
    /// The lines of a reader: see
    /// [`AsyncBufReadExt::lines`](crate::AsyncBufReadExt::lines).
    #[must_use = "lines are read when they are asked for"]
    #[derive(Debug)]
    pub struct Lines<R> {
        #[pin]
        reader: R,
        // The line that has not been met the end of. Bytes, not text: it may
        // stop in the middle of a character.
        partial: Vec<u8>,
    }
}

pub(super) fn lines<R: AsyncBufRead>(reader: R) -> Lines<R> {
    Lines {
        reader,
        partial: Vec::new(),
    }
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// The next line without its end, be that `\n` or `\r\n`; `None` after the
    /// last.
    ///
    /// # Errors
    /// The reader's: what came before is kept for the next call. Or
    /// [`InvalidData`](std::io::ErrorKind::InvalidData) around a
    /// [`FromUtf8Error`](std::string::FromUtf8Error), which has the bytes, if
    /// the line is not UTF-8: the next call goes on behind it.
    ///
    /// # Cancel safety
    /// Cancel safe: half a line is kept for the next call.
    ///
    /// ```
    /// # use blitzen_io::AsyncBufReadExt;
    /// # futures::executor::block_on(async {
    /// let mut lines = (&b"one\n\ntwo"[..]).lines();
    /// while let Some(line) = lines.next_line().await? {
    ///     println!("{line}");
    /// }
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub async fn next_line(&mut self) -> io::Result<Option<String>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next_line(cx)).await
    }

    /// The reader, to change it.
    ///
    /// ```
    /// # use blitzen_io::AsyncBufReadExt;
    /// *(&b"abc"[..]).lines().get_mut() = b"";
    /// ```
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.reader
    }

    /// The reader.
    ///
    /// ```
    /// # use blitzen_io::AsyncBufReadExt;
    /// assert_eq!((&b"abc"[..]).lines().get_ref(), b"abc");
    /// ```
    pub fn get_ref(&mut self) -> &R {
        &self.reader
    }

    /// The reader. Half a line that a cancelled call had read is lost.
    ///
    /// ```
    /// # use blitzen_io::AsyncBufReadExt;
    /// assert_eq!((&b"abc"[..]).lines().into_inner(), b"abc");
    /// ```
    pub fn into_inner(self) -> R {
        self.reader
    }
}

impl<R: AsyncBufRead> Lines<R> {
    /// Like [`next_line`](Lines::next_line), polled.
    ///
    /// ```
    /// # use std::{pin::pin, task::{Context, Poll, Waker}};
    /// # use blitzen_io::AsyncBufReadExt;
    /// let lines = pin!((&b"one\n"[..]).lines());
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let Poll::Ready(Ok(Some(line))) = lines.poll_next_line(&mut cx) else { panic!() };
    /// assert_eq!(line, "one");
    /// ```
    pub fn poll_next_line(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Option<String>>> {
        let this = self.project();
        let has_end = ready!(poll_read_until(this.reader, cx, b'\n', this.partial))?;
        if !has_end && this.partial.is_empty() {
            return Poll::Ready(Ok(None));
        }
        let mut line = std::mem::take(this.partial);
        if has_end {
            line.pop();
            if line.last() == Some(&b'\r') {
                line.pop();
            }
        }
        Poll::Ready(match String::from_utf8(line) {
            Ok(line) => Ok(Some(line)),
            Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        })
    }
}
