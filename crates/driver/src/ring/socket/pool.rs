//! The provided buffers of a ring: the kernel picks one when bytes have arrived for
//! a socket.
//!
//! ```text
//!             provide                  a completion names it
//!    ours ─────────────► the kernel's ───────────────────────► a socket's
//!      ▲                                                            │
//!      └──────────────────── read, or discarded ───────────────────┘
//! ```
//!
//! P1. A buffer belongs to the kernel from when its entry is published until a
//!     completion names it. We access its bytes only outside that time.
//! P2. There are no more buffers than the shared ring has entries, so no entry is
//!     overwritten before the kernel has read it.
//! P3. The kernel takes buffers in order. So there are few at first, which stay in
//!     the processor's cache, and more when they have run out.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering::Release};

use io_uring::types::BufRingEntry;

/// The number and size of the provided buffers.
///
/// ```
/// use blitzen_driver::ring::BufferConfig;
///
/// let config = BufferConfig { max: 64, ..BufferConfig::default() };
/// assert!(config.initial <= config.max);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BufferConfig {
    /// The initial number of buffers, rounded up to a power of two.
    pub initial: u16,
    /// The most buffers: a power of two, at most 32,768.
    pub max: u16,
    /// The bytes of each.
    pub size: u32,
}

impl Default for BufferConfig {
    fn default() -> Self {
        Self {
            initial: 64,
            max: 4096,
            size: 2048,
        }
    }
}

/// The group under which the kernel knows the buffers.
pub(super) const BUFFER_GROUP: u16 = 0;

/// A line of the processor's cache.
const LINE: usize = 64;

