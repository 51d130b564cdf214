//! rustdoc's JSON of the real tokio and of the façade with the crates behind it.
//!
//! J1. All descriptions of a crate go to the same file, whatever its features. So the file is
//!     copied after every run, and cargo is made to forget that it has written it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::library::Library;
use crate::sh::{self, Context, Outcome};
use crate::toolchain;

/// The crates of the engine whose definitions the façade re-exports.
const ENGINE: [&str; 6] = [
    "blitzen",
    "blitzen-driver",
    "blitzen-io",
    "blitzen-observe",
    "blitzen-sync",
    "blitzen-task",
];

const FLAGS: &str = "-Zunstable-options --output-format json --document-private-items \
                     --document-hidden-items --cap-lints allow";

/// Features of tokio, and whether `--cfg tokio_unstable` is set.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) name: String,
    pub(super) features: Vec<String>,
    pub(super) unstable: bool,
}

impl Setup {
    fn flags(&self) -> String {
        match self.unstable {
            true => format!("{FLAGS} --cfg tokio_unstable"),
            false => FLAGS.to_owned(),
        }
    }

    fn features(&self) -> String {
        self.features.join(",")
    }
}

fn folder() -> PathBuf {
    sh::target().join("api")
}

/// The real tokio. It never changes, so what was read once is kept for this toolchain.
pub(super) fn real(setup: &Setup, version: &str) -> Outcome<Library> {
    let toolchain = sh::read(toolchain::unstable_cargo().arg("-V"))?;
    let toolchain = toolchain
        .trim()
        .replace(|c: char| !c.is_alphanumeric(), "-");
    let kept = folder().join(format!("tokio-{version}-{}-{toolchain}.json", setup.name));
    if !kept.exists() {
        let dir = folder().join("real-package");
        fs::create_dir_all(dir.join("src")).context(dir.display())?;
        let manifest = format!(
            "[package]\nname = \"api\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n\
             [dependencies]\ntokio = {{ version = \"={version}\", features = {:?} }}\n",
            setup.features
        );
        fs::write(dir.join("Cargo.toml"), manifest).context(dir.display())?;
        fs::write(dir.join("src/lib.rs"), "").context(dir.display())?;
        let target = folder().join("real");
        forget(&target)?;
        let mut command = toolchain::unstable_cargo();
        command
            .current_dir(&dir)
            .args(["doc", "-q", "--no-deps", "-p", "tokio"])
            .env("RUSTDOCFLAGS", setup.flags())
            .env("CARGO_TARGET_DIR", &target);
        if setup.unstable {
            // Some of its dependencies hang on the cfg, which cargo reads from here.
            command.env("RUSTFLAGS", "--cfg tokio_unstable");
        }
        sh::read(&mut command)?;
        fs::copy(target.join("doc/tokio.json"), &kept).context(kept.display())?;
    }
    Library::read(&[kept])
}

/// The façade, with the crates that it re-exports.
pub(super) fn facade(setup: &Setup) -> Outcome<Library> {
    let target = folder().join(match setup.unstable {
        true => "facade-unstable",
        false => "facade",
    });
    forget(&target)?;
    let mut command = in_facade(&target);
    command
        .args(["doc", "-q", "--no-deps", "--lib", "-p", "tokio"])
        .args(["--features", &setup.features()])
        .env("RUSTDOCFLAGS", setup.flags());
    if setup.unstable {
        // The crates behind it have more then, and the features of the façade say what.
        for package in ENGINE {
            command.args(["-p", package]);
        }
        command.env("RUSTFLAGS", "--cfg tokio_unstable");
    }
    sh::read(&mut command)?;
    let mut files = vec![target.join("doc/tokio.json")];
    files.extend(ENGINE.map(|package| {
        let file = package.replace('-', "_");
        target.join(format!("doc/{file}.json"))
    }));
    Library::read(&files)
}

/// Describes the crates behind the façade, which do not depend on its features without
/// `--cfg tokio_unstable`.
pub(super) fn describe_engine() -> Outcome {
    let mut command = in_facade(&folder().join("facade"));
    command.args(["doc", "-q", "--no-deps", "--lib"]);
    for package in ENGINE {
        command.args(["-p", package]);
    }
    sh::read(command.env("RUSTDOCFLAGS", FLAGS)).map(drop)
}

fn in_facade(target: &Path) -> Command {
    let mut command = toolchain::unstable_cargo();
    command
        .current_dir(sh::root().join("compat/tokio"))
        .env("CARGO_TARGET_DIR", target);
    command
}

/// J1.
fn forget(target: &Path) -> Outcome {
    let Ok(entries) = fs::read_dir(target.join("debug/.fingerprint")) else {
        return Ok(()); // nothing was built yet
    };
    for entry in entries {
        let path = entry.context(target.display())?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let hash = name.strip_prefix("tokio-").unwrap_or_default();
        if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            fs::remove_dir_all(&path).context(path.display())?;
        }
    }
    Ok(())
}
