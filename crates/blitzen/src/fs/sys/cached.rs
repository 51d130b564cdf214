//! What Linux does with an open file if it need not wait: also where there is no ring.

use std::fs::File as StdFile;
use std::io::IoSlice;
use std::mem::MaybeUninit;

use blitzen_driver::local_fs;
pub(crate) use blitzen_driver::local_fs::FileKind;
use blitzen_driver::nowait;
pub(crate) use blitzen_driver::nowait::NoWait;

/// Returns the kind of file. Never waits.
pub(crate) fn kind(file: &StdFile) -> FileKind {
    local_fs::file_kind(file)
}

/// Reads at the position, if the kernel need not wait.
pub(crate) fn read_nowait(file: &StdFile, room: &mut [MaybeUninit<u8>]) -> NoWait<usize> {
    nowait::read_nowait(file, room, None)
}

/// Writes at the position, if the kernel need not wait.
pub(crate) fn write_nowait(file: &StdFile, pieces: &[IoSlice<'_>]) -> NoWait<usize> {
    nowait::write_nowait(file, pieces, None)
}
