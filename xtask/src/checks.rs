//! The steps that need only cargo: formatting, lints, tests, benchmarks.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::sh::{self, Context, Failure, Outcome, Tally};
use crate::toolchain;

/// An example that has not ended by then hangs.
const EXAMPLE_LIMIT: Duration = Duration::from_secs(120);

/// The façade's features with an effect. It has to compile with each of them alone, with
/// none, with all, and with the cfg that some of Tokio's users set.
pub(crate) const FACADE_FEATURES: [&str; 12] = [
    "fs",
    "io-std",
    "io-util",
    "macros",
    "net",
    "process",
    "rt",
    "rt-multi-thread",
    "signal",
    "sync",
    "test-util",
    "time",
];

pub(crate) fn fmt(args: &[String]) -> Outcome<Tally> {
    let fix = args.iter().any(|arg| arg == "--fix");
    for manifest in [
        "Cargo.toml",
        "compat/Cargo.toml",
        "compat/ecosystem/Cargo.toml",
    ] {
        let mut command = sh::cargo();
        command.args(["fmt", "--all", "--manifest-path", manifest]);
        if !fix {
            command.arg("--check");
        }
        sh::run(&mut command)?;
    }
    Ok(Tally::default())
}

pub(crate) fn clippy(_: &[String]) -> Outcome<Tally> {
    sh::run(sh::cargo().args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))?;
    for features in FACADE_FEATURES.into_iter().chain(["", "full,test-util"]) {
        facade_clippy(features, "")?;
    }
    facade_clippy("full,test-util,tracing", "--cfg tokio_unstable")?;
    compat_clippy(&["-p", "blitzen-console-bridge", "--all-targets"], "")?;
    task_spans_clippy()?;
    Ok(Tally::default())
}

fn facade_clippy(features: &str, flags: &str) -> Outcome {
    compat_clippy(&["-p", "tokio", "--features", features], flags)
}

fn compat_clippy(args: &[&str], flags: &str) -> Outcome {
    let mut command = sh::cargo();
    command
        .current_dir(sh::root().join("compat"))
        .args(["clippy", "--quiet"])
        .args(args)
        .args(["--", "-D", "warnings"])
        .env("CARGO_TARGET_DIR", sh::target().join("compat"))
        .env("RUSTFLAGS", flags);
    sh::run(&mut command)
}

/// Lints the spans of tasks, which only exist with a feature and a cfg.
fn task_spans_clippy() -> Outcome {
    let mut command = sh::cargo();
    command
        .args(["clippy", "--quiet", "-p", "blitzen-task", "--features"])
        .args(["task-spans", "--", "-D", "warnings"])
        .env("CARGO_TARGET_DIR", sh::target().join("task-spans"))
        .env("RUSTFLAGS", "--cfg tokio_unstable");
    sh::run(&mut command)
}

/// Compiles the library with the version that `rust-version` states. There is nothing to do
/// if that version is active: the other steps have used it.
pub(crate) fn msrv(_: &[String]) -> Outcome<Tally> {
    let oldest = toolchain::oldest_version()?;
    let active = sh::read(
        Command::new("rustc")
            .arg("--version")
            .current_dir(sh::root()),
    )?;
    if active.starts_with(&format!("rustc {oldest}.")) {
        println!("{} is the oldest version allowed", active.trim());
        return Ok(Tally::default());
    }
    let toolchain = format!("{oldest}.0");
    let has_it = Command::new("rustup")
        .args(["run", &toolchain, "rustc", "--version"])
        .output();
    if !has_it.is_ok_and(|output| output.status.success()) {
        let install = ["toolchain", "install", &toolchain, "--profile", "minimal"];
        sh::run(Command::new("rustup").args(install))?;
    }
    let mut command = Command::new("rustup");
    command
        .args(["run", &toolchain, "cargo", "check", "--quiet"])
        .current_dir(sh::root())
        .env("CARGO_TARGET_DIR", sh::target().join("msrv"));
    for package in sh::library_packages()? {
        command.args(["-p", &package.name]);
    }
    sh::run(&mut command)?;
    Ok(Tally::default())
}

/// `cargo test` runs the unit, integration and doc tests and compiles the examples. Then
/// every example runs and has to succeed.
pub(crate) fn test(args: &[String]) -> Outcome<Tally> {
    let mut command = sh::cargo();
    command
        .args(["test", "--workspace", "--no-fail-fast"])
        .args(args);
    let mut tally = sh::run_tests(&mut command)?;
    // The feature that changes what happens at run time.
    let mut with_global = sh::cargo();
    with_global
        .args(["test", "-p", "blitzen", "--features", "global"])
        .args(["--test", "global_runtime"]);
    tally.passed += sh::run_tests(&mut with_global)?.passed;
    for executable in examples()? {
        let name = executable
            .file_name()
            .expect("an executable has a name")
            .to_string_lossy();
        let log = sh::target().join(format!("example-{name}.log"));
        let ended = sh::run_for(
            Command::new(&executable).current_dir(sh::root()),
            EXAMPLE_LIMIT,
            &log,
        )?;
        let passed = ended.is_success();
        println!(
            "example {name} ... {}",
            if passed { "ok" } else { "FAILED" }
        );
        if !passed {
            println!("{}", std::fs::read_to_string(&log).unwrap_or_default());
            tally.failed += 1;
            return Err(Failure {
                why: format!("example {name}: {ended:?}"),
                tally,
            });
        }
        tally.passed += 1;
    }
    Ok(tally)
}

/// Builds the examples, if `cargo test` has not, and returns their paths.
fn examples() -> Outcome<Vec<std::path::PathBuf>> {
    let mut command = sh::cargo();
    command.args([
        "build",
        "--workspace",
        "--examples",
        "--message-format=json",
        "--quiet",
    ]);
    let mut found = Vec::new();
    for line in sh::read(&mut command)?.lines() {
        let message: Value = serde_json::from_str(line).context("reading cargo's messages")?;
        let is_example = message["target"]["kind"][0] == "example";
        if let (true, Some(path)) = (is_example, message["executable"].as_str()) {
            found.push(path.into());
        }
    }
    found.sort();
    Ok(found)
}

/// The build of the benchmarks that has Tokio with its histogram and with console-subscriber, and
/// a blitzen that cannot be observed: see `bench/src/other_build.rs`.
pub(crate) fn bench_observed(args: &[String]) -> Outcome<Tally> {
    let mut command = sh::cargo();
    command
        .args(["build", "--release", "-p", "blitzen-bench", "--features"])
        .args(["observed-tokio", "--target-dir"])
        .arg(sh::target().join("observed-tokio"))
        .args(args)
        .env(
            "RUSTFLAGS",
            "--cfg tokio_unstable --cfg blitzen_unobservable",
        );
    sh::run(&mut command)?;
    Ok(Tally::default())
}

pub(crate) fn bench(args: &[String]) -> Outcome<Tally> {
    let mut command = sh::cargo();
    command
        .args(["run", "--release", "-p", "blitzen-bench", "--", "compare"])
        .args(args);
    sh::run(&mut command)?;
    Ok(Tally::default())
}
