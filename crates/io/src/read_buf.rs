//! The buffer of a read: how many bytes are data, and how many are initialised.
//!
//! ```text
//!   0          filled        initialized       capacity
//!   │  data      │  any bytes    │  uninitialised │
//! ```
//!
//! B1. `filled <= initialized <= bytes.len()`.
//! B2. `bytes[..initialized]` are initialised, and stay so: no safe method makes
//!     them uninitialised.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BufMut;
use bytes::buf::UninitSlice;

use crate::{AsyncRead, check};

/// A byte buffer that is filled step by step, and that need not be initialised
/// first.
///
/// The buffer has three parts: the filled bytes, which are data; bytes that are
/// initialised and not filled; and bytes that are not initialised.
///
/// # Examples
///
/// ```
/// use std::mem::MaybeUninit;
/// use blitzen::io::ReadBuf;
///
/// let mut storage = [MaybeUninit::uninit(); 8];
/// let mut buf = ReadBuf::uninit(&mut storage);
/// buf.put_slice(b"abc");
/// assert_eq!(buf.filled(), b"abc");
/// assert_eq!(buf.remaining(), 5);
/// ```
pub struct ReadBuf<'a> {
    bytes: &'a mut [MaybeUninit<u8>],
    filled: usize,
    initialized: usize,
}

impl<'a> ReadBuf<'a> {
    /// Creates an empty `ReadBuf` over `buf`, whose bytes are all initialised.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut storage = [0; 4];
    /// let buf = blitzen::io::ReadBuf::new(&mut storage);
    /// assert_eq!((buf.filled().len(), buf.initialized().len()), (0, 4));
    /// ```
    #[inline]
    pub fn new(buf: &'a mut [u8]) -> ReadBuf<'a> {
        let initialized = buf.len();
        // SAFETY: `MaybeUninit<u8>` has the layout of `u8`. By B2 nothing safe
        // uninitialises a byte through the new reference, so that `buf` holds
        // initialised bytes when the borrow ends.
        let bytes = unsafe { &mut *(buf as *mut [u8] as *mut [MaybeUninit<u8>]) };
        ReadBuf {
            bytes,
            filled: 0,
            initialized,
        }
    }

    /// Creates an empty `ReadBuf` over `buf`, none of whose bytes need be
    /// initialised.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::mem::MaybeUninit;
    /// let mut storage = [MaybeUninit::uninit(); 4];
    /// let buf = blitzen::io::ReadBuf::uninit(&mut storage);
    /// assert_eq!((buf.capacity(), buf.initialized().len()), (4, 0));
    /// ```
    #[inline]
    pub fn uninit(buf: &'a mut [MaybeUninit<u8>]) -> ReadBuf<'a> {
        ReadBuf {
            bytes: buf,
            filled: 0,
            initialized: 0,
        }
    }

    /// Returns the number of bytes that the buffer can hold.
    ///
    /// # Examples
    ///
    /// ```
    /// # let mut storage = [0; 4];
    /// assert_eq!(blitzen::io::ReadBuf::new(&mut storage).capacity(), 4);
    /// ```
    #[inline]
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the filled bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// # let mut storage = [0; 4];
    /// # let mut buf = blitzen::io::ReadBuf::new(&mut storage);
    /// buf.put_slice(b"ab");
    /// assert_eq!(buf.filled(), b"ab");
    /// ```
    #[inline]
    pub fn filled(&self) -> &[u8] {
        // SAFETY: B1 and B2.
        unsafe { self.bytes[..self.filled].assume_init_ref() }
    }

    /// Returns the filled bytes, mutably.
    ///
    /// # Examples
    ///
    /// ```
    /// # let mut storage = [0; 4];
    /// # let mut buf = blitzen::io::ReadBuf::new(&mut storage);
    /// buf.put_slice(b"ab");
    /// buf.filled_mut().make_ascii_uppercase();
    /// assert_eq!(buf.filled(), b"AB");
    /// ```
    #[inline]
    pub fn filled_mut(&mut self) -> &mut [u8] {
        // SAFETY: B1 and B2.
        unsafe { self.bytes[..self.filled].assume_init_mut() }
    }

    /// Returns the initialised bytes: the filled ones, and those behind them that
    /// were written to before.
    ///
    /// # Examples
    ///
    /// ```
    /// # let mut storage = [7; 4];
    /// # let mut buf = blitzen::io::ReadBuf::new(&mut storage);
    /// buf.put_slice(b"ab");
    /// assert_eq!(buf.initialized(), b"ab\x07\x07");
    /// ```
    #[inline]
    pub fn initialized(&self) -> &[u8] {
        // SAFETY: B2.
        unsafe { self.bytes[..self.initialized].assume_init_ref() }
    }

    /// Returns the initialised bytes, mutably.
    ///
    /// # Examples
    ///
    /// ```
    /// # let mut storage = [0; 4];
    /// # let mut buf = blitzen::io::ReadBuf::new(&mut storage);
    /// buf.initialized_mut()[..2].copy_from_slice(b"ab");
    /// buf.set_filled(2);
    /// assert_eq!(buf.filled(), b"ab");
    /// ```
    #[inline]
    pub fn initialized_mut(&mut self) -> &mut [u8] {
        // SAFETY: B2.
        unsafe { self.bytes[..self.initialized].assume_init_mut() }
    }

    /// Returns a new `ReadBuf` over the first `n` unfilled bytes, or over all of
    /// them if there are fewer.
    ///
    /// This buffer does not learn what is written to the new one: call
    /// [`assume_init`](Self::assume_init) and [`advance`](Self::advance) for that.
    ///
    /// # Examples
    ///
    /// ```
    /// # let mut storage = [0; 4];
    /// # let mut buf = blitzen::io::ReadBuf::new(&mut storage);
    /// assert_eq!(buf.take(3).remaining(), 3);
    /// assert_eq!(buf.take(9).remaining(), 4);
    /// ```
    #[inline]
    pub fn take(&mut self, n: usize) -> ReadBuf<'_> {
        let initialized = (self.initialized - self.filled).min(n);
        let length = self.remaining().min(n);
        ReadBuf {
            bytes: &mut self.bytes[self.filled..][..length],
            filled: 0,
            initialized,
        }
    }

    /// Returns the whole buffer, initialised or not.
    ///
    /// # Examples
    ///
    /// ```
    /// # let mut storage = [0; 4];
    /// # let mut buf = blitzen::io::ReadBuf::new(&mut storage);
    /// // SAFETY: nothing is written.
    /// assert_eq!(unsafe { buf.inner_mut() }.len(), 4);
    /// ```
    ///
    /// # Safety
    ///
    /// The caller must not make initialised bytes uninitialised.
    #[inline]
    pub unsafe fn inner_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        self.bytes
    }

