//! Instructions per operation: the figure a busy machine cannot move.
//!
//! The program runs itself under callgrind with N operations and with 2 N, counting
//! only the measured region of each, and divides the difference by N: what happens
//! once (threads starting, the warm-up, the first growth of a buffer) drops out. The
//! runtimes have one worker, and all threads are counted.
//!
//! It would lie for rows whose threads wait for each other by spinning, and for the
//! clock: valgrind answers clock reads with a system call.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{self, Command, Stdio};

use crate::once::{Order, program_of};
use crate::progress::Progress;
use crate::row::{BLITZEN, Contender, InstructionBound, InstructionGoal, Place, Role, Row, TOKIO};
use crate::style::{self, Cell, Style};

/// Enough to start every thread.
const WARM_UP_OPS: u64 = 64;

/// Instructions of one row, by contender.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Tally {
    pub(crate) group: String,
    pub(crate) row: String,
    pub(crate) counts: Vec<Count>,
    /// Whether what was aimed at was reached, a line each.
    #[serde(default)]
    pub(crate) verdicts: Vec<String>,
}

#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Count {
    pub(crate) name: String,
    pub(crate) instructions_per_op: f64,
}

impl Tally {
    fn count(&self, name: &str) -> Option<f64> {
        let count = self.counts.iter().find(|count| count.name == name);
        count.map(|count| count.instructions_per_op)
    }

    /// Tokio's instructions over blitzen's.
    pub(crate) fn over_tokio(&self) -> Option<f64> {
        Some(self.count(TOKIO)? / self.count(BLITZEN)?)
    }
}

/// All rows, a column for each contender that takes part in any.
pub(crate) fn table(tallies: &[Tally], is_colored: bool) -> String {
    let mut names: Vec<&str> = Vec::new();
    for count in tallies.iter().flat_map(|tally| &tally.counts) {
        if !names.contains(&count.name.as_str()) {
            names.push(&count.name);
        }
    }
    let title = |name: &str| Cell::new(name, Style::Dim);
    let mut header = vec![title("instructions")];
    header.extend(names.iter().map(|name| title(name)));
    header.push(title("× tokio"));
    let mut lines = vec![header];
    for tally in tallies {
        let show = |value: Option<f64>, digits: usize| {
            value.map_or("–".into(), |value| format!("{value:.digits$}"))
        };
        let mut line: Vec<Cell> = vec![tally.row.as_str().into()];
        line.extend(names.iter().map(|name| show(tally.count(name), 0).into()));
        let ratio = tally.over_tokio();
        line.push(Cell::new(show(ratio, 2), Style::of_ratio(ratio)));
        lines.push(line);
    }
    let mut table = style::table(&lines, is_colored);
    for tally in tallies {
        for verdict in &tally.verdicts {
            table += &format!("{}: {verdict}\n", tally.row);
        }
    }
    table
}

/// Nothing if one of the two was not counted.
fn judge(goal: &InstructionGoal, tally: &Tally) -> Option<String> {
    let (own, other) = (tally.count(goal.of)?, tally.count(goal.over)?);
    let (value, aim, is_met) = match goal.at_most {
        InstructionBound::Times(bound) => {
            let ratio = own / other;
            let aim = format!("≤ {bound} × {}", goal.over);
            (format!("{ratio:.3}"), aim, ratio <= bound)
        }
        InstructionBound::More(bound) => {
            let more = own - other;
            let aim = format!("≤ {} + {bound}", goal.over);
            (format!("{more:+.1}"), aim, more <= bound)
        }
    };
    let word = if is_met { "met" } else { "MISSED" };
    Some(format!("{}, {aim}: {value}, {word}", goal.of))
}

/// Whether valgrind can be started.
pub(crate) fn is_available() -> bool {
    let version = Command::new("valgrind").arg("--version").output();
    version.is_ok_and(|output| output.status.success())
}

/// Whose instructions are counted in a row: nobody's, if the row keeps several threads
/// busy.
pub(crate) fn counted(row: &Row) -> Vec<&Contender> {
    // callgrind loses its way where stacks are switched, as an isolated peer's are.
    let is_counted = |contender: &&Contender| {
        contender.role != Role::Floor && contender.place != Place::OwnProcess
    };
    match row.counted_ops {
        Some(_) => row.contenders.iter().filter(is_counted).collect(),
        None => Vec::new(),
    }
}

