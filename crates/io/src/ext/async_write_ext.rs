//! What every writer can do.

use std::io::IoSlice;

use bytes::Buf;

use super::flush::{Flush, Shutdown, flush, shutdown};
use super::number::{WriteNumber, write_number};
use super::write::{Write, WriteVectored, write, write_vectored};
use super::write_all::{WriteAll, write_all};
use super::write_buf::{WriteAllBuf, WriteBuf, write_all_buf, write_buf};
use crate::AsyncWrite;

/// One method per number and order of bytes.
macro_rules! write_numbers {
    ($($name:ident, $number:ty, $bytes:ident, $what:literal, $value:literal => $written:literal;)*) => {$(
        #[doc = concat!("Writes ", $what, ".")]
        ///
        /// # Errors
        /// The writer's, and [`WriteZero`](std::io::ErrorKind::WriteZero) if it
        /// takes no more. A write that was interrupted is tried again.
        ///
        /// # Cancel safety
        /// Not cancel safe: some of the bytes may have been written.
        ///
        /// ```
        /// # use blitzen_io::AsyncWriteExt;
        /// # futures::executor::block_on(async {
        /// let mut writer = Vec::new();
        #[doc = concat!("writer.", stringify!($name), "(", $value, ").await?;")]
        #[doc = concat!("assert_eq!(writer, ", $written, ");")]
        /// # std::io::Result::Ok(())
        /// # }).unwrap();
        /// ```
        fn $name(&mut self, n: $number) -> WriteNumber<'_, Self, $number>
        where
            Self: Unpin,
        {
            write_number(self, n.$bytes())
        }
    )*};
}

