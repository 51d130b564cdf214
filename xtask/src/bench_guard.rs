//! The regression guard: what blitzen costs now, against what `bench/baseline.json` says.
//!
//! G1. A time is kept as a ratio: Tokio's over blitzen's, in the same run. What slows the
//!     machine slows both. A row fails when it has lost more than [`RATIO_LOSS`] of its ratio.
//! G2. Instructions per operation are kept for both. A row fails when blitzen's count has
//!     grown by more than [`COUNT_GROWTH`], and its multiple of Tokio's count too: another
//!     compiler, C library or valgrind moves both counts, and only blitzen's own change moves
//!     both figures.
//! G3. A limit is absolute: scheduled operations a second, the latency of a steal.
//! G4. A failure has to repeat: a row that fails is measured again, up to [`TRIES`] times in
//!     all, and is reported only if it failed every time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::sh::{self, Context, Failure, Outcome, Tally};

const BASELINE: &str = "bench/baseline.json";

const RATIO_LOSS: f64 = 0.20;
const COUNT_GROWTH: f64 = 0.05;
const TRIES: usize = 3;
const ROUNDS: &str = "9";

/// Rows whose instructions are guarded: the paths that everything else is made of.
const COUNTED: [&str; 14] = [
    "scheduled_ops",
    "spawn_inside",
    "spawn_await_each",
    "yield_one",
    "ping_pong_pair",
    "wake_inside",
    "mutex_lock",
    "rwlock_read",
    "notify_ping_pong",
    "mpsc_trip",
    "oneshot_tasks",
    "watch_try",
    "sleep_armed",
    "timeout_pending",
];

/// Rows whose time against Tokio's is guarded.
const TIMED: [&str; 18] = [
    "scheduled_ops",
    "spawn_outside",
    "spawn_inside",
    "spawn_await_each",
    "join_set",
    "yield_one",
    "ping_pong_pair",
    "wake_outside",
    "wake_inside",
    "blocking_trip",
    "mutex_lock",
    "mutex_4_tasks",
    "mpsc_1p1c",
    "mpsc_trip",
    "mpmc_4p4c",
    "sleep_armed",
    "echo_32",
    "fs_read_one",
];

/// What a row's median must keep to, in the row's unit.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

/// Rows with a limit of their own. The stretch goals (15 million, 1 µs) are targets in the
/// comparison and fail nothing here.
const LIMITED: [(&str, Limit); 3] = [
    ("scheduled_ops", Limit::AtLeast(10e6)),
    ("steal_lone_awake", Limit::AtMost(2_000.0)),
    ("steal_ring_awake", Limit::AtMost(2_000.0)),
];

/// Instructions per operation.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Counts {
    blitzen: f64,
    tokio: f64,
}

/// What is guarded of the rows, then or now.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
struct Figures {
    /// With what the counts were taken.
    taken_with: String,
    instructions: BTreeMap<String, Counts>,
    /// Tokio's time over blitzen's.
    ratios: BTreeMap<String, f64>,
    /// Medians of the rows with a limit. Not compared with an earlier run.
    #[serde(skip)]
    medians: BTreeMap<String, f64>,
}

/// `cargo xtask bench-guard`: everything. `--update` writes what it finds as the baseline;
/// `--with <path>` measures that build of `blitzen-bench` instead of building one.
pub(crate) fn run(args: &[String]) -> Outcome<Tally> {
    guard(args, true)
}

/// `cargo xtask instructions`: the short form, which a loaded machine does not disturb.
pub(crate) fn run_short(args: &[String]) -> Outcome<Tally> {
    guard(args, false)
}

