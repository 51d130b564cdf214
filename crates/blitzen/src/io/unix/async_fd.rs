//! A foreign descriptor whose readiness the runtime watches.
//!
//! F1. The descriptor stays registered from [`register`](AsyncFd::register) until
//!     `into_inner` or `drop`. Both deregister it before the value is returned or
//!     dropped.

use std::error::Error;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::task::{Context, Poll, ready};

use blitzen_driver::{Interest, Ready, ReadyEvent, Registration};
use mio::unix::SourceFd;

use crate::io::{BOTH, settled};
use crate::runtime::io::register;

/// A file descriptor of any kind whose readiness a task can wait for: a socket of a
/// C library, a device, a timer.
///
/// The descriptor must be in non-blocking mode, and `epoll(7)`, or what takes its
/// place, must support its kind; regular files are not supported. Readiness is
/// cached until an operation finds nothing to do. So an operation that would block
/// must be reported: [`try_io`](AsyncFdReadyGuard::try_io) and
/// [`async_io`](Self::async_io) do that.
///
/// # Examples
///
/// ```
/// use std::io::{Read, Write};
/// use std::os::unix::net::UnixStream;
/// use blitzen::io::unix::AsyncFd;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let (ours, mut theirs) = UnixStream::pair()?;
/// ours.set_nonblocking(true)?;
/// // SAFETY: nobody closes the stream's descriptor as long as the stream lives.
/// let ours = unsafe { AsyncFd::register(ours) }?;
///
/// theirs.write_all(b"hello")?;
/// let mut bytes = [0; 8];
/// let count = loop {
///     let mut guard = ours.readable().await?;
///     match guard.try_io(|fd| fd.get_ref().read(&mut bytes)) {
///         Ok(result) => break result?,
///         Err(_would_block) => continue,
///     }
/// };
/// assert_eq!(&bytes[..count], b"hello");
/// # Ok(())
/// # }
/// ```
pub struct AsyncFd<T: AsRawFd> {
    /// `None` only while it is dropped or taken (F1).
    inner: Option<T>,
    registration: Registration,
}

impl<T: AsRawFd + UnwindSafe> UnwindSafe for AsyncFd<T> {}
impl<T: AsRawFd + RefUnwindSafe> RefUnwindSafe for AsyncFd<T> {}

/// Hidden lines of the examples: a pair of streams, of which `ours` is registered.
macro_rules! example {
    () => {
        "# use std::io::{Read, Write};
# use std::os::unix::net::UnixStream;
# use blitzen::io::Interest;
# use blitzen::io::unix::AsyncFd;
# #[blitzen::main(flavor = \"current_thread\")]
# async fn main() -> std::io::Result<()> {
# let (ours, mut theirs) = UnixStream::pair()?;
# ours.set_nonblocking(true)?;
# // SAFETY: `AsyncFd` owns the stream, so its descriptor stays open.
# let mut ours = unsafe { AsyncFd::register(ours) }?;
# theirs.write_all(b\"hello\")?;"
    };
}

