//! Type-checks the library crates for platforms on which the tests do not run: first as most use
//! them, then with the features that add code.
//!
//! The standard library is built from source for each, so no prebuilt one is needed.

use std::process::Command;

use crate::sh::{self, Outcome, Tally};
use crate::toolchain;

/// One of each kind: kqueue, IOCP, and 32 bits without a ring.
const TARGETS: [&str; 3] = [
    "x86_64-apple-darwin",
    "x86_64-pc-windows-gnu",
    "i686-unknown-linux-gnu",
];

const MORE_TARGETS: [&str; 8] = [
    "x86_64-unknown-freebsd",
    "x86_64-unknown-netbsd",
    "x86_64-unknown-openbsd",
    "x86_64-unknown-illumos",
    "x86_64-unknown-linux-musl",
    "aarch64-linux-android",
    "armv7-unknown-linux-gnueabihf",
    "riscv64gc-unknown-linux-gnu",
];

/// Checks one target of each kind.
pub(crate) fn some(_: &[String]) -> Outcome<Tally> {
    check(&TARGETS)
}

/// Checks the other targets.
pub(crate) fn others(_: &[String]) -> Outcome<Tally> {
    check(&MORE_TARGETS)
}

/// The features of `blitzen` that a user may turn on anywhere. Those that need `--cfg tokio_unstable`
/// are not among them.
const FEATURES: &str = "coro,futures-io,global,hyper,stack-samples,tracing";

fn check(targets: &[&str]) -> Outcome<Tally> {
    // The standard library for Windows needs it to make import libraries.
    if !toolchain::succeeds(Command::new("x86_64-w64-mingw32-dlltool").arg("--version")) {
        toolchain::install(&["binutils-mingw-w64-x86-64"])?;
    }
    let packages = sh::library_packages()?;
    let names = packages.iter().flat_map(|package| ["-p", &package.name]);
    check_packages(targets, &names.collect::<Vec<_>>())?;
    check_packages(targets, &["-p", "blitzen", "--features", FEATURES])?;
    Ok(Tally::default())
}

fn check_packages(targets: &[&str], args: &[&str]) -> Outcome {
    let mut command = toolchain::build_std_cargo()?;
    command
        .args(["check", "-Zbuild-std"])
        .args(args)
        .env("CARGO_TARGET_DIR", sh::target().join("cross"));
    for target in targets {
        command.args(["--target", target]);
    }
    sh::run(&mut command)
}
