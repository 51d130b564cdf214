//! Accepting TCP connections.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};

use socket2::SockRef;

use super::TcpStream;
use crate::io::Interest;
use crate::net::addr::{self, ToSocketAddrs};
use crate::net::listener_io::ListenerIo;
use crate::net::mode::SocketMode;
use crate::net::socket::{LISTEN_BACKLOG, assert_nonblocking};
use crate::runtime::io::current;

/// A socket that accepts TCP connections.
///
/// # Examples
///
/// ```
/// use blitzen::net::{TcpListener, TcpStream};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let client = TcpStream::connect(listener.local_addr()?).await?;
/// let (server, from) = listener.accept().await?;
/// assert_eq!(from, client.local_addr()?);
/// # drop(server);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When the process runs out of descriptors, [`accept`](Self::accept) fails and
/// the connection stays in the queue, so the next call fails at once. A server
/// that accepts in a loop should wait a moment, or close something, before it
/// calls again.
pub struct TcpListener {
    io: ListenerIo<mio::net::TcpListener>,
}

impl TcpListener {
    /// Creates a listener that is bound to `addr`.
    ///
    /// If `addr` yields several addresses, they are tried in order until one
    /// can be bound. Port 0 stands for any free port. On Unix the address may be
    /// bound again at once after the listener was closed (`SO_REUSEADDR`).
    ///
    /// # Examples
    ///
    #[doc = tcp_listener!("listener")]
    /// assert_ne!(listener.local_addr()?.port(), 0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `socket(2)`, `bind(2)` or `listen(2)` for the last
    /// address, such as [`AddrInUse`](io::ErrorKind::AddrInUse) or
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied); the error of the
    /// lookup; [`InvalidInput`](io::ErrorKind::InvalidInput) if `addr` yields no
    /// address; or an error if the runtime has been shut down.
    pub async fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<TcpListener> {
        addr::try_each(addr, |addr| async move {
            let listener = mio::net::TcpListener::bind(addr)?;
            // Longer than mio's backlog: connections may come in bursts.
            SockRef::from(&listener).listen(LISTEN_BACKLOG)?;
            Self::new(listener)
        })
        .await
    }

    #[track_caller]
    pub(super) fn new(listener: mio::net::TcpListener) -> io::Result<Self> {
        let io = ListenerIo::new(listener)?;
        Ok(Self { io })
    }

    fn raw(&self) -> SockRef<'_> {
        SockRef::from(&*self.io)
    }

    /// Accepts a connection, and returns its stream and the address of the peer.
    ///
    /// # Examples
    ///
    #[doc = tcp_listener!("listener")]
    /// let client = TcpStream::connect(listener.local_addr()?).await?;
    /// let (server, from) = listener.accept().await?;
    /// assert_eq!(from, client.local_addr()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, no connection was accepted:
    /// the next call gets it.
    ///
    /// # Errors
    /// Returns the error of `accept(2)`, such as
    /// [`ConnectionAborted`](io::ErrorKind::ConnectionAborted) or, without free
    /// descriptors, `EMFILE`; or an error if the runtime has been shut down. The
    /// listener can be used again.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let io = self.io.evented();
        let (stream, from) = io.attempts(Interest::READABLE, || io.accept()).await?;
        Ok((TcpStream::accepted(stream, self.io.mode())?, from))
    }

    /// Accepts a connection that is not watched yet: for another thread's poller.
    pub(crate) async fn accept_unwatched(&self) -> io::Result<(mio::net::TcpStream, SocketAddr)> {
        let io = self.io.evented();
        io.attempts(Interest::READABLE, || io.accept()).await
    }

    /// Attempts to accept a connection, and returns its stream and the address
    /// of the peer.
    ///
    /// Only the task that polled last is woken.
    ///
    /// # Examples
    ///
    #[doc = tcp_listener!("listener")]
    /// let client = TcpStream::connect(listener.local_addr()?).await?;
    /// let (server, from) = std::future::poll_fn(|cx| listener.poll_accept(cx)).await?;
    /// assert_eq!(from, client.local_addr()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`accept`](Self::accept).
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let io = self.io.evented();
        let accepted = io.registration().poll_read_io(cx, || io.accept());
        let (stream, from) = ready!(accepted)?;
        let stream = TcpStream::accepted(stream, self.io.mode())?;
        Poll::Ready(Ok((stream, from)))
    }

    /// Sets the [`SocketMode`] of the streams that the listener accepts from now
    /// on.
    ///
    /// # Examples
    ///
    #[doc = tcp_listener!("mut listener")]
    /// use blitzen::net::SocketMode;
    ///
    /// listener.set_mode(SocketMode::PreferCompletion)?;
    /// let client = TcpStream::connect(listener.local_addr()?).await?;
    /// let (server, _) = listener.accept().await?;
    /// assert_eq!(server.mode(), listener.mode());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`Unsupported`](io::ErrorKind::Unsupported) if `mode` is
    /// `Completion` and the system has no io_uring. The mode stays as it was.
    ///
    /// # Panics
    /// Panics outside a runtime, and in a runtime without I/O.
    #[track_caller]
    pub fn set_mode(&mut self, mode: SocketMode) -> io::Result<()> {
        self.io.set_mode(mode, &current())
    }

    /// Returns the mode of the streams that the listener accepts: `Readiness` or
    /// `Completion`.
    ///
    /// # Examples
    ///
    #[doc = tcp_listener!("listener")]
    /// use blitzen::net::SocketMode;
    ///
    /// assert_ne!(listener.mode(), SocketMode::PreferCompletion);
    /// # Ok(()) }
    /// ```
    pub fn mode(&self) -> SocketMode {
        self.io.mode()
    }

    /// Creates a listener from one of the standard library, which must be in
    /// non-blocking mode.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::TcpListener;
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let std_listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// std_listener.set_nonblocking(true)?;
    /// let listener = TcpListener::from_std(std_listener)?;
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
    pub fn from_std(listener: std::net::TcpListener) -> io::Result<TcpListener> {
        assert_nonblocking(&listener);
        Self::new(mio::net::TcpListener::from_std(listener))
    }

    /// Converts the listener into one of the standard library. It stays in
    /// non-blocking mode.
    ///
    /// # Examples
    ///
    #[doc = tcp_listener!("listener")]
    /// let std_listener: std::net::TcpListener = listener.into_std()?;
    /// std_listener.set_nonblocking(false)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of leaving the system's poller, such as
    /// `epoll_ctl(2)`.
    pub fn into_std(self) -> io::Result<std::net::TcpListener> {
        Ok(self.io.into_inner()?.into())
    }

    /// Returns the address that the listener is bound to.
    ///
    /// # Examples
    ///
    #[doc = tcp_listener!("listener")]
    /// assert!(listener.local_addr()?.ip().is_loopback());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    ttl_methods!(tcp_listener!("socket"));
}

std_traits!(TcpListener, std::net::TcpListener);
