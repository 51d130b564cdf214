//! The methods of every reader.

use bytes::BufMut;

use super::chain::{Chain, chain};
use super::number::{BigEndian, LittleEndian, ReadNumber, read_number};
use super::read::{Read, read};
use super::read_buf::{ReadIntoBuf, read_buf};
use super::read_exact::{ReadExact, read_exact};
use super::read_to_end::{ReadToEnd, read_to_end};
use super::read_to_string::{ReadToString, read_to_string};
use super::take::{Take, take};
use crate::AsyncRead;

/// Defines one method for each number and byte order.
macro_rules! read_numbers {
    ($($name:ident, $number:ty, $order:ty, $what:literal, $bytes:literal => $value:literal;)*) => {$(
        #[doc = concat!("Reads ", $what, ".")]
        ///
        /// # Examples
        ///
        /// ```
        /// use blitzen::io::AsyncReadExt;
        ///
        /// # #[blitzen::main(flavor = "current_thread")]
        /// # async fn main() -> std::io::Result<()> {
        #[doc = concat!("let mut reader: &[u8] = &", $bytes, ";")]
        #[doc = concat!("assert_eq!(reader.", stringify!($name), "().await?, ", $value, ");")]
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Cancel safety
        ///
        /// Not cancel safe: bytes that were read are lost if the future is dropped.
        ///
        /// # Errors
        ///
        /// Returns the error of the reader, or
        /// [`UnexpectedEof`](std::io::ErrorKind::UnexpectedEof) if it ends before.
        /// Bytes that were read are lost.
        fn $name(&mut self) -> ReadNumber<'_, Self, $number, $order>
        where
            Self: Unpin,
        {
            read_number(self)
        }
    )*};
}

/// The methods of every [`AsyncRead`].
///
/// # Examples
///
/// ```
/// use blitzen::io::AsyncReadExt;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut reader: &[u8] = b"\x00\x05hello world";
/// let length = reader.read_u16().await?;
/// let mut word = vec![0; length.into()];
/// reader.read_exact(&mut word).await?;
/// assert_eq!(word, b"hello");
/// # Ok(())
/// # }
/// ```
pub trait AsyncReadExt: AsyncRead {
    /// Returns a reader that reads this one to its end, and then `next`.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncReadExt;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut text = String::new();
    /// (&b"ab"[..]).chain(&b"cd"[..]).read_to_string(&mut text).await?;
    /// assert_eq!(text, "abcd");
    /// # Ok(())
    /// # }
    /// ```
    fn chain<R>(self, next: R) -> Chain<Self, R>
    where
        Self: Sized,
        R: AsyncRead,
    {
        chain(self, next)
    }

    /// Reads some bytes into `buf`, and returns how many.
    ///
    /// Zero means that the reader has ended, or that `buf` is empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncReadExt;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut reader: &[u8] = b"hello";
    /// let mut buf = [0; 8];
    /// assert_eq!(reader.read(&mut buf).await?, 5);
    /// assert_eq!(reader.read(&mut buf).await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if the future is dropped before it is ready, nothing was read.
    ///
    /// # Errors
    ///
    /// Returns the error of the reader, such as that of `read(2)`. Nothing was read.
    fn read<'a>(&'a mut self, buf: &'a mut [u8]) -> Read<'a, Self>
    where
        Self: Unpin,
    {
        read(self, buf)
    }

    /// Reads some bytes into the free space of `buf`, and returns how many.
    ///
    /// A `Vec` without free space grows first. Zero means that the reader has ended,
    /// or that `buf` has no free space.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncReadExt;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut buf = bytes::BytesMut::with_capacity(16);
    /// (&b"hello"[..]).read_buf(&mut buf).await?;
    /// assert_eq!(&buf[..], b"hello");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if the future is dropped before it is ready, nothing was read.
    ///
    /// # Errors
    ///
    /// Returns the error of the reader, such as that of `read(2)`. Nothing was read.
    fn read_buf<'a, B>(&'a mut self, buf: &'a mut B) -> ReadIntoBuf<'a, Self, B>
    where
        Self: Unpin,
        B: BufMut + ?Sized,
    {
        read_buf(self, buf)
    }

    /// Reads until `buf` is full, and returns its length.
    ///
    /// Reads that fail with [`Interrupted`](std::io::ErrorKind::Interrupted) are
    /// repeated.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncReadExt;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut reader: &[u8] = b"hello";
    /// let mut buf = [0; 4];
    /// assert_eq!(reader.read_exact(&mut buf).await?, 4);
    /// let error = reader.read_exact(&mut buf).await.unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: if the future is dropped, `buf` holds what was read so far, but
    /// nothing tells how much that is.
    ///
    /// # Errors
    ///
    /// Returns the error of the reader, or
    /// [`UnexpectedEof`](std::io::ErrorKind::UnexpectedEof) if it ends before `buf` is
    /// full. `buf` holds what was read before the error.
    fn read_exact<'a>(&'a mut self, buf: &'a mut [u8]) -> ReadExact<'a, Self>
    where
        Self: Unpin,
    {
        read_exact(self, buf)
    }

