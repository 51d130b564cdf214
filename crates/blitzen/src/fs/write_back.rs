//! The write-back queue of a file: bytes that were accepted and not yet written,
//! and changes whose futures were dropped.
//!
//! ```text
//!            write                    job takes it
//!   task ───────────► filling bytes ────────────────► written by the job
//!                        ▲  more, while the job writes  │
//!                        └──────────────────────────────┘ again, until empty
//! ```
//!
//! W1. There are bytes only while a job runs, and at most one job runs: bytes are
//!     written in the order in which they were accepted.
//! W2. The job runs even if the file is dropped or the runtime shut down. A job
//!     that is refused leaves an error.
//! W3. An error ends the job and drops the bytes behind it. It is returned once,
//!     by the next operation on the file, of whatever kind.
//! W4. A change (such as `set_len`) whose future was dropped may still run, on
//!     the ring or on the pool. It is counted until it has ended, and the next
//!     operation waits for it: otherwise the change could undo what comes later. On
//!     Windows, the job of a read is counted in the same way (`reader.rs`, P2).
//! W5. Wakers are fired after the lock. One that panics costs neither another task its
//!     wake, nor the job the bytes that it has taken.

use std::io::{self, IoSlice, Write};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use blitzen_util::quiet::quietly;
use blitzen_util::shim::Mutex;
use blitzen_util::wait::{self, WaitKind};

use super::op;
use super::open_file::OpenFile;

/// A write waits while this many bytes are queued: enough to keep the job busy,
/// and few enough to stay in the processor's cache.
const HIGH_WATER: usize = 256 * 1024;

/// The capacity that is kept while there is nothing to write.
const KEPT_CAPACITY: usize = 2 * HIGH_WATER;

#[derive(Default)]
pub(super) struct WriteBack(Mutex<WriteQueue>);

#[derive(Default)]
struct WriteQueue {
    filling: Vec<u8>,
    /// Memory of the last job, for the next.
    spare: Vec<u8>,
    /// Whether a job runs, or has been submitted.
    has_job: bool,
    /// Changes under way whose futures were dropped (W4).
    abandoned_changes: usize,
    error: Option<io::Error>,
    waiting: Vec<Waker>,
}

impl WriteQueue {
    fn is_busy(&self) -> bool {
        self.has_job || self.abandoned_changes > 0
    }

    fn wait(&mut self, cx: &Context<'_>) {
        if !self.waiting.iter().any(|other| other.will_wake(cx.waker())) {
            self.waiting.push(cx.waker().clone());
        }
    }
}

impl WriteBack {
    /// Waits until everything is written, and all changes have ended whose
    /// futures were dropped.
    pub(super) fn poll_idle(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let mut queue = self.0.lock();
        if queue.is_busy() {
            queue.wait(cx);
            drop(queue);
            wait::pending_on(WaitKind::File, self);
            return Poll::Pending;
        }
        Poll::Ready(queue.error.take().map_or(Ok(()), Err)) // W3
    }

    /// Whether bytes are being written, or an abandoned change runs.
    pub(super) fn is_busy(&self) -> bool {
        self.0.lock().is_busy()
    }

    /// Whether there are no bytes, no abandoned changes, and no error to return.
    pub(super) fn is_clean(&self) -> bool {
        let queue = self.0.lock();
        !queue.is_busy() && queue.error.is_none()
    }

