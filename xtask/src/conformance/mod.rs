//! Tokio's published tests, run on the façade in `compat/tokio`.
//!
//! The tests come from the package `tokio` as cargo downloads it; none is kept here.
//! What is kept, in `compat/`:
//!
//! * `suite/tests.txt`: how many tests each file has, by group. A file that does not compile
//!   counts as that many failures.
//! * `known-failures.txt`: tests that do not pass yet, and why. A failure outside it is an
//!   error, and so is a listed test that passes. `--update` removes lines and adds none.
//! * `deviations.txt`: tests that fail because blitzen differs on purpose, and why;
//!   `completion-deviations.txt`: the same, only with sockets by completion.
//! * `suite/unstable-tests.txt`, `unstable-failures.txt`: the same for `--cfg tokio_unstable`.

mod build;
mod known;
mod report;
mod run;
mod table;

pub(crate) use build::facade_version;
pub(crate) use report::SuiteCounts;

use std::time::Instant;

use crate::platforms::{Gaps, Journal, Platform};
use crate::sh::{self, Failure, Outcome, Tally};
use build::{BuildFlags, Built, Engine, SuiteWorkspace};
use known::Known;
use report::Report;
use run::{Results, RunOptions};
use table::Table;

const USAGE: &str = "\
cargo xtask conformance [--group <name>]… [--file <name>]… [options]
  --real       run on the real tokio, to see what this machine lets pass
  --epoll      run without io_uring
  --poll       run on mio's poller over poll(2), without io_uring; groups as for --completion
  --platform <name>  run on another platform, as cargo xtask platforms does; groups as for --completion
  --completion run with sockets by completion; groups io and net unless others are named
  --unstable   run the files that have tests for `--cfg tokio_unstable`, with it
  --per-test   run every test in a process of its own
  --update     remove what passes from compat/known-failures.txt
  --verbose    print the reason of each failure
The tests see the environment: BLITZEN_CHILD=sigchld cargo xtask conformance";

struct Options {
    engine: Engine,
    groups: Vec<String>,
    files: Vec<String>,
    per_test: bool,
    epoll: bool,
    platform: Option<&'static Platform>,
    completion: bool,
    unstable: bool,
    update: bool,
    verbose: bool,
}

impl Options {
    fn parse(args: &[String]) -> Outcome<Self> {
        let mut options = Self {
            engine: Engine::Facade,
            groups: Vec::new(),
            files: Vec::new(),
            per_test: false,
            epoll: false,
            platform: None,
            completion: false,
            unstable: false,
            update: false,
            verbose: false,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || {
                args.next()
                    .cloned()
                    .ok_or_else(|| format!("{arg} needs a value\n{USAGE}"))
            };
            match arg.as_str() {
                "--group" => options.groups.push(value()?),
                "--file" => options.files.push(value()?),
                "--real" => options.engine = Engine::Real,
                "--per-test" => options.per_test = true,
                "--epoll" => options.epoll = true,
                "--poll" => options.platform = Some(Platform::find("poll")?),
                "--platform" => options.platform = Some(Platform::find(&value()?)?),
                "--completion" => options.completion = true,
                "--unstable" => options.unstable = true,
                "--update" => options.update = true,
                "--verbose" => options.verbose = true,
                _ => return Err(format!("unknown option {arg}\n{USAGE}").into()),
            }
        }
        let is_about_sockets = options.completion || options.platform.is_some();
        if is_about_sockets && options.groups.is_empty() && options.files.is_empty() {
            options.groups = vec!["io".to_owned(), "net".to_owned()];
        }
        Ok(options)
    }

    /// All tests on `platform`.
    fn on_platform(engine: Engine, platform: &'static Platform) -> Outcome<Self> {
        let mut options = Self::parse(&[])?;
        options.engine = engine;
        options.platform = Some(platform);
        Ok(options)
    }
}

/// Runs all tests without io_uring.
pub(crate) fn run_on_epoll(args: &[String]) -> Outcome<Tally> {
    let epoll = ["--epoll".to_owned()];
    run(&[&epoll, args].concat())
}

/// Runs the groups that use sockets on the poller of systems that have only poll(2).
pub(crate) fn run_on_poll(args: &[String]) -> Outcome<Tally> {
    let poll = ["--poll".to_owned()];
    run(&[&poll, args].concat())
}

/// Runs the files with tests for `--cfg tokio_unstable`, and the programs on `tokio-metrics` and
/// `console-subscriber`; also the bridge to tokio-console, which has most of its dependencies in
/// common with the last.
pub(crate) fn run_unstable(args: &[String]) -> Outcome<Tally> {
    let unstable = ["--unstable".to_owned()];
    let mut tally = run(&[&unstable, args].concat())?;
    let mut command = sh::cargo();
    command
        .current_dir(sh::root().join("compat"))
        .args(["test", "-q", "-p", "compat-metrics", "-p", "compat-console"])
        .args(["-p", "blitzen-console-bridge"])
        .env("RUSTFLAGS", "--cfg tokio_unstable")
        .env("CARGO_TARGET_DIR", build::target("build-unstable"));
    tally += sh::run_tests(&mut command)?;
    Ok(tally)
}

