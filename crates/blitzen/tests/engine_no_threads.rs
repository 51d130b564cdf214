//! A runtime in a process that gets no more threads. Alone in its file: the refusal
//! holds for the whole process.

#![cfg(target_os = "linux")]

mod refuse;

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use blitzen::runtime::Builder;
use blitzen::task::{block_in_place, yield_now};
use blitzen::time::sleep;

const SHORT: Duration = Duration::from_millis(1);

struct CountDrop(Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn blocking_in_place_without_another_thread_cancels_nothing() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    let guard = CountDrop(dropped.clone());
    // The workers get their threads with the first task.
    let idle = runtime.spawn(async move {
        let _guard = guard;
        pending::<()>().await
    });
    refuse::refuse(&[libc::SYS_clone3, libc::SYS_clone], libc::EAGAIN);
    assert!(std::thread::Builder::new().spawn(|| ()).is_err());

    let sleeper = runtime.spawn(async { sleep(Duration::from_millis(20)).await });
    let blocked = (0..4).map(|_| {
        runtime.spawn(async {
            for _ in 0..10 {
                block_in_place(|| std::thread::sleep(SHORT));
                yield_now().await;
                sleep(SHORT).await;
            }
        })
    });
    let blocked: Vec<_> = blocked.collect();
    runtime.block_on(async {
        for task in blocked {
            task.await.unwrap();
        }
        sleeper.await.unwrap();
        blitzen::spawn(async { sleep(SHORT).await }).await.unwrap();
    });
    assert!(!idle.is_finished());
    assert_eq!(dropped.load(SeqCst), 0, "an idle task was cancelled");
    drop(runtime);
    assert_eq!(dropped.load(SeqCst), 1);
}
