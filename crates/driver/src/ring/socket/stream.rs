//! A connection on a ring, as a task has it.

use std::fmt;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker, ready};

use blitzen_util::coop;
use blitzen_util::shim::Mutex;
use blitzen_util::shim::atomic::AtomicU32;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};

use super::table::{Aftermath, Found, Key, Looked, Table, Told, Way};
use crate::gone;
use crate::ring::Ring;

/// So many bytes are read beyond what was asked for, if that was less.
const BEYOND: usize = if cfg!(blitzen_loom) { 4 } else { 16 * 1024 };
/// Room below this is not worth a system call for what may still be there.
const WORTH_MORE: usize = 512;

/// Whether something waits to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffered {
    /// Yes.
    Yes,
    /// Not yet; the task will be woken.
    Coming,
    /// Nothing has been asked of the kernel: look at the socket itself.
    Unknown,
}

/// A connection whose bytes come and go by way of a [`Ring`].
///
/// Made by [`Ring::open_stream`]. Dropping it closes the socket, once what was
/// taken over to be sent is sent, unless others hold it too.
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
///         Poll::Ready(count) => break count?,
///         Poll::Pending => ring.turn(None)?, // the owner's part
///     };
/// };
/// assert_eq!(count, 5);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Stream {
    ring: Arc<Ring>,
    key: Key,
    fd: RawFd,
    /// The last read has left nothing: the next one will have to wait. A guess,
    /// that may be wrong.
    is_drained: AtomicBool,
    /// Held by whoever reads from the socket itself.
    direct: Mutex<()>,
    /// How often somebody has.
    direct_reads: AtomicU32,
}

/// How often the socket itself had been read from before a look at the table.
#[derive(Clone, Copy)]
struct Before(u32);

impl Ring {
    /// Takes a connected socket in, which has to be in non-blocking mode. From
    /// now on it is read and written here only.
    ///
    /// # Errors
    /// [`gone`] after [`cancel_all`](Ring::cancel_all), and of kind
    /// [`Unsupported`](io::ErrorKind::Unsupported) if the kernel cannot pick
    /// buffers, which it can since 5.19.
    pub fn open_stream<S>(self: &Arc<Self>, socket: Arc<S>) -> io::Result<Stream>
    where
        S: AsFd + Send + Sync + 'static,
    {
        let fd = socket.as_fd().as_raw_fd();
        let key = self.with_sockets(|core, _| {
            if core.sockets.is_shut() {
                return Err(gone());
            }
            self.provide_buffers(core)?;
            Ok(core.sockets.add_stream(fd, socket))
        })?;
        let ring = self.clone();
        Ok(Stream {
            ring,
            key,
            fd,
            is_drained: AtomicBool::new(false),
            direct: Mutex::new(()),
            direct_reads: AtomicU32::new(0),
        })
    }
}

impl Stream {
    /// The socket's home.
    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// Says that the socket may have something to read already, so that the
    /// first read tries.
    pub fn expect(&self) {
        self.with_table(|table, _| table.expect(self.key));
    }

    /// Reads what has come; waits if there is nothing. Of several tasks that
    /// wait here the one that called last is woken.
    ///
    /// # Errors
    /// What the system says, and [`gone`] if the ring was shut.
    ///
    /// # Cancel safety
    /// Bytes that come when nobody waits are kept for the next call.
    pub fn poll_read(
        &self,
        cx: &mut Context<'_>,
        room: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        self.poll_look(cx, room, false)
    }

    /// As [`poll_read`](Self::poll_read), but looks at the socket first, if the
    /// system was not asked to bring anything.
    ///
    /// # Errors
    /// As for [`poll_read`](Self::poll_read).
    pub fn poll_try_read(
        &self,
        cx: &mut Context<'_>,
        room: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        self.poll_look(cx, room, true)
    }

    fn poll_look(
        &self,
        cx: &mut Context<'_>,
        room: &mut [MaybeUninit<u8>],
        eager: bool,
    ) -> Poll<io::Result<usize>> {
        let spent = ready!(coop::poll_proceed(cx));
        let mut eager = eager;
        let mut waker = None;
        if self.is_drained.load(Relaxed) {
            waker = Some(cx.waker().clone()); // foreign code: before the lock
        }
        let result = loop {
            let before = self.before();
            let found = match self.look_or_wait(room, &mut waker, eager) {
                Looked::Waits => {
                    self.is_drained.store(false, Relaxed);
                    return Poll::Pending;
                }
                Looked::Shut => return Poll::Ready(Err(gone())),
                Looked::Found(found) => found,
            };
            match self.take_found(found, room, before) {
                None => continue,
                Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                Some(result) => break result,
            }
            // What comes from now on is for the ring to bring.
            eager = false;
            waker.get_or_insert_with(|| cx.waker().clone()); // as above
        };
        spent.made_progress();
        Poll::Ready(result)
    }

