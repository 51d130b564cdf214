//! A stream by completion, until something needs its readiness.
//!
//! ```text
//!                first read or write             readiness is asked for
//!   not used yet ──────────────────► on a ring ────────────────────────► by readiness
//!        │                                                                    ▲
//!        └────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! C1. At any time either the ring or the poller serves the socket. Every operation
//!     that uses readiness or exposes the descriptor moves the stream to the poller,
//!     for good.
//! C2. A stream gets its ring when it is first used: that of the worker that runs
//!     its task then, which need not be the one that accepted it. One that was made
//!     outside the workers gets that of the worker which such sources go to.
//! C3. After the move, bytes that the ring has received are read first, and bytes
//!     that it is sending are sent first. Nothing else is read until the last
//!     receive of the ring has ended, which is mostly at once.

use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, ready};

use blitzen_driver::ring::Memory;
use blitzen_driver::ring::socket::{DrainStep, OnRing, RingStream};
use blitzen_driver::{Registration, is_shutdown_error, shutdown_error};
use blitzen_io::owned::{IoBuf, IoBufMut};
use blitzen_task::current::is_own_waker;
use bytes::BufMut;
use mio::unix::SourceFd;
use socket2::SockRef;

use super::{RingAvailable, RingSocket};
use crate::io::{BOTH, Interest, ReadBuf, Ready};
use crate::runtime::Inner;
use crate::runtime::io::{drivers_for_new_source, drivers_for_outside};

/// How many buffers the kernel takes in one call: it refuses more.
const MAX_PARTS: usize = libc::UIO_MAXIOV as usize;

/// A connection whose bytes are received and sent through io_uring.
pub(crate) struct CompletionStream<S: RingSocket> {
    /// Set by the first use (C2).
    ring: OnceLock<RingStream>,
    /// Set by the move to readiness (C1).
    moved: OnceLock<Moved<S>>,
    /// Held to set either of them.
    change: Mutex<()>,
    /// The readiness that is assumed until an operation has been tried.
    initially: Ready,
    /// Whether it was made outside the workers: then the runtime decides whose ring it is on.
    is_from_outside: bool,
    runtime: Weak<Inner>,
    socket: Arc<S>,
}

/// The socket's registration with a poller, which ends before the socket is closed
/// or returned.
struct Moved<S: RingSocket> {
    /// `None` if the runtime has ended: then operations are tried, and waiting is an
    /// error.
    registration: Option<Registration>,
    socket: Arc<S>,
}

impl<S: RingSocket> Moved<S> {
    fn registration(&self) -> io::Result<&Registration> {
        self.registration.as_ref().ok_or_else(shutdown_error)
    }

    fn try_io<R>(
        &self,
        interest: Interest,
        operation: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        match &self.registration {
            Some(registration) => registration.try_io(interest, operation),
            None => operation(),
        }
    }

    fn recv(&self, room: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        SockRef::from(&*self.socket).recv(room)
    }

    fn recv_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let count = bufs.len().min(MAX_PARTS);
        (&*SockRef::from(&*self.socket)).read_vectored(&mut bufs[..count])
    }

    fn peek(&self, room: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        SockRef::from(&*self.socket).peek(room)
    }

    fn send(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let parts = &parts[..parts.len().min(MAX_PARTS)];
        SockRef::from(&*self.socket).send_vectored_with_flags(parts, libc::MSG_NOSIGNAL)
    }
}

impl<S: RingSocket> Drop for Moved<S> {
    fn drop(&mut self) {
        if let Some(mut registration) = self.registration.take() {
            let fd = self.socket.as_fd().as_raw_fd();
            // It fails if other code has closed the descriptor.
            let _ = registration.deregister(&mut SourceFd(&fd));
        }
    }
}

