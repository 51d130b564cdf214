//! The environment variables that make a program show its insides: each runs a program in a child.

use std::future::pending;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use blitzen::runtime::{Builder, Runtime, TraceMode};
use blitzen::task::{self, yield_now};

mod observe_common;
use observe_common::Decoded;

/// Tells a child which of the programs below it is to run.
const PROGRAM: &str = "BLITZEN_TEST_PROGRAM";

/// So many polls that a small ring does not have room for them.
const POLLS: usize = 20_000;

fn current_thread() -> Builder {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().trace_buffer(16 << 10);
    builder
}

/// Makes many polls; prints how much is recorded of them.
fn print_recorded(runtime: &Runtime) {
    runtime.block_on(async {
        let busy = task::Builder::new().name("busy").spawn(async {
            for _ in 0..POLLS {
                yield_now().await;
            }
        });
        busy.unwrap().await.unwrap();
    });
    let trace = runtime.handle().trace();
    let left_out = Decoded::of(&trace).instants_named("not recorded");
    println!("recorded: {}", !trace.is_empty());
    println!("left out: {}", !left_out.is_empty());
}

/// The child's part; nothing to do otherwise.
#[test]
fn child() {
    match std::env::var(PROGRAM).as_deref() {
        Err(_) => {}
        Ok("busy") => print_recorded(&current_thread().build().unwrap()),
        Ok("off in the builder") => {
            print_recorded(&current_thread().trace(TraceMode::Off).build().unwrap());
        }
        Ok("lost waker") => {
            // Until the line is on standard error, which the parent reads.
            let runtime = Builder::new_multi_thread().build().unwrap();
            let _lost = runtime.spawn(pending::<()>());
            println!("spawned");
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
        Ok("lock") => print_owner(),
        Ok("one task") => {
            let runtime = current_thread().build().unwrap();
            runtime.block_on(async {
                let task = task::Builder::new().name("logged").spawn(yield_now());
                task.unwrap().await.unwrap();
            });
        }
        Ok(other) => panic!("{other}"),
    }
}

/// Prints whether it is known who holds a lock.
fn print_owner() {
    let runtime = Builder::new_multi_thread().build().unwrap();
    let lock = Arc::new(blitzen::sync::Mutex::new(()));
    let (locked, is_locked) = std::sync::mpsc::channel();
    let holder = runtime.spawn({
        let lock = lock.clone();
        async move {
            let _guard = lock.lock().await;
            locked.send(()).unwrap();
            pending::<()>().await;
        }
    });
    is_locked.recv().unwrap();
    let waiter = runtime.spawn(async move { drop(lock.lock().await) });
    let wait = loop {
        let tasks = runtime.handle().tasks();
        match tasks.get(waiter.id()).and_then(|task| task.wait().cloned()) {
            Some(wait) => break wait,
            None => thread::yield_now(),
        }
    };
    println!("owner known: {}", wait.owner() == Some(holder.id()));
}

fn command(program: &str, variable: &str, value: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["child", "--exact", "--nocapture"])
        .env_remove("BLITZEN_TRACE")
        .env_remove("BLITZEN_LOG")
        .env(PROGRAM, program)
        .env(variable, value);
    command
}

/// What a program prints, and what it writes to standard error.
fn run(program: &str, variable: &str, value: &str) -> (String, String) {
    let output = command(program, variable, value).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

#[test]
fn blitzen_trace_names_the_mode_unless_the_builder_does() {
    for (program, value, recorded, left_out) in [
        ("busy", "off", false, false),
        ("busy", "sampled", true, true),
        ("busy", "full", true, false),
        ("off in the builder", "full", false, false),
    ] {
        let (printed, _) = run(program, "BLITZEN_TRACE", value);
        let expected = [
            format!("recorded: {recorded}\n"),
            format!("left out: {left_out}\n"),
        ];
        for line in expected {
            assert!(printed.contains(&line), "{program}, {value}: {printed}");
        }
    }
}

#[test]
fn blitzen_lints_writes_lints_to_standard_error() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    let mut child = command("lost waker", "BLITZEN_LINTS", "stderr")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // Others may come on a machine that is slow.
    let lint = lines
        .find_map(|line| line.ok().filter(|line| line.contains("lost waker: ")))
        .expect("the lint is written");
    assert!(lint.contains("observe_environment.rs"), "{lint}");
    drop(child.stdin.take()); // which ends it
    assert!(child.wait().unwrap().success());
}

#[test]
#[cfg_attr(
    target_pointer_width = "32",
    ignore = "a word has no room for what is awaited"
)]
fn blitzen_locks_makes_locks_note_their_owner() {
    let (printed, _) = run("lock", "BLITZEN_LOCKS", "1");
    assert!(printed.contains("owner known: true"), "{printed}");
    let (printed, _) = run("lock", "BLITZEN_LOCKS", "0");
    assert!(printed.contains("owner known: false"), "{printed}");
}

#[test]
fn blitzen_log_writes_every_event_to_standard_error() {
    let (_, said) = run("one task", "BLITZEN_LOG", "debug");
    let lines: Vec<_> = said.lines().collect();
    assert!(lines[0].contains(", 1 worker"), "what it runs on: {said}");
    assert!(
        lines[1..].iter().all(|line| line.starts_with("blitzen: ")),
        "{said}"
    );
    let position = |what: &str| {
        let found = lines.iter().position(|line| line.contains(what));
        found.unwrap_or_else(|| panic!("no {what}: {said}"))
    };
    let spawn = position("spawn task");
    assert!(lines[spawn].contains("\"logged\" at "), "{said}");
    let order = [spawn, position("poll task"), position("yields")];
    assert!(
        order.is_sorted() && order[2] < position("has ended"),
        "{said}"
    );
    let (_, said) = run("one task", "BLITZEN_LOG", "1");
    assert_eq!(said.lines().count(), 1, "{said}");
}
