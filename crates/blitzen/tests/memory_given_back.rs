//! A burst of tasks does not pin memory: a runtime that is idle gives it back, and then sleeps.
//!
//! The memory is the process's, so these tests run one after another.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use blitzen::runtime::{Builder, Runtime};
use blitzen::sync::Semaphore;
use blitzen_task::kept_memory::has_surplus;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Sanitizer builds keep nothing.
const KEEPS_MEMORY: bool = cfg!(not(blitzen_no_recycle));

const TASKS: usize = 50_000;
const LONG: Duration = Duration::from_secs(60);

/// Ends many tasks that were all alive at once.
fn burst(runtime: &Runtime) {
    static PERMITS: Semaphore = Semaphore::const_new(0);
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| runtime.spawn(async { PERMITS.acquire().await.unwrap().forget() }))
        .collect();
    runtime.block_on(async {
        PERMITS.add_permits(TASKS);
        for task in tasks {
            task.await.unwrap();
        }
        // A worker parks after this, if none did after the last task.
        blitzen::spawn(async {}).await.unwrap();
    });
}

fn wait_until_given_back() {
    let deadline = Instant::now() + LONG;
    while has_surplus() {
        assert!(Instant::now() < deadline, "nobody gives memory back");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_idle_runtime_gives_memory_back() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    for _ in 0..2 {
        burst(&runtime);
        assert_eq!(has_surplus(), KEEPS_MEMORY);
        wait_until_given_back();
    }
    let parks = || {
        (0..2)
            .map(|worker| runtime.metrics().worker_park_count(worker))
            .sum::<u64>()
    };
    // Within the wait that saw the last of the surplus, if it was another one's.
    let deadline = Instant::now() + LONG;
    let mut seen = None;
    while seen.replace(parks()) != Some(parks()) {
        assert!(Instant::now() < deadline, "it does not sleep for good");
        thread::sleep(Duration::from_millis(300));
    }
}

#[test]
fn a_current_thread_runtime_gives_memory_back_while_it_waits() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    burst(&runtime);
    assert_eq!(has_surplus(), KEEPS_MEMORY);
    let deadline = Instant::now() + LONG;
    runtime.block_on(async {
        while has_surplus() {
            assert!(Instant::now() < deadline, "nobody gives memory back");
            blitzen::time::sleep(Duration::from_millis(150)).await;
        }
    });
}

#[test]
fn what_a_runtime_leaves_the_next_one_uses_or_gives_back() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = Builder::new_current_thread().build().unwrap();
    burst(&runtime);
    drop(runtime);
    assert_eq!(has_surplus(), KEEPS_MEMORY);
    let next = Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    next.block_on(async { blitzen::spawn(async {}).await.unwrap() });
    wait_until_given_back();
}
