//! Buffers that an operation owns while it runs.
//!
//! A kernel that reads and writes by itself needs memory that stays where it
//! is until it has said that it is done, whatever becomes of the future that
//! waits for it. So the buffer goes into the operation and comes out with its
//! result:
//!
//! ```
//! use blitzen_io::owned::{AsyncReadOwned, Polled};
//!
//! # futures::executor::block_on(async {
//! let mut reader = Polled::new(&b"hello"[..]);
//! let (result, buf) = reader.read_owned(Vec::with_capacity(16)).await;
//! assert_eq!((result?, buf), (5, b"hello".to_vec()));
//! # std::io::Result::Ok(())
//! # }).unwrap();
//! ```
//!
//! [`IoBuf`] and [`IoBufMut`] say what such a buffer is, [`Slice`] is a part of
//! one, [`AsyncReadOwned`] and [`AsyncWriteOwned`] are what a stream offers
//! that can do it, and [`Polled`] offers it for every other stream.

use std::future::{Future, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::ops::{Bound, RangeBounds};
use std::pin::Pin;
use std::sync::Arc;
use std::task::ready;

use bytes::{Bytes, BytesMut};

use crate::check::{is_interrupted, written};
use crate::{AsyncRead, AsyncWrite, ReadBuf, check};

/// What an operation on an owned buffer ends with: how many bytes, and the
/// buffer.
///
/// ```
/// use blitzen_io::owned::Outcome;
/// let outcome: Outcome<Vec<u8>> = (Ok(2), vec![1, 2]);
/// ```
pub type Outcome<B> = (io::Result<usize>, B);

/// A buffer whose bytes stay where they are when it is moved.
///
/// ```
/// use blitzen_io::owned::IoBuf;
///
/// let buf = b"hello".to_vec();
/// let before = buf.stable_ptr();
/// let moved = Box::new(buf);
/// assert_eq!(moved.stable_ptr(), before);
/// assert_eq!(moved.as_init(), b"hello");
/// ```
///
/// # Safety
/// As long as the buffer is neither changed nor dropped, and moving it is no
/// change:
///
/// O1. [`stable_ptr`](Self::stable_ptr) and [`init_len`](Self::init_len) answer
///     the same every time.
/// O2. The `init_len` bytes at `stable_ptr` are initialised, may be read from
///     any thread, and are not written to by anybody.
pub unsafe trait IoBuf: Unpin + 'static {
    /// Where the bytes are.
    ///
    /// To be asked for when the buffer has been put where it stays during the
    /// operation.
    fn stable_ptr(&self) -> *const u8;

    /// How many bytes, counted from the first, are initialised.
    fn init_len(&self) -> usize;

    /// The initialised bytes.
    fn as_init(&self) -> &[u8] {
        // SAFETY: O2, for as long as `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.stable_ptr(), self.init_len()) }
    }

    /// Some of the initialised bytes, as a buffer of its own to write from.
    ///
    /// # Panics
    /// If the range reaches beyond the initialised bytes.
    ///
    /// ```
    /// use blitzen_io::owned::IoBuf;
    /// let part = b"hello".to_vec().slice(1..3);
    /// assert_eq!(part.as_init(), b"el");
    /// assert_eq!(part.into_inner(), b"hello");
    /// ```
    #[track_caller]
    fn slice(self, range: impl RangeBounds<usize>) -> Slice<Self>
    where
        Self: Sized,
    {
        let len = self.init_len();
        let (start, end) = resolve(range, len);
        assert!(
            start <= end && end <= len,
            "the range {start}..{end} reaches out of {len} initialised bytes"
        );
        Slice {
            buf: self,
            start,
            end,
        }
    }
}

/// A buffer that can be read into, also where it is not initialised yet.
///
/// ```
/// use blitzen_io::owned::IoBufMut;
///
/// let mut buf = Vec::with_capacity(4);
/// // SAFETY: there is room for four bytes, and one is written.
/// unsafe {
///     buf.stable_mut_ptr().write(7);
///     buf.set_init(1);
/// }
/// assert_eq!(buf, [7]);
/// ```
///
/// # Safety
/// As for [`IoBuf`], and:
///
/// O3. [`stable_mut_ptr`](Self::stable_mut_ptr) is `stable_ptr`, and
///     [`total_len`](Self::total_len) bytes there, `init_len` at the least,
///     belong to this buffer alone and may be written from any thread.
/// O4. [`set_init`](Self::set_init) leaves the bytes where and as they are, and
///     makes `init_len` at least `len`.
pub unsafe trait IoBufMut: IoBuf {
    /// Where the bytes are, to be written to.
    fn stable_mut_ptr(&mut self) -> *mut u8;

