//! Cost of giving way: back into the queue and out again.
//!
//! With many tasks this is queue work. Alone, it is everything a worker does
//! between two polls, a look at its drivers included. It would lie if a yield
//! returned at once, which nothing outside the runtime can see; the count is of
//! polls that came back.

use super::coroutines;
use crate::kit::split_evenly;
use crate::probe::{Probe, Region};
use crate::row::{Row, Target::OverTokio};
use crate::rt::{Rt, each_runtime, run_inside};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "yield_many",
            "yield_now, 1,000 tasks taking turns",
            (1_000_000, 20_000),
            each_runtime!(yield_many),
        )
        .isolated_peer("may", coroutines::yield_many)
        .counted(20_000)
        .target(OverTokio(1.2)),
        Row::new(
            "yield_one",
            "yield_now, one task alone",
            (100_000, 2_000),
            each_runtime!(yield_one),
        )
        .isolated_peer("may", coroutines::yield_one)
        .counted(2_000)
        .target(OverTokio(8.0)),
    ]
}

/// The row of a curve over the number of tasks.
pub(crate) fn sized_row() -> Row {
    Row::new(
        "tasks_yielding",
        "yield_now among that many tasks; per yield",
        (1_000_000, 10_000),
        each_runtime!(yield_sized),
    )
}

pub(crate) const TASKS: u64 = 1_000;

async fn yield_times<R: Rt>(times: u64) -> u64 {
    let mut done = 0;
    for _ in 0..times {
        R::yield_now().await;
        done += 1;
    }
    done
}

pub(crate) fn yield_many<R: Rt>(probe: &mut Probe) {
    yield_among::<R>(probe, TASKS);
}

fn yield_sized<R: Rt>(probe: &mut Probe) {
    yield_among::<R>(probe, probe.size());
}

fn yield_among<R: Rt>(probe: &mut Probe, tasks: u64) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        rt.block_on(async move {
            let mut joins = Vec::with_capacity(tasks as usize);
            let region = Region::begin();
            joins.extend(split_evenly(n, tasks).map(|turns| R::spawn(yield_times::<R>(turns))));
            let mut done = 0;
            for join in &mut joins {
                done += join.await;
            }
            region.end(done)
        })
    });
}

fn yield_one<R: Rt>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let region = Region::begin();
            let done = yield_times::<R>(n).await;
            region.end(done)
        })
    });
}
