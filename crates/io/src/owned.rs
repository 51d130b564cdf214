//! Buffers that an operation owns while it runs.
//!
//! The kernel may read and write on its own, even after the future of an operation
//! was dropped. The memory must then stay in place. So the buffer moves into the
//! operation, and comes back with the result:
//!
//! ```
//! use blitzen::io::owned::{AsyncReadOwned, Polled};
//!
//! # #[blitzen::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let mut reader = Polled::new(&b"hello"[..]);
//! let (result, buf) = reader.read_owned(Vec::with_capacity(16)).await;
//! assert_eq!((result?, buf), (5, b"hello".to_vec()));
//! # Ok(())
//! # }
//! ```
//!
//! | | |
//! |---|---|
//! | [`IoBuf`], [`IoBufMut`] | buffers to write from and to read into |
//! | [`Slice`] | a part of a buffer |
//! | [`AsyncReadOwned`], [`AsyncWriteOwned`] | streams with operations on owned buffers |
//! | [`Polled`] | adds these operations to any stream |

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

/// The output of an operation on an owned buffer: the number of bytes, and the
/// buffer.
///
/// # Examples
///
/// ```
/// use blitzen::io::owned::{AsyncReadOwned, Outcome, Polled};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let outcome: Outcome<Vec<u8>> = Polled::new(&b"hi"[..]).read_owned(vec![0; 4]).await;
/// assert_eq!(outcome.0?, 2);
/// # Ok(())
/// # }
/// ```
pub type Outcome<B> = (io::Result<usize>, B);

// What the two traits promise as long as a buffer is neither changed nor dropped;
// moving it is no change:
//
// O1. `stable_ptr` and `init_len` answer the same every time.
// O2. The `init_len` bytes at `stable_ptr` are initialised, may be read from any
//     thread, and are not written to by anyone.
// O3. `stable_mut_ptr` is `stable_ptr`, and `total_len` bytes there, `init_len` at
//     the least, belong to the buffer alone and may be written from any thread.
// O4. `set_init` leaves the bytes where and as they are, and makes `init_len` at
//     least `len`.

/// A buffer whose bytes stay at their address when the buffer is moved.
///
/// # Examples
///
/// ```
/// use blitzen::io::owned::IoBuf;
///
/// let buf = b"hello".to_vec();
/// let before = buf.stable_ptr();
/// let moved = Box::new(buf);
/// assert_eq!(moved.stable_ptr(), before);
/// assert_eq!(moved.as_init(), b"hello");
/// ```
///
/// # Safety
///
/// As long as the buffer is neither changed nor dropped (moving it is not a
/// change):
///
/// * [`stable_ptr`](Self::stable_ptr) and [`init_len`](Self::init_len) must return
///   the same values every time.
/// * The `init_len` bytes at `stable_ptr` must be initialised, must be readable
///   from any thread, and must not be written to by anyone.
pub unsafe trait IoBuf: Unpin + 'static {
    /// Returns the address of the first byte.
    ///
    /// An operation asks for it after the buffer has been moved to where it stays.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::owned::IoBuf;
    ///
    /// let buf = vec![1, 2, 3];
    /// assert_eq!(buf.stable_ptr(), buf.as_ptr());
    /// ```
    fn stable_ptr(&self) -> *const u8;

    /// Returns the number of initialised bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::owned::IoBuf;
    ///
    /// let mut buf = Vec::with_capacity(64);
    /// buf.extend(b"abc");
    /// assert_eq!(buf.init_len(), 3);
    /// ```
    fn init_len(&self) -> usize;

    /// Returns the initialised bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::owned::IoBuf;
    ///
    /// assert_eq!("abc".as_init(), b"abc");
    /// ```
    fn as_init(&self) -> &[u8] {
        // SAFETY: O2, for as long as `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.stable_ptr(), self.init_len()) }
    }

    /// Returns a part of the initialised bytes as a buffer of its own, to write from.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::owned::IoBuf;
    /// let part = b"hello".to_vec().slice(1..3);
    /// assert_eq!(part.as_init(), b"el");
    /// assert_eq!(part.into_inner(), b"hello");
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `range` reaches beyond the initialised bytes.
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

