//! Running other programs: paths, what a step reports, and ways to wait for a child.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::ops::AddAssign;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How many tests a step ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// Why a step failed, and the tests counted until then.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) why: String,
    pub(crate) tally: Tally,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl<T: Into<String>> From<T> for Failure {
    fn from(why: T) -> Self {
        Self {
            why: why.into(),
            tally: Tally::default(),
        }
    }
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Adds to an error what was being done.
pub(crate) trait Context<T> {
    fn context(self, doing: impl fmt::Display) -> Outcome<T>;
}

impl<T, E: fmt::Display> Context<T> for Result<T, E> {
    fn context(self, doing: impl fmt::Display) -> Outcome<T> {
        self.map_err(|error| format!("{doing}: {error}").into())
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is in the root")
        .to_path_buf()
}

/// The folder for build output. Steps with compiler flags of their own build in a subfolder
/// of it.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// `cargo`, run in the root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root());
    command
}

/// The library crates: the packages in `crates/`, by name.
pub(crate) fn library_packages() -> Outcome<Vec<LibraryPackage>> {
    let folder = root().join("crates");
    let mut packages = Vec::new();
    for entry in std::fs::read_dir(&folder).context("reading crates/")? {
        let dir = entry.context("reading crates/")?.path();
        let Ok(manifest) = std::fs::read_to_string(dir.join("Cargo.toml")) else {
            continue;
        };
        let name = manifest
            .lines()
            .find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
            .ok_or_else(|| format!("{}: no package name", dir.display()))?
            .to_owned();
        packages.push(LibraryPackage { name, dir });
    }
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(packages)
}

/// One of the packages in `crates/`.
pub(crate) struct LibraryPackage {
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
}

/// The paths and texts of all Rust files below `folder`.
pub(crate) fn rust_files(folder: &Path) -> Outcome<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).context(folder.display())? {
        let path = entry.context(folder.display())?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).context(path.display())?;
            files.push((path, text));
        }
    }
    Ok(files)
}

/// Runs a command to its end, with our standard output and error.
pub(crate) fn run(command: &mut Command) -> Outcome {
    announce(command);
    let status = command.status().context(program(command))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{} ended with {status}", program(command)).into())
    }
}

/// Runs a command and returns its output if it succeeds.
pub(crate) fn read(command: &mut Command) -> Outcome<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .context(program(command))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(format!(
            "{} ended with {}\n{}",
            program(command),
            output.status,
            text(&output.stderr)
        )
        .into())
    }
}

/// Runs a command that runs tests with the standard harness, shows its output, and counts
/// the tests from its `test result:` lines.
pub(crate) fn run_tests(command: &mut Command) -> Outcome<Tally> {
    announce(command);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .context(program(command))?;
    let mut tally = Tally::default();
    let mut stdout = std::io::stdout().lock();
    let mut lines = BufReader::new(child.stdout.take().expect("piped above"));
    let mut line = Vec::new();
    while lines
        .read_until(b'\n', &mut line)
        .context("reading test output")?
        > 0
    {
        stdout.write_all(&line).context("writing test output")?;
        if let Some(counted) = parse_result_line(&String::from_utf8_lossy(&line)) {
            tally += counted;
        }
        line.clear();
    }
    let status = child.wait().context(program(command))?;
    if status.success() {
        Ok(tally)
    } else {
        Err(Failure {
            why: format!("{} ended with {status}", program(command)),
            tally,
        })
    }
}

/// Reads `test result: ok. 3 passed; 1 failed; …`.
pub(crate) fn parse_result_line(line: &str) -> Option<Tally> {
    let counts = line
        .trim()
        .strip_prefix("test result: ")?
        .split_once(". ")?
        .1;
    let count = |word: &str| {
        counts
            .split("; ")
            .find_map(|part| part.strip_suffix(word)?.trim().parse::<usize>().ok())
    };
    Some(Tally {
        passed: count(" passed")?,
        failed: count(" failed")?,
    })
}

/// How a child with a deadline ended.
#[derive(Debug)]
pub(crate) enum Ended {
    Exited(ExitStatus),
    /// It was still running at the deadline and was killed with its process group.
    TimedOut,
}

impl Ended {
    pub(crate) fn is_success(&self) -> bool {
        matches!(self, Self::Exited(status) if status.success())
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "ended with {status}"),
            Self::TimedOut => f.write_str("has not ended in time"),
        }
    }
}

/// How often a child with a deadline is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// How long a test may do nothing at all: no test waits that long for a timer.
const IDLE_LIMIT: Duration = Duration::from_secs(30);

/// Runs a command in a process group of its own for at most `limit`, with all output going
/// to `log`. Time in which this program did not run either, since the machine was suspended or
/// the two were frozen together, does not count.
///
/// Output goes to a file, not to a pipe: a pipe stays open as long as any grandchild lives.
pub(crate) fn run_for(command: &mut Command, limit: Duration, log: &Path) -> Outcome<Ended> {
    run_watched(command, limit, None, log)
}

/// Runs tests as [`run_for`] does, but not on if they all wait for something that does not come.
pub(crate) fn run_tests_for(command: &mut Command, limit: Duration, log: &Path) -> Outcome<Ended> {
    run_watched(command, limit, Some(IDLE_LIMIT), log)
}

