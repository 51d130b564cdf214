//! Waiting for connections.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};

use socket2::SockRef;

use super::TcpStream;
use crate::io::Interest;
use crate::net::addr::{self, ToSocketAddrs};
use crate::net::listener_io::ListenerIo;
use crate::net::mode::SocketMode;
use crate::net::socket::{LISTEN_BACKLOG, assert_nonblocking};
use crate::runtime::io::current;

/// A socket that waits for TCP connections.
///
/// ```
/// use blitzen::net::TcpListener;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// # let address = listener.local_addr()?;
/// # let client = std::thread::spawn(move || std::net::TcpStream::connect(address));
/// let (stream, from) = listener.accept().await?;
/// assert_eq!(stream.peer_addr()?, from);
/// # client.join().unwrap()?;
/// # Ok(())
/// # }
/// ```
///
/// When the process runs out of descriptors, `accept` answers with an error and
/// the connection goes on waiting: whoever serves in a loop should wait a
/// moment, or close something, before the next call.
pub struct TcpListener {
    io: ListenerIo<mio::net::TcpListener>,
}

impl TcpListener {
    /// Listens on an address; if there are several, on the first that will do.
    /// Port 0 stands for any that is free. An address may be used again at once
    /// after a server that used it has ended.
    ///
    /// ```
    /// # use blitzen::net::TcpListener;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// assert_ne!(listener.local_addr()?.port(), 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    pub async fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<TcpListener> {
        addr::try_each(addr, |addr| async move {
            let listener = mio::net::TcpListener::bind(addr)?;
            // More than mio lets wait; a storm of connections is no accident.
            SockRef::from(&listener).listen(LISTEN_BACKLOG)?;
            Self::new(listener)
        })
        .await
    }

    #[track_caller]
    pub(super) fn new(listener: mio::net::TcpListener) -> io::Result<Self> {
        let io = ListenerIo::new(listener)?;
        Ok(Self { io })
    }

    /// Waits for a connection.
    ///
    /// ```
    /// # use blitzen::net::{TcpListener, TcpStream};
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let client = TcpStream::connect(listener.local_addr()?);
    /// let (client, accepted) = blitzen::join!(client, listener.accept());
    /// let (stream, from) = accepted?;
    /// assert_eq!(client?.local_addr()?, from);
    /// # drop(stream);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down. After most
    /// errors the next call may well succeed.
    ///
    /// # Cancel safety
    /// A connection is accepted by a future that completes, or waits for the
    /// next one.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let io = self.io.evented();
        let (stream, from) = io.attempts(Interest::READABLE, || io.accept()).await?;
        Ok((TcpStream::accepted(stream, self.io.mode())?, from))
    }

    /// Waits for a connection. Of several tasks that wait with this function,
    /// the one that called last is woken.
    ///
    /// ```
    /// # use blitzen::net::{TcpListener, TcpStream};
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let client = TcpStream::connect(listener.local_addr()?);
    /// let accept = std::future::poll_fn(|cx| listener.poll_accept(cx));
    /// let (client, accepted) = blitzen::join!(client, accept);
    /// assert_eq!(client?.local_addr()?, accepted?.1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let io = self.io.evented();
        let accepted = io.registration().poll_read_io(cx, || io.accept());
        let (stream, from) = ready!(accepted)?;
        let stream = TcpStream::accepted(stream, self.io.mode())?;
        Poll::Ready(Ok((stream, from)))
    }

    /// Sets the [`SocketMode`] of the streams that the listener accepts from now
    /// on. Nothing is changed if it fails.
    ///
    /// ```
    /// # use blitzen::net::{SocketMode, TcpListener, TcpStream};
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut listener = TcpListener::bind("127.0.0.1:0").await?;
    /// listener.set_mode(SocketMode::PreferCompletion)?;
    /// let client = TcpStream::connect(listener.local_addr()?);
    /// let (client, accepted) = blitzen::join!(client, listener.accept());
    /// assert_eq!(accepted?.0.mode(), listener.mode());
    /// # drop(client);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Of kind [`Unsupported`](io::ErrorKind::Unsupported) if there is no
    /// io_uring.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O.
    #[track_caller]
    pub fn set_mode(&mut self, mode: SocketMode) -> io::Result<()> {
        self.io.set_mode(mode, &current())
    }

    /// Returns the mode of the streams that the listener accepts: readiness or
    /// completion.
    ///
    /// ```
    /// # use blitzen::net::{SocketMode, TcpListener};
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// assert_ne!(listener.mode(), SocketMode::PreferCompletion);
    /// # Ok(())
    /// # }
    /// ```
    pub fn mode(&self) -> SocketMode {
        self.io.mode()
    }

    /// Takes over a listener of std's, which has to be in non-blocking mode.
    ///
    /// ```
    /// # use blitzen::net::TcpListener;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// listener.set_nonblocking(true)?;
    /// let listener = TcpListener::from_std(listener)?;
    /// # drop(listener);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O. With debug assertions, if the
    /// listener is in blocking mode.
    #[track_caller]
    pub fn from_std(listener: std::net::TcpListener) -> io::Result<TcpListener> {
        assert_nonblocking(&listener);
        Self::new(mio::net::TcpListener::from_std(listener))
    }

    /// Hands the listener over to std. It stays in non-blocking mode.
    ///
    /// ```
    /// # use blitzen::net::TcpListener;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?.into_std()?;
    /// listener.set_nonblocking(false)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the error of taking the descriptor out of the selector.
    pub fn into_std(self) -> io::Result<std::net::TcpListener> {
        Ok(self.io.into_inner()?.into())
    }

    /// The address it listens on.
    ///
    /// ```
    /// # use blitzen::net::TcpListener;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// assert!(listener.local_addr()?.ip().is_loopback());
    /// # Ok(())
    /// # }
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// How many routers a packet of its connections may pass.
    ///
    /// ```
    /// # use blitzen::net::TcpListener;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// listener.set_ttl(64)?;
    /// assert_eq!(listener.ttl()?, 64);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ttl(&self) -> io::Result<u32> {
        self.io.ttl()
    }

    /// Sets how many routers a packet of its connections may pass; see
    /// [`ttl`](Self::ttl).
    ///
    /// ```
    /// # use blitzen::net::TcpListener;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// # let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// listener.set_ttl(100)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.io.set_ttl(ttl)
    }
}

std_traits!(TcpListener, std::net::TcpListener);
