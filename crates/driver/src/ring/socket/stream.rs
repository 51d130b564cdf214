//! A connection on a ring, as a task uses it.
//!
//! ```text
//!   poll_read ── read lock ──► prefix ──► bytes that the ring has received ──► recv(2)
//!   poll_write ─ write lock ─► buffered, or   ──► send(2), pending bytes first
//! ```
//!
//! X1. Bytes are taken only under the read lock, and sends begun only under the write
//!     lock. So bytes keep their order. The ring's lock is taken after these two, and no
//!     foreign code runs under any of them.
//! X2. A stream is on its ring until it [leaves](RingStream::leave), and never comes
//!     back.

mod leave;

use std::fmt;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker, ready};

use blitzen_util::coop;
use blitzen_util::shim::Mutex;
use blitzen_util::wait::{self, WaitKind};

use super::deferred::Deferred;
use super::prefix::{Prefix, READ_AHEAD};
use super::receive::InKernel;
use super::send::{FlushStep, WriteStep};
use super::table::{RecvStep, SendStep, SocketTable, StreamDirection};
use super::waiters::{PollWithNode, WaitAs};
use crate::ring::Ring;
use crate::ring::user_data::SocketKey;
use crate::shutdown_error;

/// The most parts that the kernel takes in one call (`UIO_MAXIOV`).
const MAX_PARTS: usize = 1024;

/// A connection whose bytes are received and sent through a [`Ring`].
///
/// Created by [`Ring::open_stream`]. Dropping it sends buffered bytes, and closes the
/// socket unless it is shared.
///
/// ```
/// use std::io::{Read, Write};
/// use std::sync::Arc;
/// use std::task::{Context, Poll, Waker};
/// use blitzen_driver::Poller;
/// use blitzen_driver::ring::{Ring, RingConfig};
///
/// let poller = Arc::new(Poller::new(16)?);
/// let Ok(ring) = Ring::new(&RingConfig::default(), poller) else { return Ok(()) };
/// let ring = Arc::new(ring);
/// let (ours, mut theirs) = std::os::unix::net::UnixStream::pair()?;
/// ours.set_nonblocking(true)?;
/// let stream = ring.open_stream(Arc::new(ours))?;
///
/// theirs.write_all(b"hello")?;
/// let mut bytes = [std::mem::MaybeUninit::uninit(); 16];
/// let mut cx = Context::from_waker(Waker::noop());
/// let count = loop {
///     match stream.poll_read(&mut cx, &mut bytes) {
///         Poll::Ready(read) => break read.expect("it has not left its ring")?,
///         Poll::Pending => ring.turn(None)?, // the owner's part
///     };
/// };
/// assert_eq!(count, 5);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct RingStream {
    ring: Arc<Ring>,
    key: SocketKey,
    fd: RawFd,
    /// The read lock (X1).
    reader: Mutex<Prefix>,
    /// The write lock (X1).
    writer: Mutex<()>,
    /// Whether a stream that has left the ring has no received bytes left.
    is_read_out: AtomicBool,
    /// Whether a stream that has left the ring has no bytes left to send.
    is_sent_out: AtomicBool,
}

/// The stream has left its ring, or is about to: the caller continues by readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftRing;

/// The result of an operation during which the stream may leave its ring.
pub type OnRing<T> = Result<io::Result<T>, LeftRing>;

/// What is left on the ring of a stream that has left it.
#[derive(Debug)]
pub enum DrainStep {
    /// The number of bytes that were copied.
    Bytes(usize),
    /// An error that the ring has received, after the bytes.
    Error(io::Error),
    /// The last receive has not ended: it may return more.
    Pending,
    /// Nothing: the rest is in the socket.
    Done,
}

/// The result of one attempt under the read lock.
enum ReadStep {
    Ready(OnRing<usize>),
    NeedsWaker,
    Pending,
}

/// The result of one attempt under the write lock.
pub(super) enum SendWait<T> {
    Ready(OnRing<T>),
    /// Try again when the send that is in flight has ended or, with `for_room`, the
    /// socket has room.
    Wait {
        for_room: bool,
    },
}

