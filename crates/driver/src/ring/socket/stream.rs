//! A connection on a ring, as a task has it.
//!
//! ```text
//!   poll_read ── read lock ──► prefix ──► what the ring has brought ──► recv(2)
//!   poll_write ─ write lock ─► taken over, or ──► send(2), pending bytes first
//! ```
//!
//! X1. Whoever holds the read lock is the only one to take bytes; whoever holds the
//!     write lock is the only one to begin a send. So bytes keep their order. The
//!     ring's lock comes after these two, and nothing foreign runs under any.
//! X2. A stream is on its ring until it leaves, and never comes back: see
//!     [`leave`](RingStream::leave).

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
use super::table::{RecvStep, SendStep, StreamDirection, Table};
use super::waiters::{PollWithNode, WaitAs};
use crate::ring::Ring;
use crate::ring::user_data::SocketKey;
use crate::shutdown_error;

/// A connection whose bytes come and go by way of a [`Ring`].
///
/// Made by [`Ring::open_stream`]. Dropping it sends what was taken over, and closes
/// the socket, unless others hold it too.
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
    /// Nothing is left to be read here: of a stream that has left.
    is_read_out: AtomicBool,
    /// Nothing is left to be sent here: of a stream that has left.
    is_sent_out: AtomicBool,
}

/// The stream has left its ring, or is about to: go on by readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftRing;

/// The answer of an operation that the stream may leave meanwhile.
pub type OnRing<T> = Result<io::Result<T>, LeftRing>;

/// What a stream that has left its ring still has for a reader.
#[derive(Debug)]
pub enum DrainStep {
    /// The number of bytes that were copied.
    Bytes(usize),
    /// An error that the ring has received, which comes after the bytes.
    Error(io::Error),
    /// The kernel has not ended the last receive: it may bring more.
    Pending,
    /// Nothing: the socket has everything else.
    Done,
}

/// What one look under the read lock came to.
enum ReadStep {
    Ready(OnRing<usize>),
    NeedsWaker,
    Pending,
}

/// What one try under the write lock came to.
pub(super) enum SendWait<T> {
    Ready(OnRing<T>),
    /// Not before what the kernel works on is out or, with `for_room`, the socket
    /// has room.
    Wait {
        for_room: bool,
    },
}

