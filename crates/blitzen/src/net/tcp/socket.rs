//! A TCP socket that is neither a listener nor a connection yet.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{TcpListener, TcpStream};

/// A TCP socket that is neither listening nor connected yet, so that its options
/// can be set first.
///
/// # Examples
///
/// ```
/// use blitzen::net::TcpSocket;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let socket = TcpSocket::new_v4()?;
/// socket.set_reuseaddr(true)?;
/// socket.bind("127.0.0.1:0".parse().unwrap())?;
/// let listener = socket.listen(1024)?;
///
/// let socket = TcpSocket::new_v4()?;
/// socket.set_send_buffer_size(64 * 1024)?;
/// let stream = socket.connect(listener.local_addr()?).await?;
/// # drop(stream);
/// # Ok(())
/// # }
/// ```
pub struct TcpSocket {
    io: Socket,
}

impl TcpSocket {
    /// Creates a socket for IPv4.
    ///
    /// # Examples
    ///
    #[doc = tcp_socket!()]
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `socket(2)`, such as `EMFILE` without free
    /// descriptors.
    pub fn new_v4() -> io::Result<TcpSocket> {
        Self::new(Domain::IPV4)
    }

    /// Creates a socket for IPv6.
    ///
    /// # Examples
    ///
    #[doc = tcp_socket_v6!()]
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `socket(2)`, such as `EMFILE` without free
    /// descriptors.
    pub fn new_v6() -> io::Result<TcpSocket> {
        Self::new(Domain::IPV6)
    }

    fn new(domain: Domain) -> io::Result<Self> {
        let io = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        io.set_nonblocking(true)?;
        Ok(Self { io })
    }

    fn raw(&self) -> &Socket {
        &self.io
    }

    /// Creates a socket from a stream of the standard library that is not
    /// connected yet. It must be in non-blocking mode.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::TcpSocket;
    /// use socket2::{Domain, Socket, Type};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    /// socket.set_nonblocking(true)?;
    /// let socket = TcpSocket::from_std_stream(socket.into());
    /// # Ok(()) }
    /// ```
    pub fn from_std_stream(std_stream: std::net::TcpStream) -> TcpSocket {
        Self {
            io: std_stream.into(),
        }
    }

