//! Runs contenders round by round and boils their samples down.
//!
//! C1. A round runs every contender of a row once, every second round backwards and
//!     every second one starting with the next contender, so that none is always
//!     first or always after the same neighbour.
//! C2. Round 0 counts allocations and is not timed; the rounds after it are timed
//!     and count nothing (see [`alloc`]).
//! C3. Ratios are taken within a round, never between rounds.

use crate::alloc;
use crate::foreign_load::ForeignLoad;
use crate::once;
use crate::probe::{PerOp, Sample};
use crate::progress::Progress;
use crate::report;
use crate::row::{BLITZEN, Contender, Goal, Role, Row, TOKIO, Target, Unit};
use crate::stats::{Ratio, ahead, median, quantile};

/// What all rows of a run have in common.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) is_quick: bool,
    /// Instead of the row's own number of operations.
    pub(crate) ops: Option<u64>,
}

impl Plan {
    pub(crate) fn ops_of(&self, row: &Row) -> u64 {
        let own = match self.is_quick {
            true => row.ops.quick,
            false => row.ops.full,
        };
        self.ops.unwrap_or(own)
    }

    /// How many samples [`compare`] takes of a row.
    pub(crate) fn samples_of(&self, row: &Row) -> u64 {
        (row.contenders.len() * (self.rounds + 1)) as u64
    }
}

/// A row as it came out.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Outcome {
    pub(crate) group: String,
    pub(crate) row: String,
    pub(crate) what: String,
    pub(crate) unit: Unit,
    pub(crate) ops: u64,
    pub(crate) workers: usize,
    pub(crate) rounds: usize,
    /// Processors that other processes kept busy meanwhile.
    pub(crate) others_busy: Option<f64>,
    /// Whether the row aims at a multiple of Tokio's cost. Others (a latency with a
    /// limit, a share) would drown a mean of ratios.
    pub(crate) is_in_mean: bool,
    pub(crate) best_peer: Option<String>,
    pub(crate) standings: Vec<Standing>,
    /// By contender, in the order of the row's goals.
    pub(crate) verdicts: Vec<Verdict>,
}

/// One contender of a row as it came out.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Standing {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// How many values the quantiles are of.
    pub(crate) points: usize,
    /// The best round: on a busy machine the one least disturbed.
    pub(crate) best: f64,
    pub(crate) median: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    /// Above 1: ahead of Tokio.
    pub(crate) over_tokio: Option<Ratio>,
    /// Above 1: ahead of the best peer.
    pub(crate) over_best_peer: Option<Ratio>,
    /// Above 1: ahead of the floor, where the row has one.
    pub(crate) over_floor: Option<Ratio>,
    /// Nothing where they would be the harness's.
    pub(crate) per_op: Option<PerOp>,
    pub(crate) cpu_over_tokio: Option<Ratio>,
    /// Above 1: less CPU time than blitzen.
    #[serde(default)]
    pub(crate) cpu_over_plain: Option<Ratio>,
    /// CPU time of an operation above that on blitzen.
    #[serde(default)]
    pub(crate) cpu_above_plain_ns: Option<f64>,
    pub(crate) notes: Vec<NoteStanding>,
    /// The median of each round, in the row's unit.
    pub(crate) by_round: Vec<f64>,
}

impl Standing {
    fn note(&self, name: &str) -> Option<&NoteStanding> {
        self.notes.iter().find(|note| note.name == name)
    }
}

/// A time beside the value as it came out.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct NoteStanding {
    pub(crate) name: String,
    pub(crate) median_ns: f64,
    /// Above 1: ahead of Tokio.
    pub(crate) over_tokio: Option<Ratio>,
}

/// Whether one of blitzen's forms reached what it was to reach.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Verdict {
    pub(crate) of: String,
    pub(crate) aim: String,
    pub(crate) value: f64,
    /// Whether the value is a ratio, and not in nanoseconds or the row's unit.
    pub(crate) is_ratio: bool,
    pub(crate) is_met: bool,
    /// Not meeting it is no miss.
    pub(crate) is_stretch: bool,
}

impl Outcome {
    /// blitzen or, while a part of it has no runtime yet, that part on another's.
    pub(crate) fn subject(&self) -> Option<&Standing> {
        let is_subject = |standing: &&Standing| standing.role == Role::Subject;
        self.standing(BLITZEN)
            .or_else(|| self.standings.iter().find(is_subject))
    }

