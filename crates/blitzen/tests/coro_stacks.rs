//! The stacks of coroutines as the metrics count them.
//!
//! In a program of its own: the counts are those of the process.

#![cfg(not(any(blitzen_baton, blitzen_no_recycle)))]

mod coro_common;

use std::sync::Arc;
use std::thread;

use blitzen::coro::{self, block_on};
use blitzen::runtime::Runtime;
use blitzen::sync::Semaphore;

use coro_common::{current, multi, spawn};

/// Has `count` coroutines wait at once, checks what is counted meanwhile, and lets them end.
fn run_at_once(runtime: &Runtime, count: usize) {
    let (started, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let metrics = runtime.metrics();
    runtime.block_on(async {
        let coroutines: Vec<_> = (0..count)
            .map(|_| {
                let (started, gate) = (started.clone(), gate.clone());
                spawn(move || {
                    started.add_permits(1);
                    block_on(gate.acquire()).unwrap().forget();
                })
            })
            .collect();
        started.acquire_many(count as u32).await.unwrap().forget();
        assert_eq!(metrics.coroutine_stacks_live(), count as u64);
        assert!(metrics.coroutine_stacks_created() >= count as u64);
        gate.add_permits(count);
        for coroutine in coroutines {
            coroutine.await.unwrap();
        }
    });
    while metrics.coroutine_stacks_live() > 0 {
        thread::yield_now(); // until the last one has given its stack back
    }
}

#[test]
fn stacks_are_counted_and_used_again_and_given_back_by_threads_that_do_nothing() {
    let runtime = multi(1);
    let metrics = runtime.metrics();
    run_at_once(&runtime, 300);
    let created = metrics.coroutine_stacks_created();
    runtime.block_on(async { spawn(coro::yield_now).await.unwrap() });
    assert_eq!(metrics.coroutine_stacks_created(), created);
    // The worker looks after them, although it has nothing to do.
    while metrics.coroutine_stacks_cached() > 64 {
        thread::yield_now();
    }
    drop(runtime);
    assert_eq!(metrics.coroutine_stacks_cached(), 0, "its thread has ended");

    let runtime = current();
    run_at_once(&runtime, 300);
    // So does its thread for coroutines.
    while metrics.coroutine_stacks_cached() > 64 {
        thread::yield_now();
    }
}