    /// How many bytes fit, initialised or not.
    fn total_len(&self) -> usize;

    /// Says that the first `len` bytes are initialised. What was initialised
    /// before stays so.
    ///
    /// # Safety
    /// They are, and there are as many.
    unsafe fn set_init(&mut self, len: usize);

    /// Part of the buffer to read into, initialised or not.
    ///
    /// `buf.slice_mut(buf.len()..)` appends to a vector.
    ///
    /// # Panics
    /// If the range reaches beyond the buffer, or starts behind the initialised
    /// bytes: a gap would be left.
    ///
    /// ```
    /// # futures::executor::block_on(async {
    /// use blitzen_io::owned::{AsyncReadOwned, IoBufMut, Polled};
    /// let mut buf = Vec::with_capacity(8);
    /// buf.extend(b"ab");
    /// let (result, part) = Polled::new(&b"cd"[..]).read_owned(buf.slice_mut(2..)).await;
    /// result?;
    /// assert_eq!(part.into_inner(), b"abcd");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    #[track_caller]
    fn slice_mut(self, range: impl RangeBounds<usize>) -> Slice<Self>
    where
        Self: Sized,
    {
        let (init, total) = (self.init_len(), self.total_len());
        let (start, end) = resolve(range, total);
        assert!(
            start <= end && end <= total,
            "the range {start}..{end} reaches out of {total} bytes"
        );
        assert!(
            start <= init,
            "the range starts at {start}, behind the {init} initialised bytes"
        );
        Slice {
            buf: self,
            start,
            end,
        }
    }
}

fn resolve(range: impl RangeBounds<usize>, len: usize) -> (usize, usize) {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    (start, end)
}

/// Part of a buffer: see [`IoBuf::slice`] and [`IoBufMut::slice_mut`].
// S1. `start` and `end` are wishes, held against the buffer anew each time they
//     are used. The buffer they were made for need not be the one that is here:
//     a clone has less capacity, and whoever is given a slice to own may return
//     another one of the same type.
#[derive(Clone, Debug)]
pub struct Slice<B> {
    buf: B,
    start: usize,
    end: usize,
}

impl<B> Slice<B> {
    /// The whole buffer.
    ///
    /// ```
    /// use blitzen_io::owned::IoBuf;
    /// assert_eq!(vec![1, 2, 3].slice(1..).into_inner(), [1, 2, 3]);
    /// ```
    pub fn into_inner(self) -> B {
        self.buf
    }

    /// The whole buffer, to look at.
    ///
    /// ```
    /// use blitzen_io::owned::IoBuf;
    /// assert_eq!(vec![1, 2, 3].slice(1..).get_ref(), &[1, 2, 3]);
    /// ```
    pub fn get_ref(&self) -> &B {
        &self.buf
    }
}

impl<B: IoBuf> Slice<B> {
    /// Returns where the part starts: within the initialised bytes, or at their
    /// end.
    fn first(&self) -> usize {
        self.start.min(self.buf.init_len())
    }
}

// SAFETY: O1 and O2 are the buffer's own: the part starts and ends within its
// initialised bytes, whatever the wishes are (S1).
unsafe impl<B: IoBuf> IoBuf for Slice<B> {
    fn stable_ptr(&self) -> *const u8 {
        // SAFETY: `first` lies within the initialised bytes or at their end.
        unsafe { self.buf.stable_ptr().add(self.first()) }
    }

    fn init_len(&self) -> usize {
        self.end
            .min(self.buf.init_len())
            .saturating_sub(self.first())
    }
}

// SAFETY: O3 is the buffer's own: the part starts within its initialised bytes
// and ends within all of its bytes. For O4, everything before `first` is
// initialised too.
unsafe impl<B: IoBufMut> IoBufMut for Slice<B> {
    fn stable_mut_ptr(&mut self) -> *mut u8 {
        let first = self.first();
        // SAFETY: `first` lies within the buffer or at its end.
        unsafe { self.buf.stable_mut_ptr().add(first) }
    }

    fn total_len(&self) -> usize {
        self.end
            .min(self.buf.total_len())
            .saturating_sub(self.first())
    }

