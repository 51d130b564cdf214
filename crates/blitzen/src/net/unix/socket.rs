//! A Unix domain socket that is not in use yet.

use std::fmt;
use std::io;
use std::path::Path;

use socket2::{Domain, Socket, Type};

use super::addr::sockaddr_from_path;
use super::{UnixDatagram, UnixListener, UnixStream};

/// A Unix domain socket that can be bound before it listens, connects, or
/// carries datagrams.
///
/// # Examples
///
#[doc = unix_dir!("UnixSocket")]
/// let socket = UnixSocket::new_stream()?;
/// socket.bind(dir.join("server"))?;
/// let listener = socket.listen(128)?;
///
/// let socket = UnixSocket::new_stream()?;
/// socket.bind(dir.join("client"))?;
/// let stream = socket.connect(dir.join("server")).await?;
/// # Ok(()) }
/// ```
pub struct UnixSocket {
    io: Socket,
    kind: SocketKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SocketKind {
    Stream,
    Datagram,
}

impl UnixSocket {
    /// Creates a socket for datagrams.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::UnixSocket;
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let socket = UnixSocket::new_datagram()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `socket(2)`, such as `EMFILE` without free
    /// descriptors.
    pub fn new_datagram() -> io::Result<UnixSocket> {
        Self::new(SocketKind::Datagram)
    }

    /// Creates a socket for connections.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::UnixSocket;
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let socket = UnixSocket::new_stream()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `socket(2)`, such as `EMFILE` without free
    /// descriptors.
    pub fn new_stream() -> io::Result<UnixSocket> {
        Self::new(SocketKind::Stream)
    }

    fn new(kind: SocketKind) -> io::Result<Self> {
        let system_type = match kind {
            SocketKind::Stream => Type::STREAM,
            SocketKind::Datagram => Type::DGRAM,
        };
        let io = Socket::new(Domain::UNIX, system_type, None)?;
        io.set_nonblocking(true)?;
        Ok(Self { io, kind })
    }

    /// Binds the socket to `path`, which must not exist yet.
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("UnixSocket")]
    /// let socket = UnixSocket::new_stream()?;
    /// socket.bind(dir.join("socket"))?;
    /// assert!(dir.join("socket").exists());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `bind(2)`, such as
    /// [`AddrInUse`](io::ErrorKind::AddrInUse) if `path` exists, or
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if it is too long.
    pub fn bind(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.io.bind(&sockaddr_from_path(path.as_ref())?)
    }

    /// Turns the socket into a listener. About `backlog` connections may wait to
    /// be accepted.
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("UnixSocket")]
    /// let socket = UnixSocket::new_stream()?;
    /// socket.bind(dir.join("socket"))?;
    /// let listener = socket.listen(128)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `listen(2)`, an error if the socket is for datagrams,
    /// or an error if the runtime has been shut down.
    ///
    /// # Panics
    /// Panics outside a runtime, and in a runtime without I/O.
    #[track_caller]
    pub fn listen(self, backlog: u32) -> io::Result<UnixListener> {
        self.check_kind(
            SocketKind::Stream,
            "listen cannot be called on a datagram socket",
        )?;
        self.io.listen(backlog.try_into().unwrap_or(i32::MAX))?;
        UnixListener::new(mio::net::UnixListener::from_std(self.io.into()))
    }

    /// Connects to the socket at `path`.
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("{UnixListener, UnixSocket}")]
    /// let listener = UnixListener::bind(dir.join("socket"))?;
    /// let stream = UnixSocket::new_stream()?.connect(dir.join("socket")).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future gives the attempt up and closes the socket.
    ///
    /// # Errors
    /// Returns the error of `connect(2)`, such as
    /// [`NotFound`](io::ErrorKind::NotFound) or
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused); an error if the
    /// socket is for datagrams; or an error if the runtime has been shut down.
    pub async fn connect(self, path: impl AsRef<Path>) -> io::Result<UnixStream> {
        self.check_kind(
            SocketKind::Stream,
            "connect cannot be called on a datagram socket",
        )?;
        match self.io.connect(&sockaddr_from_path(path.as_ref())?) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        UnixStream::connecting(mio::net::UnixStream::from_std(self.io.into())).await
    }

    /// Turns the socket into a [`UnixDatagram`].
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("UnixSocket")]
    /// let socket = UnixSocket::new_datagram()?;
    /// socket.bind(dir.join("socket"))?;
    /// let datagram = socket.datagram()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the socket is for connections, or if the runtime has
    /// been shut down.
    ///
    /// # Panics
    /// Panics outside a runtime, and in a runtime without I/O.
    #[track_caller]
    pub fn datagram(self) -> io::Result<UnixDatagram> {
        self.check_kind(
            SocketKind::Datagram,
            "datagram cannot be called on a stream socket",
        )?;
        UnixDatagram::from_std(self.io.into())
    }

    fn check_kind(&self, kind: SocketKind, otherwise: &'static str) -> io::Result<()> {
        match self.kind == kind {
            true => Ok(()),
            false => Err(io::Error::other(otherwise)),
        }
    }
}

impl fmt::Debug for UnixSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.io.fmt(f)
    }
}

descriptor_traits!(UnixSocket);

impl std::os::fd::FromRawFd for UnixSocket {
    /// Creates a socket from `fd`, which must be a Unix domain socket in
    /// non-blocking mode that is not in use yet.
    ///
    /// # Safety
    /// `fd` must be open, and owned by nobody else.
    unsafe fn from_raw_fd(fd: std::os::fd::RawFd) -> Self {
        // SAFETY: the caller hands over an open descriptor that nobody else owns.
        let io = unsafe { Socket::from_raw_fd(fd) };
        let kind = match io.r#type() {
            Ok(Type::DGRAM) => SocketKind::Datagram,
            _ => SocketKind::Stream,
        };
        Self { io, kind }
    }
}

impl std::os::fd::IntoRawFd for UnixSocket {
    fn into_raw_fd(self) -> std::os::fd::RawFd {
        self.io.into_raw_fd()
    }
}