impl Ring {
    /// Adds a connected socket, which has to be in non-blocking mode. Until it
    /// [leaves](RingStream::leave), it is read and written through the ring only.
    ///
    /// # Errors
    /// Returns [`shutdown_error()`] after [`cancel_all`](Ring::cancel_all), and an error
    /// of kind [`Unsupported`](io::ErrorKind::Unsupported) if the kernel has no rings of
    /// provided buffers (before 5.19).
    pub fn open_stream<S>(self: &Arc<Self>, socket: Arc<S>) -> io::Result<RingStream>
    where
        S: AsFd + Send + Sync + 'static,
    {
        let fd = socket.as_fd().as_raw_fd();
        let key = self.visit_sockets(|state| {
            if state.sockets.is_shut() {
                return Err(shutdown_error());
            }
            self.provide_buffers(state)?;
            Ok(state.sockets.insert(fd, socket))
        })?;
        Ok(RingStream {
            ring: self.clone(),
            key,
            fd,
            reader: Mutex::new(Prefix::default()),
            writer: Mutex::new(()),
            is_read_out: AtomicBool::new(false),
            is_sent_out: AtomicBool::new(false),
        })
    }
}

/// Reading.
impl RingStream {
    /// Notes that there may be something to read already, so that the first read tries.
    pub fn expect_bytes(&self) {
        self.visit(|table| table.expect_bytes(self.key));
    }

    /// Reads received bytes; waits if there are none. Of several tasks that wait with a
    /// `poll` function, the one that called last is woken.
    ///
    /// # Errors
    /// Returns the error of `recv(2)`, or [`shutdown_error()`] if the ring was shut.
    ///
    /// # Cancel safety
    /// Bytes that arrive while nobody waits are kept for the next call.
    pub fn poll_read(
        &self,
        cx: &mut Context<'_>,
        room: &mut [MaybeUninit<u8>],
    ) -> Poll<OnRing<usize>> {
        self.poll_read_as(cx, WaitAs::Latest, room)
    }

    /// Reads received bytes; waits if there are none. Any number of tasks may wait.
    ///
    /// # Errors
    /// As for [`poll_read`](Self::poll_read).
    pub async fn read(&self, room: &mut [MaybeUninit<u8>]) -> OnRing<usize> {
        PollWithNode::new(self, StreamDirection::Recv, |cx, waiter| {
            self.poll_read_as(cx, waiter, room)
        })
        .await
    }

    fn poll_read_as(
        &self,
        cx: &mut Context<'_>,
        waiter: WaitAs<'_>,
        room: &mut [MaybeUninit<u8>],
    ) -> Poll<OnRing<usize>> {
        self.poll_reader(cx, |prefix, waker, deferred| {
            self.read_locked(prefix, room, waiter, waker, deferred)
        })
    }

    /// Copies received bytes without removing them; waits if there are none.
    ///
    /// # Errors
    /// As for [`poll_read`](Self::poll_read).
    pub fn poll_peek(
        &self,
        cx: &mut Context<'_>,
        room: &mut [MaybeUninit<u8>],
    ) -> Poll<OnRing<usize>> {
        self.poll_peek_as(cx, WaitAs::Latest, room)
    }

    /// Copies received bytes without removing them; waits if there are none. Any number
    /// of tasks may wait.
    ///
    /// # Errors
    /// As for [`poll_read`](Self::poll_read).
    pub async fn peek(&self, room: &mut [MaybeUninit<u8>]) -> OnRing<usize> {
        PollWithNode::new(self, StreamDirection::Recv, |cx, waiter| {
            self.poll_peek_as(cx, waiter, room)
        })
        .await
    }

    fn poll_peek_as(
        &self,
        cx: &mut Context<'_>,
        waiter: WaitAs<'_>,
        room: &mut [MaybeUninit<u8>],
    ) -> Poll<OnRing<usize>> {
        self.poll_reader(cx, |prefix, waker, deferred| {
            self.peek_locked(prefix, room, waiter, waker, deferred)
        })
    }

