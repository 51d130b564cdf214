//! Builds the programs of `compat/ecosystem`, on the façade or on the real tokio.
//!
//! On the façade they are built in place. For the real tokio a second workspace below
//! `target/` has the same manifest without its `[patch]` section, and links to the sources.
//! Both share a folder for what they build, as most crates do not depend on tokio.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::sh::{self, Context, Outcome, write_if_changed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    Facade,
    Real,
}

impl Engine {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Facade => "facade",
            Self::Real => "real",
        }
    }

    /// Checks that cargo is going to compile this engine in the workspace at `dir`: it drops
    /// a patch that does not fit with only a warning.
    pub(super) fn check(self, dir: &Path) -> Outcome {
        let mut command = sh::cargo();
        command
            .current_dir(dir)
            .args(["tree", "--workspace", "-i", "tokio", "--depth", "0"]);
        let resolved = sh::read(&mut command)?;
        // Lines about kinds of dependencies stand between those about packages.
        let mut packages = resolved.lines().filter(|line| line.starts_with("tokio v"));
        let path = format!("({})", facade().display());
        let is_intended = packages.all(|line| match self {
            Self::Facade => line.ends_with(&path),
            Self::Real => !line.contains('('),
        });
        match is_intended {
            true => Ok(()),
            false => Err(format!("another tokio than intended would be built: {resolved}").into()),
        }
    }
}

/// The folder of the programs.
pub(super) fn programs() -> PathBuf {
    sh::root().join("compat/ecosystem")
}

/// The package `tokio` over blitzen.
pub(super) fn facade() -> PathBuf {
    sh::root().join("compat/tokio")
}

/// Everything that is made here.
pub(super) fn folder() -> PathBuf {
    sh::target().join("ecosystem")
}

/// The output of the programs.
pub(super) fn logs() -> PathBuf {
    folder().join("logs")
}

/// A workspace with the programs.
pub(super) struct ProgramWorkspace {
    dir: PathBuf,
}

impl ProgramWorkspace {
    pub(super) fn prepare(engine: Engine) -> Outcome<Self> {
        fs::create_dir_all(logs()).context("making a folder for logs")?;
        let dir = match engine {
            Engine::Facade => programs(),
            Engine::Real => prepare_real()?,
        };
        engine.check(&dir)?;
        Ok(Self { dir })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Builds the test files with these names; returns the executables by name. A file that
    /// does not compile is left out, after the compiler's message was printed.
    pub(super) fn build(&self, names: &[&str]) -> Outcome<BTreeMap<String, PathBuf>> {
        let mut command = sh::cargo();
        command
            .current_dir(&self.dir)
            .args(["build", "--keep-going", "--message-format=json"])
            .args(["--features", &names.join(",")])
            .env("CARGO_TARGET_DIR", folder().join("build"));
        for name in names {
            command.args(["--test", name]);
        }
        let artifacts = build_tests(&mut command)?;
        Ok(artifacts
            .into_iter()
            .map(|artifact| (artifact.target, artifact.executable))
            .collect())
    }
}

/// A test executable.
pub(super) struct Artifact {
    /// The folder of its package.
    pub(super) package_dir: PathBuf,
    pub(super) target: String,
    pub(super) executable: PathBuf,
}

/// Runs a `cargo build --message-format=json` and returns the test executables. Prints the
/// errors of what does not compile, each once.
pub(super) fn build_tests(command: &mut std::process::Command) -> Outcome<Vec<Artifact>> {
    // The exit status says only that something does not compile; the messages say what.
    let output = command.output().context("cargo build")?;
    let mut artifacts = Vec::new();
    let mut printed = BTreeSet::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(line).context("reading cargo's messages")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let error = &message["message"];
        if error["level"] == "error" && printed.insert(text(&error["message"])) {
            println!("{}", text(&error["rendered"]));
        }
        let is_test = message["profile"]["test"] == true;
        if let (true, Some(executable)) = (is_test, message["executable"].as_str()) {
            let manifest = PathBuf::from(text(&message["manifest_path"]));
            artifacts.push(Artifact {
                package_dir: manifest.parent().unwrap_or(&manifest).to_path_buf(),
                target: text(&message["target"]["name"]),
                executable: executable.into(),
            });
        }
    }
    if artifacts.is_empty() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("nothing was built:\n{errors}").into());
    }
    Ok(artifacts)
}

/// The same package without the patch.
fn prepare_real() -> Outcome<PathBuf> {
    let (from, dir) = (programs(), folder().join("real"));
    let manifest = read(&from.join("Cargo.toml"))?;
    let manifest = without_patch(&manifest);
    write_if_changed(&dir.join("Cargo.toml"), &manifest)?;
    for folder in ["src", "tests"] {
        let link = dir.join(folder);
        if fs::read_link(&link).ok() != Some(from.join(folder)) {
            // There is none yet, or it leads to another checkout.
            let _ = fs::remove_file(&link);
            symlink(from.join(folder), &link).context(link.display())?;
        }
    }
    // The same versions of everything else: cargo replaces only the tokio that it does not
    // find. A copy tells when the original has changed.
    let (lock, copy) = (read(&from.join("Cargo.lock"))?, dir.join("facade.lock"));
    if fs::read_to_string(&copy).ok().as_ref() != Some(&lock) {
        write_if_changed(&dir.join("Cargo.lock"), &lock)?;
        write_if_changed(&copy, &lock)?;
    }
    Ok(dir)
}

fn read(path: &Path) -> Outcome<String> {
    fs::read_to_string(path).context(path.display())
}

/// Removes the section `[patch.crates-io]` from a manifest.
fn without_patch(manifest: &str) -> String {
    let mut is_in_patch = false;
    let kept = manifest.lines().filter(|line| {
        if line.starts_with('[') {
            is_in_patch = *line == "[patch.crates-io]";
        }
        !is_in_patch
    });
    kept.map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_patch_is_removed_from_a_manifest() {
        let manifest =
            "[package]\nname = \"a\"\n[patch.crates-io]\ntokio = { path = \"b\" }\n[workspace]\n";
        assert_eq!(
            without_patch(manifest),
            "[package]\nname = \"a\"\n[workspace]\n"
        );
    }
}