/// Counts one row, if it is one whose instructions can be counted.
pub(crate) fn tally(row: &Row, progress: &Progress) -> Result<Option<Tally>, String> {
    let Some(ops) = row.counted_ops else {
        return Ok(None);
    };
    let mut counts = Vec::new();
    for contender in counted(row) {
        progress.begin(format!(
            "instructions of {} on {}",
            row.name, contender.name
        ));
        let once = count(row, contender, ops)?;
        let twice = count(row, contender, 2 * ops)?;
        counts.push(Count {
            name: contender.name.to_string(),
            instructions_per_op: (twice as f64 - once as f64) / ops as f64,
        });
        progress.advance();
    }
    let mut tally = Tally {
        group: row.group.to_string(),
        row: row.name.to_string(),
        counts,
        verdicts: Vec::new(),
    };
    let goals = row.instruction_goals.iter();
    tally.verdicts = goals.filter_map(|goal| judge(goal, &tally)).collect();
    Ok(Some(tally))
}

fn count(row: &Row, contender: &Contender, ops: u64) -> Result<u64, String> {
    let order = Order {
        row: row.name.to_string(),
        contender: contender.name.to_string(),
        ops,
        warm_up: WARM_UP_OPS,
        workers: 1,
        callgrind: true,
        allocations: false,
    };
    let folder = env::temp_dir().join(format!("blitzen-bench-{}", process::id()));
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let counted = count_into(&folder, &program_of(contender), &order);
    // What could not be removed harms nobody.
    let _ = fs::remove_dir_all(&folder);
    counted
}

fn count_into(folder: &Path, program: &Path, order: &Order) -> Result<u64, String> {
    let status = Command::new("valgrind")
        .args(["--tool=callgrind", "--instr-atstart=no", "--fair-sched=yes"])
        .arg(format!("--callgrind-out-file={}/out", folder.display()))
        .arg("--quiet")
        .arg(program)
        .args(order.words())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("valgrind cannot be started: {error}"))?;
    if !status.success() {
        return Err(format!("{order:?} under valgrind: {status}"));
    }
    // Part 1 is the warm-up, part 2 the sample less what part 1 counted. That is the
    // same for N and 2 N operations, so the difference of two samples is right.
    let part = folder.join("out.2");
    let text = fs::read_to_string(&part)
        .map_err(|error| format!("{order:?}: callgrind left no second part: {error}"))?;
    total(&text).ok_or_else(|| format!("{order:?}: callgrind's file has no total"))
}

/// The instructions of one region: the first number after `totals` or `summary`.
fn total(callgrind: &str) -> Option<u64> {
    let is_total = |line: &&str| line.starts_with("totals:") || line.starts_with("summary:");
    let line = callgrind.lines().find(is_total)?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_found() {
        assert_eq!(
            total("events: Ir\nsummary: 123\n\ntotals: 123\n"),
            Some(123)
        );
        assert_eq!(total("totals: 77 5\n"), Some(77));
        assert_eq!(total("events: Ir\n"), None);
    }

    #[test]
    fn a_ratio_needs_both() {
        let count = |name: &str, instructions_per_op| Count {
            name: name.to_string(),
            instructions_per_op,
        };
        let mut tally = Tally {
            group: "g".into(),
            row: "r".into(),
            counts: vec![count(TOKIO, 300.0)],
            verdicts: Vec::new(),
        };
        assert_eq!(tally.over_tokio(), None);
        tally.counts.push(count(BLITZEN, 100.0));
        assert_eq!(tally.over_tokio(), Some(3.0));
    }

    #[test]
    fn a_goal_is_judged_by_both_counts() {
        let count = |name: &str, instructions_per_op| Count {
            name: name.to_string(),
            instructions_per_op,
        };
        let mut tally = Tally {
            group: "g".into(),
            row: "r".into(),
            counts: vec![count(BLITZEN, 100.0)],
            verdicts: Vec::new(),
        };
        let goal = |at_most| InstructionGoal {
            of: "watched",
            over: BLITZEN,
            at_most,
        };
        assert_eq!(judge(&goal(InstructionBound::More(4.0)), &tally), None);
        tally.counts.push(count("watched", 103.0));
        let more = judge(&goal(InstructionBound::More(4.0)), &tally);
        assert_eq!(more.unwrap(), "watched, ≤ blitzen + 4: +3.0, met");
        let times = judge(&goal(InstructionBound::Times(1.01)), &tally);
        assert_eq!(times.unwrap(), "watched, ≤ 1.01 × blitzen: 1.030, MISSED");
    }
}
