//! Traits, buffers and streams of bytes.

pub use std::io::{Error, ErrorKind, Result, SeekFrom};