impl<S: RingSocket> CompletionStream<S> {
    /// Takes a socket over.
    pub(crate) fn new(socket: S, initially: Ready, runtime: &Arc<Inner>, _: RingAvailable) -> Self {
        Self {
            ring: OnceLock::new(),
            moved: OnceLock::new(),
            change: Mutex::new(()),
            initially,
            is_from_outside: runtime.scheduler().current_worker().is_none(),
            runtime: Arc::downgrade(runtime),
            socket: Arc::new(socket),
        }
    }

    pub(crate) fn socket(&self) -> &S {
        &self.socket
    }

    /// Whether the stream has moved to readiness.
    pub(crate) fn has_moved(&self) -> bool {
        self.moved.get().is_some()
    }

    fn lock_change(&self) -> MutexGuard<'_, ()> {
        self.change.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stream on its ring; `None` if it has moved to readiness.
    #[inline]
    fn ring(&self) -> io::Result<Option<&RingStream>> {
        match (self.moved.get(), self.ring.get()) {
            (Some(_), _) => Ok(None),
            (None, Some(ring)) => Ok(Some(ring)),
            (None, None) => self.open(),
        }
    }

    /// Opens the stream on a ring (C2).
    #[cold]
    fn open(&self) -> io::Result<Option<&RingStream>> {
        let _change = self.lock_change();
        if self.has_moved() {
            return Ok(None);
        }
        if self.ring.get().is_none() {
            let runtime = self.runtime.upgrade().ok_or_else(shutdown_error)?;
            let ring = self.open_in(&runtime)?;
            if self.initially.is_readable() {
                ring.expect_bytes();
            }
            let _first = self.ring.set(ring);
        }
        Ok(self.ring.get())
    }

    /// Opens the stream on the ring of its worker or, if there is no descriptor for that just
    /// now, on another one.
    fn open_in(&self, runtime: &Inner) -> io::Result<RingStream> {
        let drivers = match self.is_from_outside {
            true => drivers_for_outside(runtime),
            false => drivers_for_new_source(runtime),
        };
        let driver = drivers.driver();
        driver.open_stream(self.socket.clone()).or_else(|error| {
            let others = runtime.world().all_drivers();
            others
                .filter_map(|other| other.driver().open_stream(self.socket.clone()).ok())
                .next()
                .ok_or(error)
        })
    }

    /// Polls the stream on its ring; `None` if it has moved to readiness.
    #[inline]
    fn poll_ring<T>(
        &self,
        poll: impl FnOnce(&RingStream) -> Poll<OnRing<T>>,
    ) -> Option<Poll<io::Result<T>>> {
        match self.ring() {
            Ok(Some(ring)) => match poll(ring) {
                Poll::Pending => Some(Poll::Pending),
                Poll::Ready(Ok(result)) => Some(Poll::Ready(result)),
                Poll::Ready(Err(_left)) => None,
            },
            Ok(None) => None,
            Err(error) => Some(Poll::Ready(Err(error))),
        }
    }
}

/// The move to readiness.
impl<S: RingSocket> CompletionStream<S> {
    /// Moves the stream to readiness, for good; leaves it as it was if that fails.
    ///
    /// # Errors
    /// The error of registering the socket with the poller.
    pub(crate) fn move_to_readiness(&self) -> io::Result<()> {
        self.moved().map(drop)
    }

    #[inline]
    fn moved(&self) -> io::Result<&Moved<S>> {
        match self.moved.get() {
            Some(moved) => Ok(moved),
            None => self.register(),
        }
    }

    #[cold]
    fn register(&self) -> io::Result<&Moved<S>> {
        let _change = self.lock_change();
        if self.moved.get().is_none() {
            let registration = match self.new_registration() {
                Ok(registration) => Some(registration),
                Err(error) if is_shutdown_error(&error) => None,
                Err(error) => return Err(error),
            };
            let socket = self.socket.clone();
            let _first = self.moved.set(Moved {
                registration,
                socket,
            });
            // After the registration is stored: a task that the ring wakes finds it.
            if let Some(ring) = self.ring.get() {
                ring.leave();
            }
        }
        self.moved.get().ok_or_else(shutdown_error) // it is set
    }

