//! A runtime with nothing to do sleeps, and nothing wakes it.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use blitzen::runtime::Builder;
use blitzen_util::asymmetric_fence;

/// How often each thread with one of these names was switched to.
fn switches(names: &[&str]) -> BTreeMap<u32, u64> {
    let mut counts = BTreeMap::new();
    for thread in fs::read_dir("/proc/self/task").unwrap() {
        let thread = thread.unwrap();
        // A thread may end between the listing and the look.
        let Ok(status) = fs::read_to_string(thread.path().join("status")) else {
            continue;
        };
        let field = |key: &str| {
            let line = status.lines().find(|line| line.starts_with(key));
            line.and_then(|line| line.split_whitespace().nth(1))
                .unwrap_or("")
                .to_owned()
        };
        if names.contains(&&*field("Name:")) {
            let id = thread.file_name().to_str().unwrap().parse().unwrap();
            let count = |key| field(key).parse::<u64>().unwrap();
            let total = count("voluntary_ctxt_switches:") + count("nonvoluntary_ctxt_switches:");
            counts.insert(id, total);
        }
    }
    counts
}

#[test]
fn an_idle_runtime_is_never_switched_to() {
    const NAME: &str = "idle-probe";
    let all = [NAME, "blitzen-monitor", "blitzen-reaper"];
    let runtime = Builder::new_multi_thread()
        .worker_threads(4)
        .thread_name(NAME)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        for _ in 0..100 {
            blitzen::spawn(async { blitzen::task::yield_now().await })
                .await
                .unwrap();
        }
        blitzen::task::spawn_blocking(|| ()).await.unwrap();
    });
    // It takes a moment until the monitor has parked as well, and longer
    // on a busy machine. One quiet stretch is enough: a thread that
    // polled on a timer would have none. A blocking thread ends after 10 s, and
    // with it whoever keeps the time for it.
    for _ in 0..60 {
        let before = switches(&all);
        std::thread::sleep(Duration::from_millis(300));
        // Threads name themselves, a moment after they have been started.
        if before.len() > 4 && switches(&all) == before {
            return;
        }
    }
    panic!("a worker keeps waking: {:?}", switches(&all));
}

/// The kernel is told by a thread of its own, or by the one that builds the first runtime.
#[test]
fn a_runtime_with_threads_makes_locks_cheap_to_release() {
    const QUERY: i32 = 0;
    const PRIVATE_EXPEDITED: libc::c_long = 1 << 3;
    // SAFETY: takes numbers only.
    let commands = unsafe { libc::syscall(libc::SYS_membarrier, QUERY, 0, 0) };
    if commands < 0 || commands & PRIVATE_EXPEDITED == 0 {
        println!("not tested: this system has no membarrier");
        return;
    }
    let runtime = Builder::new_multi_thread().build().unwrap();
    runtime.block_on(async { blitzen::spawn(async {}).await.unwrap() });
    drop(runtime);
    let give_up = Instant::now() + Duration::from_secs(20);
    while !asymmetric_fence::is_prepared() {
        assert!(Instant::now() < give_up, "nobody tells the kernel");
        std::thread::yield_now();
    }
}
