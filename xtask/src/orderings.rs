//! Weakens every memory ordering in turn, and looks for a model that fails without it.
//!
//! A copy of the crates is changed so that each ordering above `Relaxed` is asked for by number:
//! one build serves all of them, and a variable names the one to weaken. An ordering becomes
//! `Relaxed`, a `SeqCst` fence `AcqRel`. Models and tests stay as they are.
//!
//! The results are in `docs/orderings.md`, by file and function. An ordering without which all
//! models pass is listed, too: it is not wrong, but no model proves that it is needed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use crate::harness;
use crate::loom::{self, Bounds, Model};
use crate::sh::{self, Context, Outcome, Tally};

const STRONG: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];

/// The environment variable with the number of the ordering to weaken.
const CHOSEN: &str = "BLITZEN_WEAKENED";

/// A weakened ordering makes a search longer. One that is not over by then proves nothing.
const LIMIT: Duration = Duration::from_secs(60);

/// What the copy of `util` gets.
const FUNCTIONS: &str = "
#[doc(hidden)]
pub fn is_weakened(number: u32) -> bool {
    static CHOSEN: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let read = || std::env::var(\"BLITZEN_WEAKENED\").map_or(0, |number| number.parse().unwrap());
    *CHOSEN.get_or_init(read) == number
}
#[doc(hidden)]
pub fn weakened(number: u32, order: atomic::Ordering) -> atomic::Ordering {
    if is_weakened(number) { atomic::Ordering::Relaxed } else { order }
}
#[doc(hidden)]
pub fn weakened_fence(number: u32, order: atomic::Ordering) -> atomic::Ordering {
    use atomic::Ordering::*;
    match order {
        order if !is_weakened(number) => order,
        SeqCst => AcqRel,
        Acquire => Release,
        _ => Acquire,
    }
}
";

/// One ordering in the sources.
#[derive(Debug, PartialEq, Eq)]
struct Site {
    number: u32,
    /// The path from the root.
    file: String,
    function: String,
    /// `AcqRel`, or `fence(SeqCst)`.
    ordering: String,
}

/// What was found for one ordering: the model that fails without it.
type Found = BTreeMap<u32, Option<String>>;

/// Weakens the orderings in files whose path holds one of the arguments; all without arguments,
/// and then writes `docs/orderings.md`.
pub(crate) fn run(args: &[String]) -> Outcome<Tally> {
    let copy = sh::target().join("orderings");
    let sites = copy_weakened(&copy)?;
    let models = loom::build(&copy)?;
    let bounds = Bounds::read(&models)?;
    let is_chosen =
        |site: &&Site| args.is_empty() || args.iter().any(|part| site.file.contains(part.as_str()));
    let chosen: Vec<&Site> = sites.iter().filter(is_chosen).collect();
    let found = Mutex::new(Found::new());
    harness::for_each_on_all_cores(chosen.iter().copied(), |site| {
        let failed = find_failure(site, &models, &bounds)?;
        println!(
            "{} {} {}: {}",
            site.file,
            site.function,
            site.ordering,
            failed.as_deref().unwrap_or("no model fails")
        );
        let mut found = found.lock().expect("no worker panics");
        found.insert(site.number, failed);
        Ok(())
    })?;
    let found = found.into_inner().expect("no worker panics");
    let proved = found.values().flatten().count();
    println!(
        "{proved} of {} orderings have a model that fails",
        found.len()
    );
    if args.is_empty() {
        let path = sh::root().join("docs/orderings.md");
        sh::write_if_changed(&path, &page(&sites, &found))?;
    }
    Ok(Tally {
        passed: proved,
        failed: 0,
    })
}

/// Searches the models of the site's crate, those of its file first, until one fails.
fn find_failure(site: &Site, models: &[Model], bounds: &Bounds) -> Outcome<Option<String>> {
    let module = module_path(&site.file);
    let krate = module.split("::").next().unwrap_or_default();
    let is_near = |model: &&&Model| model.path().starts_with(&format!("{module}::"));
    let of_crate: Vec<&Model> = models
        .iter()
        .filter(|model| model.path().split("::").next() == Some(krate))
        .collect();
    let near = of_crate.iter().filter(is_near);
    let far = of_crate.iter().filter(|model| !is_near(model));
    for model in near.chain(far) {
        let weakened = (CHOSEN, site.number.to_string());
        if loom::fails(model, bounds, LIMIT, weakened)? {
            return Ok(Some(model.path()));
        }
    }
    Ok(None)
}

/// `crates/sync/src/channel/oneshot.rs` is `blitzen_sync::channel::oneshot`.
fn module_path(file: &str) -> String {
    let path = file.trim_start_matches("crates/").trim_end_matches(".rs");
    let path = path.replacen("/src", "", 1).replace('/', "::");
    let path = path.trim_end_matches("::mod").trim_end_matches("::lib");
    format!("blitzen_{path}")
}

/// Copies the crates, with every ordering made weakenable.
fn copy_weakened(copy: &Path) -> Outcome<Vec<Site>> {
    let manifest = fs::read_to_string(sh::root().join("Cargo.toml")).context("Cargo.toml")?;
    let members = "members = [\"crates/*\"]";
    let manifest: Vec<&str> = manifest
        .lines()
        .map(|line| {
            if line.starts_with("members = ") {
                members
            } else {
                line
            }
        })
        .collect();
    sh::write_if_changed(&copy.join("Cargo.toml"), &(manifest.join("\n") + "\n"))?;
    fs::copy(sh::root().join("Cargo.lock"), copy.join("Cargo.lock")).context("Cargo.lock")?;
    let mut sites = Vec::new();
    for package in sh::library_packages()? {
        let folder = package.dir.strip_prefix(sh::root()).unwrap_or(&package.dir);
        for name in ["Cargo.toml", "build.rs"] {
            if let Ok(text) = fs::read_to_string(package.dir.join(name)) {
                sh::write_if_changed(&copy.join(folder).join(name), &text)?;
            }
        }
        let has_models = loom::has_models(&package.dir.join("src"))?;
        for (path, text) in sorted(sh::rust_files(&package.dir.join("src"))?) {
            let file = path.strip_prefix(sh::root()).unwrap_or(&path);
            let text = match has_models {
                true => weaken(&text, &file.display().to_string(), &mut sites),
                false => text,
            };
            sh::write_if_changed(&copy.join(file), &text)?;
        }
        copy_other_files(&package.dir.join("src"), &copy.join(folder).join("src"))?;
    }
    // The examples that the manifests name.
    let examples = sh::root().join("examples");
    for (path, text) in sh::rust_files(&examples)? {
        let file = path.strip_prefix(sh::root()).unwrap_or(&path);
        sh::write_if_changed(&copy.join(file), &text)?;
    }
    Ok(sites)
}

fn sorted(mut files: Vec<(PathBuf, String)>) -> Vec<(PathBuf, String)> {
    files.sort();
    files
}

/// Copies what the sources include, such as pages of documentation.
fn copy_other_files(from: &Path, to: &Path) -> Outcome {
    for entry in fs::read_dir(from).context(from.display())? {
        let path = entry.context(from.display())?.path();
        let to = to.join(path.file_name().expect("an entry has a name"));
        if path.is_dir() {
            copy_other_files(&path, &to)?;
        } else if path.extension().is_none_or(|extension| extension != "rs") {
            fs::create_dir_all(to.parent().expect("a file lies in a folder"))
                .context(to.display())?;
            fs::copy(&path, &to).context(path.display())?;
        }
    }
    Ok(())
}

/// Makes the orderings of one file weakenable, up to its tests.
fn weaken(text: &str, file: &str, sites: &mut Vec<Site>) -> String {
    if file.ends_with("model.rs") {
        return text.to_owned();
    }
    let shim = match file.starts_with("crates/util/") {
        true => "crate::shim",
        false => "blitzen_util::shim",
    };
    let mut new = String::new();
    let mut function = String::new();
    let (mut in_use, mut in_tests) = (false, false);
    for line in text.lines() {
        let code = line.trim_start();
        in_tests |= line.starts_with("#[cfg(all(test") || line.starts_with("#[cfg(test");
        in_use |= code.starts_with("use ") || code.starts_with("pub use ");
        if let Some(name) = function_name(code) {
            function = name.to_owned();
        }
        if in_tests || in_use || code.starts_with("//") {
            new += line;
        } else {
            new += &weaken_line(line, shim, |ordering| {
                let number = sites.len() as u32 + 1;
                sites.push(Site {
                    number,
                    file: file.to_owned(),
                    function: function.clone(),
                    ordering,
                });
                number
            });
        }
        new += "\n";
        in_use &= !code.contains(';');
    }
    if file == "crates/util/src/shim.rs" {
        new += FUNCTIONS;
    }
    new
}

/// The name of the function that begins in this line.
fn function_name(code: &str) -> Option<&str> {
    let (before, after) = code.split_once("fn ")?;
    let is_definition = before
        .split_whitespace()
        .all(|word| matches!(word, "const" | "unsafe" | "async") || word.starts_with("pub"));
    let name = after.split(['(', '<']).next()?;
    (is_definition && !name.is_empty()).then_some(name)
}

/// Replaces the orderings among the arguments in a line.
fn weaken_line(line: &str, shim: &str, mut number: impl FnMut(String) -> u32) -> String {
    let mut new = String::new();
    let mut rest = line;
    let code_end = line.find(" // ").unwrap_or(line.len());
    loop {
        let done = line.len() - rest.len();
        let next = STRONG
            .iter()
            .filter_map(|word| Some((find_argument(rest, done, word)?, *word)))
            .filter(|(at, _)| done + at < code_end)
            .min();
        let Some((at, word)) = next else {
            return new + rest;
        };
        let before = &rest[..at];
        let is_fence = before.ends_with("fence(");
        let (function, name) = match is_fence {
            true => ("weakened_fence", format!("fence({word})")),
            false => ("weakened", word.to_owned()),
        };
        let _ = write!(new, "{before}{shim}::{function}({}, {word})", number(name));
        rest = &rest[at + word.len()..];
    }
}

/// Where `word` stands as an argument of its own.
fn find_argument(rest: &str, done: usize, word: &str) -> Option<usize> {
    rest.match_indices(word).map(|(at, _)| at).find(|&at| {
        let before = rest[..at].chars().next_back();
        let after = rest[at + word.len()..].chars().next();
        let begins = matches!(before, Some('(' | ' ')) || (done == 0 && at == 0);
        begins && matches!(after, Some(')' | ','))
    })
}

/// The page with the results.
fn page(sites: &[Site], found: &Found) -> String {
    let mut text = String::from(
        "# Memory orderings and their models\n\n\
         `cargo xtask orderings` writes this page. It weakens every ordering of the crates that have\n\
         loom models, one at a time (`Acquire`, `Release` and `AcqRel` to `Relaxed`, a `SeqCst` fence to\n\
         `AcqRel`), and searches the models of the crate until one fails. See\n\
         [platforms.md](platforms.md#weakly-ordered-processors).\n",
    );
    let proved = found.values().flatten().count();
    let _ = write!(
        text,
        "\n{proved} of {} orderings have a model that fails without them. The others are not wrong, but no\n\
         model shows that they are needed.\n",
        found.len()
    );
    let mut file = "";
    for site in sites {
        let Some(failed) = found.get(&site.number) else {
            continue;
        };
        if site.file != file {
            file = &site.file;
            let _ = write!(
                text,
                "\n## `{file}`\n\n| function | ordering | fails |\n|---|---|---|\n"
            );
        }
        let failed = match failed {
            Some(model) => format!("`{model}`"),
            None => "none".to_owned(),
        };
        let _ = writeln!(
            text,
            "| `{}` | `{}` | {failed} |",
            site.function, site.ordering
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orderings_are_replaced_and_nothing_else_is() {
        let text = "\
use std::sync::atomic::{
    Ordering::{Acquire, Release},
};
/// With `Acquire`, in a comment.
pub(crate) fn push(&self) {
    fence(SeqCst); // fence(SeqCst)
    self.0.compare_exchange(a, b, AcqRel, Relaxed);
        Acquire,
    let _release = Release(data);
}
#[cfg(test)]
mod tests { x.load(Acquire) }
";
        let mut sites = Vec::new();
        let new = weaken(text, "crates/sync/src/a.rs", &mut sites);
        let shim = "blitzen_util::shim";
        let expected = text
            .replacen(
                "fence(SeqCst);",
                &format!("fence({shim}::weakened_fence(1, SeqCst));"),
                1,
            )
            .replace("AcqRel,", &format!("{shim}::weakened(2, AcqRel),"))
            .replace(
                "        Acquire,",
                &format!("        {shim}::weakened(3, Acquire),"),
            );
        assert_eq!(new, expected);
        let found: Vec<_> = sites
            .iter()
            .map(|site| (site.function.as_str(), site.ordering.as_str()))
            .collect();
        let in_push = ["fence(SeqCst)", "AcqRel", "Acquire"].map(|ordering| ("push", ordering));
        assert_eq!(found, in_push);
    }

    #[test]
    fn a_file_is_a_module() {
        let module = |file| module_path(file);
        assert_eq!(
            module("crates/sync/src/channel/oneshot.rs"),
            "blitzen_sync::channel::oneshot"
        );
        assert_eq!(
            module("crates/driver/src/ring/mod.rs"),
            "blitzen_driver::ring"
        );
    }
}