impl<T: AsRawFd> AsyncFd<T> {
    /// Registers the descriptor of `inner` for reading and writing.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// assert_eq!(ours.readable().await?.get_inner().read(&mut [0; 8])?, 5);
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of `epoll_ctl(2)`, such as
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied) for a regular file,
    /// together with `inner`.
    ///
    /// # Panics
    ///
    /// Panics outside a runtime, and in a runtime without I/O.
    ///
    /// # Safety
    ///
    /// `as_raw_fd` must return the same open descriptor until the value is dropped.
    /// Nobody may close it before.
    #[track_caller]
    pub unsafe fn register(inner: T) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::open(inner, BOTH)
    }

    /// Registers the descriptor of `inner` for `interest`.
    ///
    /// Waiting for anything else never ends.
    ///
    /// # Examples
    ///
    /// ```
    /// # use blitzen::io::Interest;
    /// # use blitzen::io::unix::AsyncFd;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let (ours, _theirs) = std::os::unix::net::UnixStream::pair()?;
    /// ours.set_nonblocking(true)?;
    /// // SAFETY: nobody closes the stream's descriptor as long as the stream lives.
    /// let ours = unsafe { AsyncFd::register_with_interest(ours, Interest::WRITABLE) }?;
    /// ours.writable().await?.retain_ready();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of `epoll_ctl(2)`, such as
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied) for a regular file,
    /// together with `inner`.
    ///
    /// # Panics
    ///
    /// Panics outside a runtime, and in a runtime without I/O.
    ///
    /// # Safety
    ///
    /// The same as for [`register`](Self::register).
    #[track_caller]
    pub unsafe fn register_with_interest(
        inner: T,
        interest: Interest,
    ) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::open(inner, interest)
    }

    /// Registers the descriptor of `inner` like [`register`](Self::register), without a
    /// promise that it stays open.
    ///
    /// # Examples
    ///
    /// ```
    /// # #![allow(deprecated)]
    /// use blitzen::io::unix::AsyncFd;
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let (ours, _theirs) = std::os::unix::net::UnixStream::pair()?;
    /// ours.set_nonblocking(true)?;
    /// let ours = AsyncFd::new(ours)?;
    /// ours.writable().await?.retain_ready();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of `epoll_ctl(2)`.
    ///
    /// # Panics
    ///
    /// Panics outside a runtime, and in a runtime without I/O.
    #[deprecated(note = "nothing keeps the descriptor open; use `AsyncFd::register`")]
    #[track_caller]
    pub fn new(inner: T) -> io::Result<Self> {
        Ok(Self::open(inner, BOTH)?)
    }

    /// Registers the descriptor of `inner` like
    /// [`register_with_interest`](Self::register_with_interest), without a promise that
    /// it stays open.
    ///
    /// # Examples
    ///
    /// ```
    /// # #![allow(deprecated)]
    /// use blitzen::io::Interest;
    /// use blitzen::io::unix::AsyncFd;
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let (ours, _theirs) = std::os::unix::net::UnixStream::pair()?;
    /// ours.set_nonblocking(true)?;
    /// let ours = AsyncFd::with_interest(ours, Interest::WRITABLE)?;
    /// ours.writable().await?.retain_ready();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of `epoll_ctl(2)`.
    ///
    /// # Panics
    ///
    /// Panics outside a runtime, and in a runtime without I/O.
    #[deprecated(note = "nothing keeps the descriptor open; use `AsyncFd::register_with_interest`")]
    #[track_caller]
    pub fn with_interest(inner: T, interest: Interest) -> io::Result<Self> {
        Ok(Self::open(inner, interest)?)
    }

    /// Registers the descriptor of `inner` like [`register`](Self::register), without a
    /// promise that it stays open.
    ///
    /// # Examples
    ///
    /// ```
    /// # #![allow(deprecated)]
    /// use blitzen::io::unix::AsyncFd;
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let file = std::fs::File::open("/")?;
    /// let (_file, error) = AsyncFd::try_new(file).unwrap_err().into_parts();
    /// assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of `epoll_ctl(2)`, together with `inner`.
    ///
    /// # Panics
    ///
    /// Panics outside a runtime, and in a runtime without I/O.
    #[deprecated(note = "nothing keeps the descriptor open; use `AsyncFd::register`")]
    #[track_caller]
    pub fn try_new(inner: T) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::open(inner, BOTH)
    }

    /// Registers the descriptor of `inner` like
    /// [`register_with_interest`](Self::register_with_interest), without a promise that
    /// it stays open.
    ///
    /// # Examples
    ///
    /// ```
    /// # #![allow(deprecated)]
    /// use blitzen::io::Interest;
    /// use blitzen::io::unix::AsyncFd;
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let file = std::fs::File::open("/")?;
    /// let refused = AsyncFd::try_with_interest(file, Interest::READABLE).unwrap_err();
    /// let (_file, error) = refused.into_parts();
    /// assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of `epoll_ctl(2)`, together with `inner`.
    ///
    /// # Panics
    ///
    /// Panics outside a runtime, and in a runtime without I/O.
    #[deprecated(note = "nothing keeps the descriptor open; use `AsyncFd::register_with_interest`")]
    #[track_caller]
    pub fn try_with_interest(
        inner: T,
        interest: Interest,
    ) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::open(inner, interest)
    }

    #[track_caller]
    fn open(inner: T, interest: Interest) -> Result<Self, AsyncFdRegisterError<T>> {
        let fd = inner.as_raw_fd();
        match register(&mut SourceFd(&fd), interest, Ready::EMPTY) {
            Ok(mut registration) => {
                registration.set_bare(fd, interest);
                Ok(Self {
                    inner: Some(inner),
                    registration,
                })
            }
            Err(cause) => Err(AsyncFdRegisterError { inner, cause }),
        }
    }

    /// Returns a reference to the value that owns the descriptor.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// let stream: &UnixStream = ours.get_ref();
    /// assert!(stream.peer_addr()?.is_unnamed());
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    #[inline]
    pub fn get_ref(&self) -> &T {
        match &self.inner {
            Some(inner) => inner,
            None => unreachable!("F1"),
        }
    }

    /// Returns a mutable reference to the value that owns the descriptor.
    ///
    /// The value must keep the descriptor.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// ours.readable().await?.retain_ready();
    /// assert_eq!(ours.get_mut().read(&mut [0; 8])?, 5);
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        match &mut self.inner {
            Some(inner) => inner,
            None => unreachable!("F1"),
        }
    }

    /// Deregisters the descriptor, and returns the value that owns it.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// let mut stream: UnixStream = ours.into_inner();
    /// assert_eq!(stream.read(&mut [0; 8])?, 5);
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    pub fn into_inner(mut self) -> T {
        match self.close() {
            Some(inner) => inner,
            None => unreachable!("F1"),
        }
    }

    /// Deregisters the descriptor, and takes the value out.
    fn close(&mut self) -> Option<T> {
        let inner = self.inner.take()?;
        let fd = inner.as_raw_fd();
        // It fails if somebody else closed the descriptor. Then there is nothing to
        // deregister.
        let _ = self.registration.deregister(&mut SourceFd(&fd));
        Some(inner)
    }

    /// Attempts to return a guard that tells that the descriptor is ready to be read.
    ///
    /// Returns `Poll::Pending` if it is not; the task of `cx` is woken when it is. If
    /// several tasks poll this function, only the last one is woken.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// let guard = std::future::poll_fn(|cx| ours.poll_read_ready(cx)).await?;
    /// assert!(guard.ready().is_readable());
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    pub fn poll_read_ready<'a>(
        &'a self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'a, T>>> {
        let event = ready!(self.registration.poll_read_ready(cx))?;
        Poll::Ready(Ok(AsyncFdReadyGuard { fd: self, event }))
    }

    /// Attempts to return a guard that tells that the descriptor is ready to be read,
    /// with mutable access to the value.
    ///
    /// Returns `Poll::Pending` if it is not; the task of `cx` is woken when it is.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// let mut guard = std::future::poll_fn(|cx| ours.poll_read_ready_mut(cx).map_ok(|mut guard| {
    ///     guard.try_io(|fd| fd.get_mut().read(&mut [0; 8])).unwrap()
    /// })).await??;
    /// assert_eq!(guard, 5);
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    pub fn poll_read_ready_mut<'a>(
        &'a mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyMutGuard<'a, T>>> {
        let event = ready!(self.registration.poll_read_ready(cx))?;
        Poll::Ready(Ok(AsyncFdReadyMutGuard { fd: self, event }))
    }

    /// Attempts to return a guard that tells that the descriptor is ready to be written
    /// to.
    ///
    /// Returns `Poll::Pending` if it is not; the task of `cx` is woken when it is. If
    /// several tasks poll this function, only the last one is woken.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// let guard = std::future::poll_fn(|cx| ours.poll_write_ready(cx)).await?;
    /// assert!(guard.ready().is_writable());
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    pub fn poll_write_ready<'a>(
        &'a self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'a, T>>> {
        let event = ready!(self.registration.poll_write_ready(cx))?;
        Poll::Ready(Ok(AsyncFdReadyGuard { fd: self, event }))
    }

    /// Attempts to return a guard that tells that the descriptor is ready to be written
    /// to, with mutable access to the value.
    ///
    /// Returns `Poll::Pending` if it is not; the task of `cx` is woken when it is.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// let sent = std::future::poll_fn(|cx| ours.poll_write_ready_mut(cx).map_ok(|mut guard| {
    ///     guard.try_io(|fd| fd.get_mut().write(b"hi")).unwrap()
    /// })).await??;
    /// assert_eq!(sent, 2);
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    pub fn poll_write_ready_mut<'a>(
        &'a mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyMutGuard<'a, T>>> {
        let event = ready!(self.registration.poll_write_ready(cx))?;
        Poll::Ready(Ok(AsyncFdReadyMutGuard { fd: self, event }))
    }

    /// Waits until the descriptor is ready for any of `interest`, and returns a guard.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// let guard = ours.ready(Interest::READABLE | Interest::WRITABLE).await?;
    /// assert!(guard.ready().is_readable() || guard.ready().is_writable());
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future has no effect on the readiness.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    pub async fn ready(&self, interest: Interest) -> io::Result<AsyncFdReadyGuard<'_, T>> {
        let event = self.registration.readiness(interest).await?;
        Ok(AsyncFdReadyGuard { fd: self, event })
    }

    /// Waits until the descriptor is ready for any of `interest`, and returns a guard
    /// with mutable access to the value.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// let mut guard = ours.ready_mut(Interest::READABLE).await?;
    /// assert_eq!(guard.get_inner_mut().read(&mut [0; 8])?, 5);
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future has no effect on the readiness.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    pub async fn ready_mut(
        &mut self,
        interest: Interest,
    ) -> io::Result<AsyncFdReadyMutGuard<'_, T>> {
        let event = self.registration.readiness(interest).await?;
        Ok(AsyncFdReadyMutGuard { fd: self, event })
    }

    /// Waits until the descriptor is ready to be read, and returns a guard.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// assert!(ours.readable().await?.ready().is_readable());
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future has no effect on the readiness.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    // The lifetime is part of the signature that others name.
    #[allow(clippy::needless_lifetimes)]
    pub async fn readable<'a>(&'a self) -> io::Result<AsyncFdReadyGuard<'a, T>> {
        self.ready(Interest::READABLE).await
    }

    /// Waits until the descriptor is ready to be read, and returns a guard with mutable
    /// access to the value.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// assert!(ours.readable_mut().await?.ready().is_readable());
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future has no effect on the readiness.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    #[allow(clippy::needless_lifetimes)]
    pub async fn readable_mut<'a>(&'a mut self) -> io::Result<AsyncFdReadyMutGuard<'a, T>> {
        self.ready_mut(Interest::READABLE).await
    }

    /// Waits until the descriptor is ready to be written to, and returns a guard.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// assert!(ours.writable().await?.ready().is_writable());
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future has no effect on the readiness.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    #[allow(clippy::needless_lifetimes)]
    pub async fn writable<'a>(&'a self) -> io::Result<AsyncFdReadyGuard<'a, T>> {
        self.ready(Interest::WRITABLE).await
    }

    /// Waits until the descriptor is ready to be written to, and returns a guard with
    /// mutable access to the value.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// assert!(ours.writable_mut().await?.ready().is_writable());
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future has no effect on the readiness.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime has shut down.
    #[allow(clippy::needless_lifetimes)]
    pub async fn writable_mut<'a>(&'a mut self) -> io::Result<AsyncFdReadyMutGuard<'a, T>> {
        self.ready_mut(Interest::WRITABLE).await
    }

    /// Calls `f` until it does not fail with [`WouldBlock`](io::ErrorKind::WouldBlock),
    /// and returns its result. Waits for `interest` between the calls.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// let read = ours.async_io(Interest::READABLE, |mut stream| stream.read(&mut [0; 8]));
    /// assert_eq!(read.await?, 5);
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// A call of `f` is never interrupted. If the future is dropped while it waits, the
    /// last call of `f` found nothing to do.
    ///
    /// # Errors
    ///
    /// Returns the error of `f`, or an error if the runtime has shut down.
    pub async fn async_io<R>(
        &self,
        interest: Interest,
        mut f: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        let inner = self.get_ref();
        let operation = || settled(f(inner));
        self.registration.async_io(interest, operation).await?
    }

    /// Calls `f` until it does not fail with [`WouldBlock`](io::ErrorKind::WouldBlock),
    /// with mutable access to the value, and returns its result. Waits for `interest`
    /// between the calls.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// let read = ours.async_io_mut(Interest::READABLE, |stream| stream.read(&mut [0; 8]));
    /// assert_eq!(read.await?, 5);
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// A call of `f` is never interrupted. If the future is dropped while it waits, the
    /// last call of `f` found nothing to do.
    ///
    /// # Errors
    ///
    /// Returns the error of `f`, or an error if the runtime has shut down.
    pub async fn async_io_mut<R>(
        &mut self,
        interest: Interest,
        mut f: impl FnMut(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        let Self {
            inner: Some(inner),
            registration,
        } = self
        else {
            unreachable!("F1")
        };
        registration
            .async_io(interest, || settled(f(inner)))
            .await?
    }

    /// Calls `f` if the descriptor may be ready for `interest`, and returns its result.
    ///
    /// If `f` fails with [`WouldBlock`](io::ErrorKind::WouldBlock), the readiness is
    /// cleared.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// ours.readable().await?.retain_ready();
    /// let read = ours.try_io(Interest::READABLE, |mut stream| stream.read(&mut [0; 8]))?;
    /// assert_eq!(read, 5);
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of `f`, or [`WouldBlock`](io::ErrorKind::WouldBlock) without a
    /// call of `f` if the descriptor is not ready.
    pub fn try_io<R>(
        &self,
        interest: Interest,
        f: impl FnOnce(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        let inner = self.get_ref();
        self.registration.try_io(interest, || settled(f(inner)))?
    }

    /// Calls `f` if the descriptor may be ready for `interest`, with mutable access to
    /// the value, and returns its result.
    ///
    /// If `f` fails with [`WouldBlock`](io::ErrorKind::WouldBlock), the readiness is
    /// cleared.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// ours.readable().await?.retain_ready();
    /// let read = ours.try_io_mut(Interest::READABLE, |stream| stream.read(&mut [0; 8]))?;
    /// assert_eq!(read, 5);
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of `f`, or [`WouldBlock`](io::ErrorKind::WouldBlock) without a
    /// call of `f` if the descriptor is not ready.
    pub fn try_io_mut<R>(
        &mut self,
        interest: Interest,
        f: impl FnOnce(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        let Self {
            inner: Some(inner),
            registration,
        } = self
        else {
            unreachable!("F1")
        };
        registration.try_io(interest, || settled(f(inner)))?
    }
}

impl<T: AsRawFd> AsRawFd for AsyncFd<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.get_ref().as_raw_fd()
    }
}

