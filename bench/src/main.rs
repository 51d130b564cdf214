//! Compares blitzen with its peers, each workload written once for all of them.

// Some helpers have no caller without the groups of the feature.
#![cfg_attr(
    not(feature = "io"),
    allow(dead_code, unused_imports, unused_variables)
)]

mod alloc;
mod compare;
mod coro;
mod dispatch;
mod foreign_load;
#[cfg(feature = "io")]
mod fs;
mod instructions;
mod kit;
mod machine;
mod markdown;
#[cfg(feature = "io")]
mod net;
mod observe;
mod once;
mod other_build;
mod page;
mod probe;
#[cfg(feature = "io")]
mod process;
mod progress;
mod report;
mod row;
mod rt;
mod run;
mod scaling;
mod scheduler;
mod stats;
mod style;
mod sync;
mod syscalls;
mod time;
mod valgrind;
mod watchdog;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::compare::Plan;
use crate::machine::Machine;
use crate::progress::Progress;
use crate::row::Row;
use crate::run::Run;
use crate::scaling::Sweep;
use crate::style::Color;

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
        /// Also measure how costs grow with workers and sizes (group `scaling` alone: only that)
        #[arg(long)]
        scaling: bool,
        /// Also count instructions and system calls, where valgrind and strace are installed
        #[arg(long)]
        with_counts: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Make reports from the JSON files of earlier comparisons; rows of later files replace those
    /// of earlier ones
    Report {
        #[arg(required = true)]
        files: Vec<PathBuf>,
        #[command(flatten)]
        output: Output,
    },
    /// Count instructions per operation with valgrind, one worker
    Instructions {
        #[command(flatten)]
        choice: Choice,
        /// Write the counts to this file, as JSON
        #[arg(long)]
        json: Option<PathBuf>,
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
    /// Compute on one thread until standard input ends
    #[cfg(feature = "io")]
    #[command(hide = true)]
    Burn,
    /// Open `count` connections to an address and keep them until standard input ends
    #[cfg(feature = "io")]
    #[command(hide = true)]
    Hold {
        address: std::net::SocketAddr,
        count: u64,
    },
}

/// Where a comparison is reported besides the terminal.
#[derive(clap::Args)]
struct Output {
    /// Write a page with charts to this file; it needs nothing but a browser
    #[arg(long)]
    html: Option<PathBuf>,
    /// Write everything to this file, as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write the tables to this file, as Markdown
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Replace what stands between the table marks in this Markdown page
    #[arg(long, value_name = "PAGE")]
    into: Option<PathBuf>,
    /// Colours in the terminal
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    color: Color,
}

impl Output {
    fn write(&self, run: &Run) -> Result<(), String> {
        write_json(self.json.as_deref(), run)?;
        if let Some(path) = &self.markdown {
            write_text(path, &markdown::tables(run))?;
        }
        if let Some(path) = &self.into {
            let page = std::fs::read_to_string(path);
            let page = page.map_err(|error| format!("{}: {error}", path.display()))?;
            write_text(path, &markdown::replace(&page, &markdown::tables(run))?)?;
        }
        if let Some(path) = &self.html {
            write_text(path, &page::html(run))?;
        }
        Ok(())
    }
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

/// The group that has curves instead of rows.
const SCALING: &str = "scaling";

impl Choice {
    /// The rows, and the curves if they are `wanted` or named.
    fn rows_and_sweeps(&self, wanted: bool) -> Result<(Vec<Row>, Vec<Sweep>), String> {
        let is_named = self.groups.iter().any(|group| group == SCALING);
        let mut sweeps = match wanted || is_named {
            true => scaling::sweeps(),
            false => Vec::new(),
        };
        for sweep in &mut sweeps {
            self.keep_peers(&mut sweep.row);
        }
        if is_named && !self.rows.is_empty() {
            let is_chosen = |name: &str| self.rows.iter().any(|row| name.starts_with(row.as_str()));
            sweeps.retain(|sweep| is_chosen(sweep.row.name));
        }
        sweeps.retain(|sweep| !sweep.row.contenders.is_empty());
        let groups = self.groups.iter().filter(|group| *group != SCALING);
        let groups: Vec<String> = groups.cloned().collect();
        let rows = match is_named && groups.is_empty() {
            true if sweeps.is_empty() => return Err("there is no such curve".into()),
            true => Vec::new(),
            false => self.rows_of(&groups)?,
        };
        Ok((rows, sweeps))
    }

