//! Packages the crates that are published, in the order of their dependencies.
//!
//! cargo resolves each against the packages made before it, as a registry would. So a path
//! dependency without a version, a file outside the package or missing metadata shows here
//! and not when a release is half out.

use crate::sh::{self, Outcome, Tally};

/// Always packages; `--verify` also compiles each package from its own archive.
pub(crate) fn run(args: &[String]) -> Outcome<Tally> {
    let verify = args.iter().any(|arg| arg == "--verify");
    let mut command = sh::cargo();
    command
        .args(["package", "--quiet", "--allow-dirty"])
        .env("CARGO_TARGET_DIR", sh::target().join("package"));
    if !verify {
        command.arg("--no-verify");
    }
    for package in sh::library_packages()? {
        command.args(["-p", &package.name]);
    }
    sh::run(&mut command)?;
    Ok(Tally::default())
}