    /// Calls `step` under the read lock, and does its deferred work after the lock is
    /// released.
    #[inline]
    fn poll_reader(
        &self,
        cx: &mut Context<'_>,
        mut step: impl FnMut(&mut Prefix, &mut Option<Waker>, &mut Deferred) -> ReadStep,
    ) -> Poll<OnRing<usize>> {
        let spent = ready!(coop::poll_proceed(cx));
        let mut waker = None;
        loop {
            let mut deferred = Deferred::default();
            let mut prefix = self.reader.lock();
            let taken = step(&mut prefix, &mut waker, &mut deferred);
            prefix.trim();
            drop(prefix);
            deferred.finish();
            match taken {
                ReadStep::Ready(result) => {
                    spent.made_progress();
                    return Poll::Ready(result);
                }
                ReadStep::Pending => {
                    wait::pending_on(WaitKind::RingReceive, self);
                    return Poll::Pending;
                }
                ReadStep::NeedsWaker => waker = Some(cx.waker().clone()),
            }
        }
    }

    fn read_locked(
        &self,
        prefix: &mut Prefix,
        room: &mut [MaybeUninit<u8>],
        waiter: WaitAs<'_>,
        waker: &mut Option<Waker>,
        deferred: &mut Deferred,
    ) -> ReadStep {
        if room.is_empty() {
            return ReadStep::Ready(Ok(Ok(0)));
        }
        let count = prefix.read(room);
        if count > 0 {
            return ReadStep::Ready(Ok(Ok(count)));
        }
        loop {
            let step = self.visit(|table| table.recv(self.key, room, waiter, waker, deferred));
            let read = match step {
                RecvStep::Bytes(count) => Ok(count),
                RecvStep::Eof => Ok(0),
                RecvStep::Error(error) => Err(io::Error::from_raw_os_error(error)),
                RecvStep::Direct { announced, large } => {
                    let ahead = large && room.len() < READ_AHEAD;
                    match self.recv_direct(prefix, room, ahead, announced) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                        read => read,
                    }
                }
                RecvStep::Nothing => return ReadStep::NeedsWaker,
                RecvStep::Waits => return ReadStep::Pending,
                RecvStep::Leaving => return ReadStep::Ready(Err(LeftRing)),
                RecvStep::Shut => Err(shutdown_error()),
            };
            return ReadStep::Ready(Ok(read));
        }
    }

    /// Moves received bytes to the prefix, as many as fit into `room`, and copies them.
    fn peek_locked(
        &self,
        prefix: &mut Prefix,
        room: &mut [MaybeUninit<u8>],
        waiter: WaitAs<'_>,
        waker: &mut Option<Waker>,
        deferred: &mut Deferred,
    ) -> ReadStep {
        while prefix.len() < room.len() {
            // There are some bytes: do not wait for more.
            let mut no_waker = None;
            let waker = match prefix.is_empty() {
                true => &mut *waker,
                false => &mut no_waker,
            };
            let spare = prefix.spare(READ_AHEAD);
            let step = self.visit(|table| table.recv(self.key, spare, waiter, waker, deferred));
            let gathered = match step {
                RecvStep::Bytes(count) => {
                    // SAFETY: the table has copied that many bytes.
                    unsafe { prefix.advance(count) };
                    continue;
                }
                RecvStep::Direct { announced, .. } => {
                    match self.recv_direct(prefix, &mut [], true, announced) {
                        Ok(0) => Ok(0),
                        Ok(_) => continue,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                        Err(error) => Err(error),
                    }
                }
                RecvStep::Eof => Ok(0),
                RecvStep::Error(error) => Err(io::Error::from_raw_os_error(error)),
                _ if !prefix.is_empty() => break,
                RecvStep::Nothing => return ReadStep::NeedsWaker,
                RecvStep::Waits => return ReadStep::Pending,
                RecvStep::Leaving => return ReadStep::Ready(Err(LeftRing)),
                RecvStep::Shut => Err(shutdown_error()),
            };
            match gathered {
                result if prefix.is_empty() => return ReadStep::Ready(Ok(result)),
                Ok(_) => {}
                Err(error) => {
                    let error = error.raw_os_error().unwrap_or(libc::EIO);
                    self.visit(|table| table.keep_recv_error(self.key, error));
                }
            }
            break;
        }
        ReadStep::Ready(Ok(Ok(prefix.peek(room))))
    }

    /// Calls `recv(2)` for `room` and, with `ahead`, for more bytes into the prefix.
    /// Either the prefix or `room` is empty. Returns how many bytes are in `room`, or in
    /// the prefix if there is no room.
    fn recv_direct(
        &self,
        prefix: &mut Prefix,
        room: &mut [MaybeUninit<u8>],
        ahead: bool,
        announced: InKernel,
    ) -> io::Result<usize> {
        let max_ahead = if ahead { READ_AHEAD } else { 0 };
        let result = match ahead {
            true => self.recv_parts([&mut *room, prefix.spare(READ_AHEAD)]),
            false => self.recv_parts([&mut *room]),
        };
        let is_full = |count: usize| count == room.len() + max_ahead;
        let (count, left) = match &result {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => (0, InKernel::Nothing),
            // The end is found again by the next read, and after an error at least the
            // end follows.
            Err(_) | Ok(0) => (0, InKernel::HangUp),
            Ok(count) if announced == InKernel::HangUp => (*count, InKernel::HangUp),
            Ok(count) if is_full(*count) => (*count, InKernel::Bytes),
            Ok(count) => (*count, InKernel::Nothing),
        };
        if ahead {
            // SAFETY: the kernel has filled `room` first, and then this many bytes.
            unsafe { prefix.advance(count.saturating_sub(room.len())) };
        }
        if count > 0 || left != InKernel::Nothing {
            self.visit(|table| table.note_direct(self.key, count, left));
        }
        match room.is_empty() {
            true => result,
            false => result.map(|count| count.min(room.len())),
        }
    }

    /// Calls `recv(2)` or `recvmsg(2)` for the parts, without waiting.
    fn recv_parts<const N: usize>(&self, parts: [&mut [MaybeUninit<u8>]; N]) -> io::Result<usize> {
        let mut parts = parts.map(|part| libc::iovec {
            iov_base: part.as_mut_ptr().cast(),
            iov_len: part.len(),
        });
        let received = match &parts[..] {
            // SAFETY: the part is the caller's.
            [part] => unsafe {
                libc::recv(self.fd, part.iov_base, part.iov_len, libc::MSG_DONTWAIT)
            },
            _ => {
                // SAFETY: numbers and pointers, for which zero is a value.
                let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
                message.msg_iov = parts.as_mut_ptr();
                message.msg_iovlen = N as _;
                // SAFETY: the parts are the caller's.
                unsafe { libc::recvmsg(self.fd, &mut message, libc::MSG_DONTWAIT) }
            }
        };
        usize::try_from(received).map_err(|_| io::Error::last_os_error())
    }

    /// Returns the number of received bytes that were not read.
    pub fn unread(&self) -> usize {
        let prefix = self.reader.lock();
        prefix.len() + self.visit(|table| table.unread(self.key))
    }
}

