//! Group `coro`: coroutines with stacks of their own, against may's, bare stack switching, and
//! async tasks of blitzen (`blitzen-task`) that do the same.
//!
//! `coro_yield` is a yield with nobody to yield to: blitzen finds that out and goes on, without
//! leaving the stack. `coro_yield_many` is the row whose yields switch. `coro_switch` would lie if a
//! wait for a ready future did not leave the coroutine's stack: it always does, since futures are
//! polled on the thread's. It comes back by a return, though, not by the scheduler: that is in
//! `coro_yield_many` and `coro_ping_pong`. `coro_spawn` runs on stacks that were
//! used before: the warm-up has made them. In `coro_memory` every coroutine waits in a frame as
//! deep as `block_on` alone makes it; what a program adds is its own.

use std::future::ready;
use std::hint::black_box;
use std::panic::Location;
use std::sync::Arc;

use blitzen::coro::{self, block_on};
use blitzen::runtime::{Builder, Runtime};
use blitzen::task::JoinHandle;
use blitzen_stack::{DEFAULT_STACK_SIZE, Fiber, FiberInfo, FiberState, Suspender};

use crate::kit::{Countdown, Signal, resident_bytes, split_evenly, wait_until_others_sleep};
use crate::probe::{Cost, Probe, Region};
use crate::row::Target::{AtMost, OverBestPeer};
use crate::row::{Contender, Row, Unit};
use crate::scheduler::coroutines as may;
use crate::scheduler::yielding::TASKS as YIELDING;

pub(crate) fn rows() -> Vec<Row> {
    let blitzen = |work: fn(&mut Probe)| Contender::named("blitzen", work);
    let task = |work: fn(&mut Probe)| Contender::named("blitzen-task", work);
    vec![
        Row::new(
            "coro_switch",
            "a coroutine waits for a future that is ready: to the thread's stack and back",
            (2_000_000, 20_000),
            vec![blitzen(switch), task(switch_in_task)],
        )
        .floor("fiber", switch_bare)
        .counted(20_000)
        .target(AtMost(20.0)),
        Row::new(
            "coro_spawn",
            "spawn and join one coroutine at a time, inside a coroutine",
            (200_000, 2_000),
            vec![blitzen(spawn_join), task(spawn_join_task)],
        )
        .isolated_peer("may", may::spawn_await_each)
        .counted(2_000)
        .target(AtMost(200.0)),
        Row::new(
            "coro_yield",
            "yield_now, one coroutine alone",
            (500_000, 5_000),
            vec![blitzen(yield_one), task(yield_one_task)],
        )
        .isolated_peer("may", may::yield_one)
        .counted(5_000)
        .target(OverBestPeer(1.0)),
        Row::new(
            "coro_yield_many",
            "yield_now, many coroutines that take turns",
            (500_000, 5_000),
            vec![blitzen(yield_many)],
        )
        .isolated_peer("may", may::yield_many)
        .counted(5_000)
        .target(OverBestPeer(1.0)),
        Row::new(
            "coro_ping_pong",
            "two coroutines wake each other in turn, per wake",
            (200_000, 2_000),
            vec![blitzen(ping_pong)],
        )
        .isolated_peer("may", may::ping_pong_pair)
        .counted(4_000)
        .target(OverBestPeer(1.0)),
        Row::new(
            "coro_memory",
            "resident memory of an idle coroutine",
            (10_000, 1_000),
            vec![blitzen(memory)],
        )
        .unit(Unit::Bytes)
        .isolated()
        .isolated_peer("may", may::memory)
        .target(AtMost(8192.0)),
    ]
}

fn start(workers: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    let builder = builder.worker_threads(workers).enable_all();
    builder.build().expect("a runtime starts")
}

fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    // SAFETY: no workload relies on nested calls of its thread.
    unsafe { coro::spawn(work) }
}

fn join<T>(handle: JoinHandle<T>) -> T {
    block_on(handle).expect("coroutines of a workload do not panic")
}

/// Times `work` in a coroutine. It gets the number of operations.
fn time_coroutine<W>(probe: &mut Probe, work: W)
where
    W: FnOnce(u64) -> Cost + Copy + Send + 'static,
{
    let runtime = start(probe.workers());
    probe.time(|n| {
        let ended = runtime.block_on(async { spawn(move || work(n)).await });
        ended.expect("coroutines of a workload do not panic")
    });
}

