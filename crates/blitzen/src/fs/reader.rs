//! What is read from a file where it stands.
//!
//! ```text
//!             in memory                          the kernel has to wait
//!   read ─► read at once ─► done        ─► read_ahead: the ring reads the bytes into
//!             │                            the cache, then read at once again
//!             └ nobody can tell ─► a job reads, and leaves what it has read
//! ```
//!
//! I1. Bytes that are read at once go straight to the reader, and the file's
//!     own position moves with them: a future that is dropped has read nothing.
//!     ReadAhead moves nothing, and its outcome is of no interest.
//! I2. A job moves the position, and what it has read may be more than is taken
//!     from it, or taken by nobody. That is `left`, which comes first in the
//!     next read; anything else that depends on the position gives it back.

use std::fs::File as StdFile;
use std::future::Future;
use std::io::{self, Read, Seek, SeekFrom};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use blitzen_io::ReadBuf;
use blitzen_task::JoinHandle;

use super::engine::{self, MOST_AT_ONCE};
use super::sys::{self, NoWait, ReadAhead};

/// How often bytes are brought into the cache, only to be gone when they are
/// wanted, before a job reads them.
const WARMINGS: u8 = 2;

/// The reading side of a file.
pub(super) struct Reader {
    state: State,
    left: Vec<u8>,
    /// How many of those are taken.
    taken: usize,
    /// Whether the kernel can tell what it can do at once.
    can_tell: bool,
    /// Warmings since something was read.
    warmings: u8,
}

enum State {
    Idle,
    ReadAhead(ReadAhead),
    Job(JoinHandle<(io::Result<()>, Vec<u8>)>),
}

impl Reader {
    pub(super) fn new() -> Self {
        Self {
            state: State::Idle,
            left: Vec::new(),
            taken: 0,
            can_tell: true,
            warmings: 0,
        }
    }

    /// Whether a job is at work.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.state, State::Job(_))
    }

    /// Reads `most` bytes, at the most.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        file: &Arc<StdFile>,
        buf: &mut ReadBuf<'_>,
        most: usize,
    ) -> Poll<io::Result<()>> {
        loop {
            let has_read = self.is_busy();
            ready!(self.poll_quiet(cx))?;
            let left = &self.left[self.taken..];
            // Nothing from a job is the end.
            if !left.is_empty() || has_read || buf.remaining() == 0 {
                let count = left.len().min(buf.remaining()).min(most);
                buf.put_slice(&left[..count]);
                self.taken += count;
                return Poll::Ready(Ok(()));
            }
            let len = buf.remaining().min(most).min(MOST_AT_ONCE);
            if let Some(read) = self.read_at_once(file, buf, len) {
                return Poll::Ready(read);
            }
            self.state = match self.read_ahead(file, len) {
                Some(warming) => State::ReadAhead(warming),
                None => self.start_job(file, buf.remaining().min(most)),
            };
        }
    }

    fn read_at_once(
        &mut self,
        file: &StdFile,
        buf: &mut ReadBuf<'_>,
        len: usize,
    ) -> Option<io::Result<()>> {
        if !self.can_tell {
            return None;
        }
        // SAFETY: nothing in there is made uninitialised.
        let room = unsafe { &mut buf.unfilled_mut()[..len] };
        match sys::read_nowait(file, room) {
            NoWait::Done(read) => {
                self.warmings = 0;
                Some(read.map(|read| {
                    // SAFETY: the kernel has just written them.
                    unsafe { buf.assume_init(read) };
                    buf.advance(read);
                }))
            }
            NoWait::WouldBlock => None,
            NoWait::Unsupported => {
                self.can_tell = false;
                None
            }
        }
    }

    fn read_ahead(&mut self, file: &Arc<StdFile>, len: usize) -> Option<ReadAhead> {
        if !self.can_tell || self.warmings == WARMINGS {
            self.warmings = 0;
            return None;
        }
        self.warmings += 1;
        sys::read_ahead(file, len)
    }

    fn start_job(&mut self, file: &Arc<StdFile>, len: usize) -> State {
        let (file, mut bytes) = (file.clone(), std::mem::take(&mut self.left));
        self.taken = 0;
        let job = move || {
            bytes.resize(len, 0);
            let read = read_some(&file, &mut bytes);
            bytes.truncate(*read.as_ref().unwrap_or(&0));
            (read.map(drop), bytes)
        };
        State::Job(engine::start(job, false))
    }

    /// Waits until nothing is under way.
    fn poll_quiet(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = match &mut self.state {
            State::Idle => return Poll::Ready(Ok(())),
            State::ReadAhead(warming) => {
                ready!(Pin::new(warming).poll(cx));
                Ok(())
            }
            State::Job(job) => match ready!(Pin::new(job).poll(cx)) {
                Ok((result, bytes)) => {
                    (self.left, self.taken) = (bytes, 0);
                    result
                }
                Err(_) => Err(engine::failed()),
            },
        };
        self.state = State::Idle;
        Poll::Ready(result)
    }

    /// Waits until the file's own position is the reader's (I2).
    pub(super) fn poll_settle(
        &mut self,
        cx: &mut Context<'_>,
        file: &StdFile,
    ) -> Poll<io::Result<()>> {
        match &self.state {
            State::Idle => {}
            State::ReadAhead(_) => self.state = State::Idle,
            // Its error is of no interest: nobody wants what it reads.
            State::Job(_) => drop(ready!(self.poll_quiet(cx))),
        }
        self.give_back(file);
        Poll::Ready(Ok(()))
    }

    /// Gives back what a job has read too much, as far as a file can: a pipe
    /// has no position, and keeps it.
    pub(super) fn give_back(&mut self, mut file: &StdFile) {
        let left = self.left.len() - self.taken;
        if left == 0 || file.seek(SeekFrom::Current(-(left as i64))).is_ok() {
            self.left.clear();
            self.taken = 0;
        }
    }
}

/// One read, again if a signal comes in between.
fn read_some(mut file: &StdFile, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}