    unsafe fn set_init(&mut self, len: usize) {
        let first = self.first();
        // SAFETY: the caller's bytes lie behind `first`, and everything before
        // is initialised.
        unsafe { self.buf.set_init(first + len) }
    }
}

/// Buffers that are like a slice of initialised bytes, wherever that lies.
macro_rules! read_only {
    ($($(#[$why:meta])* $buf:ty),*) => {$(
        // SAFETY: O1 and O2, the bytes are not in the value itself, and it is
        // the only one that could change them, or nobody can.
        unsafe impl IoBuf for $buf {
            fn stable_ptr(&self) -> *const u8 {
                AsRef::<[u8]>::as_ref(self).as_ptr()
            }

            fn init_len(&self) -> usize {
                AsRef::<[u8]>::as_ref(self).len()
            }
        }
    )*};
}

read_only!(
    Vec<u8>,
    Box<[u8]>,
    String,
    Bytes,
    BytesMut,
    Arc<[u8]>,
    &'static [u8],
    &'static str
);

// SAFETY: O3, a vector owns its capacity; O4, `set_len` moves nothing.
unsafe impl IoBufMut for Vec<u8> {
    fn stable_mut_ptr(&mut self) -> *mut u8 {
        self.as_mut_ptr()
    }

    fn total_len(&self) -> usize {
        self.capacity()
    }

    unsafe fn set_init(&mut self, len: usize) {
        if len > self.len() {
            // SAFETY: the caller's.
            unsafe { self.set_len(len) };
        }
    }
}

// SAFETY: as for a vector: the spare capacity of a `BytesMut` is shared with
// nobody.
unsafe impl IoBufMut for BytesMut {
    fn stable_mut_ptr(&mut self) -> *mut u8 {
        // By way of the spare capacity of the emptied buffer: a pointer to the
        // initialised bytes is good for those only.
        let len = self.len();
        self.clear();
        let start = self.spare_capacity_mut().as_mut_ptr().cast();
        // SAFETY: these bytes were initialised and have not been touched.
        unsafe { self.set_len(len) };
        start
    }

    fn total_len(&self) -> usize {
        self.capacity()
    }

    unsafe fn set_init(&mut self, len: usize) {
        if len > self.len() {
            // SAFETY: the caller's.
            unsafe { self.set_len(len) };
        }
    }
}

// SAFETY: O3, a box owns its bytes; O4, they are all initialised, always.
unsafe impl IoBufMut for Box<[u8]> {
    fn stable_mut_ptr(&mut self) -> *mut u8 {
        self.as_mut_ptr()
    }

    fn total_len(&self) -> usize {
        self.len()
    }

    unsafe fn set_init(&mut self, _len: usize) {}
}

// SAFETY: O1 and O2, a box owns its bytes, and they are not in the box itself.
unsafe impl<const N: usize> IoBuf for Box<[u8; N]> {
    fn stable_ptr(&self) -> *const u8 {
        self.as_slice().as_ptr()
    }

    fn init_len(&self) -> usize {
        N
    }
}

// SAFETY: O3, a box owns its bytes; O4, they are all initialised, always.
unsafe impl<const N: usize> IoBufMut for Box<[u8; N]> {
    fn stable_mut_ptr(&mut self) -> *mut u8 {
        self.as_mut_slice().as_mut_ptr()
    }

    fn total_len(&self) -> usize {
        N
    }

    unsafe fn set_init(&mut self, _len: usize) {}
}

/// A source that reads into a buffer it is given to own.
///
/// ```
/// use blitzen_io::owned::{AsyncReadOwned, Polled};
///
/// # futures::executor::block_on(async {
/// let mut reader = Polled::new(&b"hello"[..]);
/// let (result, buf) = reader.read_owned(Box::new([0; 3])).await;
/// assert_eq!((result?, *buf), (3, *b"hel"));
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub trait AsyncReadOwned {
    /// Reads once into `buf`, from its first byte up to its capacity, and
    /// returns how many bytes; zero at the end, or if there is no room.
    ///
    /// A vector that is shorter grows to what was read; one that is longer
    /// keeps its length.
    ///
    /// # Cancel safety
    /// A future that is dropped takes the buffer with it. What a kernel had
    /// already read into it is lost.
    fn read_owned<B: IoBufMut>(&mut self, buf: B) -> impl Future<Output = Outcome<B>>;
}

/// A sink that writes from a buffer it is given to own.
///
/// ```
/// use blitzen_io::owned::{AsyncWriteOwned, Polled};
///
/// # futures::executor::block_on(async {
/// let mut writer = Polled::new(Vec::new());
/// let (result, _buf) = writer.write_all_owned("hello").await;
/// assert_eq!(result?, 5);
/// assert_eq!(writer.into_inner(), b"hello");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub trait AsyncWriteOwned {
    /// Writes some of the initialised bytes of `buf`, and returns how many.
    ///
    /// # Cancel safety
    /// A future that is dropped takes the buffer with it. Whether a kernel had
    /// already written from it is not known.
    fn write_owned<B: IoBuf>(&mut self, buf: B) -> impl Future<Output = Outcome<B>>;

    /// Writes all the initialised bytes of `buf`, and returns how many there
    /// are.
    ///
    /// # Errors
    /// The sink's, and [`WriteZero`](io::ErrorKind::WriteZero) if it takes no
    /// more. A write that was interrupted is tried again.
    fn write_all_owned<B: IoBuf>(&mut self, buf: B) -> impl Future<Output = Outcome<B>> {
        async move {
            let mut rest = buf.slice(..);
            let len = rest.end;
            let mut start = 0;
            while start < len {
                // `rest` is the part, not the part of a part: its buffer type
                // must not grow with every write.
                rest.start = start;
                let (result, part) = self.write_owned(rest).await;
                rest = part;
                match result {
                    Ok(0) => {
                        let error =
                            io::Error::new(io::ErrorKind::WriteZero, "the sink takes no more");
                        return (Err(error), rest.into_inner());
                    }
                    Ok(amount) => start += written(amount, len - start),
                    Err(error) if is_interrupted(&error) => {}
                    Err(error) => return (Err(error), rest.into_inner()),
                }
            }
            (Ok(len), rest.into_inner())
        }
    }
}

