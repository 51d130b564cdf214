//! Resolving host names to socket addresses.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::task::{JoinHandle, spawn_blocking};

/// Types that sockets can be bound and connected to: addresses, or a host name
/// and a port.
///
/// It is implemented for [`SocketAddr`] and its two variants, for `(IpAddr, u16)`
/// and its variants, for `(&str, u16)` and `(String, u16)`, for `str` and
/// `String` such as `"localhost:80"`, for `&[SocketAddr]`, and for references to
/// these. Other types cannot implement it.
///
/// A host name is looked up on the blocking pool. An address is not looked up,
/// even if it is written as text.
///
/// # Examples
///
/// ```
/// use blitzen::net::UdpSocket;
/// use std::net::Ipv4Addr;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// UdpSocket::bind("127.0.0.1:0").await?;
/// UdpSocket::bind(("localhost", 0)).await?;
/// UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
/// # Ok(())
/// # }
/// ```
pub trait ToSocketAddrs: sealed::Resolve {}

mod sealed {
    use super::{Future, SocketAddr, io};

    pub trait Resolve {
        type Iter: Iterator<Item = SocketAddr> + Send + 'static;
        type Future: Future<Output = io::Result<Self::Iter>> + Send + 'static;

        fn resolve(&self, private: Private) -> Self::Future;
    }

    /// Only this crate can make one, so only it can call `resolve`.
    #[allow(missing_debug_implementations)]
    pub struct Private;
}

use sealed::{Private, Resolve};

type Ready<T> = std::future::Ready<io::Result<T>>;

/// Looks `host` up, and returns its addresses.
///
/// # Examples
///
/// ```
/// use blitzen::net::lookup_host;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// for address in lookup_host("localhost:80").await? {
///     assert!(address.ip().is_loopback());
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
/// Dropping the future loses nothing. A lookup that has begun goes on in the
/// background.
///
/// # Errors
/// Returns the error of `getaddrinfo(3)`,
/// [`InvalidInput`](io::ErrorKind::InvalidInput) if the port is missing, or an
/// error if the runtime has been shut down.
pub async fn lookup_host<T: ToSocketAddrs>(
    host: T,
) -> io::Result<impl Iterator<Item = SocketAddr>> {
    resolve(&host).await
}

/// Resolves `addrs`.
pub(super) fn resolve<A: ToSocketAddrs + ?Sized>(addrs: &A) -> <A as Resolve>::Future {
    addrs.resolve(Private)
}

/// Calls `attempt` with one address after the other until it succeeds, and
/// returns the last error if it never does.
pub(super) async fn try_each<A: ToSocketAddrs, R, F: Future<Output = io::Result<R>>>(
    addrs: A,
    mut attempt: impl FnMut(SocketAddr) -> F,
) -> io::Result<R> {
    let mut last = None;
    for addr in resolve(&addrs).await? {
        match attempt(addr).await {
            Ok(done) => return Ok(done),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(no_address))
}

pub(super) fn no_address() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "could not resolve to any address",
    )
}

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {}

impl<T: ToSocketAddrs + ?Sized> Resolve for &T {
    type Iter = T::Iter;
    type Future = T::Future;

    fn resolve(&self, private: Private) -> Self::Future {
        (**self).resolve(private)
    }
}

/// Implements the trait for types that are one address.
macro_rules! one_address {
    ($($addr:ty),*) => { $(
        impl ToSocketAddrs for $addr {}

        impl Resolve for $addr {
            type Iter = std::option::IntoIter<SocketAddr>;
            type Future = Ready<Self::Iter>;

            fn resolve(&self, _: Private) -> Self::Future {
                std::future::ready(Ok(Some(SocketAddr::from(*self)).into_iter()))
            }
        }
    )* };
}

one_address!(
    SocketAddr,
    SocketAddrV4,
    SocketAddrV6,
    (IpAddr, u16),
    (Ipv4Addr, u16),
    (Ipv6Addr, u16)
);

impl ToSocketAddrs for &[SocketAddr] {}

impl Resolve for &[SocketAddr] {
    type Iter = std::vec::IntoIter<SocketAddr>;
    type Future = Ready<Self::Iter>;

    fn resolve(&self, _: Private) -> Self::Future {
        let owned = self.to_vec();
        std::future::ready(Ok(owned.into_iter()))
    }
}

impl ToSocketAddrs for str {}

impl Resolve for str {
    type Iter = ResolvedAddrs;
    type Future = ResolveFuture;

    fn resolve(&self, _: Private) -> ResolveFuture {
        if let Ok(addr) = self.parse() {
            return ResolveFuture::known(addr);
        }
        let host = self.to_owned();
        ResolveFuture::blocking(move || std::net::ToSocketAddrs::to_socket_addrs(&host))
    }
}

impl ToSocketAddrs for String {}

impl Resolve for String {
    type Iter = ResolvedAddrs;
    type Future = ResolveFuture;

    fn resolve(&self, private: Private) -> ResolveFuture {
        self.as_str().resolve(private)
    }
}

impl ToSocketAddrs for (&str, u16) {}

impl Resolve for (&str, u16) {
    type Iter = ResolvedAddrs;
    type Future = ResolveFuture;

    fn resolve(&self, _: Private) -> ResolveFuture {
        let (host, port) = *self;
        if let Ok(ip) = host.parse::<IpAddr>() {
            return ResolveFuture::known((ip, port).into());
        }
        let host = host.to_owned();
        ResolveFuture::blocking(move || {
            std::net::ToSocketAddrs::to_socket_addrs(&(host.as_str(), port))
        })
    }
}

impl ToSocketAddrs for (String, u16) {}

impl Resolve for (String, u16) {
    type Iter = ResolvedAddrs;
    type Future = ResolveFuture;

    fn resolve(&self, private: Private) -> ResolveFuture {
        (self.0.as_str(), self.1).resolve(private)
    }
}

/// The result of [`resolve`].
#[derive(Debug)]
pub enum ResolvedAddrs {
    One(Option<SocketAddr>),
    Many(std::vec::IntoIter<SocketAddr>),
}

impl Iterator for ResolvedAddrs {
    type Item = SocketAddr;

    fn next(&mut self) -> Option<SocketAddr> {
        match self {
            ResolvedAddrs::One(addr) => addr.take(),
            ResolvedAddrs::Many(addrs) => addrs.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            ResolvedAddrs::One(addr) => addr.iter().size_hint(),
            ResolvedAddrs::Many(addrs) => addrs.size_hint(),
        }
    }
}

/// A lookup on the blocking pool, or an address that needs none.
#[derive(Debug)]
pub enum ResolveFuture {
    Known(SocketAddr),
    Blocking(JoinHandle<io::Result<std::vec::IntoIter<SocketAddr>>>),
}

impl ResolveFuture {
    fn known(addr: SocketAddr) -> Self {
        ResolveFuture::Known(addr)
    }

    fn blocking(
        look_up: impl FnOnce() -> io::Result<std::vec::IntoIter<SocketAddr>> + Send + 'static,
    ) -> Self {
        ResolveFuture::Blocking(spawn_blocking(look_up))
    }
}

impl Future for ResolveFuture {
    type Output = io::Result<ResolvedAddrs>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match &mut *self {
            ResolveFuture::Known(addr) => Ok(ResolvedAddrs::One(Some(*addr))),
            ResolveFuture::Blocking(job) => match ready!(Pin::new(job).poll(cx)) {
                Ok(found) => found.map(ResolvedAddrs::Many),
                Err(error) if error.is_cancelled() => Err(blitzen_driver::shutdown_error()),
                Err(error) => Err(io::Error::other(error)),
            },
        })
    }
}
