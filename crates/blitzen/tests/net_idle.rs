//! A runtime whose sockets are quiet makes no system calls, even if a moment ago
//! they were so busy that its workers looked for events instead of sleeping.
#![cfg(target_os = "linux")]

mod net_common;

use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc;
use std::time::Duration;

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use blitzen::runtime::{Builder, Runtime};
use net_common::tcp_pair;

/// Threads of the runtimes here, and nobody else's.
const NAME: &str = "net-idle-probe";

/// How long each of the threads has run, and how often it was switched to.
fn activity() -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for thread in fs::read_dir("/proc/self/task").unwrap() {
        let path = thread.unwrap().path();
        // A thread may end between the listing and the look.
        let read = |file: &str| fs::read_to_string(path.join(file)).unwrap_or_default();
        if read("comm").trim() == NAME {
            all.insert(path.display().to_string(), read("schedstat"));
        }
    }
    all
}

/// One quiet stretch is enough: a thread that looked again and again, or woke by
/// itself, would have none.
fn expect_quiet(threads: usize) {
    for _ in 0..60 {
        let before = activity();
        assert!(before.len() >= threads, "{before:?}");
        std::thread::sleep(Duration::from_millis(200));
        if activity() == before {
            return;
        }
    }
    panic!("a worker does not come to rest: {:?}", activity());
}

/// Echoes as fast as can be, and then says nothing more.
async fn chat_and_fall_silent(silent: mpsc::Sender<()>) {
    let (mut one, mut other) = tcp_pair().await.unwrap();
    let echo = blitzen::spawn(async move {
        let mut byte = [0];
        while other.read(&mut byte).await.unwrap() > 0 {
            other.write_all(&byte).await.unwrap();
        }
    });
    for _ in 0..500 {
        one.write_all(b"x").await.unwrap();
        one.read_exact(&mut [0]).await.unwrap();
    }
    silent.send(()).unwrap();
    // For good: nobody sends any more.
    let _ = one.read(&mut [0]).await;
    drop(echo);
}

#[test]
fn quiet_sockets_leave_every_flavour_of_runtime_at_rest() {
    let many = Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name(NAME)
        .enable_all()
        .build()
        .unwrap();
    let (silent, is_silent) = mpsc::channel();
    many.spawn(chat_and_fall_silent(silent));
    is_silent.recv().unwrap();
    expect_quiet(2);
    drop(many);

    // Its thread stays in `block_on` until the process ends.
    let (silent, is_silent) = mpsc::channel();
    let one: Runtime = net_common::one_thread();
    std::thread::Builder::new()
        .name(NAME.into())
        .spawn(move || one.block_on(chat_and_fall_silent(silent)))
        .unwrap();
    is_silent.recv().unwrap();
    expect_quiet(1);
}
