//! A TCP socket that is neither a listener nor a connection yet.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{TcpListener, TcpStream};

/// A TCP socket whose options can be set before it listens or connects.
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
    /// A socket for IPv4.
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v4()?;
    /// # drop(socket);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new_v4() -> io::Result<TcpSocket> {
        Self::new(Domain::IPV4)
    }

    /// A socket for IPv6.
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v6()?;
    /// # drop(socket);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new_v6() -> io::Result<TcpSocket> {
        Self::new(Domain::IPV6)
    }

    fn new(domain: Domain) -> io::Result<Self> {
        let io = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        io.set_nonblocking(true)?;
        Ok(Self { io })
    }

    /// Takes over a socket of std's that is not connected yet, and not in use
    /// elsewhere. It has to be in non-blocking mode.
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// use socket2::{Domain, Socket, Type};
    ///
    /// let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    /// socket.set_nonblocking(true)?;
    /// let socket = TcpSocket::from_std_stream(socket.into());
    /// # drop(socket);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn from_std_stream(std_stream: std::net::TcpStream) -> TcpSocket {
        Self {
            io: std_stream.into(),
        }
    }

    /// Gives the socket an address.
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v4()?;
    /// socket.bind("127.0.0.1:0".parse().unwrap())?;
    /// assert_ne!(socket.local_addr()?.port(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the system says.
    pub fn bind(&self, addr: SocketAddr) -> io::Result<()> {
        self.io.bind(&addr.into())
    }

    /// Connects.
    ///
    /// ```
    /// # use blitzen::net::{TcpListener, TcpSocket};
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let stream = TcpSocket::new_v4()?.connect(listener.local_addr()?).await?;
    /// assert_eq!(stream.peer_addr()?, listener.local_addr()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Cancel safety
    /// Dropping the future closes the socket.
    pub async fn connect(self, addr: SocketAddr) -> io::Result<TcpStream> {
        match self.io.connect(&SockAddr::from(addr)) {
            Err(error) if !is_in_progress(&error) => return Err(error),
            _ => {}
        }
        TcpStream::connecting(mio::net::TcpStream::from_std(self.io.into())).await
    }

    /// Waits for connections; up to about `backlog` of them may wait to be
    /// accepted.
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = TcpSocket::new_v4()?;
    /// socket.bind("127.0.0.1:0".parse().unwrap())?;
    /// let listener = socket.listen(128)?;
    /// # drop(listener);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O.
    #[track_caller]
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        self.io.listen(backlog.try_into().unwrap_or(i32::MAX))?;
        TcpListener::new(mio::net::TcpListener::from_std(self.io.into()))
    }

    /// The address it is bound to.
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v4()?;
    /// assert_eq!(socket.local_addr()?.port(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let addr = self.io.local_addr()?;
        addr.as_socket()
            .ok_or_else(|| io::Error::other("the address is not one of the Internet"))
    }

    /// Takes the error that is queued for the socket, if there is one.
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v4()?;
    /// assert!(socket.take_error()?.is_none());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.io.take_error()
    }

    /// Whether the system asks an idle peer now and then if it is still there.
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v4()?;
    /// println!("{:?}", socket.keepalive()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn keepalive(&self) -> io::Result<bool> {
        self.io.keepalive()
    }

    /// Lets the system ask an idle peer now and then if it is still there
    /// (`SO_KEEPALIVE`). How often is set with `socket2::SockRef`.
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v4()?;
    /// socket.set_keepalive(true)?;
    /// assert!(socket.keepalive()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_keepalive(&self, keepalive: bool) -> io::Result<()> {
        self.io.set_keepalive(keepalive)
    }

    /// Whether the address may be used by others, or again at once.
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v4()?;
    /// println!("{:?}", socket.reuseaddr()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn reuseaddr(&self) -> io::Result<bool> {
        self.io.reuse_address()
    }

    /// Lets the address be used again at once after a server that used it has
    /// ended (`SO_REUSEADDR`; on Windows it means more, and is best left alone).
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v4()?;
    /// socket.set_reuseaddr(true)?;
    /// assert!(socket.reuseaddr()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_reuseaddr(&self, reuseaddr: bool) -> io::Result<()> {
        self.io.set_reuse_address(reuseaddr)
    }

    /// Whether other sockets may be bound to the same address.
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v4()?;
    /// println!("{:?}", socket.reuseport()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(all(unix, not(any(target_os = "solaris", target_os = "illumos"))))]
    pub fn reuseport(&self) -> io::Result<bool> {
        self.io.reuse_port()
    }

    /// Lets other sockets be bound to the same address, which then share what
    /// comes (`SO_REUSEPORT`).
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v4()?;
    /// socket.set_reuseport(true)?;
    /// assert!(socket.reuseport()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(all(unix, not(any(target_os = "solaris", target_os = "illumos"))))]
    pub fn set_reuseport(&self, reuseport: bool) -> io::Result<()> {
        self.io.set_reuse_port(reuseport)
    }

    /// How many bytes the system holds that are not sent yet.
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v4()?;
    /// println!("{:?}", socket.send_buffer_size()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn send_buffer_size(&self) -> io::Result<u32> {
        size(self.io.send_buffer_size()?)
    }

    /// Sets how many bytes the system holds that are not sent yet; it may
    /// choose more (`SO_SNDBUF`).
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v4()?;
    /// socket.set_send_buffer_size(65536)?;
    /// assert!(socket.send_buffer_size()? >= 65536);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_send_buffer_size(&self, size: u32) -> io::Result<()> {
        self.io.set_send_buffer_size(size as usize)
    }

    /// How many bytes the system holds that are not read yet.
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v4()?;
    /// println!("{:?}", socket.recv_buffer_size()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn recv_buffer_size(&self) -> io::Result<u32> {
        size(self.io.recv_buffer_size()?)
    }

    /// Sets how many bytes the system holds that are not read yet; it may choose
    /// more (`SO_RCVBUF`). To be set before `listen` and `connect`.
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v4()?;
    /// socket.set_recv_buffer_size(65536)?;
    /// assert!(socket.recv_buffer_size()? >= 65536);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_recv_buffer_size(&self, size: u32) -> io::Result<()> {
        self.io.set_recv_buffer_size(size as usize)
    }

    /// Whether small writes are sent at once instead of being gathered.
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v4()?;
    /// println!("{:?}", socket.nodelay()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn nodelay(&self) -> io::Result<bool> {
        self.io.tcp_nodelay()
    }

    /// Sends small writes at once instead of gathering them (`TCP_NODELAY`).
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v4()?;
    /// socket.set_nodelay(true)?;
    /// assert!(socket.nodelay()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.io.set_tcp_nodelay(nodelay)
    }

    /// The traffic class of packets sent over IPv6.
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v6()?;
    /// println!("{:?}", socket.tclass_v6()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(any(
        target_os = "android",
        target_os = "dragonfly",
        target_os = "freebsd",
        target_os = "fuchsia",
        target_os = "linux",
        target_os = "macos",
        target_os = "netbsd",
        target_os = "openbsd",
    ))]
    pub fn tclass_v6(&self) -> io::Result<u32> {
        self.io.tclass_v6()
    }

    /// Sets the traffic class of packets sent over IPv6 (`IPV6_TCLASS`).
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v6()?;
    /// socket.set_tclass_v6(96)?;
    /// assert_eq!(socket.tclass_v6()?, 96);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(any(
        target_os = "android",
        target_os = "dragonfly",
        target_os = "freebsd",
        target_os = "fuchsia",
        target_os = "linux",
        target_os = "macos",
        target_os = "netbsd",
        target_os = "openbsd",
    ))]
    pub fn set_tclass_v6(&self, tclass_v6: u32) -> io::Result<()> {
        self.io.set_tclass_v6(tclass_v6)
    }

    /// The type of service of packets sent over IPv4.
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v4()?;
    /// println!("{:?}", socket.tos_v4()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(not(any(
        target_os = "fuchsia",
        target_os = "redox",
        target_os = "solaris",
        target_os = "illumos",
        target_os = "haiku",
    )))]
    pub fn tos_v4(&self) -> io::Result<u32> {
        self.io.tos_v4()
    }

    /// Sets the type of service of packets sent over IPv4 (`IP_TOS`).
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v4()?;
    /// socket.set_tos_v4(96)?;
    /// assert_eq!(socket.tos_v4()?, 96);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(not(any(
        target_os = "fuchsia",
        target_os = "redox",
        target_os = "solaris",
        target_os = "illumos",
        target_os = "haiku",
    )))]
    pub fn set_tos_v4(&self, tos_v4: u32) -> io::Result<()> {
        self.io.set_tos_v4(tos_v4)
    }

    /// The former name of [`tos_v4`](Self::tos_v4).
    #[deprecated(note = "it concerns IPv4 only: use `tos_v4`")]
    #[doc(hidden)]
    #[cfg(not(any(
        target_os = "fuchsia",
        target_os = "redox",
        target_os = "solaris",
        target_os = "illumos",
        target_os = "haiku",
    )))]
    pub fn tos(&self) -> io::Result<u32> {
        self.tos_v4()
    }

    /// The former name of [`set_tos_v4`](Self::set_tos_v4).
    #[deprecated(note = "it concerns IPv4 only: use `set_tos_v4`")]
    #[doc(hidden)]
    #[cfg(not(any(
        target_os = "fuchsia",
        target_os = "redox",
        target_os = "solaris",
        target_os = "illumos",
        target_os = "haiku",
    )))]
    pub fn set_tos(&self, tos: u32) -> io::Result<()> {
        self.set_tos_v4(tos)
    }

    /// How long closing waits for data to be delivered; `None` if it does not.
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v4()?;
    /// assert_eq!(socket.linger()?, None);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        self.io.linger()
    }

    /// Lets closing wait for data to be delivered (`SO_LINGER`).
    #[deprecated = "closing the socket would block a worker; `set_zero_linger` does not"]
    pub fn set_linger(&self, dur: Option<Duration>) -> io::Result<()> {
        self.io.set_linger(dur)
    }

    /// Makes closing reset the connection: the peer gets an error instead of
    /// what was not delivered.
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v4()?;
    /// socket.set_zero_linger()?;
    /// assert_eq!(socket.linger()?, Some(std::time::Duration::ZERO));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.io.set_linger(Some(Duration::ZERO))
    }

    /// The network device it is bound to, if it is bound to one.
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v4()?;
    /// assert_eq!(socket.device()?, None);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    pub fn device(&self) -> io::Result<Option<Vec<u8>>> {
        self.io.device()
    }

    /// Binds the socket to a network device (`SO_BINDTODEVICE`); with `None` to
    /// none in particular.
    ///
    /// ```
    /// # use blitzen::net::TcpSocket;
    /// let socket = TcpSocket::new_v4()?;
    /// match socket.bind_device(Some(b"lo")) {
    ///     Ok(()) => assert_eq!(socket.device()?.as_deref(), Some(&b"lo"[..])),
    ///     Err(error) => println!("not allowed here: {error}"),
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    pub fn bind_device(&self, interface: Option<&[u8]>) -> io::Result<()> {
        self.io.bind_device(interface)
    }
}

