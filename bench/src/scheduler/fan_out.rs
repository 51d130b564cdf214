//! How much of the processors a runtime leaves to short tasks spawned by one task.
//!
//! The value is the share of the ideal: the time all the work takes divided by the
//! workers, over the time it took. It would lie if the work could stretch or shrink
//! (it is a number of steps, timed at its best, see [`Burn`]). The floor `threads` is the same
//! work halved between two bare threads: what it misses of 1.0 is the machine's. The floor `blocks`
//! adds the least that a task needs: one thread makes a block of memory for each, both take batches
//! of them, do the work, and free the block.

use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::kit::{Block, Burn, Countdown, Striped, split_evenly};
use crate::probe::{Cost, Probe, Region};
use crate::row::{Contender, Row, Target::AtLeast, Unit};
use crate::rt::{Rt, each_runtime, run_inside};

pub(crate) fn rows() -> Vec<Row> {
    let with_floors =
        |mut contenders: Vec<Contender>, threads: fn(&mut Probe), blocks: fn(&mut Probe)| {
            contenders.push(Contender::floor("threads", threads));
            contenders.push(Contender::floor("blocks", blocks));
            contenders
        };
    vec![
        Row::new(
            "fan_out_1us",
            "tasks of 1 µs spawned by one task: share of ideal",
            (50_000, 2_000),
            with_floors(each_runtime!(fan_out_1us), threads_1us, blocks_1us),
        )
        .unit(Unit::Share)
        .target(AtLeast(0.80)),
        Row::new(
            "fan_out_10us",
            "tasks of 10 µs spawned by one task: share of ideal",
            (10_000, 500),
            with_floors(each_runtime!(fan_out_10us), threads_10us, blocks_10us),
        )
        .unit(Unit::Share)
        .target(AtLeast(0.93)),
    ]
}

fn fan_out_1us<R: Rt>(probe: &mut Probe) {
    fan_out::<R>(probe, Burn::of_ns(1_000.0));
}

fn fan_out_10us<R: Rt>(probe: &mut Probe) {
    fan_out::<R>(probe, Burn::of_ns(10_000.0));
}

fn threads_1us(probe: &mut Probe) {
    threads(probe, Burn::of_ns(1_000.0));
}

fn threads_10us(probe: &mut Probe) {
    threads(probe, Burn::of_ns(10_000.0));
}

fn blocks_1us(probe: &mut Probe) {
    blocks(probe, Burn::of_ns(1_000.0));
}

fn blocks_10us(probe: &mut Probe) {
    blocks(probe, Burn::of_ns(10_000.0));
}

fn share(cost: Cost, n: u64, burn: Burn, workers: usize) -> (Cost, f64) {
    let ideal_ns = n as f64 * burn.ideal_ns() / workers as f64;
    (cost, ideal_ns / cost.wall_ns())
}

fn fan_out<R: Rt>(probe: &mut Probe, burn: Burn) {
    let workers = probe.workers();
    let rt = R::start(workers);
    probe.derive(|n| {
        let cost = run_inside(&rt, async move {
            let all = Arc::new(Countdown::new(n));
            let shared = Striped::new(&all, n);
            let region = Region::begin();
            let mut spawned = 0;
            for task in 0..n {
                let all = shared.of(task);
                R::detach(R::spawn(async move {
                    burn.run();
                    all.done(task);
                }));
                spawned += 1;
            }
            all.wait().await;
            region.end(spawned)
        });
        share(cost, n, burn, workers)
    });
}

fn threads(probe: &mut Probe, burn: Burn) {
    let workers = probe.workers();
    probe.derive(|n| {
        let region = Region::begin();
        let threads: Vec<_> = split_evenly(n, workers as u64)
            .map(|tasks| {
                thread::spawn(move || {
                    (0..tasks).for_each(|_| burn.run());
                    tasks
                })
            })
            .collect();
        let done = threads
            .into_iter()
            .map(|thread| thread.join().expect("arithmetic does not panic"))
            .sum();
        share(region.end(done), n, burn, workers)
    });
}

const BLOCKS_PER_BATCH: u64 = 64;

fn blocks(probe: &mut Probe, burn: Burn) {
    let workers = probe.workers();
    probe.derive(|n| {
        let queue = Mutex::new(Vec::new());
        let has_all = AtomicBool::new(false);
        let work = || {
            let mut done = 0;
            loop {
                // Acquire, met by the Release below: then the queue has what is left. Looked at
                // before the queue.
                let is_last = has_all.load(Acquire);
                let batch: Option<Vec<Box<Block>>> = queue.lock().expect("no panic").pop();
                match batch {
                    Some(batch) => {
                        for block in batch {
                            burn.run();
                            assert_eq!(block.mark(), 1, "nobody else has it");
                            done += 1;
                        }
                    }
                    None if is_last => return done,
                    None => std::hint::spin_loop(),
                }
            }
        };
        let region = Region::begin();
        let done = thread::scope(|threads| {
            let others: Vec<_> = (1..workers).map(|_| threads.spawn(work)).collect();
            for batch in split_evenly(n, n.div_ceil(BLOCKS_PER_BATCH)) {
                let batch = (0..batch).map(|_| Block::new()).collect();
                queue.lock().expect("no panic").push(batch);
            }
            has_all.store(true, Release);
            let own = work();
            others.into_iter().fold(own, |done, other| {
                done + other.join().expect("arithmetic does not panic")
            })
        });
        share(region.end(done), n, burn, workers)
    });
}
