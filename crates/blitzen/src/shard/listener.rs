//! A listener whose connections are spread over the shards.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use blitzen_sync::channel::mpsc;
use blitzen_util::pad::Padded;
use socket2::{Domain, Protocol, Socket, Type};

use super::exact_balance::{Accepted, Acceptor};
use super::shard::Shard;
use crate::net::{TcpListener, TcpStream};
use crate::runtime::Handle;

/// How many connections may wait to be accepted, in the kernel.
const BACKLOG: i32 = 1024;

/// How connections are spread over the shards.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::Builder;
/// use blitzen::shard::Balance;
///
/// let runtime = Builder::sharded().shards(2).build()?;
/// let listener = runtime.listen("127.0.0.1:0", Balance::Exact)?;
/// # drop(listener);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Balance {
    /// Each shard has a socket of its own on the same address (`SO_REUSEPORT`), and the kernel
    /// picks one by a hash of the peer's address. That costs nothing, but ignores how much each
    /// shard has to do: a few long connections may all end up on one.
    ReusePort,
    /// One shard accepts all connections, and hands each to the shard that has the fewest open.
    Exact,
}

/// A listener of a [`ShardedRuntime`](super::ShardedRuntime), of which each shard takes its part.
///
/// It can be cloned. It stops listening when all clones and all parts are dropped.
///
/// # Examples
///
/// ```
/// use blitzen::net::TcpStream;
/// use blitzen::runtime::Builder;
/// use blitzen::shard::Balance;
///
/// let runtime = Builder::sharded().shards(2).build()?;
/// let listener = runtime.listen("127.0.0.1:0", Balance::Exact)?;
/// runtime.run_each(move |shard| {
///     let listener = listener.clone();
///     async move {
///         let mut part = listener.on(&shard).unwrap();
///         let _client = TcpStream::connect(listener.local_addr()).await.unwrap();
///         let (_stream, _open) = part.accept().await.unwrap(); // one of the two
///     }
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct ShardedListener(Arc<ListenerShared>);

struct ListenerShared {
    address: SocketAddr,
    open: OpenCounts,
    /// What each shard is to take.
    parts: Mutex<Vec<Option<ListenerPart>>>,
    /// For [`Balance::Exact`].
    acceptor: Option<Acceptor>,
}

/// How many connections each shard has open.
pub(super) type OpenCounts = Arc<[Padded<AtomicUsize>]>;

enum ListenerPart {
    /// A socket that listens.
    Socket(Socket),
    Queue(mpsc::Receiver<Accepted>),
}

impl ShardedListener {
    /// A listener for the shards with these runtimes.
    pub(super) fn bind(
        runtimes: &[Handle],
        address: SocketAddr,
        balance: Balance,
    ) -> io::Result<Self> {
        let open: OpenCounts = runtimes.iter().map(|_| Padded::default()).collect();
        let (address, parts, acceptor) = match balance {
            Balance::ReusePort => {
                let first = reuse_port_socket(address)?;
                // The same port for all, if any will do.
                let address = bound_address(&first)?;
                let mut parts = vec![Some(ListenerPart::Socket(first))];
                for _ in 1..runtimes.len() {
                    parts.push(Some(ListenerPart::Socket(reuse_port_socket(address)?)));
                }
                (address, parts, None)
            }
            Balance::Exact => {
                let socket = new_socket(address)?;
                socket.bind(&address.into())?;
                socket.listen(BACKLOG)?;
                let address = bound_address(&socket)?;
                let (acceptor, parts) = Acceptor::start(&runtimes[0], socket.into(), open.clone());
                let parts = parts
                    .into_iter()
                    .map(|part| Some(ListenerPart::Queue(part)));
                (address, parts.collect(), Some(acceptor))
            }
        };
        Ok(Self(Arc::new(ListenerShared {
            address,
            open,
            parts: Mutex::new(parts),
            acceptor,
        })))
    }

