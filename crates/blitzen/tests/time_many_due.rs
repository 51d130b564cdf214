//! A worker on which very many timers are due at once. The only test here: it counts the threads of
//! its process.
#![cfg(target_os = "linux")]

mod engine_common;

use std::time::Duration;

use blitzen::runtime::Builder;
use blitzen::time::{Instant, sleep_until};

use engine_common::must_end;

/// How many threads of this process have that name.
fn threads_named(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let comm = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    let names = tasks.filter_map(|task| comm(task.unwrap()));
    names.filter(|comm| comm.trim() == name).count()
}

#[test]
fn a_worker_that_fires_very_many_timers_is_helped_by_few_threads() {
    const TIMERS: usize = 200_000;
    must_end(|| {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let before = threads_named("blitzen-monitor");
        let most = runtime.block_on(async {
            let due = Instant::now() + Duration::from_secs(1);
            let sleeps: Vec<_> = (0..TIMERS)
                .map(|_| blitzen::spawn(sleep_until(due)))
                .collect();
            let mut most = 0;
            for sleep in sleeps {
                if !sleep.is_finished() {
                    most = most.max(threads_named("blitzen-monitor"));
                }
                sleep.await.unwrap();
            }
            most
        });
        // One that looks, two that stand by, and those that the machine has kept from running.
        let more = most.saturating_sub(before);
        assert!(more <= 16, "{more} threads serve the timers of two workers");
    });
}