impl<T: AsRawFd> AsFd for AsyncFd<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the code that registered the descriptor guarantees that it is open as
        // long as the value lives.
        unsafe { BorrowedFd::borrow_raw(self.as_raw_fd()) }
    }
}

impl<T: AsRawFd> Drop for AsyncFd<T> {
    fn drop(&mut self) {
        drop(self.close());
    }
}

impl<T: AsRawFd + fmt::Debug> fmt::Debug for AsyncFd<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncFd")
            .field("inner", &self.inner)
            .finish()
    }
}

/// A guard that tells what a descriptor was ready for. See [`AsyncFd::readable`].
///
/// Dropping the guard keeps the readiness cached.
///
/// # Examples
///
/// ```
#[doc = example!()]
/// let mut guard = ours.readable().await?;
/// assert_eq!(guard.try_io(|fd| fd.get_ref().read(&mut [0; 8])).unwrap()?, 5);
/// # drop(theirs);
/// # Ok(()) }
/// ```
#[must_use = "the readiness stays cached until it is cleared: call a method to say what to do"]
pub struct AsyncFdReadyGuard<'a, T: AsRawFd> {
    fd: &'a AsyncFd<T>,
    event: ReadyEvent,
}

/// An [`AsyncFdReadyGuard`] with mutable access to the value.
///
/// # Examples
///
/// ```
#[doc = example!()]
/// let mut guard = ours.readable_mut().await?;
/// assert_eq!(guard.try_io(|fd| fd.get_mut().read(&mut [0; 8])).unwrap()?, 5);
/// # drop(theirs);
/// # Ok(()) }
/// ```
#[must_use = "the readiness stays cached until it is cleared: call a method to say what to do"]
pub struct AsyncFdReadyMutGuard<'a, T: AsRawFd> {
    fd: &'a mut AsyncFd<T>,
    event: ReadyEvent,
}