    /// Looks for something to read in one visit, and waits with the waker, if
    /// there is one; not if the socket itself is to be looked at first.
    #[inline(always)]
    fn look_or_wait(
        &self,
        room: &mut [MaybeUninit<u8>],
        waker: &mut Option<Waker>,
        eager: bool,
    ) -> Looked {
        if room.is_empty() {
            return Looked::Found(Found::Bytes(0, None));
        }
        match eager {
            true => Looked::Found(self.look_everywhere(room)),
            false => {
                self.with_table(|table, after| table.read_or_wait(self.key, room, waker, after))
            }
        }
    }

    /// Looks for something to read in the table, and in the socket if nothing is
    /// to be brought from there: in one visit, or what is armed meanwhile could
    /// bring what comes first.
    fn look_everywhere(&self, room: &mut [MaybeUninit<u8>]) -> Found {
        self.with_table(|table, _| match table.read(self.key, room) {
            Found::Unarmed => self.receive(room, 0).into(),
            found => found,
        })
    }

    /// Reads what has come, or what the system has, if it was not asked to
    /// bring it.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is nothing, and what
    /// the system says.
    pub fn try_read(&self, room: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        if room.is_empty() {
            return Ok(0);
        }
        loop {
            let before = self.before();
            let found = self.look_everywhere(room);
            if let Some(read) = self.take_found(found, room, before) {
                return read;
            }
        }
    }

    /// What a look has found, or what the system has; `None` if somebody else has
    /// read from the socket since `before` that look, and it has to be repeated.
    #[inline(always)]
    fn take_found(
        &self,
        found: Found,
        room: &mut [MaybeUninit<u8>],
        before: Before,
    ) -> Option<io::Result<usize>> {
        Some(match found {
            Found::Bytes(count, more) => {
                let is_drained = count < room.len();
                if self.is_drained.load(Relaxed) != is_drained {
                    self.is_drained.store(is_drained, Relaxed);
                }
                let rest = &mut room[count..];
                match more.filter(|_| rest.len() >= WORTH_MORE) {
                    Some(told) => {
                        let rest = |after: &mut _| self.read_rest(rest, count, told, after);
                        Ok(count + self.alone(before, rest).unwrap_or(0))
                    }
                    None => Ok(count),
                }
            }
            Found::End => Ok(0),
            Found::Error(error) => Err(io::Error::from_raw_os_error(error)),
            Found::Perhaps { told, much } => self.alone(before, |after| match much {
                true => self.receive_told(room, 0, told, after),
                false => {
                    let read = self.receive(room, 0);
                    self.learn(&read, room.len(), 0, told);
                    read
                }
            })?,
            Found::Unarmed | Found::Nothing => Err(io::ErrorKind::WouldBlock.into()),
        })
    }

    /// Before a look at the table.
    fn before(&self) -> Before {
        // Acquire, met by the Release in `alone`: the look finds what that read has
        // kept.
        Before(self.direct_reads.load(Acquire))
    }

    /// Reads from the socket itself, one at a time: not if somebody has done so
    /// since `before`, who may have kept something that comes first.
    fn alone<R>(&self, before: Before, read: impl FnOnce(&mut Aftermath) -> R) -> Option<R> {
        let mut after = Aftermath::default();
        let alone = self.direct.lock();
        // Relaxed: it changes under this lock only.
        if self.direct_reads.load(Relaxed) != before.0 {
            return None;
        }
        let result = read(&mut after);
        // Release, met by the Acquire in `before`.
        self.direct_reads.store(before.0.wrapping_add(1), Release);
        drop(alone);
        after.finish();
        Some(result)
    }

