//! Buffers from which the kernel picks one when something has come for a
//! socket.
//!
//! ```text
//!             provide                  a completion names it
//!    ours ─────────────► the kernel's ───────────────────────► a socket's
//!      ▲                                                            │
//!      └──────────── read, or spilled into memory of its own ───────┘
//! ```
//!
//! P1. A buffer is the kernel's from when its entry is published until a
//!     completion names it; we touch its bytes only outside that time.
//! P2. There are never more entries published than the shared ring has places,
//!     for there are no more buffers.
//! P3. The kernel takes buffers in turn. So there are few at first, which stay
//!     warm, and more when they have run out.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering::Release};

use io_uring::types::BufRingEntry;

/// How many buffers there are for what comes, and of what size.
///
/// ```
/// use blitzen_driver::ring::BufferConfig;
///
/// let config = BufferConfig { most: 64, ..BufferConfig::default() };
/// assert!(config.first <= config.most);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BufferConfig {
    /// Buffers at the beginning: a power of two, or the next one above.
    pub first: u16,
    /// Buffers at the most: a power of two, 32,768 at the largest.
    pub most: u16,
    /// The bytes of each.
    pub size: u32,
}

impl Default for BufferConfig {
    fn default() -> Self {
        Self {
            first: 64,
            most: 4096,
            size: 2048,
        }
    }
}

/// The group under which the kernel knows the buffers.
pub(super) const GROUP: u16 = 0;

/// A line of the processor's cache.
const LINE: usize = 64;