    /// Queues bytes for `file`, no more than fit into `max_len`, and waits while
    /// there are enough already.
    pub(super) fn poll_push(
        self: &Arc<Self>,
        cx: &Context<'_>,
        file: &Arc<OpenFile>,
        pieces: &[IoSlice<'_>],
        max_len: usize,
    ) -> Poll<io::Result<usize>> {
        let mut queue = self.0.lock();
        if let Some(error) = queue.error.take() {
            return Poll::Ready(Err(error)); // W3
        }
        let before = queue.filling.len();
        if before >= max_len.min(HIGH_WATER) || queue.abandoned_changes > 0 {
            queue.wait(cx);
            drop(queue);
            wait::pending_on(WaitKind::File, &**self);
            return Poll::Pending;
        }
        for piece in pieces {
            let room = max_len - queue.filling.len();
            queue
                .filling
                .extend_from_slice(&piece[..piece.len().min(room)]);
        }
        let count = queue.filling.len() - before;
        if queue.has_job || count == 0 {
            return Poll::Ready(Ok(count));
        }
        queue.has_job = true;
        drop(queue);
        let job = WriteBackJob {
            write_back: self.clone(),
            file: Some(file.clone()),
        };
        drop(op::spawn_on_pool(move || job.run(), true)); // W2
        // If the job was refused, its error is stored by now.
        match self.0.lock().error.take() {
            Some(error) => Poll::Ready(Err(error)),
            None => Poll::Ready(Ok(count)),
        }
    }

    /// Begins a change that may outlive its future (W4): the first half goes with
    /// the operation, the second stays with the future.
    pub(super) fn begin_change(self: &Arc<Self>) -> (Change, ChangeGuard) {
        let tracker = Arc::new(ChangeTracker {
            write_back: self.clone(),
            stage: Mutex::new(ChangeStage::UnderWay),
        });
        (Change(Some(tracker.clone())), ChangeGuard(Some(tracker)))
    }

    /// Begins a change that no future waits for (W4).
    pub(super) fn begin_abandoned_change(self: &Arc<Self>) -> Change {
        let (change, _abandoned) = self.begin_change();
        change
    }

    /// Has the next operation on the file return `error`, unless it returns another (W3).
    #[cfg_attr(not(any(test, windows)), allow(dead_code))]
    pub(super) fn fail(&self, error: io::Error) {
        self.0.lock().error.get_or_insert(error);
    }

    /// Ends the job, and drops its file.
    fn end_job(&self, file: &mut Option<Arc<OpenFile>>, error: Option<io::Error>) {
        let mut queue = self.0.lock();
        end_job_locked(&mut queue, file, error);
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        wake_all(waiting);
    }
}

fn wake_all(waiting: Vec<Waker>) {
    for waker in waiting {
        quietly(|| waker.wake()); // W5
    }
}

fn end_job_locked(
    queue: &mut WriteQueue,
    file: &mut Option<Arc<OpenFile>>,
    error: Option<io::Error>,
) {
    // Before others see that the job has ended, so that they can then take the
    // file for themselves.
    *file = None;
    for memory in [&mut queue.filling, &mut queue.spare] {
        memory.clear();
        memory.shrink_to(KEPT_CAPACITY);
    }
    queue.error = error.or(queue.error.take());
    queue.has_job = false;
}

/// The job that writes.
struct WriteBackJob {
    write_back: Arc<WriteBack>,
    /// `None` once it has ended.
    file: Option<Arc<OpenFile>>,
}

impl WriteBackJob {
    fn run(mut self) {
        let mut bytes = std::mem::take(&mut self.write_back.0.lock().spare);
        while self.take(&mut bytes) {
            let written = match &self.file {
                Some(file) => file.keeper.alone(file, || (&file.std).write_all(&bytes)),
                None => unreachable!("the file is there until the job ends"),
            };
            if let Err(error) = written {
                let Self { write_back, file } = &mut self;
                return write_back.end_job(file, Some(error));
            }
        }
    }

    /// Takes what is queued; ends the job and returns false if that is nothing.
    fn take(&mut self, bytes: &mut Vec<u8>) -> bool {
        let mut queue = self.write_back.0.lock();
        let found = !queue.filling.is_empty();
        if found {
            bytes.clear();
            std::mem::swap(bytes, &mut queue.filling);
        } else {
            queue.spare = std::mem::take(bytes);
            end_job_locked(&mut queue, &mut self.file, None);
        }
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        wake_all(waiting); // there is room, or nothing left to write
        found
    }
}

impl Drop for WriteBackJob {
    /// A job that never ran (W2), or a waker that panicked in it.
    fn drop(&mut self) {
        if self.file.is_some() {
            let Self { write_back, file } = self;
            write_back.end_job(file, Some(op::refused()));
        }
    }
}

/// The state that a change and its future share.
struct ChangeTracker {
    write_back: Arc<WriteBack>,
    stage: Mutex<ChangeStage>,
}

enum ChangeStage {
    UnderWay,
    /// The future was dropped, and the change is counted in `abandoned_changes`.
    Abandoned,
    Over,
}

/// The half that goes with the operation: dropping it ends the change. The
/// default is for an operation that changes nothing.
#[derive(Default)]
pub(super) struct Change(Option<Arc<ChangeTracker>>);

impl Drop for Change {
    fn drop(&mut self) {
        let Some(tracker) = &self.0 else {
            return;
        };
        let before = std::mem::replace(&mut *tracker.stage.lock(), ChangeStage::Over);
        if let ChangeStage::Abandoned = before {
            let mut queue = tracker.write_back.0.lock();
            queue.abandoned_changes -= 1;
            let waiting = std::mem::take(&mut queue.waiting);
            drop(queue);
            wake_all(waiting);
        }
    }
}

/// The half that stays with the future.
#[derive(Default)]
pub(super) struct ChangeGuard(Option<Arc<ChangeTracker>>);

impl Drop for ChangeGuard {
    fn drop(&mut self) {
        let Some(tracker) = &self.0 else {
            return;
        };
        let mut stage = tracker.stage.lock();
        if let ChangeStage::UnderWay = *stage {
            // Counted under the lock, before `Change` can uncount it.
            tracker.write_back.0.lock().abandoned_changes += 1;
            *stage = ChangeStage::Abandoned;
        }
    }
}

#[cfg(all(test, unix, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::fs::File as StdFile;
    use std::io::Read;
    use std::os::fd::OwnedFd;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;

