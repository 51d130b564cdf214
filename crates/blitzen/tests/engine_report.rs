//! What a program learns about the runtime that it runs on: `engine()` and `BLITZEN_LOG`.

use std::process::{Command, Output};

use blitzen::net::SocketMode;
use blitzen::runtime::{Builder, IoBackend, LocalOptions};

const CHILD: &str = "BLITZEN_TEST_REPORT";

/// The child's part; nothing to do otherwise. Builds three runtimes of different kinds and
/// prints the line of each to standard output.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let multi = Builder::new_multi_thread().worker_threads(3).build();
    println!("{}", multi.unwrap().block_on(async { blitzen::engine() }));
    let current = Builder::new_current_thread().build();
    println!("{}", current.unwrap().block_on(async { blitzen::engine() }));
    let local = Builder::new_current_thread().build_local(LocalOptions::default());
    println!("{}", local.unwrap().block_on(async { blitzen::engine() }));
    println!("{}", blitzen::engine());
}

fn run_child(variables: &[(&str, &str)]) -> Output {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture"])
        .env(CHILD, "1")
        .env("TOKIO_WORKER_THREADS", "5")
        .env_remove("BLITZEN_IO")
        .env_remove("BLITZEN_SOCKETS")
        .env_remove("BLITZEN_LOG")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

/// The lines about runtimes, as the harness prints lines of its own.
fn reports(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let is_report = |line: &&str| line.contains(": ") && line.contains(" worker");
    text.lines().filter(is_report).map(str::to_owned).collect()
}

#[test]
fn with_the_variable_each_new_runtime_prints_exactly_its_line() {
    let output = run_child(&[("BLITZEN_LOG", "1"), ("BLITZEN_IO", "epoll")]);
    let version = env!("CARGO_PKG_VERSION");
    let expected = |workers: &str| {
        let kind = match () {
            _ if cfg!(blitzen_poll) => "poll",
            _ if cfg!(windows) => "IOCP",
            _ => "epoll",
        };
        format!("blitzen {version}: {kind}, sockets by readiness, {workers}")
    };
    if cfg!(target_os = "linux") {
        let lines = [
            expected("3 workers"),
            expected("1 worker"),
            expected("1 worker"),
        ];
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            lines.join("\n") + "\n"
        );
        let outside = [&lines[..], &[expected("5 workers")]].concat();
        assert_eq!(reports(&output.stdout), outside);
    } else {
        assert_eq!(reports(&output.stderr).len(), 3);
    }
}

#[test]
fn without_the_variable_or_with_zero_nothing_is_printed() {
    assert!(run_child(&[]).stderr.is_empty());
    assert!(run_child(&[("BLITZEN_LOG", "0")]).stderr.is_empty());
}

#[test]
fn a_runtime_reports_what_it_uses_and_not_what_was_preferred() {
    let prefer = SocketMode::PreferCompletion;
    let mut builder = Builder::new_current_thread();
    let runtime = builder
        .io_backend(IoBackend::Epoll)
        .socket_mode(prefer)
        .build();
    let engine = runtime.unwrap().block_on(async { blitzen::engine() });
    assert_eq!(engine.io_backend(), IoBackend::Epoll);
    assert_eq!(engine.socket_mode(), SocketMode::Readiness);

    let mut builder = Builder::new_current_thread();
    let runtime = builder
        .io_backend(IoBackend::Auto)
        .socket_mode(prefer)
        .build();
    let engine = runtime.unwrap().block_on(async { blitzen::engine() });
    let has_ring = Builder::new_current_thread()
        .io_backend(IoBackend::Uring)
        .build()
        .is_ok();
    let expected = match has_ring {
        true => (IoBackend::Uring, SocketMode::Completion),
        false => (IoBackend::Epoll, SocketMode::Readiness),
    };
    assert_eq!((engine.io_backend(), engine.socket_mode()), expected);
}

#[test]
fn outside_a_runtime_a_variable_that_no_runtime_accepts_is_a_panic() {
    const REFUSED: &str = "BLITZEN_TEST_REPORT_REFUSED";
    if std::env::var_os(REFUSED).is_some() {
        blitzen::engine();
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["outside_a_runtime", "--nocapture"])
        .env(REFUSED, "1")
        .env("BLITZEN_IO", "kqueue")
        .output()
        .unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.contains("no runtime can be built: BLITZEN_IO must be"),
        "{text}"
    );
}
