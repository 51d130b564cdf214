//! The loom models: tests in modules whose name holds `model`, built with
//! `--cfg blitzen_loom`.
//!
//! L1. Every model searches all interleavings up to a number of preemptions, to the end. Each
//!     runs in a process of its own, and one that is not done within the time limit is killed
//!     and has failed.
//! L2. The bound is [`PREEMPTIONS`], or what `xtask/loom-bounds.txt` says of the model by
//!     name. A line there whose model does not exist is an error.
//! L3. Nothing else ends a search early: the environment's other limits of loom's are taken
//!     away, and no source sets a bound of its own.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::sh::{self, Context, Ended, Failure, Outcome, Tally};

/// Two preemptions find nearly every ordering bug and keep a model in seconds.
const PREEMPTIONS: u32 = 2;

/// Several times what the longest model takes on two slow cores.
const LIMIT: Duration = Duration::from_secs(300);

/// loom's variables that let a model pass with its search unfinished.
const EARLY_ENDS: [&str; 4] = [
    "LOOM_MAX_DURATION",
    "LOOM_MAX_PERMUTATIONS",
    "LOOM_CHECKPOINT_FILE",
    "LOOM_MAX_PREEMPTIONS",
];

/// A model: one test of one crate.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    krate: String,
    /// Its path inside the crate.
    test: String,
    executable: PathBuf,
}

impl Model {
    /// `blitzen_sync::notify::model::a_permit_is_kept`.
    pub(crate) fn path(&self) -> String {
        format!("{}::{}", self.krate, self.test)
    }
}

/// The result of one model.
struct Searched {
    took: Duration,
    timed_out: bool,
    failure: Option<String>,
}

/// Runs the models of every crate that has some: all, or those with one of the arguments in
/// their path. `--limit <seconds>` and `--preemptions <count>` change the limits of this run.
pub(crate) fn run(args: &[String]) -> Outcome<Tally> {
    let mut limit = LIMIT;
    let mut preemptions = None;
    let mut filters = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let mut number = || -> Outcome<u32> {
            let value = rest.next().ok_or(format!("{arg} needs a number"))?;
            value.parse().context(format!("{arg} {value}"))
        };
        match arg.as_str() {
            "--limit" => limit = Duration::from_secs(number()?.into()),
            "--preemptions" => preemptions = Some(number()?),
            _ => filters.push(arg.as_str()),
        }
    }
    let models = build(&sh::root(), |_| true)?;
    let bounds = Bounds::read(&models)?;
    let chosen = models.into_iter().filter(|model| {
        filters.is_empty() || filters.iter().any(|filter| model.path().contains(filter))
    });
    let chosen: Vec<(Model, u32)> = chosen
        .map(|model| {
            let bound = preemptions.unwrap_or_else(|| bounds.of(&model));
            (model, bound)
        })
        .collect();
    if chosen.is_empty() {
        return Err("no model has that name".into());
    }
    search_all(chosen, limit)
}

/// Searches the models, one per processor at a time.
fn search_all(models: Vec<(Model, u32)>, limit: Duration) -> Outcome<Tally> {
    let threads = thread::available_parallelism().map_or(1, |count| count.get());
    let queue = Mutex::new(VecDeque::from(models));
    let tally = Mutex::new(Tally::default());
    let work = || -> Outcome {
        loop {
            let Some((model, bound)) = queue.lock().expect("no worker panics").pop_front() else {
                return Ok(());
            };
            let searched = search(&model, bound, limit)?;
            let mut tally = tally.lock().expect("no worker panics");
            let path = model.path();
            let seconds = searched.took.as_secs_f64();
            match searched.failure {
                None => {
                    tally.passed += 1;
                    println!("model {path} ... ok ({bound} preemptions, {seconds:.1} s)");
                }
                Some(why) => {
                    tally.failed += 1;
                    println!(
                        "model {path} ... FAILED ({bound} preemptions, {seconds:.1} s)\n{why}"
                    );
                }
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("no worker panics"))
    })?;
    let tally = tally.into_inner().expect("no worker panics");
    if tally.failed == 0 {
        Ok(tally)
    } else {
        Err(Failure {
            why: format!("{} models failed", tally.failed),
            tally,
        })
    }
}