    read_numbers! {
        read_u8, u8, BigEndian, "a byte", "[200]" => "200";
        read_i8, i8, BigEndian, "a signed byte", "[200]" => "-56";
        read_u16, u16, BigEndian, "an unsigned 16-bit number, big-endian", "[1, 2]" => "0x0102";
        read_i16, i16, BigEndian, "a signed 16-bit number, big-endian", "[255, 254]" => "-2";
        read_u32, u32, BigEndian, "an unsigned 32-bit number, big-endian", "[0, 0, 1, 2]" => "0x0102";
        read_i32, i32, BigEndian, "a signed 32-bit number, big-endian", "[255, 255, 255, 254]" => "-2";
        read_u64, u64, BigEndian, "an unsigned 64-bit number, big-endian", "0x0102_u64.to_be_bytes()" => "0x0102";
        read_i64, i64, BigEndian, "a signed 64-bit number, big-endian", "(-2_i64).to_be_bytes()" => "-2";
        read_u128, u128, BigEndian, "an unsigned 128-bit number, big-endian", "0x0102_u128.to_be_bytes()" => "0x0102";
        read_i128, i128, BigEndian, "a signed 128-bit number, big-endian", "(-2_i128).to_be_bytes()" => "-2";
        read_f32, f32, BigEndian, "a 32-bit floating-point number, big-endian", "1.5_f32.to_be_bytes()" => "1.5";
        read_f64, f64, BigEndian, "a 64-bit floating-point number, big-endian", "1.5_f64.to_be_bytes()" => "1.5";
        read_u16_le, u16, LittleEndian, "an unsigned 16-bit number, little-endian", "[2, 1]" => "0x0102";
        read_i16_le, i16, LittleEndian, "a signed 16-bit number, little-endian", "[254, 255]" => "-2";
        read_u32_le, u32, LittleEndian, "an unsigned 32-bit number, little-endian", "[2, 1, 0, 0]" => "0x0102";
        read_i32_le, i32, LittleEndian, "a signed 32-bit number, little-endian", "[254, 255, 255, 255]" => "-2";
        read_u64_le, u64, LittleEndian, "an unsigned 64-bit number, little-endian", "0x0102_u64.to_le_bytes()" => "0x0102";
        read_i64_le, i64, LittleEndian, "a signed 64-bit number, little-endian", "(-2_i64).to_le_bytes()" => "-2";
        read_u128_le, u128, LittleEndian, "an unsigned 128-bit number, little-endian", "0x0102_u128.to_le_bytes()" => "0x0102";
        read_i128_le, i128, LittleEndian, "a signed 128-bit number, little-endian", "(-2_i128).to_le_bytes()" => "-2";
        read_f32_le, f32, LittleEndian, "a 32-bit floating-point number, little-endian", "1.5_f32.to_le_bytes()" => "1.5";
        read_f64_le, f64, LittleEndian, "a 64-bit floating-point number, little-endian", "1.5_f64.to_le_bytes()" => "1.5";
    }

    /// Reads to the end, appends everything to `buf`, and returns how many bytes were
    /// read.
    ///
    /// Reads that fail with [`Interrupted`](std::io::ErrorKind::Interrupted) are
    /// repeated.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncReadExt;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut all = b"in ".to_vec();
    /// assert_eq!((&b"all"[..]).read_to_end(&mut all).await?, 3);
    /// assert_eq!(all, b"in all");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, `buf` holds what was read so far.
    ///
    /// # Errors
    ///
    /// Returns the error of the reader. `buf` holds what was read before it.
    fn read_to_end<'a>(&'a mut self, buf: &'a mut Vec<u8>) -> ReadToEnd<'a, Self>
    where
        Self: Unpin,
    {
        read_to_end(self, buf)
    }

    /// Reads text to the end, appends it to `dst`, and returns how many bytes were
    /// read.
    ///
    /// Reads that fail with [`Interrupted`](std::io::ErrorKind::Interrupted) are
    /// repeated.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncReadExt;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut text = "in ".to_string();
    /// (&b"all"[..]).read_to_string(&mut text).await?;
    /// assert_eq!(text, "in all");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: if the future is dropped, `dst` holds what was read so far if
    /// that is UTF-8; otherwise it is lost.
    ///
    /// # Errors
    ///
    /// Returns the error of the reader, or
    /// [`InvalidData`](std::io::ErrorKind::InvalidData) if the bytes are not UTF-8. In
    /// both cases `dst` is unchanged.
    fn read_to_string<'a>(&'a mut self, dst: &'a mut String) -> ReadToString<'a, Self>
    where
        Self: Unpin,
    {
        read_to_string(self, dst)
    }

    /// Returns a reader of the first `limit` bytes of this one.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncReadExt;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut text = String::new();
    /// (&b"hello"[..]).take(4).read_to_string(&mut text).await?;
    /// assert_eq!(text, "hell");
    /// # Ok(())
    /// # }
    /// ```
    fn take(self, limit: u64) -> Take<Self>
    where
        Self: Sized,
    {
        take(self, limit)
    }
}

impl<R: AsyncRead + ?Sized> AsyncReadExt for R {}
