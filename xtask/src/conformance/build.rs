//! Builds the published tests, on the façade or on the real tokio.
//!
//! A workspace below `target/` has two packages: `plain` for the test files that need only
//! tokio, `assisted` for those that also use `tokio-test` or `tokio-stream`. These two crates
//! depend on tokio themselves; in a single package, one item that they miss would keep every
//! file from compiling.
//!
//! B1. cargo drops a patch that does not fit (version, feature names, an old lock file) with
//!     only a warning. So the resolved package is checked before building.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::table::{self, Table};
use crate::platforms::Platform;
use crate::sh::{self, Context, Outcome, write_if_changed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    Facade,
    Real,
}

/// What the tests are compiled with.
#[derive(Clone, Copy, Debug)]
pub(super) struct BuildFlags {
    /// Whether to set `--cfg tokio_unstable`.
    pub(super) unstable: bool,
    /// The platform, if it is not this machine's.
    pub(super) platform: Option<&'static Platform>,
}

impl BuildFlags {
    /// A cargo that runs `subcommand` in `dir`.
    fn cargo(self, dir: &Path, subcommand: &str) -> Outcome<Command> {
        let unstable = self.unstable.then_some("--cfg tokio_unstable");
        let Some(platform) = self.platform else {
            let mut command = sh::cargo();
            command
                .current_dir(dir)
                .arg(subcommand)
                .env("CARGO_TARGET_DIR", self.target())
                // The manifest decides: what the tests of traces see depends on it.
                .env_remove("CARGO_PROFILE_DEV_DEBUG")
                .env_remove("CARGO_PROFILE_TEST_DEBUG");
            if let Some(flags) = unstable {
                command.env("RUSTFLAGS", flags);
            }
            return Ok(command);
        };
        match unstable {
            None => platform.cargo(dir, subcommand),
            Some(_) => Err("--unstable is not for other platforms".into()),
        }
    }

    /// The folder for build output: one for each set of flags.
    fn target(self) -> PathBuf {
        target(if self.unstable {
            "build-unstable"
        } else {
            "build"
        })
    }
}

/// The features that add tests with `--cfg tokio_unstable`.
const UNSTABLE_FEATURES: &str = "schedule-latency,taskdump,tracing";

/// The workspace in which the tests are built.
pub(super) struct SuiteWorkspace {
    engine: Engine,
    flags: BuildFlags,
    dir: PathBuf,
}

/// What the build produced for each file: an executable, or the compiler's message.
pub(super) struct Built {
    files: BTreeMap<String, Result<PathBuf, String>>,
}

impl Built {
    pub(super) fn of(&self, file: &str) -> Result<&Path, &str> {
        match self.files.get(file) {
            Some(Ok(executable)) => Ok(executable),
            Some(Err(why)) => Err(why),
            None => Err("not built: something it depends on does not compile"),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.files.values().filter(|built| built.is_ok()).count()
    }
}

impl SuiteWorkspace {
    pub(super) fn prepare(engine: Engine, flags: BuildFlags, table: &Table) -> Outcome<Self> {
        let name = match engine {
            Engine::Facade => "facade",
            Engine::Real => "real",
        };
        // Each platform has its own, so that one can be built while another runs.
        let dir = match flags.platform {
            None => sh::target().join("conformance"),
            Some(platform) => sh::target().join("conformance").join(platform.name),
        };
        let workspace = Self {
            engine,
            flags,
            dir: dir.join(name),
        };
        // Logs of an earlier run would be mistaken for those of this one.
        let _ = fs::remove_dir_all(workspace.logs());
        fs::create_dir_all(workspace.logs()).context("making the workspace")?;
        workspace.write_manifests()?;
        workspace.copy_tests(table)?;
        workspace.check_engine()?;
        Ok(workspace)
    }

    /// The folder for the output of the compiler and of each test.
    pub(super) fn logs(&self) -> PathBuf {
        self.dir.join("logs")
    }

    /// The manifest, which one of the tests reads from its working folder.
    pub(super) fn manifest(&self) -> PathBuf {
        self.dir.join("plain/Cargo.toml")
    }