/// Whether a model fails with a variable in its environment. One that is not done within `limit`
/// has not failed.
pub(crate) fn fails(
    model: &Model,
    bounds: &Bounds,
    limit: Duration,
    variable: (&str, String),
) -> Outcome<bool> {
    let searched = search_with(model, bounds.of(model), limit, &[variable])?;
    Ok(searched.failure.is_some() && !searched.timed_out)
}

/// Runs one model to its end, or to the limit.
fn search(model: &Model, bound: u32, limit: Duration) -> Outcome<Searched> {
    search_with(model, bound, limit, &[])
}

fn search_with(
    model: &Model,
    bound: u32,
    limit: Duration,
    variables: &[(&str, String)],
) -> Outcome<Searched> {
    let logs = sh::target().join("loom/logs");
    fs::create_dir_all(&logs).context(logs.display())?;
    let values: String = variables
        .iter()
        .filter_map(|(_, value)| Some(format!(".{}", Path::new(value).file_name()?.display())))
        .collect();
    let log = logs.join(format!("{}{values}.log", model.path().replace("::", ".")));
    let mut command = Command::new(&model.executable);
    command
        .args(["--exact", &model.test])
        .current_dir(sh::root());
    for variable in EARLY_ENDS {
        command.env_remove(variable);
    }
    command.env("LOOM_MAX_PREEMPTIONS", bound.to_string());
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    let start = Instant::now();
    let ended = sh::run_for(&mut command, limit, &log)?;
    let took = start.elapsed();
    let output = fs::read(&log).context(log.display())?;
    let output = String::from_utf8_lossy(&output);
    let timed_out = matches!(ended, Ended::TimedOut);
    let failure = match ended {
        Ended::TimedOut => Some(format!(
            "not finished within {} s: make the model smaller, or give it a lower bound, with \
             the reason, in xtask/loom-bounds.txt",
            limit.as_secs()
        )),
        Ended::Exited(status) if !status.success() => Some(output.into_owned()),
        // An ignored test ends well too.
        Ended::Exited(_) if !output.contains("1 passed") => Some(output.into_owned()),
        Ended::Exited(_) => None,
    };
    Ok(Searched {
        took,
        timed_out,
        failure,
    })
}