    /// The subject, and whoever else has targets of its own.
    pub(crate) fn judged(&self) -> Vec<&Standing> {
        let mut judged: Vec<&Standing> = self.subject().into_iter().collect();
        for verdict in &self.verdicts {
            if let Some(standing) = self.standing(&verdict.of)
                && judged.iter().all(|one| one.name != standing.name)
            {
                judged.push(standing);
            }
        }
        judged
    }

    /// What one contender was to reach.
    pub(crate) fn verdicts_of(&self, name: &str) -> Vec<&Verdict> {
        let verdicts = self.verdicts.iter();
        verdicts.filter(|verdict| verdict.of == name).collect()
    }

    pub(crate) fn standing(&self, name: &str) -> Option<&Standing> {
        self.standings.iter().find(|standing| standing.name == name)
    }
}

/// Everything measured of one contender, by round.
struct Series {
    timed: Vec<Sample>,
    counted: Sample,
}

impl Series {
    fn by_round(&self) -> Vec<f64> {
        let rounds = self.timed.iter();
        rounds.map(|sample| median(&sample.points)).collect()
    }

    fn cpu_by_round(&self) -> Option<Vec<f64>> {
        let rounds = self.timed.iter();
        rounds
            .map(|sample| sample.per_op.map(|per_op| per_op.cpu_ns))
            .collect()
    }

    /// The median of how much more CPU time an operation takes than another's in the same round.
    fn cpu_above(&self, other: &Series) -> Option<f64> {
        let (own, other) = (self.cpu_by_round()?, other.cpu_by_round()?);
        let above: Vec<f64> = own.iter().zip(&other).map(|(own, one)| own - one).collect();
        Some(median(&above))
    }

    /// CPU time of the timed rounds, allocations of the counted one.
    fn per_op(&self) -> Option<PerOp> {
        Some(PerOp {
            cpu_ns: median(&self.cpu_by_round()?),
            ..self.counted.per_op?
        })
    }

    fn note_names(&self) -> Vec<String> {
        let notes = &self.counted.notes;
        notes.iter().map(|note| note.name.clone()).collect()
    }

    fn note_by_round(&self, name: &str) -> Vec<f64> {
        let notes = self.timed.iter().flat_map(|sample| &sample.notes);
        let named = notes.filter(|note| note.name == name);
        named.map(|note| note.ns).collect()
    }

    fn points(&self) -> Vec<f64> {
        let rounds = self.timed.iter();
        rounds.flat_map(|sample| sample.points.clone()).collect()
    }
}

/// Runs one row.
pub(crate) fn compare(row: &Row, plan: Plan, progress: &Progress) -> Outcome {
    let ops = plan.ops_of(row);
    let sample = |contender: &Contender| {
        progress.begin(format!("{} on {}", row.name, contender.name));
        let sample = once::sample(row, contender, ops);
        progress.advance();
        sample
    };
    let load = ForeignLoad::begin();
    let mut timed: Vec<Vec<Sample>> = vec![Vec::new(); row.contenders.len()];
    alloc::count(true);
    let counted: Vec<Sample> = row.contenders.iter().map(sample).collect();
    alloc::count(false);
    for round in 0..plan.rounds {
        for index in order(round, row.contenders.len()) {
            timed[index].push(sample(&row.contenders[index]));
        }
    }
    let series: Vec<Series> = timed
        .into_iter()
        .zip(counted)
        .map(|(timed, counted)| Series { timed, counted })
        .collect();
    Outcome {
        others_busy: load.and_then(ForeignLoad::end),
        ..boil_down(row, ops, plan.rounds, &series)
    }
}

/// The order of `contenders` in a round: C1.
fn order(round: usize, contenders: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..contenders).collect();
    order.rotate_left(round / 2 % contenders);
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

