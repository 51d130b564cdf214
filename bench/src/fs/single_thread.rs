//! Runtimes of one thread and a ring: monoio and compio.
//!
//! Their files have no position, so what reads and writes one through names the
//! offsets. The others have the row's number of workers.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::future::{Future, poll_fn};
use std::os::fd::{FromRawFd, IntoRawFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::random::DEPTH;
use super::sequential::{self, PIECE};
use super::small::{CONTENTS, Dir, TASKS};
use super::{BLOCK, Offsets, WORKS, chill, reopened, warm};
use crate::probe::{Probe, Region};
use crate::rt::{Compio, Monoio, SingleThread};

/// A runtime of one thread with files.
pub(crate) trait SingleThreadFiles: SingleThread {
    type File;

    fn adopt(file: File) -> Self::File;
    async fn read_at(file: &Self::File, buf: Vec<u8>, offset: u64) -> Vec<u8>;
    async fn write_all_at(file: &Self::File, buf: Vec<u8>, offset: u64) -> Vec<u8>;
    async fn write_file(path: &Path, bytes: Vec<u8>) -> Vec<u8>;
    async fn read_file(path: &Path) -> Vec<u8>;
    async fn remove_file(path: &Path);
}

impl SingleThreadFiles for Monoio {
    type File = monoio::fs::File;

    fn adopt(file: File) -> Self::File {
        monoio::fs::File::from_std(file).expect(WORKS)
    }

    async fn read_at(file: &Self::File, buf: Vec<u8>, offset: u64) -> Vec<u8> {
        let whole = buf.len();
        let (read, buf) = file.read_at(buf, offset).await;
        assert_eq!(read.expect(WORKS), whole);
        buf
    }

    async fn write_all_at(file: &Self::File, buf: Vec<u8>, offset: u64) -> Vec<u8> {
        let (written, buf) = file.write_all_at(buf, offset).await;
        written.expect(WORKS);
        buf
    }

    async fn write_file(path: &Path, bytes: Vec<u8>) -> Vec<u8> {
        let (written, bytes) = monoio::fs::write(path, bytes).await;
        written.expect(WORKS);
        bytes
    }

    async fn read_file(path: &Path) -> Vec<u8> {
        monoio::fs::read(path).await.expect(WORKS)
    }

    async fn remove_file(path: &Path) {
        monoio::fs::remove_file(path).await.expect(WORKS);
    }
}

impl SingleThreadFiles for Compio {
    type File = compio::fs::File;

    fn adopt(file: File) -> Self::File {
        // SAFETY: an open descriptor, which the file owns from now on.
        unsafe { compio::fs::File::from_raw_fd(file.into_raw_fd()) }
    }

    async fn read_at(file: &Self::File, buf: Vec<u8>, offset: u64) -> Vec<u8> {
        use compio::io::AsyncReadAt;
        let whole = buf.len();
        let compio::BufResult(read, buf) = file.read_at(buf, offset).await;
        assert_eq!(read.expect(WORKS), whole);
        buf
    }

    async fn write_all_at(mut file: &Self::File, buf: Vec<u8>, offset: u64) -> Vec<u8> {
        use compio::io::AsyncWriteAtExt;
        let compio::BufResult(written, buf) = file.write_all_at(buf, offset).await;
        written.expect(WORKS);
        buf
    }

    async fn write_file(path: &Path, bytes: Vec<u8>) -> Vec<u8> {
        let compio::BufResult(written, bytes) = compio::fs::write(path, bytes).await;
        written.expect(WORKS);
        bytes
    }

    async fn read_file(path: &Path) -> Vec<u8> {
        compio::fs::read(path).await.expect(WORKS)
    }

    async fn remove_file(path: &Path) {
        compio::fs::remove_file(path).await.expect(WORKS);
    }
}

/// Counts tasks, and lets one wait for the last of them.
#[derive(Default)]
struct Countdown {
    left: Cell<u64>,
    waiting: RefCell<Option<Waker>>,
}

impl Countdown {
    fn spawn<R: SingleThread>(self: &Rc<Self>, future: impl Future<Output = ()> + 'static) {
        self.left.set(self.left.get() + 1);
        let countdown = self.clone();
        R::spawn_local(async move {
            future.await;
            countdown.left.set(countdown.left.get() - 1);
            if countdown.left.get() == 0
                && let Some(waiting) = countdown.waiting.take()
            {
                waiting.wake();
            }
        });
    }

    async fn end(&self) {
        poll_fn(|cx| match self.left.get() {
            0 => Poll::Ready(()),
            _ => {
                *self.waiting.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        })
        .await;
    }
}

pub(super) fn read_one<R: SingleThreadFiles>(probe: &mut Probe) {
    warm();
    probe.time(|n| {
        R::run(async {
            let file = R::adopt(reopened());
            let (mut offsets, mut buf, mut done) = (Offsets::new(7), vec![0; BLOCK], 0);
            let region = Region::begin();
            for _ in 0..n {
                buf = R::read_at(&file, buf, offsets.next()).await;
                done += 1;
            }
            region.end(done)
        })
    });
}

pub(super) fn read_warm<R: SingleThreadFiles>(probe: &mut Probe) {
    warm();
    read_many::<R>(probe, || {});
}

pub(super) fn read_cold<R: SingleThreadFiles>(probe: &mut Probe) {
    read_many::<R>(probe, chill);
}

fn read_many<R: SingleThreadFiles>(probe: &mut Probe, prepare: fn()) {
    probe.time(|n| {
        prepare();
        R::run(async {
            let file = Rc::new(R::adopt(reopened()));
            let (done, tasks) = (Rc::new(Cell::new(0)), Rc::new(Countdown::default()));
            let region = Region::begin();
            for task in 0..DEPTH {
                let (file, done) = (file.clone(), done.clone());
                tasks.spawn::<R>(async move {
                    let (mut offsets, mut buf) = (Offsets::new(task), vec![0; BLOCK]);
                    for _ in (task..n).step_by(DEPTH as usize) {
                        buf = R::read_at(&file, buf, offsets.next()).await;
                        done.set(done.get() + 1);
                    }
                });
            }
            tasks.end().await;
            region.end(done.get())
        })
    });
}

pub(super) fn read_through<R: SingleThreadFiles>(probe: &mut Probe) {
    warm();
    probe.time(|n| {
        R::run(async {
            let file = R::adopt(reopened());
            let (mut buf, mut done) = (vec![0; PIECE], 0);
            let region = Region::begin();
            for piece in 0..n {
                buf = R::read_at(&file, buf, piece * PIECE as u64).await;
                done += 1;
            }
            region.end(done)
        })
    });
}

pub(super) fn write_through<R: SingleThreadFiles>(probe: &mut Probe) {
    probe.time(|n| {
        let std = sequential::empty();
        let cost = R::run(async {
            let file = R::adopt(std.try_clone().expect(WORKS));
            let mut buf = vec![7; PIECE];
            let region = Region::begin();
            for piece in 0..n {
                buf = R::write_all_at(&file, buf, piece * PIECE as u64).await;
            }
            region.stop()
        });
        cost.counted(sequential::pieces(std))
    });
}

async fn life<R: SingleThreadFiles>(path: PathBuf) {
    R::write_file(&path, CONTENTS.to_vec()).await;
    let read = R::read_file(&path).await;
    assert_eq!(read.len(), CONTENTS.len());
    R::remove_file(&path).await;
}

pub(super) fn small_one<R: SingleThreadFiles>(probe: &mut Probe) {
    let dir = Dir::new();
    probe.time(|n| {
        R::run(async {
            let mut done = 0;
            let region = Region::begin();
            for file in 0..n {
                life::<R>(dir.path().join(file.to_string())).await;
                done += 1;
            }
            region.end(done)
        })
    });
}

pub(super) fn small_many<R: SingleThreadFiles>(probe: &mut Probe) {
    let dir = Dir::new();
    probe.time(|n| {
        R::run(async {
            let (done, tasks) = (Rc::new(Cell::new(0)), Rc::new(Countdown::default()));
            let region = Region::begin();
            for task in 0..TASKS {
                let (path, done) = (dir.path().to_owned(), done.clone());
                tasks.spawn::<R>(async move {
                    for file in (task..n).step_by(TASKS as usize) {
                        life::<R>(path.join(file.to_string())).await;
                        done.set(done.get() + 1);
                    }
                });
            }
            tasks.end().await;
            region.end(done.get())
        })
    });
}
