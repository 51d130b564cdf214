//! The stack of a poll that does not end: what it names, and what its signal leaves alone.

#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

mod lint_common;

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use blitzen::runtime::lint::{Lint, LintKind};
use blitzen::runtime::{Builder, Runtime};

use lint_common::{SLOW, find, linted};

fn sampled(mut builder: Builder) -> (Runtime, mpsc::Receiver<Lint>) {
    builder.stack_samples(true);
    linted(builder)
}

fn multi_thread() -> (Runtime, mpsc::Receiver<Lint>) {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1);
    sampled(builder)
}

/// Whether the C library has unwind tables: without them, a stack that begins in it ends there.
const UNWINDS_LIBC: bool = cfg!(not(target_env = "musl"));

/// Where a function is in a stack.
#[track_caller]
fn depth_of(lint: &Lint, function: &str) -> usize {
    let found = lint
        .stack()
        .iter()
        .position(|frame| frame.contains(function));
    found.unwrap_or_else(|| panic!("no {function}: {:#?}", lint.stack()))
}

/// Ends a loop when the test does, also by a panic: it is dropped before the runtime.
struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn ends() -> (Ends, Arc<AtomicBool>) {
    let ends = Arc::new(AtomicBool::new(false));
    (Ends(ends.clone()), ends)
}

#[inline(never)]
fn spins_for_long(ends: &AtomicBool) {
    while !black_box(ends).load(Relaxed) {
        spin_loop();
    }
}

#[inline(never)]
fn calls_what_spins(ends: &AtomicBool) {
    spins_for_long(ends);
    black_box(());
}

#[test]
fn the_functions_of_a_loop_are_named() {
    let (runtime, lints) = multi_thread();
    let (end, ends) = ends();
    let task = runtime.spawn(async move { calls_what_spins(&ends) });
    let lint = find(&lints, LintKind::SlowPoll);
    assert_eq!(lint.system_call(), None);
    assert!(depth_of(&lint, "spins_for_long") < depth_of(&lint, "calls_what_spins"));
    let outermost = lint.stack().last().unwrap();
    assert!(!outermost.contains("blitzen_task"), "{:#?}", lint.stack());
    drop(end);
    runtime.block_on(task).unwrap();
}

/// So long that the sample comes before its end on a busy machine too.
const SLEEP: Duration = Duration::from_secs(3);

#[inline(never)]
fn sleeps_for_long() {
    thread::sleep(SLEEP);
    black_box(());
}

#[test]
fn a_sleep_is_named_with_its_call_and_lasts_as_long_as_it_should() {
    let (runtime, lints) = multi_thread();
    let began = std::time::Instant::now();
    let task = runtime.spawn(async { sleeps_for_long() });
    let lint = find(&lints, LintKind::SlowPoll);
    assert_eq!(lint.system_call(), Some("clock_nanosleep"));
    if UNWINDS_LIBC {
        assert!(depth_of(&lint, "sleep") < depth_of(&lint, "sleeps_for_long"));
    }
    runtime.block_on(task).unwrap();
    assert!(began.elapsed() >= SLEEP);
}

#[inline(never)]
fn locks_for_long(lock: &Mutex<()>) {
    drop(lock.lock().unwrap());
    black_box(());
}

#[test]
fn a_lock_of_std_is_named_with_its_call() {
    let (runtime, lints) = multi_thread();
    let lock = Arc::new(Mutex::new(()));
    let held = lock.lock().unwrap();
    let task = runtime.spawn({
        let lock = lock.clone();
        async move { locks_for_long(&lock) }
    });
    let lint = find(&lints, LintKind::BlockingLock);
    assert_eq!(lint.system_call(), Some("futex"));
    if UNWINDS_LIBC {
        depth_of(&lint, "locks_for_long");
    }
    drop(held);
    runtime.block_on(task).unwrap();
}

#[test]
fn the_thread_of_a_current_thread_runtime_is_sampled_too() {
    let (runtime, lints) = sampled(Builder::new_current_thread());
    let (end, ends) = ends();
    let task = runtime.spawn(async move { spins_for_long(&ends) });
    let watch = thread::spawn(move || {
        let lint = find(&lints, LintKind::SlowPoll);
        drop(end);
        lint
    });
    runtime.block_on(task).unwrap();
    depth_of(&watch.join().unwrap(), "spins_for_long");
}

#[test]
fn nobody_is_interrupted_unless_asked() {
    let (found, lints) = mpsc::channel();
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .slow_poll(SLOW)
        .on_lint(move |lint| drop(found.send(lint.clone())))
        .build()
        .unwrap();
    let (release, wait) = mpsc::channel::<()>();
    let task = runtime.spawn(async move {
        let _ = wait.recv();
    });
    assert!(find(&lints, LintKind::BlockingLock).stack().is_empty());
    drop(release);
    runtime.block_on(task).unwrap();
}

static HANDLED: AtomicU32 = AtomicU32::new(0);

/// In a process of its own: what handles a signal belongs to all threads.
#[test]
fn a_handler_that_was_there_before_gets_its_own_signals_and_no_others() {
    const CHILD: &str = "BLITZEN_TEST_SIGURG";
    const NAME: &str = "a_handler_that_was_there_before_gets_its_own_signals_and_no_others";
    if std::env::var_os(CHILD).is_none() {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([NAME, "--exact", "--nocapture"])
            .env(CHILD, "1")
            .status();
        assert!(child.unwrap().success());
        return;
    }
    extern "C" fn handle(_signal: libc::c_int) {
        HANDLED.fetch_add(1, Relaxed);
    }
    // SAFETY: the handler only counts.
    unsafe { libc::signal(libc::SIGURG, handle as *const () as libc::sighandler_t) };
    let (runtime, lints) = multi_thread();
    let (end, ends) = ends();
    let task = runtime.spawn(async move { spins_for_long(&ends) });
    let lint = find(&lints, LintKind::SlowPoll);
    depth_of(&lint, "spins_for_long");
    assert_eq!(HANDLED.load(Relaxed), 0, "the sample's own");
    // SAFETY: sends a signal to the calling thread, which handles it before the call returns.
    unsafe { libc::raise(libc::SIGURG) };
    assert_eq!(HANDLED.load(Relaxed), 1);
    drop(end);
    runtime.block_on(task).unwrap();
}
