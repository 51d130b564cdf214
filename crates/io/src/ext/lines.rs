//! The lines of a reader.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::read_until::poll_read_until;
use crate::AsyncBufRead;

pin_project! {
    /// The lines of a reader. See
    /// [`AsyncBufReadExt::lines`](crate::AsyncBufReadExt::lines).
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::{AsyncBufReadExt, Lines};
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut lines: Lines<&[u8]> = (&b"one\ntwo"[..]).lines();
    /// assert_eq!(lines.next_line().await?.as_deref(), Some("one"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "lines are read when they are asked for"]
    #[derive(Debug)]
    pub struct Lines<R> {
        #[pin]
        reader: R,
        // The line whose end was not read yet. Bytes, not text: it may stop in the
        // middle of a character.
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
    /// Returns the next line without its line ending (`\n` or `\r\n`), or `None` at
    /// the end.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncBufReadExt;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut lines = (&b"one\n\ntwo"[..]).lines();
    /// while let Some(line) = lines.next_line().await? {
    ///     println!("{line}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the next call continues with the part of the line that was read.
    ///
    /// # Errors
    ///
    /// Returns the error of the reader; the next call continues with the part of the
    /// line that was read. Returns [`InvalidData`](std::io::ErrorKind::InvalidData)
    /// with a [`FromUtf8Error`](std::string::FromUtf8Error), which holds the bytes, if
    /// the line is not UTF-8; the next call returns the line after it.
    pub async fn next_line(&mut self) -> io::Result<Option<String>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next_line(cx)).await
    }

    /// Returns a mutable reference to the reader.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncBufReadExt;
    /// *(&b"abc"[..]).lines().get_mut() = b"";
    /// ```
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.reader
    }

    /// Returns a reference to the reader.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncBufReadExt;
    /// assert_eq!((&b"abc"[..]).lines().get_ref(), b"abc");
    /// ```
    pub fn get_ref(&mut self) -> &R {
        &self.reader
    }

    /// Returns the reader. The part of a line that a cancelled call had read is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncBufReadExt;
    /// assert_eq!((&b"abc"[..]).lines().into_inner(), b"abc");
    /// ```
    pub fn into_inner(self) -> R {
        self.reader
    }
}

impl<R: AsyncBufRead> Lines<R> {
    /// Attempts to return the next line without its line ending, or `None` at the end.
    ///
    /// Returns `Poll::Pending` while the line is incomplete; the task of `cx` is woken
    /// when it should try again.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{pin::pin, task::{Context, Poll, Waker}};
    /// use blitzen::io::AsyncBufReadExt;
    /// let lines = pin!((&b"one\n"[..]).lines());
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let Poll::Ready(Ok(Some(line))) = lines.poll_next_line(&mut cx) else { panic!() };
    /// assert_eq!(line, "one");
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`next_line`](Lines::next_line).
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
