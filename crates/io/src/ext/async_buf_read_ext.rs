//! The methods of every buffered reader.

use std::pin::Pin;

use super::fill_buf::{FillBuf, fill_buf};
use super::lines::{Lines, lines};
use super::read_line::{ReadLine, read_line};
use super::read_until::{ReadUntil, read_until};
use super::split::{Split, split};
use crate::AsyncBufRead;

/// The methods of every [`AsyncBufRead`].
///
/// # Examples
///
/// ```
/// use blitzen::io::AsyncBufReadExt;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut reader: &[u8] = b"first\nsecond\n";
/// let mut line = String::new();
/// reader.read_line(&mut line).await?;
/// assert_eq!(line, "first\n");
/// # Ok(())
/// # }
/// ```
pub trait AsyncBufReadExt: AsyncBufRead {
    /// Reads up to and including `byte`, or to the end, appends everything to `buf`,
    /// and returns how many bytes were read.
    ///
    /// Zero means that the reader has ended. Reads that fail with
    /// [`Interrupted`](std::io::ErrorKind::Interrupted) are repeated.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncBufReadExt;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut reader: &[u8] = b"a-b";
    /// let mut buf = Vec::new();
    /// assert_eq!(reader.read_until(b'-', &mut buf).await?, 2);
    /// assert_eq!(reader.read_until(b'-', &mut buf).await?, 1);
    /// assert_eq!(buf, b"a-b");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, `buf` holds what was read so far: call `read_until`
    /// again with the same `buf` to continue.
    ///
    /// # Errors
    ///
    /// Returns the error of the reader. `buf` holds what was read before it.
    fn read_until<'a>(&'a mut self, byte: u8, buf: &'a mut Vec<u8>) -> ReadUntil<'a, Self>
    where
        Self: Unpin,
    {
        read_until(self, byte, buf)
    }

    /// Reads up to and including a newline, or to the end, appends the text to `buf`,
    /// and returns how many bytes were read.
    ///
    /// Zero means that the reader has ended. Reads that fail with
    /// [`Interrupted`](std::io::ErrorKind::Interrupted) are repeated.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncBufReadExt;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut reader: &[u8] = b"one\ntwo";
    /// let mut text = String::new();
    /// assert_eq!(reader.read_line(&mut text).await?, 4);
    /// assert_eq!(reader.read_line(&mut text).await?, 3);
    /// assert_eq!(reader.read_line(&mut text).await?, 0);
    /// assert_eq!(text, "one\ntwo");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: if the future is dropped, `buf` holds what was read so far if
    /// that is UTF-8; otherwise it is lost. [`Lines::next_line`](crate::Lines::next_line)
    /// loses nothing.
    ///
    /// # Errors
    ///
    /// Returns the error of the reader. Returns
    /// [`InvalidData`](std::io::ErrorKind::InvalidData) if the line is not UTF-8: `buf`
    /// is unchanged, and the line is lost.
    fn read_line<'a>(&'a mut self, buf: &'a mut String) -> ReadLine<'a, Self>
    where
        Self: Unpin,
    {
        read_line(self, buf)
    }

    /// Returns the segments of the reader that `byte` separates.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::{AsyncBufReadExt, BufReader};
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut parts = BufReader::new(&b"a-b"[..]).split(b'-');
    /// assert_eq!(parts.next_segment().await?.as_deref(), Some(&b"a"[..]));
    /// assert_eq!(parts.next_segment().await?.as_deref(), Some(&b"b"[..]));
    /// assert_eq!(parts.next_segment().await?, None);
    /// # Ok(())
    /// # }
    /// ```
    fn split(self, byte: u8) -> Split<Self>
    where
        Self: Sized + Unpin,
    {
        split(self, byte)
    }

    /// Returns the unread bytes of the reader's buffer, filling it first if there are
    /// none.
    ///
    /// An empty slice means that the reader has ended. Call
    /// [`consume`](Self::consume) to mark bytes as read.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncBufReadExt;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut reader: &[u8] = b"hello";
    /// assert_eq!(reader.fill_buf().await?, b"hello");
    /// reader.consume(4);
    /// assert_eq!(reader.fill_buf().await?, b"o");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: bytes that were read stay in the buffer.
    ///
    /// # Errors
    ///
    /// Returns the error of the reader.
    fn fill_buf(&mut self) -> FillBuf<'_, Self>
    where
        Self: Unpin,
    {
        fill_buf(self)
    }

    /// Marks the first `amt` bytes of the reader's buffer as read.
    ///
    /// `amt` must not exceed the length of what the last [`fill_buf`](Self::fill_buf)
    /// returned.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncBufReadExt;
    /// let mut reader: &[u8] = b"hello";
    /// reader.consume(4);
    /// assert_eq!(reader, b"o");
    /// ```
    fn consume(&mut self, amt: usize)
    where
        Self: Unpin,
    {
        Pin::new(self).consume(amt);
    }

    /// Returns the lines of the reader, without their line endings.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncBufReadExt;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut lines = (&b"one\r\ntwo"[..]).lines();
    /// assert_eq!(lines.next_line().await?.as_deref(), Some("one"));
    /// assert_eq!(lines.next_line().await?.as_deref(), Some("two"));
    /// assert_eq!(lines.next_line().await?, None);
    /// # Ok(())
    /// # }
    /// ```
    fn lines(self) -> Lines<Self>
    where
        Self: Sized,
    {
        lines(self)
    }
}

impl<R: AsyncBufRead + ?Sized> AsyncBufReadExt for R {}
