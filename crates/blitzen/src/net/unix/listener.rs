//! Accepting Unix domain connections.

use std::io;
use std::path::Path;
use std::task::{Context, Poll, ready};

use socket2::SockRef;

use super::addr::{SocketAddr, addr_from_path};
use super::stream::UnixStream;
use crate::io::{Interest, PollEvented, Ready};
use crate::net::socket::{LISTEN_BACKLOG, assert_nonblocking};

/// A socket that accepts Unix domain connections.
///
/// Dropping the listener does not remove its path: a program that wants to bind
/// it again removes it first.
///
/// # Examples
///
#[doc = unix_dir!("{UnixListener, UnixStream}")]
/// let listener = UnixListener::bind(dir.join("socket"))?;
/// let client = UnixStream::connect(dir.join("socket")).await?;
/// let (server, from) = listener.accept().await?;
/// assert!(from.is_unnamed());
/// # Ok(()) }
/// ```
pub struct UnixListener {
    io: PollEvented<mio::net::UnixListener>,
}

impl UnixListener {
    /// Creates a listener that is bound to `path`, which must not exist yet.
    ///
    /// On Linux a path that begins with a zero byte is a name in the abstract
    /// namespace, which needs no removal.
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("UnixListener")]
    /// let listener = UnixListener::bind(dir.join("socket"))?;
    /// assert!(dir.join("socket").exists());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `socket(2)`, `bind(2)` or `listen(2)`, such as
    /// [`AddrInUse`](io::ErrorKind::AddrInUse) if `path` exists;
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if it is too long; or an
    /// error if the runtime has been shut down.
    ///
    /// # Panics
    /// Panics outside a runtime, and in a runtime without I/O.
    #[track_caller]
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixListener> {
        Self::bind_addr(&SocketAddr(addr_from_path(path.as_ref())?))
    }

    /// Creates a listener that is bound to `addr`.
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("UnixListener")]
    /// let addr = std::os::unix::net::SocketAddr::from_pathname(dir.join("socket"))?;
    /// let listener = UnixListener::bind_addr(&addr.into())?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `socket(2)`, `bind(2)` or `listen(2)`, such as
    /// [`AddrInUse`](io::ErrorKind::AddrInUse) if the path exists, or an error if
    /// the runtime has been shut down.
    ///
    /// # Panics
    /// Panics outside a runtime, and in a runtime without I/O.
    #[track_caller]
    pub fn bind_addr(addr: &SocketAddr) -> io::Result<UnixListener> {
        let listener = mio::net::UnixListener::bind_addr(&addr.0)?;
        // Longer than mio's backlog: connections may come in bursts.
        SockRef::from(&listener).listen(LISTEN_BACKLOG)?;
        Self::new(listener)
    }

    #[track_caller]
    pub(super) fn new(listener: mio::net::UnixListener) -> io::Result<Self> {
        let io = PollEvented::new(listener, Interest::READABLE, Ready::EMPTY)?;
        Ok(Self { io })
    }

    /// Creates a listener from one of the standard library, which must be in
    /// non-blocking mode.
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("UnixListener")]
    /// let std_listener = std::os::unix::net::UnixListener::bind(dir.join("socket"))?;
    /// std_listener.set_nonblocking(true)?;
    /// let listener = UnixListener::from_std(std_listener)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of registering with the system's poller, such as
    /// `epoll_ctl(2)`, or an error if the runtime has been shut down.
    ///
    /// # Panics
    /// Panics outside a runtime, in a runtime without I/O and, with debug
    /// assertions, if the listener is in blocking mode.
    #[track_caller]
    pub fn from_std(listener: std::os::unix::net::UnixListener) -> io::Result<UnixListener> {
        assert_nonblocking(&listener);
        Self::new(mio::net::UnixListener::from_std(listener))
    }

    /// Converts the listener into one of the standard library. It stays in
    /// non-blocking mode.
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("UnixListener")]
    /// let listener = UnixListener::bind(dir.join("socket"))?;
    /// let std_listener: std::os::unix::net::UnixListener = listener.into_std()?;
    /// std_listener.set_nonblocking(false)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of leaving the system's poller, such as
    /// `epoll_ctl(2)`.
    pub fn into_std(self) -> io::Result<std::os::unix::net::UnixListener> {
        Ok(self.io.into_inner()?.into())
    }

    /// Returns the address that the listener is bound to.
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("UnixListener")]
    /// let listener = UnixListener::bind(dir.join("socket"))?;
    /// assert_eq!(listener.local_addr()?.as_pathname(), Some(&*dir.join("socket")));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr().map(SocketAddr)
    }

    /// Returns the pending error of the socket, and clears it (`SO_ERROR`).
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("UnixListener")]
    /// let listener = UnixListener::bind(dir.join("socket"))?;
    /// assert!(listener.take_error()?.is_none());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `getsockopt(2)`.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.io.take_error()
    }

    /// Accepts a connection, and returns its stream and the address of the peer.
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("{UnixListener, UnixStream}")]
    /// let listener = UnixListener::bind(dir.join("socket"))?;
    /// let client = UnixStream::connect(dir.join("socket")).await?;
    /// let (server, _) = listener.accept().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, no connection was accepted:
    /// the next call gets it.
    ///
    /// # Errors
    /// Returns the error of `accept(2)`, such as `EMFILE` without free
    /// descriptors, or an error if the runtime has been shut down. The listener
    /// can be used again.
    pub async fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let registration = self.io.registration();
        let (stream, from) = registration
            .async_io(Interest::READABLE, || self.io.accept())
            .await?;
        Ok((UnixStream::accepted(stream)?, SocketAddr(from)))
    }

    /// Attempts to accept a connection, and returns its stream and the address
    /// of the peer.
    ///
    /// Only the task that polled last is woken.
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("{UnixListener, UnixStream}")]
    /// let listener = UnixListener::bind(dir.join("socket"))?;
    /// let client = UnixStream::connect(dir.join("socket")).await?;
    /// let (server, _) = std::future::poll_fn(|cx| listener.poll_accept(cx)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`accept`](Self::accept).
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(UnixStream, SocketAddr)>> {
        let registration = self.io.registration();
        let (stream, from) = ready!(registration.poll_read_io(cx, || self.io.accept()))?;
        Poll::Ready(UnixStream::accepted(stream).map(|stream| (stream, SocketAddr(from))))
    }
}

std_traits!(UnixListener, std::os::unix::net::UnixListener);
