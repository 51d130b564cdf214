//! A file from its beginning to its end, in pieces of 64 KiB: an operation is a
//! piece.
//!
//! All of it is in memory, or goes there. It would lie if the disk had to be waited
//! for: a written file is cut before it is written again, so that its bytes never
//! have to leave.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use super::{Files, WORKS, reopened, single_thread, warm};
use crate::probe::{Probe, Region};
use crate::row::{Contender, Row, Target};
use crate::rt::{Blitzen, Compio, Monoio, Tokio, run_inside};

pub(super) const PIECE: usize = 64 * 1024;

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "fs_read_through",
            "read of a quarter of a gigabyte in memory, 64 KiB at a time",
            (2_048, 64),
            vec![
                Contender::named("blitzen", read_through::<Blitzen>),
                Contender::named("tokio", read_through::<Tokio>),
                Contender::named("monoio", single_thread::read_through::<Monoio>),
                Contender::named("compio", single_thread::read_through::<Compio>),
                Contender::floor("std", std_read),
            ],
        )
        .target(Target::OverTokio(1.0))
        .target(Target::TimesFloor(1.1)),
        Row::new(
            "fs_write_through",
            "write of 128 MiB, 64 KiB at a time",
            (2_048, 64),
            vec![
                Contender::named("blitzen", write_through::<Blitzen>),
                Contender::named("tokio", write_through::<Tokio>),
                Contender::named("monoio", single_thread::write_through::<Monoio>),
                Contender::named("compio", single_thread::write_through::<Compio>),
                Contender::floor("std", std_write),
            ],
        )
        .target(Target::OverTokio(1.0))
        .target(Target::TimesFloor(1.1)),
    ]
}

fn read_through<R: Files>(probe: &mut Probe) {
    warm();
    let rt = R::start(probe.workers());
    probe.time(|n| {
        let mut file = R::adopt(reopened());
        run_inside(&rt, async move {
            let mut buf = vec![0; PIECE];
            let (mut read, whole) = (0, n as usize * PIECE);
            let region = Region::begin();
            while read < whole {
                let piece = R::read(&mut file, &mut buf).await;
                assert!(piece > 0, "the file is long enough");
                read += piece;
            }
            region.end(read as u64 / PIECE as u64)
        })
    });
}

fn std_read(probe: &mut Probe) {
    warm();
    probe.time(|n| {
        let mut file = reopened();
        let (mut buf, mut done) = (vec![0; PIECE], 0);
        let region = Region::begin();
        for _ in 0..n {
            file.read_exact(&mut buf).expect(WORKS);
            done += 1;
        }
        region.end(done)
    });
}

/// An empty file without a name.
pub(super) fn empty() -> File {
    let path = std::env::temp_dir().join(format!("blitzen-bench-w-{}", std::process::id()));
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)
        .expect(WORKS);
    std::fs::remove_file(&path).expect(WORKS);
    file
}

/// How many pieces a file has.
pub(super) fn pieces(mut file: File) -> u64 {
    file.seek(SeekFrom::End(0)).expect(WORKS) / PIECE as u64
}

fn write_through<R: Files>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        let std = empty();
        let mut file = R::adopt(std.try_clone().expect(WORKS));
        let cost = run_inside(&rt, async move {
            let bytes = vec![7; PIECE];
            let region = Region::begin();
            for _ in 0..n {
                R::write_all(&mut file, &bytes).await;
            }
            R::flush(&mut file).await;
            region.stop()
        });
        cost.counted(pieces(std))
    });
}

fn std_write(probe: &mut Probe) {
    probe.time(|n| {
        let mut file = empty();
        let bytes = vec![7; PIECE];
        let region = Region::begin();
        for _ in 0..n {
            file.write_all(&bytes).expect(WORKS);
        }
        let cost = region.stop();
        cost.counted(pieces(file))
    });
}