/// A buffer that can be read into, and that need not be initialised first.
///
/// # Examples
///
/// ```
/// use blitzen::io::owned::IoBufMut;
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
///
/// As for [`IoBuf`], and:
///
/// * [`stable_mut_ptr`](Self::stable_mut_ptr) must return the address that
///   `stable_ptr` returns. The [`total_len`](Self::total_len) bytes there, at least
///   `init_len`, must belong to this buffer alone and must be writable from any
///   thread.
/// * [`set_init`](Self::set_init) must leave the bytes as they are, at their
///   address, and must make `init_len` at least `len`.
pub unsafe trait IoBufMut: IoBuf {
    /// Returns the address of the first byte, to write to.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::owned::IoBufMut;
    ///
    /// let mut buf = vec![1, 2, 3];
    /// assert_eq!(buf.stable_mut_ptr(), buf.as_mut_ptr());
    /// ```
    fn stable_mut_ptr(&mut self) -> *mut u8;

    /// Returns the number of bytes that fit, initialised or not.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::owned::IoBufMut;
    ///
    /// assert_eq!(Box::new([0; 8]).total_len(), 8);
    /// ```
    fn total_len(&self) -> usize;

    /// Marks the first `len` bytes as initialised. More bytes than that may stay
    /// initialised.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::owned::IoBufMut;
    ///
    /// let mut buf = Vec::with_capacity(8);
    /// buf.spare_capacity_mut()[0].write(7);
    /// // SAFETY: the first byte was just written.
    /// unsafe { buf.set_init(1) };
    /// assert_eq!(buf, [7]);
    /// ```
    ///
    /// # Safety
    ///
    /// The buffer must have at least `len` bytes, and the first `len` must be
    /// initialised.
    unsafe fn set_init(&mut self, len: usize);

    /// Returns a part of the buffer, initialised or not, as a buffer of its own to read
    /// into.
    ///
    /// `buf.slice_mut(buf.len()..)` appends to a vector.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use blitzen::io::owned::{AsyncReadOwned, IoBufMut, Polled};
    /// let mut buf = Vec::with_capacity(8);
    /// buf.extend(b"ab");
    /// let (result, part) = Polled::new(&b"cd"[..]).read_owned(buf.slice_mut(2..)).await;
    /// result?;
    /// assert_eq!(part.into_inner(), b"abcd");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `range` reaches beyond the buffer, or starts behind its initialised
    /// bytes.
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

/// A part of a buffer, created by [`IoBuf::slice`] or [`IoBufMut::slice_mut`].
///
/// A clone covers the same range, as far as the cloned buffer has it: a cloned
/// vector has no spare capacity.
///
/// # Examples
///
/// ```
/// use blitzen::io::owned::{IoBuf, Slice};
///
/// let part: Slice<Vec<u8>> = b"hello".to_vec().slice(1..4);
/// assert_eq!(part.as_init(), b"ell");
/// ```
// S1. `start` and `end` are what was asked for. They are checked against the buffer
//     each time they are used, since it need not be the one they were asked of: a
//     clone has less capacity, and an operation that owns a slice may return another
//     slice of the same type.
#[derive(Clone, Debug)]
pub struct Slice<B> {
    buf: B,
    start: usize,
    end: usize,
}

impl<B> Slice<B> {
    /// Returns the whole buffer.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::owned::IoBuf;
    /// assert_eq!(vec![1, 2, 3].slice(1..).into_inner(), [1, 2, 3]);
    /// ```
    pub fn into_inner(self) -> B {
        self.buf
    }

