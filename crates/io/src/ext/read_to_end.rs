//! `read_to_end`.
//!
//! While the vector has the capacity that the caller gave it, and little of that is
//! left, a read into an array on the stack tells whether there is more: a vector of
//! the right size does not grow.

use std::future::Future;
use std::io;
use std::marker::PhantomPinned;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::check::is_interrupted;
use crate::{AsyncRead, ReadBuf, check};

/// A vector with less spare capacity than this is full.
const PROBE_LEN: usize = 32;

/// What a read to the end remembers of the vector it fills.
#[derive(Debug)]
pub(super) struct ReadToEndState {
    first_capacity: usize,
    /// How many bytes of the spare capacity are initialised.
    initialized: usize,
}

impl ReadToEndState {
    pub(super) fn of(vec: &Vec<u8>) -> Self {
        Self {
            first_capacity: vec.capacity(),
            initialized: 0,
        }
    }

    /// Appends to `vec` until `reader` ends. `vec` must be the one of the calls
    /// before, unchanged since, or have no spare capacity.
    pub(super) fn poll_read_to_end<R: AsyncRead + ?Sized>(
        &mut self,
        vec: &mut Vec<u8>,
        mut reader: Pin<&mut R>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match ready!(self.poll_read_some(vec, reader.as_mut(), cx)) {
                Ok(0) => return Poll::Ready(Ok(())),
                Ok(_) => {}
                Err(error) if is_interrupted(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn poll_read_some<R: AsyncRead + ?Sized>(
        &mut self,
        vec: &mut Vec<u8>,
        reader: Pin<&mut R>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if vec.capacity() - vec.len() < PROBE_LEN {
            if vec.capacity() == self.first_capacity && self.first_capacity >= PROBE_LEN {
                return self.poll_probe(vec, reader, cx);
            }
            vec.reserve(PROBE_LEN);
            self.initialized = 0;
        }

        let mut room = ReadBuf::uninit(vec.spare_capacity_mut());
        // SAFETY: counted below for this spare capacity. Whatever changes the vector
        // resets the count, and a vector that was replaced has no spare capacity.
        unsafe { room.assume_init(self.initialized) };
        let polled = check::poll_read(reader, cx, &mut room);
        let (amount, initialized) = (room.filled().len(), room.initialized().len());
        self.initialized = initialized;
        ready!(polled)?;
        self.initialized -= amount;
        // SAFETY: the room's first `amount` bytes are filled.
        unsafe { vec.set_len(vec.len() + amount) };
        Poll::Ready(Ok(amount))
    }

    /// Reads into an array first, so that the vector does not grow if the reader has
    /// ended.
    fn poll_probe<R: AsyncRead + ?Sized>(
        &mut self,
        vec: &mut Vec<u8>,
        reader: Pin<&mut R>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut storage = [MaybeUninit::uninit(); PROBE_LEN];
        let mut room = ReadBuf::uninit(&mut storage);
        ready!(check::poll_read(reader, cx, &mut room))?;
        vec.extend_from_slice(room.filled());
        self.initialized = 0;
        Poll::Ready(Ok(room.filled().len()))
    }
}

pin_project! {
    /// The future of [`AsyncReadExt::read_to_end`](crate::AsyncReadExt::read_to_end).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct ReadToEnd<'a, R: ?Sized> {
        reader: &'a mut R,
        vec: &'a mut Vec<u8>,
        state: ReadToEndState,
        first_len: usize,
        #[pin]
        _pin: PhantomPinned,
    }
}

pub(super) fn read_to_end<'a, R>(reader: &'a mut R, vec: &'a mut Vec<u8>) -> ReadToEnd<'a, R>
where
    R: AsyncRead + Unpin + ?Sized,
{
    ReadToEnd {
        reader,
        state: ReadToEndState::of(vec),
        first_len: vec.len(),
        vec,
        _pin: PhantomPinned,
    }
}

impl<R: AsyncRead + Unpin + ?Sized> Future for ReadToEnd<'_, R> {
    type Output = io::Result<usize>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let reader = Pin::new(&mut **this.reader);
        ready!(this.state.poll_read_to_end(this.vec, reader, cx))?;
        Poll::Ready(Ok(this.vec.len() - *this.first_len))
    }
}
