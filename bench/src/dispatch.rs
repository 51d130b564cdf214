//! Group `dispatch`: what dispatchers cost, and whether groups keep to their shares.
//!
//! `limited_wake` is a difference of two times of one sample, so it is noisier than either. It
//! would lie if the view's tasks were polled without going through its queue: its metrics count the
//! polls. A signal that comes before its task waits, on another worker, needs none. `io_ready` would lie if the future were polled
//! outside the dispatcher: its metrics count the polls. In `group_shares` both groups always have
//! more tasks than workers; a group that runs out of work would leave its time to the other.

use std::future::ready;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use blitzen::dispatch::{Dispatcher, Shares, with_dispatcher};
use blitzen::runtime::{Builder, Runtime};
use blitzen::task::{JoinHandle, yield_now};

use crate::kit::Signal;
use crate::probe::{Cost, Probe, Region};
use crate::row::Target::{AtLeast, AtMost};
use crate::row::{Contender, Row, Unit};

pub(crate) fn rows() -> Vec<Row> {
    let blitzen = |work: fn(&mut Probe)| vec![Contender::named("blitzen", work)];
    vec![
        Row::new(
            "limited_wake",
            "what a view with a limit adds to a wake",
            (200_000, 2_000),
            blitzen(limited_wake),
        )
        .target(AtMost(50.0)),
        Row::new(
            "io_ready",
            "with_dispatcher(&io, …) around a future that is ready",
            (500_000, 5_000),
            blitzen(io_ready),
        )
        .counted(5_000)
        .target(AtMost(60.0)),
        Row::new(
            "group_shares",
            "groups with 3 : 1 shares and endless work: the smaller of their ratio over 3 and 3 over it",
            (1, 1),
            blitzen(group_shares),
        )
        .unit(Unit::Share)
        .target(AtLeast(0.95)),
    ]
}

fn start(workers: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    let builder = builder.worker_threads(workers).enable_all();
    builder.build().expect("a runtime starts")
}

async fn join<T>(task: JoinHandle<T>) -> T {
    task.await.expect("tasks of a workload do not panic")
}

#[derive(Default)]
struct Signals {
    ping: Signal,
    pong: Signal,
}

/// Two tasks of a dispatcher wake each other, `n` times in all.
async fn ping_pong(on: &Dispatcher, n: u64) -> Cost {
    let signals = Arc::new(Signals::default());
    let other = on.spawn({
        let signals = signals.clone();
        async move {
            let mut trips = 0;
            for _ in 0..n / 2 {
                signals.ping.wait().await;
                trips += 1;
                signals.pong.fire();
            }
            trips
        }
    });
    let one = on.spawn(async move {
        let region = Region::begin();
        let mut trips = n % 2; // half a round trip is not made
        for _ in 0..n / 2 {
            signals.ping.fire();
            signals.pong.wait().await;
            trips += 1;
        }
        trips += join(other).await;
        region.end(trips)
    });
    join(one).await
}

fn limited_wake(probe: &mut Probe) {
    let runtime = start(probe.workers());
    probe.derive(|n| {
        runtime.block_on(async {
            let workers = Dispatcher::default();
            let view = workers.limited(2);
            let plain = ping_pong(&workers, n).await;
            let limited = ping_pong(&view, n).await;
            assert!(view.metrics().polls >= n / 2, "the view polls its tasks");
            let added_ns = (limited.wall_ns() - plain.wall_ns()) / n as f64;
            (limited, added_ns)
        })
    });
}

fn io_ready(probe: &mut Probe) {
    let runtime = start(probe.workers());
    probe.time(|n| {
        runtime.block_on(async {
            let io = Dispatcher::io();
            let before = io.metrics().polls;
            let task = blitzen::spawn({
                let io = io.clone();
                async move {
                    let region = Region::begin();
                    let mut done = 0;
                    for _ in 0..n {
                        done += with_dispatcher(&io, ready(black_box(1))).await;
                    }
                    region.end(done)
                }
            });
            let cost = join(task).await;
            assert!(io.metrics().polls - before >= n, "`io` polls the futures");
            cost
        })
    });
}

/// How long the groups compete in a sample.
const COMPETE: Duration = Duration::from_millis(100);
/// How long a poll of theirs takes.
const POLL: Duration = Duration::from_micros(20);

fn group_shares(probe: &mut Probe) {
    let runtime = start(probe.workers());
    let tasks = 2 * probe.workers();
    probe.derive(|n| {
        runtime.block_on(async {
            let three = Dispatcher::group("three", Shares(300));
            let one = Dispatcher::group("one", Shares(100));
            let is_over = Arc::new(AtomicBool::new(false));
            let work = |group: &Dispatcher| {
                let is_over = is_over.clone();
                group.spawn(async move {
                    while !is_over.load(Relaxed) {
                        let begun = Instant::now();
                        while begun.elapsed() < POLL {
                            std::hint::spin_loop();
                        }
                        yield_now().await;
                    }
                })
            };
            let works: Vec<_> = (0..tasks)
                .flat_map(|_| [work(&three), work(&one)])
                .collect();
            let region = Region::begin();
            blitzen::time::sleep(COMPETE).await;
            let busy = [&three, &one].map(|group| group.metrics().busy.as_secs_f64());
            let cost = region.end(n);
            is_over.store(true, Relaxed);
            for task in works {
                join(task).await;
            }
            let ratio = busy[0] / busy[1] / 3.0;
            (cost, ratio.min(1.0 / ratio))
        })
    });
}
