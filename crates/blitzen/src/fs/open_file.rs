//! A descriptor and its properties, shared by a file and the operations on it.

use std::fs::File as StdFile;
use std::io::{self, IoSlice, Seek};
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use super::inline::InlineBackoff;
use super::sys::{self, FileKind, NoWait, PositionKeeper};
use super::write_back::WriteBack;

pub(super) struct OpenFile {
    pub(super) std: StdFile,
    pub(super) write_back: Arc<WriteBack>,
    pub(super) inline: InlineBackoff,
    pub(super) nowait_reads: NoWaitSupport,
    pub(super) nowait_writes: NoWaitSupport,
    pub(super) keeper: PositionKeeper,
    kind: OnceLock<FileKind>,
}

impl OpenFile {
    pub(super) fn new(std: StdFile) -> Self {
        Self::with_keeper(std, PositionKeeper::new())
    }

    /// Duplicates the descriptor. Both have one position.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        let std = self.std.try_clone()?;
        Ok(Self::with_keeper(std, self.keeper.clone()))
    }

    fn with_keeper(std: StdFile, keeper: PositionKeeper) -> Self {
        Self {
            std,
            write_back: Arc::default(),
            inline: InlineBackoff::new(),
            nowait_reads: NoWaitSupport::unknown(),
            nowait_writes: NoWaitSupport::unknown(),
            keeper,
            kind: OnceLock::new(),
        }
    }

    pub(super) fn kind(&self) -> FileKind {
        *self.kind.get_or_init(|| sys::kind(&self.std))
    }

    /// Whether it is a regular file on a file system of this machine.
    pub(super) fn is_local(&self) -> bool {
        // Other systems cannot tell, and finding out may block.
        cfg!(target_os = "linux") && self.kind() == FileKind::Local
    }

    /// Returns the file's position; `None` for a stream.
    pub(super) fn position(&self) -> Option<u64> {
        match self.kind() {
            FileKind::Stream => None,
            FileKind::Local | FileKind::Seekable => (&self.std).stream_position().ok(),
        }
    }

    /// Reads at the position, if the kernel need not wait.
    pub(super) fn read_nowait(&self, room: &mut [MaybeUninit<u8>]) -> NoWait<usize> {
        self.nowait_reads
            .attempt(|| sys::read_nowait(&self.std, room))
    }

    /// Writes at the position, if the kernel need not wait.
    pub(super) fn write_nowait(&self, pieces: &[IoSlice<'_>]) -> NoWait<usize> {
        self.nowait_writes
            .attempt(|| sys::write_nowait(&self.std, pieces))
    }
}

#[cfg(unix)]
impl std::os::fd::AsFd for OpenFile {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.std.as_fd()
    }
}

/// Whether a file supports `RWF_NOWAIT`. Where its file system does not, trying
/// each time would double the system calls.
pub(super) struct NoWaitSupport {
    is_missing: AtomicBool,
}

impl NoWaitSupport {
    const fn unknown() -> Self {
        let is_missing = AtomicBool::new(false);
        Self { is_missing }
    }

    /// Whether an attempt has shown that the file does not support it.
    pub(super) fn is_missing(&self) -> bool {
        self.is_missing.load(Relaxed) // a fact about the file, which orders nothing
    }

    /// Makes `attempt`, unless the file does not support it.
    pub(super) fn attempt<T>(&self, attempt: impl FnOnce() -> NoWait<T>) -> NoWait<T> {
        if self.is_missing() {
            return NoWait::Unsupported;
        }
        let answer = attempt();
        if let NoWait::Unsupported = answer {
            self.is_missing.store(true, Relaxed);
        }
        answer
    }
}

/// Calls `act`, again if a signal interrupts it.
pub(super) fn retry_interrupted<T>(mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match act() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
