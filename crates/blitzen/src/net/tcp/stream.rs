//! A TCP connection.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use socket2::SockRef;

use super::split::{self, OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
use crate::io::{ReadBuf, Ready};
use crate::net::addr::{self, ToSocketAddrs};
use crate::net::mode::SocketMode;
use crate::net::stream_io::StreamIo;
use crate::runtime::io::current;

/// A TCP connection.
///
/// [`connect`](Self::connect) makes one, and
/// [`TcpListener::accept`](super::TcpListener::accept) the one on the other
/// side. Reading and writing are in [`AsyncReadExt`](crate::io::AsyncReadExt)
/// and [`AsyncWriteExt`](crate::io::AsyncWriteExt).
/// [`shutdown`](crate::io::AsyncWriteExt::shutdown) ends the direction that is
/// written; dropping the stream closes both.
///
/// # Examples
///
/// ```
/// use blitzen::io::{AsyncReadExt, AsyncWriteExt};
/// use blitzen::net::{TcpListener, TcpStream};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let mut client = TcpStream::connect(listener.local_addr()?).await?;
/// let (mut server, _) = listener.accept().await?;
///
/// client.write_all(b"hello").await?;
/// let mut bytes = [0; 5];
/// server.read_exact(&mut bytes).await?;
/// assert_eq!(&bytes, b"hello");
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
/// A `read` or `write` that is dropped before it completes has moved no bytes.
/// `read_exact`, `write_all` and the other methods that loop may have moved
/// some.
pub struct TcpStream {
    io: StreamIo<mio::net::TcpStream>,
}

impl TcpStream {
    /// Connects to `addr`.
    ///
    /// If `addr` yields several addresses, they are tried in order until one
    /// accepts the connection.
    ///
    /// # Examples
    ///
    #[doc = tcp_listener!("listener")]
    /// let stream = TcpStream::connect(listener.local_addr()?).await?;
    /// assert_eq!(stream.peer_addr()?, listener.local_addr()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future gives the attempt up and closes its socket.
    ///
    /// # Errors
    /// Returns the error of `socket(2)` or `connect(2)` for the last address,
    /// such as [`ConnectionRefused`](io::ErrorKind::ConnectionRefused) or
    /// [`TimedOut`](io::ErrorKind::TimedOut); the error of the lookup;
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if `addr` yields no address;
    /// or an error if the runtime has been shut down.
    pub async fn connect<A: ToSocketAddrs>(addr: A) -> io::Result<TcpStream> {
        addr::try_each(addr, |addr| async move {
            Self::connecting(mio::net::TcpStream::connect(addr)?).await
        })
        .await
    }

    /// Waits for the end of an attempt to connect.
    pub(super) async fn connecting(stream: mio::net::TcpStream) -> io::Result<Self> {
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
    pub(crate) fn accepted(stream: mio::net::TcpStream, mode: SocketMode) -> io::Result<Self> {
        let io = StreamIo::with_mode(stream, Ready::READABLE | Ready::WRITABLE, mode)?;
        Ok(Self { io })
    }

    #[track_caller]
    fn new(stream: mio::net::TcpStream, initially: Ready) -> io::Result<Self> {
        let io = StreamIo::new(stream, initially)?;
        Ok(Self { io })
    }

    fn io(&self) -> &StreamIo<mio::net::TcpStream> {
        &self.io
    }

    fn raw(&self) -> SockRef<'_> {
        SockRef::from(&*self.io)
    }

    stream_std_methods!(
        TcpStream,
        std::net::TcpStream,
        mio::net::TcpStream,
        tcp_pair
    );

    /// Returns the address of this side.
    ///
    /// # Examples
    ///
    #[doc = tcp_pair!("socket", "peer")]
    /// assert_eq!(socket.local_addr()?, peer.peer_addr()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// Returns the address of the peer.
    ///
    /// # Examples
    ///
    #[doc = tcp_pair!("socket", "peer")]
    /// assert_eq!(socket.peer_addr()?, peer.local_addr()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `getpeername(2)`, such as
    /// [`NotConnected`](io::ErrorKind::NotConnected).
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.peer_addr()
    }

    stream_methods!(tcp_pair);
    mode_methods!(tcp_pair, zero_copy: true);

    /// Receives into `buf` without removing the bytes from the stream, and
    /// returns their number.
    ///
    /// # Examples
    ///
    #[doc = tcp_pair!("mut socket", "mut peer")]
    /// peer.write_all(b"hello").await?;
    /// assert_eq!(socket.peek(&mut [0; 16]).await?, 5);
    /// assert_eq!(socket.read(&mut [0; 16]).await?, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    /// Returns the error of `recv(2)`, such as
    /// [`ConnectionReset`](io::ErrorKind::ConnectionReset), or an error if the
    /// runtime has been shut down.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.peek(buf).await
    }

    /// Attempts to receive into `buf` without removing the bytes from the
    /// stream, and returns their number.
    ///
    /// Only the task that polled last, with this function or another one that
    /// polls to read, is woken.
    ///
    /// # Examples
    ///
    #[doc = tcp_pair!("socket", "mut peer")]
    /// peer.write_all(b"hello").await?;
    /// let mut bytes = [0; 16];
    /// let mut buf = ReadBuf::new(&mut bytes);
    /// let count = std::future::poll_fn(|cx| socket.poll_peek(cx, &mut buf)).await?;
    /// assert_eq!((count, buf.filled()), (5, &b"hello"[..]));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`peek`](Self::peek).
    pub fn poll_peek(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        self.io.poll_peek(cx, buf)
    }

    pub(super) fn poll_read_shared(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.io.poll_read(cx, buf, true)
    }

    split_methods!(tcp_pair);

    nodelay_methods!(tcp_pair!("socket", "peer"));

    /// Returns whether acknowledgements are sent at once (`TCP_QUICKACK`).
    ///
    /// # Examples
    ///
    #[doc = tcp_pair!("socket", "peer")]
    /// socket.set_quickack(false)?;
    /// assert!(!socket.quickack()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `getsockopt(2)`.
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "fuchsia"))]
    pub fn quickack(&self) -> io::Result<bool> {
        self.raw().tcp_quickack()
    }

    /// Sets whether acknowledgements are sent at once, and not together with
    /// the next data (`TCP_QUICKACK`).
    ///
    /// The system takes this as a hint, and may change it again by itself.
    ///
    /// # Examples
    ///
    #[doc = tcp_pair!("socket", "peer")]
    /// socket.set_quickack(true)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `setsockopt(2)`.
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "fuchsia"))]
    pub fn set_quickack(&self, quickack: bool) -> io::Result<()> {
        self.raw().set_tcp_quickack(quickack)
    }

    linger_methods!(tcp_pair!("socket", "peer"));
    ttl_methods!(tcp_pair!("socket", "peer"));
}

stream_traits!(TcpStream);
std_traits!(TcpStream, std::net::TcpStream);
