//! Reads of 4 KiB at random offsets.
//!
//! In memory (`read_one`, `read_32`) a read is a copy, and everything else is the
//! library. Cold, the kernel has forgotten the file before each sample, and reads
//! nothing ahead; a disk that has a cache of its own makes it look warmer than it
//! is. `_file` is what users of `tokio::fs::File` write: seek, then read.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{BLOCK, Files, Offsets, WORKS, chill, reopened, single_thread, warm};
use crate::probe::{Cost, Probe, Region};
use crate::row::{Contender, Row, Target};
use crate::rt::{Blitzen, Compio, Monoio, Tokio, run_inside};

/// Reads at once in the rows that have several.
pub(super) const DEPTH: u64 = 32;

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "fs_read_one",
            "read of 4 KiB in memory, at random, one after another",
            (20_000, 200),
            vec![
                Contender::named("blitzen", read_one::<Blitzen>),
                Contender::named("tokio", read_one::<Tokio>),
                Contender::named("monoio", single_thread::read_one::<Monoio>),
                Contender::named("compio", single_thread::read_one::<Compio>),
                Contender::floor("std", std_warm),
            ],
        )
        .target(Target::OverTokio(20.0)),
        Row::new(
            "fs_read_one_file",
            "seek and read of 4 KiB in memory, at random, one after another",
            (10_000, 200),
            vec![
                Contender::named("blitzen", read_file::<Blitzen>),
                Contender::named("tokio", read_file::<Tokio>),
                Contender::floor("std", std_warm),
            ],
        )
        .target(Target::OverTokio(20.0)),
        Row::new(
            "fs_read_32",
            "read of 4 KiB in memory, at random, 32 at once",
            (40_000, 320),
            vec![
                Contender::named("blitzen", read_warm::<Blitzen>),
                Contender::named("tokio", read_warm::<Tokio>),
                Contender::named("monoio", single_thread::read_warm::<Monoio>),
                Contender::named("compio", single_thread::read_warm::<Compio>),
                Contender::floor("std", std_warm),
            ],
        )
        .target(Target::OverTokio(4.0))
        .target(Target::CpuOverTokio(5.0)),
        Row::new(
            "fs_read_cold_32",
            "read of 4 KiB from the disk, at random, 32 at once",
            (3_200, 320),
            vec![
                Contender::named("blitzen", read_cold::<Blitzen>),
                Contender::named("tokio", read_cold::<Tokio>),
                Contender::named("monoio", single_thread::read_cold::<Monoio>),
                Contender::named("compio", single_thread::read_cold::<Compio>),
                Contender::floor("std", std_cold),
            ],
        )
        .target(Target::OverTokio(1.0))
        .target(Target::CpuOverTokio(3.0)),
    ]
}

fn read_one<R: Files>(probe: &mut Probe) {
    warm();
    let rt = R::start(probe.workers());
    probe.time(|n| {
        let file = Arc::new(R::adopt(reopened()));
        run_inside(&rt, async move {
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

fn read_file<R: Files>(probe: &mut Probe) {
    warm();
    let rt = R::start(probe.workers());
    probe.time(|n| {
        let mut file = R::adopt(reopened());
        run_inside(&rt, async move {
            let (mut offsets, mut buf, mut done) = (Offsets::new(7), vec![0; BLOCK], 0);
            let region = Region::begin();
            for _ in 0..n {
                R::seek_and_read(&mut file, &mut buf, offsets.next()).await;
                done += 1;
            }
            region.end(done)
        })
    });
}

fn read_warm<R: Files>(probe: &mut Probe) {
    warm();
    read_many::<R>(probe, || {});
}

fn read_cold<R: Files>(probe: &mut Probe) {
    read_many::<R>(probe, chill);
}

fn read_many<R: Files>(probe: &mut Probe, prepare: fn()) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        prepare();
        let file = Arc::new(R::adopt(reopened()));
        let done = Arc::new(AtomicU64::new(0));
        run_inside(&rt, async move {
            let region = Region::begin();
            let tasks: Vec<_> = (0..DEPTH)
                .map(|task| {
                    let (file, done) = (file.clone(), done.clone());
                    R::spawn(async move {
                        let (mut offsets, mut buf) = (Offsets::new(task), vec![0; BLOCK]);
                        for _ in (task..n).step_by(DEPTH as usize) {
                            buf = R::read_at(&file, buf, offsets.next()).await;
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

fn std_warm(probe: &mut Probe) {
    warm();
    probe.time(by_std);
}

fn std_cold(probe: &mut Probe) {
    probe.time(|n| {
        chill();
        by_std(n)
    });
}

fn by_std(n: u64) -> Cost {
    let file = reopened();
    let (mut offsets, mut buf, mut done) = (Offsets::new(7), vec![0; BLOCK], 0);
    let region = Region::begin();
    for _ in 0..n {
        file.read_exact_at(&mut buf, offsets.next()).expect(WORKS);
        done += 1;
    }
    region.end(done)
}
