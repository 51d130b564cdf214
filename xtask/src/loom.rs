//! The loom models: tests in modules named `model`, built with `--cfg blitzen_loom`.

use std::path::Path;

use crate::sh::{self, Context, Outcome, Tally};

/// How far loom searches unless the environment says otherwise. Two preemptions find nearly
/// every ordering bug and keep a model in seconds; one that takes minutes all the same is
/// left unfinished, for the sake of the others.
const BOUNDS: [(&str, &str); 2] = [("LOOM_MAX_PREEMPTIONS", "2"), ("LOOM_MAX_DURATION", "120")];

/// Runs the models of every crate that has some. Arguments go to the test harness, so
/// `cargo xtask loom ring` runs the models with `ring` in their path.
pub(crate) fn run(args: &[String]) -> Outcome<Tally> {
    let mut command = sh::cargo();
    command
        .args(["test", "--release", "--lib", "--no-fail-fast"])
        .env("RUSTFLAGS", "--cfg blitzen_loom")
        .env("CARGO_TARGET_DIR", sh::target().join("loom"));
    for (bound, default) in BOUNDS {
        if std::env::var_os(bound).is_none() {
            command.env(bound, default);
        }
    }
    let mut with_models = 0;
    for package in sh::library_packages()? {
        if has_models(&package.dir.join("src"))? {
            with_models += 1;
            command.args(["-p", &package.name]);
        }
    }
    if with_models == 0 {
        println!("no crate has models");
        return Ok(Tally::default());
    }
    command.arg("--");
    if args.is_empty() {
        command.arg("model");
    }
    sh::run_tests(command.args(args))
}

/// Whether any file below `folder` holds a `mod model`.
fn has_models(folder: &Path) -> Outcome<bool> {
    for entry in std::fs::read_dir(folder).context(folder.display())? {
        let path = entry.context(folder.display())?.path();
        let found = if path.is_dir() {
            has_models(&path)?
        } else {
            path.extension().is_some_and(|ext| ext == "rs")
                && std::fs::read_to_string(&path)
                    .context(path.display())?
                    .contains("mod model")
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}
