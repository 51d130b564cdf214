//! How the cost of an operation grows: rows taken again with more workers, and with ten
//! times as many tasks, timers or connections at each step.
//!
//! A flat curve is what one hopes for. Workers beyond the processors of the machine are
//! oversubscribed: the curve shows what their competition costs. It would lie if a small
//! size made a short sample: an operation is one task, timer or request, and a sample has
//! as many operations as the row it belongs to, in as many batches as that takes.

use crate::compare::{self, Outcome, Plan};
#[cfg(feature = "io")]
use crate::net;
use crate::progress::Progress;
use crate::report;
use crate::row::{BLITZEN, COMPLETION, Ops, Row, TOKIO};
use crate::style::{self, Cell, Style};
use crate::{scheduler, time};

/// The most rounds of a point: a curve has many points.
const MOST_ROUNDS: usize = 7;
/// The largest size of a run that only checks the counts.
const QUICK_SIZE: u64 = 1_000;

/// What grows along a curve.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Axis {
    Workers,
    Tasks,
    Timers,
    Connections,
}

impl Axis {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Axis::Workers => "workers",
            Axis::Tasks => "tasks",
            Axis::Timers => "timers",
            Axis::Connections => "connections",
        }
    }
}

/// A row, and where along an axis it is measured.
#[derive(Clone)]
pub(crate) struct Sweep {
    pub(crate) row: Row,
    pub(crate) axis: Axis,
    pub(crate) points: Vec<u64>,
}

impl Sweep {
    /// The row at one point.
    fn row_at(&self, point: u64) -> Row {
        let row = self.row.clone();
        match self.axis {
            Axis::Workers => row.workers(point as usize),
            _ => Row {
                size: point,
                ops: Ops {
                    full: row.ops.full.max(point),
                    quick: row.ops.quick.max(point),
                },
                ..row
            },
        }
    }

    fn points(&self, plan: Plan) -> impl Iterator<Item = u64> {
        let is_chosen = move |point: &u64| !plan.is_quick || *point <= QUICK_SIZE;
        self.points.iter().copied().filter(is_chosen)
    }

    /// How many samples [`curve`] takes of it.
    pub(crate) fn samples(&self, plan: Plan) -> u64 {
        let rounds = plan.rounds.min(MOST_ROUNDS) + 1;
        (self.points(plan).count() * self.row.contenders.len() * rounds) as u64
    }
}

/// A row as it came out at each point.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Curve {
    pub(crate) row: String,
    pub(crate) what: String,
    pub(crate) axis: Axis,
    pub(crate) points: Vec<CurvePoint>,
}

#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct CurvePoint {
    pub(crate) at: u64,
    pub(crate) outcome: Outcome,
}

impl Curve {
    /// Who takes part, in the order of the first point.
    pub(crate) fn contenders(&self) -> Vec<&str> {
        let first = self.points.iter().take(1);
        let standings = first.flat_map(|point| &point.outcome.standings);
        standings.map(|standing| standing.name.as_str()).collect()
    }
}

/// A line for each point, a column for each contender.
pub(crate) fn table(curve: &Curve, is_colored: bool) -> String {
    let title = |name: &str| Cell::new(name, Style::Dim);
    let contenders = curve.contenders();
    let mut header = vec![title(curve.axis.name())];
    header.extend(contenders.iter().map(|name| title(name)));
    let mut lines = vec![header];
    for point in &curve.points {
        let mut line: Vec<Cell> = vec![point.at.to_string().into()];
        line.extend(contenders.iter().map(|name| {
            let standing = point.outcome.standing(name);
            let shown = standing.map_or("–".into(), |standing| {
                report::show(standing.median, point.outcome.unit)
            });
            Cell::from(shown)
        }));
        lines.push(line);
    }
    let name = Style::Strong.paint(&curve.row, is_colored);
    let table = style::table(&lines, is_colored);
    let table: String = table.lines().map(|line| format!("  {line}\n")).collect();
    format!("{name}: {}\n{table}", curve.what)
}

/// Every curve there is.
pub(crate) fn sweeps() -> Vec<Sweep> {
    let by_workers = crate::row::all()
        .into_iter()
        .filter(|row| OVER_WORKERS.contains(&row.name))
        .map(|row| Sweep {
            row,
            axis: Axis::Workers,
            points: vec![1, 2, 4, 8],
        });
    let by_size = |axis, points: &[u64], rows: Vec<Row>| {
        let points = points.to_vec();
        rows.into_iter().map(move |row| Sweep {
            row,
            axis,
            points: points.clone(),
        })
    };
    let thousands = [10, 100, 1_000, 10_000, 100_000, 1_000_000];
    let mut sweeps: Vec<Sweep> = by_workers
        .chain(by_size(Axis::Tasks, &thousands, scheduler::sized_rows()))
        .chain(by_size(Axis::Timers, &thousands, time::sized_rows()))
        .collect();
    #[cfg(feature = "io")]
    sweeps.extend(by_size(
        Axis::Connections,
        &[1, 10, 100, 1_000, 8_000],
        net::sized_rows(),
    ));
    for sweep in &mut sweeps {
        sweep.row.group = "scaling";
        let is_shown = |name: &str| [BLITZEN, TOKIO, COMPLETION, "smol"].contains(&name);
        sweep.row.contenders.retain(|one| is_shown(one.name));
        sweep.row.goals.clear();
    }
    sweeps
}

/// The core rows whose work is the same whatever the number of workers.
const OVER_WORKERS: [&str; 8] = [
    "scheduled_ops",
    "spawn_outside",
    "spawn_inside",
    "ping_pong_1000",
    "wake_inside",
    "mpsc_4p1c",
    "mpmc_4p4c",
    "mutex_4_tasks",
];

/// Measures one curve.
pub(crate) fn curve(sweep: &Sweep, plan: Plan, progress: &Progress) -> Curve {
    let plan = Plan {
        rounds: plan.rounds.min(MOST_ROUNDS),
        ops: None, // one number of operations does not fit all sizes
        ..plan
    };
    let points = sweep.points(plan).map(|at| CurvePoint {
        at,
        outcome: compare::compare(&sweep.row_at(at), plan, progress),
    });
    Curve {
        points: points.collect(),
        row: sweep.row.name.to_string(),
        what: sweep.row.what.to_string(),
        axis: sweep.axis,
    }
}
