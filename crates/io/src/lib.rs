//! Asynchronous reading and writing: traits, buffers and combinators for any executor.
//!
//! ```
//! use blitzen::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
//!
//! # #[blitzen::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let (mut client, server) = blitzen::io::duplex(64);
//! client.write_all(b"one\ntwo\n").await?;
//! client.shutdown().await?;
//!
//! let mut lines = BufReader::new(server).lines();
//! assert_eq!(lines.next_line().await?.as_deref(), Some("one"));
//! assert_eq!(lines.next_line().await?.as_deref(), Some("two"));
//! assert_eq!(lines.next_line().await?, None);
//! # Ok(())
//! # }
//! ```
//!
//! | | |
//! |---|---|
//! | traits that streams implement | [`AsyncRead`], [`AsyncWrite`], [`AsyncBufRead`], [`AsyncSeek`] |
//! | methods to call | [`AsyncReadExt`], [`AsyncWriteExt`], [`AsyncBufReadExt`], [`AsyncSeekExt`] |
//! | the buffer of a read | [`ReadBuf`] |
//! | buffered streams | [`BufReader`], [`BufWriter`], [`BufStream`] |
//! | copying | [`copy`], [`copy_buf`], [`copy_bidirectional`] |
//! | streams in memory | [`duplex`], [`simplex`], [`empty`], [`repeat`], [`sink`] |
//! | one stream as two, two as one | [`split`], [`join`] |
//! | buffers that an operation owns | [`owned`] |
//! | traits of other crates | `futures_io` and `hyper`, each behind the feature of its name |
//!
//! Nothing here needs a runtime: a [`Waker`](std::task::Waker) is enough. Operations
//! that may never have to wait spend the cooperative budget of their task, so that a
//! busy stream does not keep other tasks from running.

#[doc(no_inline)]
pub use std::io::{Error, ErrorKind, Result, SeekFrom};

mod async_buf_read;
mod async_read;
mod async_seek;
mod async_write;
mod read_buf;

pub use async_buf_read::AsyncBufRead;
pub use async_read::AsyncRead;
pub use async_seek::AsyncSeek;
pub use async_write::AsyncWrite;
pub use read_buf::ReadBuf;

mod ext;

pub use ext::{AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
pub use ext::{Chain, Lines, Split, Take};

mod bi_lock;
mod buf_reader;
mod buf_stream;
mod buf_writer;
mod byte_buffer;
mod check;
mod copy;
mod copy_bidirectional;
mod duplex;
mod empty;
mod join;
mod pipe;
mod repeat;
mod simplex;
mod sink;
mod split;

pub use buf_reader::BufReader;
pub use buf_stream::BufStream;
pub use buf_writer::BufWriter;
pub use copy::{copy, copy_buf};
pub use copy_bidirectional::{copy_bidirectional, copy_bidirectional_with_sizes};
pub use duplex::{DuplexStream, duplex};
pub use empty::{Empty, empty};
pub use join::{Join, join};
pub use repeat::{Repeat, repeat};
pub use simplex::{SimplexStream, simplex};
pub use sink::{Sink, sink};
pub use split::{ReadHalf, WriteHalf, split};

pub mod owned;

#[cfg(feature = "futures-io")]
pub mod futures_io;
#[cfg(feature = "hyper")]
pub mod hyper;

/// The capacity of [`BufReader`], [`BufWriter`] and [`copy`] by default.
const DEFAULT_CAPACITY: usize = 8 * 1024;