/// The methods that both guards have.
macro_rules! guard_methods {
    ($readable:literal) => {
        /// Clears the cached readiness, unless a new event has arrived since.
        ///
        /// Call it only after an operation found nothing to do: the next event may never
        /// come otherwise. A closed direction stays ready.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = example!()]
        #[doc = $readable]
        /// guard.get_inner().read(&mut [0; 8])?; // reads it all
        /// guard.clear_ready();
        /// # drop(theirs);
        /// # Ok(()) }
        /// ```
        pub fn clear_ready(&mut self) {
            self.fd.registration.clear_readiness(self.event);
        }

        /// Clears the part `ready` of the cached readiness, as
        /// [`clear_ready`](Self::clear_ready) clears all of it.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = example!()]
        /// # use blitzen::io::Ready;
        #[doc = $readable]
        /// guard.clear_ready_matching(Ready::READABLE);
        /// assert!(!guard.ready().is_readable());
        /// # drop(theirs);
        /// # Ok(()) }
        /// ```
        pub fn clear_ready_matching(&mut self, ready: Ready) {
            let part = self.event.with_ready(self.event.ready() & ready);
            self.fd.registration.clear_readiness(part);
            self.event = self.event.with_ready(self.event.ready() - ready);
        }

        /// Keeps the cached readiness. Dropping the guard does the same; a call states the
        /// intent.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = example!()]
        #[doc = $readable]
        /// guard.retain_ready();
        /// # drop(theirs);
        /// # Ok(()) }
        /// ```
        pub fn retain_ready(&mut self) {}

        /// Returns what the descriptor was ready for, as far as it was asked.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = example!()]
        #[doc = $readable]
        /// assert!(guard.ready().is_readable());
        /// # drop(theirs);
        /// # Ok(()) }
        /// ```
        pub fn ready(&self) -> Ready {
            self.event.ready()
        }
    };
}