/// Owned-buffer operations for a stream that has only the polled ones.
///
/// Nothing is copied: the stream reads straight into the buffer. Unlike with a
/// kernel that works by itself, a future that is dropped has read or written
/// nothing.
///
/// ```
/// use blitzen_io::owned::{AsyncWriteOwned, Polled};
///
/// # futures::executor::block_on(async {
/// let (near, _far) = blitzen_io::duplex(4);
/// let (result, buf) = Polled::new(near).write_owned(b"hello".to_vec()).await;
/// assert_eq!((result?, buf.len()), (4, 5));
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Polled<T> {
    stream: T,
}

impl<T> Polled<T> {
    /// Wraps a stream.
    ///
    /// ```
    /// let polled = blitzen_io::owned::Polled::new(blitzen_io::empty());
    /// ```
    pub fn new(stream: T) -> Self {
        Self { stream }
    }

    /// The stream.
    ///
    /// ```
    /// let polled = blitzen_io::owned::Polled::new(&b"abc"[..]);
    /// assert_eq!(polled.into_inner(), b"abc");
    /// ```
    pub fn into_inner(self) -> T {
        self.stream
    }
}

impl<T: AsyncRead + Unpin> AsyncReadOwned for Polled<T> {
    async fn read_owned<B: IoBufMut>(&mut self, mut buf: B) -> Outcome<B> {
        let result = poll_fn(|cx| {
            let (init, total) = (buf.init_len(), buf.total_len());
            // SAFETY: O3, and the buffer is borrowed until the slice is gone.
            let bytes = unsafe {
                let start = buf.stable_mut_ptr().cast::<MaybeUninit<u8>>();
                std::slice::from_raw_parts_mut(start, total)
            };
            let mut room = ReadBuf::uninit(bytes);
            // SAFETY: O2.
            unsafe { room.assume_init(init) };
            let polled = check::poll_read(Pin::new(&mut self.stream), cx, &mut room);
            let amount = room.filled().len();
            ready!(polled)?;
            // SAFETY: the room is the buffer's, and this much of it is filled.
            unsafe { buf.set_init(amount) };
            std::task::Poll::Ready(Ok(amount))
        })
        .await;
        (result, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWriteOwned for Polled<T> {
    async fn write_owned<B: IoBuf>(&mut self, buf: B) -> Outcome<B> {
        let result = poll_fn(|cx| Pin::new(&mut self.stream).poll_write(cx, buf.as_init())).await;
        (result, buf)
    }
}