    fn new_registration(&self) -> io::Result<Registration> {
        let runtime = self.runtime.upgrade().ok_or_else(shutdown_error)?;
        let fd = self.socket.as_fd().as_raw_fd();
        // The readiness is not known after the move: each operation is tried once.
        let initially = match self.ring.get() {
            Some(_) => Ready::READABLE | Ready::WRITABLE,
            None => self.initially,
        };
        let driver = drivers_for_new_source(&runtime).driver();
        driver.register(&mut SourceFd(&fd), BOTH, initially)
    }

    /// Returns the socket, for code that uses the descriptor itself. If only another
    /// thread can end the requests of the ring, as in a current-thread runtime, that
    /// happens later.
    pub(crate) fn expose(&self) -> &S {
        let moved = self.moved();
        drop(self.lock_change()); // another thread may be about to leave the ring
        if let Some(ring) = self.ring.get() {
            if moved.is_err() {
                ring.leave(); // without a registration, but for good
            }
            let _ = ring.drain();
        }
        &self.socket
    }

    /// Takes the socket out of the runtime; returns the stream if bytes would be
    /// lost, or the kernel still uses the socket.
    pub(crate) fn into_socket(self: Box<Self>) -> Result<S, (Option<Box<Self>>, io::Error)> {
        if let Err(error) = self.moved() {
            return Err((Some(self), error));
        }
        if let Some(ring) = self.ring.get() {
            let drained = ring.drain().and_then(|()| match ring.unread() {
                0 => Ok(()),
                unread => Err(has_unread(unread)),
            });
            if let Err(error) = drained {
                return Err((Some(self), error));
            }
        }
        let socket = self.socket.clone();
        drop(self);
        Arc::into_inner(socket).ok_or_else(|| (None, io::Error::other("the socket is in use")))
    }

    /// Reads what is left on the ring (C3).
    fn drain_read(&self, room: &mut [MaybeUninit<u8>]) -> DrainStep {
        match self.ring.get() {
            Some(ring) => ring.drain_read(room),
            None => DrainStep::Done,
        }
    }

    /// Reads what is left on the ring; `None` if the rest is in the socket.
    fn try_drain_read(&self, room: &mut [MaybeUninit<u8>]) -> Option<io::Result<usize>> {
        match self.drain_read(room) {
            DrainStep::Bytes(count) => Some(Ok(count)),
            DrainStep::Error(error) => Some(Err(error)),
            DrainStep::Pending => Some(Err(io::ErrorKind::WouldBlock.into())),
            DrainStep::Done => None,
        }
    }

    /// Waits until the socket itself may be read; returns what is left on the ring
    /// first, if there is some.
    fn poll_drain_read(
        &self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(&RingStream) -> DrainStep,
    ) -> Poll<Option<io::Result<usize>>> {
        let Some(ring) = self.ring.get() else {
            return Poll::Ready(None);
        };
        loop {
            match take(ring) {
                DrainStep::Bytes(count) => return Poll::Ready(Some(Ok(count))),
                DrainStep::Error(error) => return Poll::Ready(Some(Err(error))),
                DrainStep::Done => return Poll::Ready(None),
                DrainStep::Pending => ready!(ring.poll_recv_drained(cx)),
            }
        }
    }

