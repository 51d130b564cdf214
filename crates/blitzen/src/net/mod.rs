//! TCP, UDP and Unix domain sockets, pipes, and host name lookup.
//!
//! | type | what it is |
//! |---|---|
//! | [`TcpListener`], [`TcpStream`] | TCP connections |
//! | [`TcpSocket`] | a TCP socket whose options are set before it is used |
//! | [`UdpSocket`] | UDP datagrams |
#![cfg_attr(
    unix,
    doc = "| [`UnixListener`], [`UnixStream`] | Unix domain connections |
| [`UnixDatagram`] | Unix domain datagrams |
| [`UnixSocket`] | a Unix domain socket that is bound before it is used |
| [`unix::pipe`] | pipes, with and without a name |"
)]
#![cfg_attr(windows, doc = "| [`windows::named_pipe`] | named pipes of Windows |")]
//! | [`lookup_host`] | host name lookup |
//!
//! A socket can leave the runtime (`into_std`) and come back (`from_std`).
//! `try_io` and `async_io` run operations on its descriptor that this module does
//! not have. On Linux, TCP and Unix streams can use io_uring: see
//! [`SocketMode`].
//!
//! # Examples
//!
//! ```
//! use blitzen::io::{AsyncReadExt, AsyncWriteExt};
//! use blitzen::net::{TcpListener, TcpStream};
//!
//! # #[blitzen::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let address = listener.local_addr()?;
//!
//! let server = blitzen::spawn(async move {
//!     let (mut stream, _) = listener.accept().await?;
//!     let (mut reader, mut writer) = stream.split();
//!     blitzen::io::copy(&mut reader, &mut writer).await
//! });
//!
//! let mut stream = TcpStream::connect(address).await?;
//! stream.write_all(b"hello").await?;
//! stream.shutdown().await?;
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer).await?;
//! assert_eq!(answer, "hello");
//! assert_eq!(server.await??, 5);
//! # Ok(())
//! # }
//! ```

#[macro_use]
mod examples;
#[macro_use]
mod macros;

mod addr;
#[cfg_attr(not(blitzen_ring), path = "completion/absent.rs")]
mod completion;
mod into_std;
mod listener_io;
mod mode;
mod raw;
mod small_writes;
mod socket;
mod stream_io;

pub use addr::{ToSocketAddrs, lookup_host};
pub use into_std::IntoStdError;
pub use mode::SocketMode;

pub mod tcp;
pub use tcp::{TcpListener, TcpSocket, TcpStream};

mod udp;
pub use udp::UdpSocket;

#[cfg(unix)]
pub mod unix;
#[cfg(unix)]
pub use unix::{UnixDatagram, UnixListener, UnixSocket, UnixStream};

#[cfg(windows)]
pub mod windows;
