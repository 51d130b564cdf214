//! A coroutine that runs out of its stack ends the process, with a message that says which.

#![cfg(not(blitzen_baton))]

use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use blitzen::coro;
use blitzen::runtime::Builder;

/// Set in the process that is to end.
const CHILD: &str = "BLITZEN_TEST_OVERFLOW";

/// Runs this program again, with only the named test in it.
fn run_again(test: &str) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .unwrap()
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

#[allow(unconditional_recursion)]
fn recurse(depth: usize) -> usize {
    let block = black_box([depth; 64]);
    recurse(depth + 1) + black_box(block)[depth % 64]
}

fn overflow(builder: coro::Builder, is_multi_thread: bool) {
    let runtime = match is_multi_thread {
        true => Builder::new_multi_thread().worker_threads(1).build(),
        false => Builder::new_current_thread().build(),
    };
    runtime.unwrap().block_on(async {
        // SAFETY: nothing relies on nested calls.
        let coroutine = unsafe {
            builder.spawn(|| {
                coro::yield_now();
                recurse(0)
            })
        };
        let _ = coroutine.await;
    });
}

fn assert_reported(output: &Output, parts: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{said}");
    for part in parts {
        assert!(said.contains(part), "{part:?} is missing: {said}");
    }
}

#[test]
fn an_overflow_names_the_coroutine_its_line_and_its_stack() {
    if is_child() {
        return overflow(coro::Builder::new().name("import"), true);
    }
    let output = run_again("an_overflow_names_the_coroutine_its_line_and_its_stack");
    let parts = [
        "coroutine 'import', spawned at ",
        "coro_overflow.rs:",
        "has overflowed its stack of 262144 bytes",
    ];
    assert_reported(&output, &parts);
}

#[test]
fn an_overflow_of_an_unnamed_coroutine_is_reported_too() {
    if is_child() {
        return overflow(coro::Builder::new().stack_size(100_000), false);
    }
    let output = run_again("an_overflow_of_an_unnamed_coroutine_is_reported_too");
    assert_reported(&output, &["coroutine '<unnamed>'", "stack of 102400 bytes"]);
}

/// A coroutine that blocks its thread, which runs another one meanwhile, and polls the future of that
/// one on the stack of the first.
fn overflow_of_a_stack_that_serves() {
    use blitzen::channel::oneshot;

    let runtime = Builder::new_multi_thread().worker_threads(1).build();
    runtime.unwrap().block_on(async {
        let (start, is_started) = oneshot::channel::<()>();
        let (wait, waits) = oneshot::channel::<()>();
        let (_never, ended) = oneshot::channel::<()>();
        // SAFETY: nothing relies on nested calls.
        let served = unsafe {
            coro::Builder::new().name("served").spawn(move || {
                wait.send(()).unwrap();
                coro::block_on(is_started).unwrap();
                coro::block_on(async { recurse(0) })
            })
        };
        waits.await.unwrap();
        let blocker = coro::Builder::new().name("blocker").stack_size(100_000);
        // SAFETY: as above.
        let blocker = unsafe {
            blocker.spawn(move || {
                start.send(()).unwrap();
                blitzen::task::block_in_place(|| coro::block_on(ended))
            })
        };
        let _ = (served.await, blocker.await);
    });
}

#[test]
fn an_overflow_names_the_coroutine_whose_stack_it_was() {
    if is_child() {
        return overflow_of_a_stack_that_serves();
    }
    let output = run_again("an_overflow_names_the_coroutine_whose_stack_it_was");
    assert_reported(&output, &["coroutine 'blocker'", "stack of 102400 bytes"]);
}

// The address sanitizer's handler has a message of its own.
#[cfg(not(blitzen_asan))]
#[test]
fn other_faults_go_to_the_handler_that_was_there_before() {
    if is_child() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build();
        return runtime.unwrap().block_on(async {
            // SAFETY: nothing relies on nested calls.
            let ended = unsafe { coro::spawn(|| ()) };
            ended.await.unwrap();
            // On the stack of a thread: the message is the standard library's.
            let thread = std::thread::Builder::new().name("too deep".into());
            let _ = thread.spawn(|| recurse(0)).unwrap().join();
        });
    }
    let output = run_again("other_faults_go_to_the_handler_that_was_there_before");
    assert_reported(&output, &["thread 'too deep'", "has overflowed its stack"]);
}
