//! A TCP connection.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;

use super::split::{self, OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
use crate::io::{ReadBuf, Ready};
use crate::net::addr::{self, ToSocketAddrs};
use crate::net::into_std::refused;
use crate::net::link::Link;
use crate::net::mode::SocketMode;
use crate::net::socket::assert_nonblocking;
use crate::runtime::io::current;

/// The bare socket.
type Socket = mio::net::TcpStream;

/// A TCP connection.
///
/// ```
/// use blitzen::io::{AsyncReadExt, AsyncWriteExt};
/// use blitzen::net::{TcpListener, TcpStream};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// # let listener = TcpListener::bind("127.0.0.1:0").await?;
/// # let address = listener.local_addr()?;
/// # let server = blitzen::spawn(async move {
/// #     let (mut stream, _) = listener.accept().await.unwrap();
/// #     let mut bytes = [0; 5];
/// #     stream.read_exact(&mut bytes).await.unwrap();
/// #     stream.write_all(&bytes).await.unwrap();
/// # });
/// let mut stream = TcpStream::connect(address).await?;
/// stream.write_all(b"hello").await?;
/// let mut answer = [0; 5];
/// stream.read_exact(&mut answer).await?;
/// # assert_eq!(&answer, b"hello");
/// # server.await?;
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
pub struct TcpStream {
    io: Link<Socket>,
}

impl TcpStream {
    /// Connects to an address; if there are several, to the first that answers.
    ///
    /// ```
    #[doc = tcp_pair!()]
    /// let stream = TcpStream::connect(address).await?;
    /// assert_eq!(stream.peer_addr()?, address);
    /// # drop((socket, peer));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, of the last address tried, and if the runtime has
    /// been shut down.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection that was being made.
    pub async fn connect<A: ToSocketAddrs>(addr: A) -> io::Result<TcpStream> {
        addr::try_each(addr, |addr| async move {
            Self::connecting(mio::net::TcpStream::connect(addr)?).await
        })
        .await
    }

    /// Waits for the end of an attempt to connect.
    pub(super) async fn connecting(stream: mio::net::TcpStream) -> io::Result<Self> {
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
    pub(super) fn accepted(stream: mio::net::TcpStream, mode: SocketMode) -> io::Result<Self> {
        let io = Link::with_mode(stream, Ready::READABLE | Ready::WRITABLE, mode)?;
        Ok(Self { io })
    }

    #[track_caller]
    fn new(stream: mio::net::TcpStream, initially: Ready) -> io::Result<Self> {
        let io = Link::new(stream, initially)?;
        Ok(Self { io })
    }

    fn raw(&self) -> SockRef<'_> {
        SockRef::from(&*self.io)
    }

    /// Takes over a stream of std's, which has to be in non-blocking mode.
    ///
    /// ```
    #[doc = tcp_pair!()]
    /// let stream = std::net::TcpStream::connect(address)?;
    /// stream.set_nonblocking(true)?;
    /// let stream = TcpStream::from_std(stream)?;
    /// # drop((stream, socket, peer));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O. With debug assertions, if the
    /// stream is in blocking mode.
    #[track_caller]
    pub fn from_std(stream: std::net::TcpStream) -> io::Result<TcpStream> {
        assert_nonblocking(&stream);
        Self::new(mio::net::TcpStream::from_std(stream), Ready::EMPTY)
    }

    /// Hands the stream over to std. It stays in non-blocking mode.
    ///
    /// ```
    #[doc = tcp_pair!()]
    /// let stream: std::net::TcpStream = socket.into_std()?;
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
    pub fn into_std(self) -> io::Result<std::net::TcpStream> {
        match self.io.into_inner() {
            Ok(socket) => Ok(socket.into()),
            Err(kept) => Err(refused(kept, |io| Self { io })),
        }
    }

    /// The address of this side.
    ///
    /// ```
    #[doc = tcp_pair!()]
    /// assert_eq!(socket.local_addr()?, peer.peer_addr()?);
    /// # Ok(()) }
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// The address of the other side.
    ///
    /// ```
    #[doc = tcp_pair!()]
    /// assert_eq!(socket.peer_addr()?, peer.local_addr()?);
    /// # Ok(()) }
    /// ```
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.peer_addr()
    }

    readiness_methods!(tcp_pair!(), poll_read_ready, poll_write_ready);
    stream_methods!(tcp_pair!());
    mode_methods!(tcp_pair!());

    /// Waits for data and reads it, but leaves it there.
    ///
    /// ```
    #[doc = tcp_pair!()]
    /// peer.write_all(b"hello").await?;
    /// assert_eq!(socket.peek(&mut [0; 16]).await?, 5);
    /// assert_eq!(socket.read(&mut [0; 16]).await?, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Cancel safety
    /// Nothing is taken, so nothing is lost.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.peek(buf).await
    }

    /// Waits for data and reads it, but leaves it there. Of several tasks that
    /// wait with this function, or that read, the one that called last is woken.
    ///
    /// ```
    #[doc = tcp_pair!()]
    /// peer.write_all(b"hello").await?;
    /// let mut bytes = [0; 16];
    /// let mut buf = ReadBuf::new(&mut bytes);
    /// let count = std::future::poll_fn(|cx| socket.poll_peek(cx, &mut buf)).await?;
    /// assert_eq!((count, buf.filled()), (5, &b"hello"[..]));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
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

    /// Borrows the stream as two halves, which can be used at the same time.
    ///
    /// ```
    #[doc = tcp_pair!()]
    /// let (mut reader, mut writer) = socket.split();
    /// let mut answer = [0; 5];
    /// let mut echo = [0; 5];
    /// let (sent, received, echoed) = blitzen::join!(
    ///     writer.write_all(b"hello"),
    ///     reader.read_exact(&mut answer),
    ///     async {
    ///         peer.read_exact(&mut echo).await?;
    ///         peer.write_all(&echo).await
    ///     },
    /// );
    /// # (sent?, received?, echoed?);
    /// assert_eq!(&answer, b"hello");
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
    #[doc = tcp_pair!()]
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

    /// Whether small writes are sent at once instead of being gathered.
    ///
    /// ```
    #[doc = tcp_pair!()]
    /// assert!(!socket.nodelay()?);
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    pub fn nodelay(&self) -> io::Result<bool> {
        self.io.nodelay()
    }

    /// Sends small writes at once instead of gathering them (`TCP_NODELAY`).
    ///
    /// ```
    #[doc = tcp_pair!()]
    /// socket.set_nodelay(true)?;
    /// assert!(socket.nodelay()?);
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.io.set_nodelay(nodelay)
    }

    /// Whether acknowledgements are sent at once.
    ///
    /// ```
    #[doc = tcp_pair!()]
    /// socket.set_quickack(false)?;
    /// assert!(!socket.quickack()?);
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "fuchsia"))]
    pub fn quickack(&self) -> io::Result<bool> {
        self.raw().tcp_quickack()
    }

    /// Sends acknowledgements at once instead of with the next data
    /// (`TCP_QUICKACK`). The system takes it as a hint, and may go back.
    ///
    /// ```
    #[doc = tcp_pair!()]
    /// socket.set_quickack(true)?;
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "fuchsia"))]
    pub fn set_quickack(&self, quickack: bool) -> io::Result<()> {
        self.raw().set_tcp_quickack(quickack)
    }

    /// How long closing waits for data to be delivered; `None` if it does not.
    ///
    /// ```
    #[doc = tcp_pair!()]
    /// assert_eq!(socket.linger()?, None);
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        self.raw().linger()
    }

    /// Lets closing wait for data to be delivered (`SO_LINGER`).
    #[deprecated = "closing the socket would block a worker; `set_zero_linger` does not"]
    pub fn set_linger(&self, dur: Option<Duration>) -> io::Result<()> {
        self.raw().set_linger(dur)
    }

    /// Makes closing reset the connection: the peer gets an error instead of
    /// what was not delivered.
    ///
    /// ```
    #[doc = tcp_pair!()]
    /// socket.set_zero_linger()?;
    /// drop(socket);
    /// let error = peer.read(&mut [0; 8]).await.unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    /// # Ok(()) }
    /// ```
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.raw().set_linger(Some(Duration::ZERO))
    }

    /// How many routers a packet may pass.
    ///
    /// ```
    #[doc = tcp_pair!()]
    /// assert!(socket.ttl()? > 0);
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    pub fn ttl(&self) -> io::Result<u32> {
        self.io.ttl()
    }

    /// Sets how many routers a packet may pass.
    ///
    /// ```
    #[doc = tcp_pair!()]
    /// socket.set_ttl(100)?;
    /// assert_eq!(socket.ttl()?, 100);
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.io.set_ttl(ttl)
    }
}

stream_traits!(TcpStream);
std_traits!(TcpStream, std::net::TcpStream);