    fn idle(write_back: &WriteBack) -> Poll<io::Result<()>> {
        write_back.poll_idle(&Context::from_waker(Waker::noop()))
    }

    /// As if the pool had closed between the check and the submission of the job.
    #[test]
    fn a_job_that_never_runs_leaves_an_error_and_nobody_waiting() {
        let write_back = Arc::new(WriteBack::default());
        write_back.0.lock().filling.extend_from_slice(b"lost");
        write_back.0.lock().has_job = true;
        assert!(idle(&write_back).is_pending());
        let file = Arc::new(OpenFile::new(StdFile::open("/dev/null").unwrap()));
        drop(WriteBackJob {
            write_back: write_back.clone(),
            file: Some(file.clone()),
        });
        assert!(write_back.0.lock().waiting.is_empty(), "all were woken");
        assert_eq!(Arc::strong_count(&file), 1);
        assert!(matches!(idle(&write_back), Poll::Ready(Err(_))));
        assert!(matches!(idle(&write_back), Poll::Ready(Ok(()))), "once");
        assert!(write_back.0.lock().filling.is_empty());
    }

    #[test]
    fn a_waker_that_panics_costs_neither_bytes_nor_another_task_its_wake() {
        struct Bomb;
        impl Wake for Bomb {
            fn wake(self: Arc<Self>) {
                panic!("a waker that panics");
            }
        }
        #[derive(Default)]
        struct Count(AtomicUsize);
        impl Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Relaxed);
            }
        }
        let write_back = Arc::new(WriteBack::default());
        write_back.0.lock().filling.extend_from_slice(b"kept");
        write_back.0.lock().has_job = true;
        let count = Arc::new(Count::default());
        for waker in [Arc::new(Bomb).into(), Waker::from(count.clone())] {
            let waits = write_back.poll_idle(&Context::from_waker(&waker));
            assert!(waits.is_pending());
        }
        let (mut reader, writer) = io::pipe().unwrap();
        let file = OpenFile::new(StdFile::from(OwnedFd::from(writer)));
        let job = WriteBackJob {
            write_back: write_back.clone(),
            file: Some(Arc::new(file)),
        };
        job.run();
        assert!(matches!(idle(&write_back), Poll::Ready(Ok(()))));
        assert_eq!(count.0.load(Relaxed), 1);
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"kept");
    }

    #[test]
    fn the_end_of_a_job_keeps_an_error_that_came_meanwhile() {
        let write_back = Arc::new(WriteBack::default());
        write_back.0.lock().has_job = true;
        let job = WriteBackJob {
            write_back: write_back.clone(),
            file: Some(Arc::new(OpenFile::new(StdFile::open("/dev/null").unwrap()))),
        };
        write_back.fail(io::ErrorKind::NotFound.into());
        write_back.fail(io::ErrorKind::Other.into());
        job.run();
        let Poll::Ready(Err(error)) = idle(&write_back) else {
            panic!("the error is lost");
        };
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(matches!(idle(&write_back), Poll::Ready(Ok(()))), "once");
    }

    #[test]
    fn a_change_that_no_future_waits_for_is_waited_for_until_its_end() {
        let write_back = Arc::new(WriteBack::default());
        let change = write_back.begin_abandoned_change();
        assert!(idle(&write_back).is_pending());
        drop(change);
        assert!(idle(&write_back).is_ready());
    }

    #[test]
    fn a_change_is_waited_for_only_if_its_future_was_dropped_before_its_end() {
        let write_back = Arc::new(WriteBack::default());
        let (change, guard) = write_back.begin_change();
        assert!(idle(&write_back).is_ready(), "its future waits for it");
        drop(guard);
        assert!(idle(&write_back).is_pending());
        assert!(write_back.is_busy());
        drop(change);
        assert!(write_back.0.lock().waiting.is_empty(), "all were woken");
        assert!(idle(&write_back).is_ready());

        let (change, guard) = write_back.begin_change();
        drop(change);
        drop(guard);
        assert!(idle(&write_back).is_ready());
    }
}
