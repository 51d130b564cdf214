//! Datagrams on this machine.

use std::io;
use std::net::Shutdown;
use std::path::Path;
use std::task::{Context, Poll};

use bytes::BufMut;
use socket2::{SockAddr, SockRef};

use super::addr::{SocketAddr, addr_from_path, addr_from_sockaddr, sockaddr_from_path};
use crate::io::{BOTH, Interest, PollEvented, ReadBuf, Ready};
use crate::net::raw::MioSocket;
use crate::net::socket::assert_nonblocking;

/// A Unix domain socket for datagrams.
///
/// ```
/// use blitzen::net::UnixDatagram;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let (one, other) = UnixDatagram::pair()?;
/// one.send(b"hello").await?;
/// let mut bytes = [0; 16];
/// let count = other.recv(&mut bytes).await?;
/// assert_eq!(&bytes[..count], b"hello");
/// # Ok(())
/// # }
/// ```
///
/// All operations take a shared reference: an `Arc` of the socket lets several
/// tasks send and receive at the same time.
pub struct UnixDatagram {
    io: PollEvented<mio::net::UnixDatagram>,
}

impl UnixDatagram {
    /// A socket with a path, which does not exist yet. On Linux a path that
    /// begins with a zero byte is a name in the abstract namespace.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let socket = UnixDatagram::bind(dir.join("socket"))?;
    /// # drop(socket);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O.
    #[track_caller]
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixDatagram> {
        let addr = addr_from_path(path.as_ref())?;
        Self::new(mio::net::UnixDatagram::bind_addr(&addr)?, Ready::EMPTY)
    }

    /// A socket without an address, which can send but not be sent to.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let receiver = UnixDatagram::bind(dir.join("socket"))?;
    /// let sender = UnixDatagram::unbound()?;
    /// sender.send_to(b"hello", dir.join("socket")).await?;
    /// let (count, from) = receiver.recv_from(&mut [0; 16]).await?;
    /// assert!(count == 5 && from.is_unnamed());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O.
    #[track_caller]
    pub fn unbound() -> io::Result<UnixDatagram> {
        Self::new(mio::net::UnixDatagram::unbound()?, Ready::EMPTY)
    }