impl Ring {
    /// Takes a connected socket in, which has to be in non-blocking mode. Until it
    /// [leaves](RingStream::leave) it is read and written here only.
    ///
    /// # Errors
    /// [`shutdown_error()`] after [`cancel_all`](Ring::cancel_all), and of kind
    /// [`Unsupported`](io::ErrorKind::Unsupported) if the kernel cannot pick
    /// buffers, which it can since 5.19.
    pub fn open_stream<S>(self: &Arc<Self>, socket: Arc<S>) -> io::Result<RingStream>
    where
        S: AsFd + Send + Sync + 'static,
    {
        let fd = socket.as_fd().as_raw_fd();
        let key = self.visit_sockets(|core| {
            if core.sockets.is_shut() {
                return Err(shutdown_error());
            }
            self.provide_buffers(core)?;
            Ok(core.sockets.insert(fd, socket))
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
    /// Says that the socket may have something to read already, so that the first
    /// read tries.
    pub fn expect_bytes(&self) {
        self.visit(|table| table.expect_bytes(self.key));
    }

    /// Reads what has come; waits if there is nothing. Of several tasks that wait
    /// with a `poll` function the one that called last is woken.
    ///
    /// # Errors
    /// The error of `recv(2)`, and [`shutdown_error()`] if the ring was shut.
    ///
    /// # Cancel safety
    /// Bytes that come when nobody waits are kept for the next call.
    pub fn poll_read(
        &self,
        cx: &mut Context<'_>,
        room: &mut [MaybeUninit<u8>],
    ) -> Poll<OnRing<usize>> {
        self.poll_read_as(cx, WaitAs::Latest, room)
    }

    /// Reads what has come; waits if there is nothing, beside all others who do.
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

    /// Copies what has come without taking it; waits if there is nothing.
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

    /// Copies what has come without taking it; waits if there is nothing, beside
    /// all others who do.
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

    /// Takes `step` under the read lock, and does what it leaves after it.
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

    /// Gathers in the prefix what has come, as far as there is room for it, and
    /// copies it.
    fn peek_locked(
        &self,
        prefix: &mut Prefix,
        room: &mut [MaybeUninit<u8>],
        waiter: WaitAs<'_>,
        waker: &mut Option<Waker>,
        deferred: &mut Deferred,
    ) -> ReadStep {
        while prefix.len() < room.len() {
            // What is there already is not worth a wait for more.
            let mut no_waker = None;
            let waker = match prefix.is_empty() {
                true => &mut *waker,
                false => &mut no_waker,
            };
            let spare = prefix.spare(READ_AHEAD);
            let step = self.visit(|table| table.recv(self.key, spare, waiter, waker, deferred));
            let gathered = match step {
                RecvStep::Bytes(count) => {
                    // SAFETY: the table has copied so many bytes.
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

    /// Reads from the socket itself into `room`, and `ahead` into the prefix, which
    /// is empty or follows no room. Returns how much of it the caller has got: of
    /// `room`, or of the prefix if there is no room.
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
            // The end stays, and something follows an error: the end at least.
            Err(_) | Ok(0) => (0, InKernel::HangUp),
            Ok(count) if announced == InKernel::HangUp => (*count, InKernel::HangUp),
            Ok(count) if is_full(*count) => (*count, InKernel::Bytes),
            Ok(count) => (*count, InKernel::Nothing),
        };
        if ahead {
            // SAFETY: the kernel has filled the room first, then so many of these.
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

    /// Reads from the socket into one part after the other, without waiting.
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

    /// How many bytes have come that nobody has read.
    pub fn unread(&self) -> usize {
        let prefix = self.reader.lock();
        prefix.len() + self.visit(|table| table.unread(self.key))
    }
}

/// Writing.
impl RingStream {
    /// Sends some bytes, of several parts; waits if there is no room. Of several
    /// tasks that wait with a `poll` function the one that called last is woken.
    ///
    /// A few bytes, written by the thread that turns the ring, are taken over: they
    /// go out with its next turn, or a [flush](Self::poll_flush), and there is room
    /// for them. If the connection fails before that, the next call returns the error.
    ///
    /// # Errors
    /// The error of `send(2)`, also for earlier bytes, and [`shutdown_error()`] if the
    /// ring was shut and there is no room.
    ///
    /// # Cancel safety
    /// A call that has not answered has taken nothing.
    pub fn poll_write(&self, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<OnRing<usize>> {
        let spent = ready!(coop::poll_proceed(cx));
        let write = || self.write_locked(parts);
        let written = ready!(self.poll_write_locked(cx, WaitAs::Latest, write));
        spent.made_progress();
        Poll::Ready(written)
    }

    /// Hands everything that was taken over to the kernel, at once.
    ///
    /// # Errors
    /// The error of `send(2)`.
    pub fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.poll_write_locked(cx, WaitAs::Latest, || self.flush_locked());
        // It is done here even if the stream leaves meanwhile.
        flushed.map(|flushed| flushed.unwrap_or(Ok(())))
    }

    /// Like [`poll_flush`](Self::poll_flush), but on the thread that turns the ring it
    /// waits for the next turn, so that the bytes of many streams go out together. The
    /// caller must return to whatever turns the ring, without blocking.
    ///
    /// # Errors
    /// The error of `send(2)`.
    pub fn poll_flush_in_turn(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flush = || match self.ring.is_mine() && self.visit(|table| table.is_queued(self.key)) {
            true => SendWait::Wait { for_room: false },
            false => self.flush_locked(),
        };
        let flushed = self.poll_write_locked(cx, WaitAs::Latest, flush);
        flushed.map(|flushed| flushed.unwrap_or(Ok(()))) // as above
    }

    /// Ends the direction that is written, after everything that was taken over, which
    /// is sent at once. If the kernel still works on a send, the end follows that, later.
    ///
    /// # Errors
    /// The error of `send(2)` or of `shutdown(2)`.
    pub fn end(&self) -> io::Result<()> {
        let _writer = self.writer.lock();
        let flushed = match self.flush_locked() {
            SendWait::Ready(Ok(flushed)) => flushed,
            _ => Ok(()),
        };
        if !self.visit(|table| table.end(self.key)) {
            return flushed;
        }
        // SAFETY: the socket is open.
        match unsafe { libc::shutdown(self.fd, libc::SHUT_WR) } {
            0 => flushed,
            _ => flushed.and(Err(io::Error::last_os_error())),
        }
    }

    /// Takes the error of earlier bytes, if they could not be sent.
    pub fn take_error(&self) -> Option<io::Error> {
        let error = self.visit(|table| table.take_send_error(self.key));
        error.map(io::Error::from_raw_os_error)
    }

    /// Takes `step` under the write lock, and waits as it says.
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
                        SendStep::Waits => {
                            wait::pending_on(WaitKind::RingSend, self);
                            Some(Poll::Pending)
                        }
                        SendStep::Retry => None,
                        SendStep::Leaving => Some(Poll::Ready(Err(LeftRing))),
                        SendStep::Shut => Some(Poll::Ready(Ok(Err(shutdown_error())))),
                    }
                }
            };
            drop(writer);
            deferred.finish();
            if let Some(answer) = waits {
                return answer;
            }
            waker.get_or_insert_with(|| cx.waker().clone());
        }
    }

    fn write_locked(&self, parts: &[IoSlice<'_>]) -> SendWait<usize> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let mut by_owner = self.ring.is_mine();
        loop {
            match self.visit(|table| table.write(self.key, parts, by_owner)) {
                Err(LeftRing) => return SendWait::Ready(Err(LeftRing)),
                Ok(WriteStep::Taken) => return SendWait::Ready(Ok(Ok(len))),
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
            // There should have been room: the kernel waits for it.
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
        /// What the kernel takes at once.
        const MAX_PARTS: usize = 1024;
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

    /// How much room the socket has for what is sent: half of it, to be sure.
    fn room(&self) -> u32 {
        const SO_MEMINFO: libc::c_int = 55; // not in the `libc` crate for every target
        const SNDBUF: usize = 3;
        const WMEM_ALLOC: usize = 2;
        const WMEM_QUEUED: usize = 5;
        let mut info = [0_u32; 16];
        let mut len = size_of_val(&info) as libc::socklen_t;
        // SAFETY: as much memory as is said.
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

    /// Does something with the table, whose rest the caller does after its locks.
    #[inline(always)]
    pub(super) fn visit<R>(&self, act: impl FnOnce(&mut Table) -> R) -> R {
        self.ring.visit_sockets(|core| act(&mut core.sockets))
    }

    /// Does something with the table, for a caller that holds no other lock.
    pub(super) fn with_table<R>(&self, act: impl FnOnce(&mut Table, &mut Deferred) -> R) -> R {
        let mut deferred = Deferred::default();
        let result = self.visit(|table| act(table, &mut deferred));
        deferred.finish();
        result
    }
}

impl Drop for RingStream {
    fn drop(&mut self) {
        drop(self.flush_locked()); // nobody is left to hear of an error
        self.with_table(|table, deferred| table.close(self.key, deferred));
        self.ring.submit_if_unowned();
    }
}

impl fmt::Debug for RingStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingStream").field("fd", &self.fd).finish()
    }
}