    fn write_manifests(&self) -> Outcome {
        let mut workspace =
            String::from("[workspace]\nresolver = \"3\"\nmembers = [\"plain\", \"assisted\"]\n");
        if self.engine == Engine::Facade {
            let facade = sh::root().join("compat/tokio");
            workspace += &format!(
                "[patch.crates-io]\ntokio = {{ path = {:?} }}\n",
                facade.display().to_string()
            );
        }
        // Only the tests of traces need debug information, and writing it takes a third of the
        // build.
        workspace += "[profile.dev]\ndebug = 0\nincremental = false\n";
        if self.flags.unstable {
            workspace += "[profile.dev.package]\nplain.debug = 2\nassisted.debug = 2\n";
        }
        write_if_changed(&self.dir.join("Cargo.toml"), &workspace)?;

        let template = table::folder().join("Cargo.toml");
        let template = fs::read_to_string(&template).context(template.display())?;
        let package = |name: &str, keep: &dyn Fn(&str) -> bool| -> Outcome {
            let kept: Vec<&str> = template.lines().filter(|line| keep(line)).collect();
            let manifest = kept.join("\n").replacen("compat-suite", name, 1) + "\n";
            write_if_changed(&self.dir.join(name).join("Cargo.toml"), &manifest)?;
            write_if_changed(&self.dir.join(name).join("src/lib.rs"), "")
        };
        package("assisted", &|_| true)?;
        package("plain", &|line| !line.starts_with("tokio-"))?;

        // The façade's dependencies are locked in `compat/`; the real tokio's are not, and
        // cargo resolves them anew.
        let lock = sh::root().join("compat/Cargo.lock");
        if self.engine == Engine::Facade && lock.exists() {
            fs::copy(&lock, self.dir.join("Cargo.lock")).context("copying Cargo.lock")?;
        }
        Ok(())
    }

    /// Copies the published tests from where cargo keeps the package.
    fn copy_tests(&self, table: &Table) -> Outcome {
        let source = published_package(&self.dir)?.join("tests");
        let has_ring = self.flags.platform.is_none_or(Platform::may_have_ring);
        let mut copied = 0;
        for entry in fs::read_dir(&source).context(source.display())? {
            let path = entry.context(source.display())?.path();
            let name = path.file_name().expect("an entry has a name");
            if path.is_dir() {
                for package in ["plain", "assisted"] {
                    copy_folder(&path, &self.dir.join(package).join("tests").join(name))?;
                }
                continue;
            }
            let text = fs::read_to_string(&path).context(path.display())?;
            let text = if has_ring { ungated(&text) } else { text };
            let assisted = text.contains("tokio_test") || text.contains("tokio_stream");
            let package = if assisted { "assisted" } else { "plain" };
            write_if_changed(&self.dir.join(package).join("tests").join(name), &text)?;
            copied += 1;
        }
        if table.is_whole() && copied != table.files().count() {
            let listed = table.files().count();
            return Err(format!(
                "{} holds {copied} test files, but tests.txt lists {listed}",
                source.display()
            )
            .into());
        }
        Ok(())
    }

    /// B1: checks that cargo is going to compile the intended tokio.
    fn check_engine(&self) -> Outcome {
        let mut command = sh::cargo();
        command
            .current_dir(&self.dir)
            .args(["tree", "--workspace", "-i", "tokio", "--depth", "0"]);
        let resolved = sh::read(&mut command)?;
        let facade = sh::root().join("compat/tokio");
        let intended = match self.engine {
            Engine::Facade => resolved.contains(&format!("({})", facade.display())),
            Engine::Real => !resolved.contains('('),
        };
        if intended {
            Ok(())
        } else {
            Err(
                format!("the tests would be built on another tokio than intended: {resolved}")
                    .into(),
            )
        }
    }

