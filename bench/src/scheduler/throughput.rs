//! Scheduled operations a second: how often a task is taken from a queue and polled.
//!
//! A thousand tasks are alive at a time. Each computes a little, yields, and ends after
//! ten polls, when the next one takes its place: nine yields for one spawn. It would lie
//! if a poll were counted that was not made: the tasks count their own polls, in a result
//! that the next one waits for.

use std::hint::black_box;

use crate::kit::split_evenly;
use crate::probe::{Probe, Region};
use crate::row::{
    Row,
    Target::{AtLeast, OverTokio},
    Unit,
};
use crate::rt::{Rt, each_runtime};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "scheduled_ops",
            "polls of short tasks, a second: 1,000 tasks at a time that end after 10 polls",
            (1_000_000, 20_000),
            each_runtime!(scheduled_ops),
        )
        .unit(Unit::PerSecond)
        .counted(20_000)
        .target(OverTokio(1.0))
        .target(AtLeast(10e6))
        .stretch(AtLeast(15e6)),
    ]
}

const TASKS: u64 = 1_000;
const POLLS_PER_TASK: u64 = 10;
/// Rounds of arithmetic in a poll: some nanoseconds.
const STEPS: u64 = 8;

/// A task's life; how often it was polled.
async fn life<R: Rt>(polls: u64) -> u64 {
    for _ in 1..polls {
        compute();
        R::yield_now().await;
    }
    compute();
    polls
}

fn compute() {
    let mut word = black_box(1_u64);
    for _ in 0..STEPS {
        word = word.wrapping_mul(3).rotate_left(7);
    }
    black_box(word);
}

/// Lives one after another, until `polls` have been made.
async fn lives<R: Rt>(polls: u64) -> u64 {
    let mut done = 0;
    while done < polls {
        done += R::spawn(life::<R>(POLLS_PER_TASK.min(polls - done))).await;
    }
    done
}

fn scheduled_ops<R: Rt>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.derive(|n| {
        let cost = rt.block_on(async move {
            let mut joins = Vec::with_capacity(TASKS as usize);
            let region = Region::begin();
            joins.extend(split_evenly(n, TASKS).map(|polls| R::spawn(lives::<R>(polls))));
            let mut done = 0;
            for join in &mut joins {
                done += join.await;
            }
            region.end(done)
        });
        (cost, n as f64 / (cost.wall_ns() / 1e9))
    });
}
