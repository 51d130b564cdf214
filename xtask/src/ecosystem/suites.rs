//! The tests that published packages carry, run on the façade and on the real tokio.
//!
//! The packages come from cargo's registry folder, in the versions that `compat/ecosystem`
//! locks. A workspace below `target/` for each engine has copies of them. A test that fails
//! on the façade and passes on the real tokio fails the step; one that fails on both says
//! something about the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::build::{self, Engine};
use super::{failed_tests, page};
use crate::sh::{self, Context, Ended, Failure, Outcome, Tally, write_if_changed};

/// The longest of them ends within 20 s by itself on two cores.
const BINARY_LIMIT: Duration = Duration::from_secs(180);

/// A package with tests.
struct Suite {
    package: &'static str,
    /// The features that its tests need.
    features: &'static [&'static str],
    /// The beginning of the names of tests that cannot run: they read files that the package
    /// does not carry.
    skip: Option<&'static str>,
    /// What its published manifest leaves out, since it was a path: name, version and features.
    dev_dependencies: &'static [(&'static str, &'static str, &'static [&'static str])],
}

impl Suite {
    const fn new(package: &'static str, features: &'static [&'static str]) -> Self {
        Self {
            package,
            features,
            skip: None,
            dev_dependencies: &[],
        }
    }
}

const SUITES: &[Suite] = &[
    Suite::new("actix-rt", &["macros"]),
    Suite {
        dev_dependencies: &[("axum-macros", "0.5", &["__private"])],
        ..Suite::new("axum", &["http2", "macros", "multipart", "ws"])
    },
    Suite {
        skip: Some("hpack::test::fixture"),
        ..Suite::new("h2", &["unstable"])
    },
    Suite::new("hyper", &["full"]),
    Suite::new("hyper-util", &["full"]),
    Suite::new("mini-redis", &[]),
    Suite::new("quinn", &[]),
    // Its integration tests do not compile: they need crates that are not published.
    Suite::new(
        "redis",
        &["cache-aio", "connection-manager", "json", "tokio-comp"],
    ),
    Suite::new("tokio-stream", &["full"]),
    Suite::new("tokio-util", &["full"]),
    Suite::new("tonic", &["deflate", "gzip", "tls-ring", "zstd"]),
    Suite::new("tower", &["full"]),
    Suite {
        skip: Some("services::fs::"),
        ..Suite::new("tower-http", &["full"])
    },
];

/// What came out of one suite on one engine.
#[derive(Default)]
pub(super) struct SuiteResult {
    pub(super) tally: Tally,
    /// `target::test`, or only the target if it crashed or hung.
    failed: BTreeSet<String>,
}

/// One suite on both engines.
pub(super) struct Comparison {
    pub(super) package: &'static str,
    pub(super) version: String,
    pub(super) facade: SuiteResult,
    pub(super) real: SuiteResult,
}

pub(super) fn run(names: &[String], write: bool) -> Outcome<Tally> {
    if let Some(name) = names
        .iter()
        .find(|name| !SUITES.iter().any(|suite| suite.package == *name))
    {
        return Err(format!("there is no suite `{name}`").into());
    }
    let is_chosen =
        |suite: &&Suite| names.is_empty() || names.iter().any(|name| name == suite.package);
    let suites: Vec<&Suite> = SUITES.iter().filter(is_chosen).collect();
    let sources = published(&suites)?;
    let mut on_facade = run_on(Engine::Facade, &suites, &sources)?;
    let mut on_real = run_on(Engine::Real, &suites, &sources)?;
    let comparisons: Vec<Comparison> = suites
        .iter()
        .map(|suite| Comparison {
            package: suite.package,
            version: sources[suite.package].version.clone(),
            facade: on_facade.remove(suite.package).unwrap_or_default(),
            real: on_real.remove(suite.package).unwrap_or_default(),
        })
        .collect();
    report(&comparisons, write)
}

fn report(comparisons: &[Comparison], write: bool) -> Outcome<Tally> {
    println!("\n{:<24}{:>16}{:>16}", "", "façade", "real tokio");
    let mut tally = Tally::default();
    let mut differences = 0;
    for comparison in comparisons {
        let text = |result: &SuiteResult| match result.tally {
            Tally { passed, failed: 0 } => format!("{passed} passed"),
            Tally { passed, failed } => format!("{passed} of {}", passed + failed),
        };
        let (facade, real) = (&comparison.facade, &comparison.real);
        let name = format!("{} {}", comparison.package, comparison.version);
        println!("{name:<24}{:>16}{:>16}", text(facade), text(real));
        for test in facade.failed.difference(&real.failed) {
            println!("  {test} fails only on the façade");
            differences += 1;
        }
        for test in real.failed.difference(&facade.failed) {
            println!("  {test} fails only on the real tokio");
        }
        for test in facade.failed.intersection(&real.failed) {
            println!("  {test} fails on both");
        }
        if facade.tally.passed < real.tally.passed && facade.failed.is_empty() {
            println!("  some of its tests did not run on the façade");
            differences += 1;
        }
        tally.passed += facade.tally.passed;
    }
    tally.failed = differences;
    if write {
        page::write_suites(comparisons)?;
    }
    match differences {
        0 => Ok(tally),
        _ => Err(Failure {
            why: format!(
                "{differences} differences; logs in {}",
                build::logs().display()
            ),
            tally,
        }),
    }
}

/// A package in cargo's registry folder.
struct Source {
    version: String,
    dir: PathBuf,
}

/// The packages by name.
fn published(suites: &[&Suite]) -> Outcome<BTreeMap<&'static str, Source>> {
    let mut command = sh::cargo();
    command.current_dir(build::programs()).args([
        "metadata",
        "--format-version",
        "1",
        "--all-features",
    ]);
    let metadata: Value =
        serde_json::from_str(&sh::read(&mut command)?).context("reading cargo's metadata")?;
    let packages = metadata["packages"]
        .as_array()
        .ok_or("cargo's metadata lists no packages")?;
    let mut sources = BTreeMap::new();
    for suite in suites {
        let package = packages
            .iter()
            .find(|package| package["name"] == suite.package)
            .ok_or_else(|| format!("compat/ecosystem does not depend on {}", suite.package))?;
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        let manifest = PathBuf::from(text("manifest_path"));
        let dir = manifest.parent().unwrap_or(&manifest).to_path_buf();
        let version = text("version");
        sources.insert(suite.package, Source { version, dir });
    }
    Ok(sources)
}

