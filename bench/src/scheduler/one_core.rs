//! A machine of one processor: every thread of the process on the same one.
//!
//! A runtime that spins while another thread has its answer loses here what it wins
//! elsewhere. Each sample is a process of its own, which binds itself to one processor
//! before it starts a thread.

use crate::kit::keep_to_one_core;
use crate::probe::Probe;
use crate::row::{Row, Target::OverTokio};
use crate::rt::{Blocking, Rt, each_runtime};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "one_core_spawn",
            "spawn no-op tasks from outside, then join all; all threads on one processor",
            (50_000, 2_000),
            each_runtime!(spawn),
        )
        .isolated()
        .target(OverTokio(1.0)),
        Row::new(
            "one_core_blocking",
            "spawn_blocking of a no-op, awaited; all threads on one processor",
            (1_000, 50),
            each_runtime!(blocking),
        )
        .isolated()
        .target(OverTokio(1.0)),
    ]
}

fn spawn<R: Rt>(probe: &mut Probe) {
    keep_to_one_core();
    super::spawn::spawn_outside::<R>(probe);
}

fn blocking<R: Blocking>(probe: &mut Probe) {
    keep_to_one_core();
    super::blocking::blocking_trip::<R>(probe);
}
