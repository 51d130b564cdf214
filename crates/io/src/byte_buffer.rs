//! A fixed buffer of bytes that were read and not yet used.
//!
//! ```text
//!   0       start        end       initialized    capacity
//!   │ used    │  unread   │  any bytes  │  uninitialised │
//! ```
//!
//! W1. `start <= end <= initialized <= bytes.len()`.
//! W2. `bytes[..initialized]` are initialised.
//! W3. If nothing is unread, `start` is zero: there is the most room.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::{AsyncRead, ReadBuf, check};

pub(crate) struct ByteBuffer {
    bytes: Box<[MaybeUninit<u8>]>,
    start: usize,
    end: usize,
    initialized: usize,
}

impl ByteBuffer {
    /// Creates a buffer whose memory is not touched before it is read into.
    pub(crate) fn uninit(capacity: usize) -> Self {
        Self {
            bytes: Box::new_uninit_slice(capacity),
            start: 0,
            end: 0,
            initialized: 0,
        }
    }

    /// Creates a buffer of zeros, for readers that set bytes as filled without
    /// writing to them.
    pub(crate) fn zeroed(capacity: usize) -> Self {
        Self {
            bytes: Box::new_zeroed_slice(capacity),
            start: 0,
            end: 0,
            initialized: capacity,
        }
    }

    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    pub(crate) fn unread(&self) -> &[u8] {
        // SAFETY: W1 and W2.
        unsafe { self.bytes[self.start..self.end].assume_init_ref() }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Returns whether there is room behind the unread bytes.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.end < self.bytes.len()
    }

    /// Replaces the memory of an empty buffer with `capacity` bytes.
    pub(crate) fn grow(&mut self, capacity: usize) {
        debug_assert!(self.is_empty() && capacity >= self.capacity());
        *self = Self::uninit(capacity);
    }

    /// Marks `amount` bytes as used, or all if there are fewer.
    #[inline]
    pub(crate) fn consume(&mut self, amount: usize) {
        if amount < self.end - self.start {
            self.start += amount;
        } else {
            self.clear(); // W3
        }
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }

    /// Reads once into the room behind the unread bytes, and returns how many.
    pub(crate) fn poll_fill<R: AsyncRead + ?Sized>(
        &mut self,
        reader: Pin<&mut R>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut room = ReadBuf::uninit(&mut self.bytes[self.end..]);
        // SAFETY: W2.
        unsafe { room.assume_init(self.initialized - self.end) };
        let polled = check::poll_read(reader, cx, &mut room);
        let (amount, initialized) = (room.filled().len(), room.initialized().len());
        self.initialized = self.end + initialized;
        ready!(polled)?;
        self.end += amount;
        Poll::Ready(Ok(amount))
    }
}

/// Shows `unread/capacity`, and not the bytes.
impl fmt::Debug for ByteBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.end - self.start, self.capacity())
    }
}
