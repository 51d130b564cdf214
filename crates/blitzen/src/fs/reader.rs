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
//! P1. Bytes are read, and the position moves, when they are handed to the
//!     reader: a future that is dropped has read nothing, and what it began is of
//!     no interest to anybody.
//! P2. A job reads a file that is not local at an offset, and does not move it.
//!     Its bytes count only if the file still stands there and nothing has
//!     changed it since.
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
use super::sys::{self, NoWait, ReadAhead};

pub(super) struct Reader {
    state: State,
    /// Bytes of a stream that nobody has taken yet (P3), from `taken` on.
    kept: Vec<u8>,
    taken: usize,
}

enum State {
    Idle,
    /// Bytes on their way into the page cache. What comes of it is of no interest.
    ReadAhead(ReadAhead),
    Job {
        job: JoinHandle<Chunk>,
        /// The file has changed since the job was started (P2).
        is_outdated: bool,
    },
}

/// What a job has read.
enum Chunk {
    /// At an offset, which has not moved the file.
    At(u64, io::Result<Vec<u8>>),
    Stream(io::Result<Vec<u8>>),
}

impl Reader {
    pub(super) fn new() -> Self {
        Self {
            state: State::Idle,
            kept: Vec::new(),
            taken: 0,
        }
    }

    /// Notes that the file is about to change.
    pub(super) fn invalidate(&mut self) {
        if let State::Job { is_outdated, .. } = &mut self.state {
            *is_outdated = true;
        }
    }

    /// Whether a job may be reading a stream.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.state, State::Job { .. })
    }

    /// Waits until no job reads. What it has read has nobody to go to.
    pub(super) fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let State::Job { job, .. } = &mut self.state {
            let _chunk = ready!(Pin::new(job).poll(cx));
            self.state = State::Idle;
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
                State::Idle => {}
                State::ReadAhead(read_ahead) => {
                    ready!(Pin::new(read_ahead).poll(cx));
                    self.state = State::Idle;
                    is_cached = true;
                }
                State::Job { job, is_outdated } => {
                    let chunk = ready!(Pin::new(job).poll(cx));
                    let is_outdated = *is_outdated;
                    self.state = State::Idle;
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
                true => begin_job(file, max_len), // it was in vain
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

fn begin(file: &Arc<OpenFile>, len: usize) -> State {
    match sys::read_ahead(file, len.min(MAX_INLINE_BYTES)) {
        Some(read_ahead) => State::ReadAhead(read_ahead),
        None => begin_job(file, len),
    }
}

fn begin_job(file: &Arc<OpenFile>, len: usize) -> State {
    let file = file.clone();
    let job = move || {
        let mut bytes = vec![0; len];
        let position = file.position();
        let read = match position {
            Some(offset) => sys::read_blocking_at(&file.std, &mut bytes, offset),
            None => retry_interrupted(|| (&file.std).read(&mut bytes)),
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
    State::Job {
        job: op::spawn_on_pool(job, false),
        is_outdated: false,
    }
}

/// Hands over what was read at `offset`, and moves the file behind it; `None` if
/// the file stands elsewhere by now (P2).
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
