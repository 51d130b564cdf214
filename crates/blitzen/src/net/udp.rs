//! UDP.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};

use bytes::BufMut;
use socket2::{SockAddr, SockRef};

use super::addr::{self, ToSocketAddrs};
use super::raw::MioSocket;
use super::socket::assert_nonblocking;
use crate::io::{BOTH, Interest, PollEvented, ReadBuf, Ready};

/// A UDP socket.
///
/// ```
/// use blitzen::net::UdpSocket;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let server = UdpSocket::bind("127.0.0.1:0").await?;
/// let client = UdpSocket::bind("127.0.0.1:0").await?;
/// client.send_to(b"hello", server.local_addr()?).await?;
///
/// let mut bytes = [0; 1500];
/// let (count, from) = server.recv_from(&mut bytes).await?;
/// assert_eq!((&bytes[..count], from), (&b"hello"[..], client.local_addr()?));
/// # Ok(())
/// # }
/// ```
///
/// All operations take a shared reference: an `Arc` of the socket lets several
/// tasks send and receive at the same time.
pub struct UdpSocket {
    io: PollEvented<mio::net::UdpSocket>,
}

impl UdpSocket {
    /// A socket with an address; if there are several, the first that will do.
    /// Port 0 stands for any that is free.
    ///
    /// ```
    /// # use blitzen::net::UdpSocket;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = UdpSocket::bind("127.0.0.1:0").await?;
    /// assert_ne!(socket.local_addr()?.port(), 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    pub async fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<UdpSocket> {
        addr::try_each(addr, |addr| async move {
            Self::new(mio::net::UdpSocket::bind(addr)?)
        })
        .await
    }

    #[track_caller]
    fn new(socket: mio::net::UdpSocket) -> io::Result<Self> {
        let io = PollEvented::new(socket, BOTH, Ready::EMPTY)?;
        Ok(Self { io })
    }

    fn raw(&self) -> SockRef<'_> {
        SockRef::from(&*self.io)
    }

    /// Takes over a socket of std's, which has to be in non-blocking mode.
    ///
    /// ```
    /// # use blitzen::net::UdpSocket;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// socket.set_nonblocking(true)?;
    /// let socket = UdpSocket::from_std(socket)?;
    /// # drop(socket);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O. With debug assertions, if the
    /// socket is in blocking mode.
    #[track_caller]
    pub fn from_std(socket: std::net::UdpSocket) -> io::Result<UdpSocket> {
        assert_nonblocking(&socket);
        Self::new(mio::net::UdpSocket::from_std(socket))
    }

    /// Hands the socket over to std. It stays in non-blocking mode.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// let socket: std::net::UdpSocket = socket.into_std()?;
    /// socket.set_nonblocking(false)?;
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says.
    pub fn into_std(self) -> io::Result<std::net::UdpSocket> {
        Ok(self.io.into_inner()?.into())
    }

    /// Connects to an address; if there are several, to the first that will do:
    /// `send` sends there, and `recv` hears nobody else.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// socket.connect("127.0.0.1:9").await?;
    /// assert_eq!(socket.peer_addr()?.port(), 9);
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says.
    pub async fn connect<A: ToSocketAddrs>(&self, addr: A) -> io::Result<()> {
        addr::try_each(addr, async |addr| self.io.connect(addr)).await
    }

    /// The address it is bound to.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// assert_eq!(socket.local_addr()?, peer.peer_addr()?);
    /// # Ok(()) }
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// The address it is connected to.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// assert_eq!(socket.peer_addr()?, peer.local_addr()?);
    /// # Ok(()) }
    /// ```
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.peer_addr()
    }

    fn sender(&self) -> io::Result<SocketAddr> {
        ip_addr(self.io.with(|raw| raw.peek_sender())?)
    }

    readiness_methods!(udp_pair!(), poll_recv_ready, poll_send_ready);

    /// Sends a datagram to the address it is connected to. Answers how many bytes,
    /// which is all of them.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// assert_eq!(socket.send(b"hello").await?, 5);
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down. An error of
    /// an earlier packet, such as a port where nobody listens, may be told here.
    ///
    /// # Cancel safety
    /// Nothing is sent by a future that does not complete.
    pub async fn send(&self, buf: &[u8]) -> io::Result<usize> {
        let registration = self.io.registration();
        registration
            .async_io(Interest::WRITABLE, || self.io.send(buf))
            .await
    }

    /// Sends a datagram to the address it is connected to. Of several tasks that
    /// wait with this function, or another that sends, the one that called last is
    /// woken.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// let sent = std::future::poll_fn(|cx| socket.poll_send(cx, b"hello")).await?;
    /// assert_eq!(sent, 5);
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down. An error of
    /// an earlier packet, such as a port where nobody listens, may be told here.
    pub fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let registration = self.io.registration();
        registration.poll_write_io(cx, || self.io.send(buf))
    }

    /// Sends a datagram to the address it is connected to, without waiting.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// socket.writable().await?;
    /// assert_eq!(socket.try_send(b"hello")?, 5);
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it would have to wait, and
    /// what the system says.
    pub fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
        let registration = self.io.registration();
        registration.try_io(Interest::WRITABLE, || self.io.send(buf))
    }

    /// Receives a datagram from the address it is connected to. What does not fit
    /// is lost.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// peer.send(b"hello").await?;
    /// let mut bytes = [0; 16];
    /// let count = socket.recv(&mut bytes).await?;
    /// assert_eq!(&bytes[..count], b"hello");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down. An error of
    /// an earlier packet, such as a port where nobody listens, may be told here.
    ///
    /// # Cancel safety
    /// A datagram is received by a future that completes, or waits for the next
    /// one.
    pub async fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        let registration = self.io.registration();
        registration
            .async_io(Interest::READABLE, || self.io.recv(&mut &mut *buf))
            .await
    }

    /// Receives a datagram from the address it is connected to. Of several tasks that
    /// wait with this function, or another that receives, the one that called last
    /// is woken.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// peer.send(b"hello").await?;
    /// let mut bytes = [0; 16];
    /// let mut buf = ReadBuf::new(&mut bytes);
    /// std::future::poll_fn(|cx| socket.poll_recv(cx, &mut buf)).await?;
    /// assert_eq!(buf.filled(), b"hello");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down. An error of
    /// an earlier packet, such as a port where nobody listens, may be told here.
    pub fn poll_recv(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let registration = self.io.registration();
        let received = registration.poll_read_io(cx, || self.io.recv(buf));
        received.map(|received| received.map(drop))
    }

    /// Receives a datagram from the address it is connected to, without waiting.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// peer.send(b"hello").await?;
    /// socket.readable().await?;
    /// assert_eq!(socket.try_recv(&mut [0; 16])?, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it would have to wait, and
    /// what the system says.
    pub fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        let registration = self.io.registration();
        registration.try_io(Interest::READABLE, || self.io.recv(&mut &mut *buf))
    }

    /// Receives a datagram without waiting, and appends it to `buf`.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// peer.send(b"hello").await?;
    /// socket.readable().await?;
    /// let mut bytes = Vec::with_capacity(16);
    /// assert_eq!(socket.try_recv_buf(&mut bytes)?, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it would have to wait, and
    /// what the system says.
    pub fn try_recv_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        let registration = self.io.registration();
        registration.try_io(Interest::READABLE, || self.io.recv(buf))
    }

    /// Receives a datagram, and appends it to `buf`, as far as there is room.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// peer.send(b"hello").await?;
    /// let mut bytes = Vec::with_capacity(16);
    /// socket.recv_buf(&mut bytes).await?;
    /// assert_eq!(bytes, b"hello");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down. An error of
    /// an earlier packet, such as a port where nobody listens, may be told here.
    ///
    /// # Cancel safety
    /// A datagram is received by a future that completes, or waits for the next
    /// one.
    pub async fn recv_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        let registration = self.io.registration();
        registration
            .async_io(Interest::READABLE, || self.io.recv(buf))
            .await
    }

    /// Receives a datagram and where it comes from, and appends it to `buf`, as far
    /// as there is room.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// peer.send(b"hello").await?;
    /// let mut bytes = Vec::with_capacity(16);
    /// let (count, from) = socket.recv_buf_from(&mut bytes).await?;
    /// assert_eq!((count, from), (5, peer.local_addr()?));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down. An error of
    /// an earlier packet, such as a port where nobody listens, may be told here.
    ///
    /// # Cancel safety
    /// A datagram is received by a future that completes, or waits for the next
    /// one.
    pub async fn recv_buf_from<B: BufMut>(&self, buf: &mut B) -> io::Result<(usize, SocketAddr)> {
        let registration = self.io.registration();
        let received = registration
            .async_io(Interest::READABLE, || self.io.recv_from(buf))
            .await;
        with_ip_addr(received)
    }

    /// Receives a datagram and where it comes from, without waiting, and appends it
    /// to `buf`.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// peer.send(b"hello").await?;
    /// socket.readable().await?;
    /// let mut bytes = Vec::with_capacity(16);
    /// let (count, from) = socket.try_recv_buf_from(&mut bytes)?;
    /// assert_eq!((count, from), (5, peer.local_addr()?));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it would have to wait, and
    /// what the system says.
    pub fn try_recv_buf_from<B: BufMut>(&self, buf: &mut B) -> io::Result<(usize, SocketAddr)> {
        let registration = self.io.registration();
        with_ip_addr(registration.try_io(Interest::READABLE, || self.io.recv_from(buf)))
    }

    /// Sends a datagram to an address; if there are several, to the first.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// let to = peer.local_addr()?;
    /// let socket = UdpSocket::bind("127.0.0.1:0").await?;
    /// assert_eq!(socket.send_to(b"hello", to).await?, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down. An error of
    /// an earlier packet, such as a port where nobody listens, may be told here.
    ///
    /// # Cancel safety
    /// Nothing is sent by a future that does not complete.
    pub async fn send_to<A: ToSocketAddrs>(&self, buf: &[u8], addr: A) -> io::Result<usize> {
        let target = addr::resolve(&addr).await?.next();
        let target = target.ok_or_else(addr::no_address)?;
        let registration = self.io.registration();
        registration
            .async_io(Interest::WRITABLE, || self.io.send_to(buf, target))
            .await
    }

    /// Sends a datagram to an address. Of several tasks that
    /// wait with this function, or another that sends, the one that called last is
    /// woken.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// let to = peer.local_addr()?;
    /// let socket = UdpSocket::bind("127.0.0.1:0").await?;
    /// let sent = std::future::poll_fn(|cx| socket.poll_send_to(cx, b"hello", to)).await?;
    /// assert_eq!(sent, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down. An error of
    /// an earlier packet, such as a port where nobody listens, may be told here.
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        target: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        let registration = self.io.registration();
        registration.poll_write_io(cx, || self.io.send_to(buf, target))
    }

    /// Sends a datagram to an address, without waiting.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// let to = peer.local_addr()?;
    /// let socket = UdpSocket::bind("127.0.0.1:0").await?;
    /// socket.writable().await?;
    /// assert_eq!(socket.try_send_to(b"hello", to)?, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it would have to wait, and
    /// what the system says.
    pub fn try_send_to(&self, buf: &[u8], target: SocketAddr) -> io::Result<usize> {
        let registration = self.io.registration();
        registration.try_io(Interest::WRITABLE, || self.io.send_to(buf, target))
    }

    /// Receives a datagram and where it comes from. What does not fit
    /// is lost.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// peer.send(b"hello").await?;
    /// let mut bytes = [0; 16];
    /// let (count, from) = socket.recv_from(&mut bytes).await?;
    /// assert_eq!((&bytes[..count], from), (&b"hello"[..], peer.local_addr()?));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down. An error of
    /// an earlier packet, such as a port where nobody listens, may be told here.
    ///
    /// # Cancel safety
    /// A datagram is received by a future that completes, or waits for the next
    /// one.
    pub async fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let registration = self.io.registration();
        let received = registration
            .async_io(Interest::READABLE, || self.io.recv_from(&mut &mut *buf))
            .await;
        with_ip_addr(received)
    }

    /// Receives a datagram and where it comes from. Of several tasks that
    /// wait with this function, or another that receives, the one that called last
    /// is woken.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// peer.send(b"hello").await?;
    /// let mut bytes = [0; 16];
    /// let mut buf = ReadBuf::new(&mut bytes);
    /// let from = std::future::poll_fn(|cx| socket.poll_recv_from(cx, &mut buf)).await?;
    /// assert_eq!((buf.filled(), from), (&b"hello"[..], peer.local_addr()?));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down. An error of
    /// an earlier packet, such as a port where nobody listens, may be told here.
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        let registration = self.io.registration();
        let received = registration.poll_read_io(cx, || self.io.recv_from(buf));
        received.map(|received| Ok(with_ip_addr(received)?.1))
    }

    /// Receives a datagram and where it comes from, without
    /// waiting.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// peer.send(b"hello").await?;
    /// socket.readable().await?;
    /// let (count, from) = socket.try_recv_from(&mut [0; 16])?;
    /// assert_eq!((count, from), (5, peer.local_addr()?));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it would have to wait, and
    /// what the system says.
    pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let registration = self.io.registration();
        let received =
            registration.try_io(Interest::READABLE, || self.io.recv_from(&mut &mut *buf));
        with_ip_addr(received)
    }

    /// Looks at a datagram, which stays there, and where it comes from. What does not fit
    /// is not seen.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// peer.send(b"hello").await?;
    /// let mut bytes = [0; 16];
    /// let (count, from) = socket.peek_from(&mut bytes).await?;
    /// assert_eq!((&bytes[..count], from), (&b"hello"[..], peer.local_addr()?));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down. An error of
    /// an earlier packet, such as a port where nobody listens, may be told here.
    ///
    /// # Cancel safety
    /// Nothing is taken, so nothing is lost.
    pub async fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let registration = self.io.registration();
        let received = registration
            .async_io(Interest::READABLE, || self.io.peek_from(&mut &mut *buf))
            .await;
        with_ip_addr(received)
    }

    /// Looks at a datagram, which stays there, and where it comes from. Of several tasks that
    /// wait with this function, or another that receives, the one that called last
    /// is woken.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// peer.send(b"hello").await?;
    /// let mut bytes = [0; 16];
    /// let mut buf = ReadBuf::new(&mut bytes);
    /// let from = std::future::poll_fn(|cx| socket.poll_peek_from(cx, &mut buf)).await?;
    /// assert_eq!((buf.filled(), from), (&b"hello"[..], peer.local_addr()?));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down. An error of
    /// an earlier packet, such as a port where nobody listens, may be told here.
    pub fn poll_peek_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        let registration = self.io.registration();
        let received = registration.poll_read_io(cx, || self.io.peek_from(buf));
        received.map(|received| Ok(with_ip_addr(received)?.1))
    }

    /// Looks at a datagram, which stays there, and where it comes from, without
    /// waiting.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// peer.send(b"hello").await?;
    /// socket.readable().await?;
    /// let (count, from) = socket.try_peek_from(&mut [0; 16])?;
    /// assert_eq!((count, from), (5, peer.local_addr()?));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it would have to wait, and
    /// what the system says.
    pub fn try_peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let registration = self.io.registration();
        let received =
            registration.try_io(Interest::READABLE, || self.io.peek_from(&mut &mut *buf));
        with_ip_addr(received)
    }

    /// Looks at a datagram from the address it is connected to, which stays there.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// peer.send(b"hello").await?;
    /// assert_eq!(socket.peek(&mut [0; 16]).await?, 5);
    /// assert_eq!(socket.recv(&mut [0; 16]).await?, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down. An error of
    /// an earlier packet, such as a port where nobody listens, may be told here.
    ///
    /// # Cancel safety
    /// Nothing is taken, so nothing is lost.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        let registration = self.io.registration();
        registration
            .async_io(Interest::READABLE, || self.io.peek(&mut &mut *buf))
            .await
    }

    /// Looks at a datagram from the address it is connected to, which stays there.
    /// Of several tasks that
    /// wait with this function, or another that receives, the one that called last
    /// is woken.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// peer.send(b"hello").await?;
    /// let mut bytes = [0; 16];
    /// let mut buf = ReadBuf::new(&mut bytes);
    /// std::future::poll_fn(|cx| socket.poll_peek(cx, &mut buf)).await?;
    /// assert_eq!(buf.filled(), b"hello");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down. An error of
    /// an earlier packet, such as a port where nobody listens, may be told here.
    pub fn poll_peek(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let registration = self.io.registration();
        let seen = registration.poll_read_io(cx, || self.io.peek(buf));
        seen.map(|seen| seen.map(drop))
    }

    /// Looks at a datagram from the address it is connected to, without waiting.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// peer.send(b"hello").await?;
    /// socket.readable().await?;
    /// assert_eq!(socket.try_peek(&mut [0; 16])?, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it would have to wait, and
    /// what the system says.
    pub fn try_peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        let registration = self.io.registration();
        registration.try_io(Interest::READABLE, || self.io.peek(&mut &mut *buf))
    }

    /// Waits for a datagram, and tells where it comes from.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// peer.send(b"hello").await?;
    /// assert_eq!(socket.peek_sender().await?, peer.local_addr()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down. An error of
    /// an earlier packet, such as a port where nobody listens, may be told here.
    ///
    /// # Cancel safety
    /// Nothing is taken, so nothing is lost.
    pub async fn peek_sender(&self) -> io::Result<SocketAddr> {
        let registration = self.io.registration();
        registration
            .async_io(Interest::READABLE, || self.sender())
            .await
    }

    /// Waits for a datagram, and tells where it comes from. Of several tasks that
    /// wait with this function, or another that receives, the one that called last
    /// is woken.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// peer.send(b"hello").await?;
    /// let from = std::future::poll_fn(|cx| socket.poll_peek_sender(cx)).await?;
    /// assert_eq!(from, peer.local_addr()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down. An error of
    /// an earlier packet, such as a port where nobody listens, may be told here.
    pub fn poll_peek_sender(&self, cx: &mut Context<'_>) -> Poll<io::Result<SocketAddr>> {
        let registration = self.io.registration();
        registration.poll_read_io(cx, || self.sender())
    }

    /// Tells where the next datagram comes from, without waiting.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// peer.send(b"hello").await?;
    /// socket.readable().await?;
    /// assert_eq!(socket.try_peek_sender()?, peer.local_addr()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it would have to wait, and
    /// what the system says.
    pub fn try_peek_sender(&self) -> io::Result<SocketAddr> {
        let registration = self.io.registration();
        registration.try_io(Interest::READABLE, || self.sender())
    }

    /// Whether it may send to broadcast addresses.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// println!("{:?}", socket.broadcast()?);
    /// # Ok(()) }
    /// ```
    pub fn broadcast(&self) -> io::Result<bool> {
        self.io.broadcast()
    }

    /// Lets it send to broadcast addresses (`SO_BROADCAST`).
    ///
    /// ```
    #[doc = udp_pair!()]
    /// socket.set_broadcast(true)?;
    /// assert!(socket.broadcast()?);
    /// # Ok(()) }
    /// ```
    pub fn set_broadcast(&self, on: bool) -> io::Result<()> {
        self.io.set_broadcast(on)
    }

    /// Whether what it sends to an IPv4 group comes back to this machine.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// println!("{:?}", socket.multicast_loop_v4()?);
    /// # Ok(()) }
    /// ```
    pub fn multicast_loop_v4(&self) -> io::Result<bool> {
        self.io.multicast_loop_v4()
    }

    /// Lets what it sends to an IPv4 group come back to this machine, or not.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// socket.set_multicast_loop_v4(false)?;
    /// assert!(!socket.multicast_loop_v4()?);
    /// # Ok(()) }
    /// ```
    pub fn set_multicast_loop_v4(&self, on: bool) -> io::Result<()> {
        self.io.set_multicast_loop_v4(on)
    }

    /// How many routers a packet to an IPv4 group may pass.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// println!("{:?}", socket.multicast_ttl_v4()?);
    /// # Ok(()) }
    /// ```
    pub fn multicast_ttl_v4(&self) -> io::Result<u32> {
        self.io.multicast_ttl_v4()
    }

    /// Sets how many routers a packet to an IPv4 group may pass.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// socket.set_multicast_ttl_v4(4)?;
    /// assert_eq!(socket.multicast_ttl_v4()?, 4);
    /// # Ok(()) }
    /// ```
    pub fn set_multicast_ttl_v4(&self, ttl: u32) -> io::Result<()> {
        self.io.set_multicast_ttl_v4(ttl)
    }

    /// How many routers a packet may pass.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// println!("{:?}", socket.ttl()?);
    /// # Ok(()) }
    /// ```
    pub fn ttl(&self) -> io::Result<u32> {
        self.io.ttl()
    }

    /// Sets how many routers a packet may pass.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// socket.set_ttl(100)?;
    /// assert_eq!(socket.ttl()?, 100);
    /// # Ok(()) }
    /// ```
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.io.set_ttl(ttl)
    }

    /// The type of service of packets sent over IPv4.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// println!("{:?}", socket.tos_v4()?);
    /// # Ok(()) }
    /// ```
    #[cfg(not(any(
        target_os = "fuchsia",
        target_os = "redox",
        target_os = "solaris",
        target_os = "illumos",
        target_os = "haiku",
    )))]
    pub fn tos_v4(&self) -> io::Result<u32> {
        self.raw().tos_v4()
    }

    /// Sets the type of service of packets sent over IPv4 (`IP_TOS`).
    ///
    /// ```
    #[doc = udp_pair!()]
    /// socket.set_tos_v4(96)?;
    /// assert_eq!(socket.tos_v4()?, 96);
    /// # Ok(()) }
    /// ```
    #[cfg(not(any(
        target_os = "fuchsia",
        target_os = "redox",
        target_os = "solaris",
        target_os = "illumos",
        target_os = "haiku",
    )))]
    pub fn set_tos_v4(&self, tos: u32) -> io::Result<()> {
        self.raw().set_tos_v4(tos)
    }

    /// Whether what it sends to an IPv6 group comes back to this machine.
    ///
    /// ```
    /// # use blitzen::net::UdpSocket;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = UdpSocket::bind("[::1]:0").await?;
    /// println!("{:?}", socket.multicast_loop_v6()?);
    /// # Ok(()) }
    /// ```
    pub fn multicast_loop_v6(&self) -> io::Result<bool> {
        self.io.multicast_loop_v6()
    }

    /// Lets what it sends to an IPv6 group come back to this machine, or not.
    ///
    /// ```
    /// # use blitzen::net::UdpSocket;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = UdpSocket::bind("[::1]:0").await?;
    /// socket.set_multicast_loop_v6(false)?;
    /// assert!(!socket.multicast_loop_v6()?);
    /// # Ok(()) }
    /// ```
    pub fn set_multicast_loop_v6(&self, on: bool) -> io::Result<()> {
        self.io.set_multicast_loop_v6(on)
    }

    /// The traffic class of packets sent over IPv6.
    ///
    /// ```
    /// # use blitzen::net::UdpSocket;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = UdpSocket::bind("[::1]:0").await?;
    /// println!("{:?}", socket.tclass_v6()?);
    /// # Ok(()) }
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
        self.raw().tclass_v6()
    }

    /// Sets the traffic class of packets sent over IPv6 (`IPV6_TCLASS`).
    ///
    /// ```
    /// # use blitzen::net::UdpSocket;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = UdpSocket::bind("[::1]:0").await?;
    /// socket.set_tclass_v6(96)?;
    /// assert_eq!(socket.tclass_v6()?, 96);
    /// # Ok(()) }
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
    pub fn set_tclass_v6(&self, tclass: u32) -> io::Result<()> {
        self.raw().set_tclass_v6(tclass)
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

    /// Joins an IPv4 group, through the interface with an address, or through
    /// any with `0.0.0.0`.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// use std::net::Ipv4Addr;
    ///
    /// let (group, own) = (Ipv4Addr::new(224, 0, 0, 123), Ipv4Addr::LOCALHOST);
    /// socket.join_multicast_v4(group, own)?;
    /// socket.leave_multicast_v4(group, own)?;
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says.
    pub fn join_multicast_v4(&self, multiaddr: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.io.join_multicast_v4(&multiaddr, &interface)
    }

    /// Joins an IPv6 group, through the interface with an index, or through any
    /// with 0.
    ///
    /// ```
    /// # use blitzen::net::UdpSocket;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = UdpSocket::bind("[::1]:0").await?;
    /// let group = "ff02::123".parse().unwrap();
    /// match socket.join_multicast_v6(&group, 0) {
    ///     Ok(()) => socket.leave_multicast_v6(&group, 0)?,
    ///     Err(error) => println!("no interface for it: {error}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What the system says.
    pub fn join_multicast_v6(&self, multiaddr: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.io.join_multicast_v6(multiaddr, interface)
    }

    /// Leaves an IPv4 group; see [`join_multicast_v4`](Self::join_multicast_v4).
    ///
    /// ```
    #[doc = udp_pair!()]
    /// # use std::net::Ipv4Addr;
    /// let (group, own) = (Ipv4Addr::new(224, 0, 0, 123), Ipv4Addr::LOCALHOST);
    /// assert!(socket.leave_multicast_v4(group, own).is_err()); // never joined
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says.
    pub fn leave_multicast_v4(&self, multiaddr: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.io.leave_multicast_v4(&multiaddr, &interface)
    }

    /// Leaves an IPv6 group; see [`join_multicast_v6`](Self::join_multicast_v6).
    ///
    /// ```
    /// # use blitzen::net::UdpSocket;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = UdpSocket::bind("[::1]:0").await?;
    /// let group = "ff02::123".parse().unwrap();
    /// assert!(socket.leave_multicast_v6(&group, 0).is_err()); // never joined
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What the system says.
    pub fn leave_multicast_v6(&self, multiaddr: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.io.leave_multicast_v6(multiaddr, interface)
    }

    /// The network device it is bound to, if it is bound to one.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// assert_eq!(socket.device()?, None);
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    pub fn device(&self) -> io::Result<Option<Vec<u8>>> {
        self.raw().device()
    }

    /// Binds the socket to a network device (`SO_BINDTODEVICE`); with `None` to
    /// none in particular.
    ///
    /// ```
    #[doc = udp_pair!()]
    /// match socket.bind_device(Some(b"lo")) {
    ///     Ok(()) => assert_eq!(socket.device()?.as_deref(), Some(&b"lo"[..])),
    ///     Err(error) => println!("not allowed here: {error}"),
    /// }
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    pub fn bind_device(&self, interface: Option<&[u8]>) -> io::Result<()> {
        self.raw().bind_device(interface)
    }
}

/// The address of one who sends over the Internet's protocols.
fn ip_addr(addr: SockAddr) -> io::Result<SocketAddr> {
    addr.as_socket()
        .ok_or_else(|| io::Error::other("the sender's address is not one of the Internet"))
}

fn with_ip_addr(received: io::Result<(usize, SockAddr)>) -> io::Result<(usize, SocketAddr)> {
    let (count, from) = received?;
    Ok((count, ip_addr(from)?))
}

std_traits!(UdpSocket, std::net::UdpSocket);
