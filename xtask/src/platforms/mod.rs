//! Builds the crates with the standard library for other platforms, and runs their tests and
//! examples on this machine: x86 with 32 bits, musl and poll(2) natively, ARM under qemu, Windows
//! under wine.
//!
//! What an emulator cannot do is listed in `xtask/platform-gaps.txt`, by test and with the reason.
//! The results go into `docs/platforms.md`. Each platform's build folder is removed after its
//! run, since it takes several gigabytes. On a busy machine, `--build` and `--resume` divide a run
//! into parts.

mod binfmt;
mod gaps;
mod journal;
mod page;
mod platform;

pub(crate) use gaps::Gaps;
pub(crate) use journal::Journal;
pub(crate) use platform::Platform;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;

use crate::conformance::{self, SuiteResult};
use crate::harness::{self, Limits, TestExecutable, Verdict};
use crate::sh::{self, Context, Ended, Failure, Outcome, Tally};
use page::{OwnCounts, Published, Row};
use platform::PLATFORMS;

const USAGE: &str = "\
cargo xtask platforms [options] [platform]…
  --published      run Tokio's published tests there, too: on blitzen and on the real tokio
  --only <name>    build and run the test files with that in their name only; writes no table
  --keep           keep the build folder
  --build          build only, and keep the build folder
  --no-sockets     leave out test files and examples that wait for sockets; writes no table
  --resume         go on with the last run: leave out tests that passed in executables which are
                   unchanged since; keeps the build folder
platforms are named poll, i686, musl, aarch64, armv7, windows, or by the compiler's name";

/// An emulator is ten times slower than the processor, and two executables run at a time.
const LIMITS: Limits = Limits {
    together: Duration::from_secs(300),
    alone: Duration::from_secs(120),
};

/// How many lines of what cargo has said are shown if it fails.
const END_LINES: usize = 20;

struct Options {
    platforms: Vec<&'static Platform>,
    published: bool,
    which: Which,
    keep: bool,
    build_only: bool,
    resume: bool,
}

/// Which tests and examples are run.
enum Which {
    All,
    /// The test files with this in their name.
    Named(String),
    /// All but test files and examples that wait for sockets: wine loses an event now and then,
    /// and what has to pass after every change cannot depend on that.
    NoSockets,
}

impl Options {
    fn parse(args: &[String]) -> Outcome<Self> {
        let mut options = Self {
            platforms: Vec::new(),
            published: false,
            which: Which::All,
            keep: false,
            build_only: false,
            resume: false,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--published" => options.published = true,
                "--keep" => options.keep = true,
                "--build" => options.build_only = true,
                "--resume" => options.resume = true,
                "--only" => options.which = Which::Named(args.next().ok_or(USAGE)?.clone()),
                "--no-sockets" => options.which = Which::NoSockets,
                _ if arg.starts_with('-') => {
                    return Err(format!("unknown option {arg}\n{USAGE}").into());
                }
                name => options.platforms.push(Platform::find(name)?),
            }
        }
        if options.platforms.is_empty() {
            options.platforms = PLATFORMS.iter().collect();
        }
        Ok(options)
    }
}

/// Runs what does not wait for sockets on Windows.
pub(crate) fn run_windows(args: &[String]) -> Outcome<Tally> {
    let windows = ["windows", "--no-sockets"].map(str::to_owned);
    run(&[&windows, args].concat())
}

