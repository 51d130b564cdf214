//! Cost of taking one of a number of permits.
//!
//! With eight tasks and two permits, and both held across a yield, most tasks wait:
//! that row is the queue. Held across nothing it is mostly the counter. It would lie
//! if permits were made from nothing: the tasks count how many hold one, and more
//! than two at once end the program.
//!
//! The floor of the held row is two threads that do, for each permit, what passing it on takes at
//! least: one queues an entry under a lock, takes the oldest one out, and marks it.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Relaxed};

use super::{leak, on_two_threads, pairs};
use crate::kit::split_evenly;
use crate::probe::{Probe, Region};
use crate::row::{Row, Target::OverTokio};
use crate::rt::{Blitzen, Rt, Smol, Tokio, run_inside};

macro_rules! contenders {
    ($work:ident) => {
        pairs![$work;
            "blitzen": Blitzen blitzen::sync::Semaphore,
            "tokio": Tokio tokio::sync::Semaphore,
            "tokio+blitzen": Tokio blitzen::sync::Semaphore,
            "smol": Smol async_lock::Semaphore,
        ]
    };
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "semaphore_acquire",
            "Semaphore::acquire().await with permits left",
            (500_000, 5_000),
            contenders!(acquire),
        )
        .counted(10_000)
        .target(OverTokio(3.5)),
        Row::new(
            "semaphore_try_acquire",
            "Semaphore::try_acquire with permits left",
            (1_000_000, 5_000),
            contenders!(try_acquire),
        )
        .counted(10_000)
        .target(OverTokio(1.3)),
        Row::new(
            "semaphore_8_tasks",
            "8 tasks share 2 permits",
            (200_000, 5_000),
            contenders!(eight_tasks),
        )
        .target(OverTokio(3.0)),
        Row::new(
            "semaphore_8_tasks_held",
            "8 tasks share 2 permits, each held for a yield",
            (100_000, 2_000),
            contenders!(eight_tasks_held),
        )
        .floor("threads", pass_on)
        .target(OverTokio(3.0)),
    ]
}

pub(crate) trait Permits: Send + Sync + 'static {
    type Permit: Send;

    fn new(permits: usize) -> Self;
    fn acquire(&'static self) -> impl Future<Output = Self::Permit> + Send;
    fn try_acquire(&'static self) -> Option<Self::Permit>;
}

macro_rules! tokio_like {
    ($($library:ident)::+) => {
        impl Permits for $($library)::+::Semaphore {
            type Permit = $($library)::+::SemaphorePermit<'static>;

            fn new(permits: usize) -> Self {
                Self::new(permits)
            }

            async fn acquire(&'static self) -> Self::Permit {
                self.acquire().await.expect("nobody closes it")
            }

            fn try_acquire(&'static self) -> Option<Self::Permit> {
                self.try_acquire().ok()
            }
        }
    };
}

tokio_like!(tokio::sync);
tokio_like!(blitzen::sync);

impl Permits for async_lock::Semaphore {
    type Permit = async_lock::SemaphoreGuard<'static>;

    fn new(permits: usize) -> Self {
        Self::new(permits)
    }

    fn acquire(&'static self) -> impl Future<Output = Self::Permit> + Send {
        self.acquire()
    }

    fn try_acquire(&'static self) -> Option<Self::Permit> {
        self.try_acquire()
    }
}

fn acquire<R: Rt, S: Permits>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let semaphore = leak(S::new(2));
            let mut taken = 0;
            let region = Region::begin();
            for _ in 0..n {
                let _permit = semaphore.acquire().await;
                taken += 1;
            }
            region.end(taken)
        })
    });
}

fn try_acquire<R: Rt, S: Permits>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let semaphore = leak(S::new(2));
            let mut taken = 0;
            let region = Region::begin();
            for _ in 0..n {
                taken += u64::from(semaphore.try_acquire().is_some());
            }
            region.end(taken)
        })
    });
}

fn eight_tasks<R: Rt, S: Permits>(probe: &mut Probe) {
    contended::<R, S, false>(probe);
}

fn eight_tasks_held<R: Rt, S: Permits>(probe: &mut Probe) {
    contended::<R, S, true>(probe);
}

fn contended<R: Rt, S: Permits, const HELD: bool>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        rt.block_on(async move {
            let semaphore = leak(S::new(2));
            let holders = leak(AtomicU64::new(0));
            let region = Region::begin();
            let tasks: Vec<_> = split_evenly(n, 8)
                .map(|times| {
                    R::spawn(async move {
                        let mut taken = 0;
                        for _ in 0..times {
                            let permit = semaphore.acquire().await;
                            assert!(holders.fetch_add(1, Relaxed) < 2, "two permits");
                            taken += 1;
                            if HELD {
                                R::yield_now().await;
                            }
                            holders.fetch_sub(1, Relaxed);
                            drop(permit);
                        }
                        taken
                    })
                })
                .collect();
            let mut taken = 0;
            for task in tasks {
                taken += task.await;
            }
            region.end(taken)
        })
    });
}

/// What a task that waits is to those who pass permits on.
#[derive(Default)]
#[repr(align(128))]
struct Entry(AtomicU64);

fn pass_on(probe: &mut Probe) {
    probe.time(|n| {
        let entries: [Entry; 8] = Default::default();
        let queue: Mutex<VecDeque<usize>> = Mutex::new((0..entries.len()).collect());
        let holders = AtomicU64::new(0);
        let region = Region::begin();
        on_two_threads(n, |times| {
            let oldest = || {
                queue
                    .lock()
                    .expect("no panic")
                    .pop_front()
                    .expect("some wait")
            };
            let mut own = oldest();
            for _ in 0..times {
                holders.fetch_add(1, Relaxed);
                holders.fetch_sub(1, Relaxed);
                queue.lock().expect("no panic").push_back(own);
                own = oldest();
                entries[own].0.fetch_add(1, AcqRel);
            }
        });
        region.end(entries.iter().map(|entry| entry.0.load(Relaxed)).sum())
    });
}
