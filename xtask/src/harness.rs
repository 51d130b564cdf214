//! Runs an executable with the standard test harness, and finds the verdict on each test.
//!
//! T1. The tests of an executable share a process, except those that are expected to fail. If
//!     it crashes, hangs, or does not mention a test, the tests without a verdict run again,
//!     each in a process of its own.
//! T2. A test that is expected to fail always has a process of its own, so that it cannot
//!     make others fail.
//! T3. A test that failed beside others runs once more alone, and the second verdict counts:
//!     several tests measure time, which other tests of the file disturb.
//! T4. Tests that all wait for something that does not come are not waited for until their
//!     time is up, but for half a minute.
//! T5. Of an executable whose tests have run before, only those that failed run again, each
//!     alone.
//! T6. A test that is ignored, or that says `not tested: ` and why, has neither passed nor failed.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use crate::sh::{self, Context, Ended, Outcome};

const LIST_LIMIT: Duration = Duration::from_secs(60);

/// Has the harness show what tests print that pass, since some say that they test nothing.
const SHOW_PRINTED: &str = "--show-output";

/// How a line begins with which a test says that the system lacks what it tests.
const NOT_TESTED: &str = "not tested: ";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    /// It is ignored, or the system lacks what it tests (T6).
    NotRun,
    Failed,
    /// A signal ended the process, or it exited with an unusual status.
    Crashed,
    Hung,
}

impl Verdict {
    pub(crate) fn is_passed(self) -> bool {
        self == Self::Passed
    }

    pub(crate) fn is_failure(self) -> bool {
        !matches!(self, Self::Passed | Self::NotRun)
    }
}

/// By name of the test.
pub(crate) type Verdicts = BTreeMap<String, Verdict>;

/// How long the tests of an executable may take together, and each alone.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) together: Duration,
    pub(crate) alone: Duration,
}

/// The tests of one executable.
pub(crate) struct TestExecutable<'a> {
    command: &'a dyn Fn() -> Command,
    limits: Limits,
    /// The folder of the logs, and how their names begin.
    logs: PathBuf,
    name: String,
    tests: Vec<String>,
}

impl<'a> TestExecutable<'a> {
    /// Lists the tests of the executable that `command` runs.
    pub(crate) fn list(
        command: &'a dyn Fn() -> Command,
        limits: Limits,
        logs: PathBuf,
        name: &str,
    ) -> Outcome<Self> {
        let mut executable = Self {
            command,
            limits,
            logs,
            name: name.to_owned(),
            tests: Vec::new(),
        };
        let log = executable.log("list");
        let list = || {
            let mut command = command();
            command.args(["--list", "--format", "terse"]);
            sh::run_for(&mut command, LIST_LIMIT, &log)
        };
        // An emulator may hang where it does not the next time.
        let ended = match list()? {
            Ended::TimedOut => list()?,
            ended => ended,
        };
        // One that cannot start would have no tests, and so no failures.
        if !ended.is_success() {
            let log = log.display();
            return Err(format!("{name}: listing its tests {ended}; see {log}").into());
        }
        let listed = fs::read(&log).context(log.display())?;
        executable.tests = String::from_utf8_lossy(&listed)
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .map(str::to_owned)
            .collect();
        Ok(executable)
    }

    pub(crate) fn tests(&self) -> &[String] {
        &self.tests
    }

    fn log(&self, what: &str) -> PathBuf {
        self.logs
            .join(format!("{}.{}.log", self.name, what.replace("::", ".")))
    }

    /// Runs the tests, by T1 to T6: `earlier` is what has not failed before, and with `per_test`
    /// each has a process of its own.
    pub(crate) fn run(
        &self,
        may_fail: &dyn Fn(&str) -> bool,
        per_test: bool,
        earlier: Option<Verdicts>,
    ) -> Outcome<Verdicts> {
        let mut verdicts = match earlier {
            Some(earlier) => earlier,
            None if per_test => Verdicts::new(),
            None => self.run_together(may_fail)?,
        };
        for test in &self.tests {
            let is_done = verdicts
                .get(test)
                .is_some_and(|verdict| !verdict.is_failure());
            if !is_done {
                verdicts.insert(test.clone(), self.run_alone(test)?);
            }
        }
        Ok(verdicts)
    }

    fn run_together(&self, may_fail: &dyn Fn(&str) -> bool) -> Outcome<Verdicts> {
        let mut command = (self.command)();
        command.args(["--exact", SHOW_PRINTED]);
        let mut together = 0;
        for test in &self.tests {
            if may_fail(test) {
                command.args(["--skip", test]);
            } else {
                together += 1;
            }
        }
        if together == 0 {
            return Ok(Verdicts::new());
        }
        let log = self.log("all");
        sh::run_tests_for(&mut command, self.limits.together, &log)?;
        let output = fs::read(&log).context(log.display())?;
        Ok(parse_verdicts(&String::from_utf8_lossy(&output)))
    }

