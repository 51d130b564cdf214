//! Reading and writing: the traits, the combinators, foreign descriptors, and
//! the standard streams.
//!
//! ```
//! use blitzen::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # #[blitzen::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let (mut one, mut other) = blitzen::io::duplex(64);
//! one.write_all(b"hello").await?;
//! let mut bytes = [0; 5];
//! other.read_exact(&mut bytes).await?;
//! assert_eq!(&bytes, b"hello");
//! # Ok(())
//! # }
//! ```

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
pub(crate) use poll_evented::{BOTH, PollEvented};
pub use stdio::{Stderr, Stdin, Stdout, stderr, stdin, stdout};

#[cfg(unix)]
pub mod unix;
