//! The methods of every writer.

use std::io::IoSlice;

use bytes::Buf;

use super::flush::{Flush, Shutdown, flush, shutdown};
use super::number::{WriteNumber, write_number};
use super::write::{Write, WriteVectored, write, write_vectored};
use super::write_all::{WriteAll, write_all};
use super::write_buf::{WriteAllBuf, WriteBuf, write_all_buf, write_buf};
use crate::AsyncWrite;

/// Defines one method for each number and byte order.
macro_rules! write_numbers {
    ($($name:ident, $number:ty, $bytes:ident, $what:literal, $value:literal => $written:literal;)*) => {$(
        #[doc = concat!("Writes ", $what, ".")]
        ///
        /// # Examples
        ///
        /// ```
        /// use blitzen::io::AsyncWriteExt;
        /// # #[blitzen::main(flavor = "current_thread")]
        /// # async fn main() -> std::io::Result<()> {
        /// let mut writer = Vec::new();
        #[doc = concat!("writer.", stringify!($name), "(", $value, ").await?;")]
        #[doc = concat!("assert_eq!(writer, ", $written, ");")]
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Cancel safety
        ///
        /// Not cancel safe: if the future is dropped, some of the bytes may have been
        /// written.
        ///
        /// # Errors
        ///
        /// Returns the error of the writer, or
        /// [`WriteZero`](std::io::ErrorKind::WriteZero) if it accepts no more bytes.
        /// Some of the bytes may have been written.
        fn $name(&mut self, n: $number) -> WriteNumber<'_, Self, $number>
        where
            Self: Unpin,
        {
            write_number(self, n.$bytes())
        }
    )*};
}

/// The methods of every [`AsyncWrite`].
///
/// # Examples
///
/// ```
/// use blitzen::io::AsyncWriteExt;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut writer = Vec::new();
/// writer.write_u16(5).await?;
/// writer.write_all(b"hello").await?;
/// assert_eq!(writer, b"\x00\x05hello");
/// # Ok(())
/// # }
/// ```
pub trait AsyncWriteExt: AsyncWrite {
    /// Writes some bytes of `src`, and returns how many.
    ///
    /// Zero means that `src` is empty, or that the writer accepts no more bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncWriteExt;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let (mut near, _far) = blitzen::io::duplex(4);
    /// assert_eq!(near.write(b"hello").await?, 4);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if the future is dropped before it is ready, nothing was written.
    ///
    /// # Errors
    ///
    /// Returns the error of the writer, such as that of `write(2)`. Nothing was
    /// written.
    fn write<'a>(&'a mut self, src: &'a [u8]) -> Write<'a, Self>
    where
        Self: Unpin,
    {
        write(self, src)
    }

    /// Writes some bytes of `bufs`, one buffer after another, and returns how many.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::IoSlice;
    /// use blitzen::io::AsyncWriteExt;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut writer = Vec::new();
    /// writer.write_vectored(&[IoSlice::new(b"ab"), IoSlice::new(b"cd")]).await?;
    /// assert_eq!(writer, b"abcd");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if the future is dropped before it is ready, nothing was written.
    ///
    /// # Errors
    ///
    /// Returns the error of the writer, such as that of `writev(2)`. Nothing was
    /// written.
    fn write_vectored<'a, 'b>(&'a mut self, bufs: &'a [IoSlice<'b>]) -> WriteVectored<'a, 'b, Self>
    where
        Self: Unpin,
    {
        write_vectored(self, bufs)
    }

    /// Writes some bytes of `src`, advances it by as many, and returns how many.
    ///
    /// Zero means that `src` is empty, or that the writer accepts no more bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use bytes::Buf;
    /// use blitzen::io::AsyncWriteExt;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let (mut near, _far) = blitzen::io::duplex(4);
    /// let mut src = bytes::Bytes::from_static(b"hello");
    /// near.write_buf(&mut src).await?;
    /// assert_eq!(src.remaining(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if the future is dropped before it is ready, nothing was written.
    ///
    /// # Errors
    ///
    /// Returns the error of the writer, such as that of `write(2)`. Nothing was
    /// written.
    fn write_buf<'a, B>(&'a mut self, src: &'a mut B) -> WriteBuf<'a, Self, B>
    where
        Self: Sized + Unpin,
        B: Buf,
    {
        write_buf(self, src)
    }

    /// Writes all bytes of `src`, and advances it as it goes.
    ///
    /// Writes that fail with [`Interrupted`](std::io::ErrorKind::Interrupted) are
    /// repeated.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncWriteExt;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut writer = Vec::new();
    /// writer.write_all_buf(&mut bytes::Bytes::from_static(b"hello")).await?;
    /// assert_eq!(writer, b"hello");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, `src` holds exactly what was not written: call
    /// `write_all_buf` again with it to continue.
    ///
    /// # Errors
    ///
    /// Returns the error of the writer, or
    /// [`WriteZero`](std::io::ErrorKind::WriteZero) if it accepts no more bytes. `src`
    /// holds what was not written.
    fn write_all_buf<'a, B>(&'a mut self, src: &'a mut B) -> WriteAllBuf<'a, Self, B>
    where
        Self: Sized + Unpin,
        B: Buf,
    {
        write_all_buf(self, src)
    }

    /// Writes all bytes of `src`.
    ///
    /// Writes that fail with [`Interrupted`](std::io::ErrorKind::Interrupted) are
    /// repeated.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncWriteExt;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut writer = Vec::new();
    /// writer.write_all(b"hello").await?;
    /// assert_eq!(writer, b"hello");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: if the future is dropped, part of `src` may have been written,
    /// and nothing tells how much. [`write_all_buf`](Self::write_all_buf) keeps count.
    ///
    /// # Errors
    ///
    /// Returns the error of the writer, or
    /// [`WriteZero`](std::io::ErrorKind::WriteZero) if it accepts no more bytes. Part of
    /// `src` may have been written.
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

    /// Sends all bytes that the writer still holds back.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::{AsyncWriteExt, BufWriter};
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut writer = BufWriter::new(Vec::new());
    /// writer.write_all(b"hello").await?;
    /// writer.flush().await?;
    /// assert_eq!(writer.get_ref(), b"hello");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped: call `flush` again to continue.
    ///
    /// # Errors
    ///
    /// Returns the error of the writer, such as that of `write(2)`.
    fn flush(&mut self) -> Flush<'_, Self>
    where
        Self: Unpin,
    {
        flush(self)
    }

    /// Flushes the writer and closes it for writing.
    ///
    /// The reader on the other side reaches its end.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::{AsyncReadExt, AsyncWriteExt};
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let (mut near, mut far) = blitzen::io::duplex(16);
    /// near.write_all(b"hello").await?;
    /// near.shutdown().await?;
    /// let mut all = Vec::new();
    /// far.read_to_end(&mut all).await?;
    /// assert_eq!(all, b"hello");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped: call `shutdown` again to continue.
    ///
    /// # Errors
    ///
    /// Returns the error of the writer, such as that of `shutdown(2)`.
    fn shutdown(&mut self) -> Shutdown<'_, Self>
    where
        Self: Unpin,
    {
        shutdown(self)
    }
}

impl<W: AsyncWrite + ?Sized> AsyncWriteExt for W {}
