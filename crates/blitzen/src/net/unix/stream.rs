//! A Unix domain connection.

use std::io;
use std::path::Path;
use std::task::{Context, Poll};

use super::addr::{SocketAddr, addr_from_path};
use super::split::{self, OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
use super::ucred::UCred;
use crate::io::{ReadBuf, Ready};
use crate::net::stream_io::StreamIo;
use crate::runtime::io::current;

/// A Unix domain connection.
///
/// [`connect`](Self::connect) makes one, and
/// [`UnixListener::accept`](super::UnixListener::accept) the one on the other
/// side; [`pair`](Self::pair) makes both. Reading and writing are in
/// [`AsyncReadExt`](crate::io::AsyncReadExt) and
/// [`AsyncWriteExt`](crate::io::AsyncWriteExt).
/// [`shutdown`](crate::io::AsyncWriteExt::shutdown) ends the direction that is
/// written; dropping the stream closes both.
///
/// # Examples
///
/// ```
/// use blitzen::io::{AsyncReadExt, AsyncWriteExt};
/// use blitzen::net::UnixStream;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let (mut stream, mut peer) = UnixStream::pair()?;
/// stream.write_all(b"hello").await?;
/// let mut bytes = [0; 5];
/// peer.read_exact(&mut bytes).await?;
/// assert_eq!(&bytes, b"hello");
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
/// A `read` or `write` that is dropped before it completes has moved no bytes.
/// `read_exact`, `write_all` and the other methods that loop may have moved
/// some.
pub struct UnixStream {
    io: StreamIo<mio::net::UnixStream>,
}

impl UnixStream {
    /// Connects to the socket at `path`.
    ///
    /// On Linux a path that begins with a zero byte is a name in the abstract
    /// namespace.
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("{UnixListener, UnixStream}")]
    /// let listener = UnixListener::bind(dir.join("socket"))?;
    /// let stream = UnixStream::connect(dir.join("socket")).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future gives the attempt up and closes its socket.
    ///
    /// # Errors
    /// Returns the error of `socket(2)` or `connect(2)`, such as
    /// [`NotFound`](io::ErrorKind::NotFound) or
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused);
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if `path` is too long; or an
    /// error if the runtime has been shut down.
    pub async fn connect<P: AsRef<Path>>(path: P) -> io::Result<UnixStream> {
        let addr = addr_from_path(path.as_ref())?;
        Self::connecting(mio::net::UnixStream::connect_addr(&addr)?).await
    }

    /// Connects to the socket at `addr`.
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("{UnixListener, UnixStream}")]
    /// let listener = UnixListener::bind(dir.join("socket"))?;
    /// let stream = UnixStream::connect_addr(&listener.local_addr()?).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future gives the attempt up and closes its socket.
    ///
    /// # Errors
    /// Returns the error of `socket(2)` or `connect(2)`, such as
    /// [`NotFound`](io::ErrorKind::NotFound) or
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused), or an error if the
    /// runtime has been shut down.
    pub async fn connect_addr(addr: &SocketAddr) -> io::Result<UnixStream> {
        Self::connecting(mio::net::UnixStream::connect_addr(&addr.0)?).await
    }

    /// Waits for the end of an attempt to connect.
    pub(super) async fn connecting(stream: mio::net::UnixStream) -> io::Result<Self> {
        let runtime = current();
        let io = StreamIo::connecting(stream)?;
        let mut stream = Self { io };
        // The socket becomes writable when the attempt has succeeded or failed.
        stream.writable().await?;
        match stream.io.take_error()? {
            Some(error) => Err(error),
            None => {
                stream
                    .io
                    .set_mode(runtime.world().socket_mode(), &runtime)?;
                Ok(stream)
            }
        }
    }

    /// Wraps a connection that a listener accepted. A client has usually sent
    /// something by then, so both directions are tried before they are waited
    /// for.
    pub(super) fn accepted(stream: mio::net::UnixStream) -> io::Result<Self> {
        Self::new(stream, Ready::READABLE | Ready::WRITABLE)
    }

    #[track_caller]
    fn new(stream: mio::net::UnixStream, initially: Ready) -> io::Result<Self> {
        let io = StreamIo::new(stream, initially)?;
        Ok(Self { io })
    }

    fn io(&self) -> &StreamIo<mio::net::UnixStream> {
        &self.io
    }

    /// Creates two streams that are connected to each other.
    ///
    /// # Examples
    ///
    #[doc = unix_pair!("stream", "peer")]
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
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (one, other) = mio::net::UnixStream::pair()?;
        // There is room in both, and nothing to read.
        Ok((
            Self::new(one, Ready::WRITABLE)?,
            Self::new(other, Ready::WRITABLE)?,
        ))
    }

    stream_std_methods!(
        UnixStream,
        std::os::unix::net::UnixStream,
        mio::net::UnixStream,
        unix_pair
    );

    /// Returns the address of this side.
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("{UnixListener, UnixStream}")]
    /// let listener = UnixListener::bind(dir.join("socket"))?;
    /// let stream = UnixStream::connect(dir.join("socket")).await?;
    /// assert!(stream.local_addr()?.is_unnamed());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr().map(SocketAddr)
    }

    /// Returns the address of the peer.
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("{UnixListener, UnixStream}")]
    /// let listener = UnixListener::bind(dir.join("socket"))?;
    /// let stream = UnixStream::connect(dir.join("socket")).await?;
    /// assert_eq!(stream.peer_addr()?.as_pathname(), Some(&*dir.join("socket")));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `getpeername(2)`, such as
    /// [`NotConnected`](io::ErrorKind::NotConnected).
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.peer_addr().map(SocketAddr)
    }

    /// Returns the credentials of the process at the other end.
    ///
    /// # Examples
    ///
    #[doc = unix_pair!("socket", "peer")]
    /// let credentials = socket.peer_cred()?;
    /// println!("user {}, process {:?}", credentials.uid(), credentials.pid());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of the system's call: `getsockopt(2)` with
    /// `SO_PEERCRED`, `getpeereid(3)` or `getpeerucred(3C)`.
    pub fn peer_cred(&self) -> io::Result<UCred> {
        UCred::from_peer(&*self.io)
    }

    stream_methods!(unix_pair);
    mode_methods!(unix_pair, zero_copy: false);

    pub(super) fn poll_read_shared(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Not plain: where descriptors are passed along, a read stops short
        // although there is more.
        self.io.poll_read(cx, buf, false)
    }

    split_methods!(unix_pair);
}

stream_traits!(UnixStream);
std_traits!(UnixStream, std::os::unix::net::UnixStream);
