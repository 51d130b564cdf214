//! Weakens every memory ordering in turn, and looks for a model that fails without it.
//!
//! A copy of the crates is changed so that each ordering above `Relaxed` is asked for by number:
//! one build serves all of them, and a variable names the one to weaken. An ordering becomes
//! `Relaxed`, a `SeqCst` fence `AcqRel`. An `AcqRel` counts as two orderings: without its Acquire
//! half it becomes `Release`, without its Release half `Acquire`. Models and tests stay as they are.
//!
//! First every model is searched once with nothing weakened, and notes the orderings that it
//! reaches. An ordering is then looked for in these models only, those of its file first and the
//! shorter ones before the longer ones.
//!
//! The results are in `docs/orderings.md`, by file and function. An ordering without which all
//! models pass must be in `xtask/orderings-without-model.txt`, with the reason; one that is listed
//! there and has a model is an error, too. So each ordering of a crate without models has its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::harness;
use crate::loom::{self, Bounds, Model};
use crate::sh::{self, Context, Failure, Outcome, Tally};

const PAGE: &str = "docs/orderings.md";

const REASONS: &str = "xtask/orderings-without-model.txt";

const STRONG: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];

/// The environment variable with the number of the ordering to weaken.
const CHOSEN: &str = "BLITZEN_WEAKENED";

/// The environment variable with the path of the file for the numbers of the orderings that a model
/// reaches.
const REACHED: &str = "BLITZEN_REACHED";

/// A weakened ordering makes a search longer. One that is not over by then proves nothing.
const LIMIT: Duration = Duration::from_secs(60);

