//! The part of a fixed buffer that was read and not yet used.
//!
//! ```text
//!   0       start        end      capacity
//!   │ used    │  unread   │  room   │
//! ```
//!
//! W1. `start <= end <= bytes.len()`.
//! W2. An empty window lies at the start, where there is the most room.
//!
//! The buffer is zeroed once, when it is made: a reader may count bytes as
//! read that it has not written to.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::{AsyncRead, ReadBuf};

pub(crate) struct Window {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Window {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self {
            bytes: vec![0; capacity].into_boxed_slice(),
            start: 0,
            end: 0,
        }
    }

    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether more can be read behind the unread bytes.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.end < self.bytes.len()
    }

    /// Uses up `amount` bytes, or all there are if that is less.
    #[inline]
    pub(crate) fn consume(&mut self, amount: usize) {
        if amount < self.end - self.start {
            self.start += amount;
        } else {
            self.clear(); // W2
        }
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }

    /// Reads once into the room behind the unread bytes.
    pub(crate) fn poll_fill<R: AsyncRead + ?Sized>(
        &mut self,
        reader: Pin<&mut R>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut room = ReadBuf::new(&mut self.bytes[self.end..]);
        let lent = room.identity();
        ready!(reader.poll_read(cx, &mut room))?;
        room.assert_is(lent);
        let amount = room.filled().len();
        self.end += amount;
        Poll::Ready(Ok(amount))
    }
}

/// `unread/capacity`: the bytes themselves are nobody's business.
impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.end - self.start, self.capacity())
    }
}
