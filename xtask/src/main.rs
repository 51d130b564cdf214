//! Every check of the project, runnable by name: `cargo xtask <step>`.
//!
//! Each step is a function from its arguments to a [`Tally`] of the tests it ran.
//! `cargo xtask ci` runs the steps marked `ci` one after another, all of them even
//! when one fails, and ends with a table and one line of totals.

mod api;
mod checks;
mod conformance;
mod cross;
mod doc;
mod loom;
mod sanitize;
mod sh;
mod toolchain;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use sh::{Outcome, Tally};

/// One thing `cargo xtask` can do.
struct Step {
    name: &'static str,
    /// Whether `cargo xtask ci` runs it.
    ci: bool,
    about: &'static str,
    run: fn(&[String]) -> Outcome<Tally>,
}

const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        ci: true,
        about: "formatting, both workspaces (--fix to apply)",
        run: checks::fmt,
    },
    Step {
        name: "clippy",
        ci: true,
        about: "lints of every target and of the façade's feature sets",
        run: checks::clippy,
    },
    Step {
        name: "doc",
        ci: true,
        about: "documentation builds without warnings; every public item has an example (--missing [path] lists those without)",
        run: doc::run,
    },
    Step {
        name: "test",
        ci: true,
        about: "unit, integration and doc tests, then the examples",
        run: checks::test,
    },
    Step {
        name: "loom",
        ci: true,
        about: "every model, in release, preemptions bounded",
        run: loom::run,
    },
    Step {
        name: "asan",
        ci: true,
        about: "address and leak sanitizer over the library crates",
        run: sanitize::asan,
    },
    Step {
        name: "tsan",
        ci: false,
        about: "thread sanitizer, standard library included",
        run: sanitize::tsan,
    },
    Step {
        name: "cross",
        ci: true,
        about: "type-check for macOS, FreeBSD and Windows",
        run: cross::run,
    },
    Step {
        name: "conformance",
        ci: true,
        about: "Tokio's published tests on the façade",
        run: conformance::run,
    },
    Step {
        name: "epoll",
        ci: true,
        about: "the same without io_uring",
        run: conformance::run_on_epoll,
    },
    Step {
        name: "api",
        ci: false,
        about: "which of Tokio's public items the façade lacks",
        run: api::run,
    },
    Step {
        name: "bench",
        ci: false,
        about: "the comparison with other runtimes",
        run: checks::bench,
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
        "ci" => ci(rest),
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
    println!("cargo xtask <step> [options]\n");
    for step in STEPS {
        println!("  {:<12} {}", step.name, step.about);
    }
    println!(
        "  {:<12} all of these that CI runs (--skip <step>, --only <step>, repeatable)",
        "ci"
    );
}

/// What became of one step.
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

fn ci(args: &[String]) -> Vec<Performed> {
    let named = |flag: &str| -> Vec<&str> {
        args.windows(2)
            .filter(|pair| pair[0] == flag)
            .map(|pair| pair[1].as_str())
            .collect()
    };
    let (only, skip) = (named("--only"), named("--skip"));
    STEPS
        .iter()
        .filter(|step| step.ci && !skip.contains(&step.name))
        .filter(|step| only.is_empty() || only.contains(&step.name))
        .map(|step| perform(step, &[]))
        .collect()
}

/// Prints time and counts per step, and the closing line of totals, in which a step
/// that failed without a failed test counts as one failure.
fn summarise(report: &[Performed]) -> ExitCode {
    println!(
        "\n{:<12} {:>7}  {:<7} {:>7} {:>7}",
        "step", "time", "", "passed", "failed"
    );
    let mut total = Tally::default();
    let mut all_well = true;
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
        all_well &= step.outcome.is_ok();
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
    if all_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
