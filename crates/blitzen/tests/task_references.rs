//! The count of a task's references has a limit, and a process that reaches it says so.

use std::future::poll_fn;
use std::process::Command;
use std::task::Poll;

const CHILD: &str = "BLITZEN_TEST_TOO_MANY_WAKERS";

#[test]
fn a_process_that_leaks_millions_of_wakers_of_a_task_ends_with_a_message() {
    if std::env::var_os(CHILD).is_some() {
        leak_wakers();
        return;
    }
    let this = std::env::current_exe().unwrap();
    let child = Command::new(this)
        .args(["--exact", "--nocapture"])
        .arg("a_process_that_leaks_millions_of_wakers_of_a_task_ends_with_a_message")
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(!child.status.success(), "{said}");
    assert!(
        said.contains("blitzen: a task has more than 8388607 references"),
        "{said}"
    );
    assert!(said.contains("wakers"), "{said}");
}

fn leak_wakers() {
    let runtime = blitzen::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let task = runtime.spawn(poll_fn(|cx| {
        for _ in 0..9_000_000 {
            std::mem::forget(cx.waker().clone());
        }
        Poll::Ready(())
    }));
    let _ = runtime.block_on(task);
}
