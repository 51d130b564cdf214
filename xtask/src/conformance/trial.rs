//! Runs the built tests and finds out about each of them.
//!
//! Where we are root, the tests run as nobody: one of them needs a file it may not read.
//! So everything they touch lies in a stage, a folder in the system's temporary one.
//!
//! T1. A file's unlisted tests share a process; when it crashes, hangs, or leaves a test
//!     unmentioned, those it left are run again, each in a process of its own.
//! T2. A test that is listed as failing always has a process of its own, so that it cannot
//!     take others with it.
//! T3. A test that failed in company is run once more alone, and that counts: several look
//!     at the clock, and a file full of busy tests is no quiet place for it.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use super::build::{Built, Workshop};
use super::known::{Known, Listing};
use super::table::{Entry, Table};
use crate::sh::{self, Context, Ended, Outcome};
use crate::toolchain;

/// The slowest file takes 10 s by itself on two cores, and a busy machine takes its time.
const FILE_LIMIT: Duration = Duration::from_secs(180);
const TEST_LIMIT: Duration = Duration::from_secs(60);
const LIST_LIMIT: Duration = Duration::from_secs(30);

const NOBODY: u32 = 65_534;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    Failed,
    /// The process died of a signal or ended oddly.
    Crashed,
    Hung,
}

impl Verdict {
    pub(super) fn is_passed(self) -> bool {
        self == Self::Passed
    }
}

#[derive(Clone, Debug)]
pub(super) enum FileResult {
    /// It did not compile; the compiler's first line.
    NotBuilt(String),
    Ran(BTreeMap<String, Verdict>),
}

/// By file.
pub(super) type Results = BTreeMap<String, FileResult>;

/// Runs every file of the table, as many at a time as there are cores.
pub(super) fn run_all(
    workshop: &Workshop,
    table: &Table,
    built: &Built,
    known: &Known,
    how: Manner,
) -> Outcome<Results> {
    let stage = Stage::set(workshop, how)?;
    let queue: Mutex<VecDeque<&Entry>> = Mutex::new(table.files().collect());
    let results = Mutex::new(Results::new());
    let crew = thread::available_parallelism().map_or(2, |cores| cores.get());
    thread::scope(|scope| -> Outcome {
        let work = || -> Outcome {
            loop {
                let Some(entry) = queue.lock().expect("no worker panics").pop_front() else {
                    return Ok(());
                };
                let result = match built.of(&entry.file) {
                    Ok(executable) => {
                        let trial = Trial::new(&stage, workshop, entry, executable, known)?;
                        FileResult::Ran(trial.run(how.per_test)?)
                    }
                    Err(why) => FileResult::NotBuilt(why.to_owned()),
                };
                results
                    .lock()
                    .expect("no worker panics")
                    .insert(entry.file.clone(), result);
            }
        };
        let crew: Vec<_> = (0..crew).map(|_| scope.spawn(work)).collect();
        crew.into_iter()
            .try_for_each(|worker| worker.join().expect("no worker panics"))
    })?;
    Ok(results.into_inner().expect("no worker panics"))
}

/// How tests are run.
#[derive(Clone, Copy)]
pub(super) struct Manner {
    /// A process per test.
    pub(super) per_test: bool,
    /// Without io_uring.
    pub(super) epoll: bool,
    /// With sockets by completion.
    pub(super) completion: bool,
}

/// A folder that nobody can reach: executables, a temporary folder, a manifest.
struct Stage {
    dir: PathBuf,
    as_nobody: bool,
    how: Manner,
}

impl Stage {
    fn set(workshop: &Workshop, how: Manner) -> Outcome<Self> {
        let dir = std::env::temp_dir().join(format!("blitzen-conformance-{}", std::process::id()));
        let stage = Self {
            dir,
            as_nobody: toolchain::is_root(),
            how,
        };
        fs::create_dir_all(stage.temporary()).context(stage.dir.display())?;
        fs::set_permissions(&stage.dir, Permissions::from_mode(0o755))
            .context("opening the stage")?;
        fs::copy(workshop.manifest(), stage.dir.join("Cargo.toml"))
            .context("copying the manifest")?;
        if stage.as_nobody {
            chown(stage.temporary(), Some(NOBODY), Some(NOBODY))
                .context("giving away the stage")?;
        }
        Ok(stage)
    }

    fn temporary(&self) -> PathBuf {
        self.dir.join("tmp")
    }

    /// Brings an executable to where it can be reached.
    fn bring(&self, executable: &Path) -> Outcome<PathBuf> {
        let staged = self
            .dir
            .join(executable.file_name().expect("an executable has a name"));
        if fs::hard_link(executable, &staged).is_err() {
            fs::copy(executable, &staged).context(staged.display())?;
        }
        fs::set_permissions(&staged, Permissions::from_mode(0o755)).context(staged.display())?;
        Ok(staged)
    }

