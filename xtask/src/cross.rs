//! Type-checks the library crates for platforms on which the tests do not run: first as most use
//! them, then with the features that add code.
//!
//! The standard library is built from source for each, so no prebuilt one is needed.
//!
//! For a target without 64-bit atomics, the compiler has to refuse the library with an error that says
//! why.

use std::process::Command;

use crate::sh::{self, Context, Outcome, Tally};
use crate::toolchain;

/// One of each kind: kqueue, IOCP, and 32 bits without a ring.
const TARGETS: [&str; 3] = [
    "x86_64-apple-darwin",
    "x86_64-pc-windows-gnu",
    "i686-unknown-linux-gnu",
];

const MORE_TARGETS: [&str; 9] = [
    "aarch64-apple-darwin",
    "x86_64-unknown-freebsd",
    "x86_64-unknown-netbsd",
    "x86_64-unknown-openbsd",
    "x86_64-unknown-illumos",
    "x86_64-unknown-linux-musl",
    "aarch64-linux-android",
    "armv7-unknown-linux-gnueabihf",
    "riscv64gc-unknown-linux-gnu",
];

/// A target with atomics of up to 32 bits.
const TARGET_WITHOUT: &str = "armv5te-unknown-linux-gnueabi";

/// What the first error says there.
const REFUSAL: &str = "error: blitzen needs 64-bit atomics, which this target does not have";

/// Checks one target of each kind, and one without 64-bit atomics.
pub(crate) fn some(_: &[String]) -> Outcome<Tally> {
    check(&TARGETS)?;
    check_refused()?;
    Ok(Tally::default())
}

/// Checks the other targets.
pub(crate) fn others(_: &[String]) -> Outcome<Tally> {
    check(&MORE_TARGETS)?;
    Ok(Tally::default())
}

/// The features of `blitzen` that a user may turn on anywhere. Those that need `--cfg tokio_unstable`
/// are not among them.
const FEATURES: &str = "coro,futures-io,global,hyper,stack-samples,tracing";

fn check(targets: &[&str]) -> Outcome {
    // The standard library for Windows needs it to make import libraries.
    if !toolchain::succeeds(Command::new("x86_64-w64-mingw32-dlltool").arg("--version")) {
        toolchain::install(&["binutils-mingw-w64-x86-64"])?;
    }
    let packages = sh::library_packages()?;
    let names = packages.iter().flat_map(|package| ["-p", &package.name]);
    check_packages(targets, &names.collect::<Vec<_>>())?;
    check_packages(targets, &["-p", "blitzen", "--features", FEATURES])
}

fn check_packages(targets: &[&str], args: &[&str]) -> Outcome {
    sh::run(&mut check_command(targets, args)?)
}

fn check_command(targets: &[&str], args: &[&str]) -> Outcome<Command> {
    let mut command = toolchain::build_std_cargo()?;
    command
        .args(["check", "-Zbuild-std"])
        .args(args)
        .env("CARGO_TARGET_DIR", sh::target().join("cross"));
    for target in targets {
        command.args(["--target", target]);
    }
    Ok(command)
}

/// Checks that the package which all others use is refused for a target without 64-bit atomics.
fn check_refused() -> Outcome {
    let mut command = check_command(&[TARGET_WITHOUT], &["-p", "blitzen-util"])?;
    let output = command.output().context("cargo check")?;
    let said = String::from_utf8_lossy(&output.stderr);
    judge_refusal(output.status.success(), &said)?;
    println!("{TARGET_WITHOUT} is refused: {REFUSAL}");
    Ok(())
}

/// The first error has to be the refusal: others follow from it.
fn judge_refusal(compiles: bool, said: &str) -> Outcome {
    if compiles {
        return Err(format!("blitzen-util compiles for {TARGET_WITHOUT}").into());
    }
    let first = said.lines().find(|line| line.starts_with("error"));
    match first {
        Some(error) if error.starts_with(REFUSAL) => Ok(()),
        _ => Err(format!("{TARGET_WITHOUT} is not refused with `{REFUSAL}`:\n{said}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_without_wide_atomics_has_to_be_refused_by_the_first_error() {
        let refused = format!("    Checking blitzen-util\n{REFUSAL}: packed words\n");
        let other = "error[E0432]: unresolved import `std::sync::atomic::AtomicU64`\n";
        assert!(judge_refusal(false, &format!("{refused}{other}")).is_ok());
        assert!(judge_refusal(false, &format!("{other}{refused}")).is_err());
        assert!(judge_refusal(false, other).is_err());
        assert!(judge_refusal(false, "").is_err());
        assert!(judge_refusal(true, "").is_err());
    }
}
