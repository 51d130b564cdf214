//! Finds the public items of Tokio's that the façade lacks.
//!
//! `compat/suite/paths.txt` lists them: a path, then its methods, constants and variants. A
//! generated file mentions each on a line of its own; a line that does not compile names an
//! item that is missing. The compiler stops at the first stage with errors (imports, then
//! names, then types), so these lines are removed and it runs again, until there are none.
//!
//! This checks only that the items exist. The published tests check their signatures.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::sh::{self, Context, Failure, Outcome, Tally};

/// The compiler's codes for an item that does not exist: unresolved imports, paths, names,
/// types, associated items and methods, and private items.
const UNKNOWN: [&str; 9] = [
    "E0405", "E0412", "E0423", "E0425", "E0432", "E0433", "E0576", "E0599", "E0603",
];

/// One item: its path, and the line that mentions it.
struct Mention {
    path: String,
    line: String,
}

/// `--real` checks the real tokio: if nothing is missing there, the list is right. Other
/// arguments choose the paths that start with one of them.
pub(crate) fn run(args: &[String]) -> Outcome<Tally> {
    let (flags, prefixes): (Vec<&String>, Vec<&String>) =
        args.iter().partition(|arg| arg.starts_with("--"));
    let real = flags.iter().any(|flag| *flag == "--real");
    let list = sh::root().join("compat/suite/paths.txt");
    let mut mentions = mentions(&fs::read_to_string(&list).context(list.display())?);
    mentions.retain(|mention| {
        prefixes.is_empty()
            || prefixes
                .iter()
                .any(|prefix| mention.path.starts_with(prefix.as_str()))
    });

    let dir = sh::target()
        .join("api")
        .join(if real { "real" } else { "facade" });
    fs::create_dir_all(dir.join("src")).context(dir.display())?;
    fs::write(dir.join("Cargo.toml"), manifest(real)).context(dir.display())?;
    let mut missing: BTreeSet<usize> = BTreeSet::new();
    loop {
        let unknown = unknown_lines(&dir, &mentions, &missing)?;
        if unknown.is_empty() {
            break;
        }
        missing.extend(unknown);
    }
    report(&mentions, &missing);
    let tally = Tally {
        passed: mentions.len() - missing.len(),
        failed: missing.len(),
    };
    if missing.is_empty() {
        Ok(tally)
    } else {
        Err(Failure {
            why: format!("{} of {} items are missing", missing.len(), mentions.len()),
            tally,
        })
    }
}

/// Reads the list. Each member is mentioned in a function of its own, so that an error in one
/// does not hide another. A type whose parameters cannot be inferred is an error too, but
/// its code is not in [`UNKNOWN`].
fn mentions(list: &str) -> Vec<Mention> {
    let mut mentions = Vec::new();
    for line in list
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let mut words = line.split(' ');
        let path = words.next().expect("split gives at least one part");
        let number = mentions.len();
        mentions.push(Mention {
            path: path.to_owned(),
            line: format!("pub use tokio::{path} as item_{number};"),
        });
        for member in words {
            let number = mentions.len();
            mentions.push(Mention {
                path: format!("{path}::{member}"),
                line: format!("fn member_{number}() {{ let _ = tokio::{path}::{member}; }}"),
            });
        }
    }
    mentions
}

/// Compiles all mentions except those in `missing`, and returns those that fail.
fn unknown_lines(
    dir: &Path,
    mentions: &[Mention],
    missing: &BTreeSet<usize>,
) -> Outcome<BTreeSet<usize>> {
    let lines = mentions.iter().enumerate().map(|(index, mention)| {
        if missing.contains(&index) {
            ""
        } else {
            mention.line.as_str()
        }
    });
    let source = lines.collect::<Vec<_>>().join("\n");
    fs::write(dir.join("src/lib.rs"), source).context(dir.display())?;
    let mut command = sh::cargo();
    command
        .current_dir(dir)
        .args(["check", "--message-format=json"])
        .env("CARGO_TARGET_DIR", sh::target().join("api/build"))
        .env("RUSTFLAGS", "-Awarnings");
    let output = command.output().context("cargo check")?;
    let mut unknown = BTreeSet::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(line).context("reading cargo's messages")?;
        if message["reason"] != "compiler-message" || message["message"]["level"] != "error" {
            continue;
        }
        if message["target"]["name"] != "api_paths" {
            let said = message["message"]["rendered"].as_str().unwrap_or_default();
            return Err(format!("{} does not compile:\n{said}", message["target"]["name"]).into());
        }
        let code = message["message"]["code"]["code"]
            .as_str()
            .unwrap_or_default();
        if UNKNOWN.contains(&code) {
            let spans = message["message"]["spans"].as_array().into_iter().flatten();
            unknown.extend(
                spans
                    .filter(|span| span["is_primary"] == true)
                    .filter_map(|span| Some(span["line_start"].as_u64()? as usize - 1)),
            );
        }
    }
    if unknown.is_empty() && output.stdout.is_empty() {
        return Err(format!(
            "cargo check printed nothing:\n{}",
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    Ok(unknown)
}

/// Prints what is missing, by module; members of a missing type are left out.
fn report(mentions: &[Mention], missing: &BTreeSet<usize>) {
    let is_missing = |path: &str| missing.iter().any(|index| mentions[*index].path == path);
    let mut module = None;
    for index in missing {
        let path = &mentions[*index].path;
        let (parent, name) = path.rsplit_once("::").unwrap_or(("", path));
        if is_missing(parent) {
            continue;
        }
        if module != Some(parent) {
            print!(
                "{}tokio{}{parent}:",
                if module.is_some() { "\n" } else { "" },
                if parent.is_empty() { "" } else { "::" }
            );
            module = Some(parent);
        }
        print!(" {name}");
    }
    println!(
        "\n{} of {} items exist",
        mentions.len() - missing.len(),
        mentions.len()
    );
}

fn manifest(real: bool) -> String {
    let facade = sh::root().join("compat/tokio");
    let source = if real {
        String::new()
    } else {
        format!(", path = {:?}", facade.display().to_string())
    };
    format!(
        "[package]\nname = \"api_paths\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n\
         [dependencies]\ntokio = {{ version = \"1.54.1\", features = [\"full\", \"test-util\"]{source} }}\n"
    )
}
