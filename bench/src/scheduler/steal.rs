//! How long a new task waits behind the parent that spawned it and goes on
//! computing, while the other worker has nothing to do.
//!
//! The parent never gives way, so only a thief can start the child; if none has
//! after [`GIVE_UP`], that is the value. It would lie if the other worker were busy,
//! or awake where it should sleep: in the plain rows the kernel says that it sleeps;
//! in the `_awake` rows it is in a task that spins, and returns from it the moment
//! the child has been queued. On some runtimes the parent may then wait behind that task, for a worker
//! that never comes: such a trial is repeated. Where the thief sleeps, nearly all of it is the kernel's wake, so
//! those rows have the bare system call as their floor.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU8, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
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

/// Spawns `children`, lets `thief` come if it is held, and goes on computing. `None` if the thief
/// did not wait for that.
async fn parent<R: Rt>(children: usize, thief: Option<Arc<Thief>>) -> Option<f64> {
    let trial = Trial::new();
    let mut joins = Vec::with_capacity(children);
    let spawned_ns = trial.now_ns();
    for _ in 0..children {
        let trial = trial.clone();
        joins.push(R::spawn(async move { trial.child_runs() }));
    }
    let is_valid = thief.is_none_or(|thief| thief.let_go());
    let latency = trial.latency(spawned_ns);
    for join in joins {
        join.await;
    }
    is_valid.then_some(latency)
}

fn asleep<R: Rt>(probe: &mut Probe, children: usize) {
    let rt = R::start(probe.workers());
    probe.collect(|n| {
        run_inside(&rt, async move {
            let mut points = Vec::with_capacity(n as usize);
            for _ in 0..n {
                wait_until_others_sleep();
                points.extend(parent::<R>(children, None).await);
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
struct Thief(AtomicU8);

/// What the task does.
const COMING: u8 = 0;
const HELD: u8 = 1;
const FREE: u8 = 2;
const GONE: u8 = 3;

/// The parent comes much earlier, if it does.
const HELD_AT_MOST: Duration = Duration::from_millis(20);

impl Thief {
    fn hold(&self) {
        let began = Instant::now();
        self.0.store(HELD, Relaxed);
        // Acquire, met by the Release in `let_go`.
        while self.0.load(Acquire) != FREE {
            if began.elapsed() > HELD_AT_MOST {
                let _ = self.0.compare_exchange(HELD, GONE, Relaxed, Relaxed);
                return;
            }
            spin_loop();
        }
    }

    fn is_coming(&self) -> bool {
        self.0.load(Relaxed) == COMING
    }

    /// Ends the task that holds the worker; returns false if it has ended by itself.
    fn let_go(&self) -> bool {
        // Release, met by the Acquire in `hold`: the children are queued.
        let let_go = self.0.compare_exchange(HELD, FREE, Release, Relaxed);
        let_go.is_ok()
    }
}

fn awake<R: Rt>(probe: &mut Probe, children: usize) {
    let rt = R::start(probe.workers());
    probe.collect(|n| {
        rt.block_on(async move {
            let mut points = Vec::with_capacity(n as usize);
            while points.len() < n as usize {
                let thief = Arc::new(Thief::default());
                let held = R::spawn({
                    let thief = thief.clone();
                    async move { thief.hold() }
                });
                let measured = R::spawn(async move {
                    // Seen while this task runs, so the thief is on the other worker.
                    while thief.is_coming() {
                        R::yield_now().await;
                    }
                    parent::<R>(children, Some(thief)).await
                });
                points.extend(measured.await);
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
