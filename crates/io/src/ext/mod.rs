//! The methods users call, and the futures they return.
//!
//! Each future holds a reference and a little state, and is `!Unpin`, so that
//! it may one day hold more.

mod buf_read;
mod fill_buf;
mod flush;
mod number;
mod read;
mod read_exact;
mod read_into;
mod read_line;
mod read_some;
mod read_to_end;
mod read_to_string;
mod read_until;
mod seek;
mod write;
mod write_all;
mod write_from;
mod write_some;

pub use buf_read::AsyncBufReadExt;
pub use read::AsyncReadExt;
pub use seek::AsyncSeekExt;
pub use write::AsyncWriteExt;

pub(crate) use read_until::poll_read_until;

use std::io;

#[cold]
fn early_eof() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "early eof")
}

#[cold]
fn write_zero() -> io::Error {
    io::Error::new(io::ErrorKind::WriteZero, "the writer takes no more")
}