fn run_watched(
    command: &mut Command,
    limit: Duration,
    idle_limit: Option<Duration>,
    log: &Path,
) -> Outcome<Ended> {
    let out = File::create(log).context(log.display())?;
    let err = out.try_clone().context(log.display())?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .process_group(0)
        .spawn()
        .context(program(command))?;
    let group = child.id();
    let (sender, receiver) = mpsc::channel();
    let waiter = thread::spawn(move || {
        let status = child.wait();
        // The receiver is gone only when the deadline has passed.
        let _ = sender.send(());
        status
    });
    let (mut elapsed, mut idle, mut activity) = (Duration::ZERO, Duration::ZERO, 0);
    let in_time = loop {
        if receiver.recv_timeout(LOOK).is_ok() {
            break true;
        }
        elapsed += LOOK;
        idle += LOOK;
        if idle_limit.is_some() {
            let before = std::mem::replace(&mut activity, activity_of(group));
            if activity != before {
                idle = Duration::ZERO;
            }
        }
        if elapsed >= limit || idle_limit.is_some_and(|limit| idle >= limit) {
            break false;
        }
    };
    if !in_time {
        // `waiter` has not reaped the child yet, or only just: the group is still ours.
        let _ = Command::new("kill")
            .args(["-9", "--", &format!("-{group}")])
            .stderr(Stdio::null())
            .status();
    }
    let status = waiter
        .join()
        .expect("the waiter does not panic")
        .context("waiting for a child")?;
    Ok(if in_time {
        Ended::Exited(status)
    } else {
        Ended::TimedOut
    })
}

/// How often the threads of a process group were switched to, and how long they have run. It
/// changes while any of them runs.
fn activity_of(group: u32) -> u64 {
    let children = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut activity = 0;
    for process in children(Path::new("/proc")) {
        // Any of it may have ended by now.
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        // The name of the program is in brackets and may hold anything.
        let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = after_name.split(' ').collect();
        let number = |index| {
            fields
                .get(index)
                .and_then(|field: &&str| field.parse().ok())
        };
        if number(2) != Some(u64::from(group)) {
            continue;
        }
        activity += [11, 12]
            .iter()
            .filter_map(|&index| number(index))
            .sum::<u64>();
        for thread in children(&process.path().join("task")) {
            let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            let counts = status.lines().filter_map(|line| {
                let (name, count) = line.split_once(':')?;
                let is_count = name.ends_with("voluntary_ctxt_switches");
                is_count.then(|| count.trim().parse::<u64>().ok()).flatten()
            });
            activity += counts.sum::<u64>();
        }
    }
    activity
}

/// Writes a file only if its text changes, since cargo compares modification times.
pub(crate) fn write_if_changed(path: &Path, text: &str) -> Outcome {
    if std::fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    std::fs::create_dir_all(path.parent().expect("a file lies in a folder"))
        .context(path.display())?;
    std::fs::write(path, text).context(path.display())
}

/// Prints a command as it would be typed.
fn announce(command: &Command) {
    let mut shown = String::from("$");
    for (key, value) in command.get_envs() {
        if let Some(value) = value {
            shown += &format!(" {}={:?}", key.to_string_lossy(), value.to_string_lossy());
        }
    }
    shown += &format!(" {}", program(command));
    for arg in command.get_args() {
        shown += &format!(" {}", arg.to_string_lossy());
    }
    println!("{shown}");
}

fn program(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_counted_and_others_are_not() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.02s\n";
        assert_eq!(
            parse_result_line(line),
            Some(Tally {
                passed: 12,
                failed: 3
            })
        );
        assert_eq!(parse_result_line("test foo ... ok"), None);
    }

    #[test]
    fn a_child_past_its_deadline_is_killed_with_its_children() {
        let log = std::env::temp_dir().join(format!("xtask-deadline-{}", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", "echo begun; sleep 1000 & wait"]);
        let ended = run_for(&mut command, Duration::from_millis(300), &log).unwrap();
        assert!(matches!(ended, Ended::TimedOut), "{ended:?}");
        let _ = std::fs::remove_file(log);
    }

    #[test]
    fn a_child_in_which_nothing_runs_is_killed_before_its_deadline_and_a_busy_one_is_not() {
        let log = std::env::temp_dir().join(format!("xtask-idle-{}", std::process::id()));
        let run = |script| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let minute = Duration::from_secs(60);
            run_watched(&mut command, minute, Some(2 * LOOK), &log).unwrap()
        };
        assert!(matches!(run("sleep 1000 & wait"), Ended::TimedOut));
        let naps = "for nap in 1 2 3 4 5 6 7 8 9 10; do sleep 0.5; done";
        assert!(run(naps).is_success());
        let _ = std::fs::remove_file(log);
    }

    #[test]
    fn a_child_that_ends_in_time_gives_its_status_and_output() {
        let log = std::env::temp_dir().join(format!("xtask-status-{}", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let ended = run_for(&mut command, Duration::from_secs(60), &log).unwrap();
        assert!(
            matches!(ended, Ended::Exited(status) if status.code() == Some(3)),
            "{ended:?}"
        );
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "out\nerr\n");
        let _ = std::fs::remove_file(log);
    }
}
