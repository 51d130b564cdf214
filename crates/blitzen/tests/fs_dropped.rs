//! Futures dropped at every stage of every operation: buffers are freed once, and
//! after the kernel is done; no descriptor is left open.
//!
//! The only test in its process, which counts descriptors.

#![cfg(target_os = "linux")]

mod fs_common;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;

use blitzen::fs::{self, File};
use blitzen::io::owned::{IoBuf, IoBufMut};
use blitzen::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use blitzen::task::yield_now;
use fs_common::{Dir, make_fifo, open_descriptors, runtimes, until};

/// A buffer that counts how many of its kind are alive.
struct Counted {
    bytes: Box<[u8]>,
    alive: Arc<AtomicUsize>,
}

impl Counted {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, SeqCst);
        Self {
            bytes: vec![7; 5000].into(),
            alive: alive.clone(),
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.bytes.fill(0xdd); // whoever still writes here is found out
        assert!(self.alive.fetch_sub(1, SeqCst) > 0, "freed once");
    }
}

// SAFETY: boxed bytes stay where they are, and are the box's alone.
unsafe impl IoBuf for Counted {
    fn stable_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    fn init_len(&self) -> usize {
        self.bytes.len()
    }
}

// SAFETY: as above.
unsafe impl IoBufMut for Counted {
    fn stable_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    fn total_len(&self) -> usize {
        self.bytes.len()
    }

    unsafe fn set_init(&mut self, _len: usize) {}
}

