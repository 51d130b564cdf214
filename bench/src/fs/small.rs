//! Small files: an operation makes one with 1 KiB in it, reads it and removes it.
//!
//! The file system's own work, which nobody can avoid, is most of it: see the floors. The
//! row with 16 tasks has two: one thread, and as many as the runtimes have workers, which
//! meet at the directory's lock in the kernel.
//!
//! The files are in memory, if there is a place for that. On a disk the rows would lie: ext4
//! without a journal takes no inode again for some minutes after a file was removed, and
//! searches past all of them for each new file, so a sample would pay for those before it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Files, WORKS, single_thread};
use crate::probe::{Probe, Region};
use crate::row::{Contender, Row, Target};
use crate::rt::{Blitzen, Compio, Monoio, Tokio, run_inside};

pub(super) const CONTENTS: [u8; 1024] = [7; 1024];

/// Files at once in the row that has several.
pub(super) const TASKS: u64 = 16;

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "fs_small_16",
            "make, write, read and remove a file of 1 KiB, 16 tasks",
            (3_200, 160),
            vec![
                Contender::named("blitzen", many::<Blitzen>),
                Contender::named("tokio", many::<Tokio>),
                Contender::named("monoio", single_thread::small_many::<Monoio>),
                Contender::named("compio", single_thread::small_many::<Compio>),
                Contender::floor("threads", by_threads),
                Contender::floor("std", by_std),
            ],
        )
        .target(Target::OverTokio(3.0)),
        Row::new(
            "fs_small_one",
            "make, write, read and remove a file of 1 KiB, one after another",
            (800, 50),
            vec![
                Contender::named("blitzen", one::<Blitzen>),
                Contender::named("tokio", one::<Tokio>),
                Contender::named("monoio", single_thread::small_one::<Monoio>),
                Contender::named("compio", single_thread::small_one::<Compio>),
                Contender::floor("std", by_std),
            ],
        )
        .target(Target::OverTokio(1.0)),
    ]
}

/// A directory that goes with its value.
pub(super) struct Dir(PathBuf);

impl Dir {
    pub(super) fn new() -> Self {
        const IN_MEMORY: &str = "/dev/shm";
        let name = format!("blitzen-bench-d-{}", std::process::id());
        let in_memory = Path::new(IN_MEMORY).join(&name);
        let path = match std::fs::create_dir_all(&in_memory) {
            Ok(()) => in_memory,
            Err(_) => std::env::temp_dir().join(name),
        };
        std::fs::create_dir_all(&path).expect(WORKS);
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // What is left behind is the next sample's to overwrite.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn life<R: Files>(path: PathBuf) {
    R::write_file(&path, &CONTENTS).await;
    let read = R::read_file(&path).await;
    assert_eq!(read.len(), CONTENTS.len());
    R::remove_file(&path).await;
}

fn one<R: Files>(probe: &mut Probe) {
    let dir = Dir::new();
    let rt = R::start(probe.workers());
    probe.time(|n| {
        let path = dir.0.clone();
        run_inside(&rt, async move {
            let mut done = 0;
            let region = Region::begin();
            for file in 0..n {
                life::<R>(path.join(file.to_string())).await;
                done += 1;
            }
            region.end(done)
        })
    });
}

fn many<R: Files>(probe: &mut Probe) {
    let dir = Dir::new();
    let rt = R::start(probe.workers());
    probe.time(|n| {
        let path = dir.0.clone();
        run_inside(&rt, async move {
            let done = Arc::new(AtomicU64::new(0));
            let region = Region::begin();
            let tasks: Vec<_> = (0..TASKS)
                .map(|task| {
                    let (path, done) = (path.clone(), done.clone());
                    R::spawn(async move {
                        for file in (task..n).step_by(TASKS as usize) {
                            life::<R>(path.join(file.to_string())).await;
                            done.fetch_add(1, Relaxed);
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
            region.end(done.load(Relaxed))
        })
    });
}

fn life_by_std(path: &Path) {
    std::fs::write(path, CONTENTS).expect(WORKS);
    let read = std::fs::read(path).expect(WORKS);
    assert_eq!(read.len(), CONTENTS.len());
    std::fs::remove_file(path).expect(WORKS);
}

fn by_std(probe: &mut Probe) {
    let dir = Dir::new();
    probe.time(|n| {
        let mut done = 0;
        let region = Region::begin();
        for file in 0..n {
            life_by_std(&dir.0.join(file.to_string()));
            done += 1;
        }
        region.end(done)
    });
}

fn by_threads(probe: &mut Probe) {
    let dir = Dir::new();
    let threads = probe.workers() as u64;
    probe.time(|n| {
        let done = AtomicU64::new(0);
        let region = Region::begin();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (dir, done) = (&dir, &done);
                scope.spawn(move || {
                    for file in (thread..n).step_by(threads as usize) {
                        life_by_std(&dir.0.join(file.to_string()));
                        done.fetch_add(1, Relaxed);
                    }
                });
            }
        });
        region.end(done.load(Relaxed))
    });
}