/// Memory that the kernel writes to.
struct Block {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: memory that belongs to the block alone.
unsafe impl Send for Block {}

impl Block {
    fn new(layout: Layout, zeroed: bool) -> Self {
        assert!(layout.size() > 0, "buffers have a size");
        // SAFETY: the layout is not empty.
        let start = unsafe {
            match zeroed {
                true => alloc_zeroed(layout),
                false => alloc(layout),
            }
        };
        match NonNull::new(start) {
            Some(start) => Self { start, layout },
            None => handle_alloc_error(layout),
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: made by `new` with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// One socket's share of a buffer, in a list of those it has not read.
#[derive(Clone, Copy)]
struct Piece {
    start: u32,
    len: u32,
    next: Option<u16>,
}

/// What a socket has of the pool's buffers, the oldest first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pieces {
    ends: Option<(u16, u16)>,
    count: u16,
}

impl Pieces {
    pub(super) fn count(&self) -> u16 {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// The buffers of one ring; behind its lock.
pub(super) struct Pool {
    entries: Block,
    mask: u16,
    tail: u16,
    blocks: Vec<Block>,
    pieces: Vec<Piece>,
    config: BufferConfig,
    held: usize,
}

impl Pool {
    /// A pool, which the kernel is to be told of with
    /// [`address`](Self::address) before anything else.
    pub(super) fn new(config: BufferConfig) -> Self {
        let most = config.most.clamp(1, 1 << 15).next_power_of_two();
        let first = config.first.clamp(1, most).next_power_of_two();
        let config = BufferConfig {
            first,
            most,
            ..config
        };
        let bytes = size_of::<BufRingEntry>() * usize::from(most);
        let layout = Layout::from_size_align(bytes, 4096).expect("a size of some pages");
        Self {
            entries: Block::new(layout, true),
            mask: most - 1,
            tail: 0,
            blocks: Vec::new(),
            pieces: Vec::new(),
            config,
            held: 0,
        }
    }

    /// Where the kernel finds the entries, and how many there may be.
    pub(super) fn address(&self) -> (u64, u16) {
        (self.entries.start.as_ptr() as u64, self.config.most)
    }

    pub(super) fn size(&self) -> u32 {
        self.config.size
    }

    /// Buffers that hold something unread.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Makes more buffers; false if there are as many as there may be.
    pub(super) fn grow(&mut self) -> bool {
        let before = self.pieces.len();
        let more = match before {
            0 => usize::from(self.config.first),
            _ => before.min(usize::from(self.config.most) - before), // P2
        };
        if more == 0 {
            return false;
        }
        // Blocks of the first one's size, so that each buffer is found easily.
        let per_block = usize::from(self.config.first);
        while self.pieces.len() < before + more {
            let bytes = per_block * self.stride();
            let layout = Layout::from_size_align(bytes, LINE).expect("a size below the limit");
            self.blocks.push(Block::new(layout, false));
            for _ in 0..per_block.min(before + more - self.pieces.len()) {
                let id = self.pieces.len() as u16;
                self.pieces.push(Piece {
                    start: 0,
                    len: 0,
                    next: None,
                });
                self.provide(id);
            }
        }
        self.publish();
        true
    }

    /// From one buffer to the next. A line more than its size: if that is a
    /// power of two, as it mostly is, the beginnings of all buffers would
    /// compete for the same few places of the processor's cache.
    fn stride(&self) -> usize {
        self.config.size as usize + LINE
    }

    fn bytes(&self, id: u16) -> *mut u8 {
        let (block, place) = (
            id >> self.config.first.ilog2(),
            id & (self.config.first - 1),
        );
        let offset = usize::from(place) * self.stride();
        // SAFETY: within the block, which has room for `per_block` buffers.
        unsafe { self.blocks[usize::from(block)].start.as_ptr().add(offset) }
    }

    /// Writes a buffer's entry; [`publish`](Self::publish) makes it the
    /// kernel's.
    fn provide(&mut self, id: u16) {
        let entries: *mut BufRingEntry = self.entries.start.as_ptr().cast();
        let address = self.bytes(id) as u64;
        // SAFETY: masked, so within the block of entries; P2, the kernel has
        // read what was in that place. Field by field: the place of the tail
        // lies in the first entry.
        unsafe {
            let entry = entries.add(usize::from(self.tail & self.mask));
            (*entry).set_addr(address);
            (*entry).set_len(self.config.size);
            (*entry).set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&self) {
        let entries: *const BufRingEntry = self.entries.start.as_ptr().cast_const().cast();
        // SAFETY: the address of the first entry, initialised (with zeroes).
        let tail = unsafe { BufRingEntry::tail(entries) };
        // SAFETY: aligned, alive, and only the kernel looks at it, atomically.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) };
        // Release, met by the kernel's acquire: it sees the entries before.
        tail.store(self.tail, Release);
    }

    /// The kernel has given a buffer back with `len` bytes in it, for a socket
    /// with these pieces.
    pub(super) fn hold(&mut self, pieces: &mut Pieces, id: u16, len: u32) {
        let (start, next) = (0, None);
        self.pieces[usize::from(id)] = Piece { start, len, next };
        pieces.ends = match pieces.ends {
            None => Some((id, id)),
            Some((first, last)) => {
                self.pieces[usize::from(last)].next = Some(id);
                Some((first, id))
            }
        };
        pieces.count += 1;
        self.held += 1;
    }

    /// The kernel has given a buffer back that nobody wants.
    pub(super) fn give_back(&mut self, id: u16) {
        self.provide(id);
        self.publish();
    }

    /// Hands the oldest bytes to `take`, which says how many it took; false if
    /// it took none.
    #[inline(always)]
    pub(super) fn read(&mut self, pieces: &mut Pieces, take: impl FnOnce(&[u8]) -> usize) -> bool {
        let Some((first, last)) = pieces.ends else {
            return false;
        };
        let Piece { start, len, next } = self.pieces[usize::from(first)];
        // SAFETY: P1, a socket's; the kernel has written so many bytes.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.bytes(first).add(start as usize), len as usize)
        };
        let taken = take(bytes).min(len as usize) as u32;
        if taken < len {
            let piece = &mut self.pieces[usize::from(first)];
            (piece.start, piece.len) = (start + taken, len - taken);
            return taken > 0;
        }
        pieces.ends = next.map(|next| (next, last));
        pieces.count -= 1;
        self.held -= 1;
        self.give_back(first);
        true
    }

    /// The sum of the unread bytes.
    pub(super) fn unread(&self, pieces: &Pieces) -> usize {
        let mut at = pieces.ends.map(|(first, _)| first);
        let mut sum = 0;
        while let Some(id) = at {
            let piece = &self.pieces[usize::from(id)];
            sum += piece.len as usize;
            at = piece.next;
        }
        sum
    }

    /// Hands everything to `keep`, in order.
    pub(super) fn drain(&mut self, pieces: &mut Pieces, mut keep: impl FnMut(&[u8])) {
        while self.read(pieces, |bytes| {
            keep(bytes);
            bytes.len()
        }) {}
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    fn pool(first: u16, most: u16) -> Pool {
        let size = 8;
        let mut pool = Pool::new(BufferConfig { first, most, size });
        pool.grow();
        pool
    }

    /// The kernel's part: fills the buffer it has had for longest.
    fn arrive(pool: &mut Pool, pieces: &mut Pieces, id: u16, bytes: &[u8]) {
        // SAFETY: the buffer is the kernel's, which is us.
        unsafe { std::ptr::copy(bytes.as_ptr(), pool.bytes(id), bytes.len()) };
        pool.hold(pieces, id, bytes.len() as u32);
    }

    fn published(pool: &Pool) -> Vec<u16> {
        let entries: *const BufRingEntry = pool.entries.start.as_ptr().cast_const().cast();
        // SAFETY: within the entries.
        let bid = |at: u16| unsafe { (*entries.add(usize::from(at & pool.mask))).bid() };
        (0..pool.tail).map(bid).collect()
    }

    #[test]
    fn bytes_are_read_in_the_order_they_came_and_buffers_go_back() {
        let mut pool = pool(4, 4);
        assert_eq!(published(&pool), [0, 1, 2, 3]);
        let (mut one, mut other) = (Pieces::default(), Pieces::default());
        arrive(&mut pool, &mut one, 0, b"abc");
        arrive(&mut pool, &mut other, 1, b"x");
        arrive(&mut pool, &mut one, 2, b"def");
        assert_eq!((pool.held(), pool.unread(&one)), (3, 6));
        let mut read: Vec<u8> = Vec::new();
        // Two at a time.
        while pool.read(&mut one, |bytes| {
            let taken = bytes.len().min(2);
            read.extend_from_slice(&bytes[..taken]);
            taken
        }) {}
        assert_eq!(read, b"abcdef");
        assert_eq!((pool.held(), one.count(), other.count()), (1, 0, 1));
        assert_eq!(pool.tail, 6);
        pool.drain(&mut other, |bytes| assert_eq!(bytes, b"x"));
        assert_eq!((pool.held(), pool.tail), (0, 7));
    }

    #[test]
    fn the_pool_grows_up_to_its_limit_and_no_further() {
        let mut pool = pool(2, 16);
        assert!(pool.grow() && pool.grow() && pool.grow());
        assert!(!pool.grow());
        assert_eq!(published(&pool), (0..16).collect::<Vec<_>>());
        let addresses: Vec<_> = (0..16).map(|id| pool.bytes(id) as usize).collect();
        for (index, one) in addresses.iter().enumerate() {
            assert!(
                addresses[..index]
                    .iter()
                    .all(|other| one.abs_diff(*other) >= 8)
            );
        }
    }
}
