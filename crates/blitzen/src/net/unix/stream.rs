//! A connection on this machine.

use std::io;
use std::path::Path;
use std::task::{Context, Poll};

use super::addr::{SocketAddr, addr_from_path};
use super::split::{self, OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
use super::ucred::UCred;
use crate::io::{ReadBuf, Ready};
use crate::net::into_std::refused;
use crate::net::link::Link;
use crate::net::socket::assert_nonblocking;
use crate::runtime::io::current;

/// The bare socket.
type Socket = mio::net::UnixStream;

/// A Unix domain connection.
///
/// ```
/// use blitzen::io::{AsyncReadExt, AsyncWriteExt};
/// use blitzen::net::UnixStream;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let (mut one, mut other) = UnixStream::pair()?;
/// one.write_all(b"hello").await?;
/// let mut bytes = [0; 5];
/// other.read_exact(&mut bytes).await?;
/// assert_eq!(&bytes, b"hello");
/// # Ok(())
/// # }
/// ```
///
/// [`shutdown`](crate::io::AsyncWriteExt::shutdown) ends the direction that is
/// written; dropping the stream closes both.
///
/// # Cancel safety
/// A read or write of some bytes that is dropped before it completes has moved
/// none. `read_exact`, `write_all` and their like may have moved some.
pub struct UnixStream {
    io: Link<Socket>,
}

impl UnixStream {
    /// Connects to a path. On Linux one that begins with a zero byte is a name
    /// in the abstract namespace.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let listener = UnixListener::bind(dir.join("socket"))?;
    /// let stream = UnixStream::connect(dir.join("socket")).await?;
    /// # drop((listener, stream));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection that was being made.
    pub async fn connect<P: AsRef<Path>>(path: P) -> io::Result<UnixStream> {
        let addr = addr_from_path(path.as_ref())?;
        Self::connecting(mio::net::UnixStream::connect_addr(&addr)?).await
    }

    /// Connects to an address.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let listener = UnixListener::bind(dir.join("socket"))?;
    /// let stream = UnixStream::connect_addr(&listener.local_addr()?).await?;
    /// # drop(stream);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection that was being made.
    pub async fn connect_addr(addr: &SocketAddr) -> io::Result<UnixStream> {
        Self::connecting(mio::net::UnixStream::connect_addr(&addr.0)?).await
    }

    /// Waits for the end of an attempt to connect.
    pub(super) async fn connecting(stream: mio::net::UnixStream) -> io::Result<Self> {
        let runtime = current();
        let io = Link::connecting(stream)?;
        let mut stream = Self { io };
        // Writable, when it is over, for better or worse.
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

    /// A connection that a listener got. Whoever connects has usually sent
    /// something by then: both directions are worth a try.
    pub(super) fn accepted(stream: mio::net::UnixStream) -> io::Result<Self> {
        Self::new(stream, Ready::READABLE | Ready::WRITABLE)
    }

    #[track_caller]
    fn new(stream: mio::net::UnixStream, initially: Ready) -> io::Result<Self> {
        let io = Link::new(stream, initially)?;
        Ok(Self { io })
    }

    /// Two streams connected to each other.
    ///
    /// ```
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let (one, other) = blitzen::net::UnixStream::pair()?;
    /// # drop((one, other));
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
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (one, other) = mio::net::UnixStream::pair()?;
        // There is room in both, and nothing to read.
        Ok((
            Self::new(one, Ready::WRITABLE)?,
            Self::new(other, Ready::WRITABLE)?,
        ))
    }

    /// Takes over a stream of std's, which has to be in non-blocking mode.
    ///
    /// ```
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let (one, _other) = std::os::unix::net::UnixStream::pair()?;
    /// one.set_nonblocking(true)?;
    /// let one = blitzen::net::UnixStream::from_std(one)?;
    /// # drop(one);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O. With debug assertions, if the
    /// stream is in blocking mode.
    #[track_caller]
    pub fn from_std(stream: std::os::unix::net::UnixStream) -> io::Result<UnixStream> {
        assert_nonblocking(&stream);
        Self::new(mio::net::UnixStream::from_std(stream), Ready::EMPTY)
    }

    /// Hands the stream over to std. It stays in non-blocking mode.
    ///
    /// ```
    #[doc = unix_pair!()]
    /// let stream: std::os::unix::net::UnixStream = socket.into_std()?;
    /// stream.set_nonblocking(false)?;
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says. Of a stream
    /// [by completion](crate::net::SocketMode) also if it has received what nobody has read, for
    /// it would be lost: then the error gives the stream back, as an
    /// [`IntoStdError`](crate::net::IntoStdError).
    pub fn into_std(self) -> io::Result<std::os::unix::net::UnixStream> {
        match self.io.into_inner() {
            Ok(socket) => Ok(socket.into()),
            Err(kept) => Err(refused(kept, |io| Self { io })),
        }
    }

    /// The address of this side.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let listener = UnixListener::bind(dir.join("socket"))?;
    /// let stream = UnixStream::connect(dir.join("socket")).await?;
    /// assert!(stream.local_addr()?.is_unnamed());
    /// # drop(listener);
    /// # Ok(()) }
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr().map(SocketAddr)
    }

    /// The address of the other side.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let listener = UnixListener::bind(dir.join("socket"))?;
    /// let stream = UnixStream::connect(dir.join("socket")).await?;
    /// assert_eq!(stream.peer_addr()?.as_pathname(), Some(&*dir.join("socket")));
    /// # drop(listener);
    /// # Ok(()) }
    /// ```
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.peer_addr().map(SocketAddr)
    }

    /// Who is at the other end.
    ///
    /// ```
    #[doc = unix_pair!()]
    /// let them = socket.peer_cred()?;
    /// println!("user {}, process {:?}", them.uid(), them.pid());
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    pub fn peer_cred(&self) -> io::Result<UCred> {
        UCred::from_peer(&*self.io)
    }

    readiness_methods!(unix_pair!(), poll_read_ready, poll_write_ready);
    stream_methods!(unix_pair!());
    mode_methods!(unix_pair!());

    pub(super) fn poll_read_shared(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Not plain: where descriptors are passed along, a read stops short
        // although there is more.
        self.io.poll_read(cx, buf, false)
    }

    /// Borrows the stream as two halves, which can be used at the same time.
    ///
    /// ```
    #[doc = unix_pair!()]
    /// let (mut reader, mut writer) = socket.split();
    /// writer.write_all(b"hello").await?;
    /// let mut bytes = [0; 5];
    /// peer.read_exact(&mut bytes).await?;
    /// peer.write_all(&bytes).await?;
    /// reader.read_exact(&mut bytes).await?;
    /// assert_eq!(&bytes, b"hello");
    /// # Ok(()) }
    /// ```
    // The lifetime is part of the signature that others name.
    #[allow(clippy::needless_lifetimes)]
    pub fn split<'a>(&'a mut self) -> (ReadHalf<'a>, WriteHalf<'a>) {
        split::split(self)
    }

    /// Takes the stream apart into two halves, for two tasks. They can be put
    /// together again with [`reunite`](OwnedReadHalf::reunite).
    ///
    /// ```
    #[doc = unix_pair!()]
    /// let (mut reader, mut writer) = socket.into_split();
    /// let reading = blitzen::spawn(async move {
    ///     let mut text = String::new();
    ///     reader.read_to_string(&mut text).await.map(|_| text)
    /// });
    /// writer.write_all(b"hello").await?;
    /// drop(writer); // the peer sees the end
    /// # let mut text = String::new();
    /// # peer.read_to_string(&mut text).await?;
    /// # peer.write_all(text.as_bytes()).await?;
    /// # drop(peer);
    /// assert_eq!(reading.await??, "hello");
    /// # Ok(()) }
    /// ```
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        split::into_split(self)
    }
}

stream_traits!(UnixStream);
std_traits!(UnixStream, std::os::unix::net::UnixStream);
