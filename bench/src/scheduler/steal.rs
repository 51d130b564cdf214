//! How long a new task waits behind the parent that spawned it and goes on
//! computing, while the other worker has nothing to do.
//!
//! The parent never gives way, so only a thief can start the child; if none has
//! after [`GIVE_UP`], that is the value. It would lie if the other worker were busy,
//! or awake where it should sleep: in the plain rows the kernel says that it sleeps;
//! in the `_awake` rows it is in a task that spins, and returns from it the moment
//! the child has been queued. Where the thief sleeps, nearly all of it is the kernel's wake, so
//! those rows have the bare system call as their floor.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::time::{Duration, Instant};

use crate::kit::{Signal, wait_until_others_sleep};
use crate::probe::{Cost, Probe};
use crate::row::{
    Row,
    Target::{AtMost, OverBestPeer},
};
use crate::rt::{Rt, each_runtime, run_inside};
use crate::scheduler::idle::wake_idle_futex;

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "steal_lone",
            "start of the only child of a computing parent; the thief sleeps",
            (40, 4),
            each_runtime!(steal_lone),
        )
        .floor("futex", wake_idle_futex)
        .target(OverBestPeer(1.0)),
        Row::new(
            "steal_lone_awake",
            "start of the only child of a computing parent; the thief is awake",
            (20, 4),
            each_runtime!(steal_lone_awake),
        )
        .target(AtMost(2_000.0))
        .stretch(AtMost(1_000.0)),
        Row::new(
            "steal_ring",
            "start of the first of two children of a computing parent; the thief sleeps",
            (40, 4),
            each_runtime!(steal_ring),
        )
        .floor("futex", wake_idle_futex)
        .target(OverBestPeer(1.0)),
        Row::new(
            "steal_100",
            "start of the first of 100 children of a computing parent; the thief sleeps",
            (40, 4),
            each_runtime!(steal_100),
        )
        .floor("futex", wake_idle_futex)
        .target(AtMost(20_000.0)),
        Row::new(
            "wake_8_computing",
            "start of the first of 8 tasks woken by one that goes on computing; the thief sleeps",
            (40, 4),
            each_runtime!(wake_computing),
        )
        .floor("futex", wake_idle_futex)
        .target(AtMost(100_000.0)),
        Row::new(
            "steal_ring_awake",
            "start of the first of two children of a computing parent; the thief is awake",
            (40, 4),
            each_runtime!(steal_ring_awake),
        )
        .target(AtMost(2_000.0))
        .stretch(AtMost(1_000.0)),
    ]
}

const GIVE_UP: Duration = Duration::from_millis(5);

/// When the first child ran, in nanoseconds after the start of the trial.
struct Trial {
    began: Instant,
    first_start_ns: AtomicU64,
}

const NOT_YET: u64 = u64::MAX;

impl Trial {
    fn new() -> Arc<Trial> {
        Arc::new(Trial {
            began: Instant::now(),
            first_start_ns: AtomicU64::new(NOT_YET),
        })
    }

    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn child_runs(&self) {
        self.first_start_ns.fetch_min(self.now_ns(), Relaxed);
    }

    /// Computes until a child has run; what it waited from `spawned_ns` on.
    fn latency(&self, spawned_ns: u64) -> f64 {
        let give_up_ns = GIVE_UP.as_nanos() as u64;
        loop {
            let start_ns = self.first_start_ns.load(Relaxed);
            if start_ns != NOT_YET {
                return start_ns.saturating_sub(spawned_ns) as f64;
            }
            if self.now_ns() - spawned_ns > give_up_ns {
                return give_up_ns as f64;
            }
            spin_loop();
        }
    }
}

/// Spawns `children`, lets `thief` come if it is held, and goes on computing.
async fn parent<R: Rt>(children: usize, thief: Option<Arc<Thief>>) -> f64 {
    let trial = Trial::new();
    let mut joins = Vec::with_capacity(children);
    let spawned_ns = trial.now_ns();
    for _ in 0..children {
        let trial = trial.clone();
        joins.push(R::spawn(async move { trial.child_runs() }));
    }
    if let Some(thief) = thief {
        // Release, met by the Acquire in `Thief::hold`: the children are queued.
        thief.is_free.store(true, Release);
    }
    let latency = trial.latency(spawned_ns);
    for join in joins {
        join.await;
    }
    latency
}

fn asleep<R: Rt>(probe: &mut Probe, children: usize) {
    let rt = R::start(probe.workers());
    probe.collect(|n| {
        run_inside(&rt, async move {
            let mut points = Vec::with_capacity(n as usize);
            for _ in 0..n {
                wait_until_others_sleep();
                points.push(parent::<R>(children, None).await);
            }
            (Cost::of_count(points.len() as u64), points)
        })
    });
}

const WOKEN: usize = 8;

/// A task that wakes others, which then run as children do.
fn wake_computing<R: Rt>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.collect(|n| {
        run_inside(&rt, async move {
            let mut points = Vec::with_capacity(n as usize);
            for _ in 0..n {
                let trial = Trial::new();
                let signals: Arc<[Signal]> = (0..WOKEN).map(|_| Signal::default()).collect();
                let joins: Vec<_> = (0..WOKEN)
                    .map(|woken| {
                        let (trial, signals) = (trial.clone(), signals.clone());
                        R::spawn(async move {
                            signals[woken].wait().await;
                            trial.child_runs();
                        })
                    })
                    .collect();
                R::yield_now().await; // lets them run, and wait, if nobody else does
                wait_until_others_sleep();
                let woken_ns = trial.now_ns();
                signals.iter().for_each(Signal::fire);
                points.push(trial.latency(woken_ns));
                for join in joins {
                    join.await;
                }
            }
            (Cost::of_count(points.len() as u64), points)
        })
    });
}

/// A worker kept busy by a task that ends on demand.
#[derive(Default)]
struct Thief {
    is_held: AtomicBool,
    is_free: AtomicBool,
}

impl Thief {
    fn hold(&self) {
        self.is_held.store(true, Relaxed);
        // Acquire, met by the Release in `parent`.
        while !self.is_free.load(Acquire) {
            spin_loop();
        }
    }
}

fn awake<R: Rt>(probe: &mut Probe, children: usize) {
    let rt = R::start(probe.workers());
    probe.collect(|n| {
        rt.block_on(async move {
            let mut points = Vec::with_capacity(n as usize);
            for _ in 0..n {
                let thief = Arc::new(Thief::default());
                let held = R::spawn({
                    let thief = thief.clone();
                    async move { thief.hold() }
                });
                let measured = R::spawn(async move {
                    // Seen while this task runs, so the thief is on the other worker.
                    while !thief.is_held.load(Relaxed) {
                        R::yield_now().await;
                    }
                    parent::<R>(children, Some(thief)).await
                });
                points.push(measured.await);
                held.await;
            }
            (Cost::of_count(points.len() as u64), points)
        })
    });
}

fn steal_lone<R: Rt>(probe: &mut Probe) {
    asleep::<R>(probe, 1);
}

fn steal_lone_awake<R: Rt>(probe: &mut Probe) {
    awake::<R>(probe, 1);
}

fn steal_ring<R: Rt>(probe: &mut Probe) {
    asleep::<R>(probe, 2);
}

fn steal_100<R: Rt>(probe: &mut Probe) {
    asleep::<R>(probe, 100);
}

fn steal_ring_awake<R: Rt>(probe: &mut Probe) {
    awake::<R>(probe, 2);
}