    /// Waits until the ring sends nothing any more.
    fn poll_sent(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(ring) = self.ring.get() else {
            return Poll::Ready(Ok(()));
        };
        loop {
            match ring.drain_send() {
                DrainStep::Error(error) => return Poll::Ready(Err(error)),
                DrainStep::Pending => ready!(ring.poll_send_drained(cx)),
                _ => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Checks that an operation on the socket itself overtakes nothing on the ring.
    ///
    /// # Errors
    /// Returns an error of kind [`WouldBlock`](io::ErrorKind::WouldBlock) while
    /// requests of the ring have not ended, and another error if the operation would
    /// overtake bytes.
    fn check_direct(&self, interest: Interest) -> io::Result<()> {
        let Some(ring) = self.ring.get() else {
            return Ok(());
        };
        if interest.is_writable() {
            match ring.drain_send() {
                DrainStep::Error(error) => return Err(error),
                DrainStep::Pending => return Err(io::ErrorKind::WouldBlock.into()),
                _ => {}
            }
        }
        if interest.is_readable() {
            match ring.has_undrained() {
                None => return Err(io::ErrorKind::WouldBlock.into()),
                Some(true) => match ring.unread() {
                    0 => {} // an error, which the next read returns
                    unread => return Err(has_unread(unread)),
                },
                Some(false) => {}
            }
        }
        Ok(())
    }
}

/// Reading.
impl<S: RingSocket> CompletionStream<S> {
    /// Reads. `is_plain` says that a read that does not fill the room has emptied
    /// the socket.
    #[inline]
    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
        is_plain: bool,
    ) -> Poll<io::Result<()>> {
        // SAFETY: only initialised bytes are written into it.
        let room = unsafe { buf.unfilled_mut() };
        let read = match self.poll_ring(|ring| ring.poll_read(cx, room)) {
            Some(read) => read,
            None => self.poll_read_moved(cx, room, is_plain),
        };
        let count = ready!(read)?;
        // SAFETY: that many have been written.
        unsafe { buf.assume_init(count) };
        buf.advance(count);
        Poll::Ready(Ok(()))
    }

    fn poll_read_moved(
        &self,
        cx: &mut Context<'_>,
        room: &mut [MaybeUninit<u8>],
        is_plain: bool,
    ) -> Poll<io::Result<usize>> {
        let moved = self.moved()?;
        if let Some(read) = ready!(self.poll_drain_read(cx, |ring| ring.drain_read(room))) {
            return Poll::Ready(read);
        }
        let registration = moved.registration()?;
        match is_plain {
            true => registration.poll_read_stream(cx, room.len(), || moved.recv(room)),
            false => registration.poll_read_io(cx, || moved.recv(room)),
        }
    }

    /// Reads. Any number of tasks may wait.
    async fn read(&self, room: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        if let Some(ring) = self.ring()?
            && let Ok(result) = ring.read(room).await
        {
            return result;
        }
        let moved = self.moved()?;
        self.recv_drained().await;
        if let Some(read) = self.try_drain_read(room) {
            return read;
        }
        let registration = moved.registration()?;
        let recv = || moved.recv(room);
        registration.async_io(Interest::READABLE, recv).await
    }

    async fn recv_drained(&self) {
        if let Some(ring) = self.ring.get() {
            ring.recv_drained().await;
        }
    }

    pub(crate) fn poll_peek<B: BufMut + ?Sized>(
        &self,
        cx: &mut Context<'_>,
        buf: &mut B,
    ) -> Poll<io::Result<usize>> {
        // SAFETY: only initialised bytes are written into it.
        let room = unsafe { buf.chunk_mut().as_uninit_slice_mut() };
        let peeked = match self.poll_ring(|ring| ring.poll_peek(cx, room)) {
            Some(peeked) => peeked,
            None => self.poll_peek_moved(cx, room),
        };
        let count = ready!(peeked)?;
        // SAFETY: that many have been written.
        unsafe { buf.advance_mut(count) };
        Poll::Ready(Ok(count))
    }

    fn poll_peek_moved(
        &self,
        cx: &mut Context<'_>,
        room: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        let moved = self.moved()?;
        if let Some(peeked) = ready!(self.poll_drain_read(cx, |ring| ring.drain_peek(room))) {
            return Poll::Ready(peeked);
        }
        moved.registration()?.poll_read_io(cx, || moved.peek(room))
    }

    pub(crate) async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        // SAFETY: only initialised bytes are written into it.
        let room = unsafe { &mut *(buf as *mut [u8] as *mut [MaybeUninit<u8>]) };
        if let Some(ring) = self.ring()?
            && let Ok(result) = ring.peek(room).await
        {
            return result;
        }
        let moved = self.moved()?;
        self.recv_drained().await;
        let drained = self.ring.get().map(|ring| ring.drain_peek(room));
        match drained {
            Some(DrainStep::Bytes(count)) => return Ok(count),
            Some(DrainStep::Error(error)) => return Err(error),
            _ => {}
        }
        let registration = moved.registration()?;
        let peek = || moved.peek(room);
        registration.async_io(Interest::READABLE, peek).await
    }

    pub(crate) fn try_read<B: BufMut + ?Sized>(&self, buf: &mut B) -> io::Result<usize> {
        // SAFETY: only initialised bytes are written into it.
        let room = unsafe { buf.chunk_mut().as_uninit_slice_mut() };
        let moved = self.moved()?;
        let count = match self.try_drain_read(room) {
            Some(read) => read?,
            None => moved.try_io(Interest::READABLE, || moved.recv(room))?,
        };
        // SAFETY: that many have been written.
        unsafe { buf.advance_mut(count) };
        Ok(count)
    }

    pub(crate) fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let moved = self.moved()?;
        // In one step: a second one would find the error behind the bytes of the first.
        if let Some(buf) = bufs.iter_mut().find(|buf| !buf.is_empty()) {
            // SAFETY: only initialised bytes are written into it.
            let room = unsafe { &mut *(&raw mut **buf as *mut [MaybeUninit<u8>]) };
            if let Some(read) = self.try_drain_read(room) {
                return read;
            }
        }
        moved.try_io(Interest::READABLE, || moved.recv_vectored(bufs))
    }