pub(crate) fn run(args: &[String]) -> Outcome<Tally> {
    let options = Options::parse(args)?;
    let mut total = Tally::default();
    let mut complaints = String::new();
    for platform in &options.platforms {
        println!("{}: {}", platform.name, platform.about);
        if options.build_only {
            complaints += &build_all(platform, &options)?;
            continue;
        }
        let results = run_on(platform, &options);
        platform.end_runner();
        if !options.keep && !options.resume {
            // What cannot be removed is found by the next run.
            let _ = std::fs::remove_dir_all(platform.target());
        }
        match results {
            Ok(results) => {
                total += results.tally();
                for complaint in &results.complaints {
                    complaints += &format!("{}: {complaint}\n", platform.name);
                }
                // Now: the next platform may take an hour.
                if matches!(options.which, Which::All) {
                    page::write(platform, &results.row)?;
                }
            }
            Err(failure) => complaints += &format!("{}: {failure}\n", platform.name),
        }
    }
    if complaints.is_empty() {
        Ok(total)
    } else {
        Err(Failure {
            why: format!("\n{complaints}"),
            tally: total,
        })
    }
}

/// What was found on one platform.
struct Results {
    row: Row,
    /// Failures that are not listed, and listed tests that have not failed.
    complaints: Vec<String>,
}

impl Results {
    /// Our own tests, and the published ones on the façade.
    fn tally(&self) -> Tally {
        let published = self.row.published.as_ref();
        let facade = published.and_then(|published| published.facade.as_ref());
        let facade = facade.map_or((0, 0), |counts| (counts.passed, counts.failed_tests));
        Tally {
            passed: self.row.own.passed + facade.0,
            failed: self.row.own.failed + facade.1,
        }
    }
}

/// What the table says of the published tests, and what failed. An engine that could not run keeps
/// nothing else out of the table.
fn judge_published(
    facade: Outcome<SuiteResult>,
    real: Outcome<SuiteResult>,
    complaints: &mut Vec<String>,
) -> Published {
    let facade = match facade {
        Ok(result) => {
            complaints.extend(result.complaint);
            Some(result.counts)
        }
        Err(failure) => {
            complaints.push(failure.why);
            None
        }
    };
    let real = match real {
        // What fails on the real tokio is no failure of ours; if all of it does, it was not run.
        Ok(result) if result.counts.passed > 0 => Some(result.counts),
        Ok(_) => {
            complaints.push("no published test passes on the real tokio".to_owned());
            None
        }
        Err(failure) => {
            complaints.push(failure.why);
            None
        }
    };
    Published { facade, real }
}

/// Builds what a run would build. Returns what does not compile.
fn build_all(platform: &'static Platform, options: &Options) -> Outcome<String> {
    platform.prepare()?;
    let built = build(platform, &options.which)?;
    let mut complaints = String::new();
    for failure in built.failures {
        complaints += &format!("{}: {failure}\n", platform.name);
    }
    if options.published {
        conformance::build_on_platform(platform)?;
    }
    Ok(complaints)
}

fn run_on(platform: &'static Platform, options: &Options) -> Outcome<Results> {
    platform.prepare()?;
    let gaps = Gaps::read(platform)?;
    let built = build(platform, &options.which)?;
    let journal = Journal::open(platform, options.resume)?;
    let verdicts = run_all(platform, &built.programs, &gaps, &journal)?;

    let mut complaints = Vec::new();
    let mut own = OwnCounts {
        failed: built.failures.len(),
        ..OwnCounts::default()
    };
    complaints.extend(built.failures);
    let mut failed = BTreeSet::new();
    for (test, verdict) in &verdicts {
        match verdict {
            Verdict::Passed => own.passed += 1,
            Verdict::NotRun => own.not_run += 1,
            _ if gaps.contains(test) => own.listed += 1,
            verdict => {
                own.failed += 1;
                let word = format!("{verdict:?}").to_lowercase();
                complaints.push(format!("{test} {word}"));
            }
        }
        if verdict.is_failure() {
            failed.insert(test.clone());
        }
    }
    let stale = match options.which {
        Which::All => gaps.without_failure(&failed),
        Which::Named(_) | Which::NoSockets => Vec::new(),
    };
    complaints.extend(stale.iter().map(|test| {
        format!("{test} is listed in xtask/platform-gaps.txt, but passes or does not exist")
    }));
    for complaint in &complaints {
        println!("{complaint}");
    }
    println!(
        "{}: {} passed, {} not run, {} failed, {} fail as listed",
        platform.name, own.passed, own.not_run, own.failed, own.listed
    );
    let published = options.published.then(|| {
        judge_published(
            conformance::run_on_platform(platform, &gaps, &journal),
            conformance::run_real_on_platform(platform, &journal),
            &mut complaints,
        )
    });
    Ok(Results {
        row: Row {
            date: today()?,
            own,
            published,
        },
        complaints,
    })
}