/// Memory that the kernel writes to.
struct Allocation {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: memory that belongs to the block alone.
unsafe impl Send for Allocation {}

impl Allocation {
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

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: made by `new` with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// The unread bytes of a buffer, in the list of the socket that they belong to.
#[derive(Clone, Copy)]
struct Part {
    start: u32,
    len: u32,
    next: Option<u16>,
}

/// The buffers with unread bytes of a socket, the oldest first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UnreadBuffers {
    ends: Option<(u16, u16)>,
    count: u16,
}

impl UnreadBuffers {
    pub(super) fn count(&self) -> u16 {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// The buffers of one ring; behind its lock.
pub(super) struct BufferPool {
    entries: Allocation,
    mask: u16,
    tail: u16,
    blocks: Vec<Allocation>,
    parts: Vec<Part>,
    config: BufferConfig,
    held: usize,
}

impl BufferPool {
    /// Creates a pool. Its [`address`](Self::address) has to be registered with the
    /// kernel before anything else.
    pub(super) fn new(config: BufferConfig) -> Self {
        let max = config.max.clamp(1, 1 << 15).next_power_of_two();
        let initial = config.initial.clamp(1, max).next_power_of_two();
        let config = BufferConfig {
            initial,
            max,
            ..config
        };
        let bytes = size_of::<BufRingEntry>() * usize::from(max);
        let layout = Layout::from_size_align(bytes, 4096).expect("a size of some pages");
        Self {
            entries: Allocation::new(layout, true),
            mask: max - 1,
            tail: 0,
            blocks: Vec::new(),
            parts: Vec::new(),
            config,
            held: 0,
        }
    }

    /// Where the kernel finds the entries, and how many there may be.
    pub(super) fn address(&self) -> (u64, u16) {
        (self.entries.start.as_ptr() as u64, self.config.max)
    }

    pub(super) fn buffer_size(&self) -> u32 {
        self.config.size
    }

    /// Buffers that hold something unread.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Allocates more buffers; returns false at the limit.
    pub(super) fn grow(&mut self) -> bool {
        let before = self.parts.len();
        let more = match before {
            0 => usize::from(self.config.initial),
            _ => before.min(usize::from(self.config.max) - before), // P2
        };
        if more == 0 {
            return false;
        }
        // Blocks of the first one's size, so that each buffer is found easily.
        let per_block = usize::from(self.config.initial);
        while self.parts.len() < before + more {
            let bytes = per_block * self.stride();
            let layout = Layout::from_size_align(bytes, LINE).expect("a size below the limit");
            self.blocks.push(Allocation::new(layout, false));
            for _ in 0..per_block.min(before + more - self.parts.len()) {
                let id = self.parts.len() as u16;
                self.parts.push(Part {
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

    /// The distance from one buffer to the next: its size and a cache line. If the
    /// distance were a power of two, as the size usually is, the first lines of all
    /// buffers would compete for the same few sets of the cache.
    fn stride(&self) -> usize {
        self.config.size as usize + LINE
    }

    fn bytes(&self, id: u16) -> *mut u8 {
        let (block, place) = (
            id >> self.config.initial.ilog2(),
            id & (self.config.initial - 1),
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
        // SAFETY: masked, so within the block of entries; by P2 the kernel has read
        // the entry that was there. Field by field: the tail is stored in the first
        // entry.
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

    /// Adds a buffer in which the kernel has received `len` bytes to a socket's
    /// unread buffers.
    pub(super) fn hold(&mut self, unread: &mut UnreadBuffers, id: u16, len: u32) {
        let (start, next) = (0, None);
        self.parts[usize::from(id)] = Part { start, len, next };
        unread.ends = match unread.ends {
            None => Some((id, id)),
            Some((first, last)) => {
                self.parts[usize::from(last)].next = Some(id);
                Some((first, id))
            }
        };
        unread.count += 1;
        self.held += 1;
    }

    /// Returns a buffer to the kernel whose bytes nobody will read.
    pub(super) fn give_back(&mut self, id: u16) {
        self.provide(id);
        self.publish();
    }

    /// Moves the oldest bytes into `room`, and gives emptied buffers back. Returns
    /// how many bytes there were.
    #[inline]
    pub(super) fn read(
        &mut self,
        unread: &mut UnreadBuffers,
        room: &mut [MaybeUninit<u8>],
    ) -> usize {
        let mut filled = 0;
        while let Some((first, _)) = unread.ends
            && filled < room.len()
        {
            let Part { start, len, .. } = self.parts[usize::from(first)];
            // SAFETY: P1, it belongs to a socket; the kernel has written that many
            // bytes.
            let bytes = unsafe {
                std::slice::from_raw_parts(self.bytes(first).add(start as usize), len as usize)
            };
            let count = bytes.len().min(room.len() - filled);
            room[filled..][..count].write_copy_of_slice(&bytes[..count]);
            filled += count;
            match count == bytes.len() {
                true => self.pop_front(unread),
                false => {
                    let part = &mut self.parts[usize::from(first)];
                    part.start += count as u32;
                    part.len -= count as u32;
                }
            }
        }
        filled
    }

    /// Gives the oldest buffer of a socket back.
    fn pop_front(&mut self, unread: &mut UnreadBuffers) {
        if let Some((first, last)) = unread.ends {
            let next = self.parts[usize::from(first)].next;
            unread.ends = next.map(|next| (next, last));
            unread.count -= 1;
            self.held -= 1;
            self.give_back(first);
        }
    }

    /// Gives all buffers of a socket back, unread.
    pub(super) fn discard(&mut self, unread: &mut UnreadBuffers) {
        while !unread.is_empty() {
            self.pop_front(unread);
        }
    }

    /// The sum of the unread bytes.
    pub(super) fn unread_bytes(&self, unread: &UnreadBuffers) -> usize {
        let mut at = unread.ends.map(|(first, _)| first);
        let mut sum = 0;
        while let Some(id) = at {
            let part = &self.parts[usize::from(id)];
            sum += part.len as usize;
            at = part.next;
        }
        sum
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    fn pool(initial: u16, max: u16) -> BufferPool {
        let size = 8;
        let mut pool = BufferPool::new(BufferConfig { initial, max, size });
        pool.grow();
        pool
    }

    /// The kernel's part: fills the buffer it has had for longest.
    fn arrive(pool: &mut BufferPool, unread: &mut UnreadBuffers, id: u16, bytes: &[u8]) {
        // SAFETY: the buffer is the kernel's, which is us.
        unsafe { std::ptr::copy(bytes.as_ptr(), pool.bytes(id), bytes.len()) };
        pool.hold(unread, id, bytes.len() as u32);
    }

    fn published(pool: &BufferPool) -> Vec<u16> {
        let entries: *const BufRingEntry = pool.entries.start.as_ptr().cast_const().cast();
        // SAFETY: within the entries.
        let bid = |at: u16| unsafe { (*entries.add(usize::from(at & pool.mask))).bid() };
        (0..pool.tail).map(bid).collect()
    }

    #[test]
    fn bytes_are_read_in_the_order_they_came_and_buffers_go_back() {
        let mut pool = pool(4, 4);
        assert_eq!(published(&pool), [0, 1, 2, 3]);
        let (mut one, mut other) = (UnreadBuffers::default(), UnreadBuffers::default());
        arrive(&mut pool, &mut one, 0, b"abc");
        arrive(&mut pool, &mut other, 1, b"x");
        arrive(&mut pool, &mut one, 2, b"def");
        assert_eq!((pool.held(), pool.unread_bytes(&one)), (3, 6));
        let mut read: Vec<u8> = Vec::new();
        // Two at a time.
        let mut room = [MaybeUninit::uninit(); 2];
        while pool.read(&mut one, &mut room) > 0 {
            // SAFETY: filled, since there is an even number of bytes.
            read.extend(room.map(|byte| unsafe { byte.assume_init() }));
        }
        assert_eq!(read, b"abcdef");
        assert_eq!((pool.held(), one.count(), other.count()), (1, 0, 1));
        assert_eq!(pool.tail, 6);
        pool.discard(&mut other);
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
