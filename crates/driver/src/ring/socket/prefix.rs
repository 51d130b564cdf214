//! Bytes that were read ahead: received before a read asked for them.

use std::cell::Cell;
use std::mem::MaybeUninit;

/// How many bytes `recv(2)` may return beyond the room of a read: the next
/// reads take them without a system call.
pub(super) const READ_AHEAD: usize = if cfg!(blitzen_loom) { 4 } else { 16 * 1024 };

thread_local! {
    /// An empty vector, whose memory the next read-ahead of this thread uses.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Bytes that come before everything else that a stream has received; behind
/// the stream's read lock.
#[derive(Debug, Default)]
pub(super) struct Prefix {
    bytes: Vec<u8>,
    /// How many of them have been read.
    start: usize,
}

impl Prefix {
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the first bytes into `room`, and returns their number.
    #[inline]
    pub(super) fn peek(&self, room: &mut [MaybeUninit<u8>]) -> usize {
        let unread = &self.bytes[self.start..];
        let count = unread.len().min(room.len());
        room[..count].write_copy_of_slice(&unread[..count]);
        count
    }

    /// Moves the first bytes into `room`, and returns their number.
    #[inline]
    pub(super) fn read(&mut self, room: &mut [MaybeUninit<u8>]) -> usize {
        let count = self.peek(room);
        self.start += count;
        count
    }

    /// Room for `count` more bytes behind those that are there.
    pub(super) fn spare(&mut self, count: usize) -> &mut [MaybeUninit<u8>] {
        if self.bytes.capacity() == 0 {
            self.bytes = SPARE.try_with(Cell::take).unwrap_or_default();
        }
        self.bytes.reserve(count);
        &mut self.bytes.spare_capacity_mut()[..count]
    }

    /// Takes in bytes that were written into the spare room.
    ///
    /// # Safety
    /// The first `count` bytes of [`spare`](Self::spare) are initialised.
    pub(super) unsafe fn advance(&mut self, count: usize) {
        // SAFETY: the caller has initialised these bytes.
        unsafe { self.bytes.set_len(self.bytes.len() + count) };
    }

    /// Releases the memory if it holds no bytes.
    #[inline]
    pub(super) fn trim(&mut self) {
        if self.bytes.capacity() > 0 && self.is_empty() {
            self.release();
        }
    }

    fn release(&mut self) {
        let mut bytes = std::mem::take(self).bytes;
        if bytes.capacity() <= 2 * READ_AHEAD {
            bytes.clear();
            let _ = SPARE.try_with(|spare| spare.set(bytes));
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    fn read(prefix: &mut Prefix, max: usize) -> Vec<u8> {
        let mut room = vec![MaybeUninit::uninit(); max];
        let count = prefix.read(&mut room);
        // SAFETY: that many were written.
        unsafe { room[..count].assume_init_ref() }.to_vec()
    }

    #[test]
    fn bytes_come_out_in_order_and_memory_is_used_again() {
        let mut prefix = Prefix::default();
        for part in [&b"abc"[..], b"", b"defgh"] {
            prefix.spare(100)[..part.len()].write_copy_of_slice(part);
            // SAFETY: just written.
            unsafe { prefix.advance(part.len()) };
        }
        assert_eq!(prefix.len(), 8);
        assert_eq!(read(&mut prefix, 2), b"ab");
        assert_eq!(read(&mut prefix, 100), b"cdefgh");
        assert!(prefix.is_empty());
        prefix.trim();
        assert_eq!(read(&mut prefix, 1), b"");
        assert_eq!(prefix.bytes.capacity(), 0, "given away");
    }
}