    /// Two sockets connected to each other.
    ///
    /// ```
    /// # use blitzen::net::UnixDatagram;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let (one, other) = UnixDatagram::pair()?;
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
    pub fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
        let (one, other) = mio::net::UnixDatagram::pair()?;
        // There is room in both, and nothing to read.
        Ok((
            Self::new(one, Ready::WRITABLE)?,
            Self::new(other, Ready::WRITABLE)?,
        ))
    }

    #[track_caller]
    fn new(socket: mio::net::UnixDatagram, initially: Ready) -> io::Result<Self> {
        let io = PollEvented::new(socket, BOTH, initially)?;
        Ok(Self { io })
    }

    /// Takes over a socket of std's, which has to be in non-blocking mode.
    ///
    /// ```
    /// # use blitzen::net::UnixDatagram;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = std::os::unix::net::UnixDatagram::unbound()?;
    /// socket.set_nonblocking(true)?;
    /// let socket = UnixDatagram::from_std(socket)?;
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
    pub fn from_std(datagram: std::os::unix::net::UnixDatagram) -> io::Result<UnixDatagram> {
        assert_nonblocking(&datagram);
        Self::new(mio::net::UnixDatagram::from_std(datagram), Ready::EMPTY)
    }

    /// Hands the socket over to std. It stays in non-blocking mode.
    ///
    /// ```
    #[doc = unix_datagram_pair!()]
    /// let socket: std::os::unix::net::UnixDatagram = socket.into_std()?;
    /// socket.set_nonblocking(false)?;
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says.
    pub fn into_std(self) -> io::Result<std::os::unix::net::UnixDatagram> {
        Ok(self.io.into_inner()?.into())
    }

    /// Connects to a path: `send` sends there, and nobody else is heard.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let receiver = UnixDatagram::bind(dir.join("socket"))?;
    /// let sender = UnixDatagram::unbound()?;
    /// sender.connect(dir.join("socket"))?;
    /// sender.send(b"hello").await?;
    /// assert_eq!(receiver.recv(&mut [0; 16]).await?, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says.
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        SockRef::from(&*self.io).connect(&sockaddr_from_path(path.as_ref())?)
    }

    /// The address it is bound to.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let socket = UnixDatagram::bind(dir.join("socket"))?;
    /// assert_eq!(socket.local_addr()?.as_pathname(), Some(&*dir.join("socket")));
    /// # Ok(()) }
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr().map(SocketAddr)
    }

    /// The address it is connected to.
    ///
    /// ```
    #[doc = unix_datagram_pair!()]
    /// assert!(socket.peer_addr()?.is_unnamed());
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.peer_addr().map(SocketAddr)
    }

    /// Ends one direction or both. Not every system tells those who wait: on
    /// Linux `recv` goes on waiting.
    ///
    /// ```
    #[doc = unix_datagram_pair!()]
    /// socket.shutdown(std::net::Shutdown::Both)?;
    /// assert!(socket.send(b"hello").await.is_err());
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.io.shutdown(how)
    }

    fn send_once(&self, buf: &[u8], target: &SockAddr) -> io::Result<usize> {
        self.io.with(|raw| raw.send_to(buf, target))
    }

    readiness_methods!(unix_datagram_pair!(), poll_recv_ready, poll_send_ready);

    /// Sends a datagram to the address it is connected to. Answers how many bytes,
    /// which is all of them.
    ///
    /// ```
    #[doc = unix_datagram_pair!()]
    /// assert_eq!(socket.send(b"hello").await?, 5);
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
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
    #[doc = unix_datagram_pair!()]
    /// let sent = std::future::poll_fn(|cx| socket.poll_send(cx, b"hello")).await?;
    /// assert_eq!(sent, 5);
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    pub fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let registration = self.io.registration();
        registration.poll_write_io(cx, || self.io.send(buf))
    }

    /// Sends a datagram to the address it is connected to, without waiting.
    ///
    /// ```
    #[doc = unix_datagram_pair!()]
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

    /// Sends a datagram to a path.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let socket = UnixDatagram::bind(dir.join("one"))?;
    /// let peer = UnixDatagram::bind(dir.join("other"))?;
    /// assert_eq!(socket.send_to(b"hello", dir.join("other")).await?, 5);
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Cancel safety
    /// Nothing is sent by a future that does not complete.
    pub async fn send_to<P: AsRef<Path>>(&self, buf: &[u8], target: P) -> io::Result<usize> {
        let registration = self.io.registration();
        let target = sockaddr_from_path(target.as_ref())?;
        registration
            .async_io(Interest::WRITABLE, || self.send_once(buf, &target))
            .await
    }

    /// Sends a datagram to a path. Of several tasks that
    /// wait with this function, or another that sends, the one that called last is
    /// woken.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let socket = UnixDatagram::bind(dir.join("one"))?;
    /// let peer = UnixDatagram::bind(dir.join("other"))?;
    /// let to = dir.join("other");
    /// let sent = std::future::poll_fn(|cx| socket.poll_send_to(cx, b"hello", &to)).await?;
    /// assert_eq!(sent, 5);
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    pub fn poll_send_to<P: AsRef<Path>>(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        target: P,
    ) -> Poll<io::Result<usize>> {
        let registration = self.io.registration();
        let target = sockaddr_from_path(target.as_ref())?;
        registration.poll_write_io(cx, || self.send_once(buf, &target))
    }

    /// Sends a datagram to a path, without waiting.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let socket = UnixDatagram::bind(dir.join("one"))?;
    /// let peer = UnixDatagram::bind(dir.join("other"))?;
    /// socket.writable().await?;
    /// assert_eq!(socket.try_send_to(b"hello", dir.join("other"))?, 5);
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it would have to wait, and
    /// what the system says.
    pub fn try_send_to<P: AsRef<Path>>(&self, buf: &[u8], target: P) -> io::Result<usize> {
        let registration = self.io.registration();
        let target = sockaddr_from_path(target.as_ref())?;
        registration.try_io(Interest::WRITABLE, || self.send_once(buf, &target))
    }

    /// Receives a datagram. What does not fit is lost.
    ///
    /// ```
    #[doc = unix_datagram_pair!()]
    /// peer.send(b"hello").await?;
    /// let mut bytes = [0; 16];
    /// let count = socket.recv(&mut bytes).await?;
    /// assert_eq!(&bytes[..count], b"hello");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
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

    /// Receives a datagram. Of several tasks that
    /// wait with this function, or another that receives, the one that called last
    /// is woken.
    ///
    /// ```
    #[doc = unix_datagram_pair!()]
    /// peer.send(b"hello").await?;
    /// let mut bytes = [0; 16];
    /// let mut buf = ReadBuf::new(&mut bytes);
    /// std::future::poll_fn(|cx| socket.poll_recv(cx, &mut buf)).await?;
    /// assert_eq!(buf.filled(), b"hello");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    pub fn poll_recv(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let registration = self.io.registration();
        let received = registration.poll_read_io(cx, || self.io.recv(buf));
        received.map(|received| received.map(drop))
    }

    /// Receives a datagram, without waiting.
    ///
    /// ```
    #[doc = unix_datagram_pair!()]
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

    /// Receives a datagram, and appends it to `buf`, as far as there is room.
    ///
    /// ```
    #[doc = unix_datagram_pair!()]
    /// peer.send(b"hello").await?;
    /// let mut bytes = Vec::with_capacity(16);
    /// socket.recv_buf(&mut bytes).await?;
    /// assert_eq!(bytes, b"hello");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
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

    /// Receives a datagram without waiting, and appends it to `buf`.
    ///
    /// ```
    #[doc = unix_datagram_pair!()]
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

    /// Receives a datagram and where it comes from. What does not fit is lost.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let socket = UnixDatagram::bind(dir.join("one"))?;
    /// let peer = UnixDatagram::bind(dir.join("other"))?;
    /// peer.send_to(b"hello", dir.join("one")).await?;
    /// let mut bytes = [0; 16];
    /// let (count, from) = socket.recv_from(&mut bytes).await?;
    /// assert_eq!(&bytes[..count], b"hello");
    /// assert_eq!(from.as_pathname(), Some(&*dir.join("other")));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Cancel safety
    /// A datagram is received by a future that completes, or waits for the next
    /// one.
    pub async fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let registration = self.io.registration();
        registration
            .async_io(Interest::READABLE, || {
                with_unix_addr(self.io.recv_from(&mut &mut *buf))
            })
            .await
    }

    /// Receives a datagram and where it comes from. Of several tasks that
    /// wait with this function, or another that receives, the one that called last
    /// is woken.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let socket = UnixDatagram::bind(dir.join("one"))?;
    /// let peer = UnixDatagram::bind(dir.join("other"))?;
    /// peer.send_to(b"hello", dir.join("one")).await?;
    /// let mut bytes = [0; 16];
    /// let mut buf = blitzen::io::ReadBuf::new(&mut bytes);
    /// let from = std::future::poll_fn(|cx| socket.poll_recv_from(cx, &mut buf)).await?;
    /// assert_eq!(buf.filled(), b"hello");
    /// assert_eq!(from.as_pathname(), Some(&*dir.join("other")));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        let registration = self.io.registration();
        let received = registration.poll_read_io(cx, || with_unix_addr(self.io.recv_from(buf)));
        received.map(|received| Ok(received?.1))
    }

    /// Receives a datagram and where it comes from, without waiting.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let socket = UnixDatagram::bind(dir.join("one"))?;
    /// let peer = UnixDatagram::bind(dir.join("other"))?;
    /// peer.send_to(b"hello", dir.join("one")).await?;
    /// socket.readable().await?;
    /// let (count, from) = socket.try_recv_from(&mut [0; 16])?;
    /// assert_eq!(count, 5);
    /// assert_eq!(from.as_pathname(), Some(&*dir.join("other")));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it would have to wait, and
    /// what the system says.
    pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let registration = self.io.registration();
        registration.try_io(Interest::READABLE, || {
            with_unix_addr(self.io.recv_from(&mut &mut *buf))
        })
    }

    /// Receives a datagram and where it comes from, and appends it to `buf`, as far
    /// as there is room.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let socket = UnixDatagram::bind(dir.join("one"))?;
    /// let peer = UnixDatagram::bind(dir.join("other"))?;
    /// peer.send_to(b"hello", dir.join("one")).await?;
    /// let mut bytes = Vec::with_capacity(16);
    /// let (count, _from) = socket.recv_buf_from(&mut bytes).await?;
    /// assert_eq!((count, &*bytes), (5, &b"hello"[..]));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Cancel safety
    /// A datagram is received by a future that completes, or waits for the next
    /// one.
    pub async fn recv_buf_from<B: BufMut>(&self, buf: &mut B) -> io::Result<(usize, SocketAddr)> {
        let registration = self.io.registration();
        registration
            .async_io(Interest::READABLE, || {
                with_unix_addr(self.io.recv_from(buf))
            })
            .await
    }

    /// Receives a datagram and where it comes from, without waiting, and appends it
    /// to `buf`.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let socket = UnixDatagram::bind(dir.join("one"))?;
    /// let peer = UnixDatagram::bind(dir.join("other"))?;
    /// peer.send_to(b"hello", dir.join("one")).await?;
    /// socket.readable().await?;
    /// let mut bytes = Vec::with_capacity(16);
    /// let (count, _from) = socket.try_recv_buf_from(&mut bytes)?;
    /// assert_eq!((count, &*bytes), (5, &b"hello"[..]));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it would have to wait, and
    /// what the system says.
    pub fn try_recv_buf_from<B: BufMut>(&self, buf: &mut B) -> io::Result<(usize, SocketAddr)> {
        let registration = self.io.registration();
        registration.try_io(Interest::READABLE, || {
            with_unix_addr(self.io.recv_from(buf))
        })
    }
}

fn with_unix_addr(received: io::Result<(usize, SockAddr)>) -> io::Result<(usize, SocketAddr)> {
    let (count, from) = received?;
    Ok((count, addr_from_sockaddr(&from)?))
}

std_traits!(UnixDatagram, std::os::unix::net::UnixDatagram);
