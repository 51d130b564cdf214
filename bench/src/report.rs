//! The outcome as text for people and as JSON for programs.

use std::fmt::Write;

use crate::compare::{Outcome, Standing};
use crate::probe::PerOp;
use crate::row::{BLITZEN, COMPLETION, Role, TOKIO, Unit};
use crate::stats::{Ratio, geometric_mean};

/// A value of `unit`, in a width that fits the tables.
pub(crate) fn show(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Nanoseconds => show_ns(value),
        Unit::Share => format!("{value:.2}"),
        Unit::Bytes => format!("{value:.0} B"),
        Unit::Allocations => format!("{value:.3}"),
    }
}

pub(crate) fn show_ns(ns: f64) -> String {
    match ns {
        ns if ns < 100.0 => format!("{ns:.1} ns"),
        ns if ns < 10_000.0 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

fn show_ratio(ratio: Option<Ratio>) -> String {
    match ratio {
        Some(ratio) => format!("{:.2} ({:.2}–{:.2})", ratio.median, ratio.low, ratio.high),
        None => "–".into(),
    }
}

fn show_median(ratio: Option<Ratio>) -> String {
    ratio.map_or("–".into(), |ratio| format!("{:.2}", ratio.median))
}

/// Lines of cells, each column as wide as its widest; the first column is text, the
/// others are numbers.
pub(crate) fn table(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let mut shown = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width - cell.chars().count());
            match column {
                0 => write!(shown, "{cell}{pad}"),
                _ => write!(shown, "  {pad}{cell}"),
            }
            .expect("a string takes everything");
        }
        text.push_str(shown.trim_end());
        text.push('\n');
    }
    text
}

/// One row in full, printed as soon as it is known.
pub(crate) fn row(outcome: &Outcome) -> String {
    let has_floor = outcome.standings.iter().any(|one| one.role == Role::Floor);
    let columns: Vec<Column> = COLUMNS
        .into_iter()
        .filter(|(name, _)| has_floor || *name != FLOOR)
        .collect();
    let mut header = vec![String::new()];
    header.extend(columns.iter().map(|(name, _)| name.to_string()));
    let first = outcome.standings.iter().take(1);
    header.extend(first.flat_map(|one| one.notes.iter().map(|note| note.name.clone())));
    let mut lines = vec![header];
    for standing in &outcome.standings {
        let mut line = vec![standing.name.clone()];
        line.extend(columns.iter().map(|(_, cell)| cell(standing, outcome.unit)));
        line.extend(standing.notes.iter().map(|note| {
            let ratio = show_median(note.over_tokio);
            format!("{} ({ratio})", show_ns(note.median_ns))
        }));
        lines.push(line);
    }
    let mut text = format!(
        "{}/{}: {}\n  {} operations, {} workers, {} rounds",
        outcome.group, outcome.row, outcome.what, outcome.ops, outcome.workers, outcome.rounds,
    );
    if let Some(busy) = outcome.others_busy {
        write!(text, ", others kept {busy:.1} processors busy").expect("a string takes everything");
    }
    text.push('\n');
    for line in table(&lines).lines() {
        writeln!(text, "  {line}").expect("a string takes everything");
    }
    for verdict in &outcome.verdicts {
        let word = if verdict.is_met { "met" } else { "MISSED" };
        writeln!(
            text,
            "  target of {}, {}: {:.2}, {word}",
            verdict.of, verdict.aim, verdict.value
        )
        .expect("a string takes everything");
    }
    text
}

