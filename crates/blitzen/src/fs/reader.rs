//! Reading a file at its position.
//!
//! ```text
//!   nowait ──► the bytes are in the page cache ─────────────────────► done
//!     │
//!     ├─ would block ─► read ahead: the ring, or the pool, brings the
//!     │                 bytes into the cache ─► read them from there ─► done
//!     │
//!     └─ unsupported ─► local file: inline, or read ahead as above ──► done
//!                       any other: a job reads, its bytes wait here ─► done
//! ```
//!
//! P1. Bytes count as read, and the position moves, when they are returned to the
//!     reader: a future that is dropped has read nothing, and the result of what
//!     it began is discarded.
//! P2. A job reads a file that is not local at an offset, and does not move its
//!     position. Its bytes are used only if the position is still the same and the
//!     file has not been changed since. Where a read at an offset moves the position
//!     until it puts it back, no other operation begins meanwhile: the job counts as
//!     a change whose future was dropped.
//! P3. A stream, such as a pipe or a terminal, has no position. What a job has
//!     read of one is kept for the next read.

use std::future::Future;
use std::io::{self, Read, Seek, SeekFrom};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use blitzen_io::ReadBuf;
use blitzen_task::JoinHandle;

use super::inline;
use super::op::{self, MAX_INLINE_BYTES};
use super::open_file::{OpenFile, retry_interrupted};
use super::sys::{self, MOVES_POSITION, NoWait, ReadAhead};

pub(super) struct Reader {
    state: ReaderState,
    /// Bytes of a stream that were not returned yet (P3), from `taken` on.
    kept: Vec<u8>,
    taken: usize,
}

enum ReaderState {
    Idle,
    /// A read-ahead into the page cache, whose result is discarded.
    ReadAhead(ReadAhead),
    Job {
        job: JoinHandle<Chunk>,
        /// The file has changed since the job was started (P2).
        is_outdated: bool,
    },
}

/// What a job has read.
enum Chunk {
    /// Read at an offset, without moving the position.
    At(u64, io::Result<Vec<u8>>),
    Stream(io::Result<Vec<u8>>),
}

impl Reader {
    pub(super) fn new() -> Self {
        Self {
            state: ReaderState::Idle,
            kept: Vec::new(),
            taken: 0,
        }
    }

    /// Notes that the file is about to change.
    pub(super) fn invalidate(&mut self) {
        if let ReaderState::Job { is_outdated, .. } = &mut self.state {
            *is_outdated = true;
        }
    }

    /// Whether a job may be reading a stream.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.state, ReaderState::Job { .. })
    }

    /// Waits until no job reads. What it has read is discarded.
    pub(super) fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let ReaderState::Job { job, .. } = &mut self.state {
            let _chunk = ready!(Pin::new(job).poll(cx));
            self.state = ReaderState::Idle;
        }
        Poll::Ready(())
    }

    /// Reads at most `max_len` bytes.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        file: &Arc<OpenFile>,
        buf: &mut ReadBuf<'_>,
        max_len: usize,
    ) -> Poll<io::Result<()>> {
        let max_len = buf.remaining().min(max_len);
        if max_len == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            let mut is_cached = false;
            match &mut self.state {
                ReaderState::Idle => {}
                ReaderState::ReadAhead(read_ahead) => {
                    ready!(Pin::new(read_ahead).poll(cx));
                    self.state = ReaderState::Idle;
                    is_cached = true;
                }
                ReaderState::Job { job, is_outdated } => {
                    let chunk = ready!(Pin::new(job).poll(cx));
                    let is_outdated = *is_outdated;
                    self.state = ReaderState::Idle;
                    match chunk.map_err(|_| op::refused())? {
                        Chunk::At(offset, bytes) if !is_outdated => {
                            if let Some(read) = deliver(file, offset, bytes, buf, max_len) {
                                return Poll::Ready(read);
                            }
                        }
                        Chunk::At(..) => {}
                        Chunk::Stream(bytes) => {
                            (self.kept, self.taken) = (bytes?, 0);
                            if self.kept.is_empty() {
                                return Poll::Ready(Ok(())); // the end
                            }
                        }
                    }
                }
            }
            let kept = &self.kept[self.taken..];
            if !kept.is_empty() {
                let count = kept.len().min(max_len);
                buf.put_slice(&kept[..count]);
                self.taken += count;
                return Poll::Ready(Ok(()));
            }
            let len = max_len.min(MAX_INLINE_BYTES);
            // SAFETY: nothing in there is made uninitialised.
            let room = unsafe { &mut buf.unfilled_mut()[..len] };
            if let Some(read) = read_here(file, room, is_cached) {
                return Poll::Ready(read.map(|read| {
                    // SAFETY: just read.
                    unsafe { buf.assume_init(read) };
                    buf.advance(read);
                }));
            }
            self.state = match is_cached {
                false => begin(file, max_len),
                true => begin_job(file, max_len), // the read-ahead has not helped
            };
        }
    }
}

/// Reads without waiting, or on this thread if that is likely to be short. After a
/// read-ahead it is: the bytes are in the page cache.
fn read_here(
    file: &OpenFile,
    room: &mut [MaybeUninit<u8>],
    is_cached: bool,
) -> Option<io::Result<usize>> {
    match file.read_nowait(room) {
        NoWait::Done(read) => return Some(read),
        NoWait::WouldBlock if !is_cached => return None,
        NoWait::WouldBlock | NoWait::Unsupported => {}
    }
    if !file.is_local() {
        return None;
    }
    let read = |room| sys::read_blocking(&file.std, room);
    match inline::run(&file.inline, room, read) {
        Ok(read) => Some(read),
        Err(room) => is_cached.then(|| read(room)),
    }
}

fn begin(file: &Arc<OpenFile>, len: usize) -> ReaderState {
    match sys::read_ahead(file, len.min(MAX_INLINE_BYTES)) {
        Some(read_ahead) => ReaderState::ReadAhead(read_ahead),
        None => begin_job(file, len),
    }
}

fn begin_job(file: &Arc<OpenFile>, len: usize) -> ReaderState {
    let file = file.clone();
    let change = MOVES_POSITION.then(|| file.write_back.begin_abandoned_change()); // P2
    let job = move || {
        let mut bytes = vec![0; len];
        let position = file.position();
        let read = match position {
            Some(offset) => sys::read_blocking_at(&file, &mut bytes, offset),
            None => {
                drop(change); // a stream may keep the job waiting while others write to it
                retry_interrupted(|| (&file.std).read(&mut bytes))
            }
        };
        let read = read.map(|read| {
            bytes.truncate(read);
            bytes
        });
        match position {
            Some(offset) => Chunk::At(offset, read),
            None => Chunk::Stream(read),
        }
    };
    ReaderState::Job {
        job: op::spawn_on_pool(job, false),
        is_outdated: false,
    }
}

/// Copies what was read at `offset`, and moves the position behind it; returns
/// `None` if the position has changed (P2).
fn deliver(
    file: &OpenFile,
    offset: u64,
    bytes: io::Result<Vec<u8>>,
    buf: &mut ReadBuf<'_>,
    max_len: usize,
) -> Option<io::Result<()>> {
    let mut std = &file.std;
    if !std
        .stream_position()
        .is_ok_and(|position| position == offset)
    {
        return None;
    }
    Some(bytes.and_then(|bytes| {
        let count = bytes.len().min(max_len);
        std.seek(SeekFrom::Start(offset + count as u64))?;
        buf.put_slice(&bytes[..count]);
        Ok(())
    }))
}
