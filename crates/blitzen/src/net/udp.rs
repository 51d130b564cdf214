//! UDP.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};

use socket2::{SockAddr, SockRef};

use super::addr::{self, ToSocketAddrs};
use super::raw::MioSocket;
use super::socket::assert_nonblocking;
use crate::io::{BOTH, Interest, PollEvented, ReadBuf, Ready};

/// A UDP socket.
///
/// It can send to and receive from any address
/// ([`send_to`](Self::send_to), [`recv_from`](Self::recv_from)), or be
/// [connected](Self::connect) to one ([`send`](Self::send),
/// [`recv`](Self::recv)). All methods take a shared reference, so an `Arc` lets
/// several tasks send and receive at the same time.
///
/// # Examples
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
pub struct UdpSocket {
    io: PollEvented<mio::net::UdpSocket>,
}

impl UdpSocket {
    /// Creates a socket that is bound to `addr`.
    ///
    /// If `addr` yields several addresses, they are tried in order until one can
    /// be bound. Port 0 stands for any free port.
    ///
    /// # Examples
    ///
    #[doc = udp_socket!()]
    /// assert_ne!(socket.local_addr()?.port(), 0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `socket(2)` or `bind(2)` for the last address, such
    /// as [`AddrInUse`](io::ErrorKind::AddrInUse) or
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied); the error of the
    /// lookup; [`InvalidInput`](io::ErrorKind::InvalidInput) if `addr` yields no
    /// address; or an error if the runtime has been shut down.
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

    fn io(&self) -> &PollEvented<mio::net::UdpSocket> {
        &self.io
    }

    fn raw(&self) -> SockRef<'_> {
        SockRef::from(&*self.io)
    }

    /// Creates a socket from one of the standard library, which must be in
    /// non-blocking mode.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::UdpSocket;
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let std_socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// std_socket.set_nonblocking(true)?;
    /// let socket = UdpSocket::from_std(std_socket)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of registering with the system's poller, such as
    /// `epoll_ctl(2)`, or an error if the runtime has been shut down.
    ///
    /// # Panics
    /// Panics outside a runtime, in a runtime without I/O and, with debug
    /// assertions, if the socket is in blocking mode.
    #[track_caller]
    pub fn from_std(socket: std::net::UdpSocket) -> io::Result<UdpSocket> {
        assert_nonblocking(&socket);
        Self::new(mio::net::UdpSocket::from_std(socket))
    }

    /// Converts the socket into one of the standard library. It stays in
    /// non-blocking mode.
    ///
    /// # Examples
    ///
    #[doc = udp_socket!()]
    /// let std_socket: std::net::UdpSocket = socket.into_std()?;
    /// std_socket.set_nonblocking(false)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of leaving the system's poller, such as
    /// `epoll_ctl(2)`.
    pub fn into_std(self) -> io::Result<std::net::UdpSocket> {
        Ok(self.io.into_inner()?.into())
    }

    /// Connects the socket to `addr`: [`send`](Self::send) sends there, and only
    /// datagrams from there are received.
    ///
    /// If `addr` yields several addresses, they are tried in order until one
    /// succeeds. Nothing is sent.
    ///
    /// # Examples
    ///
    #[doc = udp_socket!()]
    /// socket.connect("127.0.0.1:9").await?;
    /// assert_eq!(socket.peer_addr()?.port(), 9);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `connect(2)` for the last address, such as
    /// [`NetworkUnreachable`](io::ErrorKind::NetworkUnreachable), the error of the
    /// lookup, or [`InvalidInput`](io::ErrorKind::InvalidInput) if `addr` yields
    /// no address.
    pub async fn connect<A: ToSocketAddrs>(&self, addr: A) -> io::Result<()> {
        addr::try_each(addr, async |addr| self.io.connect(addr)).await
    }

    /// Returns the address that the socket is bound to.
    ///
    /// # Examples
    ///
    #[doc = udp_socket!()]
    /// assert!(socket.local_addr()?.ip().is_loopback());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// Returns the address that the socket is connected to.
    ///
    /// # Examples
    ///
    #[doc = udp_pair!("socket", "peer")]
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

    datagram_methods!(
        pair: udp_pair,
        bound: udp_pair,
        addr: SocketAddr,
        with_addr: with_ip_addr,
        is_peer: "assert_eq!(from, peer.local_addr()?);",
        refused: "nobody listens on the port that an earlier datagram was sent to",
    );

    /// Sends `buf` as one datagram to `addr`, and returns the number of bytes
    /// sent.
    ///
    /// If `addr` yields several addresses, only the first is used.
    ///
    /// # Examples
    ///
    #[doc = udp_socket!()]
    /// let peer = UdpSocket::bind("127.0.0.1:0").await?;
    /// assert_eq!(socket.send_to(b"hello", peer.local_addr()?).await?, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, nothing was sent.
    ///
    /// # Errors
    /// Returns the error of `sendto(2)`, such as `EMSGSIZE` for a datagram that
    /// is too long; the error of the lookup;
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if `addr` yields no address;
    /// or an error if the runtime has been shut down.
    pub async fn send_to<A: ToSocketAddrs>(&self, buf: &[u8], addr: A) -> io::Result<usize> {
        let target = addr::resolve(&addr).await?.next();
        let target = target.ok_or_else(addr::no_address)?;
        let send = || self.io.send_to(buf, target);
        self.io.attempts(Interest::WRITABLE, send).await
    }

    /// Attempts to send `buf` as one datagram to `target`.
    ///
    /// Only the task that polled last, with this function or another one that
    /// polls to send, is woken.
    ///
    /// # Examples
    ///
    #[doc = udp_socket!()]
    /// let peer = UdpSocket::bind("127.0.0.1:0").await?;
    /// let target = peer.local_addr()?;
    /// let sent = std::future::poll_fn(|cx| socket.poll_send_to(cx, b"hello", target)).await?;
    /// assert_eq!(sent, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`send_to`](Self::send_to).
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        target: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        let registration = self.io.registration();
        registration.poll_write_io(cx, || self.io.send_to(buf, target))
    }

    /// Sends `buf` as one datagram to `target`, without waiting.
    ///
    /// # Examples
    ///
    #[doc = udp_socket!()]
    /// let peer = UdpSocket::bind("127.0.0.1:0").await?;
    /// socket.writable().await?;
    /// assert_eq!(socket.try_send_to(b"hello", peer.local_addr()?)?, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room, and
    /// otherwise the error of `sendto(2)`.
    pub fn try_send_to(&self, buf: &[u8], target: SocketAddr) -> io::Result<usize> {
        let send = || self.io.send_to(buf, target);
        self.io.attempt(Interest::WRITABLE, send)
    }

    /// Receives the next datagram into `buf` without removing it from the queue,
    /// and returns the number of bytes and the address of the sender.
    ///
    /// # Examples
    ///
    #[doc = udp_pair!("socket", "peer")]
    /// peer.send(b"hello").await?;
    /// let mut bytes = [0; 16];
    /// let (count, from) = socket.peek_from(&mut bytes).await?;
    /// assert_eq!((&bytes[..count], from), (&b"hello"[..], peer.local_addr()?));
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    /// Returns the error of `recvfrom(2)`, or an error if the runtime has been
    /// shut down. Windows reports a datagram that does not fit into `buf` as an
    /// error.
    pub async fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let peek = || self.io.peek_from(&mut &mut *buf);
        with_ip_addr(self.io.attempts(Interest::READABLE, peek).await)
    }

    /// Attempts to receive the next datagram into `buf` without removing it from
    /// the queue, and returns the address of the sender.
    ///
    /// Only the task that polled last, with this function or another one that
    /// polls to receive, is woken.
    ///
    /// # Examples
    ///
    #[doc = udp_pair!("socket", "peer")]
    /// peer.send(b"hello").await?;
    /// let mut bytes = [0; 16];
    /// let mut buf = ReadBuf::new(&mut bytes);
    /// let from = std::future::poll_fn(|cx| socket.poll_peek_from(cx, &mut buf)).await?;
    /// assert_eq!((buf.filled(), from), (&b"hello"[..], peer.local_addr()?));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`peek_from`](Self::peek_from).
    pub fn poll_peek_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        let registration = self.io.registration();
        let peeked = registration.poll_read_io(cx, || self.io.peek_from(buf));
        peeked.map(|peeked| Ok(with_ip_addr(peeked)?.1))
    }

    /// Receives the next datagram into `buf` without waiting and without removing
    /// it from the queue, and returns the number of bytes and the address of the
    /// sender.
    ///
    /// # Examples
    ///
    #[doc = udp_pair!("socket", "peer")]
    /// peer.send(b"hello").await?;
    /// socket.readable().await?;
    /// let (count, from) = socket.try_peek_from(&mut [0; 16])?;
    /// assert_eq!((count, from), (5, peer.local_addr()?));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`WouldBlock`](io::ErrorKind::WouldBlock) if no datagram has
    /// arrived, and otherwise the errors of [`peek_from`](Self::peek_from).
    pub fn try_peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let peek = || self.io.peek_from(&mut &mut *buf);
        with_ip_addr(self.io.attempt(Interest::READABLE, peek))
    }

    /// Receives the next datagram into `buf` without removing it from the queue,
    /// and returns the number of bytes.
    ///
    /// # Examples
    ///
    #[doc = udp_pair!("socket", "peer")]
    /// peer.send(b"hello").await?;
    /// assert_eq!(socket.peek(&mut [0; 16]).await?, 5);
    /// assert_eq!(socket.recv(&mut [0; 16]).await?, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    /// Returns the error of `recv(2)`, or an error if the runtime has been shut
    /// down. Windows reports a datagram that does not fit into `buf` as an error.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        let peek = || self.io.peek(&mut &mut *buf);
        self.io.attempts(Interest::READABLE, peek).await
    }

    /// Attempts to receive the next datagram into `buf` without removing it from
    /// the queue.
    ///
    /// Only the task that polled last, with this function or another one that
    /// polls to receive, is woken.
    ///
    /// # Examples
    ///
    #[doc = udp_pair!("socket", "peer")]
    /// peer.send(b"hello").await?;
    /// let mut bytes = [0; 16];
    /// let mut buf = ReadBuf::new(&mut bytes);
    /// std::future::poll_fn(|cx| socket.poll_peek(cx, &mut buf)).await?;
    /// assert_eq!(buf.filled(), b"hello");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`peek`](Self::peek).
    pub fn poll_peek(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let registration = self.io.registration();
        let peeked = registration.poll_read_io(cx, || self.io.peek(buf));
        peeked.map(|peeked| peeked.map(drop))
    }

    /// Receives the next datagram into `buf` without waiting and without removing
    /// it from the queue, and returns the number of bytes.
    ///
    /// # Examples
    ///
    #[doc = udp_pair!("socket", "peer")]
    /// peer.send(b"hello").await?;
    /// socket.readable().await?;
    /// assert_eq!(socket.try_peek(&mut [0; 16])?, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`WouldBlock`](io::ErrorKind::WouldBlock) if no datagram has
    /// arrived, and otherwise the errors of [`peek`](Self::peek).
    pub fn try_peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        let peek = || self.io.peek(&mut &mut *buf);
        self.io.attempt(Interest::READABLE, peek)
    }

    /// Waits for a datagram, and returns the address of its sender. The datagram
    /// stays in the queue.
    ///
    /// # Examples
    ///
    #[doc = udp_pair!("socket", "peer")]
    /// peer.send(b"hello").await?;
    /// assert_eq!(socket.peek_sender().await?, peer.local_addr()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    /// Returns the error of `recvfrom(2)`, or an error if the runtime has been
    /// shut down.
    pub async fn peek_sender(&self) -> io::Result<SocketAddr> {
        let peek = || self.peek_sender_once();
        self.io.attempts(Interest::READABLE, peek).await
    }

    /// Polls for a datagram, and returns the address of its sender. The datagram
    /// stays in the queue.
    ///
    /// Only the task that polled last, with this function or another one that
    /// polls to receive, is woken.
    ///
    /// # Examples
    ///
    #[doc = udp_pair!("socket", "peer")]
    /// peer.send(b"hello").await?;
    /// let from = std::future::poll_fn(|cx| socket.poll_peek_sender(cx)).await?;
    /// assert_eq!(from, peer.local_addr()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`peek_sender`](Self::peek_sender).
    pub fn poll_peek_sender(&self, cx: &mut Context<'_>) -> Poll<io::Result<SocketAddr>> {
        let registration = self.io.registration();
        registration.poll_read_io(cx, || self.peek_sender_once())
    }

    /// Returns the address of the next datagram's sender, without waiting. The
    /// datagram stays in the queue.
    ///
    /// # Examples
    ///
    #[doc = udp_pair!("socket", "peer")]
    /// peer.send(b"hello").await?;
    /// socket.readable().await?;
    /// assert_eq!(socket.try_peek_sender()?, peer.local_addr()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`WouldBlock`](io::ErrorKind::WouldBlock) if no datagram has
    /// arrived, and otherwise the error of `recvfrom(2)`.
    pub fn try_peek_sender(&self) -> io::Result<SocketAddr> {
        let peek = || self.peek_sender_once();
        self.io.attempt(Interest::READABLE, peek)
    }

    fn peek_sender_once(&self) -> io::Result<SocketAddr> {
        ip_addr(&self.io.with(|raw| raw.peek_sender())?)
    }

    /// Returns whether the socket may send to broadcast addresses (`SO_BROADCAST`).
    ///
    /// # Examples
    ///
    #[doc = udp_socket!()]
    /// println!("{:?}", socket.broadcast()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `getsockopt(2)`.
    pub fn broadcast(&self) -> io::Result<bool> {
        self.io.broadcast()
    }

    /// Sets whether the socket may send to broadcast addresses (`SO_BROADCAST`).
    ///
    /// # Examples
    ///
    #[doc = udp_socket!()]
    /// socket.set_broadcast(true)?;
    /// assert!(socket.broadcast()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `setsockopt(2)`.
    pub fn set_broadcast(&self, on: bool) -> io::Result<()> {
        self.io.set_broadcast(on)
    }

    /// Returns whether IPv4 multicast packets are looped back to this machine
    /// (`IP_MULTICAST_LOOP`).
    ///
    /// # Examples
    ///
    #[doc = udp_socket!()]
    /// println!("{:?}", socket.multicast_loop_v4()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `getsockopt(2)`.
    pub fn multicast_loop_v4(&self) -> io::Result<bool> {
        self.io.multicast_loop_v4()
    }

    /// Sets whether IPv4 multicast packets are looped back to this machine
    /// (`IP_MULTICAST_LOOP`).
    ///
    /// # Examples
    ///
    #[doc = udp_socket!()]
    /// socket.set_multicast_loop_v4(false)?;
    /// assert!(!socket.multicast_loop_v4()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `setsockopt(2)`.
    pub fn set_multicast_loop_v4(&self, on: bool) -> io::Result<()> {
        self.io.set_multicast_loop_v4(on)
    }

    /// Returns the time to live of IPv4 multicast packets (`IP_MULTICAST_TTL`).
    ///
    /// # Examples
    ///
    #[doc = udp_socket!()]
    /// println!("{:?}", socket.multicast_ttl_v4()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `getsockopt(2)`.
    pub fn multicast_ttl_v4(&self) -> io::Result<u32> {
        self.io.multicast_ttl_v4()
    }

    /// Sets the time to live of IPv4 multicast packets (`IP_MULTICAST_TTL`).
    ///
    /// # Examples
    ///
    #[doc = udp_socket!()]
    /// socket.set_multicast_ttl_v4(4)?;
    /// assert_eq!(socket.multicast_ttl_v4()?, 4);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `setsockopt(2)`.
    pub fn set_multicast_ttl_v4(&self, ttl: u32) -> io::Result<()> {
        self.io.set_multicast_ttl_v4(ttl)
    }

    /// Returns whether IPv6 multicast packets are looped back to this machine
    /// (`IPV6_MULTICAST_LOOP`).
    ///
    /// # Examples
    ///
    #[doc = udp_socket_v6!()]
    /// println!("{:?}", socket.multicast_loop_v6()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `getsockopt(2)`.
    pub fn multicast_loop_v6(&self) -> io::Result<bool> {
        self.io.multicast_loop_v6()
    }

    /// Sets whether IPv6 multicast packets are looped back to this machine
    /// (`IPV6_MULTICAST_LOOP`).
    ///
    /// # Examples
    ///
    #[doc = udp_socket_v6!()]
    /// socket.set_multicast_loop_v6(false)?;
    /// assert!(!socket.multicast_loop_v6()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `setsockopt(2)`.
    pub fn set_multicast_loop_v6(&self, on: bool) -> io::Result<()> {
        self.io.set_multicast_loop_v6(on)
    }

    ttl_methods!(udp_socket!());
    tos_methods!(udp_socket!());
    tclass_methods!(udp_socket_v6!());
    device_methods!(udp_socket!());

    /// Joins the IPv4 multicast group `multiaddr` (`IP_ADD_MEMBERSHIP`).
    ///
    /// `interface` is the address of the local interface; `0.0.0.0` lets the
    /// system choose one.
    ///
    /// # Examples
    ///
    #[doc = udp_socket!()]
    /// use std::net::Ipv4Addr;
    ///
    /// let group = Ipv4Addr::new(224, 0, 0, 123);
    /// socket.join_multicast_v4(group, Ipv4Addr::LOCALHOST)?;
    /// socket.leave_multicast_v4(group, Ipv4Addr::LOCALHOST)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `setsockopt(2)`, such as
    /// [`AddrInUse`](io::ErrorKind::AddrInUse) if the socket has joined already.
    pub fn join_multicast_v4(&self, multiaddr: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.io.join_multicast_v4(&multiaddr, &interface)
    }

    /// Joins the IPv6 multicast group `multiaddr` (`IPV6_ADD_MEMBERSHIP`).
    ///
    /// `interface` is the index of the local interface; 0 lets the system choose
    /// one.
    ///
    /// # Examples
    ///
    #[doc = udp_socket_v6!()]
    /// let group = "ff02::123".parse().unwrap();
    /// match socket.join_multicast_v6(&group, 0) {
    ///     Ok(()) => socket.leave_multicast_v6(&group, 0)?,
    ///     Err(error) => println!("no interface has a route to it: {error}"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `setsockopt(2)`, such as
    /// [`AddrInUse`](io::ErrorKind::AddrInUse) if the socket has joined already.
    pub fn join_multicast_v6(&self, multiaddr: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.io.join_multicast_v6(multiaddr, interface)
    }

    /// Leaves an IPv4 multicast group (`IP_DROP_MEMBERSHIP`). The arguments are
    /// those of [`join_multicast_v4`](Self::join_multicast_v4).
    ///
    /// # Examples
    ///
    #[doc = udp_socket!()]
    /// use std::net::Ipv4Addr;
    ///
    /// let group = Ipv4Addr::new(224, 0, 0, 123);
    /// assert!(socket.leave_multicast_v4(group, Ipv4Addr::LOCALHOST).is_err()); // not a member
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `setsockopt(2)`, such as
    /// [`AddrNotAvailable`](io::ErrorKind::AddrNotAvailable) if the socket is not
    /// a member.
    pub fn leave_multicast_v4(&self, multiaddr: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.io.leave_multicast_v4(&multiaddr, &interface)
    }

    /// Leaves an IPv6 multicast group (`IPV6_DROP_MEMBERSHIP`). The arguments are
    /// those of [`join_multicast_v6`](Self::join_multicast_v6).
    ///
    /// # Examples
    ///
    #[doc = udp_socket_v6!()]
    /// let group = "ff02::123".parse().unwrap();
    /// assert!(socket.leave_multicast_v6(&group, 0).is_err()); // not a member
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `setsockopt(2)`, such as
    /// [`AddrNotAvailable`](io::ErrorKind::AddrNotAvailable) if the socket is not
    /// a member.
    pub fn leave_multicast_v6(&self, multiaddr: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.io.leave_multicast_v6(multiaddr, interface)
    }
}

/// Converts the address of a sender.
fn ip_addr(addr: &SockAddr) -> io::Result<SocketAddr> {
    addr.as_socket()
        .ok_or_else(|| io::Error::other("the sender's address is neither IPv4 nor IPv6"))
}

fn with_ip_addr(received: io::Result<(usize, SockAddr)>) -> io::Result<(usize, SocketAddr)> {
    let (count, from) = received?;
    Ok((count, ip_addr(&from)?))
}

std_traits!(UdpSocket, std::net::UdpSocket);
