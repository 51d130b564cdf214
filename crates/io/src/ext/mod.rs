//! The extension traits, and the futures and readers that their methods return.
//!
//! A future holds references and a little state. It is `!Unpin`, so that a later
//! version may borrow from itself.

mod async_buf_read_ext;
mod async_read_ext;
mod async_seek_ext;
mod async_write_ext;
mod chain;
mod fill_buf;
mod flush;
mod lines;
mod number;
mod read;
mod read_buf;
mod read_exact;
mod read_line;
mod read_to_end;
mod read_to_string;
mod read_until;
mod split;
mod take;
mod write;
mod write_all;
mod write_buf;

pub use async_buf_read_ext::AsyncBufReadExt;
pub use async_read_ext::AsyncReadExt;
pub use async_seek_ext::AsyncSeekExt;
pub use async_write_ext::AsyncWriteExt;
pub use chain::Chain;
pub use lines::Lines;
pub use split::Split;
pub use take::Take;

use std::io;

#[cold]
fn early_eof() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "early eof")
}

#[cold]
fn write_zero() -> io::Error {
    io::Error::new(io::ErrorKind::WriteZero, "the writer accepts no more bytes")
}