    fn run_alone(&self, test: &str) -> Outcome<Verdict> {
        let log = self.log(test);
        let mut command = (self.command)();
        command.args(["--exact", test, "--test-threads", "1", SHOW_PRINTED]);
        let status = match sh::run_tests_for(&mut command, self.limits.alone, &log)? {
            Ended::TimedOut => return Ok(Verdict::Hung),
            Ended::Exited(status) => status,
        };
        Ok(match status.code() {
            Some(0) => {
                let output = fs::read(&log).context(log.display())?;
                match parse_verdicts(&String::from_utf8_lossy(&output)).get(test) {
                    Some(Verdict::NotRun) => Verdict::NotRun,
                    _ => Verdict::Passed,
                }
            }
            Some(101) => Verdict::Failed,
            _ => Verdict::Crashed,
        })
    }
}

/// Calls `work` for each of `items`, for as many at a time as there are cores.
pub(crate) fn for_each_on_all_cores<T: Send>(
    items: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> Outcome + Sync,
) -> Outcome {
    let queue: Mutex<VecDeque<T>> = Mutex::new(items.into_iter().collect());
    let take = || queue.lock().expect("no worker panics").pop_front();
    let work_off = || -> Outcome {
        while let Some(item) = take() {
            work(item)?;
        }
        Ok(())
    };
    let cores = thread::available_parallelism().map_or(2, |cores| cores.get());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work_off)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("no worker panics"))
    })
}

/// Reads `test path::name ... ok`; names of tests that should panic have a suffix. What the tests
/// have printed follows all of these, below `---- path::name stdout ----`.
fn parse_verdicts(output: &str) -> Verdicts {
    let mut verdicts = Verdicts::new();
    let mut printed_by = None;
    for line in output.lines() {
        if let Some(name) = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"))
        {
            printed_by = Some(name);
        }
        if line.starts_with(NOT_TESTED)
            && let Some(verdict) = printed_by.and_then(|name| verdicts.get_mut(name))
            && *verdict == Verdict::Passed
        {
            *verdict = Verdict::NotRun;
        }
        let Some((name, word)) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.rsplit_once(" ... "))
        else {
            continue;
        };
        let verdict = match word {
            "ok" => Verdict::Passed,
            "ignored" => Verdict::NotRun,
            "FAILED" => Verdict::Failed,
            _ if word.starts_with("ignored, ") => Verdict::NotRun,
            _ => continue,
        };
        let name = name.trim_end_matches(" - should panic").to_owned();
        // A failed test that runs its executable again may print another verdict on itself.
        let kept = verdicts.entry(name).or_insert(verdict);
        if verdict == Verdict::Failed {
            *kept = verdict;
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_read_from_what_the_harness_prints() {
        let output = "\nrunning 5 tests\ntest a::b ... ok\nnoise\ntest c - should panic ... ok\ntest d ... FAILED\n\
                    test e ... ignored, needs a disk\ntest result: FAILED. 2 passed; 1 failed\n";
        let verdicts = parse_verdicts(output);
        assert_eq!(verdicts.len(), 4);
        assert_eq!(verdicts["a::b"], Verdict::Passed);
        assert_eq!(verdicts["c"], Verdict::Passed);
        assert_eq!(verdicts["d"], Verdict::Failed);
        assert_eq!(verdicts["e"], Verdict::NotRun);
    }

    #[test]
    fn a_test_that_says_that_it_tests_nothing_has_not_run() {
        let output = "test a ... ok\ntest b ... ok\ntest c ... FAILED\n\nsuccesses:\n\n\
                    ---- a stdout ----\nnot tested: no ring\n\n---- b stdout ----\nis not tested: no\n\n\
                    successes:\n    a\n    b\n\nfailures:\n\n---- c stdout ----\nnot tested: no ring\n";
        let verdicts = parse_verdicts(output);
        assert_eq!(verdicts["a"], Verdict::NotRun);
        assert_eq!(verdicts["b"], Verdict::Passed);
        assert_eq!(verdicts["c"], Verdict::Failed);
    }

    #[test]
    fn what_a_failed_test_prints_does_not_make_it_pass() {
        let output = "test a ... FAILED\n---- a stdout ----\ntest a ... ok\n";
        assert_eq!(parse_verdicts(output)["a"], Verdict::Failed);
    }

    #[test]
    fn an_executable_that_cannot_list_its_tests_is_an_error() {
        let limits = Limits {
            together: LIST_LIMIT,
            alone: LIST_LIMIT,
        };
        let folder = std::env::temp_dir().join(format!("xtask-list-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let list = |script: &'static str| {
            let command = || {
                let mut command = Command::new("sh");
                command.args(["-c", script]);
                command
            };
            let executable = TestExecutable::list(&command, limits, folder.clone(), "tests");
            executable.map(|executable| executable.tests().to_vec())
        };
        assert_eq!(list("echo a::b: test").unwrap(), ["a::b"]);
        assert_eq!(list("true").unwrap(), [""; 0]);
        for script in ["echo a::b: test; exit 1", "exit 127", "kill -9 $$"] {
            let why = list(script).unwrap_err().why;
            assert!(
                why.starts_with("tests: listing its tests ended with "),
                "{why}"
            );
        }
        let _ = fs::remove_dir_all(folder);
    }

    #[test]
    fn every_item_is_worked_on_once() {
        let seen = Mutex::new(Vec::new());
        for_each_on_all_cores(0..20, |item| {
            seen.lock().unwrap().push(item);
            Ok(())
        })
        .unwrap();
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, (0..20).collect::<Vec<_>>());
    }
}