/// What the copy of `util` gets.
const FUNCTIONS: &str = "
#[doc(hidden)]
pub fn is_weakened(number: u32) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<u32>> = std::sync::OnceLock::new();
    let read = || Some(std::env::var(\"BLITZEN_WEAKENED\").ok()?.parse().unwrap());
    match *CHOSEN.get_or_init(read) {
        Some(chosen) => chosen == number,
        None => {
            note_reached(number);
            false
        }
    }
}
fn note_reached(number: u32) {
    static REACHED: std::sync::Mutex<Vec<u32>> = std::sync::Mutex::new(Vec::new());
    let mut reached = REACHED.lock().unwrap();
    let Some(path) = std::env::var_os(\"BLITZEN_REACHED\") else { return };
    if !reached.contains(&number) {
        reached.push(number);
        let mut file = std::fs::File::options().append(true).create(true).open(path).unwrap();
        std::io::Write::write_all(&mut file, format!(\"{number}\\n\").as_bytes()).unwrap();
    }
}
#[doc(hidden)]
pub fn weakened(number: u32, order: atomic::Ordering) -> atomic::Ordering {
    use atomic::Ordering::*;
    match order {
        // Each half has a number.
        AcqRel if is_weakened(number) => Release,
        AcqRel if is_weakened(number + 1) => Acquire,
        AcqRel => AcqRel,
        _ if is_weakened(number) => Relaxed,
        _ => order,
    }
}
#[doc(hidden)]
pub fn weakened_fence(number: u32, order: atomic::Ordering) -> atomic::Ordering {
    use atomic::Ordering::*;
    match order {
        AcqRel => weakened(number, AcqRel),
        _ if !is_weakened(number) => order,
        SeqCst => AcqRel,
        Acquire => Release,
        _ => Acquire,
    }
}
";

/// One ordering in the sources, or half of an `AcqRel`.
#[derive(Debug, PartialEq, Eq)]
struct Site {
    number: u32,
    /// The path from the root.
    file: String,
    function: String,
    /// `Acquire`, `fence(SeqCst)`, or `AcqRel:Acquire` for the Acquire half of an `AcqRel`.
    ordering: String,
    /// How many of the same kind the function has before it.
    earlier: usize,
    /// Whether its crate has models.
    has_models: bool,
}

impl Site {
    /// `crates/util/src/lock.rs wait Acquire`, or `…Acquire#2` for the second one of a function.
    fn key(&self) -> String {
        format!("{} {} {}", self.file, self.function, self.nth_ordering())
    }

    fn nth_ordering(&self) -> String {
        match self.earlier {
            0 => self.ordering.clone(),
            earlier => format!("{}#{}", self.ordering, earlier + 1),
        }
    }

    /// How its line of the page begins.
    fn first_cells(&self) -> String {
        format!("| `{}` | `{}` | ", self.function, self.nth_ordering())
    }
}

/// A model, and what it reaches.
struct Reach<'a> {
    model: &'a Model,
    numbers: BTreeSet<u32>,
    /// How long the search takes with nothing weakened.
    took: Duration,
}

/// What was found for one ordering: the model that fails without it.
type Found = BTreeMap<u32, Option<String>>;

/// Weakens the orderings whose file, function or name holds one of the arguments, all without
/// arguments, and writes what was found into `docs/orderings.md`.
pub(crate) fn run(args: &[String]) -> Outcome<Tally> {
    let copy = sh::target().join("orderings");
    let sites = copy_weakened(&copy)?;
    let is_chosen =
        |site: &&Site| args.is_empty() || args.iter().any(|part| site.key().contains(part));
    let chosen: Vec<&Site> = sites.iter().filter(is_chosen).collect();
    let models = match chosen.iter().any(|site| site.has_models) {
        true => loom::build(&copy, |folder| {
            let is_inside = |site: &&Site| sh::root().join(&site.file).starts_with(folder);
            chosen.iter().any(is_inside)
        })?,
        false => Vec::new(),
    };
    let bounds = Bounds::read_unchecked()?;
    let reaches = find_reaches(&models, &bounds)?;
    let found = Mutex::new(Found::new());
    harness::for_each_on_all_cores(chosen.iter().copied(), |site| {
        let failed = find_failure(site, &reaches, &bounds)?;
        println!(
            "{}: {}",
            site.key(),
            failed.as_deref().unwrap_or("no model fails")
        );
        let mut found = found.lock().expect("no worker panics");
        found.insert(site.number, failed);
        Ok(())
    })?;
    let found = found.into_inner().expect("no worker panics");
    let tally = Tally {
        passed: found.values().flatten().count(),
        failed: found.values().filter(|model| model.is_none()).count(),
    };
    println!(
        "{} of {} orderings have a model that fails",
        tally.passed,
        found.len()
    );
    let reasons = Reasons::read()?;
    let path = sh::root().join(PAGE);
    let old = fs::read_to_string(&path).unwrap_or_default();
    sh::write_if_changed(&path, &page(&sites, &found, &old, &reasons))?;
    match reasons.complaint(&sites, &found) {
        None => Ok(tally),
        Some(why) => Err(Failure { why, tally }),
    }
}

/// Why some orderings have no model that fails without them.
struct Reasons(BTreeMap<String, String>);

impl Reasons {
    fn read() -> Outcome<Self> {
        let path = sh::root().join(REASONS);
        Self::parse(&fs::read_to_string(&path).context(path.display())?)
    }

    /// Reads lines of `file function ordering reason`.
    fn parse(text: &str) -> Outcome<Self> {
        let mut reasons = BTreeMap::new();
        for line in text.lines() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut spaces = line.match_indices(' ').map(|(at, _)| at);
            let Some(end) = spaces.nth(2) else {
                return Err(
                    format!("{REASONS}: not `file function ordering reason`: {line}").into(),
                );
            };
            let (site, reason) = line.split_at(end);
            reasons.insert(site.to_owned(), reason.trim().to_owned());
        }
        Ok(Self(reasons))
    }

    fn of(&self, site: &Site) -> Option<&str> {
        self.0.get(&site.key()).map(String::as_str)
    }

    /// What is not listed and should be, and what is listed and should not be.
    fn complaint(&self, sites: &[Site], found: &Found) -> Option<String> {
        let mut why = String::new();
        for site in sites {
            let is_listed = self.of(site).is_some();
            match found.get(&site.number) {
                Some(None) if !is_listed => {
                    let _ = writeln!(
                        why,
                        "no model fails, and no reason in {REASONS}: {}",
                        site.key()
                    );
                }
                Some(Some(model)) if is_listed => {
                    let _ = writeln!(why, "in {REASONS}, but {model} fails: {}", site.key());
                }
                _ => {}
            }
        }
        for key in self.0.keys() {
            if !sites.iter().any(|site| site.key() == *key) {
                let _ = writeln!(why, "in {REASONS}, but not in the sources: {key}");
            }
        }
        (!why.is_empty()).then(|| format!("\n{why}"))
    }
}

/// Searches each model with nothing weakened, and notes what it reaches.
fn find_reaches<'a>(models: &'a [Model], bounds: &Bounds) -> Outcome<Vec<Reach<'a>>> {
    let folder = sh::target().join("loom/reached");
    // What an earlier run has noted is of other sources.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).context(folder.display())?;
    let reaches = Mutex::new(Vec::new());
    harness::for_each_on_all_cores(models.iter().enumerate(), |(index, model)| {
        let file = folder.join(format!("reached-{index}"));
        let start = Instant::now();
        let variable = (REACHED, file.display().to_string());
        if loom::fails(model, bounds, LIMIT, variable)? {
            return Err(format!("{} fails with nothing weakened", model.path()).into());
        }
        let took = start.elapsed();
        // A model of something else has no file.
        let numbers = fs::read_to_string(&file).unwrap_or_default();
        let numbers = numbers.lines().filter_map(|line| line.parse().ok());
        let reach = Reach {
            model,
            numbers: numbers.collect(),
            took,
        };
        reaches.lock().expect("no worker panics").push(reach);
        Ok(())
    })?;
    let mut reaches = reaches.into_inner().expect("no worker panics");
    reaches.sort_by_key(|reach| reach.took);
    Ok(reaches)
}

