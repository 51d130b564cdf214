//! Memory that the kernel reads or writes, and the buffer that owns it.
//!
//! M1. The address is taken from the buffer after the buffer has been moved into its
//!     [`MaybeDangling`]. Later moves are moves of the `MaybeDangling`, and do not
//!     assert that the bytes are unaliased: so the address stays valid even for a
//!     buffer that is a `Box`.

use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit};

/// The most bytes that one operation transfers: the limit of `read(2)` and
/// `write(2)`.
const MAX_LEN: usize = 0x7fff_f000;

/// A value that can be moved while others use what it points to.
///
/// Moving a `Box` asserts that nobody else has a pointer to its bytes. Moving a
/// `MaybeUninit` asserts nothing about its content.
struct MaybeDangling<B>(MaybeUninit<B>);

impl<B> MaybeDangling<B> {
    fn new(value: B) -> Self {
        Self(MaybeUninit::new(value))
    }

    fn get_mut(&mut self) -> &mut B {
        // SAFETY: initialised by `new`, and taken out only by `into_inner` and
        // `drop`, which consume `self`.
        unsafe { self.0.assume_init_mut() }
    }

    fn into_inner(self) -> B {
        let this = ManuallyDrop::new(self);
        // SAFETY: initialised by `new`; `this` is neither used nor dropped again.
        unsafe { this.0.assume_init_read() }
    }
}

impl<B> Drop for MaybeDangling<B> {
    fn drop(&mut self) {
        // SAFETY: initialised by `new`, and dropped once.
        unsafe { self.0.assume_init_drop() };
    }
}

/// The bytes of a buffer, which stay at their address as long as the buffer lives.
///
/// ```
/// use blitzen_driver::ring::Memory;
///
/// let memory = Memory::bytes(b"to be written".to_vec());
/// assert_eq!(memory.len(), 13);
/// assert_eq!(memory.into_buffer(), b"to be written");
/// ```
pub struct Memory<B> {
    buffer: MaybeDangling<B>,
    start: *mut u8,
    len: u32,
    /// Called with the number of bytes that were written; see [`Memory::new`].
    written: fn(&mut B, usize),
}

// SAFETY: the memory belongs to the buffer alone, by the contract of `new`.
unsafe impl<B: Send> Send for Memory<B> {}
// SAFETY: a shared reference gives access to the length only.
unsafe impl<B: Sync> Sync for Memory<B> {}

impl<B> Memory<B> {
    /// Creates the memory of `buffer`: `span` returns its start and its length in
    /// bytes. After a read of `n` bytes `written` is called with `n`. No more than 2
    /// GiB are used.
    ///
    /// ```
    /// use blitzen_driver::ring::Memory;
    ///
    /// let bytes: Box<[u8]> = vec![0; 64].into();
    /// let span = |bytes: &mut Box<[u8]>| (bytes.as_mut_ptr(), bytes.len());
    /// // SAFETY: a box's bytes stay where they are, and are the box's alone.
    /// let memory = unsafe { Memory::new(bytes, span, |_, _| {}) };
    /// assert!(!memory.is_empty());
    /// ```
    ///
    /// # Safety
    /// Until the buffer is changed or dropped (moving it is not a change), the bytes
    /// stay at their address. If the operation reads into them, nobody else reads or
    /// writes them. If it writes from them, they are initialised and nobody else
    /// writes them. `written` may rely on the first `n` bytes being initialised.
    pub unsafe fn new(
        buffer: B,
        span: impl FnOnce(&mut B) -> (*mut u8, usize),
        written: fn(&mut B, usize),
    ) -> Self {
        let mut buffer = MaybeDangling::new(buffer);
        let (start, len) = span(buffer.get_mut()); // M1
        let len = len.min(MAX_LEN) as u32;
        Self {
            buffer,
            start,
            len,
            written,
        }
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the buffer.
    pub fn into_buffer(self) -> B {
        self.buffer.into_inner()
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.start
    }

    pub(super) fn len_u32(&self) -> u32 {
        self.len
    }

    pub(super) fn piece(&self) -> libc::iovec {
        libc::iovec {
            iov_base: self.start.cast(),
            iov_len: self.len(),
        }
    }

    /// Returns the buffer, after `len` bytes were written to the memory.
    pub(super) fn into_written(mut self, len: usize) -> B {
        (self.written)(self.buffer.get_mut(), len);
        self.buffer.into_inner()
    }
}

impl Memory<Vec<u8>> {
    /// Creates the memory of a vector's bytes, to write from.
    pub fn bytes(bytes: Vec<u8>) -> Self {
        let span = |bytes: &mut Vec<u8>| (bytes.as_mut_ptr(), bytes.len());
        // SAFETY: a vector's bytes are initialised, and stay where they are
        // until it is changed.
        unsafe { Self::new(bytes, span, |_, _| {}) }
    }

