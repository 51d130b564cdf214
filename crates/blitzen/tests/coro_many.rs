//! A hundred thousand coroutines at once, and what they cost.
//!
//! In a program of its own: it measures the memory of its process.

#![cfg(all(target_os = "linux", not(blitzen_baton)))]

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use blitzen::coro::{self, block_on};
use blitzen::runtime::Builder;
use blitzen::sync::{Notify, Semaphore};

const COUNT: usize = 100_000;

/// How many coroutines there can be. If a stack takes mappings, there are at most about half as
/// many stacks as mappings.
fn count(stacks_take_mappings: bool) -> usize {
    match stacks_take_mappings {
        // A gigabyte of addresses, of the three or four that there are.
        _ if cfg!(target_pointer_width = "32") => 4000,
        false => COUNT,
        true => 20_000,
    }
}

/// The number of mappings of this process.
fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().count()
}

/// Starts `count` coroutines, calls `look` when they all wait, and lets them end.
async fn with_waiting<T>(count: usize, look: impl FnOnce() -> T) -> T {
    let (waiting, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let all_wait = Arc::new(Notify::new());
    let coroutines: Vec<_> = (0..count)
        .map(|_| {
            let (waiting, gate) = (waiting.clone(), gate.clone());
            let all_wait = all_wait.clone();
            // SAFETY: nothing relies on nested calls.
            unsafe {
                coro::spawn(move || {
                    if waiting.fetch_add(1, SeqCst) + 1 == count {
                        all_wait.notify_one();
                    }
                    block_on(gate.acquire()).unwrap().forget();
                })
            }
        })
        .collect();
    all_wait.notified().await;
    let seen = look();
    gate.add_permits(count);
    for coroutine in coroutines {
        coroutine.await.unwrap();
    }
    seen
}

/// The resident memory of this process, in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn a_hundred_thousand_coroutines_wait_at_once_in_little_memory() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(async {
        const SOME: usize = 100;
        let before = mappings();
        let added = with_waiting(SOME, || mappings().saturating_sub(before)).await;
        let count = count(added >= SOME);

        let before = resident();
        let each = with_waiting(count, || (resident() - before) / count).await;
        // A sanitizer adds to it, and a build without optimisation has large frames.
        if !cfg!(any(blitzen_no_recycle, debug_assertions)) {
            assert!(each <= 8 * 1024, "{each} bytes each");
        }
    });
}