    /// Reads into a buffer. A future that is dropped has read nothing.
    pub(crate) async fn read_owned<B: IoBufMut>(&self, mut buf: B) -> (io::Result<usize>, B) {
        let total = buf.total_len();
        // SAFETY: the buffer's own bytes, which nobody touches meanwhile, and into
        // which only initialised ones are written.
        let room = unsafe {
            let start = buf.stable_mut_ptr().cast::<MaybeUninit<u8>>();
            std::slice::from_raw_parts_mut(start, total)
        };
        let result = self.read(room).await;
        if let Ok(count) = result {
            // SAFETY: that many have been written.
            unsafe { buf.set_init(count) };
        }
        (result, buf)
    }
}

/// Writing.
impl<S: RingSocket> CompletionStream<S> {
    #[inline]
    pub(crate) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.poll_ring(|ring| ring.poll_write(cx, parts)) {
            Some(written) => written,
            None => self.poll_write_moved(cx, parts),
        }
    }

    fn poll_write_moved(
        &self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let moved = self.moved()?;
        ready!(self.poll_sent(cx))?;
        let registration = moved.registration()?;
        registration.poll_write_io(cx, || moved.send(parts))
    }

    pub(crate) fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let moved = self.moved()?;
        self.check_direct(Interest::WRITABLE)?;
        moved.try_io(Interest::WRITABLE, || moved.send(parts))
    }

    /// Passes everything that was written to the kernel.
    pub(crate) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match (self.ring.get(), self.has_moved()) {
            // A task returns to its worker, which turns the ring. Another executor,
            // within a task, may block the worker instead.
            (Some(ring), false) => match is_own_waker(cx.waker()) {
                true => ring.poll_flush_in_turn(cx),
                false => ring.poll_flush(cx),
            },
            (Some(_), true) => self.poll_sent(cx),
            (None, _) => Poll::Ready(Ok(())),
        }
    }

    /// Shuts down the sending direction, after a flush.
    pub(crate) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(cx))?;
        Poll::Ready(self.shutdown_write())
    }

    /// Shuts down the sending direction when everything is sent.
    pub(crate) fn shutdown_write(&self) -> io::Result<()> {
        match self.ring.get() {
            Some(ring) => ring.shutdown_write(),
            None => SockRef::from(&*self.socket).shutdown(std::net::Shutdown::Write),
        }
    }

    pub(crate) fn take_send_error(&self) -> Option<io::Error> {
        self.ring.get().and_then(RingStream::take_error)
    }

    /// Sends all of a buffer without copying it first.
    pub(crate) async fn write_owned<B: IoBuf + Send>(
        &self,
        buf: B,
        zero_copy: bool,
    ) -> (io::Result<usize>, B) {
        let ring = match self.ring() {
            Ok(ring) => ring,
            Err(error) => return (Err(error), buf),
        };
        let buf = match ring {
            None => buf,
            Some(ring) => {
                let span = |buf: &mut B| (buf.stable_ptr().cast_mut(), buf.init_len());
                // SAFETY: an `IoBuf` stays where it is and is written to by nobody
                // while it is neither changed nor dropped.
                let memory = unsafe { Memory::new(buf, span, |_, _| {}) };
                match ring.write_owned(memory, zero_copy).await {
                    Ok(sent) => return sent,
                    Err(unsent) => unsent,
                }
            }
        };
        let result = self.write_moved(buf.as_init()).await;
        (result, buf)
    }

    async fn write_moved(&self, bytes: &[u8]) -> io::Result<usize> {
        let moved = self.moved()?;
        if let Some(ring) = self.ring.get() {
            ring.send_drained().await;
        }
        self.check_direct(Interest::WRITABLE)?;
        let send = || moved.send(&[IoSlice::new(bytes)]);
        moved
            .registration()?
            .async_io(Interest::WRITABLE, send)
            .await
    }
}

