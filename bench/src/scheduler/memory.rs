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
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use crate::kit::{Countdown, Signal, resident_bytes, wait_until_others_sleep};
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
        Row::new(
            "memory_after",
            "resident bytes an idle second after a million tasks, all alive at once, have ended",
            (1_000_000, 20_000),
            each_runtime!(memory_after),
        )
        .unit(Unit::Bytes)
        .isolated()
        .target(AtMost(16.0 * 1024.0 * 1024.0)),
    ]
}

/// Spawned and polled in portions, so that the run queue's own size is not counted.
const AT_ONCE: u64 = 1_000;

/// Where the idle tasks leave their wakers.
struct IdleTasks {
    wakers: Box<[OnceLock<Waker>]>,
    is_over: AtomicBool,
    ended: Countdown,
}

impl IdleTasks {
    /// Never freed: a task holds a plain reference, as little as a task can hold.
    fn new(n: u64) -> &'static IdleTasks {
        Box::leak(Box::new(IdleTasks {
            wakers: (0..n).map(|_| OnceLock::new()).collect(),
            is_over: AtomicBool::new(false),
            ended: Countdown::new(n),
        }))
    }

    /// Wakes every task that waits; how many that were.
    async fn wake_all(&self) -> u64 {
        self.is_over.store(true, Release);
        let tasks = self.wakers.iter().filter_map(OnceLock::get);
        let woken = tasks.map(Waker::wake_by_ref).count() as u64;
        self.ended.wait().await;
        woken
    }
}

/// A task that waits for the end, written out so that its size is known.
struct IdleTask<const PAYLOAD: usize> {
    idle_tasks: &'static IdleTasks,
    index: u64,
    payload: [u8; PAYLOAD],
}

impl<const PAYLOAD: usize> Future for IdleTask<PAYLOAD> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // Acquire, met by the Release in `wake_all`.
        if self.idle_tasks.is_over.load(Acquire) {
            black_box(&self.payload);
            self.idle_tasks.ended.done(self.index);
            return Poll::Ready(());
        }
        let slot = &self.idle_tasks.wakers[self.index as usize];
        assert!(
            slot.set(cx.waker().clone()).is_ok(),
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

/// Spawns idle tasks, ends them all, and sees what is left of them.
///
/// Unlike the tasks above, these leave their wakers where waking takes them out: a waker
/// that is kept would keep its task's memory.
fn memory_after<R: Rt>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.derive_once(|n| {
        rt.block_on(async { R::spawn(R::yield_now()).await });
        let signals: Arc<[Signal]> = (0..n).map(|_| Signal::default()).collect();
        let ended = Arc::new(Countdown::new(n));
        wait_until_others_sleep();
        let before = resident_bytes();
        rt.block_on(async {
            in_portions(n, |index| {
                let (signals, ended) = (signals.clone(), ended.clone());
                R::detach(R::spawn(async move {
                    signals[index as usize].wait().await;
                    ended.done(index);
                }));
            });
            signals.iter().for_each(Signal::fire);
            ended.wait().await;
        });
        // The idle second is part of the row: a runtime may use it to give memory back.
        thread::sleep(Duration::from_secs(1));
        let left = (resident_bytes() - before).max(1.0);
        (Cost::of_count(n), left)
    });
}

/// Spawns with `spawn` as many tasks as `n`, and lets each portion be polled before the
/// next.
fn in_portions(n: u64, spawn: impl Fn(u64)) {
    for index in 0..n {
        spawn(index);
        if (index + 1) % AT_ONCE == 0 {
            wait_until_others_sleep();
        }
    }
    wait_until_others_sleep();
}

/// Spawns idle tasks of 16 bytes and `PAYLOAD`, and sees what they take.
fn measure<R: Rt, const PAYLOAD: usize>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.derive_once(|n| {
        let idle_tasks = IdleTasks::new(n);
        rt.block_on(async { R::spawn(R::yield_now()).await });
        wait_until_others_sleep();
        let before = resident_bytes();
        rt.block_on(async {
            in_portions(n, |index| {
                R::detach(R::spawn(IdleTask {
                    idle_tasks,
                    index,
                    payload: black_box([1; PAYLOAD]),
                }));
            });
        });
        let bytes = resident_bytes() - before;
        let woken = rt.block_on(idle_tasks.wake_all());
        (Cost::of_count(woken), bytes / n as f64)
    });
}