    /// Returns the address that it listens on.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    /// use blitzen::shard::Balance;
    ///
    /// let runtime = Builder::sharded().shards(2).build()?;
    /// let listener = runtime.listen("127.0.0.1:0", Balance::Exact)?;
    /// assert!(listener.local_addr().ip().is_loopback());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn local_addr(&self) -> SocketAddr {
        self.0.address
    }

    /// Returns how many connections a shard has open: those it has accepted, and with
    /// [`Balance::Exact`] those it is to accept.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    /// use blitzen::shard::Balance;
    ///
    /// let runtime = Builder::sharded().shards(2).build()?;
    /// let listener = runtime.listen("127.0.0.1:0", Balance::Exact)?;
    /// assert_eq!(listener.open_connections(1), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no shard with the number `index`.
    #[track_caller]
    pub fn open_connections(&self, index: usize) -> usize {
        self.0.open[index].load(Relaxed)
    }

    /// Takes the part of the listener that belongs to `shard`.
    ///
    /// Connections that come in before that wait in the kernel. With [`Balance::ReusePort`] every
    /// shard should take its part, since the kernel also picks those that have not. With
    /// [`Balance::Exact`] a shard gets connections only once it has taken its part.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    /// use blitzen::shard::Balance;
    ///
    /// let runtime = Builder::sharded().shards(2).build()?;
    /// let listener = runtime.listen("127.0.0.1:0", Balance::Exact)?;
    /// runtime.run_each(move |shard| {
    ///     let listener = listener.clone();
    ///     async move {
    ///         let part = listener.on(&shard).unwrap();
    ///         assert!(listener.on(&shard).is_err(), "it was taken");
    ///         drop(part);
    ///     }
    /// });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns `AlreadyExists` if the shard has taken its part before, `InvalidInput` if the shard
    /// belongs to a runtime with more shards, or an error if the runtime has been shut down.
    pub fn on(&self, shard: &Shard) -> io::Result<ShardListener> {
        let mut parts = self.0.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let part = match parts.get_mut(shard.index()) {
            Some(part) => part.take(),
            None => {
                let message = "the listener belongs to a runtime with fewer shards";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        };
        drop(parts);
        let source = match part {
            Some(ListenerPart::Socket(socket)) => {
                Source::Listener(TcpListener::from_std(socket.into())?)
            }
            Some(ListenerPart::Queue(queue)) => Source::Queue(queue),
            None => {
                let message = "the shard has taken its part of the listener before";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
            }
        };
        if let Some(acceptor) = &self.0.acceptor {
            acceptor.add(shard.index());
        }
        Ok(ShardListener {
            source,
            index: shard.index(),
            shared: self.0.clone(),
        })
    }
}

fn new_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_nonblocking(true)?;
    #[cfg(not(windows))]
    socket.set_reuse_address(true)?;
    Ok(socket)
}

#[cfg(all(
    unix,
    not(any(target_os = "solaris", target_os = "illumos", target_os = "cygwin"))
))]
fn reuse_port_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = new_socket(address)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    // All at once: the first that listens would get every connection until the others do.
    socket.listen(BACKLOG)?;
    Ok(socket)
}

#[cfg(not(all(
    unix,
    not(any(target_os = "solaris", target_os = "illumos", target_os = "cygwin"))
)))]
fn reuse_port_socket(_: SocketAddr) -> io::Result<Socket> {
    let message = "this system has no `SO_REUSEPORT`; use `Balance::Exact`";
    Err(io::Error::new(io::ErrorKind::Unsupported, message))
}

fn bound_address(socket: &Socket) -> io::Result<SocketAddr> {
    let address = socket.local_addr()?;
    address
        .as_socket()
        .ok_or_else(|| io::Error::other("the socket has no IP address"))
}

impl fmt::Debug for ShardedListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedListener")
            .field("address", &self.0.address)
            .finish_non_exhaustive()
    }
}

/// The part of a [`ShardedListener`] that one shard has.
///
/// # Examples
///
/// ```
/// use std::net::TcpStream;
/// use blitzen::runtime::Builder;
/// use blitzen::shard::{Balance, ShardListener};
///
/// let runtime = Builder::sharded().shards(1).build()?;
/// let listener = runtime.listen("127.0.0.1:0", Balance::Exact)?;
/// let client = TcpStream::connect(listener.local_addr())?;
/// runtime.run_each(move |shard| {
///     let listener = listener.clone();
///     async move {
///         let mut part: ShardListener = listener.on(&shard).unwrap();
///         let (stream, _open) = part.accept().await.unwrap();
///         assert_eq!(stream.local_addr().unwrap(), listener.local_addr());
///     }
/// });
/// # drop(client);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct ShardListener {
    source: Source,
    index: usize,
    shared: Arc<ListenerShared>,
}

