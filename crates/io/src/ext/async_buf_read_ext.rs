//! What every buffered reader can do.

use std::pin::Pin;

use super::fill_buf::{FillBuf, fill_buf};
use super::lines::{Lines, lines};
use super::read_line::{ReadLine, read_line};
use super::read_until::{ReadUntil, read_until};
use super::split::{Split, split};
use crate::AsyncBufRead;

/// What every [`AsyncBufRead`] can do.
///
/// ```
/// use blitzen_io::AsyncBufReadExt;
///
/// # futures::executor::block_on(async {
/// let mut reader: &[u8] = b"first\nsecond\n";
/// let mut line = String::new();
/// reader.read_line(&mut line).await?;
/// assert_eq!(line, "first\n");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub trait AsyncBufReadExt: AsyncBufRead {
    /// Reads up to and with `byte`, or to the end, appending to `buf`; returns
    /// how many bytes.
    ///
    /// # Errors
    /// The reader's; `buf` then holds what came before. A read that was
    /// interrupted is tried again.
    ///
    /// # Cancel safety
    /// What was read before the future was dropped is in `buf`: call again
    /// with it to go on.
    ///
    /// ```
    /// # use blitzen_io::AsyncBufReadExt;
    /// # futures::executor::block_on(async {
    /// let mut reader: &[u8] = b"a-b";
    /// let mut buf = Vec::new();
    /// assert_eq!(reader.read_until(b'-', &mut buf).await?, 2);
    /// assert_eq!(reader.read_until(b'-', &mut buf).await?, 1);
    /// assert_eq!(buf, b"a-b");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn read_until<'a>(&'a mut self, byte: u8, buf: &'a mut Vec<u8>) -> ReadUntil<'a, Self>
    where
        Self: Unpin,
    {
        read_until(self, byte, buf)
    }

    /// Reads up to and with a newline, or to the end, appending to `buf`;
    /// returns how many bytes.
    ///
    /// # Errors
    /// The reader's, and [`InvalidData`](std::io::ErrorKind::InvalidData) if
    /// the line is not UTF-8: `buf` is then as it was, and the line is gone. A
    /// read that was interrupted is tried again.
    ///
    /// # Cancel safety
    /// Not cancel safe: what was read before the future was dropped is in `buf`
    /// if it is UTF-8 so far, and otherwise lost.
    /// [`Lines::next_line`](crate::Lines::next_line) loses nothing.
    ///
    /// ```
    /// # use blitzen_io::AsyncBufReadExt;
    /// # futures::executor::block_on(async {
    /// let mut reader: &[u8] = b"one\ntwo";
    /// let mut text = String::new();
    /// assert_eq!(reader.read_line(&mut text).await?, 4);
    /// assert_eq!(reader.read_line(&mut text).await?, 3);
    /// assert_eq!(reader.read_line(&mut text).await?, 0);
    /// assert_eq!(text, "one\ntwo");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn read_line<'a>(&'a mut self, buf: &'a mut String) -> ReadLine<'a, Self>
    where
        Self: Unpin,
    {
        read_line(self, buf)
    }

    /// The parts between the occurrences of `byte`.
    ///
    /// ```
    /// # use blitzen_io::{AsyncBufReadExt, BufReader};
    /// # futures::executor::block_on(async {
    /// let mut parts = BufReader::new(&b"a-b"[..]).split(b'-');
    /// assert_eq!(parts.next_segment().await?.as_deref(), Some(&b"a"[..]));
    /// assert_eq!(parts.next_segment().await?.as_deref(), Some(&b"b"[..]));
    /// assert_eq!(parts.next_segment().await?, None);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn split(self, byte: u8) -> Split<Self>
    where
        Self: Sized + Unpin,
    {
        split(self, byte)
    }

    /// The unread part of the buffer, filled first if there is none; empty at
    /// the end.
    ///
    /// What of it has been used is to be said with
    /// [`consume`](Self::consume).
    ///
    /// # Cancel safety
    /// Cancel safe: what was read stays in the buffer.
    ///
    /// ```
    /// # use blitzen_io::AsyncBufReadExt;
    /// # futures::executor::block_on(async {
    /// let mut reader: &[u8] = b"hello";
    /// assert_eq!(reader.fill_buf().await?, b"hello");
    /// reader.consume(4);
    /// assert_eq!(reader.fill_buf().await?, b"o");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn fill_buf(&mut self) -> FillBuf<'_, Self>
    where
        Self: Unpin,
    {
        fill_buf(self)
    }

    /// Says that the first `amt` bytes of the buffer have been used.
    ///
    /// ```
    /// # use blitzen_io::AsyncBufReadExt;
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

    /// The lines, without their ends.
    ///
    /// ```
    /// # use blitzen_io::AsyncBufReadExt;
    /// # futures::executor::block_on(async {
    /// let mut lines = (&b"one\r\ntwo"[..]).lines();
    /// assert_eq!(lines.next_line().await?.as_deref(), Some("one"));
    /// assert_eq!(lines.next_line().await?.as_deref(), Some("two"));
    /// assert_eq!(lines.next_line().await?, None);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn lines(self) -> Lines<Self>
    where
        Self: Sized,
    {
        lines(self)
    }
}

impl<R: AsyncBufRead + ?Sized> AsyncBufReadExt for R {}
