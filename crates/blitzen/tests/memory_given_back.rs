//! A burst of tasks does not pin memory: a runtime that is idle gives it back, and then sleeps.
//!
//! The memory is the process's, so these tests run one after another.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use blitzen::runtime::{Builder, Runtime};
use blitzen::sync::Notify;
use blitzen_task::kept_memory::has_surplus;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Sanitizer builds keep nothing.
const KEEPS_MEMORY: bool = cfg!(not(blitzen_no_recycle));

const TASKS: usize = 100_000;
const LONG: Duration = Duration::from_secs(60);

/// In which order tasks end.
#[derive(Clone, Copy)]
enum Order {
    OfSpawns,
    Mixed,
}

fn with_workers(workers: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers).build().unwrap()
}

/// Ends many tasks that were all alive at once, and that nobody joins: whoever ends a task frees it.
fn burst(runtime: &Runtime, order: Order) {
    // Made once: what the allocator keeps of it is not counted.
    static SIGNALS: OnceLock<Arc<[Notify]>> = OnceLock::new();
    let signals = SIGNALS.get_or_init(|| (0..TASKS).map(|_| Notify::new()).collect());
    for index in 0..TASKS {
        let signals = signals.clone();
        runtime.spawn(async move { signals[index].notified().await });
    }
    // A step that shares no factor with the number of tasks comes to each of them once.
    let step = match order {
        Order::OfSpawns => 1,
        Order::Mixed => 7_919,
    };
    runtime.block_on(async {
        for round in 0..TASKS {
            signals[round * step % TASKS].notify_one();
        }
        let metrics = runtime.metrics();
        while metrics.num_alive_tasks() > 0 {
            blitzen::task::yield_now().await;
        }
        // The last memory may have come back after the last worker had parked.
        blitzen::spawn(async {}).await.unwrap();
    });
}

/// The memory that the process has, in bytes.
#[cfg(target_os = "linux")]
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages = statm.split_whitespace().nth(1).unwrap();
    pages.parse::<usize>().unwrap() * blitzen_util::pages::page_bytes()
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
    let runtime = with_workers(2);
    for order in [Order::OfSpawns, Order::Mixed] {
        burst(&runtime, order);
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
    burst(&runtime, Order::OfSpawns);
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
    burst(&runtime, Order::OfSpawns);
    drop(runtime);
    assert_eq!(has_surplus(), KEEPS_MEMORY);
    let next = with_workers(1);
    next.block_on(async { blitzen::spawn(async {}).await.unwrap() });
    wait_until_given_back();
}

#[cfg(target_os = "linux")]
#[test]
fn bursts_leave_little_behind_in_whatever_order_tasks_end() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = with_workers(2);
    let mut before = None;
    for order in [Order::OfSpawns, Order::Mixed, Order::OfSpawns, Order::Mixed] {
        burst(&runtime, order);
        wait_until_given_back();
        let now = resident_bytes();
        // The first burst has left what the allocator keeps of everything else.
        let first = *before.get_or_insert(now);
        assert!(
            !KEEPS_MEMORY || now < first + (6 << 20),
            "{first} bytes, then {now}"
        );
    }
}
