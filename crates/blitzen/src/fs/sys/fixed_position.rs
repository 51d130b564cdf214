//! Systems on which reading or writing at an offset leaves a file's position alone.

use std::io;

use crate::fs::open_file::OpenFile;

/// Whether an operation at an offset moves the position, until it puts it back.
pub(crate) const MOVES_POSITION: bool = false;

#[derive(Clone)]
pub(crate) struct PositionKeeper;

impl PositionKeeper {
    pub(crate) fn new() -> Self {
        Self
    }

    /// Calls `act`, which reads or writes at offsets.
    pub(crate) fn keep<T>(
        &self,
        _file: &OpenFile,
        act: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        act()
    }

    /// Calls `act`, which uses the position.
    pub(crate) fn alone<T>(&self, _file: &OpenFile, act: impl FnOnce() -> T) -> T {
        act()
    }
}
