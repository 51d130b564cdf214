//! How long after its deadline a timer's task runs, and what firing costs.
//!
//! The value is lateness; the CPU column is the cost of a timer from its task's spawn
//! to its end. Lateness alone can be bought with processor time, so the rows aim at
//! both. They would lie if a deadline were measured from when the task first ran: it
//! is fixed when the task is spawned. And if tasks shared more than they must: neighbours
//! sleep differently long and end on different cores, so a count that they shared would cost
//! each more than its timer. A timer that fires early ends the program.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::{Clock, each_clock};
use crate::kit::Tally;
use crate::probe::{Cost, Probe, Region};
use crate::row::{
    Row,
    Target::{AtMost, CpuOverTokio},
};
use crate::rt::run_inside;
use crate::stats::median;

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "sleeps_1m",
            "a million tasks sleep 1 to 1,000 ms: lateness p50",
            (1_000_000, 5_000),
            each_clock!(a_million),
        )
        .target(CpuOverTokio(2.5))
        .target(AtMost(0.06e9)),
        Row::new(
            "sleeps_10k",
            "10,000 tasks sleep 1 to 200 ms: lateness",
            (10_000, 500),
            each_clock!(ten_thousand),
        )
        .target(CpuOverTokio(0.8))
        .target(AtMost(0.2e6)),
        Row::new(
            "interval_1ms",
            "interval of 1 ms: lateness",
            (100, 10),
            each_clock!(interval),
        )
        .target(AtMost(0.15e6)),
    ]
}

/// The row of a curve over the number of timers.
pub(crate) fn sized_row() -> Row {
    Row::new(
        "timers_fired",
        "CPU time of a task that sleeps, of that many that end within 200 ms",
        (10, 10),
        each_clock!(fired_sized),
    )
}

fn fired_sized<R: Clock>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.derive(|n| {
        let (cost, _lateness) = run_inside(&rt, sleeps::<R>(n, 200));
        (cost, cost.cpu_ns() / n as f64)
    });
}

/// The most tasks that a sample has.
const MOST_TASKS: usize = 1_000_000;

/// Lateness of each task, filled in by it.
fn lateness() -> &'static [AtomicU64] {
    static LATENESS: OnceLock<Box<[AtomicU64]>> = OnceLock::new();
    LATENESS.get_or_init(|| (0..MOST_TASKS).map(|_| AtomicU64::new(0)).collect())
}

async fn sleeps<R: Clock>(n: u64, longest_ms: u64) -> (Cost, Vec<f64>) {
    static ENDED: Tally = Tally::new();
    let lateness = &lateness()[..n as usize];
    for late in lateness {
        late.store(u64::MAX, Relaxed);
    }
    let all_ended = ENDED.sum() + n;
    let region = Region::begin();
    for task in 0..n {
        // Neighbours sleep differently long, and every length is as frequent.
        let duration = Duration::from_millis(1 + task * 7_919 % longest_ms);
        let deadline = Instant::now() + duration;
        R::detach(R::spawn(async move {
            R::sleep_until(deadline).await;
            lateness[task as usize].store(late_ns(deadline), Relaxed);
            ENDED.add();
        }));
    }
    R::sleep(Duration::from_millis(longest_ms)).await;
    while ENDED.sum() < all_ended {
        R::sleep(Duration::from_millis(1)).await;
    }
    let cost = region.stop();
    let points: Vec<f64> = lateness
        .iter()
        .map(|late| late.load(Relaxed))
        .filter(|late| *late != u64::MAX)
        .map(|late| late as f64)
        .collect();
    (cost.counted(points.len() as u64), points)
}

#[track_caller]
fn late_ns(deadline: Instant) -> u64 {
    let late = Instant::now().checked_duration_since(deadline);
    late.expect("no timer fires early").as_nanos() as u64
}

fn a_million<R: Clock>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.derive(|n| {
        let (cost, lateness) = run_inside(&rt, sleeps::<R>(n, 1_000));
        (cost, median(&lateness))
    });
}

fn ten_thousand<R: Clock>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.collect(|n| run_inside(&rt, sleeps::<R>(n, 200)));
}

fn interval<R: Clock>(probe: &mut Probe) {
    const PERIOD: Duration = Duration::from_millis(1);
    let rt = R::start(probe.workers());
    probe.collect(|n| {
        run_inside(&rt, async move {
            let region = Region::begin();
            let mut points = Vec::with_capacity(n as usize);
            let mut due = Instant::now() + PERIOD;
            let mut interval = R::interval(due, PERIOD);
            for _ in 0..n {
                R::tick(&mut interval).await;
                points.push(late_ns(due) as f64);
                due += PERIOD;
            }
            (region.end(points.len() as u64), points)
        })
    });
}