/// A column's name, and what it shows of a contender.
type Column = (&'static str, fn(&Standing, Unit) -> String);

const FLOOR: &str = "× floor";

const COLUMNS: [Column; 12] = [
    ("best", |one, unit| show(one.best, unit)),
    ("median", |one, unit| show(one.median, unit)),
    ("p95", |one, unit| show(one.p95, unit)),
    ("p99", |one, unit| show(one.p99, unit)),
    ("points", |one, _| one.points.to_string()),
    ("× tokio", |one, _| show_ratio(one.over_tokio)),
    ("× best", |one, _| show_ratio(one.over_best_peer)),
    (FLOOR, |one, _| show_ratio(one.over_floor)),
    ("cpu/op", |one, _| per_op(one, |used| show_ns(used.cpu_ns))),
    ("cpu × tokio", |one, _| show_median(one.cpu_over_tokio)),
    ("allocs/op", |one, _| {
        per_op(one, |used| format!("{:.3}", used.allocations))
    }),
    ("bytes/op", |one, _| {
        per_op(one, |used| format!("{:.1}", used.bytes))
    }),
];

fn per_op(standing: &Standing, show: fn(PerOp) -> String) -> String {
    standing.per_op.map_or("–".into(), show)
}

/// All rows in a line for each form of blitzen that is judged, and each group's mean.
pub(crate) fn summary(outcomes: &[Outcome]) -> String {
    let header = [
        "row",
        "tokio",
        "best peer",
        "",
        "blitzen",
        "× tokio",
        "× best",
        "target",
        "",
    ];
    let mut lines = vec![header.map(String::from).to_vec()];
    for outcome in outcomes {
        let judged = outcome.judged();
        match judged.is_empty() {
            true => lines.push(summary_line(outcome, None)),
            false => lines.extend(judged.iter().map(|one| summary_line(outcome, Some(*one)))),
        }
    }
    let mut text = table(&lines);
    text.push_str(&group_means(outcomes));
    text
}

fn summary_line(outcome: &Outcome, judged: Option<&Standing>) -> Vec<String> {
    let value = |name: &str| {
        outcome
            .standing(name)
            .map_or("–".into(), |one| show(one.median, outcome.unit))
    };
    let best = outcome.best_peer.as_deref().unwrap_or("–");
    let ratio = |pick: fn(&Standing) -> Option<Ratio>| show_median(judged.and_then(pick));
    let verdicts = judged.map_or(Vec::new(), |one| outcome.verdicts_of(&one.name));
    let aims: Vec<&str> = verdicts.iter().map(|one| one.aim.as_str()).collect();
    let word = match verdicts.iter().all(|one| one.is_met) {
        _ if aims.is_empty() => "",
        true => "met",
        false => "MISSED",
    };
    let name = match judged {
        Some(one) if one.name != BLITZEN => format!("{} ({})", outcome.row, one.name),
        _ => outcome.row.clone(),
    };
    vec![
        name,
        value(TOKIO),
        value(best),
        best.to_string(),
        judged.map_or("–".into(), |one| show(one.median, outcome.unit)),
        ratio(|one| one.over_tokio),
        ratio(|one| one.over_best_peer),
        aims.join(", "),
        word.to_string(),
    ]
}

fn group_means(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    let mut groups: Vec<&str> = outcomes.iter().map(|one| one.group.as_str()).collect();
    groups.dedup();
    for group in groups {
        let rows = || outcomes.iter().filter(|one| one.group == group);
        let mut forms = vec![BLITZEN];
        if rows().any(|row| !row.verdicts_of(COMPLETION).is_empty()) {
            forms.push(COMPLETION);
        }
        for form in forms {
            let standings: Vec<(&Outcome, &Standing)> = rows()
                .filter_map(|row| Some((row, standing_of(row, form)?)))
                .collect();
            let over_tokio = medians(&standings, |one| one.over_tokio);
            let over_best = medians(&standings, |one| one.over_best_peer);
            let mut in_mean = standings;
            in_mean.retain(|(row, _)| row.is_in_mean);
            let Some(mean) = geometric_mean(&medians(&in_mean, |one| one.over_tokio)) else {
                continue;
            };
            let slower = over_tokio.iter().filter(|ratio| **ratio < 1.0).count();
            let level = over_best.iter().filter(|ratio| **ratio >= 1.0).count();
            writeln!(
                text,
                "{group}, {form}: geometric mean {mean:.2} × tokio in the {} rows that aim at a \
                 multiple; {slower} of {} slower than tokio; {level} of {} level with the best \
                 peer or ahead",
                in_mean.len(),
                over_tokio.len(),
                over_best.len(),
            )
            .expect("a string takes everything");
        }
    }
    text
}

fn standing_of<'a>(row: &'a Outcome, form: &str) -> Option<&'a Standing> {
    match form {
        BLITZEN => row.subject(),
        form => row.standing(form),
    }
}

/// These ratios, where there are any.
fn medians(rows: &[(&Outcome, &Standing)], pick: fn(&Standing) -> Option<Ratio>) -> Vec<f64> {
    let ratios = rows.iter().filter_map(|(_, standing)| pick(standing));
    ratios.map(|ratio| ratio.median).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_whatever_their_cells_hold() {
        let lines = [
            vec!["a".to_string(), "12 µs".into(), "x".into()],
            vec!["name".to_string(), "3 ns".into()],
        ];
        assert_eq!(table(&lines), "a     12 µs  x\nname   3 ns\n");
    }

    #[test]
    fn times_are_shown_in_a_unit_that_fits() {
        assert_eq!(show_ns(3.26), "3.3 ns");
        assert_eq!(show_ns(465.2), "465 ns");
        assert_eq!(show_ns(40_000.0), "40.0 µs");
        assert_eq!(show_ns(5e6), "5.0 ms");
        assert_eq!(show_ns(1.38e9), "1.38 s");
        assert_eq!(show(0.5, Unit::Share), "0.50");
        assert_eq!(show(320.4, Unit::Bytes), "320 B");
    }
}
