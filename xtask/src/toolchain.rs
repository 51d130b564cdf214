//! Toolchains beyond stable: one that takes `-Z` flags, one that can also build the
//! standard library.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::sh::{self, Context, Outcome};

/// Debian has a second toolchain, with the sources of the standard library, to build its
/// browsers. It is in /usr/bin and does not disturb rustup's.
const DEBIAN_PACKAGES: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];
const DEBIAN_SOURCES: &str = "/usr/lib/rustlib/src/rust/library/std/Cargo.toml";
const DEBIAN_COMPILER: &str = "/usr/bin/rustc";

/// A cargo that accepts `-Z` flags: nightly's, or stable's with `RUSTC_BOOTSTRAP`.
pub(crate) fn unstable_cargo() -> Command {
    if has_nightly() {
        nightly_cargo()
    } else {
        let mut command = sh::cargo();
        command.env("RUSTC_BOOTSTRAP", "1");
        command
    }
}

/// A cargo that can build the standard library with `-Zbuild-std`.
///
/// Installs Debian's packages if there is no such toolchain, or an old one, and we are root.
pub(crate) fn build_std_cargo() -> Outcome<Command> {
    if !debian_has_sources()? {
        if nightly_has_sources() {
            return Ok(nightly_cargo());
        }
        install(&DEBIAN_PACKAGES)?;
    }
    let mut command = Command::new("/usr/bin/cargo");
    command
        .current_dir(sh::root())
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTC", DEBIAN_COMPILER)
        .env("RUSTDOC", "/usr/bin/rustdoc");
    Ok(command)
}

/// Returns whether the standard library for `triple` lies beside the compiler; has rustup add it if
/// it does not.
pub(crate) fn provide_std(triple: &str) -> bool {
    let mut libdir = Command::new("rustc");
    libdir.args(["--print", "target-libdir", "--target", triple]);
    let is_there = sh::read(&mut libdir).is_ok_and(|folder| Path::new(folder.trim()).is_dir());
    is_there || succeeds(Command::new("rustup").args(["target", "add", triple]))
}

/// Installs Debian packages, or returns an error that names them.
pub(crate) fn install(packages: &[&str]) -> Outcome {
    let wanted = packages.join(" ");
    if !is_root() || !succeeds(Command::new("apt-get").arg("--version")) {
        return Err(format!(
            "needs the packages {wanted}: install them (`apt-get install {wanted}`), or for the standard \
             library's sources `rustup toolchain install nightly --component rust-src`"
        )
        .into());
    }
    sh::run(Command::new("apt-get").args(["update", "-q"]))?;
    sh::run(
        Command::new("apt-get")
            .args(["install", "-q", "-y", "--no-install-recommends"])
            .args(packages)
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )
}

/// Whether a Debian package is installed.
pub(crate) fn is_installed(package: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["-W", "-f", "${db:Status-Status}", package]);
    sh::read(&mut query).is_ok_and(|status| status == "installed")
}

/// Whether we run as root.
pub(crate) fn is_root() -> bool {
    sh::read(Command::new("id").arg("-u")).is_ok_and(|uid| uid.trim() == "0")
}

/// Whether a command can be run and succeeds.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn has_nightly() -> bool {
    succeeds(Command::new("rustup").args(["run", "nightly", "cargo", "--version"]))
}

fn nightly_cargo() -> Command {
    let mut command = Command::new("rustup");
    command
        .args(["run", "nightly", "cargo"])
        .current_dir(sh::root());
    command
}

/// Whether Debian's toolchain is there, and new enough for the library.
fn debian_has_sources() -> Outcome<bool> {
    let version = sh::read(Command::new(DEBIAN_COMPILER).arg("--version")).unwrap_or_default();
    let is_new = minor_of(&version) >= minor_of(&oldest_version()?);
    Ok(is_new && Path::new(DEBIAN_SOURCES).exists())
}

/// Returns the oldest version of Rust that the manifest allows.
pub(crate) fn oldest_version() -> Outcome<String> {
    let manifest = sh::root().join("Cargo.toml");
    let manifest = std::fs::read_to_string(&manifest).context(manifest.display())?;
    let oldest = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'));
    Ok(oldest
        .ok_or("Cargo.toml states no rust-version")?
        .to_string())
}

/// Returns the 95 of `rustc 1.95.0 (…)` and of `1.95`.
fn minor_of(version: &str) -> Option<u32> {
    version.split_once("1.")?.1.split('.').next()?.parse().ok()
}

fn nightly_has_sources() -> bool {
    let sysroot =
        sh::read(Command::new("rustup").args(["run", "nightly", "rustc", "--print", "sysroot"]));
    sysroot.is_ok_and(|path| {
        Path::new(path.trim())
            .join("lib/rustlib/src/rust/library/std/Cargo.toml")
            .exists()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_compiler_is_told_from_a_newer_one() {
        let old = minor_of("rustc 1.85.0 (4d91de4e4 2025-02-17) (built from a source tarball)");
        let new = minor_of("rustc 1.101.0 (30a34c682 2026-05-25)");
        let oldest = minor_of(&oldest_version().unwrap());
        assert!(old < oldest && oldest < new, "{old:?} {oldest:?} {new:?}");
        assert_eq!(minor_of(""), None);
        assert!(None < oldest, "there is none");
    }
}