/// Runs the groups that use sockets by completion, unless the kernel or a container forbids
/// io_uring.
pub(crate) fn run_by_completion(args: &[String]) -> Outcome<Tally> {
    if !may_use_io_uring() {
        println!("not run: io_uring is not available here");
        return Ok(Tally::default());
    }
    let completion = ["--completion".to_owned()];
    run(&[&completion, args].concat())
}

/// Asks the kernel for a ring, with an address that it has to refuse.
pub(crate) fn may_use_io_uring() -> bool {
    // SAFETY: the kernel copies from the null pointer, and answers EFAULT.
    let answer = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, std::ptr::null::<u8>()) };
    let error = std::io::Error::last_os_error().raw_os_error();
    answer >= 0 || !matches!(error, Some(libc::ENOSYS | libc::EPERM))
}

pub(crate) fn run(args: &[String]) -> Outcome<Tally> {
    let options = Options::parse(args)?;
    if let Some(platform) = options.platform {
        platform.prepare()?;
    }
    let known = match (options.engine, options.platform) {
        (Engine::Facade, None) => Known::read(options.completion, options.unstable)?,
        (Engine::Facade, Some(platform)) => Known::read_for_platform(&Gaps::read(platform)?)?,
        (Engine::Real, _) => Known::nothing(),
    };
    run_with(&options, &known)
}

/// Builds all tests for another platform, on the façade and on the real tokio.
pub(crate) fn build_on_platform(platform: &'static Platform) -> Outcome {
    for engine in [Engine::Facade, Engine::Real] {
        build(&Options::on_platform(engine, platform)?, &Table::read()?)?;
    }
    Ok(())
}

/// What the published tests did on another platform.
#[derive(Clone, Debug)]
pub(crate) struct SuiteResult {
    pub(crate) counts: SuiteCounts,
    /// Failures that are not listed, and listed tests that have not failed.
    pub(crate) complaint: Option<String>,
}

/// Runs all tests on another platform, where those in `gaps` fail.
pub(crate) fn run_on_platform(
    platform: &'static Platform,
    gaps: &Gaps,
    journal: &Journal,
) -> Outcome<SuiteResult> {
    let options = Options::on_platform(Engine::Facade, platform)?;
    let known = Known::read_for_platform(gaps)?;
    let (report, _) = report(&options, &known, Some(journal))?;
    Ok(SuiteResult {
        counts: report.counts(),
        complaint: report.complaint(&known.list()),
    })
}

/// Runs all tests with the real tokio on another platform. What fails there is printed and
/// counted, but is no failure of ours.
pub(crate) fn run_real_on_platform(
    platform: &'static Platform,
    journal: &Journal,
) -> Outcome<SuiteResult> {
    let options = Options::on_platform(Engine::Real, platform)?;
    let (report, _) = report(&options, &Known::nothing(), Some(journal))?;
    let counts = report.counts();
    for name in &counts.failed {
        println!("fails on the real tokio: {name}");
    }
    Ok(SuiteResult {
        counts,
        complaint: None,
    })
}

/// Runs the tests.
fn run_with(options: &Options, known: &Known) -> Outcome<Tally> {
    let (report, results) = report(options, known, None)?;
    if options.update {
        known.without_passed(&results).write()?;
        return Ok(report.tally());
    }
    match report.complaint(&known.list()) {
        None => Ok(report.tally()),
        Some(why) => Err(Failure {
            why,
            tally: report.tally(),
        }),
    }
}

/// Builds and runs the tests; with a journal, those that are not noted there.
fn report(
    options: &Options,
    known: &Known,
    journal: Option<&Journal>,
) -> Outcome<(Report, Results)> {
    let table = match options.unstable {
        false => Table::read()?,
        true => Table::read_unstable()?,
    };
    let table = table.select(&options.groups, &options.files)?;
    let (workspace, built) = build(options, &table)?;

    let start = Instant::now();
    let how = RunOptions {
        per_test: options.per_test,
        epoll: options.epoll,
        completion: options.completion,
        platform: options.platform,
        journal,
    };
    let results = run::run_all(&workspace, &table, &built, known, how)?;
    println!(
        "ran them in {:.0} s; logs in {}",
        start.elapsed().as_secs_f64(),
        workspace.logs().display()
    );
    let report = Report::new(&table, &results, known);
    report.print(options.verbose);
    Ok((report, results))
}

fn build(options: &Options, table: &Table) -> Outcome<(SuiteWorkspace, Built)> {
    let start = Instant::now();
    let workspace = SuiteWorkspace::prepare(
        options.engine,
        BuildFlags {
            unstable: options.unstable,
            platform: options.platform,
        },
        table,
    )?;
    let built = workspace.build(table)?;
    println!(
        "built {} of {} files in {:.0} s",
        built.count(),
        table.files().count(),
        start.elapsed().as_secs_f64()
    );
    Ok((workspace, built))
}
