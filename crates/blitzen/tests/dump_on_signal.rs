//! `Builder::dump_on`: a process that is stuck tells what its tasks do.

#![cfg(unix)]

use std::future::pending;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use blitzen::runtime::Builder;
use blitzen::signal::unix::SignalKind;

/// Set for the process that is to be stuck.
const CHILD: &str = "BLITZEN_TEST_DUMP_CHILD";

/// All workers are blocked for good, and so is the main thread.
fn be_stuck() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .name("stuck")
        .dump_on(SignalKind::user_defined1())
        .build()
        .unwrap();
    let (begun, beginning) = mpsc::channel();
    let (_release, wait) = mpsc::channel::<()>();
    runtime.spawn(pending::<()>());
    runtime.spawn(async move {
        begun.send(()).unwrap();
        let _ = wait.recv();
    });
    beginning.recv().unwrap();
    println!("stuck");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_stuck_process_writes_its_tasks_for_each_signal() {
    if std::env::var_os(CHILD).is_some() {
        be_stuck();
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("a_stuck_process_writes_its_tasks_for_each_signal")
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    assert!(output.lines().any(|line| line.unwrap().contains("stuck")));
    let errors = BufReader::new(child.stderr.take().unwrap());
    let mut lines = errors.lines().map(Result::unwrap);
    for _ in 0..2 {
        // SAFETY: our own child, which has not been waited for.
        unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGUSR1) };
        let title = lines.find(|line| line.starts_with("blitzen:")).unwrap();
        assert_eq!(title, "blitzen: runtime stuck: 2 tasks");
        let tasks: Vec<_> = lines.by_ref().take(2).collect();
        assert!(
            tasks.iter().all(|line| line.contains("dump_on_signal.rs")),
            "{tasks:?}"
        );
        assert!(
            tasks.iter().any(|line| line.contains(" running ")),
            "{tasks:?}"
        );
        assert!(
            tasks.iter().any(|line| line.contains(" idle ")),
            "{tasks:?}"
        );
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_signal_that_cannot_be_handled_is_refused() {
    let kill = SignalKind::from_raw(libc::SIGKILL);
    let error = Builder::new_current_thread()
        .dump_on(kill)
        .build()
        .unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn a_signal_after_the_end_of_the_runtime_writes_nothing_and_ends_nobody() {
    let runtime = Builder::new_current_thread()
        .dump_on(SignalKind::user_defined2())
        .build()
        .unwrap();
    drop(runtime);
    // SAFETY: the registry keeps its handler for the signal, without an action.
    unsafe { libc::raise(libc::SIGUSR2) };
}
