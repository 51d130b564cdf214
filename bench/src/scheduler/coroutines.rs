//! The scheduler's workloads for may, whose tasks are coroutines and not futures.
//!
//! Each has the shape of its namesake in this group. What differs is may's own: a join
//! parks the coroutine that joins, and a coroutine has a stack.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use may::coroutine;

use crate::kit::{resident_bytes, split_evenly, wait_until_others_sleep};
use crate::probe::{Cost, Probe, Region};
use crate::rt::may::{Flag, join, run_inside, spawn, start};

/// A coroutine's stack takes two mappings, of which Linux allows a process 65,530: no more than
/// this many are alive at a time.
const ALIVE: u64 = 16_384;

fn spawn_then_join(n: u64) -> Cost {
    let mut handles = Vec::with_capacity(ALIVE as usize);
    let region = Region::begin();
    let mut done = 0;
    for spawned in (0..n).step_by(ALIVE as usize) {
        let portion = ALIVE.min(n - spawned);
        handles.extend((0..portion).map(|_| spawn(|| black_box(1))));
        done += handles.drain(..).map(join).sum::<u64>();
    }
    region.end(done)
}

pub(crate) fn spawn_outside(probe: &mut Probe) {
    start(probe.workers());
    probe.time(spawn_then_join);
}

pub(crate) fn spawn_inside(probe: &mut Probe) {
    start(probe.workers());
    probe.time(|n| run_inside(move || spawn_then_join(n)));
}

pub(crate) fn spawn_await_each(probe: &mut Probe) {
    start(probe.workers());
    probe.time(|n| {
        run_inside(move || {
            let region = Region::begin();
            let done = (0..n).map(|_| join(spawn(|| black_box(1)))).sum();
            region.end(done)
        })
    });
}

/// Yields that often; how often it came back.
fn yield_times(times: u64) -> u64 {
    let mut done = 0;
    for _ in 0..times {
        coroutine::yield_now();
        done += 1;
    }
    done
}

pub(crate) fn yield_many(probe: &mut Probe) {
    start(probe.workers());
    probe.time(|n| {
        let mut handles = Vec::with_capacity(super::yielding::TASKS as usize);
        let region = Region::begin();
        handles.extend(
            split_evenly(n, super::yielding::TASKS).map(|turns| spawn(move || yield_times(turns))),
        );
        let done = handles.into_iter().map(join).sum();
        region.end(done)
    });
}

pub(crate) fn yield_one(probe: &mut Probe) {
    start(probe.workers());
    probe.time(|n| {
        run_inside(move || {
            let region = Region::begin();
            region.end(yield_times(n))
        })
    });
}

#[derive(Default)]
struct Flags {
    ping: Flag,
    pong: Flag,
}

/// One side of a ping-pong of coroutines, with `n` wakes in all: waits, then wakes the other.
/// Returns how often it was woken.
pub(crate) fn answer_pings(n: u64, wait_ping: impl Fn(), fire_pong: impl Fn()) -> u64 {
    let mut trips = 0;
    for _ in 0..n / 2 {
        wait_ping();
        trips += 1;
        fire_pong();
    }
    trips
}

/// The other side, which is timed until it has joined the first.
pub(crate) fn time_pings(
    n: u64,
    fire_ping: impl Fn(),
    wait_pong: impl Fn(),
    join_other: impl FnOnce() -> u64,
) -> Cost {
    let region = Region::begin();
    let mut trips = n % 2; // half a round trip is not made
    for _ in 0..n / 2 {
        fire_ping();
        wait_pong();
        trips += 1;
    }
    trips += join_other();
    region.end(trips)
}

pub(crate) fn ping_pong_pair(probe: &mut Probe) {
    start(probe.workers());
    probe.time(|n| {
        run_inside(move || {
            let flags = Arc::new(Flags::default());
            let own = coroutine::current();
            let other = spawn({
                let flags = flags.clone();
                move || answer_pings(n, || flags.ping.wait(), || flags.pong.fire(&own))
            });
            let to_wake = other.coroutine().clone();
            let fire_ping = || flags.ping.fire(&to_wake);
            time_pings(n, fire_ping, || flags.pong.wait(), || join(other))
        })
    });
}

pub(crate) fn spawn_chain(probe: &mut Probe) {
    start(probe.workers());
    probe.time(|n| {
        run_inside(move || {
            let links = Arc::new(AtomicU64::new(0));
            let ended = Arc::new(Flag::default());
            let own = coroutine::current();
            let region = Region::begin();
            let mut left = n;
            while left > 0 {
                let depth = left.min(super::spawn::DEPTH);
                link(links.clone(), ended.clone(), own.clone(), depth);
                ended.wait();
                left -= depth;
            }
            // Each coroutine counts before it spawns the next, and the last fires.
            region.end(links.load(Relaxed))
        })
    });
}

fn link(links: Arc<AtomicU64>, ended: Arc<Flag>, first: coroutine::Coroutine, depth: u64) {
    drop(spawn(move || {
        links.fetch_add(1, Relaxed);
        match depth {
            1 => ended.fire(&first),
            _ => link(links, ended, first, depth - 1),
        }
    }));
}

pub(crate) fn memory(probe: &mut Probe) {
    start(probe.workers());
    probe.derive_once(|n| {
        let flags: Arc<[Flag]> = (0..n).map(|_| Flag::default()).collect();
        let mut handles = Vec::with_capacity(n as usize);
        join(spawn(coroutine::yield_now));
        wait_until_others_sleep();
        let before = resident_bytes();
        handles.extend((0..n as usize).map(|index| {
            let flags = flags.clone();
            spawn(move || flags[index].wait())
        }));
        wait_until_others_sleep();
        let bytes = resident_bytes() - before;
        for (flag, handle) in flags.iter().zip(&handles) {
            flag.fire(handle.coroutine());
        }
        handles.into_iter().for_each(join);
        (Cost::of_count(n), bytes / n as f64)
    });
}