/// Whether an attempt to connect goes on by itself.
fn is_in_progress(error: &io::Error) -> bool {
    #[cfg(unix)]
    return error.raw_os_error() == Some(libc::EINPROGRESS);
    #[cfg(not(unix))]
    return error.kind() == io::ErrorKind::WouldBlock;
}

/// A size that the system tells as a number that is never that large.
fn size(bytes: usize) -> io::Result<u32> {
    Ok(u32::try_from(bytes).unwrap_or(u32::MAX))
}

impl fmt::Debug for TcpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.io.fmt(f)
    }
}

descriptor_traits!(TcpSocket);

#[cfg(unix)]
impl std::os::fd::FromRawFd for TcpSocket {
    /// A socket that is neither a listener nor a connection yet, in
    /// non-blocking mode.
    ///
    /// # Safety
    /// The descriptor is open, and belongs to nobody else.
    unsafe fn from_raw_fd(fd: std::os::fd::RawFd) -> Self {
        Self {
            // SAFETY: the caller's word.
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
    /// A socket that is neither a listener nor a connection yet, in
    /// non-blocking mode.
    ///
    /// # Safety
    /// The socket is open, and belongs to nobody else.
    unsafe fn from_raw_socket(socket: std::os::windows::io::RawSocket) -> Self {
        Self {
            // SAFETY: the caller's word.
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