impl<'a, Inner: AsRawFd> AsyncFdReadyGuard<'a, Inner> {
    guard_methods!("let mut guard = ours.readable().await?;");

    /// Calls `f` and returns its result. Clears the cached readiness if `f` fails with
    /// [`WouldBlock`](io::ErrorKind::WouldBlock).
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// let mut guard = ours.readable().await?;
    /// let read = guard.try_io(|fd| fd.get_ref().read(&mut [0; 8])).expect("there was data");
    /// assert_eq!(read?, 5);
    /// // Nothing is left, and now it is known.
    /// assert!(guard.try_io(|fd| fd.get_ref().read(&mut [0; 8])).is_err());
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`TryIoError`] if `f` fails with
    /// [`WouldBlock`](io::ErrorKind::WouldBlock). Any other result of `f` is in the
    /// `Ok`.
    pub fn try_io<R>(
        &mut self,
        f: impl FnOnce(&'a AsyncFd<Inner>) -> io::Result<R>,
    ) -> Result<io::Result<R>, TryIoError> {
        let result = f(self.fd);
        unless_blocked(&self.fd.registration, self.event, result)
    }

    /// Returns a reference to the [`AsyncFd`].
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// let guard = ours.readable().await?;
    /// let fd: &AsyncFd<UnixStream> = guard.get_ref();
    /// # let _ = fd;
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    pub fn get_ref(&self) -> &'a AsyncFd<Inner> {
        self.fd
    }

    /// Returns a reference to the value that owns the descriptor.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// let guard = ours.readable().await?;
    /// assert_eq!(guard.get_inner().read(&mut [0; 8])?, 5);
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    pub fn get_inner(&self) -> &'a Inner {
        self.fd.get_ref()
    }
}

