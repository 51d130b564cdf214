//! The outcome as text for the terminal, and the words and figures all reports share.

use std::fmt::Write;

use crate::compare::{Outcome, Standing, Verdict};
use crate::probe::PerOp;
use crate::row::{BLITZEN, COMPLETION, Role, TOKIO, Unit};
use crate::stats::{Ratio, geometric_mean};
use crate::style::{self, Cell, Style};

/// A value of `unit`, in a width that fits the tables.
pub(crate) fn show(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Nanoseconds => show_ns(value),
        Unit::Share => format!("{value:.2}"),
        Unit::PerSecond => format!("{:.1} M/s", value / 1e6),
        Unit::Bytes if value >= 100_000.0 => format!("{:.1} MiB", value / 1024.0 / 1024.0),
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

pub(crate) fn show_ratio(ratio: Option<Ratio>) -> String {
    match ratio {
        Some(ratio) => format!("{:.2} ({:.2}–{:.2})", ratio.median, ratio.low, ratio.high),
        None => "–".into(),
    }
}

pub(crate) fn show_median(ratio: Option<Ratio>) -> String {
    ratio.map_or("–".into(), |ratio| format!("{:.2}", ratio.median))
}

/// One row in full, printed as soon as it is known.
pub(crate) fn row(outcome: &Outcome, is_colored: bool) -> String {
    let has_floor = outcome.standings.iter().any(|one| one.role == Role::Floor);
    let columns: Vec<Column> = COLUMNS
        .into_iter()
        .filter(|(name, _)| has_floor || *name != FLOOR)
        .collect();
    let title = |name: &str| Cell::new(name, Style::Dim);
    let mut header = vec![Cell::default()];
    header.extend(columns.iter().map(|(name, _)| title(name)));
    let first = outcome.standings.iter().take(1);
    header.extend(first.flat_map(|one| one.notes.iter().map(|note| title(&note.name))));
    let mut lines = vec![header];
    for standing in &outcome.standings {
        let style = match standing.role {
            Role::Subject => Style::Strong,
            Role::Peer => Style::Plain,
            Role::Floor => Style::Dim,
        };
        let mut line = vec![Cell::new(&standing.name, style)];
        line.extend(columns.iter().map(|(_, cell)| cell(standing, outcome.unit)));
        line.extend(standing.notes.iter().map(|note| {
            let ratio = show_median(note.over_tokio);
            format!("{} ({ratio})", show_ns(note.median_ns)).into()
        }));
        lines.push(line);
    }
    let name = format!("{}/{}", outcome.group, outcome.row);
    let mut text = format!(
        "{}: {}\n  {} operations, {} workers, {} rounds",
        Style::Strong.paint(&name, is_colored),
        outcome.what,
        outcome.ops,
        outcome.workers,
        outcome.rounds,
    );
    if let Some(busy) = outcome.others_busy {
        let load = format!("others kept {busy:.1} processors busy");
        let style = match busy > NOISY {
            true => Style::Bad,
            false => Style::Plain,
        };
        text.push_str(", ");
        text.push_str(&style.paint(&load, is_colored));
    }
    text.push('\n');
    for line in style::table(&lines, is_colored).lines() {
        text.push_str("  ");
        text.push_str(line);
        text.push('\n');
    }
    for verdict in &outcome.verdicts {
        let word = verdict_cell(&[verdict]);
        writeln!(
            text,
            "  target of {}, {}: {}, {}",
            verdict.of,
            verdict.aim,
            show_verdict(verdict, outcome.unit),
            word.style.paint(&word.text, is_colored)
        )
        .expect("a string takes everything");
    }
    text
}

/// Above this many processors that others keep busy, times are not to be trusted.
pub(crate) const NOISY: f64 = 0.3;

/// What a verdict was reached by: a value in the row's unit, or a ratio.
fn show_verdict(verdict: &Verdict, unit: Unit) -> String {
    match verdict.is_ratio {
        true => format!("{:.2}", verdict.value),
        false => show(verdict.value, unit),
    }
}

/// Whether all of these targets are met; nothing if there are none.
fn verdict_cell(verdicts: &[&Verdict]) -> Cell {
    let is_missed = verdicts.iter().any(|one| !one.is_met && !one.is_stretch);
    let is_met = verdicts.iter().any(|one| one.is_met);
    match (is_missed, is_met) {
        (true, _) => Cell::new("MISSED", Style::Bad),
        (false, true) => Cell::new("met", Style::Good),
        (false, false) if verdicts.is_empty() => Cell::default(),
        (false, false) => "not reached".into(),
    }
}

/// A column's name, and what it shows of a contender.
type Column = (&'static str, fn(&Standing, Unit) -> Cell);

const FLOOR: &str = "× floor";

const COLUMNS: [Column; 12] = [
    ("best", |one, unit| show(one.best, unit).into()),
    ("median", |one, unit| {
        Cell::new(show(one.median, unit), Style::Strong)
    }),
    ("p95", |one, unit| show(one.p95, unit).into()),
    ("p99", |one, unit| show(one.p99, unit).into()),
    ("points", |one, _| {
        Cell::new(one.points.to_string(), Style::Dim)
    }),
    ("× tokio", |one, _| ratio_cell(one.over_tokio)),
    ("× best", |one, _| ratio_cell(one.over_best_peer)),
    (FLOOR, |one, _| show_ratio(one.over_floor).into()),
    ("cpu/op", |one, _| per_op(one, |used| show_ns(used.cpu_ns))),
    ("cpu × tokio", |one, _| {
        show_median(one.cpu_over_tokio).into()
    }),
    ("allocs/op", |one, _| {
        per_op(one, |used| format!("{:.3}", used.allocations))
    }),
    ("bytes/op", |one, _| {
        per_op(one, |used| format!("{:.1}", used.bytes))
    }),
];

fn ratio_cell(ratio: Option<Ratio>) -> Cell {
    let median = ratio.map(|ratio| ratio.median);
    Cell::new(show_ratio(ratio), Style::of_ratio(median))
}

fn per_op(standing: &Standing, show: fn(PerOp) -> String) -> Cell {
    standing.per_op.map_or("–".into(), show).into()
}

/// All rows in a line for each form of blitzen that is judged, and each group's mean.
pub(crate) fn summary(outcomes: &[Outcome], is_colored: bool) -> String {
    let header = SUMMARY_COLUMNS.map(|name| Cell::new(name, Style::Dim));
    let mut lines = vec![header.to_vec()];
    lines.extend(summary_lines(outcomes));
    let mut text = style::table(&lines, is_colored);
    for mean in group_means(outcomes) {
        text.push_str(&mean.sentence());
        text.push('\n');
    }
    text
}

pub(crate) const SUMMARY_COLUMNS: [&str; 9] = [
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

/// A line for each row and each form of blitzen that is judged in it.
pub(crate) fn summary_lines(outcomes: &[Outcome]) -> Vec<Vec<Cell>> {
    let mut lines = Vec::new();
    for outcome in outcomes {
        let judged = outcome.judged();
        match judged.is_empty() {
            true => lines.push(summary_line(outcome, None)),
            false => lines.extend(judged.iter().map(|one| summary_line(outcome, Some(*one)))),
        }
    }
    lines
}

fn summary_line(outcome: &Outcome, judged: Option<&Standing>) -> Vec<Cell> {
    let value = |name: &str| {
        outcome
            .standing(name)
            .map_or("–".into(), |one| show(one.median, outcome.unit))
    };
    let best = outcome.best_peer.as_deref().unwrap_or("–");
    let ratio = |pick: fn(&Standing) -> Option<Ratio>| ratio_cell(judged.and_then(pick));
    let verdicts = judged.map_or(Vec::new(), |one| outcome.verdicts_of(&one.name));
    let aims: Vec<&str> = verdicts.iter().map(|one| one.aim.as_str()).collect();
    let name = match judged {
        Some(one) if one.name != BLITZEN => format!("{} ({})", outcome.row, one.name),
        _ => outcome.row.clone(),
    };
    vec![
        name.into(),
        value(TOKIO).into(),
        value(best).into(),
        best.into(),
        Cell::new(
            judged.map_or("–".into(), |one| show(one.median, outcome.unit)),
            Style::Strong,
        ),
        ratio(|one| one.over_tokio),
        ratio(|one| one.over_best_peer),
        aims.join(", ").into(),
        verdict_cell(&verdicts),
    ]
}

/// How one form of blitzen does in a group.
pub(crate) struct GroupMean {
    pub(crate) group: String,
    pub(crate) form: &'static str,
    /// The geometric mean of the ratios to Tokio in the rows that aim at a multiple.
    pub(crate) mean: f64,
    pub(crate) rows_in_mean: usize,
    pub(crate) slower_than_tokio: usize,
    pub(crate) rows_with_tokio: usize,
    pub(crate) level_with_best: usize,
    pub(crate) rows_with_peers: usize,
}

impl GroupMean {
    pub(crate) fn sentence(&self) -> String {
        format!(
            "{}, {}: geometric mean {:.2} × tokio in the {} rows that aim at a multiple; \
             {} of {} slower than tokio; {} of {} level with the best peer or ahead",
            self.group,
            self.form,
            self.mean,
            self.rows_in_mean,
            self.slower_than_tokio,
            self.rows_with_tokio,
            self.level_with_best,
            self.rows_with_peers,
        )
    }
}

/// Each group's mean, for each form of blitzen that is judged in it.
pub(crate) fn group_means(outcomes: &[Outcome]) -> Vec<GroupMean> {
    let mut means = Vec::new();
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
            means.push(GroupMean {
                group: group.to_string(),
                form,
                mean,
                rows_in_mean: in_mean.len(),
                slower_than_tokio: over_tokio.iter().filter(|ratio| **ratio < 1.0).count(),
                rows_with_tokio: over_tokio.len(),
                level_with_best: over_best.iter().filter(|ratio| **ratio >= 1.0).count(),
                rows_with_peers: over_best.len(),
            });
        }
    }
    means
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
    fn times_are_shown_in_a_unit_that_fits() {
        assert_eq!(show_ns(3.26), "3.3 ns");
        assert_eq!(show_ns(465.2), "465 ns");
        assert_eq!(show_ns(40_000.0), "40.0 µs");
        assert_eq!(show_ns(5e6), "5.0 ms");
        assert_eq!(show_ns(1.38e9), "1.38 s");
        assert_eq!(show(0.5, Unit::Share), "0.50");
        assert_eq!(show(320.4, Unit::Bytes), "320 B");
        assert_eq!(show(12.34e6, Unit::PerSecond), "12.3 M/s");
    }
}
