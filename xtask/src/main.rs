//! Every check of the project, runnable by name: `cargo xtask <step>`.
//!
//! Each step is a function from its arguments to a [`Tally`] of the tests it ran.
//! `cargo xtask ci` runs the steps of CI one after another, all of them even when one
//! fails, and ends with a table and one line of totals.

mod api;
mod bench_guard;
mod checks;
mod conformance;
mod cross;
mod deny;
mod doc;
mod ecosystem;
mod harness;
mod loom;
mod orderings;
mod package;
mod perfetto;
mod platforms;
mod sanitize;
mod sh;
mod toolchain;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use sh::{Outcome, Tally};

/// One thing `cargo xtask` can do.
struct Step {
    name: &'static str,
    ci: Ci,
    about: &'static str,
    run: fn(&[String]) -> Outcome<Tally>,
}

/// Whether `cargo xtask ci` runs a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ci {
    Always,
    /// With `--full`: it takes too long to wait for after every change.
    Full,
    Never,
}

const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        ci: Ci::Always,
        about: "checks the formatting of all workspaces; --fix applies it",
        run: checks::fmt,
    },
    Step {
        name: "clippy",
        ci: Ci::Always,
        about: "lints every target, each feature set of the façade, and the bridge to tokio-console",
        run: checks::clippy,
    },
    Step {
        name: "doc",
        ci: Ci::Always,
        about: "builds the documentation and looks for public items without an example;\n                 --missing [path] only lists those",
        run: doc::run,
    },
    Step {
        name: "test",
        ci: Ci::Always,
        about: "runs the unit, integration and doc tests, then the examples",
        run: checks::test,
    },
    Step {
        name: "loom",
        ci: Ci::Always,
        about: "searches every loom model to its preemption bound; [name] chooses some",
        run: loom::run,
    },
    Step {
        name: "orderings",
        ci: Ci::Never,
        about: "weakens each memory ordering, and looks for a model that fails; [name] chooses files,\n                 functions or orderings",
        run: orderings::run,
    },
    Step {
        name: "asan",
        ci: Ci::Always,
        about: "runs the library tests under the address and leak sanitizers",
        run: sanitize::asan,
    },
    Step {
        name: "tsan",
        ci: Ci::Full,
        about: "runs the library tests under the thread sanitizer, standard library included",
        run: sanitize::tsan,
    },
    Step {
        name: "cross",
        ci: Ci::Always,
        about: "type-checks the library and its features for macOS, Windows and i686, and that a target\n                 without 64-bit atomics is refused",
        run: cross::some,
    },
    Step {
        name: "cross-more",
        ci: Ci::Full,
        about: "type-checks the library for macOS on ARM, FreeBSD, NetBSD, OpenBSD, illumos, musl, Android,\n                 armv7 and riscv64",
        run: cross::others,
    },
    Step {
        name: "platforms",
        ci: Ci::Never,
        about: "runs tests and examples on other platforms, some under an emulator; installs what\n                 it needs; [platform] chooses some, --published adds Tokio's published tests",
        run: platforms::run,
    },
    Step {
        name: "windows",
        ci: Ci::Always,
        about: "runs on Windows, under wine, what uses no sockets; installs what it needs",
        run: platforms::run_windows,
    },
    Step {
        name: "msrv",
        ci: Ci::Always,
        about: "compiles the library with the oldest Rust version that the manifest allows",
        run: checks::msrv,
    },
    Step {
        name: "package",
        ci: Ci::Always,
        about: "packages every crate that is published; --verify compiles each package too",
        run: package::run,
    },
    Step {
        name: "deny",
        ci: Ci::Always,
        about: "checks licences, sources and banned crates of all dependencies against deny.toml",
        run: deny::run,
    },
    Step {
        name: "api",
        ci: Ci::Always,
        about: "compares the façade's public surface with tokio's; --only <setup> for one set of features",
        run: api::run,
    },
    Step {
        name: "conformance",
        ci: Ci::Always,
        about: "runs Tokio's published tests on the façade",
        run: conformance::run,
    },
    Step {
        name: "epoll",
        ci: Ci::Always,
        about: "the same without io_uring",
        run: conformance::run_on_epoll,
    },
    Step {
        name: "poll",
        ci: Ci::Never,
        about: "the tests of sockets and I/O again, on mio's poller over poll(2)",
        run: conformance::run_on_poll,
    },
    Step {
        name: "completion",
        ci: Ci::Always,
        about: "the tests of sockets and I/O again, with sockets by completion",
        run: conformance::run_by_completion,
    },
    Step {
        name: "ecosystem",
        ci: Ci::Never,
        about: "runs programs on widely used crates, on the façade and on the real tokio;\n                 --suites runs the tests that published packages carry",
        run: ecosystem::run,
    },
    Step {
        name: "ecosystem-short",
        ci: Ci::Always,
        about: "runs those on hyper, axum, reqwest, tokio-util and a few more, on the façade",
        run: ecosystem::run_short,
    },
    Step {
        name: "perfetto",
        ci: Ci::Always,
        about: "records a program, and has Perfetto read the trace; needs the package `perfetto` of PyPI",
        run: perfetto::run,
    },
    Step {
        name: "unstable",
        ci: Ci::Always,
        about: "the tests for `--cfg tokio_unstable`, and those of the bridge to tokio-console",
        run: conformance::run_unstable,
    },
    Step {
        name: "instructions",
        ci: Ci::Always,
        about: "counts the instructions of the guarded rows, against bench/baseline.json",
        run: bench_guard::run_short,
    },
    Step {
        name: "bench-guard",
        ci: Ci::Never,
        about: "the same, and times them against Tokio; needs a quiet machine;\n                 --update writes the baseline, --with <path> measures a build that is there",
        run: bench_guard::run,
    },
    Step {
        name: "bench",
        ci: Ci::Never,
        about: "compares blitzen with other runtimes",
        run: checks::bench,
    },
    Step {
        name: "bench-observed",
        ci: Ci::Never,
        about: "builds what `bench observe` needs to compare with an observed Tokio",
        run: checks::bench_observed,
    },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = args.split_first() else {
        usage();
        return ExitCode::FAILURE;
    };
    let report = match name.as_str() {
        "help" | "--help" | "-h" => {
            usage();
            return ExitCode::SUCCESS;
        }
        "ci" => match ci(rest) {
            Ok(report) => report,
            Err(why) => {
                eprintln!("xtask: {why}");
                return ExitCode::FAILURE;
            }
        },
        _ => match STEPS.iter().find(|step| step.name == name) {
            Some(step) => vec![perform(step, rest)],
            None => {
                eprintln!("xtask: there is no step `{name}`");
                usage();
                return ExitCode::FAILURE;
            }
        },
    };
    summarise(&report)
}