/// Writing.
impl RingStream {
    /// Sends some bytes of several parts; waits if there is no room. Of several tasks
    /// that wait with a `poll` function, the one that called last is woken.
    ///
    /// Small writes of the thread that turns the ring are buffered, if the socket has
    /// room for them. They are sent with the next turn or [flush](Self::poll_flush). If
    /// the connection fails before that, the next call returns the error.
    ///
    /// # Errors
    /// Returns the error of `send(2)`, also of buffered bytes, or [`shutdown_error()`] if
    /// the ring was shut and there is no room.
    ///
    /// # Cancel safety
    /// A call that returns `Pending` has sent nothing.
    pub fn poll_write(&self, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<OnRing<usize>> {
        let spent = ready!(coop::poll_proceed(cx));
        let write = || self.write_locked(parts);
        let written = ready!(self.poll_write_locked(cx, WaitAs::Latest, write));
        spent.made_progress();
        Poll::Ready(written)
    }

    /// Sends all buffered bytes now.
    ///
    /// # Errors
    /// Returns the error of `send(2)`.
    pub fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.poll_write_locked(cx, WaitAs::Latest, || self.flush_locked());
        // The flush ends here even if the stream leaves meanwhile.
        flushed.map(|flushed| flushed.unwrap_or(Ok(())))
    }

    /// Like [`poll_flush`](Self::poll_flush), but on the thread that turns the ring it
    /// waits for the next turn, so that the bytes of many streams go out together. The
    /// caller must return to whatever turns the ring, without blocking.
    ///
    /// # Errors
    /// Returns the error of `send(2)`.
    pub fn poll_flush_in_turn(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flush = || match self.ring.is_owned_by_current_thread()
            && self.visit(|table| table.is_queued(self.key))
        {
            true => SendWait::Wait { for_room: false },
            false => self.flush_locked(),
        };
        let flushed = self.poll_write_locked(cx, WaitAs::Latest, flush);
        flushed.map(|flushed| flushed.unwrap_or(Ok(()))) // as above
    }

