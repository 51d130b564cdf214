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

/// The address of a Unix domain socket: a path, a name in the abstract namespace
/// of Linux, or none.
///
/// # Examples
///
#[doc = unix_dir!("UnixListener")]
/// let path = dir.join("socket");
/// let listener = UnixListener::bind(&path)?;
/// assert_eq!(listener.local_addr()?.as_pathname(), Some(&*path));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct SocketAddr(pub(super) StdSocketAddr);

impl SocketAddr {
    /// Returns whether the socket has no address.
    ///
    /// # Examples
    ///
    #[doc = unix_pair!("socket", "_peer")]
    /// assert!(socket.local_addr()?.is_unnamed());
    /// # Ok(()) }
    /// ```
    pub fn is_unnamed(&self) -> bool {
        self.0.is_unnamed()
    }

    /// Returns the path, if the address is one.
    ///
    /// # Examples
    ///
    #[doc = unix_dir!("UnixListener")]
    /// let listener = UnixListener::bind(dir.join("socket"))?;
    /// assert_eq!(listener.local_addr()?.as_pathname(), Some(&*dir.join("socket")));
    /// # Ok(()) }
    /// ```
    pub fn as_pathname(&self) -> Option<&Path> {
        self.0.as_pathname()
    }

    /// Returns the name in the abstract namespace, without its leading zero
    /// byte, if the address is one.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::UnixListener;
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let name = format!("example-{}", std::process::id());
    /// let listener = UnixListener::bind(format!("\0{name}"))?;
    /// assert_eq!(listener.local_addr()?.as_abstract_name(), Some(name.as_bytes()));
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn as_abstract_name(&self) -> Option<&[u8]> {
        self.0.as_abstract_name()
    }
}

/// Converts a path. On Linux a path that begins with a zero byte is a name in
/// the abstract namespace.
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

/// [`addr_from_path`], for socket2.
pub(super) fn sockaddr_from_path(path: &Path) -> io::Result<SockAddr> {
    addr_from_path(path)?; // so that both fail with the same kind of error
    SockAddr::unix(path)
}

/// Converts the address of a sender.
pub(super) fn addr_from_sockaddr(addr: &SockAddr) -> io::Result<SocketAddr> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Some(name) = addr.as_abstract_namespace() {
        return StdSocketAddr::from_abstract_name(name).map(SocketAddr);
    }
    // An empty path makes the address of a socket without one.
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