    /// Returns the unfilled bytes, initialised or not.
    ///
    /// # Examples
    ///
    /// ```
    /// # let mut storage = [0; 4];
    /// # let mut buf = blitzen::io::ReadBuf::new(&mut storage);
    /// // SAFETY: one byte is initialised, and then said to be.
    /// unsafe {
    ///     buf.unfilled_mut()[0].write(b'x');
    ///     buf.assume_init(1);
    /// }
    /// buf.advance(1);
    /// assert_eq!(buf.filled(), b"x");
    /// ```
    ///
    /// # Safety
    ///
    /// The caller must not make initialised bytes uninitialised.
    #[inline]
    pub unsafe fn unfilled_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        &mut self.bytes[self.filled..]
    }

    /// Returns the unfilled bytes. Those that were not initialised are set to zero.
    ///
    /// # Examples
    ///
    /// ```
    /// # let mut storage = [std::mem::MaybeUninit::uninit(); 4];
    /// # let mut buf = blitzen::io::ReadBuf::uninit(&mut storage);
    /// assert_eq!(buf.initialize_unfilled(), [0; 4]);
    /// ```
    #[inline]
    pub fn initialize_unfilled(&mut self) -> &mut [u8] {
        self.initialize_unfilled_to(self.remaining())
    }

    /// Returns the first `n` unfilled bytes. Those that were not initialised are set
    /// to zero.
    ///
    /// # Examples
    ///
    /// ```
    /// # let mut storage = [std::mem::MaybeUninit::uninit(); 4];
    /// # let mut buf = blitzen::io::ReadBuf::uninit(&mut storage);
    /// assert_eq!(buf.initialize_unfilled_to(2), [0; 2]);
    /// assert_eq!(buf.initialized().len(), 2);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if fewer than `n` bytes are unfilled.
    #[inline]
    #[track_caller]
    pub fn initialize_unfilled_to(&mut self, n: usize) -> &mut [u8] {
        let remaining = self.remaining();
        assert!(
            n <= remaining,
            "cannot initialize {n} bytes of a buffer with {remaining} remaining"
        );
        let end = self.filled + n;
        if end > self.initialized {
            self.bytes[self.initialized..end].fill(MaybeUninit::new(0));
            self.initialized = end;
        }
        // SAFETY: B2, `end <= initialized` by now.
        unsafe { self.bytes[self.filled..end].assume_init_mut() }
    }

    /// Returns the number of unfilled bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// # let mut storage = [0; 4];
    /// # let mut buf = blitzen::io::ReadBuf::new(&mut storage);
    /// buf.put_slice(b"abc");
    /// assert_eq!(buf.remaining(), 1);
    /// ```
    #[inline]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.filled
    }

    /// Makes the buffer empty. Initialised bytes stay initialised.
    ///
    /// # Examples
    ///
    /// ```
    /// # let mut storage = [0; 4];
    /// # let mut buf = blitzen::io::ReadBuf::new(&mut storage);
    /// buf.put_slice(b"abc");
    /// buf.clear();
    /// assert_eq!(buf.remaining(), 4);
    /// ```
    #[inline]
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// Adds the next `n` bytes to the filled ones.
    ///
    /// # Examples
    ///
    /// ```
    /// # let mut storage = [0; 4];
    /// # let mut buf = blitzen::io::ReadBuf::new(&mut storage);
    /// buf.initialize_unfilled()[..2].copy_from_slice(b"ab");
    /// buf.advance(2);
    /// assert_eq!(buf.filled(), b"ab");
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if they are not all initialised.
    #[inline]
    #[track_caller]
    pub fn advance(&mut self, n: usize) {
        let filled = self.filled.checked_add(n).expect("filled overflow");
        self.set_filled(filled);
    }

    /// Sets the number of filled bytes to `n`.
    ///
    /// # Examples
    ///
    /// ```
    /// # let mut storage = [0; 4];
    /// # let mut buf = blitzen::io::ReadBuf::new(&mut storage);
    /// buf.put_slice(b"abc");
    /// buf.set_filled(1);
    /// assert_eq!(buf.filled(), b"a");
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the first `n` bytes are not all initialised.
    #[inline]
    #[track_caller]
    pub fn set_filled(&mut self, n: usize) {
        let initialized = self.initialized;
        assert!(
            n <= initialized,
            "filled must not become larger than initialized: {n} > {initialized}"
        );
        self.filled = n;
    }

    /// Counts the first `n` unfilled bytes as initialised. The number of filled
    /// bytes does not change.
    ///
    /// # Examples
    ///
    /// ```
    /// # let mut storage = [std::mem::MaybeUninit::uninit(); 4];
    /// # let mut buf = blitzen::io::ReadBuf::uninit(&mut storage);
    /// // SAFETY: the byte is written first.
    /// unsafe {
    ///     buf.unfilled_mut()[0].write(1);
    ///     buf.assume_init(1);
    /// }
    /// assert_eq!(buf.initialized(), [1]);
    /// ```
    ///
    /// # Safety
    ///
    /// There must be `n` unfilled bytes, and they must be initialised.
    #[inline]
    pub unsafe fn assume_init(&mut self, n: usize) {
        let end = self.filled + n;
        if end > self.initialized {
            debug_assert!(end <= self.bytes.len());
            self.initialized = end;
        }
    }

    /// Appends `buf` to the filled bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// # let mut storage = [0; 4];
    /// # let mut buf = blitzen::io::ReadBuf::new(&mut storage);
    /// buf.put_slice(b"ab");
    /// buf.put_slice(b"cd");
    /// assert_eq!(buf.filled(), b"abcd");
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `buf` has more bytes than remain.
    #[inline]
    #[track_caller]
    pub fn put_slice(&mut self, buf: &[u8]) {
        let (amount, remaining) = (buf.len(), self.remaining());
        assert!(
            amount <= remaining,
            "cannot put {amount} bytes into a buffer with {remaining} remaining"
        );
        let end = self.filled + amount;
        self.bytes[self.filled..end].write_copy_of_slice(buf);
        self.filled = end;
        self.initialized = self.initialized.max(end);
    }

    /// Lets `reader` read once into the first `limit` unfilled bytes.
    ///
    /// # Panics
    ///
    /// Panics if the reader put another buffer in the place of this part.
    #[track_caller]
    pub(crate) fn poll_fill<R: AsyncRead + ?Sized>(
        &mut self,
        limit: usize,
        reader: Pin<&mut R>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut part = self.take(limit);
        let polled = check::poll_read(reader, cx, &mut part);
        let (filled, initialized) = (part.filled, part.initialized);
        // SAFETY: the part is still the memory behind `filled`, and B2 held there.
        unsafe { self.assume_init(initialized) };
        self.filled += filled;
        polled
    }

    /// Returns which memory this buffer covers.
    #[inline]
    pub(crate) fn memory(&self) -> *const [MaybeUninit<u8>] {
        self.bytes
    }
}

// SAFETY: `chunk_mut` lends exactly the unfilled part, and `advance_mut` counts
// as data what the caller vouches for.
unsafe impl BufMut for ReadBuf<'_> {
    fn remaining_mut(&self) -> usize {
        self.remaining()
    }

    unsafe fn advance_mut(&mut self, count: usize) {
        // SAFETY: the caller has initialised the next `count` bytes.
        unsafe { self.assume_init(count) };
        self.advance(count);
    }

    fn chunk_mut(&mut self) -> &mut UninitSlice {
        UninitSlice::uninit(&mut self.bytes[self.filled..])
    }
}

impl fmt::Debug for ReadBuf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadBuf")
            .field("filled", &self.filled)
            .field("initialized", &self.initialized)
            .field("capacity", &self.capacity())
            .finish()
    }
}
