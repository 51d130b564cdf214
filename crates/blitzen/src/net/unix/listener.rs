//! Waiting for connections.

use std::io;
use std::path::Path;
use std::task::{Context, Poll, ready};

use socket2::SockRef;

use super::addr::{SocketAddr, addr_from_path};
use super::stream::UnixStream;
use crate::io::{Interest, PollEvented, Ready};
use crate::net::socket::{LISTEN_BACKLOG, assert_nonblocking};

/// A socket that waits for connections on this machine.
///
/// ```
#[doc = unix_dir!()]
/// let path = dir.join("socket");
/// let listener = UnixListener::bind(&path)?;
/// let (client, accepted) = blitzen::join!(UnixStream::connect(&path), listener.accept());
/// let (stream, from) = accepted?;
/// assert!(from.is_unnamed());
/// # drop((client?, stream));
/// # Ok(()) }
/// ```
///
/// The path stays when the listener is gone: whoever wants to bind to it again
/// removes it first.
pub struct UnixListener {
    io: PollEvented<mio::net::UnixListener>,
}

impl UnixListener {
    /// Listens on a path that does not exist yet. On Linux a path that begins
    /// with a zero byte is a name in the abstract namespace, which leaves no
    /// trace.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let listener = UnixListener::bind(dir.join("socket"))?;
    /// # drop(listener);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O.
    #[track_caller]
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixListener> {
        Self::bind_addr(&SocketAddr(addr_from_path(path.as_ref())?))
    }

    /// Listens on an address.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let address = std::os::unix::net::SocketAddr::from_pathname(dir.join("socket"))?;
    /// let listener = UnixListener::bind_addr(&address.into())?;
    /// # drop(listener);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O.
    #[track_caller]
    pub fn bind_addr(addr: &SocketAddr) -> io::Result<UnixListener> {
        let listener = mio::net::UnixListener::bind_addr(&addr.0)?;
        // More than mio lets wait; a storm of connections is no accident.
        SockRef::from(&listener).listen(LISTEN_BACKLOG)?;
        Self::new(listener)
    }

    #[track_caller]
    pub(super) fn new(listener: mio::net::UnixListener) -> io::Result<Self> {
        let io = PollEvented::new(listener, Interest::READABLE, Ready::EMPTY)?;
        Ok(Self { io })
    }

    /// Takes over a listener of std's, which has to be in non-blocking mode.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let listener = std::os::unix::net::UnixListener::bind(dir.join("socket"))?;
    /// listener.set_nonblocking(true)?;
    /// let listener = UnixListener::from_std(listener)?;
    /// # drop(listener);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O. With debug assertions, if the
    /// listener is in blocking mode.
    #[track_caller]
    pub fn from_std(listener: std::os::unix::net::UnixListener) -> io::Result<UnixListener> {
        assert_nonblocking(&listener);
        Self::new(mio::net::UnixListener::from_std(listener))
    }

    /// Hands the listener over to std. It stays in non-blocking mode.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let listener = UnixListener::bind(dir.join("socket"))?.into_std()?;
    /// listener.set_nonblocking(false)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says.
    pub fn into_std(self) -> io::Result<std::os::unix::net::UnixListener> {
        Ok(self.io.into_inner()?.into())
    }

    /// The address it listens on.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let listener = UnixListener::bind(dir.join("socket"))?;
    /// assert_eq!(listener.local_addr()?.as_pathname(), Some(&*dir.join("socket")));
    /// # Ok(()) }
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr().map(SocketAddr)
    }

    /// Takes the error that is queued for the socket, if there is one.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let listener = UnixListener::bind(dir.join("socket"))?;
    /// assert!(listener.take_error()?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.io.take_error()
    }

    /// Waits for a connection.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let path = dir.join("socket");
    /// let listener = UnixListener::bind(&path)?;
    /// let (client, accepted) = blitzen::join!(UnixStream::connect(&path), listener.accept());
    /// # (client?, accepted?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down. After most
    /// errors the next call may well succeed.
    ///
    /// # Cancel safety
    /// A connection is accepted by a future that completes, or waits for the
    /// next one.
    pub async fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let registration = self.io.registration();
        let (stream, from) = registration
            .async_io(Interest::READABLE, || self.io.accept())
            .await?;
        Ok((UnixStream::accepted(stream)?, SocketAddr(from)))
    }

    /// Waits for a connection. Of several tasks that wait with this function,
    /// the one that called last is woken.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let path = dir.join("socket");
    /// let listener = UnixListener::bind(&path)?;
    /// let accept = std::future::poll_fn(|cx| listener.poll_accept(cx));
    /// let (client, accepted) = blitzen::join!(UnixStream::connect(&path), accept);
    /// # (client?, accepted?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(UnixStream, SocketAddr)>> {
        let registration = self.io.registration();
        let (stream, from) = ready!(registration.poll_read_io(cx, || self.io.accept()))?;
        Poll::Ready(UnixStream::accepted(stream).map(|stream| (stream, SocketAddr(from))))
    }
}

std_traits!(UnixListener, std::os::unix::net::UnixListener);