fn guard(args: &[String], is_timed: bool) -> Outcome<Tally> {
    let (mut is_update, mut bench) = (false, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--update" => is_update = true,
            "--with" => bench = Some(PathBuf::from(args.next().ok_or("--with needs a path")?)),
            _ => return Err(format!("there is no option {arg}").into()),
        }
    }
    let path = sh::root().join(BASELINE);
    let bench = match bench {
        Some(bench) => bench,
        None => build(is_timed)?,
    };
    let limited = LIMITED.map(|(row, _)| row);
    let timed: Vec<&str> = match is_timed {
        true => TIMED.into_iter().chain(limited).collect(),
        false => Vec::new(),
    };
    let now = measure(&bench, &COUNTED, &timed)?;
    if is_update {
        let mut baseline = load(&path).unwrap_or_default();
        baseline.taken_with = now.taken_with;
        baseline.instructions = now.instructions;
        if is_timed {
            let guarded = |(row, _): &(String, f64)| TIMED.contains(&row.as_str());
            baseline.ratios = now.ratios.into_iter().filter(guarded).collect();
        }
        return save(&path, &baseline);
    }
    let baseline = load(&path)?;
    if baseline.taken_with != now.taken_with {
        println!(
            "the baseline was taken with {}, this is {}",
            baseline.taken_with, now.taken_with
        );
    }
    let mut findings = compare(&baseline, &now);
    print_table(&findings);
    for attempt in 2..=TRIES {
        let failed: Vec<Finding> = findings
            .iter()
            .filter(|one| one.is_failure)
            .cloned()
            .collect();
        if failed.is_empty() {
            break;
        }
        println!("\nattempt {attempt} of {TRIES} for what failed:");
        let rows = |of: fn(&Finding) -> bool| -> Vec<&str> {
            let mut rows: Vec<&str> = failed
                .iter()
                .filter(|one| of(one))
                .map(|one| one.row.as_str())
                .collect();
            rows.dedup();
            rows
        };
        let counted = rows(|one| one.figure == Figure::Instructions);
        let timed = rows(|one| one.figure != Figure::Instructions);
        let again = compare(&baseline, &measure(&bench, &counted, &timed)?);
        let again: Vec<Finding> = again
            .into_iter()
            .filter(|one| failed.iter().any(|old| old.is_same(one)))
            .collect();
        print_table(&again);
        for finding in &mut findings {
            if let Some(new) = again.iter().find(|new| new.is_same(finding)) {
                *finding = new.clone();
            }
        }
    }
    let failed = findings.iter().filter(|one| one.is_failure).count();
    let tally = Tally {
        passed: findings.len() - failed,
        failed,
    };
    match failed {
        0 => Ok(tally),
        _ => Err(Failure {
            why: format!(
                "{failed} figures are worse than {BASELINE} allows, {TRIES} times in a row"
            ),
            tally,
        }),
    }
}

/// Builds the comparison and returns its path. Without sockets and files it takes half as long.
fn build(has_io: bool) -> Outcome<PathBuf> {
    let mut cargo = sh::cargo();
    cargo.args(["build", "--release", "-p", "blitzen-bench"]);
    if !has_io {
        cargo.arg("--no-default-features");
    }
    sh::run(&mut cargo)?;
    Ok(sh::target().join("release/blitzen-bench"))
}

/// Runs the comparison for these rows; an empty list runs nothing.
fn measure(bench: &Path, counted: &[&str], timed: &[&str]) -> Outcome<Figures> {
    let mut figures = Figures {
        taken_with: versions()?,
        ..Figures::default()
    };
    if !counted.is_empty() {
        let tallies = run_bench(bench, &["instructions"], counted)?;
        for tally in tallies.as_array().into_iter().flatten() {
            let count = |name: &str| {
                let counts = tally["counts"].as_array()?;
                let count = counts.iter().find(|count| count["name"] == name)?;
                count["instructions_per_op"].as_f64()
            };
            if let (Some(row), Some(blitzen), Some(tokio)) =
                (tally["row"].as_str(), count("blitzen"), count("tokio"))
            {
                let counts = Counts {
                    blitzen: rounded(blitzen, 10.0),
                    tokio: rounded(tokio, 10.0),
                };
                figures.instructions.insert(row.to_owned(), counts);
            }
        }
    }
    if !timed.is_empty() {
        let run = run_bench(bench, &["compare", "--rounds", ROUNDS], timed)?;
        for outcome in run["rows"].as_array().into_iter().flatten() {
            let standings = outcome["standings"].as_array();
            let blitzen = standings
                .into_iter()
                .flatten()
                .find(|standing| standing["name"] == "blitzen");
            let (Some(row), Some(blitzen)) = (outcome["row"].as_str(), blitzen) else {
                continue;
            };
            if let Some(ratio) = blitzen["over_tokio"]["median"].as_f64() {
                figures.ratios.insert(row.to_owned(), rounded(ratio, 100.0));
            }
            if let Some(median) = blitzen["median"].as_f64() {
                figures.medians.insert(row.to_owned(), median);
            }
        }
    }
    Ok(figures)
}

fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

/// The compiler, and valgrind if it is there.
fn versions() -> Outcome<String> {
    let rustc = sh::read(
        Command::new("rustc")
            .arg("--version")
            .current_dir(sh::root()),
    )?;
    let valgrind = sh::read(Command::new("valgrind").arg("--version"))
        .context("instructions are counted by valgrind, which has to be installed")?;
    Ok(format!("{}, {}", rustc.trim(), valgrind.trim()))
}

/// Runs a command of the comparison for blitzen and Tokio, and reads what it wrote.
fn run_bench(bench: &Path, command: &[&str], rows: &[&str]) -> Outcome<Value> {
    let folder = sh::target();
    std::fs::create_dir_all(&folder).context(folder.display())?;
    let json = folder.join("bench-guard.json");
    let mut run = Command::new(bench);
    run.current_dir(sh::root()).args(command);
    for row in rows {
        run.args(["--row", row]);
    }
    run.args(["--peer", "blitzen", "--peer", "tokio", "--json"]);
    run.arg(&json);
    println!("blitzen-bench {}, {} rows", command.join(" "), rows.len());
    // Its own report has other figures too: here only what is guarded is shown.
    sh::read(&mut run)?;
    let text = std::fs::read_to_string(&json).context(json.display())?;
    serde_json::from_str(&text).context(json.display())
}

fn load(path: &Path) -> Outcome<Figures> {
    let text = std::fs::read_to_string(path).context(path.display())?;
    serde_json::from_str(&text).context(path.display())
}

fn save(path: &Path, figures: &Figures) -> Outcome<Tally> {
    let text = serde_json::to_string_pretty(figures).context(path.display())?;
    std::fs::write(path, text + "\n").context(path.display())?;
    println!("{} is written", path.display());
    Ok(Tally::default())
}

/// What was looked at in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    Instructions,
    Ratio,
    Limit,
}

/// One guarded figure, then and now.
#[derive(Clone, Debug)]
struct Finding {
    row: String,
    figure: Figure,
    before: String,
    now: String,
    is_failure: bool,
}

impl Finding {
    fn is_same(&self, other: &Finding) -> bool {
        self.row == other.row && self.figure == other.figure
    }
}

/// Everything that both have, and the limits of what was measured now.
fn compare(baseline: &Figures, now: &Figures) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (row, now) in &now.instructions {
        let Some(before) = baseline.instructions.get(row) else {
            continue;
        };
        let growth = growth(*before, *now);
        findings.push(Finding {
            row: row.clone(),
            figure: Figure::Instructions,
            before: show_counts(*before),
            now: format!("{} ({:+.1} %)", show_counts(*now), 100.0 * growth),
            is_failure: growth > COUNT_GROWTH,
        });
    }
    for (row, now) in &now.ratios {
        let Some(before) = baseline.ratios.get(row) else {
            continue;
        };
        findings.push(Finding {
            row: row.clone(),
            figure: Figure::Ratio,
            before: format!("{before:.2} × tokio"),
            now: format!("{now:.2} ({:+.1} %)", 100.0 * (now / before - 1.0)),
            is_failure: *now < before * (1.0 - RATIO_LOSS),
        });
    }
    for (row, limit) in LIMITED {
        let Some(now) = now.medians.get(row) else {
            continue;
        };
        let (bound, is_failure) = match limit {
            Limit::AtLeast(bound) => (format!("at least {bound:.0}"), *now < bound),
            Limit::AtMost(bound) => (format!("at most {bound:.0}"), *now > bound),
        };
        findings.push(Finding {
            row: row.to_owned(),
            figure: Figure::Limit,
            before: bound,
            now: format!("{now:.0}"),
            is_failure,
        });
    }
    findings
}

