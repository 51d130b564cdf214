//! Windows, where reading or writing at an offset moves a file's position.

use std::fs::File as StdFile;
use std::io::{self, Seek, SeekFrom};

use blitzen_util::shim::Mutex;

/// Puts the position back where it was.
pub(crate) struct PositionKeeper(Mutex<()>);

impl PositionKeeper {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(()))
    }

    /// Calls `act`, which reads or writes at offsets. One at a time: another would take the offset
    /// of this one for the position.
    pub(crate) fn keep<T>(
        &self,
        mut file: &StdFile,
        act: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let _alone = self.0.lock();
        let Ok(position) = file.stream_position() else {
            return act(); // a stream has none
        };
        let done = act();
        file.seek(SeekFrom::Start(position))?;
        done
    }
}
