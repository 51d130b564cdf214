//! System calls per operation: what a runtime asks of the kernel.
//!
//! The program runs itself under `strace -f -c` with N operations and with 2 N and
//! divides the difference by N, as for [`instructions`](crate::instructions). The
//! runtimes have the row's own number of workers. Tracing slows every call some
//! twentyfold, so threads meet at other moments than they would: a call that depends
//! on losing a race is counted more or less often than it happens.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::process::{self, Command, Stdio};

use crate::once::Order;
use crate::progress::Progress;
use crate::row::{Contender, Role, Row};
use crate::style::{self, Cell, Style};

/// Calls of one kind below which a line does not mention it.
const WORTH_SHOWING_PER_OP: f64 = 0.0005;

/// System calls of one contender in one row.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Calls {
    pub(crate) group: String,
    pub(crate) row: String,
    pub(crate) contender: String,
    pub(crate) all_per_op: f64,
    pub(crate) per_op: BTreeMap<String, f64>,
}

impl Calls {
    /// Which calls they are, the most frequent first.
    pub(crate) fn kinds(&self) -> String {
        let mut kinds: Vec<(&String, &f64)> = self.per_op.iter().collect();
        kinds.sort_by(|left, right| right.1.total_cmp(left.1));
        let kinds: Vec<String> = kinds
            .into_iter()
            .filter(|(_, calls)| **calls >= WORTH_SHOWING_PER_OP)
            .map(|(kind, calls)| format!("{kind} {calls:.3}"))
            .collect();
        kinds.join(", ")
    }
}

/// Everything that was traced, a line for each contender of a row.
pub(crate) fn table(traced: &[Calls], is_colored: bool) -> String {
    let title = |name: &str| Cell::new(name, Style::Dim);
    let mut lines = vec![vec![title("system calls"), title("per operation")]];
    lines.extend(traced.iter().map(|calls| {
        let name = format!("{} {}", calls.row, calls.contender);
        vec![name.into(), format!("{:.3}", calls.all_per_op).into()]
    }));
    let kinds = std::iter::once(String::new()).chain(traced.iter().map(Calls::kinds));
    let lines = style::table(&lines, is_colored);
    let lines = lines.lines().zip(kinds);
    let lines = lines.map(|(line, kinds)| format!("{line}  {kinds}").trim_end().to_string() + "\n");
    lines.collect()
}

/// Whether strace can be started.
pub(crate) fn is_available() -> bool {
    let version = Command::new("strace").arg("--version").output();
    version.is_ok_and(|output| output.status.success())
}

/// Whose calls are traced in a row: not glommio's, whose servers do not finish under strace.
pub(crate) fn traced(row: &Row) -> Vec<&Contender> {
    let is_traced =
        |contender: &&Contender| contender.role != Role::Floor && contender.name != "glommio";
    row.contenders.iter().filter(is_traced).collect()
}

/// Traces each contender of a row.
pub(crate) fn trace(row: &Row, progress: &Progress) -> Result<Vec<Calls>, String> {
    // A traced operation takes many times as long.
    let ops = row.counted_ops.unwrap_or(row.ops.quick);
    traced(row)
        .into_iter()
        .map(|contender| {
            progress.begin(format!(
                "system calls of {} on {}",
                row.name, contender.name
            ));
            let once = count(row, contender.name, ops)?;
            let mut per_op: BTreeMap<String, f64> = BTreeMap::new();
            for (kind, calls) in count(row, contender.name, 2 * ops)? {
                let extra = calls as f64 - once.get(&kind).copied().unwrap_or(0) as f64;
                per_op.insert(kind, extra / ops as f64);
            }
            progress.advance();
            Ok(Calls {
                group: row.group.to_string(),
                row: row.name.to_string(),
                contender: contender.name.to_string(),
                all_per_op: per_op.values().sum(),
                per_op,
            })
        })
        .collect()
}

fn count(row: &Row, contender: &str, ops: u64) -> Result<BTreeMap<String, u64>, String> {
    let order = Order {
        row: row.name.to_string(),
        contender: contender.to_string(),
        ops,
        warm_up: row.ops.quick.min(64),
        workers: row.workers,
        callgrind: false,
        allocations: false,
    };
    let file = env::temp_dir().join(format!("blitzen-bench-{}.strace", process::id()));
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let status = Command::new("strace")
        .args(["-f", "-c"])
        .args(leaving_out(row.untraced))
        .arg("-o")
        .arg(&file)
        .arg(program)
        .args(order.words())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("strace cannot be started: {error}"))?;
    let text = fs::read_to_string(&file);
    // What could not be removed harms nobody.
    let _ = fs::remove_file(&file);
    if !status.success() {
        return Err(format!("{order:?} under strace: {status}"));
    }
    let calls = parse(&text.map_err(|error| format!("strace left no counts: {error}"))?);
    match calls.is_empty() {
        true => Err(format!("{order:?}: strace counted nothing")),
        false => Ok(calls),
    }
}

/// strace's word for all calls but some.
fn leaving_out(calls: &[&str]) -> Option<String> {
    (!calls.is_empty()).then(|| format!("-etrace=!{}", calls.join(",")))
}

/// Calls by name from strace's table: share, seconds, time a call, calls, perhaps
/// errors, name.
fn parse(table: &str) -> BTreeMap<String, u64> {
    table
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (name, calls) = (fields.last()?, fields.get(3)?);
            Some((name.to_string(), calls.parse().ok()?))
        })
        .filter(|(name, _)| name != "total")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_with_and_without_errors() {
        let table = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 90.00    0.000900           9       100        12 futex
 10.00    0.000100           1         7           mmap
------ ----------- ----------- --------- --------- ----------------
100.00    0.001000           9       107        12 total
";
        let calls = parse(table);
        assert_eq!(calls.len(), 2);
        assert_eq!(calls["futex"], 100);
        assert_eq!(calls["mmap"], 7);
    }
}