    /// Binds the socket to `addr`. Port 0 stands for any free port.
    ///
    /// # Examples
    ///
    #[doc = tcp_socket!()]
    /// socket.bind("127.0.0.1:0".parse().unwrap())?;
    /// assert_ne!(socket.local_addr()?.port(), 0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `bind(2)`, such as
    /// [`AddrInUse`](io::ErrorKind::AddrInUse) or
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied).
    pub fn bind(&self, addr: SocketAddr) -> io::Result<()> {
        self.io.bind(&addr.into())
    }

    /// Connects to `addr`.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::{TcpListener, TcpSocket};
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let stream = TcpSocket::new_v4()?.connect(listener.local_addr()?).await?;
    /// assert_eq!(stream.peer_addr()?, listener.local_addr()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future gives the attempt up and closes the socket.
    ///
    /// # Errors
    /// Returns the error of `connect(2)`, such as
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused) or
    /// [`TimedOut`](io::ErrorKind::TimedOut), or an error if the runtime has been
    /// shut down.
    pub async fn connect(self, addr: SocketAddr) -> io::Result<TcpStream> {
        match self.io.connect(&SockAddr::from(addr)) {
            Err(error) if !is_in_progress(&error) => return Err(error),
            _ => {}
        }
        TcpStream::connecting(mio::net::TcpStream::from_std(self.io.into())).await
    }

    /// Turns the socket into a listener. About `backlog` connections may wait to
    /// be accepted.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::TcpSocket;
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = TcpSocket::new_v4()?;
    /// socket.bind("127.0.0.1:0".parse().unwrap())?;
    /// let listener = socket.listen(128)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `listen(2)`, such as
    /// [`AddrInUse`](io::ErrorKind::AddrInUse), or an error if the runtime has
    /// been shut down.
    ///
    /// # Panics
    /// Panics outside a runtime, and in a runtime without I/O.
    #[track_caller]
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        self.io.listen(backlog.try_into().unwrap_or(i32::MAX))?;
        TcpListener::new(mio::net::TcpListener::from_std(self.io.into()))
    }

    /// Returns the address that the socket is bound to.
    ///
    /// # Examples
    ///
    #[doc = tcp_socket!()]
    /// assert_eq!(socket.local_addr()?.port(), 0); // not bound yet
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let addr = self.io.local_addr()?;
        addr.as_socket()
            .ok_or_else(|| io::Error::other("the address is neither IPv4 nor IPv6"))
    }

    /// Returns the pending error of the socket, and clears it (`SO_ERROR`).
    ///
    /// # Examples
    ///
    #[doc = tcp_socket!()]
    /// assert!(socket.take_error()?.is_none());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `getsockopt(2)`.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.io.take_error()
    }

    /// Returns whether keep-alive probes are sent on an idle connection
    /// (`SO_KEEPALIVE`).
    ///
    /// # Examples
    ///
    #[doc = tcp_socket!()]
    /// assert!(!socket.keepalive()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `getsockopt(2)`.
    pub fn keepalive(&self) -> io::Result<bool> {
        self.io.keepalive()
    }

    /// Sets whether keep-alive probes are sent on an idle connection
    /// (`SO_KEEPALIVE`).
    ///
    /// `socket2::SockRef` sets how often.
    ///
    /// # Examples
    ///
    #[doc = tcp_socket!()]
    /// socket.set_keepalive(true)?;
    /// assert!(socket.keepalive()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `setsockopt(2)`.
    pub fn set_keepalive(&self, keepalive: bool) -> io::Result<()> {
        self.io.set_keepalive(keepalive)
    }

    /// Returns whether the address may be bound again (`SO_REUSEADDR`).
    ///
    /// # Examples
    ///
    #[doc = tcp_socket!()]
    /// assert!(!socket.reuseaddr()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `getsockopt(2)`.
    pub fn reuseaddr(&self) -> io::Result<bool> {
        self.io.reuse_address()
    }

    /// Sets whether the address may be bound again (`SO_REUSEADDR`).
    ///
    /// On Unix this lets a server start again while connections of its
    /// predecessor linger. On Windows it lets other programs take the address
    /// over, and is best left alone.
    ///
    /// # Examples
    ///
    #[doc = tcp_socket!()]
    /// socket.set_reuseaddr(true)?;
    /// assert!(socket.reuseaddr()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `setsockopt(2)`.
    pub fn set_reuseaddr(&self, reuseaddr: bool) -> io::Result<()> {
        self.io.set_reuse_address(reuseaddr)
    }

    /// Returns whether other sockets may bind the same address (`SO_REUSEPORT`).
    ///
    /// # Examples
    ///
    #[doc = tcp_socket!()]
    /// assert!(!socket.reuseport()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `getsockopt(2)`.
    #[cfg(all(unix, not(any(target_os = "solaris", target_os = "illumos"))))]
    pub fn reuseport(&self) -> io::Result<bool> {
        self.io.reuse_port()
    }

    /// Sets whether other sockets may bind the same address (`SO_REUSEPORT`). The
    /// system then spreads the connections over them.
    ///
    /// # Examples
    ///
    #[doc = tcp_socket!()]
    /// socket.set_reuseport(true)?;
    /// assert!(socket.reuseport()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `setsockopt(2)`.
    #[cfg(all(unix, not(any(target_os = "solaris", target_os = "illumos"))))]
    pub fn set_reuseport(&self, reuseport: bool) -> io::Result<()> {
        self.io.set_reuse_port(reuseport)
    }

    /// Returns the size of the send buffer in bytes (`SO_SNDBUF`).
    ///
    /// # Examples
    ///
    #[doc = tcp_socket!()]
    /// assert!(socket.send_buffer_size()? > 0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `getsockopt(2)`.
    pub fn send_buffer_size(&self) -> io::Result<u32> {
        Ok(saturating_u32(self.io.send_buffer_size()?))
    }

    /// Sets the size of the send buffer in bytes (`SO_SNDBUF`). The system may
    /// choose another size; Linux doubles it.
    ///
    /// # Examples
    ///
    #[doc = tcp_socket!()]
    /// socket.set_send_buffer_size(65536)?;
    /// assert!(socket.send_buffer_size()? >= 65536);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `setsockopt(2)`.
    pub fn set_send_buffer_size(&self, size: u32) -> io::Result<()> {
        self.io.set_send_buffer_size(size as usize)
    }

    /// Returns the size of the receive buffer in bytes (`SO_RCVBUF`).
    ///
    /// # Examples
    ///
    #[doc = tcp_socket!()]
    /// assert!(socket.recv_buffer_size()? > 0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `getsockopt(2)`.
    pub fn recv_buffer_size(&self) -> io::Result<u32> {
        Ok(saturating_u32(self.io.recv_buffer_size()?))
    }

    /// Sets the size of the receive buffer in bytes (`SO_RCVBUF`). The system may
    /// choose another size; Linux doubles it.
    ///
    /// It must be set before [`listen`](Self::listen) or
    /// [`connect`](Self::connect).
    ///
    /// # Examples
    ///
    #[doc = tcp_socket!()]
    /// socket.set_recv_buffer_size(65536)?;
    /// assert!(socket.recv_buffer_size()? >= 65536);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `setsockopt(2)`.
    pub fn set_recv_buffer_size(&self, size: u32) -> io::Result<()> {
        self.io.set_recv_buffer_size(size as usize)
    }

    nodelay_methods!(tcp_socket!());
    tclass_methods!(tcp_socket_v6!());
    tos_methods!(tcp_socket!());
    linger_methods!(tcp_socket!());
    device_methods!(tcp_socket!());
}