    fn rows(&self) -> Result<Vec<Row>, String> {
        self.rows_of(&self.groups)
    }

    fn keep_peers(&self, row: &mut Row) {
        let is_chosen = |name: &str| self.peers.iter().any(|peer| peer == name);
        if !self.peers.is_empty() {
            row.contenders.retain(|contender| is_chosen(contender.name));
        }
    }

    fn rows_of(&self, groups: &[String]) -> Result<Vec<Row>, String> {
        let mut rows = row::select(row::all(), groups, &self.rows)?;
        for row in &mut rows {
            self.keep_peers(row);
        }
        other_build::leave_out_if_missing(&mut rows);
        rows.retain(|row| !row.contenders.is_empty());
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
            scaling,
            with_counts,
            output,
        } => {
            #[cfg(feature = "io")]
            if ahead {
                net::run_ahead();
            }
            watchdog::set_sample_timeout(sample_timeout);
            let plan = Plan {
                rounds: if quick { 2 } else { rounds },
                is_quick: quick,
                ops,
            };
            compare_all(&choice, plan, scaling, with_counts, &output)
        }
        Mode::Report { files, output } => report_again(&files, &output),
        Mode::Instructions { choice, json } => count_all(&choice, json.as_deref()),
        Mode::Syscalls { choice, json } => trace_all(&choice, json.as_deref()),
        Mode::List => {
            // A closed pipe means that the reader has seen enough.
            let _ = std::io::stdout().write_all(list().as_bytes());
            Ok(())
        }
        #[cfg(feature = "io")]
        Mode::Burn => net::burn().map_err(|error| error.to_string()),
        #[cfg(feature = "io")]
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

fn compare_all(
    choice: &Choice,
    plan: Plan,
    with_scaling: bool,
    with_counts: bool,
    output: &Output,
) -> Result<(), String> {
    if plan.rounds == 0 {
        return Err("a median needs at least one round".into());
    }
    let (rows, sweeps) = choice.rows_and_sweeps(with_scaling)?;
    let counts = Counts::of(with_counts, &rows);
    let samples = rows.iter().map(|row| plan.samples_of(row)).sum::<u64>()
        + sweeps.iter().map(|sweep| sweep.samples(plan)).sum::<u64>()
        + counts.samples(&rows);
    let progress = Progress::new(samples);
    let is_colored = output.color.is_on();
    let mut run = Run {
        machine: Machine::this(),
        ..Run::default()
    };
    for row in &rows {
        let outcome = compare::compare(row, plan, &progress);
        progress.print(&report::row(&outcome, is_colored));
        run.rows.push(outcome);
        // After each row: a long run that is interrupted leaves what it has.
        write_json(output.json.as_deref(), &run)?;
    }
    for sweep in &sweeps {
        run.scaling.push(scaling::curve(sweep, plan, &progress));
        write_json(output.json.as_deref(), &run)?;
    }
    counts.add_to(&mut run, &rows, &progress);
    drop(progress);
    print_all(&run, is_colored);
    output.write(&run)
}

/// What is counted besides the measuring.
struct Counts {
    instructions: bool,
    syscalls: bool,
}

impl Counts {
    fn of(is_wanted: bool, rows: &[Row]) -> Counts {
        let is_wanted = is_wanted && !rows.is_empty();
        let counts = Counts {
            instructions: is_wanted && instructions::is_available(),
            syscalls: is_wanted && syscalls::is_available(),
        };
        if is_wanted && !counts.instructions {
            eprintln!("valgrind is not installed: no instructions are counted");
        }
        if is_wanted && !counts.syscalls {
            eprintln!("strace is not installed: no system calls are counted");
        }
        counts
    }

