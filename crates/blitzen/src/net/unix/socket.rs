//! A Unix domain socket that is not in use yet.

use std::fmt;
use std::io;
use std::path::Path;

use socket2::{Domain, Socket, Type};

use super::addr::sockaddr_from_path;
use super::{UnixDatagram, UnixListener, UnixStream};

/// A Unix domain socket that can be given an address before it listens,
/// connects, or carries datagrams.
///
/// ```
#[doc = unix_dir!()]
/// let socket = UnixSocket::new_stream()?;
/// socket.bind(dir.join("socket"))?;
/// let listener = socket.listen(128)?;
///
/// let socket = UnixSocket::new_stream()?;
/// socket.bind(dir.join("client"))?;
/// let stream = socket.connect(dir.join("socket")).await?;
/// # drop((listener, stream));
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
    /// A socket for datagrams.
    ///
    /// ```
    /// let socket = blitzen::net::UnixSocket::new_datagram()?;
    /// # drop(socket);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new_datagram() -> io::Result<UnixSocket> {
        Self::new(SocketKind::Datagram)
    }

    /// A socket for connections.
    ///
    /// ```
    /// let socket = blitzen::net::UnixSocket::new_stream()?;
    /// # drop(socket);
    /// # Ok::<(), std::io::Error>(())
    /// ```
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

    /// Gives the socket a path, which does not exist yet.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let socket = UnixSocket::new_stream()?;
    /// socket.bind(dir.join("socket"))?;
    /// assert!(dir.join("socket").exists());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says.
    pub fn bind(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.io.bind(&sockaddr_from_path(path.as_ref())?)
    }

    /// Waits for connections; up to about `backlog` of them may wait to be
    /// accepted.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let socket = UnixSocket::new_stream()?;
    /// socket.bind(dir.join("socket"))?;
    /// let listener = socket.listen(128)?;
    /// # drop(listener);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says; if it is a socket for datagrams; and if the runtime
    /// has been shut down.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O.
    #[track_caller]
    pub fn listen(self, backlog: u32) -> io::Result<UnixListener> {
        self.check_kind(
            SocketKind::Stream,
            "listen cannot be called on a datagram socket",
        )?;
        self.io.listen(backlog.try_into().unwrap_or(i32::MAX))?;
        UnixListener::new(mio::net::UnixListener::from_std(self.io.into()))
    }

    /// Connects to a path.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let listener = UnixListener::bind(dir.join("socket"))?;
    /// let stream = UnixSocket::new_stream()?.connect(dir.join("socket")).await?;
    /// # drop((listener, stream));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says; if it is a socket for datagrams; and if the runtime
    /// has been shut down.
    ///
    /// # Cancel safety
    /// Dropping the future closes the socket.
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

    /// A socket that carries datagrams.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let socket = UnixSocket::new_datagram()?;
    /// socket.bind(dir.join("socket"))?;
    /// let socket: UnixDatagram = socket.datagram()?;
    /// # drop(socket);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If it is a socket for connections; what the system says; and if the
    /// runtime has been shut down.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O.
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
    /// A socket that is not in use yet, in non-blocking mode.
    ///
    /// # Safety
    /// The descriptor is open, and belongs to nobody else.
    unsafe fn from_raw_fd(fd: std::os::fd::RawFd) -> Self {
        // SAFETY: the caller's word.
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
