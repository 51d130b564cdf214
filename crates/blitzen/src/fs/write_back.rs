//! What was written to a file, and is on its way to it.
//!
//! ```text
//!            write                    job takes it
//!   task ───────────► filling bytes ────────────────► written by the job
//!                        ▲  more, while the job writes  │
//!                        └──────────────────────────────┘ again, until empty
//! ```
//!
//! O1. There are bytes only while a job is at work, and there is one job at the
//!     most: bytes go out in the order in which they came.
//! O2. The job runs even if the file is dropped or the runtime shut down. A job
//!     that is refused leaves an error.
//! O3. An error ends the job and drops the bytes behind it. It is told once, to
//!     the next operation on the file, of whatever kind.
//! O4. Wakers are fired after the lock.

use std::fs::File as StdFile;
use std::io::{self, IoSlice, Write};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use blitzen_util::shim::Mutex;

use super::engine;

/// So many bytes have to wait for the job that is at work: enough to keep it
/// busy, and few enough to stay in the processor's cache.
const ENOUGH: usize = 256 * 1024;

/// Memory that is kept when there is nothing to write.
const KEPT: usize = 2 * ENOUGH;

/// Bytes on their way.
#[derive(Default)]
pub(super) struct WriteBack(Mutex<State>);

#[derive(Default)]
struct State {
    filling: Vec<u8>,
    /// Memory of the last job, for the next.
    spare: Vec<u8>,
    /// A job is at work, or has been asked for.
    at_work: bool,
    failed: Option<io::Error>,
    waiting: Vec<Waker>,
}

impl State {
    fn wait(&mut self, cx: &Context<'_>) {
        if !self.waiting.iter().any(|other| other.will_wake(cx.waker())) {
            self.waiting.push(cx.waker().clone());
        }
    }
}

impl WriteBack {
    /// Waits until everything is written.
    pub(super) fn poll_idle(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        if state.at_work {
            state.wait(cx);
            return Poll::Pending;
        }
        Poll::Ready(state.failed.take().map_or(Ok(()), Err)) // O3
    }

    /// Whether there is something that has not been written yet.
    pub(super) fn is_busy(&self) -> bool {
        self.0.lock().at_work
    }

    /// Whether something is on its way, or an error waits to be told.
    pub(super) fn has_news(&self) -> bool {
        let state = self.0.lock();
        state.at_work || state.failed.is_some()
    }

    /// Takes bytes to be written, no more than fit into `most`, and waits if
    /// there are enough already.
    pub(super) fn poll_put(
        self: &Arc<Self>,
        cx: &Context<'_>,
        file: &Arc<StdFile>,
        pieces: &[IoSlice<'_>],
        most: usize,
    ) -> Poll<io::Result<usize>> {
        let mut state = self.0.lock();
        if let Some(error) = state.failed.take() {
            return Poll::Ready(Err(error)); // O3
        }
        let before = state.filling.len();
        if before >= most.min(ENOUGH) {
            state.wait(cx);
            return Poll::Pending;
        }
        for piece in pieces {
            let room = most - state.filling.len();
            state
                .filling
                .extend_from_slice(&piece[..piece.len().min(room)]);
        }
        let count = state.filling.len() - before;
        if state.at_work || count == 0 {
            return Poll::Ready(Ok(count));
        }
        state.at_work = true;
        drop(state);
        let job = WriteBackJob {
            write_back: self.clone(),
            file: Some(file.clone()),
        };
        drop(engine::start(move || job.run(), true)); // O2
        // A job that was refused has said so by now.
        match self.0.lock().failed.take() {
            Some(error) => Poll::Ready(Err(error)),
            None => Poll::Ready(Ok(count)),
        }
    }

    /// The job has nothing to do any more, or cannot go on.
    fn end(&self, file: &mut Option<Arc<StdFile>>, failed: Option<io::Error>) {
        let mut state = self.0.lock();
        self.end_locked(&mut state, file, failed);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake); // O4
    }

    fn end_locked(
        &self,
        state: &mut State,
        file: &mut Option<Arc<StdFile>>,
        failed: Option<io::Error>,
    ) {
        // Before it is known that the job is through: whoever then wants the
        // file for itself gets it.
        *file = None;
        for memory in [&mut state.filling, &mut state.spare] {
            memory.clear();
            memory.shrink_to(KEPT);
        }
        state.failed = failed;
        state.at_work = false;
    }
}

/// The job that writes.
struct WriteBackJob {
    write_back: Arc<WriteBack>,
    /// `None` once it has ended.
    file: Option<Arc<StdFile>>,
}

impl WriteBackJob {
    fn run(mut self) {
        let mut bytes = std::mem::take(&mut self.write_back.0.lock().spare);
        while self.take(&mut bytes) {
            let written = match &self.file {
                Some(file) => (&**file).write_all(&bytes),
                None => unreachable!("it has taken bytes"),
            };
            if let Err(error) = written {
                let Self { write_back, file } = &mut self;
                return write_back.end(file, Some(error));
            }
        }
    }

    /// Takes what has come; false, and at its end, if there is nothing.
    fn take(&mut self, bytes: &mut Vec<u8>) -> bool {
        let mut state = self.write_back.0.lock();
        let found = !state.filling.is_empty();
        if found {
            bytes.clear();
            std::mem::swap(bytes, &mut state.filling);
        } else {
            state.spare = std::mem::take(bytes);
            self.write_back.end_locked(&mut state, &mut self.file, None);
        }
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake); // O4: there is room, or quiet
        found
    }
}

impl Drop for WriteBackJob {
    /// A job that never ran (O2), or a waker that panicked in it.
    fn drop(&mut self) {
        if self.file.is_some() {
            let Self { write_back, file } = self;
            write_back.end(file, Some(engine::failed()));
        }
    }
}

#[cfg(all(test, unix, not(blitzen_loom)))]
mod tests {
    use super::*;

    fn idle(write_back: &WriteBack) -> Poll<io::Result<()>> {
        write_back.poll_idle(&Context::from_waker(Waker::noop()))
    }

    /// As a job that the pool refuses, between the look whether it would and the
    /// attempt.
    #[test]
    fn a_job_that_never_runs_leaves_an_error_and_nobody_waiting() {
        let write_back = Arc::new(WriteBack::default());
        write_back.0.lock().filling.extend_from_slice(b"lost");
        write_back.0.lock().at_work = true;
        assert!(idle(&write_back).is_pending());
        let file = Arc::new(StdFile::open("/dev/null").unwrap());
        drop(WriteBackJob {
            write_back: write_back.clone(),
            file: Some(file.clone()),
        });
        assert!(
            write_back.0.lock().waiting.is_empty(),
            "who waited was woken"
        );
        assert_eq!(Arc::strong_count(&file), 1);
        assert!(matches!(idle(&write_back), Poll::Ready(Err(_))));
        assert!(
            matches!(idle(&write_back), Poll::Ready(Ok(()))),
            "told once"
        );
        assert!(write_back.0.lock().filling.is_empty());
    }
}