    fn command(&self, executable: &Path) -> Command {
        let mut command = if self.as_nobody {
            let mut command = Command::new("setpriv");
            let user = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
            command
                .args(user)
                .args(["--clear-groups", "--"])
                .arg(executable);
            command
        } else {
            Command::new(executable)
        };
        let temporary = self.temporary();
        command
            .current_dir(&self.dir)
            .env("TMPDIR", &temporary)
            .env("HOME", temporary)
            .env_remove("RUST_BACKTRACE");
        if self.how.epoll {
            command.env("BLITZEN_IO", "epoll");
        }
        if self.how.completion {
            command.env("BLITZEN_SOCKETS", "completion");
        }
        command
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What stays behind lies in the system's temporary folder.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// The tests of one file.
struct Trial<'a> {
    stage: &'a Stage,
    known: &'a Known,
    file: &'a str,
    executable: PathBuf,
    logs: PathBuf,
    tests: Vec<String>,
}

impl<'a> Trial<'a> {
    fn new(
        stage: &'a Stage,
        workshop: &Workshop,
        entry: &'a Entry,
        executable: &Path,
        known: &'a Known,
    ) -> Outcome<Self> {
        let mut trial = Self {
            stage,
            known,
            file: &entry.file,
            executable: stage.bring(executable)?,
            logs: workshop.logs(),
            tests: Vec::new(),
        };
        let log = trial.log("list");
        let mut command = stage.command(&trial.executable);
        sh::run_for(
            command.args(["--list", "--format", "terse"]),
            LIST_LIMIT,
            &log,
        )?;
        let listed = fs::read_to_string(&log).context(log.display())?;
        trial.tests = listed
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .map(str::to_owned)
            .collect();
        if trial.tests.len() == entry.tests {
            Ok(trial)
        } else {
            // Features or cfgs reach the tests differently from when they were counted.
            let (file, found, listed) = (&entry.file, trial.tests.len(), entry.tests);
            Err(format!("{file} holds {found} tests, but tests.txt says {listed}").into())
        }
    }

    fn log(&self, what: &str) -> PathBuf {
        self.logs
            .join(format!("{}.{}.log", self.file, what.replace("::", ".")))
    }

    fn is_listed(&self, test: &str) -> bool {
        self.known.of_test(self.file, test) != Listing::Unlisted
    }

    fn run(&self, per_test: bool) -> Outcome<BTreeMap<String, Verdict>> {
        let mut verdicts = BTreeMap::new();
        if !per_test {
            verdicts = self.run_together()?;
        }
        for test in &self.tests {
            // T3.
            if !verdicts
                .get(test)
                .is_some_and(|verdict| verdict.is_passed())
            {
                verdicts.insert(test.clone(), self.run_alone(test)?);
            }
        }
        Ok(verdicts)
    }

    /// T1: the unlisted tests in one process, and what it told about them.
    fn run_together(&self) -> Outcome<BTreeMap<String, Verdict>> {
        let mut command = self.stage.command(&self.executable);
        command.arg("--exact");
        let mut together = 0;
        for test in &self.tests {
            if self.is_listed(test) {
                command.args(["--skip", test]);
            } else {
                together += 1;
            }
        }
        if together == 0 {
            return Ok(BTreeMap::new());
        }
        let log = self.log("all");
        sh::run_for(&mut command, FILE_LIMIT, &log)?;
        let told = fs::read(&log).context(log.display())?;
        Ok(told_verdicts(&String::from_utf8_lossy(&told)))
    }

    fn run_alone(&self, test: &str) -> Outcome<Verdict> {
        let log = self.log(test);
        let mut command = self.stage.command(&self.executable);
        Ok(
            match sh::run_for(
                command.args(["--exact", test, "--test-threads", "1"]),
                TEST_LIMIT,
                &log,
            )? {
                Ended::TimedOut => Verdict::Hung,
                Ended::Exited(status) => match status.code() {
                    Some(0) => Verdict::Passed,
                    Some(101) => Verdict::Failed,
                    _ => Verdict::Crashed,
                },
            },
        )
    }
}

/// Reads `test path::name ... ok`, with a remark for those that should panic.
fn told_verdicts(told: &str) -> BTreeMap<String, Verdict> {
    let mut verdicts = BTreeMap::new();
    for line in told.lines() {
        let Some((name, word)) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.rsplit_once(" ... "))
        else {
            continue;
        };
        let verdict = match word {
            "ok" | "ignored" => Verdict::Passed,
            "FAILED" => Verdict::Failed,
            _ => continue,
        };
        verdicts.insert(name.trim_end_matches(" - should panic").to_owned(), verdict);
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_read_from_what_the_harness_prints() {
        let told = "\nrunning 4 tests\ntest a::b ... ok\nnoise\ntest c - should panic ... ok\ntest d ... FAILED\n\
                    test result: FAILED. 2 passed; 1 failed\n";
        let verdicts = told_verdicts(told);
        assert_eq!(verdicts.len(), 3);
        assert_eq!(verdicts["a::b"], Verdict::Passed);
        assert_eq!(verdicts["c"], Verdict::Passed);
        assert_eq!(verdicts["d"], Verdict::Failed);
    }
}
