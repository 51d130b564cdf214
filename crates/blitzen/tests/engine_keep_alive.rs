//! Threads for blocking work go home when they have had none for a while, and
//! whoever keeps the time for them goes with them.

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use blitzen::runtime::Builder;
use blitzen::task::spawn_blocking;

const AT_ONCE: usize = 3;

/// The names of this process's threads.
#[cfg(target_os = "linux")]
fn threads_named(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
    // A thread may end between the listing and the look.
    names.flatten().filter(|comm| comm.trim() == name).count()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < give_up, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Has several threads hired, waits until they are gone, and does it again.
fn hire_and_wait(keep_alive: Duration) {
    for mut builder in [Builder::new_multi_thread(), Builder::new_current_thread()] {
        let runtime = builder.thread_keep_alive(keep_alive).build().unwrap();
        for _ in 0..2 {
            let together = Arc::new(Barrier::new(AT_ONCE));
            let jobs: Vec<_> = (0..AT_ONCE)
                .map(|_| {
                    let together = together.clone();
                    let _inside = runtime.enter();
                    spawn_blocking(move || together.wait())
                })
                .collect();
            for job in jobs {
                runtime.block_on(job).unwrap();
            }
            let metrics = runtime.metrics();
            wait_until("idle threads stay", || metrics.num_blocking_threads() == 0);
            assert_eq!(metrics.num_idle_blocking_threads(), 0);
        }
    }
}

#[test]
fn idle_threads_end_after_the_keep_alive_and_are_started_again_for_work() {
    // Once on their own, once sent by somebody who keeps the time.
    hire_and_wait(Duration::from_millis(5));
    hire_and_wait(Duration::from_millis(200));
    #[cfg(target_os = "linux")]
    wait_until("the reaper stays", || threads_named("blitzen-reaper") == 0);

    let runtime = Builder::new_current_thread().build().unwrap();
    let job = runtime.block_on(async { spawn_blocking(|| ()).await });
    job.unwrap();
    let metrics = runtime.metrics();
    wait_until("nobody rests", || metrics.num_idle_blocking_threads() == 1);
    #[cfg(target_os = "linux")]
    wait_until("nobody keeps the time", || {
        threads_named("blitzen-reaper") == 1
    });
    // It would sleep for seconds.
    drop(runtime);
    #[cfg(target_os = "linux")]
    assert_eq!(threads_named("blitzen-reaper"), 0);
}
