//! A stream by completion.
//!
//! L1. A stream gets its home, the ring of one worker, when it is first used:
//!     the worker that runs its task then, not the one that accepted it.
//! L2. Whoever asks for readiness gets it from the selector, where the socket
//!     is registered when somebody first asks; what the ring has brought, or is
//!     about to send, counts as well.
//! L3. Nothing reads or writes the socket beside the ring while that has
//!     something of it: bytes would be lost or change places.

use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, ready};

use blitzen_driver::ring::Memory;
use blitzen_driver::ring::socket::{Buffered, Refused, Stream};
use blitzen_driver::{ReadyEvent, Registration, gone, is_gone};
use blitzen_io::owned::{IoBuf, IoBufMut};
use bytes::BufMut;
use mio::unix::SourceFd;
use socket2::SockRef;

use super::{Wired, unavailable};
use crate::io::{BOTH, Interest, ReadBuf, Ready};
use crate::runtime::Inner;
use crate::runtime::io::drivers_for_new_source;

/// A connection whose bytes the kernel brings and takes.
pub(crate) struct Line<S: Wired> {
    /// L1.
    stream: OnceLock<Stream>,
    runtime: Weak<Inner>,
    watched: Watched<S>,
}

/// The socket and, from when somebody asks for readiness, its place in a
/// selector (L2), which it leaves before it is closed or handed out.
struct Watched<S: Wired> {
    socket: Arc<S>,
    /// What the socket counts as ready for until tried: the selector is told.
    initially: Initially,
    registration: OnceLock<Registration>,
}

/// Readiness that is assumed, in a form that several threads can take back.
struct Initially {
    readable: AtomicBool,
    writable: AtomicBool,
}

impl Initially {
    fn new(ready: Ready) -> Self {
        Self {
            readable: AtomicBool::new(ready.is_readable()),
            writable: AtomicBool::new(ready.is_writable()),
        }
    }

    /// Relaxed, here and below: an assumption that is wrong costs a try.
    fn ready(&self) -> Ready {
        let mut ready = Ready::EMPTY;
        if self.readable.load(Relaxed) {
            ready |= Ready::READABLE;
        }
        if self.writable.load(Relaxed) {
            ready |= Ready::WRITABLE;
        }
        ready
    }

    fn refute(&self, interest: Interest) {
        if interest.is_readable() {
            self.readable.store(false, Relaxed);
        }
        if interest.is_writable() {
            self.writable.store(false, Relaxed);
        }
    }
}

impl<S: Wired> Drop for Watched<S> {
    fn drop(&mut self) {
        if let Some(mut registration) = self.registration.take() {
            let fd = self.socket.as_fd().as_raw_fd();
            // It fails if somebody has closed the descriptor behind our back.
            let _ = registration.deregister(&mut SourceFd(&fd));
        }
    }
}

impl<S: Wired> Line<S> {
    /// Takes a socket over; gives it back if the runtime has no ring.
    pub(crate) fn new(
        socket: S,
        initially: Ready,
        runtime: &Arc<Inner>,
    ) -> Result<Self, (S, io::Error)> {
        match drivers_for_new_source(runtime).driver().ring() {
            Ok(_) => Ok(Self {
                stream: OnceLock::new(),
                runtime: Arc::downgrade(runtime),
                watched: Watched {
                    socket: Arc::new(socket),
                    initially: Initially::new(initially),
                    registration: OnceLock::new(),
                },
            }),
            Err(error) => Err((socket, unavailable(error))),
        }
    }

    pub(crate) fn socket(&self) -> &S {
        &self.watched.socket
    }

    #[inline]
    fn stream(&self) -> io::Result<&Stream> {
        match self.stream.get() {
            Some(stream) => Ok(stream),
            None => self.settle(),
        }
    }

    /// Finds the stream a home (L1).
    #[cold]
    fn settle(&self) -> io::Result<&Stream> {
        let inner = self.runtime.upgrade().ok_or_else(gone)?;
        let stream = drivers_for_new_source(&inner)
            .driver()
            .open_stream(self.watched.socket.clone())?;
        if self.watched.initially.ready().is_readable() {
            stream.expect();
        }
        // Another task may have been faster; then this one was never used.
        Ok(self.stream.get_or_init(|| stream))
    }

    /// The socket's place in a selector, for L2.
    fn registration(&self) -> io::Result<&Registration> {
        match self.watched.registration.get() {
            Some(registration) => Ok(registration),
            None => self.register(),
        }
    }