fn run_on(
    engine: Engine,
    suites: &[&Suite],
    sources: &BTreeMap<&'static str, Source>,
) -> Outcome<BTreeMap<&'static str, SuiteResult>> {
    let dir = build::folder().join("suites").join(engine.name());
    fs::create_dir_all(build::logs()).context("making a folder for logs")?;
    let mut manifest = String::from("[workspace]\nresolver = \"3\"\nmembers = [\n");
    for suite in suites {
        manifest += &format!("    {:?},\n", suite.package);
        let source = &sources[suite.package].dir;
        copy_package(source, &dir.join(suite.package))?;
        complete_manifest(suite, source, &dir.join(suite.package))?;
    }
    // Tests of tower-http that are skipped include the text that its repository has here.
    write_if_changed(&dir.join("README.md"), "")?;
    manifest += "]\n[profile.dev]\ndebug = 0\nincremental = false\n";
    if engine == Engine::Facade {
        let facade = build::facade().display().to_string();
        manifest += &format!("[patch.crates-io]\ntokio = {{ path = {facade:?} }}\n");
    }
    write_if_changed(&dir.join("Cargo.toml"), &manifest)?;
    engine.check(&dir)?;

    let features = suites.iter().flat_map(|suite| {
        let of_package = |feature: &&str| format!("{}/{feature}", suite.package);
        suite.features.iter().map(of_package).collect::<Vec<_>>()
    });
    let features: Vec<String> = features.collect();
    let mut command = sh::cargo();
    command
        .current_dir(&dir)
        .args(["build", "--workspace", "--tests", "--keep-going"])
        .args(["--message-format=json", "--features", &features.join(",")])
        .env("CARGO_TARGET_DIR", build::folder().join("build"));
    println!("building {} suites ({})", suites.len(), engine.name());
    let mut results: BTreeMap<&'static str, SuiteResult> = BTreeMap::new();
    for artifact in build::build_tests(&mut command)? {
        let is_of = |suite: &&&Suite| artifact.package_dir.ends_with(suite.package);
        let Some(suite) = suites.iter().find(is_of) else {
            continue;
        };
        let result = results.entry(suite.package).or_default();
        run_binary(engine, suite, &artifact, result)?;
    }
    Ok(results)
}

fn run_binary(
    engine: Engine,
    suite: &Suite,
    artifact: &build::Artifact,
    result: &mut SuiteResult,
) -> Outcome {
    let target = &artifact.target;
    let name = format!("{}.{target}.{}.log", suite.package, engine.name());
    let log = build::logs().join(name);
    let mut command = Command::new(&artifact.executable);
    command
        .current_dir(&artifact.package_dir)
        .env("CARGO_MANIFEST_DIR", &artifact.package_dir);
    if let Some(skipped) = suite.skip {
        command.args(["--skip", skipped]);
    }
    let ended = sh::run_for(&mut command, BINARY_LIMIT, &log)?;
    let output = fs::read(&log).context(log.display())?;
    let output = String::from_utf8_lossy(&output);
    match (ended, output.lines().find_map(sh::parse_result_line)) {
        (Ended::Exited(_), Some(tally)) => {
            result.tally += tally;
            let failed = failed_tests(&output).map(|test| format!("{target}::{test}"));
            result.failed.extend(failed);
        }
        // It crashed or hung.
        _ => {
            result.tally.failed += 1;
            result.failed.insert(target.clone());
        }
    }
    Ok(())
}

const NOT_COPIED: [&str; 3] = ["Cargo.lock", "Cargo.toml", "Cargo.toml.orig"];

/// Writes the manifest of the copy in `dir`, with the dependencies that were left out.
fn complete_manifest(suite: &Suite, source: &Path, dir: &Path) -> Outcome {
    let published = source.join("Cargo.toml");
    let mut manifest = fs::read_to_string(&published).context(published.display())?;
    for (name, version, features) in suite.dev_dependencies {
        manifest += &format!(
            "\n[dev-dependencies.{name}]\nversion = {version:?}\nfeatures = {features:?}\n"
        );
    }
    write_if_changed(&dir.join("Cargo.toml"), &manifest)
}

/// Copies a package without its lock file and its manifests.
fn copy_package(from: &Path, to: &Path) -> Outcome {
    for entry in fs::read_dir(from).context(from.display())? {
        let path = entry.context(from.display())?.path();
        let name = path.file_name().expect("an entry has a name");
        let target = to.join(name);
        if path.is_dir() {
            copy_package(&path, &target)?;
        } else if !NOT_COPIED.iter().any(|file| name == *file) && !target.exists() {
            fs::create_dir_all(to).context(to.display())?;
            fs::copy(&path, &target).context(target.display())?;
        }
    }
    Ok(())
}