    fn samples(&self, rows: &[Row]) -> u64 {
        let count = |is_on: bool, of: fn(&Row) -> usize| match is_on {
            true => rows.iter().map(of).sum(),
            false => 0,
        };
        let counted = count(self.instructions, |row| instructions::counted(row).len())
            + count(self.syscalls, |row| syscalls::traced(row).len());
        counted as u64
    }

    /// A row that cannot be counted is reported without its counts.
    fn add_to(&self, run: &mut Run, rows: &[Row], progress: &Progress) {
        for row in rows.iter().filter(|_| self.instructions) {
            match instructions::tally(row, progress) {
                Ok(tally) => run.instructions.extend(tally),
                Err(error) => progress.warn(&error),
            }
        }
        for row in rows.iter().filter(|_| self.syscalls) {
            match syscalls::trace(row, progress) {
                Ok(calls) => run.syscalls.extend(calls),
                Err(error) => progress.warn(&error),
            }
        }
    }
}

/// Everything but the single rows, which have been printed.
fn print_all(run: &Run, is_colored: bool) {
    if !run.rows.is_empty() {
        println!("{}", report::summary(&run.rows, is_colored));
    }
    for curve in &run.scaling {
        println!("{}", scaling::table(curve, is_colored));
    }
    if !run.instructions.is_empty() {
        println!("{}", instructions::table(&run.instructions, is_colored));
    }
    if !run.syscalls.is_empty() {
        println!("{}", syscalls::table(&run.syscalls, is_colored));
    }
}

fn report_again(files: &[PathBuf], output: &Output) -> Result<(), String> {
    let (first, later) = files.split_first().expect("clap asks for one");
    let mut run = Run::load(first)?;
    for file in later {
        run.update(Run::load(file)?)?;
    }
    let is_colored = output.color.is_on();
    for outcome in &run.rows {
        println!("{}", report::row(outcome, is_colored));
    }
    print_all(&run, is_colored);
    output.write(&run)
}

fn count_all(choice: &Choice, json: Option<&Path>) -> Result<(), String> {
    let rows = choice.rows()?;
    let counted = rows.iter().map(|row| instructions::counted(row).len());
    let progress = Progress::new(counted.sum::<usize>() as u64);
    let mut tallies = Vec::new();
    for row in &rows {
        if let Some(tally) = instructions::tally(row, &progress)? {
            tallies.push(tally);
            write_json(json, &tallies)?;
        }
    }
    drop(progress);
    if tallies.is_empty() {
        return Err("none of these rows keeps to one thread, so none is counted".into());
    }
    print!("{}", instructions::table(&tallies, Color::Auto.is_on()));
    Ok(())
}

fn trace_all(choice: &Choice, json: Option<&Path>) -> Result<(), String> {
    let rows = choice.rows()?;
    let traced = rows.iter().map(|row| syscalls::traced(row).len());
    let progress = Progress::new(traced.sum::<usize>() as u64);
    let mut calls = Vec::new();
    for row in &rows {
        calls.extend(syscalls::trace(row, &progress)?);
        write_json(json, &calls)?;
    }
    drop(progress);
    print!("{}", syscalls::table(&calls, Color::Auto.is_on()));
    Ok(())
}

/// A line for each row.
fn list() -> String {
    let line = |row: Row| {
        let contenders: Vec<&str> = row.contenders.iter().map(|one| one.name).collect();
        let contenders = contenders.join(", ");
        format!("{}/{}: {} ({contenders})\n", row.group, row.name, row.what)
    };
    row::all().into_iter().map(line).collect()
}

fn write_json(path: Option<&Path>, value: &impl serde::Serialize) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(value).map_err(|error| error.to_string())?;
    write_text(path, &text)
}

fn write_text(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