    pub(super) fn build(&self, table: &Table) -> Outcome<Built> {
        let mut command = self.flags.cargo(&self.dir, "build")?;
        command.args(["--workspace", "--keep-going", "--message-format=json"]);
        if self.flags.unstable {
            command.args(["--features", UNSTABLE_FEATURES]);
        }
        if table.is_whole() {
            command.arg("--tests");
        } else {
            for entry in table.files() {
                command.args(["--test", &entry.file]);
            }
        }
        // The exit status says only that some file does not compile; the messages say which.
        let output = command.output().context("cargo build")?;
        let mut files: BTreeMap<String, Result<PathBuf, String>> = BTreeMap::new();
        let mut errors: BTreeMap<String, String> = BTreeMap::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let message: Value = serde_json::from_str(line).context("reading cargo's messages")?;
            let name = message["target"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let is_test = message["target"]["kind"][0] == "test";
            if message["reason"] == "compiler-artifact" {
                if let (true, Some(path)) = (is_test, message["executable"].as_str()) {
                    files.insert(name, Ok(path.into()));
                }
            } else if message["message"]["level"] == "error" {
                let rendered = message["message"]["rendered"].as_str().unwrap_or_default();
                // A dependency that fails takes many files with it, so its error is shown.
                if !is_test && !errors.contains_key(&name) {
                    println!("{name} does not compile:\n{rendered}");
                }
                *errors.entry(name).or_default() += rendered;
            }
        }
        for (name, said) in errors {
            fs::write(self.logs().join(format!("{name}.compile.log")), &said)
                .context("writing a log")?;
            let first = said.lines().next().unwrap_or("error").to_owned();
            files.entry(name).or_insert(Err(first));
        }
        if files.is_empty() {
            return Err(format!(
                "nothing was built:\n{}",
                String::from_utf8_lossy(&output.stderr)
            )
            .into());
        }
        Ok(Built { files })
    }
}

/// A folder for build output.
pub(super) fn target(name: &str) -> PathBuf {
    sh::target().join("conformance").join(name)
}

/// The folder of the published package, downloaded if need be.
///
/// A package that depends on the real one and is never built makes cargo fetch it,
/// whatever is patched elsewhere.
fn published_package(dir: &Path) -> Outcome<PathBuf> {
    let version = facade_version()?;
    let fetch = dir.join("fetch");
    let manifest = format!(
        "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n\
         [dependencies]\ntokio = \"={version}\"\n"
    );
    write_if_changed(&fetch.join("Cargo.toml"), &manifest)?;
    write_if_changed(&fetch.join("src/lib.rs"), "")?;
    let mut command = sh::cargo();
    command
        .current_dir(&fetch)
        .args(["metadata", "--format-version", "1"]);
    let metadata: Value =
        serde_json::from_str(&sh::read(&mut command)?).context("reading cargo's metadata")?;
    let packages = metadata["packages"]
        .as_array()
        .ok_or("cargo's metadata lists no packages")?;
    let manifest = packages
        .iter()
        .find(|package| package["name"] == "tokio")
        .and_then(|package| package["manifest_path"].as_str())
        .ok_or("cargo's metadata does not list tokio")?;
    Ok(Path::new(manifest)
        .parent()
        .expect("a manifest lies in a folder")
        .to_path_buf())
}

/// The version the façade claims to be.
pub(crate) fn facade_version() -> Outcome<String> {
    let path = sh::root().join("compat/tokio/Cargo.toml");
    let manifest = fs::read_to_string(&path).context(path.display())?;
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    Ok(version
        .ok_or("compat/tokio/Cargo.toml names no version")?
        .to_owned())
}

/// Removes the conditions under which tokio uses io_uring for files: here it is always
/// used, and the tests name nothing unstable.
fn ungated(text: &str) -> String {
    const GATES: [&str; 2] = ["    tokio_unstable,", "    feature = \"io-uring\","];
    if !text.lines().any(|line| line == GATES[1]) {
        return text.to_owned();
    }
    let kept = text.lines().filter(|line| !GATES.contains(line));
    kept.map(|line| format!("{line}\n")).collect()
}

fn copy_folder(from: &Path, to: &Path) -> Outcome {
    for entry in fs::read_dir(from).context(from.display())? {
        let path = entry.context(from.display())?.path();
        let text = ungated(&fs::read_to_string(&path).context(path.display())?);
        write_if_changed(
            &to.join(path.file_name().expect("an entry has a name")),
            &text,
        )?;
    }
    Ok(())
}
