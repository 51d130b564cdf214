//! Cost of a task's life: allocate, queue, poll once, hand over the output, free.
//!
//! It would lie if the task could be left out (its output is summed), if handles
//! were dropped before their tasks end (a dropped handle skips the join), or if the
//! vector of handles grew while the clock runs.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::coroutines;
use crate::kit::Signal;
use crate::probe::{Cost, Probe, Region};
use crate::row::{Row, Target::OverTokio};
use crate::rt::{Rt, TaskSet, each_runtime, run_inside};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "spawn_outside",
            "spawn no-op tasks from outside, then join all",
            (100_000, 2_000),
            each_runtime!(spawn_outside),
        )
        .isolated_peer("may", coroutines::spawn_outside)
        .target(OverTokio(2.0)),
        Row::new(
            "spawn_inside",
            "spawn no-op tasks from a task, then join all",
            (100_000, 2_000),
            each_runtime!(spawn_inside),
        )
        .isolated_peer("may", coroutines::spawn_inside)
        .counted(2_000)
        .target(OverTokio(2.5)),
        Row::new(
            "spawn_await_each",
            "spawn a no-op task and await it, one after another",
            (100_000, 2_000),
            each_runtime!(spawn_await_each),
        )
        .isolated_peer("may", coroutines::spawn_await_each)
        .counted(2_000)
        .target(OverTokio(2.0)),
        Row::new(
            "join_set",
            "spawn no-op tasks into a JoinSet, then drain it",
            (50_000, 2_000),
            each_runtime!(join_set),
        )
        .counted(2_000)
        .target(OverTokio(3.0)),
        Row::new(
            "spawn_chain",
            "each task spawns the next, 1,000 deep",
            (200_000, 2_000),
            each_runtime!(spawn_chain),
        )
        .isolated_peer("may", coroutines::spawn_chain)
        .counted(2_000)
        .target(OverTokio(2.0)),
    ]
}

/// The row of a curve over the number of tasks.
pub(crate) fn sized_row() -> Row {
    Row::new(
        "tasks_spawned",
        "spawn that many no-op tasks from a task, then join all; per task",
        (100_000, 1_000),
        each_runtime!(spawn_batches),
    )
}

fn spawn_batches<R: Rt>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    let size = probe.size();
    probe.time(|n| {
        run_inside(&rt, async move {
            let mut joins = Vec::with_capacity(size as usize);
            let region = Region::begin();
            let mut done = 0;
            while done < n {
                for _ in 0..size.min(n - done) {
                    joins.push(R::spawn(async { black_box(1) }));
                }
                for join in joins.drain(..) {
                    done += join.await;
                }
            }
            region.end(done)
        })
    });
}

async fn spawn_then_join<R: Rt>(n: u64) -> Cost {
    let mut joins = Vec::with_capacity(n as usize);
    let region = Region::begin();
    for _ in 0..n {
        joins.push(R::spawn(async { black_box(1) }));
    }
    let mut done = 0;
    for join in &mut joins {
        done += join.await;
    }
    region.end(done)
}

pub(super) fn spawn_outside<R: Rt>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| rt.block_on(spawn_then_join::<R>(n)));
}

pub(crate) fn spawn_inside<R: Rt>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| run_inside(&rt, spawn_then_join::<R>(n)));
}

fn spawn_await_each<R: Rt>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let region = Region::begin();
            let mut done = 0;
            for _ in 0..n {
                done += R::spawn(async { black_box(1) }).await;
            }
            region.end(done)
        })
    });
}

fn join_set<R: TaskSet>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let region = Region::begin();
            let mut set = R::new_set();
            for _ in 0..n {
                R::spawn_into(&mut set, async { black_box(1) });
            }
            let mut done = 0;
            while let Some(one) = R::join_next(&mut set).await {
                done += one;
            }
            region.end(done)
        })
    });
}

pub(super) const DEPTH: u64 = 1_000;

fn spawn_chain<R: Rt>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let chain = Arc::new(Chain::default());
            let region = Region::begin();
            let mut left = n;
            while left > 0 {
                let depth = left.min(DEPTH);
                link::<R>(chain.clone(), depth);
                chain.ended.wait().await;
                left -= depth;
            }
            // Each task counts before it spawns the next, and the last fires.
            region.end(chain.links.load(Relaxed))
        })
    });
}

#[derive(Default)]
struct Chain {
    /// Tasks that ran. They run one at a time, so the count never contends.
    links: AtomicU64,
    ended: Signal,
}

fn link<R: Rt>(chain: Arc<Chain>, depth: u64) {
    R::detach(R::spawn(async move {
        chain.links.fetch_add(1, Relaxed);
        if depth > 1 {
            link::<R>(chain, depth - 1);
        } else {
            chain.ended.fire();
        }
    }));
}