/// Times `work` in a task. It gets the number of operations.
fn time_task<W, F>(probe: &mut Probe, work: W)
where
    W: Fn(u64) -> F,
    F: Future<Output = Cost> + Send + 'static,
{
    let runtime = start(probe.workers());
    probe.time(|n| {
        let ended = runtime.block_on(runtime.spawn(work(n)));
        ended.expect("tasks of a workload do not panic")
    });
}

/// Yields that often; returns how often it came back.
fn yield_times(times: u64) -> u64 {
    let mut done = 0;
    for _ in 0..times {
        coro::yield_now();
        done += 1;
    }
    done
}

fn switch(probe: &mut Probe) {
    time_coroutine(probe, |n| {
        let region = Region::begin();
        let done = (0..n).map(|_| block_on(ready(black_box(1)))).sum();
        region.end(done)
    });
}

fn switch_in_task(probe: &mut Probe) {
    time_task(probe, |n| async move {
        let region = Region::begin();
        let mut done = 0;
        for _ in 0..n {
            done += ready(black_box(1)).await;
        }
        region.end(done)
    });
}

fn switch_bare(probe: &mut Probe) {
    probe.time(|n| {
        let info = FiberInfo {
            name: None,
            spawned_at: Location::caller(),
            stack_size: DEFAULT_STACK_SIZE,
        };
        let body = move |suspender: &Suspender<(), u64>, ()| {
            (0..n).for_each(|_| suspender.suspend(black_box(1)));
        };
        let mut fiber = Fiber::new(info, body).expect("there is memory for a stack");
        let region = Region::begin();
        let mut done = 0;
        // SAFETY: resumed on this thread only, until it returns.
        while let FiberState::Suspended(one) = unsafe { fiber.resume(()) } {
            done += one;
        }
        region.end(done)
    });
}

fn spawn_join(probe: &mut Probe) {
    time_coroutine(probe, |n| {
        let region = Region::begin();
        let done = (0..n).map(|_| join(spawn(|| black_box(1)))).sum();
        region.end(done)
    });
}

fn spawn_join_task(probe: &mut Probe) {
    time_task(probe, |n| async move {
        let region = Region::begin();
        let mut done = 0;
        for _ in 0..n {
            let task = blitzen::spawn(async { black_box(1) });
            done += task.await.expect("tasks of a workload do not panic");
        }
        region.end(done)
    });
}

fn yield_one(probe: &mut Probe) {
    time_coroutine(probe, |n| {
        let region = Region::begin();
        region.end(yield_times(n))
    });
}

fn yield_one_task(probe: &mut Probe) {
    time_task(probe, |n| async move {
        let region = Region::begin();
        let mut done = 0;
        for _ in 0..n {
            blitzen::task::yield_now().await;
            done += 1;
        }
        region.end(done)
    });
}

fn yield_many(probe: &mut Probe) {
    time_coroutine(probe, |n| {
        let mut handles = Vec::with_capacity(YIELDING as usize);
        let region = Region::begin();
        handles.extend(split_evenly(n, YIELDING).map(|turns| spawn(move || yield_times(turns))));
        region.end(handles.into_iter().map(join).sum())
    });
}

#[derive(Default)]
struct Signals {
    ping: Signal,
    pong: Signal,
}

fn ping_pong(probe: &mut Probe) {
    time_coroutine(probe, |n| {
        let signals = Arc::new(Signals::default());
        let other = spawn({
            let signals = signals.clone();
            move || may::answer_pings(n, || block_on(signals.ping.wait()), || signals.pong.fire())
        });
        let fire_ping = || signals.ping.fire();
        may::time_pings(
            n,
            fire_ping,
            || block_on(signals.pong.wait()),
            || join(other),
        )
    });
}

fn memory(probe: &mut Probe) {
    let runtime = start(probe.workers());
    probe.derive_once(|n| {
        let signals: Arc<[Signal]> = (0..n).map(|_| Signal::default()).collect();
        let ended = Arc::new(Countdown::new(n));
        runtime
            .block_on(async { spawn(coro::yield_now).await })
            .expect("it ends");
        wait_until_others_sleep();
        let before = resident_bytes();
        runtime.block_on(async {
            for index in 0..n {
                let (signals, ended) = (signals.clone(), ended.clone());
                drop(spawn(move || {
                    block_on(signals[index as usize].wait());
                    ended.done(index);
                }));
            }
        });
        wait_until_others_sleep();
        let bytes = resident_bytes() - before;
        runtime.block_on(async {
            signals.iter().for_each(Signal::fire);
            ended.wait().await;
        });
        (Cost::of_count(n), bytes / n as f64)
    });
}
