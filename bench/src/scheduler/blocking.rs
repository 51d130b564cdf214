//! Cost of running a closure on the pool for blocking work.
//!
//! The round trip is a wake there and a wake back, so the kernel's; the fan-out
//! shows what the pool's own queue costs when nobody has to be waited for. It would
//! lie if the pool still started its threads while the clock runs: the warm-up of
//! each sample has started those it needs.

use std::hint::black_box;

use crate::probe::{Probe, Region};
use crate::row::{Row, Target::OverTokio};
use crate::rt::{Blocking, each_runtime, run_inside};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "blocking_trip",
            "spawn_blocking of a no-op, awaited, one after another",
            (1_000, 50),
            each_runtime!(blocking_trip),
        )
        .target(OverTokio(1.3)),
        Row::new(
            "blocking_fan_out",
            "spawn_blocking of 10,000 no-ops, then join all",
            (10_000, 500),
            each_runtime!(blocking_fan_out),
        )
        .target(OverTokio(3.0)),
    ]
}

pub(super) fn blocking_trip<R: Blocking>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let region = Region::begin();
            let mut done = 0;
            for _ in 0..n {
                done += R::spawn_blocking(|| black_box(1)).await;
            }
            region.end(done)
        })
    });
}

fn blocking_fan_out<R: Blocking>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let mut jobs = Vec::with_capacity(n as usize);
            let region = Region::begin();
            jobs.extend((0..n).map(|_| R::spawn_blocking(|| black_box(1))));
            let mut done = 0;
            for job in &mut jobs {
                done += job.await;
            }
            region.end(done)
        })
    });
}
