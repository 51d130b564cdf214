//! Unix domain sockets, pipes, and who is at the other end.

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
#[allow(non_camel_case_types)] // the system's name
pub type uid_t = u32;

/// The number of a group of users.
#[allow(non_camel_case_types)] // the system's name
pub type gid_t = u32;

/// The number of a process.
#[allow(non_camel_case_types)] // the system's name
pub type pid_t = i32;