    /// Reads what the system has beyond the `count` bytes that had come.
    fn read_rest(
        &self,
        room: &mut [MaybeUninit<u8>],
        count: usize,
        told: Told,
        after: &mut Aftermath,
    ) -> usize {
        match self.receive_told(room, count, told, after) {
            Ok(count) => count,
            Err(error) => {
                if error.kind() != io::ErrorKind::WouldBlock
                    && let Some(number) = error.raw_os_error()
                {
                    // The system says it once; it is for the next read.
                    self.with_table(|table, _| table.note_error(self.key, number));
                }
                0
            }
        }
    }

    /// Reads from the socket itself what the system has, as it has said; what
    /// does not fit into a small room is kept for the next reads.
    fn receive_told(
        &self,
        room: &mut [MaybeUninit<u8>],
        before: usize,
        told: Told,
        after: &mut Aftermath,
    ) -> io::Result<usize> {
        if room.len() >= BEYOND {
            let read = self.receive(room, 0);
            self.learn(&read, room.len(), before, told);
            return read;
        }
        let mut beyond = [const { MaybeUninit::uninit() }; BEYOND];
        let read = self.receive_parts([room, &mut beyond]);
        if let Ok(count) = read
            && let Some(kept) = count.checked_sub(room.len())
            && kept > 0
        {
            // SAFETY: the system has filled so many of them, after the room.
            let kept = unsafe { beyond[..kept].assume_init_ref() };
            self.ring
                .visit_sockets(|core| core.sockets.keep(self.key, kept, after));
        }
        self.learn(&read, room.len() + BEYOND, before, told);
        read.map(|count| count.min(room.len()))
    }

    /// As [`receive`](Self::receive), into one room after the other.
    fn receive_parts(&self, rooms: [&mut [MaybeUninit<u8>]; 2]) -> io::Result<usize> {
        let mut parts = rooms.map(|room| libc::iovec {
            iov_base: room.as_mut_ptr().cast(),
            iov_len: room.len(),
        });
        // SAFETY: a structure of numbers and pointers, for which zero is a value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = parts.len() as _;
        // SAFETY: the rooms are the caller's.
        let read = unsafe { libc::recvmsg(self.fd, &mut message, libc::MSG_DONTWAIT) };
        usize::try_from(read).map_err(|_| io::Error::last_os_error())
    }

    /// Tells the table what a read of the socket itself has shown.
    fn learn(&self, read: &io::Result<usize>, room: usize, before: usize, told: Told) {
        match read {
            Ok(0) => {} // the end is there for everybody who asks
            Ok(count) if *count == room => {}
            Ok(count) => self.with_table(|table, _| table.calm(self.key, *count, before, told)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.with_table(|table, _| table.calm(self.key, 0, before, told));
            }
            Err(_) => {} // something follows an error: the end, at least
        }
    }

    /// Reads from the socket itself. Nobody else does, so bytes come in order.
    fn receive(&self, room: &mut [MaybeUninit<u8>], flags: i32) -> io::Result<usize> {
        let flags = flags | libc::MSG_DONTWAIT;
        // SAFETY: the room is the caller's.
        let read = unsafe { libc::recv(self.fd, room.as_mut_ptr().cast(), room.len(), flags) };
        usize::try_from(read).map_err(|_| io::Error::last_os_error())
    }