    /// Shuts down the sending direction, after sending all buffered bytes. If a send is
    /// in flight, `shutdown(2)` is called when it has ended.
    ///
    /// # Errors
    /// Returns the error of `send(2)` or `shutdown(2)`.
    pub fn shutdown_write(&self) -> io::Result<()> {
        let _writer = self.writer.lock();
        let flushed = match self.flush_locked() {
            SendWait::Ready(Ok(flushed)) => flushed,
            _ => Ok(()),
        };
        if !self.visit(|table| table.half_close(self.key)) {
            return flushed;
        }
        // SAFETY: the socket is open.
        match unsafe { libc::shutdown(self.fd, libc::SHUT_WR) } {
            0 => flushed,
            _ => flushed.and(Err(io::Error::last_os_error())),
        }
    }

    /// Takes the error of buffered bytes that could not be sent.
    pub fn take_error(&self) -> Option<io::Error> {
        let error = self.visit(|table| table.take_send_error(self.key));
        error.map(io::Error::from_raw_os_error)
    }

    /// Calls `step` under the write lock, and waits if it returns `Wait`.
    pub(super) fn poll_write_locked<T>(
        &self,
        cx: &mut Context<'_>,
        waiter: WaitAs<'_>,
        mut step: impl FnMut() -> SendWait<T>,
    ) -> Poll<OnRing<T>> {
        let mut waker = None;
        loop {
            let mut deferred = Deferred::default();
            let writer = self.writer.lock();
            let waits = match step() {
                SendWait::Ready(result) => Some(Poll::Ready(result)),
                SendWait::Wait { .. } if waker.is_none() => None,
                SendWait::Wait { for_room } => {
                    let waits = self.visit(|table| {
                        let waker = &mut waker;
                        table.wait_to_send(self.key, for_room, waiter, waker, &mut deferred)
                    });
                    match waits {
                        SendStep::Waits => Some(Poll::Pending),
                        SendStep::Retry => None,
                        SendStep::Leaving => Some(Poll::Ready(Err(LeftRing))),
                        SendStep::Shut => Some(Poll::Ready(Ok(Err(shutdown_error())))),
                    }
                }
            };
            drop(writer);
            deferred.finish();
            if let Some(answer) = waits {
                if answer.is_pending() {
                    wait::pending_on(WaitKind::RingSend, self);
                }
                return answer;
            }
            waker.get_or_insert_with(|| cx.waker().clone());
        }
    }