enum Source {
    Listener(TcpListener),
    Queue(mpsc::Receiver<Accepted>),
}

impl ShardListener {
    /// Accepts a connection. It counts as open until the returned [`OpenConnection`] is dropped,
    /// so keep that as long as the stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::net::TcpStream;
    /// use blitzen::runtime::Builder;
    /// use blitzen::shard::Balance;
    ///
    /// let runtime = Builder::sharded().shards(1).build()?;
    /// let listener = runtime.listen("127.0.0.1:0", Balance::Exact)?;
    /// let client = TcpStream::connect(listener.local_addr())?;
    /// let peer = client.local_addr()?;
    /// runtime.run_each(move |shard| {
    ///     let listener = listener.clone();
    ///     async move {
    ///         let mut part = listener.on(&shard).unwrap();
    ///         let (_stream, open) = part.accept().await.unwrap();
    ///         assert_eq!(open.peer_addr(), peer);
    ///         assert_eq!(listener.open_connections(0), 1);
    ///     }
    /// });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it completes, no connection was accepted: the next call
    /// gets it.
    ///
    /// # Errors
    ///
    /// Returns the error of `accept(2)`, such as `ConnectionAborted` or, without free descriptors,
    /// `EMFILE`; or an error if the runtime has been shut down. The listener can be used again.
    pub async fn accept(&mut self) -> io::Result<(TcpStream, OpenConnection)> {
        match &mut self.source {
            Source::Listener(listener) => {
                let (stream, peer) = listener.accept().await?;
                self.shared.open[self.index].fetch_add(1, Relaxed);
                let open = OpenConnection::new(self.shared.open.clone(), self.index, peer);
                Ok((stream, open))
            }
            Source::Queue(queue) => match queue.recv().await {
                Some(accepted) => accepted.into_stream(),
                None => Err(io::Error::other("the runtime was shut down")),
            },
        }
    }
}

impl fmt::Debug for ShardListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardListener")
            .field("address", &self.shared.address)
            .field("shard", &self.index)
            .finish_non_exhaustive()
    }
}

/// A connection that counts as open on its shard, until this is dropped.
///
/// [`ShardListener::accept`] returns it beside the stream.
///
/// # Examples
///
/// ```
/// use std::net::TcpStream;
/// use blitzen::runtime::Builder;
/// use blitzen::shard::Balance;
///
/// let runtime = Builder::sharded().shards(1).build()?;
/// let listener = runtime.listen("127.0.0.1:0", Balance::Exact)?;
/// let client = TcpStream::connect(listener.local_addr())?;
/// runtime.run_each(move |shard| {
///     let listener = listener.clone();
///     async move {
///         let (_stream, open) = listener.on(&shard).unwrap().accept().await.unwrap();
///         drop(open);
///         assert_eq!(listener.open_connections(0), 0);
///     }
/// });
/// # drop(client);
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "the connection counts as open until this is dropped"]
pub struct OpenConnection {
    open: OpenCounts,
    index: usize,
    peer: SocketAddr,
}

impl OpenConnection {
    /// Of a connection that was counted for a shard.
    pub(super) fn new(open: OpenCounts, index: usize, peer: SocketAddr) -> Self {
        Self { open, index, peer }
    }

    /// Returns the address of the peer.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::net::TcpStream;
    /// use blitzen::runtime::Builder;
    /// use blitzen::shard::Balance;
    ///
    /// let runtime = Builder::sharded().shards(1).build()?;
    /// let listener = runtime.listen("127.0.0.1:0", Balance::Exact)?;
    /// let client = TcpStream::connect(listener.local_addr())?;
    /// let peer = client.local_addr()?;
    /// runtime.run_each(move |shard| {
    ///     let listener = listener.clone();
    ///     async move {
    ///         let (_, open) = listener.on(&shard).unwrap().accept().await.unwrap();
    ///         assert_eq!(open.peer_addr(), peer);
    ///     }
    /// });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        // Relaxed: a count, which orders nothing.
        self.open[self.index].fetch_sub(1, Relaxed);
    }
}

impl fmt::Debug for OpenConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenConnection")
            .field("peer", &self.peer)
            .field("shard", &self.index)
            .finish_non_exhaustive()
    }
}
