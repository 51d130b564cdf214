//! Which of Tokio's public items the façade lacks.
//!
//! `compat/suite/paths.txt` names them: a path, then its methods, constants and variants.
//! A file is generated that mentions each on a line of its own, the compiler reads it, and
//! the lines it does not understand are what is missing. It stops at the first stage with
//! errors (imports, then names, then types), so the lines are taken out and it reads again
//! until it knows all that is left.
//!
//! Only existence is looked at. Signatures are the published tests' business.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::sh::{self, Context, Failure, Outcome, Tally};

/// What the compiler says of a path that leads nowhere: unresolved imports, paths, names,
/// types, associated items and methods, and private ones.
const UNKNOWN: [&str; 9] = [
    "E0405", "E0412", "E0423", "E0425", "E0432", "E0433", "E0576", "E0599", "E0603",
];

/// One item: how it is called, and the line that mentions it.
struct Mention {
    path: String,
    line: String,
}

/// `--real` looks at the real tokio: the list is right when nothing is missing there.
/// Other arguments choose the paths that start with one of them.
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

/// The items of the list. A member is mentioned in a function of its own, so that an error
/// in one does not hide another; that its type's parameters cannot be guessed is an error
/// too, but not one that is counted.
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

/// Compiles all mentions but those known to be missing, and gives those that are unknown.
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
            "cargo check said nothing:\n{}",
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    Ok(unknown)
}

/// What is missing, by module; of a missing type its members are not told.
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
        "\n{} of {} items are there",
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
