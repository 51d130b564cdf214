//! Reading and writing of numbers.

use std::fmt;
use std::future::Future;
use std::io;
use std::marker::{PhantomData, PhantomPinned};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::read_exact::poll_fill;
use super::write_zero;
use crate::check::{is_interrupted, written};
use crate::{AsyncRead, AsyncWrite, ReadBuf};

/// A number with a fixed number of bytes.
pub trait Number: Copy {
    /// An array of that many bytes.
    type Bytes: AsRef<[u8]> + AsMut<[u8]> + Copy + Default + fmt::Debug;

    /// Returns the number with these bytes, the most significant first.
    fn from_be(bytes: Self::Bytes) -> Self;
    /// Returns the number with these bytes, the least significant first.
    fn from_le(bytes: Self::Bytes) -> Self;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Number for $number {
            type Bytes = [u8; size_of::<$number>()];

            fn from_be(bytes: Self::Bytes) -> Self {
                Self::from_be_bytes(bytes)
            }

            fn from_le(bytes: Self::Bytes) -> Self {
                Self::from_le_bytes(bytes)
            }
        }
    )*};
}

numbers!(u8, i8, u16, i16, u32, i32, u64, i64, u128, i128, f32, f64);

/// Which byte of a number comes first.
pub trait ByteOrder {
    /// Returns the number with these bytes.
    fn number<N: Number>(bytes: N::Bytes) -> N;
}

/// The most significant byte first.
#[derive(Debug)]
pub enum BigEndian {}

/// The least significant byte first.
#[derive(Debug)]
pub enum LittleEndian {}

impl ByteOrder for BigEndian {
    fn number<N: Number>(bytes: N::Bytes) -> N {
        N::from_be(bytes)
    }
}

impl ByteOrder for LittleEndian {
    fn number<N: Number>(bytes: N::Bytes) -> N {
        N::from_le(bytes)
    }
}

pin_project! {
    /// The future of the methods that read a number.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct ReadNumber<'a, R: ?Sized, N: Number, O> {
        reader: &'a mut R,
        bytes: N::Bytes,
        filled: u8,
        order: PhantomData<O>,
        #[pin]
        _pin: PhantomPinned,
    }
}

pub(super) fn read_number<R, N, O>(reader: &mut R) -> ReadNumber<'_, R, N, O>
where
    R: AsyncRead + Unpin + ?Sized,
    N: Number,
{
    ReadNumber {
        reader,
        bytes: N::Bytes::default(),
        filled: 0,
        order: PhantomData,
        _pin: PhantomPinned,
    }
}

impl<R, N, O> Future for ReadNumber<'_, R, N, O>
where
    R: AsyncRead + Unpin + ?Sized,
    N: Number,
    O: ByteOrder,
{
    type Output = io::Result<N>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut buf = ReadBuf::new(this.bytes.as_mut());
        buf.set_filled(usize::from(*this.filled));
        let read = poll_fill(Pin::new(&mut **this.reader), cx, &mut buf);
        *this.filled = buf.filled().len() as u8; // no number has more than 16
        ready!(read)?;
        Poll::Ready(Ok(O::number(*this.bytes)))
    }
}

pin_project! {
    /// The future of the methods that write a number.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct WriteNumber<'a, W: ?Sized, N: Number> {
        writer: &'a mut W,
        bytes: N::Bytes,
        written: u8,
        number: PhantomData<N>,
        #[pin]
        _pin: PhantomPinned,
    }
}

pub(super) fn write_number<W, N>(writer: &mut W, bytes: N::Bytes) -> WriteNumber<'_, W, N>
where
    W: AsyncWrite + Unpin + ?Sized,
    N: Number,
{
    WriteNumber {
        writer,
        bytes,
        written: 0,
        number: PhantomData,
        _pin: PhantomPinned,
    }
}

impl<W, N> Future for WriteNumber<'_, W, N>
where
    W: AsyncWrite + Unpin + ?Sized,
    N: Number,
{
    type Output = io::Result<()>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut writer = Pin::new(&mut **this.writer);
        loop {
            let rest = &this.bytes.as_ref()[usize::from(*this.written)..];
            match ready!(writer.as_mut().poll_write(cx, rest)) {
                Ok(amount) if amount == rest.len() => return Poll::Ready(Ok(())),
                Ok(0) => return Poll::Ready(Err(write_zero())),
                // No number has more than 16.
                Ok(amount) => *this.written += written(amount, rest.len()) as u8,
                Err(error) if is_interrupted(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}
