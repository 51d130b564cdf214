//! Unix domain sockets, pipes, and the credentials of peers.
//!
//! [`UnixListener`], [`UnixStream`], [`UnixDatagram`] and [`UnixSocket`] are in
//! [`net`](crate::net) too; the other types are only here.
//!
//! # Examples
//!
//! ```
//! use blitzen::net::unix::UCred;
//! use blitzen::net::UnixStream;
//!
//! # #[blitzen::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let (stream, _peer) = UnixStream::pair()?;
//! let credentials: UCred = stream.peer_cred()?;
//! println!("user {}", credentials.uid());
//! # Ok(())
//! # }
//! ```

mod addr;
mod datagram;
mod listener;
pub mod pipe;
mod socket;
mod split;
mod stream;
mod ucred;

pub use addr::SocketAddr;
pub use datagram::UnixDatagram;
pub use listener::UnixListener;
pub use socket::UnixSocket;
pub use split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use stream::UnixStream;
pub use ucred::UCred;

/// The number of a user.
///
/// # Examples
///
/// ```
/// use blitzen::net::unix::uid_t;
///
/// const ROOT: uid_t = 0;
/// ```
#[allow(non_camel_case_types)] // the system's name
pub type uid_t = u32;

/// The number of a group of users.
///
/// # Examples
///
/// ```
/// use blitzen::net::unix::gid_t;
///
/// const ROOT: gid_t = 0;
/// ```
#[allow(non_camel_case_types)] // the system's name
pub type gid_t = u32;

/// The number of a process.
///
/// # Examples
///
/// ```
/// use blitzen::net::unix::pid_t;
///
/// const INIT: pid_t = 1;
/// ```
#[allow(non_camel_case_types)] // the system's name
pub type pid_t = i32;
