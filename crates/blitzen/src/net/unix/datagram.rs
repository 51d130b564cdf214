//! Unix domain datagrams.

use std::io;
use std::net::Shutdown;
use std::path::Path;
use std::task::{Context, Poll};

use socket2::{SockAddr, SockRef};

use super::addr::{SocketAddr, addr_from_path, addr_from_sockaddr, sockaddr_from_path};
use crate::io::{BOTH, Interest, PollEvented, Ready};
use crate::net::raw::MioSocket;
use crate::net::socket::assert_nonblocking;

/// A Unix domain socket for datagrams.
///
/// All methods take a shared reference, so an `Arc` lets several tasks send and
/// receive at the same time.
///
/// # Examples
///
/// ```
/// use blitzen::net::UnixDatagram;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let (socket, peer) = UnixDatagram::pair()?;
/// socket.send(b"hello").await?;
/// let mut bytes = [0; 16];
/// let count = peer.recv(&mut bytes).await?;
/// assert_eq!(&bytes[..count], b"hello");
/// # Ok(())
/// # }
/// ```
pub struct UnixDatagram {
    io: PollEvented<mio::net::UnixDatagram>,
}

impl UnixDatagram {
    /// Creates a socket that is bound to `path`, which must not exist yet.
    ///
    /// On Linux a path that begins with a zero byte is a name in the abstract
    /// namespace.
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("UnixDatagram")]
    /// let socket = UnixDatagram::bind(dir.join("socket"))?;
    /// assert!(dir.join("socket").exists());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `socket(2)` or `bind(2)`, such as
    /// [`AddrInUse`](io::ErrorKind::AddrInUse) if `path` exists;
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if it is too long; or an
    /// error if the runtime has been shut down.
    ///
    /// # Panics
    /// Panics outside a runtime, and in a runtime without I/O.
    #[track_caller]
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixDatagram> {
        let addr = addr_from_path(path.as_ref())?;
        Self::new(mio::net::UnixDatagram::bind_addr(&addr)?, Ready::EMPTY)
    }

    /// Creates a socket without an address: it can send, but nobody can send to
    /// it.
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("UnixDatagram")]
    /// let receiver = UnixDatagram::bind(dir.join("socket"))?;
    /// let sender = UnixDatagram::unbound()?;
    /// sender.send_to(b"hello", dir.join("socket")).await?;
    /// let (count, from) = receiver.recv_from(&mut [0; 16]).await?;
    /// assert!(count == 5 && from.is_unnamed());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `socket(2)`, such as `EMFILE` without free
    /// descriptors, or an error if the runtime has been shut down.
    ///
    /// # Panics
    /// Panics outside a runtime, and in a runtime without I/O.
    #[track_caller]
    pub fn unbound() -> io::Result<UnixDatagram> {
        Self::new(mio::net::UnixDatagram::unbound()?, Ready::EMPTY)
    }

    /// Creates two sockets that are connected to each other.
    ///
    /// # Examples
    ///
    #[doc = unix_datagram_pair!("socket", "peer")]
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `socketpair(2)`, such as `EMFILE` without free
    /// descriptors, or an error if the runtime has been shut down.
    ///
    /// # Panics
    /// Panics outside a runtime, and in a runtime without I/O.
    #[track_caller]
    pub fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
        let (one, other) = mio::net::UnixDatagram::pair()?;
        // There is room in both, and nothing to read.
        Ok((
            Self::new(one, Ready::WRITABLE)?,
            Self::new(other, Ready::WRITABLE)?,
        ))
    }

    #[track_caller]
    fn new(socket: mio::net::UnixDatagram, initially: Ready) -> io::Result<Self> {
        let io = PollEvented::new(socket, BOTH, initially)?;
        Ok(Self { io })
    }

    fn io(&self) -> &PollEvented<mio::net::UnixDatagram> {
        &self.io
    }

    /// Creates a socket from one of the standard library, which must be in
    /// non-blocking mode.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::UnixDatagram;
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let std_socket = std::os::unix::net::UnixDatagram::unbound()?;
    /// std_socket.set_nonblocking(true)?;
    /// let socket = UnixDatagram::from_std(std_socket)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of registering with the system's poller, such as
    /// `epoll_ctl(2)`, or an error if the runtime has been shut down.
    ///
    /// # Panics
    /// Panics outside a runtime, in a runtime without I/O and, with debug
    /// assertions, if the socket is in blocking mode.
    #[track_caller]
    pub fn from_std(datagram: std::os::unix::net::UnixDatagram) -> io::Result<UnixDatagram> {
        assert_nonblocking(&datagram);
        Self::new(mio::net::UnixDatagram::from_std(datagram), Ready::EMPTY)
    }

    /// Converts the socket into one of the standard library. It stays in
    /// non-blocking mode.
    ///
    /// # Examples
    ///
    #[doc = unix_datagram_pair!("socket", "_peer")]
    /// let std_socket: std::os::unix::net::UnixDatagram = socket.into_std()?;
    /// std_socket.set_nonblocking(false)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of leaving the system's poller, such as
    /// `epoll_ctl(2)`.
    pub fn into_std(self) -> io::Result<std::os::unix::net::UnixDatagram> {
        Ok(self.io.into_inner()?.into())
    }

    /// Connects the socket to `path`: [`send`](Self::send) sends there, and only
    /// datagrams from there are received.
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("UnixDatagram")]
    /// let receiver = UnixDatagram::bind(dir.join("socket"))?;
    /// let sender = UnixDatagram::unbound()?;
    /// sender.connect(dir.join("socket"))?;
    /// sender.send(b"hello").await?;
    /// assert_eq!(receiver.recv(&mut [0; 16]).await?, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `connect(2)`, such as
    /// [`NotFound`](io::ErrorKind::NotFound) or
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused), or
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if `path` is too long.
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        SockRef::from(&*self.io).connect(&sockaddr_from_path(path.as_ref())?)
    }

    /// Returns the address that the socket is bound to.
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("UnixDatagram")]
    /// let socket = UnixDatagram::bind(dir.join("socket"))?;
    /// assert_eq!(socket.local_addr()?.as_pathname(), Some(&*dir.join("socket")));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr().map(SocketAddr)
    }

    /// Returns the address that the socket is connected to.
    ///
    /// # Examples
    ///
    #[doc = unix_datagram_pair!("socket", "_peer")]
    /// assert!(socket.peer_addr()?.is_unnamed());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `getpeername(2)`, such as
    /// [`NotConnected`](io::ErrorKind::NotConnected).
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.peer_addr().map(SocketAddr)
    }

    /// Shuts down receiving, sending or both.
    ///
    /// Not every system wakes the tasks that wait to receive: Linux does not.
    ///
    /// # Examples
    ///
    #[doc = unix_datagram_pair!("socket", "_peer")]
    /// socket.shutdown(std::net::Shutdown::Both)?;
    /// assert!(socket.send(b"hello").await.is_err());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `shutdown(2)`, such as
    /// [`NotConnected`](io::ErrorKind::NotConnected).
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.io.shutdown(how)
    }

    datagram_methods!(
        pair: unix_datagram_pair,
        bound: unix_datagram_bound,
        addr: SocketAddr,
        with_addr: with_unix_addr,
        is_peer: "assert_eq!(from.as_pathname(), Some(&*dir.join(\"peer\")));",
        refused: "the peer is closed",
    );

    /// Sends `buf` as one datagram to the socket at `target`, and returns the
    /// number of bytes sent.
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("UnixDatagram")]
    /// let socket = UnixDatagram::unbound()?;
    /// let peer = UnixDatagram::bind(dir.join("peer"))?;
    /// assert_eq!(socket.send_to(b"hello", dir.join("peer")).await?, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, nothing was sent.
    ///
    /// # Errors
    /// Returns the error of `sendto(2)`, such as
    /// [`NotFound`](io::ErrorKind::NotFound) or
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused);
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if `target` is too long; or
    /// an error if the runtime has been shut down.
    pub async fn send_to<P: AsRef<Path>>(&self, buf: &[u8], target: P) -> io::Result<usize> {
        let target = sockaddr_from_path(target.as_ref())?;
        let send = || self.send_to_once(buf, &target);
        self.io.attempts(Interest::WRITABLE, send).await
    }

    /// Attempts to send `buf` as one datagram to the socket at `target`.
    ///
    /// Only the task that polled last, with this function or another one that
    /// polls to send, is woken.
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("UnixDatagram")]
    /// let socket = UnixDatagram::unbound()?;
    /// let peer = UnixDatagram::bind(dir.join("peer"))?;
    /// let target = dir.join("peer");
    /// let sent = std::future::poll_fn(|cx| socket.poll_send_to(cx, b"hello", &target)).await?;
    /// assert_eq!(sent, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`send_to`](Self::send_to).
    pub fn poll_send_to<P: AsRef<Path>>(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        target: P,
    ) -> Poll<io::Result<usize>> {
        let target = sockaddr_from_path(target.as_ref())?;
        let registration = self.io.registration();
        registration.poll_write_io(cx, || self.send_to_once(buf, &target))
    }

    /// Sends `buf` as one datagram to the socket at `target`, without waiting.
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("UnixDatagram")]
    /// let socket = UnixDatagram::unbound()?;
    /// let peer = UnixDatagram::bind(dir.join("peer"))?;
    /// socket.writable().await?;
    /// assert_eq!(socket.try_send_to(b"hello", dir.join("peer"))?, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room, and
    /// otherwise the errors of [`send_to`](Self::send_to).
    pub fn try_send_to<P: AsRef<Path>>(&self, buf: &[u8], target: P) -> io::Result<usize> {
        let target = sockaddr_from_path(target.as_ref())?;
        let send = || self.send_to_once(buf, &target);
        self.io.attempt(Interest::WRITABLE, send)
    }

    fn send_to_once(&self, buf: &[u8], target: &SockAddr) -> io::Result<usize> {
        self.io.with(|raw| raw.send_to(buf, target))
    }
}

fn with_unix_addr(received: io::Result<(usize, SockAddr)>) -> io::Result<(usize, SocketAddr)> {
    let (count, from) = received?;
    Ok((count, addr_from_sockaddr(&from)?))
}

std_traits!(UnixDatagram, std::os::unix::net::UnixDatagram);
