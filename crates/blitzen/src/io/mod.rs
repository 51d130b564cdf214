//! Traits, buffers and combinators for reading and writing, and the standard streams.
//!
//! ```
//! use blitzen::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # #[blitzen::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let (mut client, mut server) = blitzen::io::duplex(64);
//! client.write_all(b"hello").await?;
//! let mut bytes = [0; 5];
//! server.read_exact(&mut bytes).await?;
//! assert_eq!(&bytes, b"hello");
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
//! | the standard streams | [`stdin`], [`stdout`], [`stderr`] |
//! | readiness of any descriptor | `unix::AsyncFd` |

#[doc(inline)]
pub use blitzen_driver::{Interest, Ready};
#[doc(inline)]
pub use blitzen_io::*;

mod blocking;
mod buf_mut;
#[cfg(feature = "hyper")]
pub mod hyper;
mod poll_evented;
mod stdio;

#[cfg(windows)]
pub(crate) use blocking::Blocking;
pub(crate) use buf_mut::fill_buf_mut;
pub(crate) use poll_evented::{BOTH, Evented, PollEvented, settled};
pub use stdio::{Stderr, Stdin, Stdout, stderr, stdin, stdout};

#[cfg(unix)]
pub mod unix;