    /// Returns a reference to the whole buffer.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::owned::IoBuf;
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
// initialised bytes, whatever was asked for (S1).
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

/// Implements [`IoBuf`] for buffers that are a slice of initialised bytes.
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
            // SAFETY: the caller upholds the same contract.
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
            // SAFETY: the caller upholds the same contract.
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

/// A source that reads into buffers it owns during the operation.
///
/// # Examples
///
/// ```
/// use blitzen::io::owned::{AsyncReadOwned, Polled};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut reader = Polled::new(&b"hello"[..]);
/// let (result, buf) = reader.read_owned(Box::new([0; 3])).await;
/// assert_eq!((result?, *buf), (3, *b"hel"));
/// # Ok(())
/// # }
/// ```
pub trait AsyncReadOwned {
    /// Reads some bytes into `buf`, starting at its first byte, and returns how many
    /// together with the buffer.
    ///
    /// Zero means that the source has ended, or that `buf` has no room. The length of a
    /// shorter vector becomes the number of bytes; a longer vector keeps its length.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::owned::{AsyncReadOwned, Polled};
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut reader = Polled::new(&b"hello"[..]);
    /// let (result, buf) = reader.read_owned(Vec::with_capacity(3)).await;
    /// assert_eq!((result?, &buf[..]), (3, &b"hel"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the buffer is dropped too. What the kernel had already
    /// read into it is lost.
    ///
    /// # Errors
    ///
    /// Returns the error of the source, such as that of `read(2)`.
    fn read_owned<B: IoBufMut>(&mut self, buf: B) -> impl Future<Output = Outcome<B>>;
}

/// A sink that writes from buffers it owns during the operation.
///
/// # Examples
///
/// ```
/// use blitzen::io::owned::{AsyncWriteOwned, Polled};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut writer = Polled::new(Vec::new());
/// let (result, _buf) = writer.write_all_owned("hello").await;
/// assert_eq!(result?, 5);
/// assert_eq!(writer.into_inner(), b"hello");
/// # Ok(())
/// # }
/// ```
pub trait AsyncWriteOwned {
    /// Writes some of the initialised bytes of `buf`, and returns how many together
    /// with the buffer.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::owned::{AsyncWriteOwned, Polled};
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut writer = Polled::new(Vec::new());
    /// let (result, _buf) = writer.write_owned("hello").await;
    /// assert_eq!(result?, 5);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the buffer is dropped too. The kernel may have written
    /// some of it.
    ///
    /// # Errors
    ///
    /// Returns the error of the sink, such as that of `write(2)`.
    fn write_owned<B: IoBuf>(&mut self, buf: B) -> impl Future<Output = Outcome<B>>;

    /// Writes all initialised bytes of `buf`, and returns how many together with the
    /// buffer.
    ///
    /// Writes that fail with [`Interrupted`](io::ErrorKind::Interrupted) are repeated.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::owned::{AsyncWriteOwned, Polled};
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut writer = Polled::new(Vec::new());
    /// let (result, _buf) = writer.write_all_owned(b"hello".to_vec()).await;
    /// assert_eq!(result?, 5);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the buffer is dropped too. The kernel may have written
    /// some of it.
    ///
    /// # Errors
    ///
    /// Returns the error of the sink, or [`WriteZero`](io::ErrorKind::WriteZero) if it
    /// accepts no more bytes.
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
                        let error = io::Error::new(
                            io::ErrorKind::WriteZero,
                            "the writer accepts no more bytes",
                        );
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

/// An adapter that offers owned-buffer operations on any stream.
///
/// Nothing is copied: the stream reads into the buffer and writes from it. If a
/// future is dropped before it is ready, nothing was read or written.
///
/// # Examples
///
/// ```
/// use blitzen::io::owned::{AsyncWriteOwned, Polled};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let (near, _far) = blitzen::io::duplex(4);
/// let (result, buf) = Polled::new(near).write_owned(b"hello".to_vec()).await;
/// assert_eq!((result?, buf.len()), (4, 5));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Polled<T> {
    stream: T,
}

impl<T> Polled<T> {
    /// Wraps `stream`.
    ///
    /// # Examples
    ///
    /// ```
    /// let polled = blitzen::io::owned::Polled::new(blitzen::io::empty());
    /// ```
    pub fn new(stream: T) -> Self {
        Self { stream }
    }

    /// Returns the stream.
    ///
    /// # Examples
    ///
    /// ```
    /// let polled = blitzen::io::owned::Polled::new(&b"abc"[..]);
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