/// Searches the models that reach the site, those of its file first, until one fails.
fn find_failure(site: &Site, reaches: &[Reach<'_>], bounds: &Bounds) -> Outcome<Option<String>> {
    let module = format!("{}::", module_path(&site.file));
    let mut reaching: Vec<&Model> = reaches
        .iter()
        .filter(|reach| reach.numbers.contains(&site.number))
        .map(|reach| reach.model)
        .collect();
    reaching.sort_by_key(|model| !model.path().starts_with(&module));
    for model in reaching {
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
        weaken_package(&package.dir, &mut sites, |file, text| {
            sh::write_if_changed(&copy.join(file), text)
        })?;
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

/// Appends the orderings of the package in `folder` to `sites`, and calls `write` with the path
/// from the root and the new text of each of its files.
fn weaken_package(
    folder: &Path,
    sites: &mut Vec<Site>,
    mut write: impl FnMut(&Path, &str) -> Outcome,
) -> Outcome {
    let has_models = loom::has_models(&folder.join("src"))?;
    for (path, text) in sorted(sh::rust_files(&folder.join("src"))?) {
        let file = path.strip_prefix(sh::root()).unwrap_or(&path);
        let weakened = weaken(&text, &file.display().to_string(), has_models, sites);
        write(file, if has_models { &weakened } else { &text })?;
    }
    Ok(())
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

/// Makes the orderings of one file weakenable, but for those of its tests.
fn weaken(text: &str, file: &str, has_models: bool, sites: &mut Vec<Site>) -> String {
    if file.ends_with("model.rs") {
        return text.to_owned();
    }
    let shim = match file.starts_with("crates/util/") {
        true => "crate::shim",
        false => "blitzen_util::shim",
    };
    let mut new = String::new();
    let mut function = String::new();
    for (line, is_code) in marked_lines(text) {
        if let Some(name) = function_name(line.trim_start()) {
            function = name.to_owned();
        }
        if !is_code {
            new += line;
        } else {
            new += &weaken_line(line, shim, |ordering| {
                let number = sites.len() as u32 + 1;
                let is_same = |site: &&Site| {
                    site.file == file && site.function == function && site.ordering == ordering
                };
                let earlier = sites.iter().filter(is_same).count();
                sites.push(Site {
                    number,
                    file: file.to_owned(),
                    function: function.clone(),
                    ordering,
                    earlier,
                    has_models,
                });
                number
            });
        }
        new += "\n";
    }
    if file == "crates/util/src/shim.rs" {
        new += FUNCTIONS;
    }
    new
}

/// The lines, and whether they are code that may be weakened: no import, no comment and no test.
fn marked_lines(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let (mut in_use, mut place) = (false, Place::Code);
    text.lines().map(move |line| {
        let code = line.trim_start();
        if line.starts_with("#[cfg(all(test") || line.starts_with("#[cfg(test") {
            place = Place::TestHead;
        }
        in_use |= code.starts_with("use ") || code.starts_with("pub use ");
        let is_code = place == Place::Code && !in_use && !code.starts_with("//");
        in_use &= !code.contains(';');
        place = place.after(line);
        (line, is_code)
    })
}

/// Where a line is: in code, or in an item of a file that only tests have. Such an item begins at the
/// left edge, and so does the brace at its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Code,
    /// From the attribute to the brace or the semicolon.
    TestHead,
    TestBody,
}

impl Place {
    fn after(self, line: &str) -> Self {
        let is_no_code = line.starts_with("//") || line.starts_with("#[");
        match self {
            Self::TestHead if is_no_code => self,
            Self::TestHead if line.ends_with('{') => Self::TestBody,
            Self::TestHead if line.ends_with([';', '}']) => Self::Code,
            Self::TestBody if line.starts_with('}') => Self::Code,
            place => place,
        }
    }
}

/// The code of a line, without the comment at its end.
fn code_of(line: &str) -> &str {
    line.split(" // ").next().unwrap_or(line)
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
    let code_end = code_of(line).len();
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
        let first = match word {
            "AcqRel" => {
                let first = number(format!("{name}:Acquire"));
                number(format!("{name}:Release"));
                first
            }
            _ => number(name),
        };
        let _ = write!(new, "{before}{shim}::{function}({first}, {word})");
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

/// The page with the results. Orderings that were not weakened this time keep their lines of
/// the `old` page.
fn page(sites: &[Site], found: &Found, old: &str, reasons: &Reasons) -> String {
    let mut sections = String::new();
    let (mut proved, mut explained, mut open) = (0, 0, 0);
    let mut file = "";
    for site in sites {
        if site.file != file {
            file = &site.file;
            let _ = write!(
                sections,
                "\n## `{file}`\n\n| function | ordering | fails without it |\n|---|---|---|\n"
            );
        }
        let result = match (found.get(&site.number), reasons.of(site)) {
            (Some(Some(model)), _) => format!("`{model}`"),
            (_, Some(reason)) => format!("none: {reason}"),
            (Some(None), None) => "none".to_owned(),
            (None, None) => old_result(old, site).unwrap_or("not looked for").to_owned(),
        };
        match result.as_str() {
            "none" | "not looked for" => open += 1,
            result if result.starts_with("none: ") => explained += 1,
            _ => proved += 1,
        }
        let _ = writeln!(sections, "{}{result} |", site.first_cells());
    }
    format!(
        "# Memory orderings and their models\n\n\
         `cargo xtask orderings` writes this page. It weakens every ordering of the crates that have\n\
         loom models, one at a time (`Acquire` and `Release` to `Relaxed`, a `SeqCst` fence to `AcqRel`), and\n\
         searches the models that reach it until one fails. An `AcqRel` is two orderings: `AcqRel:Acquire` is\n\
         weakened to `Release`, and `AcqRel:Release` to `Acquire`. In a crate without models each ordering has\n\
         its reason. `#2` is the second of its kind in a function. See\n\
         [platforms.md](platforms.md#weakly-ordered-processors).\n\n\
         Of {} orderings, {proved} have a model that fails without them, {explained} have a reason why no model\n\
         does, and {open} have neither.\n\
         {sections}",
        sites.len()
    )
}

/// The last cell of the site's line in the page.
fn old_result<'a>(page: &'a str, site: &Site) -> Option<&'a str> {
    let key = site.key();
    let mut lines = page_lines(page);
    lines.find_map(|(site, result)| (site == key).then_some(result))
}

/// The keys of the orderings on the page, with what it says of them.
fn page_lines(page: &str) -> impl Iterator<Item = (String, &str)> {
    let mut file = "";
    page.lines().filter_map(move |line| {
        if let Some(heading) = line.strip_prefix("## `") {
            file = heading.strip_suffix('`')?;
        }
        let (function, rest) = line.strip_prefix("| `")?.split_once("` | `")?;
        let (ordering, result) = rest.split_once("` | ")?;
        let key = format!("{file} {function} {ordering}");
        Some((key, result.strip_suffix(" |")?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How the page and the reasons differ from the sources. `functions` are the names of all
    /// functions, by crate.
    fn differences(
        sites: &[Site],
        page: &str,
        reasons: &Reasons,
        functions: &BTreeSet<(String, String)>,
    ) -> Vec<String> {
        let mut differences = Vec::new();
        let results: BTreeMap<String, &str> = page_lines(page).collect();
        for site in sites {
            let key = site.key();
            let why = match (results.get(&key).copied(), reasons.of(site)) {
                (None, _) => format!("not on {PAGE}"),
                (Some("none" | "not looked for"), _) => {
                    format!("neither a model on {PAGE} nor a reason in {REASONS}")
                }
                (Some(result), Some(reason)) if result == format!("none: {reason}") => continue,
                (Some(_), Some(_)) => format!("{PAGE} lacks the reason of {REASONS}"),
                (Some(result), None) if result.starts_with("none: ") => {
                    format!("the reason on {PAGE} is not in {REASONS}")
                }
                (Some(model), None) => {
                    let path = model.trim_matches('`');
                    let krate = path.split("::").next().unwrap_or_default();
                    let function = path.rsplit("::").next().unwrap_or_default();
                    if functions.contains(&(krate.to_owned(), function.to_owned())) {
                        continue;
                    }
                    format!("there is no model {model}")
                }
            };
            differences.push(format!("{key}: {why}"));
        }
        let keys: BTreeSet<String> = sites.iter().map(Site::key).collect();
        let listed = results.keys().map(|key| (key, PAGE));
        let listed = listed.chain(reasons.0.keys().map(|key| (key, REASONS)));
        for (key, list) in listed.filter(|(key, _)| !keys.contains(*key)) {
            differences.push(format!("{key}: in {list}, but not in the sources"));
        }
        differences
    }

    /// What the lists say of orderings has to be of these sources: a new ordering needs a search
    /// for its model.
    #[test]
    fn the_lists_have_every_ordering_of_the_sources_and_no_other() {
        let (mut sites, mut functions) = (Vec::new(), BTreeSet::new());
        for package in sh::library_packages().unwrap() {
            let krate = package.name.replace('-', "_");
            weaken_package(&package.dir, &mut sites, |_, text| {
                let names = text.lines().map(str::trim_start).filter_map(function_name);
                functions.extend(names.map(|name| (krate.clone(), name.to_owned())));
                Ok(())
            })
            .unwrap();
        }
        let page_text = fs::read_to_string(sh::root().join(PAGE)).unwrap();
        let reasons = Reasons::read().unwrap();
        let differences = differences(&sites, &page_text, &reasons, &functions);
        assert!(
            differences.is_empty(),
            "run `cargo xtask orderings <part of the path>` for these orderings:\n{}",
            differences.join("\n")
        );
        let expected = page(&sites, &Found::new(), &page_text, &reasons);
        assert_eq!(page_text, expected, "`cargo xtask orderings` writes {PAGE}");
    }

    #[test]
    fn a_difference_is_found_both_ways() {
        let functions = BTreeSet::from([("blitzen_util".to_owned(), "m".to_owned())]);
        let reasons = Reasons::parse("crates/util/src/a.rs wait Acquire#2 the kernel\n").unwrap();
        let found = Found::from([(1, Some("blitzen_util::a::m".to_owned()))]);
        let text = page(&sites(), &found, "", &reasons);
        let differ = |sites: &[Site], text: &str, reasons: &Reasons| {
            differences(sites, text, reasons, &functions).join(", ")
        };
        assert_eq!(differ(&sites(), &text, &reasons), "");

        let none = Reasons::parse("").unwrap();
        let why = differ(&sites()[..1], &text, &none);
        assert!(
            why.contains("Acquire#2: in docs/orderings.md, but not"),
            "{why}"
        );
        let why = differ(&sites(), &text, &none);
        assert!(why.contains("is not in xtask/orderings-without"), "{why}");
        let why = differ(
            &sites()[..1],
            &page(&sites()[..1], &found, "", &none),
            &reasons,
        );
        assert!(
            why.contains("Acquire#2: in xtask/orderings-without"),
            "{why}"
        );

        let without = |part: &str| {
            let lines = text.lines().filter(|line| !line.contains(part));
            lines.collect::<Vec<_>>().join("\n")
        };
        let why = differ(&sites(), &without("`Acquire`"), &reasons);
        assert!(
            why.contains("wait Acquire: not on docs/orderings.md"),
            "{why}"
        );
        let why = differ(&sites(), &text.replace("::m`", "::gone`"), &reasons);
        assert!(why.contains("there is no model"), "{why}");
        let open = page(&sites(), &Found::new(), "", &reasons);
        assert!(differ(&sites(), &open, &reasons).contains("neither a model"));
        let other = text.replace("the kernel", "something else");
        assert!(differ(&sites(), &other, &reasons).contains("lacks the reason"));
    }

    /// The files that have orderings, but none with a model, are in a table.
    #[test]
    fn platforms_md_lists_the_files_without_any_model() {
        let text = fs::read_to_string(sh::root().join(PAGE)).unwrap();
        let (mut with, mut without) = (BTreeSet::new(), BTreeSet::new());
        for (key, result) in page_lines(&text) {
            let file = key.split(' ').next().unwrap_or_default();
            match result.starts_with("none: ") {
                true => without.insert(file.to_owned()),
                false => with.insert(file.to_owned()),
            };
        }
        let platforms = fs::read_to_string(sh::root().join("docs/platforms.md")).unwrap();
        let (_, table) = platforms
            .split_once("\n| file | what they order |\n")
            .unwrap();
        let rows = table.lines().take_while(|line| line.starts_with('|'));
        let first_cells = rows.filter_map(|row| row.split(" | ").next());
        let files = first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
        let listed: BTreeSet<String> = files.map(|file| format!("crates/{file}")).collect();
        assert_eq!(listed, &without - &with);
    }

    /// [`weaken_line`] finds only orderings that are arguments, so there must be no others.
    #[test]
    fn every_ordering_of_the_sources_is_an_argument() {
        for package in sh::library_packages().unwrap() {
            for (path, text) in sh::rust_files(&package.dir.join("src")).unwrap() {
                if path.ends_with("model.rs") {
                    continue;
                }
                for (line, _) in marked_lines(&text).filter(|(_, is_code)| *is_code) {
                    let code = code_of(line);
                    assert_eq!(words(code), arguments(code), "{}: {line}", path.display());
                }
            }
        }
        let other = "let order = Acquire;";
        assert_ne!(words(other), arguments(other));
    }

    /// How often orderings are named.
    fn words(code: &str) -> usize {
        let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.filter(|word| STRONG.contains(word)).count()
    }

    /// How often they are arguments.
    fn arguments(code: &str) -> usize {
        let mut names = Vec::new();
        weaken_line(code, "shim", |name| {
            names.push(name);
            0
        });
        // Each `AcqRel` has two names.
        let is_first = |name: &&String| !name.ends_with(":Release");
        names.iter().filter(is_first).count()
    }

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
        let new = weaken(text, "crates/sync/src/a.rs", true, &mut sites);
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
                &format!("        {shim}::weakened(4, Acquire),"),
            );
        assert_eq!(new, expected);
        let found: Vec<_> = sites
            .iter()
            .map(|site| (site.function.as_str(), site.ordering.as_str()))
            .collect();
        let orderings = [
            "fence(SeqCst)",
            "AcqRel:Acquire",
            "AcqRel:Release",
            "Acquire",
        ];
        let in_push = orderings.map(|ordering| ("push", ordering));
        assert_eq!(found, in_push);
    }

    #[test]
    fn what_follows_the_items_of_tests_is_code() {
        let text = "\
#[cfg(all(test, blitzen_loom))]
mod model;
a.load(Acquire);
#[cfg(test)]
/// With a comment;
#[allow(unused)]
pub(crate) fn first(
    x: X,
) {
    b.load(Acquire);
}
c.load(Acquire);
#[cfg(test)]
mod empty {}
d.load(Acquire);
#[cfg(test)]
static E: E =
    E::new(Acquire);
f.load(Acquire);
#[cfg(test)]
mod tests {
    fn g() {
        g.load(Acquire);
    }
}
";
        let code = |text| {
            let lines = marked_lines(text).filter(|(_, is_code)| *is_code);
            let lines: Vec<&str> = lines.map(|(line, _)| line).collect();
            lines.join(" ")
        };
        let expected = "a.load(Acquire); c.load(Acquire); d.load(Acquire); f.load(Acquire);";
        assert_eq!(code(text), expected);
        assert_eq!(
            code("#[cfg(test)]\n#[path = \"a.rs\"]\nmod a;\nb();"),
            "b();"
        );
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

    fn sites() -> Vec<Site> {
        let text = "fn wait() {\n    x.load(Acquire);\n    x.swap(1, Acquire);\n}\n";
        let mut sites = Vec::new();
        weaken(text, "crates/util/src/a.rs", true, &mut sites);
        sites
    }

    #[test]
    fn a_run_replaces_its_lines_of_the_page_and_leaves_the_others() {
        let none = Reasons::parse("").unwrap();
        let first = page(
            &sites(),
            &Found::from([(1, Some("m".to_owned()))]),
            "",
            &none,
        );
        assert!(first.contains("| `wait` | `Acquire` | `m` |\n"));
        assert!(first.contains("| `wait` | `Acquire#2` | not looked for |\n"));
        let reasons = Reasons::parse("crates/util/src/a.rs wait Acquire#2 the kernel\n").unwrap();
        let second = page(&sites(), &Found::from([(2, None)]), &first, &reasons);
        assert!(second.contains("| `wait` | `Acquire` | `m` |\n"));
        assert!(second.contains("| `wait` | `Acquire#2` | none: the kernel |\n"));
        assert!(second.contains("Of 2 orderings, 1 have"), "{second}");
    }

    #[test]
    fn a_missing_reason_is_an_error_and_so_is_one_too_many() {
        let complaint = |reasons: &str, found| {
            let reasons = Reasons::parse(reasons).unwrap();
            reasons.complaint(&sites(), &Found::from(found))
        };
        let second = "crates/util/src/a.rs wait Acquire#2 the kernel\n";
        let model = || Some("m".to_owned());
        assert_eq!(complaint(second, [(1, model()), (2, None)]), None);
        assert!(complaint("", [(1, model()), (2, None)]).is_some());
        assert!(complaint(second, [(1, model()), (2, model())]).is_some());
        assert!(
            complaint(
                "crates/util/src/b.rs f Acquire gone\n",
                [(1, model()), (2, model())]
            )
            .is_some()
        );
        assert!(Reasons::parse("crates/util/src/a.rs wait Acquire\n").is_err());
    }
}