fn usage() {
    let mut text = String::from("cargo xtask <step> [options]\n\n");
    for step in STEPS {
        let mark = match step.ci {
            Ci::Always => ' ',
            Ci::Full => '+',
            Ci::Never => '-',
        };
        text += &format!("{mark} {:<15} {}\n", step.name, step.about);
    }
    text += "\n  ci             runs every step without a mark, and with --full those marked `+` too;\n\
             \x20                --skip <step> and --only <step>, repeatable, choose among them;\n\
             \x20                --clean removes what a step has built once no other needs it\n";
    // A closed pipe means that the reader has seen enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// The result of one step.
struct Performed {
    name: &'static str,
    took: Duration,
    outcome: Outcome<Tally>,
}

fn perform(step: &Step, args: &[String]) -> Performed {
    println!("── {} ──", step.name);
    let start = Instant::now();
    let outcome = (step.run)(args);
    if let Err(why) = &outcome {
        println!("{}: {why}", step.name);
    }
    Performed {
        name: step.name,
        took: start.elapsed(),
        outcome,
    }
}

/// The folders below `target/` that no step of CI uses after the named one.
fn last_used_by(step: &str) -> &'static [&'static str] {
    match step {
        "clippy" => &["compat", "task-spans"],
        "doc" => &["doc", "doc-json"],
        "test" => &["debug"],
        "loom" => &["loom"],
        "asan" => &["asan"],
        "tsan" => &["tsan"],
        "cross-more" => &["cross"],
        "windows" => &["platforms"],
        "msrv" => &["msrv"],
        "package" => &["package"],
        "api" => &["api"],
        "completion" => &["conformance/build"],
        "ecosystem-short" => &["ecosystem"],
        "unstable" => &["conformance"],
        _ => &[],
    }
}

/// Runs the steps of CI. An unknown name is an error: it would run nothing, and pass.
fn ci(args: &[String]) -> Outcome<Vec<Performed>> {
    let (mut full, mut clean) = (false, false);
    let (mut only, mut skip) = (Vec::new(), Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let list = match arg.as_str() {
            "--full" => {
                full = true;
                continue;
            }
            "--clean" => {
                clean = true;
                continue;
            }
            "--only" => &mut only,
            "--skip" => &mut skip,
            _ => return Err(format!("ci has no option {arg}").into()),
        };
        let name = args.next().ok_or(format!("{arg} needs a step"))?;
        match STEPS.iter().find(|step| step.name == name) {
            Some(step) => list.push(step.name),
            None => return Err(format!("there is no step `{name}`").into()),
        }
    }
    let is_chosen = |step: &&Step| match only.is_empty() {
        true => step.ci == Ci::Always || (full && step.ci == Ci::Full),
        false => only.contains(&step.name),
    };
    let chosen = STEPS.iter().filter(is_chosen);
    Ok(chosen
        .filter(|step| !skip.contains(&step.name))
        .map(|step| {
            let performed = perform(step, &[]);
            if clean {
                for folder in last_used_by(step.name) {
                    // A folder that cannot be removed takes room, and harms nothing else.
                    let _ = std::fs::remove_dir_all(sh::target().join(folder));
                }
            }
            performed
        })
        .collect())
}

/// Prints time and counts per step, then the totals, in which a step that failed without a
/// failed test counts as one failure.
fn summarise(report: &[Performed]) -> ExitCode {
    println!(
        "\n{:<12} {:>7}  {:<7} {:>7} {:>7}",
        "step", "time", "", "passed", "failed"
    );
    let mut total = Tally::default();
    let mut all_passed = true;
    for step in report {
        let (word, tally) = match &step.outcome {
            Ok(tally) => ("ok", *tally),
            Err(failure) => (
                "FAILED",
                Tally {
                    failed: failure.tally.failed.max(1),
                    ..failure.tally
                },
            ),
        };
        all_passed &= step.outcome.is_ok();
        total += tally;
        println!(
            "{:<12} {:>6.1}s  {word:<7} {:>7} {:>7}",
            step.name,
            step.took.as_secs_f64(),
            tally.passed,
            tally.failed
        );
    }
    let took: Duration = report.iter().map(|step| step.took).sum();
    println!(
        "\n{} passed, {} failed in {:.0} s",
        total.passed,
        total.failed,
        took.as_secs_f64()
    );
    if all_passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