/// By what share blitzen's count has grown, or its multiple of Tokio's count, whichever grew
/// less: G2.
fn growth(before: Counts, now: Counts) -> f64 {
    let own = now.blitzen / before.blitzen;
    let tokio = now.tokio / before.tokio;
    own.min(own / tokio) - 1.0
}

fn show_counts(counts: Counts) -> String {
    format!("{:.0} of tokio's {:.0}", counts.blitzen, counts.tokio)
}

fn print_table(findings: &[Finding]) {
    println!("{:<18} {:<13} {:<26} now", "row", "figure", "baseline");
    for finding in findings {
        let figure = match finding.figure {
            Figure::Instructions => "instructions",
            Figure::Ratio => "time",
            Figure::Limit => "limit",
        };
        let word = if finding.is_failure { "  WORSE" } else { "" };
        println!(
            "{:<18} {figure:<13} {:<26} {}{word}",
            finding.row, finding.before, finding.now
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(blitzen: f64, tokio: f64) -> Figures {
        let mut figures = Figures::default();
        figures
            .instructions
            .insert("row".into(), Counts { blitzen, tokio });
        figures
    }

    fn timed(ratio: f64) -> Figures {
        let mut figures = Figures::default();
        figures.ratios.insert("row".into(), ratio);
        figures
    }

    fn fails(before: &Figures, now: &Figures) -> bool {
        let findings = compare(before, now);
        assert_eq!(findings.len(), 1);
        findings[0].is_failure
    }

    #[test]
    fn five_per_cent_more_instructions_are_tolerated_and_six_are_not() {
        let before = counted(100.0, 300.0);
        assert!(!fails(&before, &counted(104.9, 300.0)));
        assert!(fails(&before, &counted(106.0, 300.0)));
        assert!(!fails(&before, &counted(50.0, 300.0)));
    }

    #[test]
    fn what_moves_both_counts_is_no_regression() {
        let before = counted(100.0, 300.0);
        assert!(!fails(&before, &counted(150.0, 450.0)));
        assert!(!fails(&before, &counted(100.0, 200.0)), "Tokio got better");
        assert!(fails(&before, &counted(150.0, 390.0)));
    }

    #[test]
    fn a_fifth_of_a_ratio_may_be_lost_and_more_may_not() {
        assert!(!fails(&timed(5.0), &timed(4.01)));
        assert!(fails(&timed(5.0), &timed(3.9)));
        assert!(!fails(&timed(5.0), &timed(9.0)));
    }

    #[test]
    fn a_limit_needs_no_baseline() {
        let mut now = Figures::default();
        now.medians.insert("scheduled_ops".into(), 9.9e6);
        now.medians.insert("steal_ring_awake".into(), 2_000.0);
        let findings = compare(&Figures::default(), &now);
        let failed: Vec<(&str, bool)> = findings
            .iter()
            .map(|one| (one.row.as_str(), one.is_failure))
            .collect();
        assert_eq!(
            failed,
            [("scheduled_ops", true), ("steal_ring_awake", false)]
        );
    }

    #[test]
    fn a_new_row_has_nothing_to_lose() {
        assert!(compare(&Figures::default(), &timed(0.1)).is_empty());
    }

    #[test]
    fn the_baseline_in_the_repository_has_every_guarded_row() {
        let baseline = load(&sh::root().join(BASELINE)).unwrap();
        for row in COUNTED {
            assert!(baseline.instructions.contains_key(row), "{row}");
        }
        for row in TIMED {
            assert!(baseline.ratios.contains_key(row), "{row}");
        }
    }
}
