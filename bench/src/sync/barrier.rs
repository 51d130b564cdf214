//! Cost of meeting at a barrier.
//!
//! Alone, it shows what the primitive adds to nothing; new each time, what it
//! allocates. With four tasks an operation is one task's wait, and it would lie if a
//! generation had any number of leaders but one: they are counted.

use std::future::Future;

use super::{leak, pairs};
use crate::probe::{Probe, Region};
use crate::row::{Row, Target::OverTokio};
use crate::rt::{Blitzen, Rt, Smol, Tokio, run_inside};

macro_rules! contenders {
    ($work:ident) => {
        pairs![$work;
            "blitzen": Blitzen blitzen::sync::Barrier,
            "tokio": Tokio tokio::sync::Barrier,
            "tokio+blitzen": Tokio blitzen::sync::Barrier,
            "smol": Smol async_lock::Barrier,
        ]
    };
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "barrier_1",
            "Barrier of one, waited at again and again",
            (200_000, 5_000),
            contenders!(reused),
        )
        .counted(10_000)
        .target(OverTokio(3.5)),
        Row::new(
            "barrier_1_new",
            "Barrier of one, made, waited at, dropped",
            (200_000, 5_000),
            contenders!(new),
        )
        .counted(10_000)
        .target(OverTokio(3.5)),
        Row::new(
            "barrier_4",
            "Barrier of 4 tasks, per task and wait",
            (100_000, 2_000),
            contenders!(four),
        )
        .target(OverTokio(1.7)),
    ]
}

pub(crate) trait AsyncBarrier: Send + Sync + 'static {
    fn new(tasks: usize) -> Self;
    /// Whether this task was the one that led.
    fn wait(&self) -> impl Future<Output = bool> + Send;
}

macro_rules! tokio_like {
    ($($library:ident)::+) => {
        impl AsyncBarrier for $($library)::+::Barrier {
            fn new(tasks: usize) -> Self {
                Self::new(tasks)
            }

            async fn wait(&self) -> bool {
                self.wait().await.is_leader()
            }
        }
    };
}

tokio_like!(tokio::sync);
tokio_like!(blitzen::sync);
tokio_like!(async_lock);

fn reused<R: Rt, B: AsyncBarrier>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let barrier = B::new(1);
            let mut led = 0;
            let region = Region::begin();
            for _ in 0..n {
                led += u64::from(barrier.wait().await);
            }
            region.end(led)
        })
    });
}

fn new<R: Rt, B: AsyncBarrier>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let mut led = 0;
            let region = Region::begin();
            for _ in 0..n {
                led += u64::from(B::new(1).wait().await);
            }
            region.end(led)
        })
    });
}

fn four<R: Rt, B: AsyncBarrier>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        rt.block_on(async move {
            let barrier = leak(B::new(4));
            let region = Region::begin();
            let tasks: Vec<_> = (0..4)
                .map(|_| {
                    R::spawn(async move {
                        let mut led = 0;
                        for _ in 0..n / 4 {
                            led += u64::from(barrier.wait().await);
                        }
                        led
                    })
                })
                .collect();
            let mut led = 0;
            for task in tasks {
                led += task.await;
            }
            // Four waits for each leader; what four does not divide is not done.
            region.end(4 * led + n % 4)
        })
    });
}
