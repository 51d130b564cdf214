//! Memory that the kernel works on, and whoever keeps it alive.
//!
//! M1. The address is taken from the keeper after it has been moved into its
//!     [`MaybeDangling`]. Later moves are of that, and claim nothing: so the address
//!     stays good for a keeper that is a `Box`, too.

use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit};

/// The most that one operation moves; the kernel's own limit is near.
const MOST: usize = 0x7fff_f000;

/// A value that can be moved while others use what it points to.
///
/// Moving a `Box` says that nobody else has a pointer to its bytes. Moving a
/// `MaybeUninit` says nothing of what is in it.
struct MaybeDangling<K>(MaybeUninit<K>);

impl<K> MaybeDangling<K> {
    fn new(value: K) -> Self {
        Self(MaybeUninit::new(value))
    }

    fn get_mut(&mut self) -> &mut K {
        // SAFETY: initialised by `new`, and taken out only by who drops `self`.
        unsafe { self.0.assume_init_mut() }
    }

    fn into_inner(self) -> K {
        let this = ManuallyDrop::new(self);
        // SAFETY: initialised by `new`; `this` is neither used nor dropped again.
        unsafe { this.0.assume_init_read() }
    }
}

impl<K> Drop for MaybeDangling<K> {
    fn drop(&mut self) {
        // SAFETY: initialised by `new`, and dropped once.
        unsafe { self.0.assume_init_drop() };
    }
}

/// A stretch of memory that stays where it is as long as its keeper lives.
///
/// ```
/// use blitzen_driver::ring::Memory;
///
/// let memory = Memory::bytes(b"to be written".to_vec());
/// assert_eq!(memory.len(), 13);
/// assert_eq!(memory.into_keeper(), b"to be written");
/// ```
pub struct Memory<K> {
    keeper: MaybeDangling<K>,
    start: *mut u8,
    len: u32,
    /// Called with the number of bytes that were written; see [`Memory::new`].
    written: fn(&mut K, usize),
}

// SAFETY: the memory belongs to the keeper alone, by the contract of `new`.
unsafe impl<K: Send> Send for Memory<K> {}
// SAFETY: a shared reference gives its length away, and nothing else.
unsafe impl<K: Sync> Sync for Memory<K> {}

impl<K> Memory<K> {
    /// Memory that `keeper` keeps alive: `span` returns its start and its length in
    /// bytes. After a read of `n` bytes `written` is called with `n`. No more than
    /// 2 GiB are used.
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
    /// Until the keeper is changed or dropped, and moving it is no change, the
    /// bytes stay where they are, and nobody else uses them: if they are to be
    /// read into nobody reads or writes them, if they are to be written from
    /// they are initialised and nobody writes them. `written` may rely on the
    /// first `n` being initialised.
    pub unsafe fn new(
        keeper: K,
        span: impl FnOnce(&mut K) -> (*mut u8, usize),
        written: fn(&mut K, usize),
    ) -> Self {
        let mut keeper = MaybeDangling::new(keeper);
        let (start, len) = span(keeper.get_mut()); // M1
        let len = len.min(MOST) as u32;
        Self {
            keeper,
            start,
            len,
            written,
        }
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The keeper, back.
    pub fn into_keeper(self) -> K {
        self.keeper.into_inner()
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

    /// The keeper, after `len` bytes were written to the memory.
    pub(super) fn into_written(mut self, len: usize) -> K {
        (self.written)(self.keeper.get_mut(), len);
        self.keeper.into_inner()
    }
}

impl Memory<Vec<u8>> {
    /// A vector's bytes, to be written from.
    pub fn bytes(bytes: Vec<u8>) -> Self {
        let span = |bytes: &mut Vec<u8>| (bytes.as_mut_ptr(), bytes.len());
        // SAFETY: a vector's bytes are initialised, and stay where they are
        // until it is changed.
        unsafe { Self::new(bytes, span, |_, _| {}) }
    }

    /// A vector's free room, to be read into: what comes is appended.
    ///
    /// ```
    /// use blitzen_driver::ring::Memory;
    ///
    /// assert_eq!(Memory::room(Vec::with_capacity(64)).len(), 64);
    /// ```
    pub fn room(bytes: Vec<u8>) -> Self {
        Self::room_up_to(bytes, MOST)
    }

    /// A vector's free room, or `most` bytes of it.
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
            // SAFETY: within the room that was offered, and initialised.
            unsafe { bytes.set_len(bytes.len() + more) }
        };
        // SAFETY: the room stays where it is until the vector is changed.
        unsafe { Self::new(bytes, span, written) }
    }
}

impl<K> fmt::Debug for Memory<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// Several stretches of memory with one keeper.
///
/// ```
/// use blitzen_driver::ring::Pieces;
///
/// let pieces = Pieces::bytes(vec![b"one".to_vec(), b"two".to_vec()]);
/// assert_eq!(pieces.into_keeper().len(), 2);
/// ```
pub struct Pieces<K> {
    keeper: MaybeDangling<K>,
    list: Box<[libc::iovec]>,
    written: fn(&mut K, usize),
}

// SAFETY: as for `Memory`.
unsafe impl<K: Send> Send for Pieces<K> {}
// SAFETY: a shared reference gives its count away, and nothing else.
unsafe impl<K: Sync> Sync for Pieces<K> {}

impl<K> Pieces<K> {
    /// Stretches that `keeper` keeps alive, which `list` returns. After a read of `n`
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
    /// assert_eq!(pieces.into_keeper().len(), 64);
    /// ```
    ///
    /// # Safety
    /// As for [`Memory::new`], for each of them.
    pub unsafe fn new(
        keeper: K,
        list: impl FnOnce(&mut K) -> Box<[libc::iovec]>,
        written: fn(&mut K, usize),
    ) -> Self {
        let mut keeper = MaybeDangling::new(keeper);
        let list = list(keeper.get_mut()); // M1
        Self {
            keeper,
            list,
            written,
        }
    }

    /// The keeper, back.
    pub fn into_keeper(self) -> K {
        self.keeper.into_inner()
    }

    /// How many bytes in all.
    pub fn len(&self) -> usize {
        self.list.iter().map(|piece| piece.iov_len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn list(&self) -> &[libc::iovec] {
        &self.list
    }

    pub(super) fn into_written(mut self, len: usize) -> K {
        (self.written)(self.keeper.get_mut(), len);
        self.keeper.into_inner()
    }
}

impl Pieces<Vec<Vec<u8>>> {
    /// The bytes of several vectors, to be written from.
    pub fn bytes(all: Vec<Vec<u8>>) -> Self {
        let piece = |bytes: &mut Vec<u8>| libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let list = |all: &mut Vec<Vec<u8>>| all.iter_mut().map(piece).collect();
        // SAFETY: as for `Memory::bytes`, each.
        unsafe { Self::new(all, list, |_, _| {}) }
    }

    /// The free room of several vectors, to be read into one after another.
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
                // SAFETY: within the room that was offered; the kernel fills
                // one after the other.
                unsafe { bytes.set_len(bytes.len() + here) };
                more -= here;
            }
        };
        // SAFETY: as for `Memory::room`, each.
        unsafe { Self::new(all, list, written) }
    }
}

impl<K> fmt::Debug for Pieces<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pieces")
            .field("count", &self.list.len())
            .finish_non_exhaustive()
    }
}
