//! Addresses of Unix domain sockets.

use std::fmt;
use std::io;
#[cfg(target_os = "android")]
use std::os::android::net::SocketAddrExt;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr as StdSocketAddr;
use std::path::Path;

use socket2::SockAddr;

/// The address of a Unix domain socket: a path, a name in the abstract
/// namespace (Linux), or none.
///
/// ```
#[doc = unix_dir!()]
/// let path = dir.join("socket");
/// let listener = UnixListener::bind(&path)?;
/// assert_eq!(listener.local_addr()?.as_pathname(), Some(&*path));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct SocketAddr(pub(super) StdSocketAddr);

impl SocketAddr {
    /// Whether the socket has no address.
    ///
    /// ```
    #[doc = unix_pair!()]
    /// assert!(socket.local_addr()?.is_unnamed());
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    pub fn is_unnamed(&self) -> bool {
        self.0.is_unnamed()
    }

    /// The path, if it is one.
    ///
    /// ```
    #[doc = unix_dir!()]
    /// let listener = UnixListener::bind(dir.join("socket"))?;
    /// assert!(listener.local_addr()?.as_pathname().is_some());
    /// # Ok(()) }
    /// ```
    pub fn as_pathname(&self) -> Option<&Path> {
        self.0.as_pathname()
    }

    /// The name in the abstract namespace, without the zero it begins with, if
    /// it is one.
    ///
    /// ```
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// # let unique = format!("blitzen-doc-{}", std::process::id());
    /// let listener = blitzen::net::UnixListener::bind(format!("\0{unique}"))?;
    /// assert_eq!(listener.local_addr()?.as_abstract_name(), Some(unique.as_bytes()));
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn as_abstract_name(&self) -> Option<&[u8]> {
        self.0.as_abstract_name()
    }
}

/// The address that a path means. On Linux one that begins with a zero byte is
/// a name in the abstract namespace.
pub(super) fn addr_from_path(path: &Path) -> io::Result<StdSocketAddr> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use std::os::unix::ffi::OsStrExt;
        if let Some(name) = path.as_os_str().as_bytes().strip_prefix(b"\0") {
            return StdSocketAddr::from_abstract_name(name);
        }
    }
    StdSocketAddr::from_pathname(path)
}

/// [`addr_from_path`], as the system wants it.
pub(super) fn sockaddr_from_path(path: &Path) -> io::Result<SockAddr> {
    addr_from_path(path)?; // for the kind of error that the others give
    SockAddr::unix(path)
}

/// What the system says of a sender.
pub(super) fn addr_from_sockaddr(addr: &SockAddr) -> io::Result<SocketAddr> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Some(name) = addr.as_abstract_namespace() {
        return StdSocketAddr::from_abstract_name(name).map(SocketAddr);
    }
    // A sender without an address has an empty path.
    let path = addr.as_pathname().unwrap_or(Path::new(""));
    StdSocketAddr::from_pathname(path).map(SocketAddr)
}

impl fmt::Debug for SocketAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<StdSocketAddr> for SocketAddr {
    fn from(addr: StdSocketAddr) -> Self {
        Self(addr)
    }
}

impl From<SocketAddr> for StdSocketAddr {
    fn from(addr: SocketAddr) -> Self {
        addr.0
    }
}