/// Whether `connect` failed only because it would have had to wait.
fn is_in_progress(error: &io::Error) -> bool {
    #[cfg(unix)]
    return error.raw_os_error() == Some(libc::EINPROGRESS);
    #[cfg(not(unix))]
    return error.kind() == io::ErrorKind::WouldBlock;
}

fn saturating_u32(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

impl fmt::Debug for TcpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.io.fmt(f)
    }
}

descriptor_traits!(TcpSocket);

#[cfg(unix)]
impl std::os::fd::FromRawFd for TcpSocket {
    /// Creates a socket from `fd`, which must be a TCP socket in non-blocking
    /// mode that is neither listening nor connected.
    ///
    /// # Safety
    /// `fd` must be open, and owned by nobody else.
    unsafe fn from_raw_fd(fd: std::os::fd::RawFd) -> Self {
        Self {
            // SAFETY: the caller hands over an open socket that nobody else owns.
            io: unsafe { Socket::from_raw_fd(fd) },
        }
    }
}

#[cfg(unix)]
impl std::os::fd::IntoRawFd for TcpSocket {
    fn into_raw_fd(self) -> std::os::fd::RawFd {
        self.io.into_raw_fd()
    }
}

#[cfg(windows)]
impl std::os::windows::io::FromRawSocket for TcpSocket {
    /// Creates a socket from `socket`, which must be a TCP socket in
    /// non-blocking mode that is neither listening nor connected.
    ///
    /// # Safety
    /// `socket` must be open, and owned by nobody else.
    unsafe fn from_raw_socket(socket: std::os::windows::io::RawSocket) -> Self {
        Self {
            // SAFETY: the caller hands over an open socket that nobody else owns.
            io: unsafe { Socket::from_raw_socket(socket) },
        }
    }
}

#[cfg(windows)]
impl std::os::windows::io::IntoRawSocket for TcpSocket {
    fn into_raw_socket(self) -> std::os::windows::io::RawSocket {
        self.io.into_raw_socket()
    }
}