    #[cold]
    fn register(&self) -> io::Result<&Registration> {
        let inner = self.runtime.upgrade().ok_or_else(gone)?;
        let fd = self.watched.socket.as_fd().as_raw_fd();
        let driver = drivers_for_new_source(&inner).driver();
        let initially = self.watched.initially.ready();
        match driver.register(&mut SourceFd(&fd), BOTH, initially) {
            Ok(registration) => Ok(self.watched.registration.get_or_init(|| registration)),
            // Another task was faster, in the same selector.
            Err(error) => self.watched.registration.get().ok_or(error),
        }
    }

    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let known = self.known(Interest::READABLE);
        // SAFETY: the stream only writes initialised bytes into it.
        let room = unsafe { buf.unfilled_mut() };
        let stream = self.stream()?;
        let read = match known.is_some_and(|event| !event.ready().is_empty()) {
            // For somebody who asks for readiness the socket is tried first.
            true => stream.poll_try_read(cx, room),
            false => stream.poll_read(cx, room),
        };
        if read.is_pending() {
            self.refute(Interest::READABLE, known);
        }
        let count = ready!(read)?;
        // SAFETY: so many have been written.
        unsafe { buf.assume_init(count) };
        buf.advance(count);
        Poll::Ready(Ok(()))
    }

    pub(crate) fn poll_peek<B: BufMut + ?Sized>(
        &self,
        cx: &mut Context<'_>,
        buf: &mut B,
    ) -> Poll<io::Result<usize>> {
        // SAFETY: the stream only writes initialised bytes into it.
        let room = unsafe { buf.chunk_mut().as_uninit_slice_mut() };
        let count = ready!(self.stream()?.poll_peek(cx, room))?;
        // SAFETY: so many have been written.
        unsafe { buf.advance_mut(count) };
        Poll::Ready(Ok(count))
    }

    pub(crate) fn try_read<B: BufMut + ?Sized>(&self, buf: &mut B) -> io::Result<usize> {
        // SAFETY: the stream only writes initialised bytes into it.
        let room = unsafe { buf.chunk_mut().as_uninit_slice_mut() };
        let count = self.try_read_into(room)?;
        // SAFETY: so many have been written.
        unsafe { buf.advance_mut(count) };
        Ok(count)
    }

    fn try_read_into(&self, room: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        let known = self.known(Interest::READABLE);
        let read = match self.stream() {
            Ok(stream) => stream.try_read(room),
            // Without a runtime there is still the socket.
            Err(error) if is_gone(&error) => SockRef::from(self.socket()).recv(room),
            Err(error) => Err(error),
        };
        if matches!(&read, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            self.refute(Interest::READABLE, known);
        }
        read
    }

    pub(crate) fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut count = 0;
        for buf in bufs.iter_mut().filter(|buf| !buf.is_empty()) {
            let (len, mut room) = (buf.len(), &mut **buf);
            match self.try_read(&mut room) {
                Ok(read) => {
                    count += read;
                    if read < len {
                        break;
                    }
                }
                Err(error) if count == 0 => return Err(error),
                Err(_) => break, // nothing more, or told by the next read
            }
        }
        Ok(count)
    }

    pub(crate) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let known = self.known(Interest::WRITABLE);
        let stream = self.stream()?;
        let written = stream.poll_write(cx, parts);
        if written.is_pending() && stream.lacks_room() {
            self.refute(Interest::WRITABLE, known);
        }
        written
    }

    pub(crate) fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let known = self.known(Interest::WRITABLE);
        let stream = match self.stream() {
            // Without a runtime there is still the socket.
            Err(error) if is_gone(&error) => {
                return SockRef::from(self.socket()).send_vectored(parts);
            }
            stream => stream?,
        };
        stream.send(parts).map_err(|refused| {
            if matches!(refused, Refused::NoRoom) {
                self.refute(Interest::WRITABLE, known);
            }
            refused.into()
        })
    }

    /// What the selector has said, before an operation that may know better.
    fn known(&self, interest: Interest) -> Option<ReadyEvent> {
        let registration = self.watched.registration.get()?;
        Some(registration.ready_now(interest))
    }

    /// An operation would have blocked, whatever the selector has said; not if
    /// it has said something since.
    fn refute(&self, interest: Interest, known: Option<ReadyEvent>) {
        self.watched.initially.refute(interest);
        if let (Some(registration), Some(event)) = (self.watched.registration.get(), known) {
            registration.clear_refuted(event);
        }
    }

    /// The kernel has everything, or will, before the worker sleeps.
    pub(crate) fn flush(&self) -> io::Result<()> {
        match self.stream.get().and_then(Stream::take_error) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    pub(crate) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.stream()?;
        ready!(stream.poll_sent(cx))?;
        Poll::Ready(stream.end())
    }

    /// Ends the direction that is written, when everything is out.
    pub(crate) fn end(&self) -> io::Result<()> {
        self.stream()?.end()
    }

    pub(crate) fn take_error(&self) -> Option<io::Error> {
        self.stream.get().and_then(Stream::take_error)
    }

    // Readiness (L2).

    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        let registration = self.registration()?;
        // What is under way goes first (L3); it does not take long.
        let wait = |cx: &mut Context<'_>| {
            let under_way = interest.is_writable() && self.watch_sent(cx);
            match under_way && !self.has_unread(interest, cx) {
                true => Poll::Pending,
                false => Poll::Ready(()),
            }
        };
        poll_fn(wait).await;
        let mut readiness = pin!(registration.readiness(interest));
        poll_fn(|cx| {
            if self.has_unread(interest, cx) {
                return Poll::Ready(Ok(Ready::READABLE));
            }
            let event = ready!(readiness.as_mut().poll(cx))?;
            Poll::Ready(Ok(event.ready()))
        })
        .await
    }

    fn has_unread(&self, interest: Interest, cx: &mut Context<'_>) -> bool {
        interest.is_readable()
            && self
                .stream
                .get()
                .is_some_and(|stream| stream.poll_buffered(cx) == Buffered::Yes)
    }

    fn watch_sent(&self, cx: &mut Context<'_>) -> bool {
        self.stream
            .get()
            .is_some_and(|stream| stream.watch_sent(cx))
    }

    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.has_unread(Interest::READABLE, cx) {
            return Poll::Ready(Ok(()));
        }
        let ready = self.registration()?.poll_read_ready(cx);
        ready.map(|ready| ready.map(drop))
    }

    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.watch_sent(cx) {
            return Poll::Pending;
        }
        let ready = self.registration()?.poll_write_ready(cx);
        ready.map(|ready| ready.map(drop))
    }

    /// Tries an operation on the socket itself.
    pub(crate) fn attempt<R>(
        &self,
        interest: Interest,
        operation: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        self.stand_aside(interest)?;
        self.registration()?.try_io(interest, operation)
    }

    pub(crate) async fn attempts<R>(
        &self,
        interest: Interest,
        mut operation: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        let registration = self.registration()?;
        loop {
            self.ready(interest).await?;
            match self.stand_aside(interest) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                stood => stood?,
            }
            let attempt = poll_fn(|cx| {
                let spent = ready!(blitzen_util::coop::poll_proceed(cx));
                let result = registration.try_io(interest, &mut operation);
                if !matches!(&result, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
                    spent.made_progress();
                }
                Poll::Ready(result)
            });
            match attempt.await {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
    }

    /// L3: lets somebody else at the socket.
    fn stand_aside(&self, interest: Interest) -> io::Result<()> {
        let Some(stream) = self.stream.get() else {
            return Ok(());
        };
        if interest.is_writable() && !stream.is_sent() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if !interest.is_readable() {
            return Ok(());
        }
        match stream.stand_aside()? {
            0 => Ok(()),
            unread => Err(has_unread(unread)),
        }
    }

    // Owned buffers.

    /// Reads into a buffer. Bytes do not depend on the future: one that is
    /// dropped has read none.
    pub(crate) async fn read_owned<B: IoBufMut>(&self, mut buf: B) -> (io::Result<usize>, B) {
        let read = poll_fn(|cx| {
            let total = buf.total_len();
            // SAFETY: the buffer's own bytes, borrowed for this call, into which
            // only initialised ones are written.
            let room = unsafe {
                let start = buf.stable_mut_ptr().cast::<MaybeUninit<u8>>();
                std::slice::from_raw_parts_mut(start, total)
            };
            self.stream()?.poll_read(cx, room)
        });
        let result = read.await;
        if let Ok(count) = result {
            // SAFETY: so many have been written.
            unsafe { buf.set_init(count) };
        }
        (result, buf)
    }

    /// Sends all of a buffer from where it is.
    pub(crate) async fn write_owned<B: IoBuf + Send>(
        &self,
        buf: B,
        zero_copy: bool,
    ) -> (io::Result<usize>, B) {
        let stream = match self.stream() {
            Ok(stream) => stream,
            Err(error) => return (Err(error), buf),
        };
        let (start, len) = (buf.stable_ptr().cast_mut(), buf.init_len());
        // SAFETY: an `IoBuf` stays where it is and is written to by nobody
        // while it is neither changed nor dropped.
        let memory = unsafe { Memory::new(buf, start, len, |_, _| {}) };
        stream.send_owned(memory, zero_copy).await
    }

    /// Takes the socket out of the ring.
    pub(crate) fn detach(&mut self) -> io::Result<()> {
        if let Some(stream) = self.stream.take()
            && let Err((stream, error)) = stream.take_out()
        {
            let error = error.unwrap_or_else(|| has_unread(stream.unread()));
            self.stream = OnceLock::from(stream);
            return Err(error);
        }
        Ok(())
    }

    /// Gives the socket back after it was taken out of the ring.
    pub(crate) fn into_socket(self) -> io::Result<S> {
        let socket = self.watched.socket.clone();
        drop(self);
        Arc::into_inner(socket).ok_or_else(|| io::Error::other("the socket is in use"))
    }
}

fn has_unread(count: usize) -> io::Error {
    io::Error::other(format!(
        "{count} bytes that were received have not been read: they would be lost if the socket \
         were used by others now"
    ))
}