/// The day of the run.
fn today() -> Outcome<String> {
    let date = sh::read(Command::new("date").args(["-u", "+%F"]))?;
    Ok(date.trim().to_owned())
}

/// An executable that was built.
struct Program {
    /// `blitzen/net_cancel`, `blitzen` for the tests in its sources, or `example/echo`.
    name: String,
    executable: PathBuf,
    /// The folder in which cargo would run it.
    dir: PathBuf,
    source: PathBuf,
    is_example: bool,
    /// Whether it has the tests in the sources of a package.
    is_unit_test: bool,
}

struct Built {
    programs: Vec<Program>,
    /// What has failed: each target that does not compile, with the first line of the compiler's
    /// message, or else cargo itself.
    failures: Vec<String>,
}

/// Builds tests and examples of the library crates.
fn build(platform: &Platform, which: &Which) -> Outcome<Built> {
    let mut command = platform.cargo(&sh::root(), "build")?;
    match which {
        Which::All | Which::NoSockets => command.args(["--tests", "--examples"]),
        Which::Named(part) => command.args(["--test", &format!("*{part}*")]),
    };
    command.args(["--keep-going", "--message-format=json"]);
    for package in sh::library_packages()? {
        command.args(["-p", &package.name]);
    }
    let output = command.output().context("cargo build")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = CargoOutput {
        status: output.status,
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    };
    let mut built = said.judge(platform.triple.is_some())?;
    if matches!(which, Which::NoSockets) {
        built.programs = without_sockets(built.programs)?;
    }
    Ok(built)
}

/// The programs that wait for no sockets. No unit test does on Windows.
fn without_sockets(programs: Vec<Program>) -> Outcome<Vec<Program>> {
    let mut without = Vec::new();
    for program in programs {
        if program.is_unit_test || !uses_sockets(&program.source)? {
            without.push(program);
        }
    }
    Ok(without)
}

/// What `cargo build --message-format=json` has left behind.
struct CargoOutput {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

impl CargoOutput {
    /// What was built and what was not. `is_cross`: for another machine than this one.
    fn judge(&self, is_cross: bool) -> Outcome<Built> {
        let mut programs = Vec::new();
        let mut errors: BTreeMap<String, String> = BTreeMap::new();
        for line in self.stdout.lines() {
            let message: Value = serde_json::from_str(line).context("reading cargo's messages")?;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            if message["message"]["level"] == "error" {
                let rendered = text(&message["message"]["rendered"]);
                println!("{rendered}");
                let first = rendered.lines().next().unwrap_or("error").to_owned();
                let target = text(&message["target"]["name"]);
                errors.entry(target).or_insert(first);
            } else {
                programs.extend(Program::of(&message, is_cross));
            }
        }
        let mut failures: Vec<String> = errors
            .into_iter()
            .map(|(target, why)| format!("{target} does not compile: {why}"))
            .collect();
        // There is no message of the compiler if it was killed, if there is no linker, or if a build
        // script has failed.
        if failures.is_empty() && !self.status.success() {
            failures.push(format!("cargo build {}: {}", self.status, self.end()));
        }
        if programs.is_empty() {
            return Err(format!("nothing was built:\n{}", self.stderr).into());
        }
        programs.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Built { programs, failures })
    }

    /// The last lines of what cargo has said.
    fn end(&self) -> String {
        let lines: Vec<&str> = self.stderr.trim_end().lines().collect();
        lines[lines.len().saturating_sub(END_LINES)..].join("\n")
    }
}