/// What every [`AsyncWrite`] can do.
///
/// ```
/// use blitzen_io::AsyncWriteExt;
///
/// # futures::executor::block_on(async {
/// let mut writer = Vec::new();
/// writer.write_u16(5).await?;
/// writer.write_all(b"hello").await?;
/// assert_eq!(writer, b"\x00\x05hello");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub trait AsyncWriteExt: AsyncWrite {
    /// Writes some of `src`, and returns how much.
    ///
    /// Zero, where `src` is not empty, means that the writer takes no more.
    ///
    /// # Cancel safety
    /// Cancel safe: a future that is dropped has written nothing.
    ///
    /// ```
    /// # use blitzen_io::AsyncWriteExt;
    /// # futures::executor::block_on(async {
    /// let (mut near, _far) = blitzen_io::duplex(4);
    /// assert_eq!(near.write(b"hello").await?, 4);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn write<'a>(&'a mut self, src: &'a [u8]) -> Write<'a, Self>
    where
        Self: Unpin,
    {
        write(self, src)
    }

    /// Writes some of the buffers, in order, and returns how many bytes.
    ///
    /// # Cancel safety
    /// Cancel safe: a future that is dropped has written nothing.
    ///
    /// ```
    /// # use std::io::IoSlice;
    /// # use blitzen_io::AsyncWriteExt;
    /// # futures::executor::block_on(async {
    /// let mut writer = Vec::new();
    /// writer.write_vectored(&[IoSlice::new(b"ab"), IoSlice::new(b"cd")]).await?;
    /// assert_eq!(writer, b"abcd");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn write_vectored<'a, 'b>(&'a mut self, bufs: &'a [IoSlice<'b>]) -> WriteVectored<'a, 'b, Self>
    where
        Self: Unpin,
    {
        write_vectored(self, bufs)
    }

    /// Writes some of `src`, advances it by as much, and returns how much.
    ///
    /// # Cancel safety
    /// Cancel safe: a future that is dropped has written nothing.
    ///
    /// ```
    /// # use bytes::Buf;
    /// # use blitzen_io::AsyncWriteExt;
    /// # futures::executor::block_on(async {
    /// let (mut near, _far) = blitzen_io::duplex(4);
    /// let mut src = bytes::Bytes::from_static(b"hello");
    /// near.write_buf(&mut src).await?;
    /// assert_eq!(src.remaining(), 1);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn write_buf<'a, B>(&'a mut self, src: &'a mut B) -> WriteBuf<'a, Self, B>
    where
        Self: Sized + Unpin,
        B: Buf,
    {
        write_buf(self, src)
    }

    /// Writes all of `src`, advancing it.
    ///
    /// # Errors
    /// The writer's, and [`WriteZero`](std::io::ErrorKind::WriteZero) if it
    /// takes no more; `src` then holds the rest. A write that was interrupted
    /// is tried again.
    ///
    /// # Cancel safety
    /// `src` always holds exactly what has not been written: call again with
    /// it to go on.
    ///
    /// ```
    /// # use blitzen_io::AsyncWriteExt;
    /// # futures::executor::block_on(async {
    /// let mut writer = Vec::new();
    /// writer.write_all_buf(&mut bytes::Bytes::from_static(b"hello")).await?;
    /// assert_eq!(writer, b"hello");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn write_all_buf<'a, B>(&'a mut self, src: &'a mut B) -> WriteAllBuf<'a, Self, B>
    where
        Self: Sized + Unpin,
        B: Buf,
    {
        write_all_buf(self, src)
    }

    /// Writes all of `src`.
    ///
    /// # Errors
    /// The writer's, and [`WriteZero`](std::io::ErrorKind::WriteZero) if it
    /// takes no more. A write that was interrupted is tried again.
    ///
    /// # Cancel safety
    /// Not cancel safe: part of `src` may have been written, and nothing says
    /// how much. [`write_all_buf`](Self::write_all_buf) does.
    ///
    /// ```
    /// # use blitzen_io::AsyncWriteExt;
    /// # futures::executor::block_on(async {
    /// let mut writer = Vec::new();
    /// writer.write_all(b"hello").await?;
    /// assert_eq!(writer, b"hello");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn write_all<'a>(&'a mut self, src: &'a [u8]) -> WriteAll<'a, Self>
    where
        Self: Unpin,
    {
        write_all(self, src)
    }

    write_numbers! {
        write_u8, u8, to_be_bytes, "a byte", "200" => "[200]";
        write_i8, i8, to_be_bytes, "a signed byte", "-56" => "[200]";
        write_u16, u16, to_be_bytes, "an unsigned 16-bit number, big-endian", "0x0102" => "[1, 2]";
        write_i16, i16, to_be_bytes, "a signed 16-bit number, big-endian", "-2" => "[255, 254]";
        write_u32, u32, to_be_bytes, "an unsigned 32-bit number, big-endian", "0x0102" => "[0, 0, 1, 2]";
        write_i32, i32, to_be_bytes, "a signed 32-bit number, big-endian", "-2" => "[255, 255, 255, 254]";
        write_u64, u64, to_be_bytes, "an unsigned 64-bit number, big-endian", "0x0102" => "0x0102_u64.to_be_bytes()";
        write_i64, i64, to_be_bytes, "a signed 64-bit number, big-endian", "-2" => "(-2_i64).to_be_bytes()";
        write_u128, u128, to_be_bytes, "an unsigned 128-bit number, big-endian", "0x0102" => "0x0102_u128.to_be_bytes()";
        write_i128, i128, to_be_bytes, "a signed 128-bit number, big-endian", "-2" => "(-2_i128).to_be_bytes()";
        write_f32, f32, to_be_bytes, "a 32-bit floating-point number, big-endian", "1.5" => "1.5_f32.to_be_bytes()";
        write_f64, f64, to_be_bytes, "a 64-bit floating-point number, big-endian", "1.5" => "1.5_f64.to_be_bytes()";
        write_u16_le, u16, to_le_bytes, "an unsigned 16-bit number, little-endian", "0x0102" => "[2, 1]";
        write_i16_le, i16, to_le_bytes, "a signed 16-bit number, little-endian", "-2" => "[254, 255]";
        write_u32_le, u32, to_le_bytes, "an unsigned 32-bit number, little-endian", "0x0102" => "[2, 1, 0, 0]";
        write_i32_le, i32, to_le_bytes, "a signed 32-bit number, little-endian", "-2" => "[254, 255, 255, 255]";
        write_u64_le, u64, to_le_bytes, "an unsigned 64-bit number, little-endian", "0x0102" => "0x0102_u64.to_le_bytes()";
        write_i64_le, i64, to_le_bytes, "a signed 64-bit number, little-endian", "-2" => "(-2_i64).to_le_bytes()";
        write_u128_le, u128, to_le_bytes, "an unsigned 128-bit number, little-endian", "0x0102" => "0x0102_u128.to_le_bytes()";
        write_i128_le, i128, to_le_bytes, "a signed 128-bit number, little-endian", "-2" => "(-2_i128).to_le_bytes()";
        write_f32_le, f32, to_le_bytes, "a 32-bit floating-point number, little-endian", "1.5" => "1.5_f32.to_le_bytes()";
        write_f64_le, f64, to_le_bytes, "a 64-bit floating-point number, little-endian", "1.5" => "1.5_f64.to_le_bytes()";
    }

    /// Sends on what was written and is still held back.
    ///
    /// # Cancel safety
    /// Nothing is lost: call again to go on.
    ///
    /// ```
    /// # use blitzen_io::{AsyncWriteExt, BufWriter};
    /// # futures::executor::block_on(async {
    /// let mut writer = BufWriter::new(Vec::new());
    /// writer.write_all(b"hello").await?;
    /// writer.flush().await?;
    /// assert_eq!(writer.get_ref(), b"hello");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn flush(&mut self) -> Flush<'_, Self>
    where
        Self: Unpin,
    {
        flush(self)
    }

    /// Ends the writing: flushes, and tells the other side that no more comes.
    ///
    /// # Cancel safety
    /// Nothing is lost: call again to go on.
    ///
    /// ```
    /// # use blitzen_io::{AsyncReadExt, AsyncWriteExt};
    /// # futures::executor::block_on(async {
    /// let (mut near, mut far) = blitzen_io::duplex(16);
    /// near.write_all(b"hello").await?;
    /// near.shutdown().await?;
    /// let mut all = Vec::new();
    /// far.read_to_end(&mut all).await?;
    /// assert_eq!(all, b"hello");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn shutdown(&mut self) -> Shutdown<'_, Self>
    where
        Self: Unpin,
    {
        shutdown(self)
    }
}

impl<W: AsyncWrite + ?Sized> AsyncWriteExt for W {}
