//! Compares blitzen with its peers, each workload written once for all of them.

mod alloc;
mod baseline;
mod compare;
mod crowd;
mod fs;
mod instructions;
mod kit;
mod net;
mod once;
mod probe;
mod process;
mod report;
mod row;
mod rt;
mod scheduler;
mod stats;
mod sync;
mod syscalls;
mod time;
mod valgrind;
mod watchdog;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::compare::{Outcome, Plan};
use crate::instructions::Tally;
use crate::row::Row;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

/// Compares blitzen with other runtimes
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Subcommand)]
enum Mode {
    /// Measure time, CPU time and allocations; all contenders take turns in this process
    Compare {
        #[command(flatten)]
        choice: Choice,
        /// Number of timed rounds, after one that counts allocations
        #[arg(long, default_value_t = 15)]
        rounds: usize,
        /// Run two rounds of few operations: checks the counts, measures nothing
        #[arg(long)]
        quick: bool,
        /// Operations per sample (default: each row's own number)
        #[arg(long)]
        ops: Option<u64>,
        /// Seconds that a sample may take before the program gives up
        #[arg(long, default_value_t = 120)]
        sample_timeout: u64,
        /// Give servers and clients real-time priority
        #[arg(long)]
        ahead: bool,
        /// Write the outcome to this file, as JSON
        #[arg(long)]
        json: Option<PathBuf>,
    },
    /// Count instructions per operation with valgrind, one worker
    Instructions {
        #[command(flatten)]
        choice: Choice,
        /// Write the counts to this file, as JSON
        #[arg(long)]
        json: Option<PathBuf>,
        /// Compare with these earlier counts; fail if blitzen lost more than a fifth against Tokio
        #[arg(long)]
        baseline: Option<PathBuf>,
    },
    /// Count system calls per operation with strace
    Syscalls {
        #[command(flatten)]
        choice: Choice,
        /// Write the counts to this file, as JSON
        #[arg(long)]
        json: Option<PathBuf>,
    },
    /// List the rows
    List,
    /// Run one sample of one contender and print it as JSON
    #[command(hide = true)]
    Once(once::Order),
    /// Open `count` connections to an address and keep them until standard input ends
    #[command(hide = true)]
    Hold {
        address: std::net::SocketAddr,
        count: u64,
    },
}

/// The rows to run, and their contenders.
#[derive(clap::Args)]
struct Choice {
    /// Groups of rows (default: all)
    groups: Vec<String>,
    /// Only rows whose name begins with this
    #[arg(long = "row")]
    rows: Vec<String>,
    /// Only this contender
    #[arg(long = "peer")]
    peers: Vec<String>,
}

impl Choice {
    fn rows(&self) -> Result<Vec<Row>, String> {
        let mut rows = row::select(row::all(), &self.groups, &self.rows)?;
        if !self.peers.is_empty() {
            let is_chosen = |name: &str| self.peers.iter().any(|peer| peer == name);
            for row in &mut rows {
                row.contenders.retain(|contender| is_chosen(contender.name));
            }
            rows.retain(|row| !row.contenders.is_empty());
        }
        if rows.is_empty() {
            return Err("none of these rows has one of these contenders".into());
        }
        Ok(rows)
    }
}

fn main() -> ExitCode {
    let done = match Cli::parse().mode {
        Mode::Compare {
            choice,
            rounds,
            quick,
            ops,
            sample_timeout,
            ahead,
            json,
        } => {
            if ahead {
                net::run_ahead();
            }
            watchdog::set_sample_timeout(sample_timeout);
            let plan = Plan {
                rounds: if quick { 2 } else { rounds },
                is_quick: quick,
                ops,
            };
            compare_all(&choice, plan, json.as_deref())
        }
        Mode::Instructions {
            choice,
            json,
            baseline,
        } => count_all(&choice, json.as_deref(), baseline.as_deref()),
        Mode::Syscalls { choice, json } => trace_all(&choice, json.as_deref()),
        Mode::List => {
            list();
            Ok(())
        }
        Mode::Hold { address, count } => {
            net::hold(address, count).map_err(|error| error.to_string())
        }
        Mode::Once(order) => {
            watchdog::set_sample_timeout(600);
            once::obey(&order, &row::all())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn compare_all(choice: &Choice, plan: Plan, json: Option<&Path>) -> Result<(), String> {
    if plan.rounds == 0 {
        return Err("a median needs at least one round".into());
    }
    let mut outcomes: Vec<Outcome> = Vec::new();
    for row in choice.rows()? {
        let outcome = compare::compare(&row, plan);
        println!("{}", report::row(&outcome));
        outcomes.push(outcome);
        // After each row: a long run that is interrupted leaves what it has.
        write_json(json, &outcomes)?;
    }
    println!("{}", report::summary(&outcomes));
    Ok(())
}

fn count_all(choice: &Choice, json: Option<&Path>, baseline: Option<&Path>) -> Result<(), String> {
    // Read first: a run of minutes should not end at a misspelt name, nor overwrite
    // the file it is to be compared with.
    let before = baseline.map(baseline::load).transpose()?;
    let mut tallies = Vec::new();
    for row in choice.rows()? {
        if let Some(tally) = instructions::tally(&row)? {
            tallies.push(tally);
            write_json(json, &tallies)?;
        }
    }
    if tallies.is_empty() {
        return Err("none of these rows keeps to one thread, so none is counted".into());
    }
    print!("{}", instructions::table(&tallies));
    match before {
        Some(before) => guard(&before, &tallies),
        None => Ok(()),
    }
}

fn guard(before: &[Tally], now: &[Tally]) -> Result<(), String> {
    let changes = baseline::changes(before, now);
    let header = ["× tokio", "before", "now", ""].map(String::from).to_vec();
    let lines = changes.iter().map(|change| change.line());
    let lines: Vec<Vec<String>> = std::iter::once(header).chain(lines).collect();
    print!("\n{}", report::table(&lines));
    match changes
        .iter()
        .filter(|change| change.is_regression())
        .count()
    {
        0 => Ok(()),
        rows => Err(format!("blitzen lost more than a fifth in {rows} rows")),
    }
}

fn trace_all(choice: &Choice, json: Option<&Path>) -> Result<(), String> {
    let mut traced = Vec::new();
    for row in choice.rows()? {
        traced.extend(syscalls::trace(&row)?);
        write_json(json, &traced)?;
    }
    let lines: Vec<Vec<String>> = traced.iter().map(|calls| calls.line()).collect();
    for (line, calls) in report::table(&lines).lines().zip(&traced) {
        println!("{line}  {}", calls.kinds());
    }
    Ok(())
}

fn list() {
    for row in row::all() {
        let contenders: Vec<&str> = row.contenders.iter().map(|one| one.name).collect();
        println!(
            "{}/{}: {} ({})",
            row.group,
            row.name,
            row.what,
            contenders.join(", ")
        );
    }
}

fn write_json(path: Option<&Path>, value: &impl serde::Serialize) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(value).map_err(|error| error.to_string())?;
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
