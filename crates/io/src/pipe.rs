//! One direction of a stream in memory.
//!
//! ```text
//!   0       start          bytes.len()
//!   │ read    │   unread      │
//! ```
//!
//! The pipe is plain data. Its users lock it around each call, and
//! [run](DeferredWake::run) what the call returned after they unlocked it: a waker
//! may run any code when it is woken or dropped, and may even poll the same pipe. For the same
//! reason it is they who note what a task waits for.
//!
//! P1. A task waits only while its side cannot continue. Whatever lets that side
//!     continue takes its waker.
//! P2. At most `capacity` bytes are unread, and fewer bytes than that lie before
//!     them when the storage grows: it needs at most twice the capacity.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, Waker};

use blitzen_util::wake_batch::WakeBatch;

use crate::ReadBuf;

/// The least storage that is allocated.
const MIN_STORAGE: usize = 64;

#[derive(Debug)]
pub(crate) struct Pipe {
    bytes: Vec<u8>,
    start: usize,
    capacity: usize,
    is_closed: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// What is left to do after the pipe was unlocked.
#[must_use = "a task may be waiting for this"]
pub(crate) enum DeferredWake {
    None,
    Wake(Waker),
    /// A waker that was replaced. Dropping it may run any code.
    Drop(Waker),
}

impl DeferredWake {
    #[inline]
    pub(crate) fn run(self) {
        match self {
            Self::None => {}
            Self::Wake(waker) => waker.wake(),
            Self::Drop(waker) => drop(waker),
        }
    }

    fn wake(slot: &mut Option<Waker>) -> Self {
        slot.take().map_or(Self::None, Self::Wake)
    }

    fn wait(slot: &mut Option<Waker>, cx: &Context<'_>) -> Self {
        if slot.as_ref().is_some_and(|old| old.will_wake(cx.waker())) {
            return Self::None;
        }
        slot.replace(cx.waker().clone())
            .map_or(Self::None, Self::Drop)
    }
}

impl Pipe {
    /// Creates a pipe that holds at most `capacity` bytes.
    ///
    /// # Panics
    ///
    /// Panics if `capacity` is zero.
    #[track_caller]
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        assert!(capacity > 0, "capacity must be greater than zero");
        Self {
            bytes: Vec::new(),
            start: 0,
            capacity,
            is_closed: false,
            reader: None,
            writer: None,
        }
    }

    /// Reads what is there, up to the room of `buf`.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> (Poll<io::Result<()>>, DeferredWake) {
        let unread = &self.bytes[self.start..];
        let amount = unread.len().min(buf.remaining());
        if amount == 0 {
            return match self.is_closed || buf.remaining() == 0 {
                true => (Poll::Ready(Ok(())), DeferredWake::None),
                false => (Poll::Pending, DeferredWake::wait(&mut self.reader, cx)),
            };
        }
        buf.put_slice(&unread[..amount]);
        if amount < unread.len() {
            self.start += amount;
        } else {
            self.bytes.clear();
            self.start = 0;
        }
        (Poll::Ready(Ok(())), DeferredWake::wake(&mut self.writer))
    }

    /// Writes as much of the buffers, in order, as there is room for.
    pub(crate) fn poll_write<'a>(
        &mut self,
        cx: &mut Context<'_>,
        bufs: impl Iterator<Item = &'a [u8]>,
    ) -> (Poll<io::Result<usize>>, DeferredWake) {
        if self.is_closed {
            let error = io::Error::from(io::ErrorKind::BrokenPipe);
            return (Poll::Ready(Err(error)), DeferredWake::None);
        }
        let mut total = 0;
        for buf in bufs.filter(|buf| !buf.is_empty()) {
            let unread = self.bytes.len() - self.start;
            let amount = buf.len().min(self.capacity - unread);
            if amount == 0 {
                if total == 0 {
                    return (Poll::Pending, DeferredWake::wait(&mut self.writer, cx));
                }
                break;
            }
            self.make_room(amount);
            self.bytes.extend_from_slice(&buf[..amount]);
            total += amount;
        }
        let deferred = match total {
            0 => DeferredWake::None,
            _ => DeferredWake::wake(&mut self.reader),
        };
        (Poll::Ready(Ok(total)), deferred)
    }

    #[inline]
    fn make_room(&mut self, amount: usize) {
        if amount > self.bytes.capacity() - self.bytes.len() {
            self.move_or_grow(amount);
        }
    }

    /// Reuses the storage of what was read if that is cheaper than growing: moving
    /// the unread bytes then costs no more than reading did.
    #[cold]
    fn move_or_grow(&mut self, amount: usize) {
        let unread = self.bytes.len() - self.start;
        if self.start >= unread {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        // P2: `start < unread`, and `unread + amount <= capacity`.
        let needed = self.bytes.len() + amount;
        let target = (2 * self.bytes.capacity())
            .clamp(
                MIN_STORAGE,
                self.capacity.saturating_mul(2).max(MIN_STORAGE),
            )
            .max(needed);
        self.bytes.reserve_exact(target - self.bytes.len());
    }

    /// Closes the pipe: the reader gets what is there and then the end, the writer
    /// an error. Their wakers are to be called when the pipe is unlocked.
    pub(crate) fn close(&mut self, wakers: &mut WakeBatch) {
        self.is_closed = true;
        let waiting = [self.reader.take(), self.writer.take()];
        waiting
            .into_iter()
            .flatten()
            .for_each(|waker| wakers.push(waker));
    }
}

/// Returns the buffers of a vectored write as slices.
pub(crate) fn slices<'a>(bufs: &'a [IoSlice<'_>]) -> impl Iterator<Item = &'a [u8]> {
    bufs.iter().map(|buf| &**buf)
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_come_out_as_they_went_in_and_the_storage_stays_small(
            capacity in 1..200_usize,
            steps in prop::collection::vec((any::<bool>(), 1..150_usize), 0..200),
        ) {
            let mut cx = Context::from_waker(Waker::noop());
            let mut pipe = Pipe::with_capacity(capacity);
            let (mut written, mut read) = (0_u8, 0_u8);
            for (is_write, amount) in steps {
                if is_write {
                    let bytes: Vec<u8> = (0..amount).map(|n| written.wrapping_add(n as u8)).collect();
                    let (result, deferred) = pipe.poll_write(&mut cx, bytes.chunks(7));
                    deferred.run();
                    if let Poll::Ready(amount) = result {
                        written = written.wrapping_add(amount.unwrap() as u8);
                    }
                } else {
                    let mut storage = vec![0; amount];
                    let mut buf = ReadBuf::new(&mut storage);
                    let (_, deferred) = pipe.poll_read(&mut cx, &mut buf);
                    deferred.run();
                    for &byte in buf.filled() {
                        prop_assert_eq!(byte, read);
                        read = read.wrapping_add(1);
                    }
                }
                prop_assert!(pipe.bytes.capacity() <= (2 * capacity).max(MIN_STORAGE)); // P2
            }
        }
    }
}