    /// Creates the memory of a vector's spare capacity, to read into: the bytes are
    /// appended.
    ///
    /// ```
    /// use blitzen_driver::ring::Memory;
    ///
    /// assert_eq!(Memory::room(Vec::with_capacity(64)).len(), 64);
    /// ```
    pub fn room(bytes: Vec<u8>) -> Self {
        Self::room_up_to(bytes, MAX_LEN)
    }

    /// Creates the memory of a vector's spare capacity, or of its first `most` bytes.
    ///
    /// ```
    /// use blitzen_driver::ring::Memory;
    ///
    /// assert_eq!(Memory::room_up_to(Vec::with_capacity(64), 16).len(), 16);
    /// ```
    pub fn room_up_to(bytes: Vec<u8>, most: usize) -> Self {
        let span = |bytes: &mut Vec<u8>| {
            let room = bytes.spare_capacity_mut();
            (room.as_mut_ptr().cast(), room.len().min(most))
        };
        let written = |bytes: &mut Vec<u8>, more: usize| {
            // SAFETY: within the capacity that was offered, and initialised.
            unsafe { bytes.set_len(bytes.len() + more) }
        };
        // SAFETY: the spare capacity stays at its address until the vector is
        // changed.
        unsafe { Self::new(bytes, span, written) }
    }
}

impl<B> fmt::Debug for Memory<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// Several pieces of memory that one buffer owns.
///
/// ```
/// use blitzen_driver::ring::Pieces;
///
/// let pieces = Pieces::bytes(vec![b"one".to_vec(), b"two".to_vec()]);
/// assert_eq!(pieces.into_buffer().len(), 2);
/// ```
pub struct Pieces<B> {
    buffer: MaybeDangling<B>,
    list: Box<[libc::iovec]>,
    written: fn(&mut B, usize),
}

// SAFETY: as for `Memory`.
unsafe impl<B: Send> Send for Pieces<B> {}
// SAFETY: a shared reference gives access to the number of pieces only.
unsafe impl<B: Sync> Sync for Pieces<B> {}

impl<B> Pieces<B> {
    /// Creates the pieces of `buffer`, which `list` returns. After a read of `n`
    /// bytes in all `written` is called with `n`.
    ///
    /// ```
    /// use blitzen_driver::ring::Pieces;
    ///
    /// let bytes: Box<[u8]> = vec![0; 64].into();
    /// let list = |bytes: &mut Box<[u8]>| {
    ///     [libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 64 }].into()
    /// };
    /// // SAFETY: a box's bytes stay where they are, and are the box's alone.
    /// let pieces = unsafe { Pieces::new(bytes, list, |_, _| {}) };
    /// assert_eq!(pieces.into_buffer().len(), 64);
    /// ```
    ///
    /// # Safety
    /// As for [`Memory::new`], for each of them.
    pub unsafe fn new(
        buffer: B,
        list: impl FnOnce(&mut B) -> Box<[libc::iovec]>,
        written: fn(&mut B, usize),
    ) -> Self {
        let mut buffer = MaybeDangling::new(buffer);
        let list = list(buffer.get_mut()); // M1
        Self {
            buffer,
            list,
            written,
        }
    }

    /// Returns the buffer.
    pub fn into_buffer(self) -> B {
        self.buffer.into_inner()
    }

    /// Returns the number of bytes in all pieces.
    pub fn len(&self) -> usize {
        self.list.iter().map(|piece| piece.iov_len).sum()
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn list(&self) -> &[libc::iovec] {
        &self.list
    }

    pub(super) fn into_written(mut self, len: usize) -> B {
        (self.written)(self.buffer.get_mut(), len);
        self.buffer.into_inner()
    }
}

impl Pieces<Vec<Vec<u8>>> {
    /// Creates the pieces of several vectors' bytes, to write from.
    pub fn bytes(all: Vec<Vec<u8>>) -> Self {
        let piece = |bytes: &mut Vec<u8>| libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let list = |all: &mut Vec<Vec<u8>>| all.iter_mut().map(piece).collect();
        // SAFETY: as for `Memory::bytes`, each.
        unsafe { Self::new(all, list, |_, _| {}) }
    }

    /// Creates the pieces of several vectors' spare capacity, to read into one after
    /// another.
    pub fn room(all: Vec<Vec<u8>>) -> Self {
        let piece = |bytes: &mut Vec<u8>| {
            let room = bytes.spare_capacity_mut();
            libc::iovec {
                iov_base: room.as_mut_ptr().cast(),
                iov_len: room.len(),
            }
        };
        let list = |all: &mut Vec<Vec<u8>>| all.iter_mut().map(piece).collect();
        let written = |all: &mut Vec<Vec<u8>>, mut more: usize| {
            for bytes in all {
                let here = more.min(bytes.capacity() - bytes.len());
                // SAFETY: within the capacity that was offered; the kernel fills one
                // after the other.
                unsafe { bytes.set_len(bytes.len() + here) };
                more -= here;
            }
        };
        // SAFETY: as for `Memory::room`, each.
        unsafe { Self::new(all, list, written) }
    }
}

impl<B> fmt::Debug for Pieces<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pieces")
            .field("count", &self.list.len())
            .finish_non_exhaustive()
    }
}
