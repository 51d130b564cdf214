//! Runs the built tests and finds the verdict on each of them.
//!
//! If xtask runs as root, the tests run as the user nobody: one of them needs a file that it
//! may not read. So everything they touch is in a folder below the system's temporary one.
//!
//! T1. The unlisted tests of a file share a process. If it crashes, hangs, or does not mention
//!     a test, the tests without a verdict run again, each in a process of its own.
//! T2. A test that is listed as failing always has a process of its own, so that it cannot
//!     make others fail.
//! T3. A test that failed beside others runs once more alone, and the second verdict counts:
//!     several tests measure time, which other tests of the file disturb.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use super::build::{Built, SuiteWorkspace};
use super::known::{Known, Listing};
use super::table::{Entry, Table};
use crate::sh::{self, Context, Ended, Outcome};
use crate::toolchain;

/// The slowest file takes 10 s by itself on two cores; a busy machine takes longer.
const FILE_LIMIT: Duration = Duration::from_secs(180);
const TEST_LIMIT: Duration = Duration::from_secs(60);
const LIST_LIMIT: Duration = Duration::from_secs(30);

const NOBODY: u32 = 65_534;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    Failed,
    /// A signal ended the process, or it exited with an unusual status.
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
    /// It did not compile; holds the first line of the compiler's message.
    NotBuilt(String),
    Ran(BTreeMap<String, Verdict>),
}

/// By file.
pub(super) type Results = BTreeMap<String, FileResult>;

/// Runs every file of the table, as many at a time as there are cores.
pub(super) fn run_all(
    workspace: &SuiteWorkspace,
    table: &Table,
    built: &Built,
    known: &Known,
    how: RunOptions,
) -> Outcome<Results> {
    let run_dir = RunDir::create(workspace, how)?;
    let queue: Mutex<VecDeque<&Entry>> = Mutex::new(table.files().collect());
    let results = Mutex::new(Results::new());
    let workers = thread::available_parallelism().map_or(2, |cores| cores.get());
    thread::scope(|scope| -> Outcome {
        let work = || -> Outcome {
            loop {
                let Some(entry) = queue.lock().expect("no worker panics").pop_front() else {
                    return Ok(());
                };
                let result = match built.of(&entry.file) {
                    Ok(executable) => {
                        let run = FileRun::new(&run_dir, workspace, entry, executable, known)?;
                        FileResult::Ran(run.run(how.per_test)?)
                    }
                    Err(why) => FileResult::NotBuilt(why.to_owned()),
                };
                results
                    .lock()
                    .expect("no worker panics")
                    .insert(entry.file.clone(), result);
            }
        };
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("no worker panics"))
    })?;
    Ok(results.into_inner().expect("no worker panics"))
}

/// How tests are run.
#[derive(Clone, Copy)]
pub(super) struct RunOptions {
    /// A process per test.
    pub(super) per_test: bool,
    /// Without io_uring.
    pub(super) epoll: bool,
    /// With sockets by completion.
    pub(super) completion: bool,
}

/// A folder that the user nobody can read: executables, a temporary folder, a manifest.
struct RunDir {
    dir: PathBuf,
    as_nobody: bool,
    how: RunOptions,
}

impl RunDir {
    fn create(workspace: &SuiteWorkspace, how: RunOptions) -> Outcome<Self> {
        let dir = std::env::temp_dir().join(format!("blitzen-conformance-{}", std::process::id()));
        let run_dir = Self {
            dir,
            as_nobody: toolchain::is_root(),
            how,
        };
        fs::create_dir_all(run_dir.temporary()).context(run_dir.dir.display())?;
        fs::set_permissions(&run_dir.dir, Permissions::from_mode(0o755))
            .context("making the run folder readable")?;
        fs::copy(workspace.manifest(), run_dir.dir.join("Cargo.toml"))
            .context("copying the manifest")?;
        if run_dir.as_nobody {
            chown(run_dir.temporary(), Some(NOBODY), Some(NOBODY))
                .context("giving the run folder to nobody")?;
        }
        Ok(run_dir)
    }

    fn temporary(&self) -> PathBuf {
        self.dir.join("tmp")
    }

    /// Links or copies an executable into the folder.
    fn add(&self, executable: &Path) -> Outcome<PathBuf> {
        let path = self
            .dir
            .join(executable.file_name().expect("an executable has a name"));
        if fs::hard_link(executable, &path).is_err() {
            fs::copy(executable, &path).context(path.display())?;
        }
        fs::set_permissions(&path, Permissions::from_mode(0o755)).context(path.display())?;
        Ok(path)
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

impl Drop for RunDir {
    fn drop(&mut self) {
        // If it fails, the rest stays in the system's temporary folder.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// The tests of one file.
struct FileRun<'a> {
    run_dir: &'a RunDir,
    known: &'a Known,
    file: &'a str,
    executable: PathBuf,
    logs: PathBuf,
    tests: Vec<String>,
}

impl<'a> FileRun<'a> {
    fn new(
        run_dir: &'a RunDir,
        workspace: &SuiteWorkspace,
        entry: &'a Entry,
        executable: &Path,
        known: &'a Known,
    ) -> Outcome<Self> {
        let mut run = Self {
            run_dir,
            known,
            file: &entry.file,
            executable: run_dir.add(executable)?,
            logs: workspace.logs(),
            tests: Vec::new(),
        };
        let log = run.log("list");
        let mut command = run_dir.command(&run.executable);
        sh::run_for(
            command.args(["--list", "--format", "terse"]),
            LIST_LIMIT,
            &log,
        )?;
        let listed = fs::read_to_string(&log).context(log.display())?;
        run.tests = listed
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .map(str::to_owned)
            .collect();
        if run.tests.len() == entry.tests {
            Ok(run)
        } else {
            // The tests see other features or cfgs than when they were counted.
            let (file, found, listed) = (&entry.file, run.tests.len(), entry.tests);
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

    /// T1: runs the unlisted tests in one process, and reads its verdicts.
    fn run_together(&self) -> Outcome<BTreeMap<String, Verdict>> {
        let mut command = self.run_dir.command(&self.executable);
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
        let output = fs::read(&log).context(log.display())?;
        Ok(parse_verdicts(&String::from_utf8_lossy(&output)))
    }

    fn run_alone(&self, test: &str) -> Outcome<Verdict> {
        let log = self.log(test);
        let mut command = self.run_dir.command(&self.executable);
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

/// Reads `test path::name ... ok`; names of tests that should panic have a suffix.
fn parse_verdicts(output: &str) -> BTreeMap<String, Verdict> {
    let mut verdicts = BTreeMap::new();
    for line in output.lines() {
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
        let output = "\nrunning 4 tests\ntest a::b ... ok\nnoise\ntest c - should panic ... ok\ntest d ... FAILED\n\
                    test result: FAILED. 2 passed; 1 failed\n";
        let verdicts = parse_verdicts(output);
        assert_eq!(verdicts.len(), 3);
        assert_eq!(verdicts["a::b"], Verdict::Passed);
        assert_eq!(verdicts["c"], Verdict::Passed);
        assert_eq!(verdicts["d"], Verdict::Failed);
    }
}