impl Program {
    /// The program of which cargo says that it was built, if it does.
    fn of(message: &Value, is_cross: bool) -> Option<Self> {
        let executable = PathBuf::from(message["executable"].as_str()?);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let target = text(&message["target"]["name"]);
        let kind = text(&message["target"]["kind"][0]);
        if kind == "proc-macro" && is_cross {
            return None; // it is for the compiler, on this machine
        }
        let manifest = PathBuf::from(text(&message["manifest_path"]));
        let dir = manifest.parent().map(PathBuf::from).unwrap_or_default();
        let package = dir.file_name().unwrap_or_default().to_string_lossy();
        let name = match kind.as_str() {
            "example" => format!("example/{target}"),
            "test" => format!("{package}/{target}"),
            _ => package.into_owned(),
        };
        Some(Self {
            name,
            executable,
            dir,
            source: PathBuf::from(text(&message["target"]["src_path"])),
            is_example: kind == "example",
            is_unit_test: kind != "example" && kind != "test",
        })
    }
}

/// Whether a test file or an example waits for sockets, by its text.
fn uses_sockets(source: &Path) -> Outcome<bool> {
    let text = std::fs::read_to_string(source).context(source.display())?;
    let signs = ["Tcp", "Udp", "net_common", "hyper"];
    // What connects sockets in the module that the tests of the driver have in common.
    let common = ["LocalStream", "connect", "listen", "pair"];
    let imports = text.split_once("\nuse common::").unwrap_or_default().1;
    let imports = imports.split(';').next().unwrap_or_default();
    Ok(signs.iter().any(|sign| text.contains(sign))
        || common.iter().any(|sign| imports.contains(sign)))
}