fn boil_down(row: &Row, ops: u64, rounds: usize, series: &[Series]) -> Outcome {
    let higher = row.unit.higher_is_better();
    let index_of = |name: &str| row.contenders.iter().position(|one| one.name == name);
    let tokio = index_of(TOKIO).map(|index| &series[index]);
    let plain = index_of(BLITZEN).map(|index| &series[index]);
    let best = best_peer(row, series);
    let floor = row
        .contenders
        .iter()
        .zip(series)
        .find(|(contender, _)| contender.role == Role::Floor)
        .map(|(_, series)| series);

    let standings: Vec<Standing> = row
        .contenders
        .iter()
        .zip(series)
        .map(|(contender, own)| {
            let by_round = own.by_round();
            let points = own.points();
            Standing {
                name: contender.name.to_string(),
                role: contender.role,
                points: points.len(),
                best: quantile(&by_round, if higher { 1.0 } else { 0.0 }),
                median: median(&points),
                p95: quantile(&points, if higher { 0.05 } else { 0.95 }),
                p99: quantile(&points, if higher { 0.01 } else { 0.99 }),
                over_tokio: tokio.and_then(|tokio| ahead(&by_round, &tokio.by_round(), higher)),
                over_best_peer: best
                    .and_then(|best| ahead(&by_round, &series[best].by_round(), higher)),
                over_floor: floor.and_then(|floor| ahead(&by_round, &floor.by_round(), higher)),
                per_op: own.per_op(),
                cpu_over_tokio: tokio
                    .and_then(|tokio| ahead(&own.cpu_by_round()?, &tokio.cpu_by_round()?, false)),
                cpu_over_plain: plain
                    .and_then(|plain| ahead(&own.cpu_by_round()?, &plain.cpu_by_round()?, false)),
                cpu_above_plain_ns: plain.and_then(|plain| own.cpu_above(plain)),
                notes: note_standings(own, tokio),
                by_round,
            }
        })
        .collect();

    let mut outcome = Outcome {
        group: row.group.to_string(),
        row: row.name.to_string(),
        what: row.what.to_string(),
        unit: row.unit,
        ops,
        workers: row.workers,
        rounds,
        others_busy: None,
        is_in_mean: row
            .goals
            .iter()
            .any(|goal| matches!(goal.target, Target::OverTokio(_))),
        best_peer: best.map(|index| row.contenders[index].name.to_string()),
        standings,
        verdicts: Vec::new(),
    };
    let goals = row.goals.iter();
    outcome.verdicts = goals.filter_map(|goal| judge(goal, &outcome)).collect();
    outcome
}

fn note_standings(own: &Series, tokio: Option<&Series>) -> Vec<NoteStanding> {
    let standing = |name: String| {
        let by_round = own.note_by_round(&name);
        NoteStanding {
            median_ns: median(&by_round),
            over_tokio: tokio
                .and_then(|tokio| ahead(&by_round, &tokio.note_by_round(&name), false)),
            name,
        }
    };
    own.note_names().into_iter().map(standing).collect()
}

/// The peer with the best median; Tokio is one of them.
fn best_peer(row: &Row, series: &[Series]) -> Option<usize> {
    let value = |index: &usize| {
        let value = median(&series[*index].points());
        match row.unit.higher_is_better() {
            true => -value,
            false => value,
        }
    };
    (0..row.contenders.len())
        .filter(|&index| row.contenders[index].role == Role::Peer)
        .min_by(|left, right| value(left).total_cmp(&value(right)))
}

/// From which multiple of the floor on a contender counts as level with it: two rounds of the same
/// differ by as much.
const LEVEL_WITH_FLOOR: f64 = 0.95;

