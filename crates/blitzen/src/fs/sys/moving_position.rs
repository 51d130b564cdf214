//! Windows, where reading or writing at an offset moves a file's position.

use std::io::{self, Seek, SeekFrom};
use std::sync::Arc;

use blitzen_util::shim::Mutex;

use super::FileKind;
use crate::fs::open_file::OpenFile;

/// Whether an operation at an offset moves the position, until it puts it back.
pub(crate) const MOVES_POSITION: bool = true;

/// Puts the position back where it was. The clones of a file share a position, and so a keeper.
#[derive(Clone)]
pub(crate) struct PositionKeeper(Arc<Mutex<()>>);

impl PositionKeeper {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(())))
    }

    /// Calls `act`, which reads or writes at offsets. One at a time: another would take the offset
    /// of this one for the position.
    ///
    /// If the position cannot be put back, `act` has nevertheless done what it returns. The next
    /// operation on the file returns that error.
    pub(crate) fn keep<T>(
        &self,
        file: &OpenFile,
        act: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        self.alone(file, || {
            let Some(position) = file.position() else {
                return act(); // a stream has none
            };
            let _back = PutBack { file, position };
            act()
        })
    }

    /// Calls `act`, which uses the position, when no operation at an offset moves it.
    pub(crate) fn alone<T>(&self, file: &OpenFile, act: impl FnOnce() -> T) -> T {
        // A stream has no position, and may keep `act` waiting for ever.
        let _alone = (file.kind() != FileKind::Stream).then(|| self.0.lock());
        act()
    }
}

/// Puts the position back when it is dropped, also by a panic.
struct PutBack<'a> {
    file: &'a OpenFile,
    position: u64,
}

impl Drop for PutBack<'_> {
    fn drop(&mut self) {
        let Self { file, position } = *self;
        if let Err(error) = (&file.std).seek(SeekFrom::Start(position)) {
            file.write_back.fail(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::task::{Context, Poll, Waker};

    /// A file with ten bytes at position 7, which the caller removes.
    fn file(name: &str) -> (OpenFile, std::path::PathBuf) {
        let path = std::env::temp_dir().join(format!("blitzen-{}-{name}", std::process::id()));
        fs::write(&path, [0; 10]).unwrap();
        let mut std = File::options().read(true).write(true).open(&path).unwrap();
        std.seek(SeekFrom::Start(7)).unwrap();
        (OpenFile::new(std), path)
    }

    #[test]
    fn an_operation_that_panics_leaves_the_position_where_it_was() {
        let (file, path) = file("panics");
        let act = || -> io::Result<()> {
            (&file.std).seek(SeekFrom::Start(2)).unwrap();
            panic!("in the operation");
        };
        let kept = catch_unwind(AssertUnwindSafe(|| file.keeper.keep(&file, act)));
        assert!(kept.is_err());
        assert_eq!((&file.std).stream_position().unwrap(), 7);
        drop(file);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_position_that_cannot_be_put_back_is_the_error_of_the_next_operation() {
        let (file, path) = file("fails");
        let position = u64::MAX; // no file reaches as far
        drop(PutBack {
            file: &file,
            position,
        });
        let next = || {
            file.write_back
                .poll_idle(&Context::from_waker(Waker::noop()))
        };
        assert!(matches!(next(), Poll::Ready(Err(_))));
        assert!(matches!(next(), Poll::Ready(Ok(()))), "once");
        drop(file);
        fs::remove_file(path).unwrap();
    }
}