impl<Inner: AsRawFd> AsyncFdReadyMutGuard<'_, Inner> {
    guard_methods!("let mut guard = ours.readable_mut().await?;");

    /// Calls `f` and returns its result. Clears the cached readiness if `f` fails with
    /// [`WouldBlock`](io::ErrorKind::WouldBlock).
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// let mut guard = ours.readable_mut().await?;
    /// let read = guard.try_io(|fd| fd.get_mut().read(&mut [0; 8])).expect("there was data");
    /// assert_eq!(read?, 5);
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`TryIoError`] if `f` fails with
    /// [`WouldBlock`](io::ErrorKind::WouldBlock). Any other result of `f` is in the
    /// `Ok`.
    pub fn try_io<R>(
        &mut self,
        f: impl FnOnce(&mut AsyncFd<Inner>) -> io::Result<R>,
    ) -> Result<io::Result<R>, TryIoError> {
        let result = f(self.fd);
        unless_blocked(&self.fd.registration, self.event, result)
    }

    /// Returns a reference to the [`AsyncFd`].
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// let guard = ours.readable_mut().await?;
    /// assert_eq!(guard.get_ref().get_ref().read(&mut [0; 8])?, 5);
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    pub fn get_ref(&self) -> &AsyncFd<Inner> {
        self.fd
    }

    /// Returns a mutable reference to the [`AsyncFd`].
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// let mut guard = ours.readable_mut().await?;
    /// assert_eq!(guard.get_mut().get_mut().read(&mut [0; 8])?, 5);
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    pub fn get_mut(&mut self) -> &mut AsyncFd<Inner> {
        self.fd
    }

    /// Returns a reference to the value that owns the descriptor.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// let guard = ours.readable_mut().await?;
    /// assert_eq!(guard.get_inner().read(&mut [0; 8])?, 5);
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    pub fn get_inner(&self) -> &Inner {
        self.fd.get_ref()
    }

    /// Returns a mutable reference to the value that owns the descriptor.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = example!()]
    /// let mut guard = ours.readable_mut().await?;
    /// assert_eq!(guard.get_inner_mut().read(&mut [0; 8])?, 5);
    /// # drop(theirs);
    /// # Ok(()) }
    /// ```
    pub fn get_inner_mut(&mut self) -> &mut Inner {
        self.fd.get_mut()
    }
}

