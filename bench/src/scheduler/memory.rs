//! Resident memory per idle task.
//!
//! Resident, because what an allocator rounds up and pads is paid as well. It would
//! lie if tasks were freed (each has left its waker with the harness, and all are
//! woken and counted afterwards), if the harness's own memory were counted (its
//! slots are written before the first look), or if an earlier contender had left
//! free memory behind: each sample is a process of its own.

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::task::{Context, Poll, Waker};

use crate::kit::{Countdown, resident_bytes, wait_until_others_sleep};
use crate::probe::{Cost, Probe};
use crate::row::{
    Row,
    Target::{AtMost, OverTokio},
    Unit,
};
use crate::rt::{Rt, each_runtime};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "memory_small",
            "resident bytes per idle task with a small future",
            (200_000, 20_000),
            each_runtime!(memory_small),
        )
        .unit(Unit::Bytes)
        .isolated()
        .target(OverTokio(2.5))
        .target(AtMost(128.0)),
        Row::new(
            "memory_1k",
            "resident bytes per idle task with a future of 1 KiB",
            (100_000, 10_000),
            each_runtime!(memory_1k),
        )
        .unit(Unit::Bytes)
        .isolated()
        .target(OverTokio(1.1)),
    ]
}

/// Spawned and polled in portions, so that the run queue's own size is not counted.
const AT_ONCE: u64 = 1_000;

/// Where the idle tasks leave their wakers.
struct Dormitory {
    wakers: Box<[OnceLock<Waker>]>,
    is_morning: AtomicBool,
    gone: Countdown,
}

impl Dormitory {
    /// Never freed: a task holds a plain reference, as little as a task can hold.
    fn new(n: u64) -> &'static Dormitory {
        Box::leak(Box::new(Dormitory {
            wakers: (0..n).map(|_| OnceLock::new()).collect(),
            is_morning: AtomicBool::new(false),
            gone: Countdown::new(n),
        }))
    }

    /// Wakes everybody who sleeps; how many that were.
    async fn wake_all(&self) -> u64 {
        self.is_morning.store(true, Release);
        let sleepers = self.wakers.iter().filter_map(OnceLock::get);
        let woken = sleepers.map(Waker::wake_by_ref).count() as u64;
        self.gone.wait().await;
        woken
    }
}

/// A task that waits for the morning, written out so that its size is known.
struct Sleeper<const LUGGAGE: usize> {
    dormitory: &'static Dormitory,
    bed: u64,
    luggage: [u8; LUGGAGE],
}

impl<const LUGGAGE: usize> Future for Sleeper<LUGGAGE> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // Acquire, met by the Release in `wake_all`.
        if self.dormitory.is_morning.load(Acquire) {
            black_box(&self.luggage);
            self.dormitory.gone.done(self.bed);
            return Poll::Ready(());
        }
        let bed = &self.dormitory.wakers[self.bed as usize];
        assert!(
            bed.set(cx.waker().clone()).is_ok(),
            "nobody wakes an idle task"
        );
        Poll::Pending
    }
}

fn memory_small<R: Rt>(probe: &mut Probe) {
    measure::<R, 0>(probe);
}

fn memory_1k<R: Rt>(probe: &mut Probe) {
    measure::<R, 1024>(probe);
}

/// Spawns idle tasks of 16 bytes and `LUGGAGE`, and sees what they take.
fn measure<R: Rt, const LUGGAGE: usize>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.derive_once(|n| {
        let dormitory = Dormitory::new(n);
        rt.block_on(async { R::spawn(R::yield_now()).await });
        wait_until_others_sleep();
        let before = resident_bytes();
        rt.block_on(async {
            let mut bed = 0;
            while bed < n {
                for _ in 0..AT_ONCE.min(n - bed) {
                    R::detach(R::spawn(Sleeper {
                        dormitory,
                        bed,
                        luggage: black_box([1; LUGGAGE]),
                    }));
                    bed += 1;
                }
                wait_until_others_sleep();
            }
        });
        let bytes = resident_bytes() - before;
        let woken = rt.block_on(dormitory.wake_all());
        (Cost::of_count(woken), bytes / n as f64)
    });
}
