//! How long a task from outside waits for its first poll while all workers are busy with tasks
//! that yield again and again.
//!
//! It would lie if a worker were idle, so each has many such tasks before the first spawn; and if
//! the spawning thread kept a processor from the workers, so it sleeps between two spawns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::probe::{Cost, Probe};
use crate::row::{Row, Target::OverTokio};
use crate::rt::{Rt, each_runtime};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "spawn_loaded",
            "start of a task spawned from outside while all workers run tasks that yield",
            (200, 10),
            each_runtime!(spawn_loaded),
        )
        .target(OverTokio(1.0)),
    ]
}

const YIELDING_TASKS: usize = 64;
const BETWEEN_SPAWNS: Duration = Duration::from_micros(200);

fn spawn_loaded<R: Rt>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.collect(|n| {
        rt.block_on(async move {
            let is_over = Arc::new(AtomicBool::new(false));
            let yielding = |_| {
                let is_over = is_over.clone();
                R::spawn(async move {
                    while !is_over.load(Relaxed) {
                        R::yield_now().await;
                    }
                })
            };
            let yielding: Vec<_> = (0..YIELDING_TASKS).map(yielding).collect();
            let mut points = Vec::with_capacity(n as usize);
            for _ in 0..n {
                thread::sleep(BETWEEN_SPAWNS);
                let spawned = Instant::now();
                let started = R::spawn(async move { spawned.elapsed() }).await;
                points.push(started.as_nanos() as f64);
            }
            is_over.store(true, Relaxed);
            for task in yielding {
                task.await;
            }
            (Cost::of_count(n), points)
        })
    });
}
