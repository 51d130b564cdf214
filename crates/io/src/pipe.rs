//! One direction of a stream in memory: bytes between a writer that waits
//! while it is full and a reader that waits while it is empty.
//!
//! The pipe is plain data. Whoever shares it holds a lock around each call,
//! and gives it back before the returned [`Afterwards`] is dropped: a waker may
//! run anything, even a poll of the same pipe, and so may the end of one that
//! was replaced.
//!
//! P1. A task waits only while its side cannot go on, and everything that lets
//!     that side go on takes its waker out.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, Waker};

use crate::ReadBuf;

#[derive(Debug)]
pub(crate) struct Pipe {
    bytes: VecDeque<u8>,
    capacity: usize,
    is_closed: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// What is left to do when the lock has been given back.
#[must_use = "drop it after the lock"]
#[derive(Default)]
pub(crate) struct Afterwards {
    wake: [Option<Waker>; 2],
    /// Only dropped.
    _replaced: Option<Waker>,
}

impl Drop for Afterwards {
    fn drop(&mut self) {
        self.wake
            .iter_mut()
            .flat_map(Option::take)
            .for_each(Waker::wake);
    }
}

impl Pipe {
    /// # Panics
    /// If `capacity` is zero: nothing would ever get through.
    #[track_caller]
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        assert!(capacity > 0, "capacity must be greater than zero");
        Self {
            bytes: VecDeque::new(),
            capacity,
            is_closed: false,
            reader: None,
            writer: None,
        }
    }

    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> (Poll<io::Result<()>>, Afterwards) {
        if self.bytes.is_empty() && !self.is_closed && buf.remaining() > 0 {
            return (Poll::Pending, wait(&mut self.reader, cx));
        }
        let amount = self.bytes.len().min(buf.remaining());
        let (front, back) = self.bytes.as_slices();
        let in_front = front.len().min(amount);
        buf.put_slice(&front[..in_front]);
        buf.put_slice(&back[..amount - in_front]);
        self.bytes.drain(..amount);
        let wake = match amount {
            0 => None,
            _ => self.writer.take(),
        };
        (Poll::Ready(Ok(())), waking([wake, None]))
    }

    /// Writes as much of the buffers, in order, as there is room for.
    pub(crate) fn poll_write<'a>(
        &mut self,
        cx: &mut Context<'_>,
        bufs: impl Iterator<Item = &'a [u8]>,
    ) -> (Poll<io::Result<usize>>, Afterwards) {
        if self.is_closed {
            let error = io::Error::from(io::ErrorKind::BrokenPipe);
            return (Poll::Ready(Err(error)), Afterwards::default());
        }
        let mut total = 0;
        for buf in bufs.filter(|buf| !buf.is_empty()) {
            let amount = buf.len().min(self.capacity - self.bytes.len());
            self.bytes.extend(&buf[..amount]);
            total += amount;
            if amount < buf.len() {
                if total == 0 {
                    return (Poll::Pending, wait(&mut self.writer, cx));
                }
                break;
            }
        }
        let wake = match total {
            0 => None,
            _ => self.reader.take(),
        };
        (Poll::Ready(Ok(total)), waking([wake, None]))
    }

    /// Ends it: the reader gets what is there and then the end, the writer an
    /// error.
    pub(crate) fn close(&mut self) -> Afterwards {
        self.is_closed = true;
        waking([self.reader.take(), self.writer.take()])
    }
}

/// The two kinds of write a stream offers, as an iterator over its buffers.
pub(crate) fn slices<'a>(bufs: &'a [IoSlice<'_>]) -> impl Iterator<Item = &'a [u8]> {
    bufs.iter().map(|buf| &**buf)
}

fn wait(slot: &mut Option<Waker>, cx: &Context<'_>) -> Afterwards {
    let mut afterwards = Afterwards::default();
    if !slot.as_ref().is_some_and(|old| old.will_wake(cx.waker())) {
        afterwards._replaced = slot.replace(cx.waker().clone());
    }
    afterwards
}

fn waking(wake: [Option<Waker>; 2]) -> Afterwards {
    Afterwards {
        wake,
        _replaced: None,
    }
}
