//! TCP listeners, streams and their halves.
//!
//! [`TcpListener`], [`TcpStream`] and [`TcpSocket`] are in
//! [`net`](crate::net) too; the types that [`TcpStream::split`] and
//! [`TcpStream::into_split`] return are only here.
//!
//! # Examples
//!
//! ```
//! use blitzen::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
//! use blitzen::net::TcpStream;
//!
//! fn split(stream: TcpStream) -> (OwnedReadHalf, OwnedWriteHalf) {
//!     stream.into_split()
//! }
//! ```

mod listener;
mod socket;
mod split;
mod stream;

pub use listener::TcpListener;
pub use socket::TcpSocket;
pub use split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use stream::TcpStream;