/// Readiness: all of it moves the stream (C1).
impl<S: RingSocket> CompletionStream<S> {
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        let registration = self.moved()?.registration()?;
        let Some(ring) = self.ring.get() else {
            return Ok(registration.readiness(interest).await?.ready());
        };
        if interest.is_readable() {
            ring.recv_drained().await;
            if ring.has_undrained() == Some(true) {
                return Ok(Ready::READABLE);
            }
        }
        if interest.is_writable() && !ring.is_sent_out() {
            match interest.remove(Interest::WRITABLE) {
                None => ring.send_drained().await,
                // Ends with whichever comes first: the end of the ring's sends, or
                // the readiness.
                Some(rest) => {
                    let mut sent = pin!(ring.send_drained());
                    let mut ready = pin!(registration.readiness(rest));
                    let first = poll_fn(|cx| match sent.as_mut().poll(cx) {
                        Poll::Ready(()) => Poll::Ready(None),
                        Poll::Pending => ready.as_mut().poll(cx).map(Some),
                    });
                    if let Some(ready) = first.await {
                        return Ok(ready?.ready());
                    }
                }
            }
        }
        Ok(registration.readiness(interest).await?.ready())
    }

    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let registration = self.moved()?.registration()?;
        if let Some(ring) = self.ring.get() {
            ready!(ring.poll_recv_drained(cx));
            if ring.has_undrained() == Some(true) {
                return Poll::Ready(Ok(()));
            }
        }
        registration.poll_read_ready(cx).map_ok(drop)
    }

    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let registration = self.moved()?.registration()?;
        if let Some(ring) = self.ring.get() {
            ready!(ring.poll_send_drained(cx));
        }
        registration.poll_write_ready(cx).map_ok(drop)
    }

    /// Tries an operation on the socket itself.
    pub(crate) fn attempt<R>(
        &self,
        interest: Interest,
        operation: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        let moved = self.moved()?;
        self.check_direct(interest)?;
        moved.try_io(interest, operation)
    }

    pub(crate) async fn attempts<R>(
        &self,
        interest: Interest,
        operation: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        let registration = self.moved()?.registration()?;
        if let Some(ring) = self.ring.get() {
            if interest.is_readable() {
                ring.recv_drained().await;
            }
            if interest.is_writable() {
                ring.send_drained().await;
            }
        }
        self.check_direct(interest)?;
        registration.async_io(interest, operation).await
    }
}

fn has_unread(count: usize) -> io::Error {
    io::Error::other(format!(
        "{count} bytes that were received have not been read: they would be lost if the socket \
         were used by others now"
    ))
}