    fn write_locked(&self, parts: &[IoSlice<'_>]) -> SendWait<usize> {
        // The others are not looked at: a caller who has many comes again with what is left.
        let parts = &parts[..parts.len().min(MAX_PARTS)];
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let mut by_owner = self.ring.is_owned_by_current_thread();
        loop {
            match self.visit(|table| table.write(self.key, parts, by_owner)) {
                Err(LeftRing) => return SendWait::Ready(Err(LeftRing)),
                Ok(WriteStep::Buffered) => return SendWait::Ready(Ok(Ok(len))),
                Ok(WriteStep::Failed(error)) => {
                    return SendWait::Ready(Ok(Err(io::Error::from_raw_os_error(error))));
                }
                Ok(WriteStep::Busy) => return SendWait::Wait { for_room: false },
                Ok(WriteStep::Direct(pending)) => return self.send_direct(pending, parts),
                Ok(WriteStep::Measure) => {
                    let room = self.room();
                    by_owner = self.visit(|table| table.set_credit(self.key, room, len));
                }
            }
        }
    }

    pub(super) fn flush_locked(&self) -> SendWait<()> {
        match self.visit(|table| table.flush(self.key)) {
            FlushStep::Done => SendWait::Ready(Ok(Ok(()))),
            FlushStep::Failed(error) => {
                SendWait::Ready(Ok(Err(io::Error::from_raw_os_error(error))))
            }
            FlushStep::Busy => SendWait::Wait { for_room: false },
            FlushStep::Direct(pending) => match self.send_direct(pending, &[]) {
                SendWait::Ready(sent) => SendWait::Ready(sent.map(|sent| sent.map(drop))),
                SendWait::Wait { for_room } => SendWait::Wait { for_room },
            },
        }
    }

    /// Sends bytes that were pending, then `parts`, without waiting.
    fn send_direct(&self, pending: Vec<u8>, parts: &[IoSlice<'_>]) -> SendWait<usize> {
        let sent = match pending.is_empty() {
            true => self.send_parts(parts),
            false => {
                let mut all = Vec::with_capacity(1 + parts.len());
                all.push(IoSlice::new(&pending));
                all.extend(parts.iter().map(|part| IoSlice::new(part)));
                self.send_parts(&all)
            }
        };
        let sent = match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return SendWait::Ready(Ok(Err(error))),
            Ok(sent) => sent,
        };
        let has_more = parts.iter().any(|part| !part.is_empty());
        match sent.checked_sub(pending.len()) {
            // There should have been room: let the kernel wait for it.
            None => {
                self.visit(|table| table.resume_pending(self.key, pending, sent));
                SendWait::Wait { for_room: false }
            }
            Some(0) if has_more => {
                self.recycle(pending);
                SendWait::Wait { for_room: true }
            }
            Some(count) => {
                self.recycle(pending);
                SendWait::Ready(Ok(Ok(count)))
            }
        }
    }

    fn recycle(&self, pending: Vec<u8>) {
        if pending.capacity() > 0 {
            self.visit(|table| table.recycle(pending));
        }
    }

    /// Sends without waiting.
    fn send_parts(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        if let [part] = parts {
            // SAFETY: the part is the caller's, and is only read.
            let sent = unsafe { libc::send(self.fd, part.as_ptr().cast(), part.len(), flags) };
            return usize::try_from(sent).map_err(|_| io::Error::last_os_error());
        }
        let parts = &parts[..parts.len().min(MAX_PARTS)];
        // SAFETY: numbers and pointers, for which zero is a value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        // An `IoSlice` is an `iovec`, as std promises.
        message.msg_iov = parts.as_ptr().cast_mut().cast();
        message.msg_iovlen = parts.len() as _;
        // SAFETY: the parts are the caller's, and are only read.
        let sent = unsafe { libc::sendmsg(self.fd, &message, flags) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Returns half of the room in the socket's send buffer, to be on the safe side.
    fn room(&self) -> u32 {
        const SO_MEMINFO: libc::c_int = 55; // not in the `libc` crate for every target
        const SNDBUF: usize = 3;
        const WMEM_ALLOC: usize = 2;
        const WMEM_QUEUED: usize = 5;
        let mut info = [0_u32; 16];
        let mut len = size_of_val(&info) as libc::socklen_t;
        // SAFETY: the array has the length that is passed.
        let answer = unsafe {
            let info = info.as_mut_ptr().cast();
            libc::getsockopt(self.fd, libc::SOL_SOCKET, SO_MEMINFO, info, &mut len)
        };
        match answer {
            0 => info[SNDBUF].saturating_sub(info[WMEM_ALLOC].max(info[WMEM_QUEUED])) / 2,
            _ => 0,
        }
    }
}

impl RingStream {
    /// The ring that serves the stream.
    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    pub(super) fn key(&self) -> SocketKey {
        self.key
    }

    /// Calls `act` with the table. The caller does deferred work after it has released
    /// its locks.
    #[inline(always)]
    pub(super) fn visit<R>(&self, act: impl FnOnce(&mut SocketTable) -> R) -> R {
        self.ring.visit_sockets(|state| act(&mut state.sockets))
    }

    /// Calls `act` with the table, and does deferred work, for a caller that holds no
    /// other lock.
    pub(super) fn with_table<R>(
        &self,
        act: impl FnOnce(&mut SocketTable, &mut Deferred) -> R,
    ) -> R {
        let mut deferred = Deferred::default();
        let result = self.visit(|table| act(table, &mut deferred));
        deferred.finish();
        result
    }
}

impl Drop for RingStream {
    fn drop(&mut self) {
        drop(self.flush_locked()); // an error can be returned to nobody
        self.with_table(|table, deferred| table.close(self.key, deferred));
        self.ring.submit_if_unowned();
    }
}

impl fmt::Debug for RingStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingStream").field("fd", &self.fd).finish()
    }
}
