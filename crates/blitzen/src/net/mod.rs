//! Sockets: TCP, UDP, Unix domain, pipes, and the lookup of names.
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
//!
//! Every socket is an ordinary descriptor in non-blocking mode. It can leave
//! the runtime (`into_std`) and come back (`from_std`), and it can be used
//! beside it (`AsFd`). The runtime remembers what each one is ready for until an
//! operation finds otherwise; `try_io` and `async_io` let operations take part
//! that blitzen does not know.
//!
//! A socket is watched by the worker on which it was made, while the task that
//! uses it may run anywhere.
//!
//! On Linux, streams and listeners may go by completion instead: see
//! [`SocketMode`].

#[macro_use]
mod examples;
#[macro_use]
mod macros;

mod addr;
#[cfg_attr(not(target_os = "linux"), path = "completion/absent.rs")]
mod completion;
mod into_std;
mod link;
mod listener_io;
mod mode;
mod raw;
mod socket;

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