type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The file, opened by std; if it is `cold`, its bytes are not in memory.
fn open(path: &std::path::Path, cold: bool) -> File {
    use std::os::fd::AsRawFd;
    let options = std::fs::File::options().read(true).write(true).clone();
    let std = options.open(path).unwrap();
    if cold {
        std.sync_all().unwrap();
        // SAFETY: a descriptor that is open, and numbers.
        unsafe { libc::posix_fadvise(std.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    }
    File::from_std(std)
}

/// Every operation, each with what it needs in `dir`. They begin with their
/// first poll.
fn operations(dir: &Dir, alive: &Arc<AtomicUsize>) -> Vec<(&'static str, Boxed)> {
    let path = dir.join("file");
    let counted = || Counted::new(alive);
    macro_rules! operation {
        ($name:literal, $future:expr) => {
            ($name, Box::pin(async move { drop($future.await) }) as Boxed)
        };
    }
    macro_rules! on_file {
        ($name:literal, $cold:literal, |$file:ident| $future:expr) => {{
            let path = path.clone();
            let begin = async move {
                #[allow(unused_mut)]
                let mut $file = open(&path, $cold);
                drop($future.await)
            };
            ($name, Box::pin(begin) as Boxed)
        }};
    }
    let (one, two) = (counted(), counted());
    let (three, four) = (vec![counted(), counted()], vec![counted(), counted()]);
    let (five, fifo) = (counted(), dir.join("fifo"));
    let [p1, p2, p3, p4, p5, p6, p7, p8, p9] = [(); 9].map(|()| path.clone());
    let [d1, d2, d3, d4, d5, d6] =
        ["d1", "d2", "d3", "d4", "d5", "empty"].map(|name| dir.join(name));
    let fifo_to_write = fifo.clone();
    let whole = dir.path().to_owned();
    vec![
        operation!("open", File::open(p1)),
        operation!("open a named pipe", File::open(fifo)),
        operation!("create", File::create(d1)),
        operation!("read", fs::read(p2)),
        operation!("write", fs::write(d2, b"hello")),
        operation!("write to a named pipe", fs::write(fifo_to_write, b"hello")),
        operation!("create_dir", fs::create_dir(d3)),
        operation!("remove_dir", fs::remove_dir(d6)),
        operation!("symlink_metadata", fs::symlink_metadata(p8)),
        operation!("try_exists", fs::try_exists(p9)),
        operation!("symlink", fs::symlink("x", d4)),
        operation!("hard_link", fs::hard_link(p3, d5)),
        operation!("rename", fs::rename(p4, p5)),
        operation!("remove_file", fs::remove_file(p6)),
        operation!("metadata", fs::metadata(p7)),
        operation!("read_dir", fs::read_dir(whole)),
        on_file!("read_at", false, |f| f.read_at(one, 0)),
        on_file!("cold read_at", true, |f| f.read_at(five, 0)),
        on_file!("write_at", false, |f| f.write_at(two, 0)),
        on_file!("read_vectored_at", false, |f| f.read_vectored_at(three, 0)),
        on_file!("write_vectored_at", false, |f| f.write_vectored_at(four, 0)),
        on_file!("sync_all", false, |f| f.sync_all()),
        on_file!("sync_data", false, |f| f.sync_data()),
        on_file!("set_len", false, |f| f.set_len(20_000)),
        on_file!("allocate", false, |f| f.allocate(0, 20_000)),
        on_file!("file metadata", false, |f| f.metadata()),
        on_file!("try_clone", false, |f| f.try_clone()),
        on_file!("into_std", false, |f| f.into_std()),
        on_file!("write_all", false, |f| f.write_all(&[7; 10_000])),
        on_file!("seek", false, |f| f.seek(std::io::SeekFrom::End(0))),
        on_file!("cold read", true, |f| async move {
            f.read(&mut [0; 5000]).await
        }),
    ]
}

/// Polls a future `polls` times, with everybody else between; whether it has
/// ended.
async fn poll_times(future: &mut Boxed, polls: usize) -> bool {
    for _ in 0..polls {
        let ended = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await;
        if ended {
            return true;
        }
        yield_now().await;
    }
    false
}

async fn drop_at_every_stage(alive: Arc<AtomicUsize>) {
    for polls in [0, 1, 2, 3, 10, 100] {
        let count = operations(&Dir::new(), &alive).len();
        for number in 0..count {
            let dir = Dir::new();
            std::fs::write(dir.join("file"), vec![1; 10_000]).unwrap();
            std::fs::create_dir(dir.join("empty")).unwrap();
            make_fifo(&dir.join("fifo"));
            let (name, mut future) = operations(&dir, &alive).swap_remove(number);
            poll_times(&mut future, polls).await;
            drop(future);
            if name.ends_with("a named pipe") {
                // A thread of the pool may wait for it, or is about to. It finds
                // the other end, or no pipe any more.
                let path = dir.join("fifo");
                let both = std::fs::File::options().read(true).write(true).open(path);
                drop(dir);
                both.unwrap();
            }
        }
    }
    until("a buffer is never freed", || alive.load(SeqCst) == 0).await;
}

#[test]
fn futures_dropped_at_every_stage_leave_nothing_behind() {
    for runtime in runtimes() {
        let alive = Arc::new(AtomicUsize::new(0));
        // Makes what the runtime keeps open itself.
        let ring_and_poller = async { blitzen::spawn(fs::create_dir("/")).await };
        assert!(runtime.block_on(ring_and_poller).unwrap().is_err());
        let before = open_descriptors();
        runtime.block_on(async {
            let on_worker = blitzen::spawn(drop_at_every_stage(alive.clone()));
            on_worker.await.unwrap();
            drop_at_every_stage(alive.clone()).await;
            // Another worker may have made a ring meanwhile, and a poller.
            until("a descriptor is never closed", || {
                open_descriptors() <= before + 8
            })
            .await;
        });
        ten_thousand_files(&runtime, before);
    }
}

fn ten_thousand_files(runtime: &blitzen::runtime::Runtime, before: usize) {
    let dir = Dir::new();
    std::fs::write(dir.join("file"), b"hello").unwrap();
    let path = dir.join("file");
    runtime.block_on(async {
        let tasks: Vec<_> = (0..100)
            .map(|task| {
                let (path, new) = (path.clone(), dir.join(format!("new-{task}")));
                blitzen::spawn(async move {
                    for _ in 0..95 {
                        let mut file = File::open(&path).await.unwrap();
                        assert_eq!(file.read_u8().await.unwrap(), b'h');
                    }
                    for _ in 0..5 {
                        File::create(&new).await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        until("a descriptor is never closed", || {
            open_descriptors() <= before + 8
        })
        .await;
    });
}
