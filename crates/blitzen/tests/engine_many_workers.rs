//! As many workers as anybody wants.

use std::collections::HashSet;
use std::sync::{Arc, Barrier, Mutex};

use blitzen::runtime::Builder;

#[test]
fn a_thousand_and_twenty_four_workers_start_and_run() {
    const WORKERS: usize = 1024;
    let runtime = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_stack_size(128 << 10)
        .build()
        .unwrap();
    // Each task holds its worker until all of them are held.
    let barrier = Arc::new(Barrier::new(WORKERS));
    let seen = Arc::new(Mutex::new(HashSet::new()));
    let tasks: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (barrier, seen) = (barrier.clone(), seen.clone());
            runtime.spawn(async move {
                barrier.wait();
                let index = blitzen::runtime::worker_index().unwrap();
                seen.lock().unwrap().insert(index);
            })
        })
        .collect();
    runtime.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(seen.lock().unwrap().len(), WORKERS);
}
