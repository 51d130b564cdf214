//! The registration of a source with its poller: readiness, waits, attempts.
//!
//! The rules are those of cached readiness. The word remembers the events that the
//! kernel has reported. An operation is tried while the word says that it may succeed,
//! and only an operation that would have blocked clears the word.
//!
//! G1. The slot belongs to this registration from `new` to `drop`, and lives as
//!     long as the poller, which the registration keeps alive.

use std::future::poll_fn;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;
use mio::event::Source;

use crate::poller::BareDescriptor;
use crate::readiness::{Direction, ReadyEvent, SourceSlot, Unwatched, Wait};
use crate::{Interest, Poller, Ready, shutdown_error};

/// Whether the selector is edge-triggered. Then a transfer that is shorter than requested has
/// emptied or filled the source, and the next change will be reported: another attempt would
/// be wasted. With a level-triggered selector, operations are tried until they would block.
const REPORTS_CHANGES: bool = cfg!(all(
    not(blitzen_poll),
    any(
        target_os = "linux",
        target_os = "android",
        target_os = "macos",
        target_os = "ios",
        target_os = "tvos",
        target_os = "visionos",
        target_os = "watchos",
        target_os = "freebsd",
        target_os = "dragonfly",
        target_os = "netbsd",
        target_os = "openbsd",
    )
));

/// The registration of a source with a [`Poller`].
///
/// Created by [`Poller::register`]. Dropping it ends the registration with the poller,
/// but not with the system's selector; if the descriptor stays open, call
/// [`deregister`](Self::deregister) first. Events that arrive later are ignored.
///
/// ```
/// use std::io::Read;
/// use std::sync::Arc;
/// use blitzen_driver::{Interest, Poller, Ready};
///
/// let poller = Arc::new(Poller::new(16)?);
/// let (mut ours, theirs) = mio::net::UnixStream::pair()?;
/// let mut registration = poller.register(&mut ours, Interest::READABLE, Ready::EMPTY)?;
/// drop(theirs);
///
/// // Another thread turns the poller …
/// let turning = std::thread::spawn({
///     let poller = poller.clone();
///     move || poller.turn(None)
/// });
/// // … while this one waits.
/// let read = futures::executor::block_on(
///     registration.async_io(Interest::READABLE, || (&ours).read(&mut [0; 8])),
/// )?;
/// assert_eq!(read, 0); // the end
/// registration.deregister(&mut ours)?;
/// # turning.join().unwrap()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Registration {
    poller: Arc<Poller>,
    slot: NonNull<SourceSlot>,
    token: usize,
    unwatched: Unwatched,
    bare: BareDescriptor,
}

// SAFETY: a reference to a slot, which any thread may use, and a poller, which
// any thread may hold.
unsafe impl Send for Registration {}
// SAFETY: as above.
unsafe impl Sync for Registration {}

impl Registration {
    pub(crate) fn new(poller: Arc<Poller>, slot: NonNull<SourceSlot>, token: usize) -> Self {
        Self {
            poller,
            slot,
            token,
            unwatched: Unwatched::new(None),
            bare: BareDescriptor::none(),
        }
    }

    /// Notes the `descriptor` of the source. A selector that reports an event once is then asked
    /// again when an operation would have blocked, even if the source is none of mio's types.
    ///
    /// ```
    /// # use std::os::fd::AsRawFd;
    /// # use std::sync::Arc;
    /// # use blitzen_driver::{Interest, Poller, Ready};
    /// let poller = Arc::new(Poller::new(16)?);
    /// let (reader, _writer) = std::io::pipe()?;
    /// let fd = reader.as_raw_fd();
    /// let mut source = mio::unix::SourceFd(&fd);
    /// let mut registration = poller.register(&mut source, Interest::READABLE, Ready::EMPTY)?;
    /// registration.set_bare(fd, Interest::READABLE);
    /// # registration.deregister(&mut source)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(unix)]
    pub fn set_bare(&mut self, descriptor: i32, interest: Interest) {
        self.bare = BareDescriptor::new(descriptor, interest.to_mio());
    }

    /// Notes that the selector does not watch writability yet; the word says that the source
    /// is writable.
    pub(crate) fn watch_writes_later(&mut self, descriptor: i32) {
        self.unwatched = Unwatched::new(Some(descriptor));
    }