/// Builds the crates that have models and whose folder is wanted, in the workspace at `root`, and
/// lists these models.
pub(crate) fn build(root: &Path, is_wanted: impl Fn(&Path) -> bool) -> Outcome<Vec<Model>> {
    let mut command = sh::cargo();
    command
        .current_dir(root)
        .args(["test", "--release", "--lib", "--no-run", "--quiet"])
        .arg("--message-format=json-render-diagnostics")
        .env("RUSTFLAGS", "--cfg blitzen_loom")
        .env("CARGO_TARGET_DIR", sh::target().join("loom"));
    let mut with_models = 0;
    for package in sh::library_packages()? {
        if is_wanted(&package.dir) && has_models(&package.dir.join("src"))? {
            with_models += 1;
            command.args(["-p", &package.name]);
        }
    }
    if with_models == 0 {
        return Err("no crate has models".into());
    }
    let mut models = Vec::new();
    for line in sh::read(&mut command)?.lines() {
        let message: Value = serde_json::from_str(line).context("reading cargo's messages")?;
        if message["profile"]["test"] != true {
            continue;
        }
        let Some(executable) = message["executable"].as_str() else {
            continue;
        };
        let mut list = Command::new(executable);
        list.args(["--list", "--format", "terse"]);
        let listed = sh::read(&mut list)?;
        let tests = listed
            .lines()
            .filter_map(|line| line.strip_suffix(": test"));
        for test in tests.filter(|test| test.contains("model")) {
            models.push(Model {
                krate: message["target"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
                test: test.to_owned(),
                executable: executable.into(),
            });
        }
    }
    models.sort_by_key(Model::path);
    Ok(models)
}

/// Whether any file below `folder` holds a model. L3 is looked at on the way.
pub(crate) fn has_models(folder: &Path) -> Outcome<bool> {
    let mut found = false;
    for (path, text) in sh::rust_files(folder)? {
        if text.contains("preemption_bound") || text.contains("max_duration") {
            return Err(format!(
                "{} sets a bound of its own: bounds belong to xtask/loom-bounds.txt",
                path.display()
            )
            .into());
        }
        found |= text.contains("loom::model");
    }
    Ok(found)
}

/// The models that are not searched to the usual bound.
pub(crate) struct Bounds(BTreeMap<String, u32>);

impl Bounds {
    /// Reads the list. A line without a model is an error, so `models` are those of all crates.
    pub(crate) fn read(models: &[Model]) -> Outcome<Self> {
        let bounds = Self::read_unchecked()?;
        match bounds.without_model(models) {
            Some(path) => Err(format!("xtask/loom-bounds.txt: there is no model {path}").into()),
            None => Ok(bounds),
        }
    }

    /// Reads the list when only some crates were built.
    pub(crate) fn read_unchecked() -> Outcome<Self> {
        let file = sh::root().join("xtask/loom-bounds.txt");
        Self::parse(&fs::read_to_string(&file).context(file.display())?)
    }

    /// A listed path that none of the models has.
    fn without_model(&self, models: &[Model]) -> Option<&str> {
        let exists = |path: &str| models.iter().any(|model| model.path() == path);
        self.0.keys().map(String::as_str).find(|path| !exists(path))
    }

    /// Reads lines of `path preemptions reason`.
    fn parse(text: &str) -> Outcome<Self> {
        let mut bounds = BTreeMap::new();
        for line in text.lines() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.splitn(3, ' ');
            let (path, bound, reason) = (words.next(), words.next(), words.next());
            let bound = bound.and_then(|bound| bound.parse().ok());
            match (path, bound, reason) {
                (Some(path), Some(bound), Some(_)) => bounds.insert(path.to_owned(), bound),
                _ => {
                    return Err(format!(
                        "xtask/loom-bounds.txt: not `path preemptions reason`: {line}"
                    )
                    .into());
                }
            };
        }
        Ok(Self(bounds))
    }

    fn of(&self, model: &Model) -> u32 {
        *self.0.get(&model.path()).unwrap_or(&PREEMPTIONS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(test: &str) -> Model {
        Model {
            krate: "blitzen_sync".to_owned(),
            test: test.to_owned(),
            executable: PathBuf::new(),
        }
    }

    #[test]
    fn a_listed_model_has_its_own_bound_and_others_the_usual_one() {
        let text = "# comment\n\nblitzen_sync::notify::model::a 1 three threads\n";
        let bounds = Bounds::parse(text).unwrap();
        assert_eq!(bounds.of(&model("notify::model::a")), 1);
        assert_eq!(bounds.of(&model("notify::model::b")), PREEMPTIONS);
    }

    #[test]
    fn a_line_whose_model_is_gone_is_found() {
        let bounds = Bounds::parse("blitzen_sync::notify::model::a 1 three threads\n").unwrap();
        assert_eq!(bounds.without_model(&[model("notify::model::a")]), None);
        let listed = Some("blitzen_sync::notify::model::a");
        assert_eq!(bounds.without_model(&[model("notify::model::b")]), listed);
    }

    #[test]
    fn a_bound_without_a_reason_is_refused() {
        assert!(Bounds::parse("blitzen_sync::notify::model::a 1").is_err());
        assert!(Bounds::parse("blitzen_sync::notify::model::a three threads").is_err());
    }
}