/// Nothing for a target that cannot be judged in this run: who is to reach it, or its
/// opponent, did not take part.
fn judge(goal: &Goal, outcome: &Outcome) -> Option<Verdict> {
    let own = match goal.of {
        BLITZEN => outcome.subject(),
        form => outcome.standing(form),
    }?;
    let middle = |ratio: Option<Ratio>| ratio.map(|ratio| ratio.median);
    let note = |name: &str| own.note(name);
    // Nothing can be asked for beyond what the floor reaches.
    let over = |rival: &str, ratio: &dyn Fn(&Standing) -> Option<Ratio>, bound: f64| {
        let floors = outcome.standings.iter();
        let reached = floors
            .filter(|standing| standing.role == Role::Floor)
            .filter_map(|floor| middle(ratio(floor)))
            .max_by(f64::total_cmp);
        let limit = reached.map_or(bound, |reached| bound.min(LEVEL_WITH_FLOOR * reached));
        let aim = match limit < bound {
            true => format!("≥ {bound} × {rival}, floor: {limit:.2}"),
            false => format!("≥ {bound} × {rival}"),
        };
        (aim, middle(ratio(own)).map(|value| (value, value >= limit)))
    };
    let at_least = |value: Option<f64>, bound: f64| Some((value?, value? >= bound));
    let at_most = |value: Option<f64>, bound: f64| Some((value?, value? <= bound));
    let (aim, judged) = match goal.target {
        Target::OverTokio(bound) => over("Tokio", &|standing| standing.over_tokio, bound),
        Target::CpuOverTokio(bound) => {
            let (aim, judged) = over("Tokio", &|standing| standing.cpu_over_tokio, bound);
            (format!("CPU {aim}"), judged)
        }
        Target::CpuTimesPlain(bound) => (
            format!("CPU ≤ {bound} × blitzen"),
            at_most(own.cpu_over_plain.map(|ahead| 1.0 / ahead.median), bound),
        ),
        Target::CpuAbovePlain(bound) => (
            format!("CPU ≤ blitzen + {}", report::show_ns(bound)),
            at_most(own.cpu_above_plain_ns, bound),
        ),
        Target::NoteOverTokio(name, bound) => {
            let (aim, judged) = over("Tokio", &|standing| standing.note(name)?.over_tokio, bound);
            (format!("{name} {aim}"), judged)
        }
        Target::NoteAtMost(name, bound) => (
            format!("{name} ≤ {}", report::show_ns(bound)),
            at_most(note(name).map(|note| note.median_ns), bound),
        ),
        Target::OverBestPeer(bound) => {
            over("best peer", &|standing| standing.over_best_peer, bound)
        }
        Target::TimesFloor(bound) => (
            format!("≤ {bound} × floor"),
            at_most(own.over_floor.map(|ahead| 1.0 / ahead.median), bound),
        ),
        Target::AtMost(bound) => (
            format!("≤ {}", report::show(bound, outcome.unit)),
            at_most(Some(own.median), bound),
        ),
        Target::AtLeast(bound) => (
            format!("≥ {}", report::show(bound, outcome.unit)),
            at_least(Some(own.median), bound),
        ),
    };
    let (value, is_met) = judged?;
    let aim = match goal.is_stretch {
        true => format!("stretch {aim}"),
        false => aim,
    };
    Some(Verdict {
        of: own.name.clone(),
        aim,
        is_stretch: goal.is_stretch,
        value,
        is_ratio: !matches!(
            goal.target,
            Target::AtMost(_)
                | Target::AtLeast(_)
                | Target::NoteAtMost(..)
                | Target::CpuAbovePlain(_)
        ),
        is_met,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Note;
    use crate::row::COMPLETION;
    use std::collections::HashSet;

    fn series(values: &[f64]) -> Series {
        let sample = |value: f64| Sample {
            points: vec![value],
            per_op: Some(PerOp {
                cpu_ns: value,
                allocations: 1.0,
                bytes: 64.0,
            }),
            notes: vec![Note {
                name: "p99".into(),
                ns: 2.0 * value,
            }],
        };
        Series {
            timed: values.iter().copied().map(sample).collect(),
            counted: sample(0.0),
        }
    }

    fn row(unit: Unit) -> Row {
        let contenders = vec![
            Contender::named(BLITZEN, |_| ()),
            Contender::named(TOKIO, |_| ()),
            Contender::named("smol", |_| ()),
            Contender::floor("futex", |_| ()),
        ];
        Row::new("row", "", (1, 1), contenders)
            .unit(unit)
            .target(Target::OverTokio(2.0))
            .target(Target::TimesFloor(1.5))
    }

    #[test]
    fn everybody_is_first_in_turn_and_nobody_has_one_neighbour_only() {
        for contenders in 1..7 {
            let rounds: Vec<Vec<usize>> = (0..2 * contenders)
                .map(|round| order(round, contenders))
                .collect();
            for one in 0..contenders {
                assert!(rounds.iter().all(|round| round.contains(&one)));
                assert!(rounds.iter().any(|round| round[0] == one));
                let before = |round: &Vec<usize>| {
                    let place = round.iter().position(|other| *other == one);
                    place
                        .and_then(|place| place.checked_sub(1))
                        .map(|place| round[place])
                };
                let neighbours: HashSet<usize> = rounds.iter().filter_map(before).collect();
                assert!(
                    neighbours.len() >= 2.min(contenders - 1),
                    "{contenders}: {one}"
                );
            }
        }
    }

    #[test]
    fn the_best_peer_is_neither_blitzen_nor_the_floor() {
        let series = [&[10.0][..], &[30.0], &[20.0], &[5.0]].map(series);
        let outcome = boil_down(&row(Unit::Nanoseconds), 1, 1, &series);
        assert_eq!(outcome.best_peer.as_deref(), Some("smol"));
        let blitzen = outcome.standing(BLITZEN).unwrap();
        assert_eq!(blitzen.over_tokio.unwrap().median, 3.0);
        assert_eq!(blitzen.over_best_peer.unwrap().median, 2.0);
        assert_eq!(blitzen.per_op.unwrap().allocations, 1.0);
        assert_eq!(blitzen.cpu_over_tokio.unwrap().median, 3.0);
    }

    #[test]
    fn targets_are_judged_in_their_own_terms() {
        let series = [&[10.0][..], &[30.0], &[20.0], &[5.0]].map(series);
        let outcome = boil_down(&row(Unit::Nanoseconds), 1, 1, &series);
        let met: Vec<bool> = outcome.verdicts.iter().map(|one| one.is_met).collect();
        assert_eq!(met, [true, false], "3 × Tokio, but 2 × the floor");
        assert_eq!(outcome.verdicts[1].value, 2.0);
    }

    #[test]
    fn a_target_beyond_the_floor_is_met_by_what_is_level_with_it() {
        let judged = |own: f64, floor: f64| {
            let series = [&[own][..], &[30.0], &[20.0], &[floor]].map(series);
            let row = row(Unit::Nanoseconds).target(Target::OverTokio(3.5));
            let outcome = boil_down(&row, 1, 1, &series);
            (outcome.verdicts[2].is_met, outcome.verdicts[2].aim.clone())
        };
        assert_eq!(
            judged(10.2, 10.0),
            (true, "≥ 3.5 × Tokio, floor: 2.85".into())
        );
        assert!(!judged(11.0, 10.0).0, "a tenth above the floor");
        assert_eq!(judged(10.2, 5.0), (false, "≥ 3.5 × Tokio".into()));
        assert!(judged(8.0, 10.0).0, "below the floor");
    }

    #[test]
    fn each_form_of_blitzen_is_judged_by_its_own_targets() {
        let contenders = vec![
            Contender::named(BLITZEN, |_| ()),
            Contender::named(TOKIO, |_| ()),
            Contender::named(COMPLETION, |_| ()),
        ];
        let row = Row::new("row", "", (1, 1), contenders)
            .target(Target::OverTokio(2.0))
            .target_of(COMPLETION, Target::OverTokio(3.0))
            .target_of(COMPLETION, Target::NoteAtMost("p99", 25.0));
        let outcome = boil_down(&row, 1, 1, &[&[10.0][..], &[30.0], &[12.0]].map(series));
        let met: Vec<(&str, bool)> = outcome
            .verdicts
            .iter()
            .map(|one| (one.of.as_str(), one.is_met))
            .collect();
        assert_eq!(
            met,
            [(BLITZEN, true), (COMPLETION, false), (COMPLETION, true)]
        );
        let judged: Vec<&str> = outcome
            .judged()
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        assert_eq!(judged, [BLITZEN, COMPLETION]);
        assert_eq!(outcome.verdicts_of(COMPLETION).len(), 2);
    }

    #[test]
    fn what_stands_beside_the_value_is_compared_like_it() {
        let series = [&[10.0][..], &[30.0], &[20.0], &[5.0]].map(series);
        let row = row(Unit::Nanoseconds).target(Target::NoteOverTokio("p99", 3.5));
        let outcome = boil_down(&row, 1, 1, &series);
        let note = &outcome.standing(BLITZEN).unwrap().notes[0];
        assert_eq!(
            (note.median_ns, note.over_tokio.unwrap().median),
            (20.0, 3.0)
        );
        assert!(!outcome.verdicts[2].is_met);
    }

    #[test]
    fn the_best_share_is_the_highest() {
        let series = [&[0.8][..], &[0.4], &[0.6], &[0.9]].map(series);
        let outcome = boil_down(&row(Unit::Share), 1, 1, &series);
        assert_eq!(outcome.best_peer.as_deref(), Some("smol"));
        let blitzen = outcome.standing(BLITZEN).unwrap();
        assert_eq!(blitzen.over_tokio.unwrap().median, 2.0);
    }

    #[test]
    fn the_tail_of_a_share_is_its_low_end() {
        let values: Vec<f64> = (1..=100).map(|value| f64::from(value) / 100.0).collect();
        let series = [&values[..], &values, &values, &values].map(series);
        let outcome = boil_down(&row(Unit::Share), 1, 100, &series);
        let blitzen = outcome.standing(BLITZEN).unwrap();
        assert!(blitzen.p99 < blitzen.p95 && blitzen.p95 < blitzen.median);
    }

    #[test]
    fn a_row_without_blitzen_is_not_judged() {
        let contenders = vec![Contender::named(TOKIO, |_| ())];
        let row = Row::new("row", "", (1, 1), contenders).target(Target::OverTokio(2.0));
        let outcome = boil_down(&row, 1, 1, &[series(&[10.0])]);
        assert!(outcome.verdicts.is_empty());
    }
}