fn unless_blocked<R>(
    registration: &Registration,
    event: ReadyEvent,
    result: io::Result<R>,
) -> Result<io::Result<R>, TryIoError> {
    settled(result).map_err(|_would_block| {
        registration.clear_refuted(event);
        TryIoError(())
    })
}

impl<T: AsRawFd + fmt::Debug> fmt::Debug for AsyncFdReadyGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncFdReadyGuard")
            .field("fd", &self.fd)
            .finish_non_exhaustive()
    }
}

impl<T: AsRawFd + fmt::Debug> fmt::Debug for AsyncFdReadyMutGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncFdReadyMutGuard")
            .field("fd", &self.fd)
            .finish_non_exhaustive()
    }
}

/// The error of [`AsyncFdReadyGuard::try_io`]: the operation would have blocked.
///
/// # Examples
///
/// ```
#[doc = example!()]
/// let mut guard = ours.readable().await?;
/// guard.get_inner().read(&mut [0; 8])?;
/// let would_block: blitzen::io::unix::TryIoError =
///     guard.try_io(|fd| fd.get_ref().read(&mut [0; 8])).unwrap_err();
/// # drop(would_block);
/// # drop(theirs);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct TryIoError(());

/// The error of [`AsyncFd::register`], with the value that was not registered.
///
/// # Examples
///
/// ```
/// # use blitzen::io::unix::AsyncFd;
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let file = std::fs::File::open("/")?;
/// // SAFETY: nobody closes the file's descriptor as long as the file lives.
/// let error = unsafe { AsyncFd::register(file) }.unwrap_err();
/// let (_file, cause) = error.into_parts();
/// assert_eq!(cause.kind(), std::io::ErrorKind::PermissionDenied); // not that kind
/// # Ok(())
/// # }
/// ```
pub struct AsyncFdRegisterError<T> {
    inner: T,
    cause: io::Error,
}

/// The former name of [`AsyncFdRegisterError`].
#[doc(hidden)]
#[deprecated(note = "use `AsyncFdRegisterError`")]
pub type AsyncFdTryNewError<T> = AsyncFdRegisterError<T>;

impl<T> AsyncFdRegisterError<T> {
    /// Returns the value that was not registered, and the cause.
    ///
    /// # Examples
    ///
    /// ```
    /// # use blitzen::io::unix::AsyncFd;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// # let file = std::fs::File::open("/")?;
    /// // SAFETY: nobody closes the file's descriptor as long as the file lives.
    /// let error = unsafe { AsyncFd::register(file) }.unwrap_err();
    /// let (file, _cause) = error.into_parts();
    /// assert!(file.metadata()?.is_dir());
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_parts(self) -> (T, io::Error) {
        (self.inner, self.cause)
    }
}

impl<T> fmt::Display for AsyncFdRegisterError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the descriptor was not registered: {}", self.cause)
    }
}

impl<T> fmt::Debug for AsyncFdRegisterError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncFdRegisterError")
            .field(&self.cause)
            .finish()
    }
}

impl<T> Error for AsyncFdRegisterError<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

impl<T> From<AsyncFdRegisterError<T>> for io::Error {
    fn from(error: AsyncFdRegisterError<T>) -> Self {
        error.cause
    }
}
