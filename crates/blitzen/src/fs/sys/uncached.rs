//! Systems that cannot be asked whether a read or a write has to wait.

use std::fs::File as StdFile;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;

/// The result of an operation that must not wait: never supported here.
pub(crate) enum NoWait<T> {
    #[allow(dead_code)] // elsewhere
    Done(io::Result<T>),
    #[allow(dead_code)] // elsewhere
    WouldBlock,
    Unsupported,
}

/// The kind of an open file, which decides how it is read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    #[allow(dead_code)] // elsewhere
    Local,
    /// A regular file, or a disk.
    Seekable,
    /// Anything else.
    Stream,
}

/// Returns the kind of file; may block.
pub(crate) fn kind(file: &StdFile) -> FileKind {
    match file.metadata().map(|metadata| metadata.file_type()) {
        Ok(file_type) if file_type.is_file() => FileKind::Seekable,
        #[cfg(unix)]
        Ok(file_type) if std::os::unix::fs::FileTypeExt::is_block_device(&file_type) => {
            FileKind::Seekable
        }
        _ => FileKind::Stream,
    }
}

pub(crate) fn read_nowait(_: &StdFile, _: &mut [MaybeUninit<u8>]) -> NoWait<usize> {
    NoWait::Unsupported
}

pub(crate) fn write_nowait(_: &StdFile, _: &[IoSlice<'_>]) -> NoWait<usize> {
    NoWait::Unsupported
}