    #[inline(always)]
    fn slot(&self) -> &SourceSlot {
        // SAFETY: G1.
        unsafe { self.slot.as_ref() }
    }

    /// Returns the poller that the source belongs to.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// # use std::sync::Arc;
    /// # use std::task::{Context, Poll, Waker};
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Interest, Poller, Ready};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let (mut ours, mut theirs) = mio::net::UnixStream::pair()?;
    /// # let both = Interest::READABLE | Interest::WRITABLE;
    /// # let mut registration = poller.register(&mut ours, both, Ready::EMPTY)?;
    /// # let mut cx = Context::from_waker(Waker::noop());
    /// assert!(Arc::ptr_eq(registration.poller(), &poller));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn poller(&self) -> &Arc<Poller> {
        &self.poller
    }

    /// Removes the source from the system's selector. This does not end waits that are
    /// under way.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// # use std::sync::Arc;
    /// # use std::task::{Context, Poll, Waker};
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Interest, Poller, Ready};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let (mut ours, mut theirs) = mio::net::UnixStream::pair()?;
    /// # let both = Interest::READABLE | Interest::WRITABLE;
    /// # let mut registration = poller.register(&mut ours, both, Ready::EMPTY)?;
    /// # let mut cx = Context::from_waker(Waker::noop());
    /// registration.deregister(&mut ours)?;
    /// theirs.write_all(b"nobody is woken")?;
    /// assert_eq!(poller.turn(Some(Duration::ZERO))?, 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of `epoll_ctl(2)` or its like, for instance if the descriptor is
    /// closed already.
    pub fn deregister(&mut self, source: &mut impl Source) -> io::Result<()> {
        self.poller.deregister(source)
    }

    /// Returns the known readiness of the source for `interest`, without waiting.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// # use std::sync::Arc;
    /// # use std::task::{Context, Poll, Waker};
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Interest, Poller, Ready};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let (mut ours, mut theirs) = mio::net::UnixStream::pair()?;
    /// # let both = Interest::READABLE | Interest::WRITABLE;
    /// # let mut registration = poller.register(&mut ours, both, Ready::EMPTY)?;
    /// # let mut cx = Context::from_waker(Waker::noop());
    /// assert!(registration.ready_now(Interest::WRITABLE).ready().is_empty());
    /// poller.turn(None)?;
    /// assert!(registration.ready_now(Interest::WRITABLE).ready().is_writable());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[inline]
    pub fn ready_now(&self, interest: Interest) -> ReadyEvent {
        self.slot().now(Ready::for_interest(interest))
    }

    /// Waits until the source can be read. Of several tasks that wait with
    /// this function, the one that called last is woken.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// # use std::sync::Arc;
    /// # use std::task::{Context, Poll, Waker};
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Interest, Poller, Ready};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let (mut ours, mut theirs) = mio::net::UnixStream::pair()?;
    /// # let both = Interest::READABLE | Interest::WRITABLE;
    /// # let mut registration = poller.register(&mut ours, both, Ready::EMPTY)?;
    /// # let mut cx = Context::from_waker(Waker::noop());
    /// assert!(registration.poll_read_ready(&mut cx).is_pending());
    /// theirs.write_all(b"x")?;
    /// poller.turn(None)?;
    /// assert!(registration.poll_read_ready(&mut cx).is_ready());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`shutdown_error()`] if the poller has been shut down.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<ReadyEvent>> {
        self.poll_ready(cx, Direction::Read)
    }

    /// Waits until the source can be written to. Of several tasks that wait
    /// with this function, the one that called last is woken.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// # use std::sync::Arc;
    /// # use std::task::{Context, Poll, Waker};
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Interest, Poller, Ready};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let (mut ours, mut theirs) = mio::net::UnixStream::pair()?;
    /// # let both = Interest::READABLE | Interest::WRITABLE;
    /// # let mut registration = poller.register(&mut ours, both, Ready::EMPTY)?;
    /// # let mut cx = Context::from_waker(Waker::noop());
    /// poller.turn(None)?;
    /// assert!(registration.poll_write_ready(&mut cx).is_ready());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`shutdown_error()`] if the poller has been shut down.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<ReadyEvent>> {
        self.poll_ready(cx, Direction::Write)
    }

    #[inline]
    fn poll_ready(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
    ) -> Poll<io::Result<ReadyEvent>> {
        let spent = ready!(coop::poll_proceed(cx));
        let event = ready!(self.slot().poll(cx, direction));
        if event.is_shutdown() {
            return Poll::Ready(Err(shutdown_error()));
        }
        spent.made_progress();
        Poll::Ready(Ok(event))
    }

    /// Waits until the source is ready for any of `interest`. Any number of
    /// tasks may wait; all of them are woken.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// # use std::sync::Arc;
    /// # use std::task::{Context, Poll, Waker};
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Interest, Poller, Ready};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let (mut ours, mut theirs) = mio::net::UnixStream::pair()?;
    /// # let both = Interest::READABLE | Interest::WRITABLE;
    /// # let mut registration = poller.register(&mut ours, both, Ready::EMPTY)?;
    /// # let mut cx = Context::from_waker(Waker::noop());
    /// poller.turn(None)?;
    /// let event = futures::executor::block_on(registration.readiness(Interest::WRITABLE))?;
    /// assert!(event.ready().is_writable());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`shutdown_error()`] if the poller has been shut down.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait and takes nothing away.
    pub async fn readiness(&self, interest: Interest) -> io::Result<ReadyEvent> {
        // A wait spends no budget, but a task without budget must yield here too:
        // an operation that returned `Pending` for lack of budget is often followed
        // by a wait.
        poll_fn(|cx| coop::poll_proceed(cx).map(drop)).await;
        let event = Wait::new(self.slot(), interest).await;
        match event.is_shutdown() {
            true => Err(shutdown_error()),
            false => Ok(event),
        }
    }

    /// Clears the readiness of `event`, unless another event has come since. A
    /// closed direction stays closed.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// # use std::sync::Arc;
    /// # use std::task::{Context, Poll, Waker};
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Interest, Poller, Ready};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let (mut ours, mut theirs) = mio::net::UnixStream::pair()?;
    /// # let both = Interest::READABLE | Interest::WRITABLE;
    /// # let mut registration = poller.register(&mut ours, both, Ready::EMPTY)?;
    /// # let mut cx = Context::from_waker(Waker::noop());
    /// poller.turn(None)?;
    /// registration.clear_readiness(registration.ready_now(Interest::WRITABLE));
    /// assert!(registration.poll_write_ready(&mut cx).is_pending());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn clear_readiness(&self, event: ReadyEvent) {
        // If writability cannot be watched, it is not cleared, and the next write
        // tries again.
        let _ = self.clear(event.with_ready(event.ready() - Ready::CLOSED));
    }

    #[inline]
    fn clear(&self, event: ReadyEvent) -> io::Result<()> {
        // Before the word is cleared: an event that comes in between is not lost, since it
        // changes the word's tick.
        self.poller.watch_again(&self.bare, self.token)?;
        let watch = |descriptor| self.poller.watch_both(descriptor, self.token);
        self.unwatched.clear(self.slot(), event, watch)
    }

    /// Clears the readiness of `event`, since an operation would have blocked. This
    /// clears a closed direction too: a named pipe that has lost its last writer may have
    /// a new one.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// # use std::sync::Arc;
    /// # use std::task::{Context, Poll, Waker};
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Interest, Poller, Ready};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let (mut ours, mut theirs) = mio::net::UnixStream::pair()?;
    /// # let both = Interest::READABLE | Interest::WRITABLE;
    /// # let mut registration = poller.register(&mut ours, both, Ready::EMPTY)?;
    /// # let mut cx = Context::from_waker(Waker::noop());
    /// poller.turn(None)?;
    /// let event = registration.ready_now(Interest::WRITABLE);
    /// // … a write that would have blocked …
    /// registration.clear_refuted(event);
    /// assert!(registration.ready_now(Interest::WRITABLE).ready().is_empty());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn clear_refuted(&self, event: ReadyEvent) {
        let _ = self.clear(event); // as above
    }

    /// Tries an operation if the source may be ready for it. Returns
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it is not ready, or the operation
    /// would have blocked.
    ///
    /// On Windows the operation has to go through mio's `try_io` of the
    /// socket, so that the next event is asked for.
    ///
    /// Over poll(2), an error that is [`NotFound`](io::ErrorKind::NotFound) and nothing else counts as
    /// `WouldBlock`: it is what mio returns instead, after the other end was closed. An operation
    /// that may return it by itself has to return it inside an `Ok`.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// # use std::sync::Arc;
    /// # use std::task::{Context, Poll, Waker};
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Interest, Poller, Ready};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let (mut ours, mut theirs) = mio::net::UnixStream::pair()?;
    /// # let both = Interest::READABLE | Interest::WRITABLE;
    /// # let mut registration = poller.register(&mut ours, both, Ready::EMPTY)?;
    /// # let mut cx = Context::from_waker(Waker::noop());
    /// theirs.write_all(b"hello")?;
    /// poller.turn(None)?;
    /// let read = registration.try_io(Interest::READABLE, || ours.read(&mut [0; 8]))?;
    /// assert_eq!(read, 5);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of the operation.
    pub fn try_io<R>(
        &self,
        interest: Interest,
        operation: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        let event = self.ready_now(interest);
        if event.ready().is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match unless_blocked(operation()) {
            Some(result) => result,
            None => {
                self.clear(event)?;
                Err(io::ErrorKind::WouldBlock.into())
            }
        }
    }

    /// Tries an operation until it does not block, and waits for `interest` before each
    /// try.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// # use std::sync::Arc;
    /// # use std::task::{Context, Poll, Waker};
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Interest, Poller, Ready};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let (mut ours, mut theirs) = mio::net::UnixStream::pair()?;
    /// # let both = Interest::READABLE | Interest::WRITABLE;
    /// # let mut registration = poller.register(&mut ours, both, Ready::EMPTY)?;
    /// # let mut cx = Context::from_waker(Waker::noop());
    /// poller.turn(None)?;
    /// let write = registration.async_io(Interest::WRITABLE, || ours.write(b"hello"));
    /// assert_eq!(futures::executor::block_on(write)?, 5);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of the operation, or [`shutdown_error()`] if the poller has been
    /// shut down.
    ///
    /// # Cancel safety
    /// Dropping the future is harmless: an operation that has succeeded has ended the
    /// future with its result.
    pub async fn async_io<R>(
        &self,
        interest: Interest,
        mut operation: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            let event = self.readiness(interest).await?;
            let attempt = poll_fn(|cx| {
                let spent = ready!(coop::poll_proceed(cx));
                let result = unless_blocked(operation());
                if result.is_some() {
                    spent.made_progress();
                }
                Poll::Ready(result)
            });
            match attempt.await {
                Some(result) => return result,
                None => self.clear(event)?,
            }
        }
    }

    /// [`poll_read_ready`](Self::poll_read_ready) around an operation that
    /// reads, until it does not block.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// # use std::sync::Arc;
    /// # use std::task::{Context, Poll, Waker};
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Interest, Poller, Ready};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let (mut ours, mut theirs) = mio::net::UnixStream::pair()?;
    /// # let both = Interest::READABLE | Interest::WRITABLE;
    /// # let mut registration = poller.register(&mut ours, both, Ready::EMPTY)?;
    /// # let mut cx = Context::from_waker(Waker::noop());
    /// theirs.write_all(b"hello")?;
    /// poller.turn(None)?;
    /// let read = registration.poll_read_io(&mut cx, || ours.read(&mut [0; 8]));
    /// assert!(matches!(read, Poll::Ready(Ok(5))));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of the operation, or [`shutdown_error()`] if the poller has been
    /// shut down.
    #[inline]
    pub fn poll_read_io<R>(
        &self,
        cx: &mut Context<'_>,
        operation: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_io(cx, Direction::Read, operation)
            .map(|done| done.map(|(result, _)| result))
    }

    /// [`poll_write_ready`](Self::poll_write_ready) around an operation that
    /// writes, until it does not block.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// # use std::sync::Arc;
    /// # use std::task::{Context, Poll, Waker};
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Interest, Poller, Ready};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let (mut ours, mut theirs) = mio::net::UnixStream::pair()?;
    /// # let both = Interest::READABLE | Interest::WRITABLE;
    /// # let mut registration = poller.register(&mut ours, both, Ready::EMPTY)?;
    /// # let mut cx = Context::from_waker(Waker::noop());
    /// poller.turn(None)?;
    /// let write = registration.poll_write_io(&mut cx, || ours.write(b"hello"));
    /// assert!(matches!(write, Poll::Ready(Ok(5))));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of the operation, or [`shutdown_error()`] if the poller has been
    /// shut down.
    #[inline]
    pub fn poll_write_io<R>(
        &self,
        cx: &mut Context<'_>,
        operation: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_io(cx, Direction::Write, operation)
            .map(|done| done.map(|(result, _)| result))
    }

    /// [`poll_read_io`](Self::poll_read_io) for a stream's read into `room`
    /// bytes: one that does not fill them has emptied the stream, so the next read waits for
    /// an event first. Not for sources that may return less for other reasons, such as
    /// datagrams, or Unix sockets on which descriptors are passed.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// # use std::sync::Arc;
    /// # use std::task::{Context, Poll, Waker};
    /// # use blitzen_driver::{Interest, Poller, Ready};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let (mut ours, mut theirs) = mio::net::UnixStream::pair()?;
    /// # let registration = poller.register(&mut ours, Interest::READABLE, Ready::READABLE)?;
    /// # let mut cx = Context::from_waker(Waker::noop());
    /// let mut room = [0; 64];
    /// theirs.write_all(b"short")?;
    /// let read = registration.poll_read_stream(&mut cx, room.len(), || (&ours).read(&mut room));
    /// assert!(matches!(read, Poll::Ready(Ok(5))));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of the operation, or [`shutdown_error()`] if the poller has been
    /// shut down.
    #[inline]
    pub fn poll_read_stream(
        &self,
        cx: &mut Context<'_>,
        room: usize,
        operation: impl FnMut() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.poll_stream(cx, Direction::Read, room, operation)
    }

    /// [`poll_write_io`](Self::poll_write_io) for a stream's write of `len`
    /// bytes: one that does not take them all has filled the stream.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// # use std::sync::Arc;
    /// # use std::task::{Context, Poll, Waker};
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Interest, Poller, Ready};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let (mut ours, mut theirs) = mio::net::UnixStream::pair()?;
    /// # let both = Interest::READABLE | Interest::WRITABLE;
    /// # let mut registration = poller.register(&mut ours, both, Ready::EMPTY)?;
    /// # let mut cx = Context::from_waker(Waker::noop());
    /// poller.turn(None)?;
    /// let write = registration.poll_write_stream(&mut cx, 5, || ours.write(b"hello"));
    /// assert!(matches!(write, Poll::Ready(Ok(5))));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of the operation, or [`shutdown_error()`] if the poller has been
    /// shut down.
    #[inline]
    pub fn poll_write_stream(
        &self,
        cx: &mut Context<'_>,
        len: usize,
        operation: impl FnMut() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.poll_stream(cx, Direction::Write, len, operation)
    }

    #[inline]
    fn poll_stream(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        asked: usize,
        operation: impl FnMut() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let (moved, event) = ready!(self.poll_io(cx, direction, operation))?;
        // Zero bytes are the end of the stream, which stays readable without an event.
        if REPORTS_CHANGES && 0 < moved && moved < asked {
            self.clear_readiness(event);
        }
        Poll::Ready(Ok(moved))
    }

    #[inline]
    fn poll_io<R>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        mut operation: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<(R, ReadyEvent)>> {
        loop {
            let event = ready!(self.poll_ready(cx, direction))?;
            match unless_blocked(operation()) {
                Some(result) => return Poll::Ready(result.map(|value| (value, event))),
                None => self.clear(event)?,
            }
        }
    }
}

/// `None` for an operation that would have blocked.
fn unless_blocked<R>(result: io::Result<R>) -> Option<io::Result<R>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(error) if cfg!(blitzen_poll) && is_of_mio(&error) => None,
        result => Some(result),
    }
}

/// Whether the error is the one with which mio replaces `WouldBlock` over poll(2), when it has removed
/// the source. The source is watched again when its readiness is cleared.
fn is_of_mio(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        && error.raw_os_error().is_none()
        && error.get_ref().is_none()
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.poller.close(self.token);
    }
}