    /// Reads without taking anything; waits if there is nothing.
    ///
    /// # Errors
    /// As for [`poll_read`](Self::poll_read).
    pub fn poll_peek(
        &self,
        cx: &mut Context<'_>,
        room: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        let spent = ready!(coop::poll_proceed(cx));
        loop {
            let before = self.before();
            // In one visit, as above.
            let found = self.with_table(|table, _| match table.peek(self.key, room) {
                Found::Unarmed => self.receive(room, libc::MSG_PEEK).into(),
                found => found,
            });
            let peeked = match found {
                Found::Bytes(count, _) => Some(Ok(count)),
                Found::End => Some(Ok(0)),
                Found::Error(error) => Some(Err(io::Error::from_raw_os_error(error))),
                Found::Perhaps { told, .. } => self.alone(before, |_| {
                    let peeked = self.receive(room, libc::MSG_PEEK);
                    if peeked.is_err() {
                        self.learn(&peeked, room.len(), 0, told);
                    }
                    peeked
                }),
                Found::Unarmed | Found::Nothing => Some(Err(io::ErrorKind::WouldBlock.into())),
            };
            match peeked {
                None => continue,
                Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                Some(result) => {
                    spent.made_progress();
                    return Poll::Ready(result);
                }
            }
            let waker = cx.waker().clone(); // foreign code: before the lock
            let waits = self.ring.with_sockets(|core, after| {
                if core.sockets.is_shut() {
                    return Err(gone());
                }
                Ok(core.sockets.wait_to_read(self.key, waker, after))
            });
            match waits {
                Ok(true) => return Poll::Pending,
                Ok(false) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Whether something waits to be read, an end or an error included. Every
    /// task that asks is woken.
    pub fn poll_buffered(&self, cx: &mut Context<'_>) -> Buffered {
        let waker = cx.waker().clone(); // foreign code: before the lock
        match self.with_table(|table, after| table.watch(self.key, waker, after)) {
            Some(true) => Buffered::Yes,
            Some(false) => Buffered::Coming,
            None => Buffered::Unknown,
        }
    }

    /// How many bytes have come that nobody has read.
    pub fn unread(&self) -> usize {
        self.with_table(|table, _| table.unread(self.key))
    }

    /// Sends some bytes, of several parts; waits if there is no room. Of
    /// several tasks that wait here the one that called last is woken.
    ///
    /// A few bytes, written by the thread that turns the ring, are taken over:
    /// they go out with its next turn, and there is room for them. Should the
    /// connection have failed by then, the next call says so.
    ///
    /// # Errors
    /// What the system says, also of earlier bytes, and [`gone`] if the ring
    /// was shut and there is no room.
    ///
    /// # Cancel safety
    /// A call that has not answered has taken nothing.
    pub fn poll_write(
        &self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let spent = ready!(coop::poll_proceed(cx));
        loop {
            let room = match self.send(parts) {
                Ok(count) => {
                    spent.made_progress();
                    return Poll::Ready(Ok(count));
                }
                Err(Refused::Because(error)) => {
                    spent.made_progress();
                    return Poll::Ready(Err(error));
                }
                Err(Refused::NoRoom) => true,
                Err(Refused::Busy) => false,
            };
            let waker = cx.waker().clone(); // foreign code: before the lock
            let waits = self.ring.with_sockets(|core, after| {
                if core.sockets.is_shut() && room {
                    return Err(gone());
                }
                Ok(core.sockets.wait_to_write(self.key, waker, room, after))
            });
            match waits {
                Ok(true) => return Poll::Pending,
                Ok(false) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Sends some bytes, of several parts.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room, or
    /// something is under way; and what the system says, also of earlier bytes.
    pub fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.send(parts).map_err(Refused::into)
    }

    /// As [`try_write`](Self::try_write), telling one reason from another.
    ///
    /// # Errors
    /// Why nothing was sent.
    pub fn send(&self, parts: &[IoSlice<'_>]) -> Result<usize, Refused> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let owner = self.ring.is_mine();
        let (mut measured, mut pushed) = (false, false);
        loop {
            let may_measure = owner && !measured;
            match self.with_table(|table, _| table.write(self.key, parts, may_measure)) {
                Way::Taken => return Ok(len),
                Way::Failed(error) => {
                    return Err(Refused::Because(io::Error::from_raw_os_error(error)));
                }
                Way::Push if !pushed => {
                    self.ring.push_on();
                    pushed = true;
                }
                Way::Push | Way::Wait => return Err(Refused::Busy),
                Way::Measure => {
                    let room = self.room();
                    measured = !self.with_table(|table, _| table.credit(self.key, room, len));
                }
                Way::Direct => {
                    return match self.send_now(parts) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                            Err(Refused::NoRoom)
                        }
                        result => result.map_err(Refused::Because),
                    };
                }
            }
        }
    }

    fn send_now(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        /// What the system takes at once.
        const MOST_PARTS: usize = 1024;
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        if let [part] = parts {
            // SAFETY: the part is the caller's, and is only read.
            let sent = unsafe { libc::send(self.fd, part.as_ptr().cast(), part.len(), flags) };
            return usize::try_from(sent).map_err(|_| io::Error::last_os_error());
        }
        let parts = &parts[..parts.len().min(MOST_PARTS)];
        // SAFETY: a structure of numbers and pointers, for which zero is a value.
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

    /// Whether somebody waits for the system to have room.
    pub fn lacks_room(&self) -> bool {
        self.with_table(|table, _| table.lacks_room(self.key))
    }

    /// Waits until everything that was taken over is out.
    ///
    /// # Errors
    /// What the system said of it.
    pub fn poll_sent(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if let Some(error) = self.with_table(|table, _| table.take_error(self.key)) {
                return Poll::Ready(Err(io::Error::from_raw_os_error(error)));
            }
            if self.with_table(|table, _| table.is_sent(self.key)) {
                return Poll::Ready(Ok(()));
            }
            let waker = cx.waker().clone(); // foreign code: before the lock
            if self.with_table(|table, after| table.wait_to_write(self.key, waker, false, after)) {
                return Poll::Pending;
            }
        }
    }

    /// Whether something is under way that holds up what follows, such as a
    /// buffer of somebody's. Every task that asks is woken at its end.
    pub fn watch_sent(&self, cx: &mut Context<'_>) -> bool {
        let waker = cx.waker().clone(); // foreign code: before the lock
        self.with_table(|table, after| table.watch_sent(self.key, waker, after))
    }

    /// The error of earlier bytes, if they could not be sent.
    pub fn take_error(&self) -> Option<io::Error> {
        let error = self.with_table(|table, _| table.take_error(self.key));
        error.map(io::Error::from_raw_os_error)
    }

    /// Ends the direction that is written, now or when everything that was
    /// taken over is out.
    ///
    /// # Errors
    /// What the system says.
    pub fn end(&self) -> io::Result<()> {
        if !self.with_table(|table, _| table.end(self.key)) {
            return Ok(());
        }
        // SAFETY: the socket is open.
        match unsafe { libc::shutdown(self.fd, libc::SHUT_WR) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Takes the socket out of the ring again: nothing is armed any more, and
    /// everything is sent. Blocks for the moment that this takes, which on
    /// another thread than that of a [`Pinned`](crate::ring::Flavour::Pinned)
    /// ring is until its owner looks up.
    ///
    /// # Errors
    /// The stream back: if there is something that nobody has read, which would
    /// be lost; and with an error, of kind
    /// [`ResourceBusy`](io::ErrorKind::ResourceBusy), if that owner does not
    /// turn its ring.
    pub fn take_out(self) -> Result<(), (Self, Option<io::Error>)> {
        match self.stand_aside() {
            Ok(0) => Ok(()),
            Ok(_) => Err((self, None)),
            Err(error) => Err((self, Some(error))),
        }
    }

    /// Lets others at the socket: nothing is armed any more and everything is
    /// sent, unless there is something that nobody has read. Returns how much.
    /// Blocks as [`take_out`](Self::take_out) does.
    ///
    /// # Errors
    /// As for [`take_out`](Self::take_out), if nobody turns the ring.
    pub fn stand_aside(&self) -> io::Result<usize> {
        self.ring.stand_aside(self.key, Table::unread)
    }

    /// Whether everything that was taken over is out, after a push.
    pub fn is_sent(&self) -> bool {
        let is_sent = || self.with_table(|table, _| table.is_sent(self.key));
        is_sent() || {
            self.ring.push_on();
            is_sent()
        }
    }

    /// Does something with the table that needs nothing of the kernel, or
    /// tells the owner if it does.
    #[inline(always)]
    fn with_table<R>(&self, visit: impl FnOnce(&mut Table, &mut Aftermath) -> R) -> R {
        self.ring
            .with_sockets(|core, after| visit(&mut core.sockets, after))
    }

    pub(super) fn key(&self) -> Key {
        self.key
    }

    pub(super) fn fd(&self) -> RawFd {
        self.fd
    }
}

/// What a read of the socket itself found.
impl From<io::Result<usize>> for Found {
    fn from(read: io::Result<usize>) -> Self {
        match read {
            Ok(0) => Found::End,
            Ok(count) => Found::Bytes(count, None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Found::Nothing,
            Err(error) => Found::Error(error.raw_os_error().unwrap_or(libc::EIO)),
        }
    }
}

/// Not in the `libc` crate for every target.
const SO_MEMINFO: libc::c_int = 55;

/// Why nothing was sent.
#[derive(Debug)]
pub enum Refused {
    /// The system has no room.
    NoRoom,
    /// What was taken over before goes first.
    Busy,
    /// The system says so.
    Because(io::Error),
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Because(error) => error,
            Refused::NoRoom | Refused::Busy => io::ErrorKind::WouldBlock.into(),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.with_table(|table, after| table.close(self.key, after));
        self.ring.push_on_if_unowned();
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("fd", &self.fd).finish()
    }
}