/// Runs the programs. The verdicts are by name of the test, and of the example.
fn run_all(
    platform: &Platform,
    programs: &[Program],
    gaps: &Gaps,
    journal: &Journal,
) -> Outcome<BTreeMap<String, Verdict>> {
    let logs = sh::target().join("platforms/logs").join(platform.name);
    // Logs of an earlier run would be mistaken for those of this one.
    let _ = std::fs::remove_dir_all(&logs);
    std::fs::create_dir_all(&logs).context(logs.display())?;
    let all = Mutex::new(BTreeMap::new());
    harness::for_each_on_all_cores(programs, |program| {
        let name = &program.name;
        let log_name = name.replace('/', ".");
        let command = || platform.command(&program.executable, &program.dir);
        let earlier = journal.earlier(&program.executable)?;
        let verdicts: BTreeMap<String, Verdict> = if program.is_example {
            let log = logs.join(format!("{log_name}.log"));
            let run = || -> Outcome<Verdict> {
                Ok(
                    match sh::run_tests_for(&mut command(), LIMITS.alone, &log)? {
                        Ended::TimedOut => Verdict::Hung,
                        Ended::Exited(status) if status.success() => Verdict::Passed,
                        Ended::Exited(_) => Verdict::Failed,
                    },
                )
            };
            // Like a test, it has a second try: some measure time.
            let has_passed = earlier.is_some_and(|passed| passed.contains_key(name));
            let verdict = match has_passed || run()?.is_passed() {
                true => Verdict::Passed,
                false => run()?,
            };
            let verdicts = BTreeMap::from([(name.clone(), verdict)]);
            journal.write(&program.executable, &verdicts)?;
            verdicts
        } else {
            let run = TestExecutable::list(&command, LIMITS, logs.clone(), &log_name)?;
            let full_name = |test: &str| format!("{name}::{test}");
            let verdicts = run.run(&|test| gaps.contains(&full_name(test)), false, earlier)?;
            journal.write(&program.executable, &verdicts)?;
            verdicts
                .into_iter()
                .map(|(test, verdict)| (full_name(&test), verdict))
                .collect()
        };
        let passed = verdicts.values().filter(|verdict| verdict.is_passed());
        println!("{name}: {} of {} passed", passed.count(), verdicts.len());
        all.lock().expect("no worker panics").extend(verdicts);
        Ok(())
    })?;
    println!("logs in {}", logs.display());
    Ok(all.into_inner().expect("no worker panics"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use crate::conformance::SuiteCounts;

    #[test]
    fn test_files_with_sockets_are_told_from_others() {
        let uses = |file: &str| uses_sockets(&sh::root().join(file)).unwrap();
        assert!(uses("crates/blitzen/tests/net_cancel.rs"));
        assert!(uses("crates/blitzen/tests/shard.rs"));
        assert!(uses("examples/tour.rs"));
        assert!(uses("crates/driver/tests/fairness.rs"));
        assert!(uses("crates/driver/tests/foreign_wakers.rs"));
        assert!(uses("crates/driver/tests/interrupt.rs"));
        assert!(!uses("crates/driver/tests/closing_pipes.rs"));
        assert!(!uses("crates/blitzen/tests/engine_panics.rs"));
        assert!(!uses("crates/blitzen/tests/net_named_pipe.rs"));
        assert!(!uses("crates/sync/tests/lock_order.rs"));
    }

    /// A build that has made one program, and has also said `stdout`.
    fn judge(code: i32, stdout: &str, stderr: &str) -> Built {
        let artifact = r#"{"reason":"compiler-artifact","manifest_path":"/x/crates/io/Cargo.toml",
            "target":{"name":"copy","kind":["test"],"src_path":"/x/crates/io/tests/copy.rs"},
            "executable":"/x/target/copy-1"}"#;
        let said = CargoOutput {
            status: ExitStatus::from_raw(code << 8),
            stdout: artifact.replace('\n', "") + "\n" + stdout,
            stderr: stderr.to_owned(),
        };
        said.judge(true).unwrap()
    }

    #[test]
    fn a_build_that_fails_without_a_message_of_the_compiler_has_failed() {
        let built = judge(0, "", "warning: unused\n");
        assert_eq!(built.failures, [""; 0]);
        assert_eq!(built.programs.len(), 1);
        assert_eq!(built.programs[0].name, "io/copy");
        assert!(!built.programs[0].is_unit_test);

        let stderr = format!("{}error: linker `cc` not found\n", "Compiling\n".repeat(99));
        let built = judge(101, "", &stderr);
        assert_eq!(built.programs.len(), 1);
        let [failure] = &built.failures[..] else {
            panic!("{:?}", built.failures)
        };
        assert!(failure.contains("exit status: 101"), "{failure}");
        assert!(
            failure.ends_with("error: linker `cc` not found"),
            "{failure}"
        );
        assert_eq!(failure.lines().count(), END_LINES);
    }

    #[test]
    fn each_target_that_does_not_compile_is_one_failure() {
        let error = |target: &str, what: &str| {
            format!(
                r#"{{"reason":"compiler-message","target":{{"name":"{target}"}},"message":{{"level":"error","rendered":"error: {what}\nmore"}}}}"#
            ) + "\n"
        };
        let said = error("udp", "one") + &error("udp", "two") + &error("tcp", "three");
        let built = judge(101, &said, "error: could not compile\n");
        let expected = [
            "tcp does not compile: error: three",
            "udp does not compile: error: one",
        ];
        assert_eq!(built.failures, expected);
    }

    #[test]
    fn results_are_kept_if_the_real_tokio_cannot_run() {
        let facade = SuiteResult {
            counts: SuiteCounts {
                passed: 7,
                ..SuiteCounts::default()
            },
            complaint: None,
        };
        let mut complaints = Vec::new();
        let real = Err("it does not compile".into());
        let published = judge_published(Ok(facade.clone()), real, &mut complaints);
        assert_eq!(published.facade, Some(facade.counts));
        assert_eq!(published.real, None);
        assert_eq!(complaints, ["it does not compile"]);
    }
}
