//! A row of the comparison: one workload, who takes part, and what is aimed at.

use crate::probe::Probe;

/// What a row's values are.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Unit {
    /// Time of one operation, or how late it was.
    Nanoseconds,
    /// Of the best that the processors could do; more is better.
    Share,
    /// Operations a second; more is better.
    PerSecond,
    Bytes,
    Allocations,
}

impl Unit {
    pub(crate) fn higher_is_better(self) -> bool {
        matches!(self, Unit::Share | Unit::PerSecond)
    }
}

/// What blitzen is to reach in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Target {
    /// Tokio's cost over blitzen's.
    OverTokio(f64),
    /// Tokio's CPU time per operation over blitzen's.
    CpuOverTokio(f64),
    /// In the row's unit.
    AtMost(f64),
    AtLeast(f64),
    /// The highest multiple of what the bare system calls cost.
    TimesFloor(f64),
    /// The best peer's cost over blitzen's.
    OverBestPeer(f64),
    /// Tokio's note of that name over blitzen's.
    NoteOverTokio(&'static str, f64),
    /// The note of that name, in nanoseconds.
    NoteAtMost(&'static str, f64),
    /// The highest multiple of the CPU time that plain blitzen takes for an operation.
    CpuTimesPlain(f64),
    /// By how many nanoseconds of CPU time an operation may exceed one of plain blitzen.
    CpuAbovePlain(f64),
}

/// What the instructions of one contender may be, compared with those of another: judged where
/// instructions are counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct InstructionGoal {
    pub(crate) of: &'static str,
    pub(crate) over: &'static str,
    pub(crate) at_most: InstructionBound,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum InstructionBound {
    /// A multiple.
    Times(f64),
    /// So many more for an operation.
    More(f64),
}

/// A target, and which of blitzen's forms is to reach it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Goal {
    pub(crate) of: &'static str,
    pub(crate) target: Target,
    /// Wished for: a row that does not reach it has missed nothing.
    pub(crate) is_stretch: bool,
}

/// Who a contender is to the report.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Role {
    /// blitzen, or a part of it under another scheduler.
    Subject,
    /// Anything blitzen competes with, Tokio included.
    Peer,
    /// The system calls or threads below every runtime: a bound, not a competitor.
    Floor,
}

/// A row's workload, instantiated for one library.
#[derive(Clone, Copy)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    pub(crate) run: fn(&mut Probe),
    pub(crate) place: Place,
}

/// Where the samples of a contender are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Place {
    /// In this process.
    Here,
    /// Each in a process of its own: its threads outlive their sample.
    OwnProcess,
    /// Each in a process of the [other build](crate::other_build), whose compiler flags would
    /// change the other contenders.
    OtherBuild,
}

impl Contender {
    /// blitzen, or a part of it under another scheduler, if the name says so;
    /// otherwise a peer.
    pub(crate) fn named(name: &'static str, run: fn(&mut Probe)) -> Contender {
        let role = match name.contains(BLITZEN) {
            true => Role::Subject,
            false => Role::Peer,
        };
        Contender {
            name,
            role,
            run,
            place: Place::Here,
        }
    }

    /// A peer whose threads cannot be ended, so that it gets a process for each sample.
    pub(crate) fn isolated(name: &'static str, run: fn(&mut Probe)) -> Contender {
        Contender {
            place: Place::OwnProcess,
            ..Contender::named(name, run)
        }
    }

    /// The same, as only the other build has it.
    pub(crate) fn in_other_build(self) -> Contender {
        Contender {
            place: Place::OtherBuild,
            ..self
        }
    }

    pub(crate) fn floor(name: &'static str, run: fn(&mut Probe)) -> Contender {
        Contender {
            role: Role::Floor,
            ..Contender::named(name, run)
        }
    }
}

/// Whose ratio every other is compared with.
pub(crate) const TOKIO: &str = "tokio";
/// Whose targets are judged, unless another form of it is named.
pub(crate) const BLITZEN: &str = "blitzen";
/// blitzen with sockets by completion, which has targets of its own.
pub(crate) const COMPLETION: &str = "blitzen-completion";

/// How many operations make a sample of a tenth of a second or less, and how many
/// are enough to see that the count is right.
#[derive(Clone, Copy)]
pub(crate) struct Ops {
    pub(crate) full: u64,
    pub(crate) quick: u64,
}

#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) group: &'static str,
    pub(crate) name: &'static str,
    /// One line: what an operation is.
    pub(crate) what: &'static str,
    pub(crate) unit: Unit,
    pub(crate) ops: Ops,
    pub(crate) workers: usize,
    /// How many tasks, timers or connections there are, in rows that a curve takes at
    /// several sizes.
    pub(crate) size: u64,
    pub(crate) goals: Vec<Goal>,
    pub(crate) instruction_goals: Vec<InstructionGoal>,
    /// Each sample in a process of its own.
    pub(crate) is_isolated: bool,
    /// For rows that keep one thread busy at a time, where a count of instructions
    /// means something: how many operations to count.
    pub(crate) counted_ops: Option<u64>,
    /// System calls that only the harness makes.
    pub(crate) untraced: &'static [&'static str],
    pub(crate) contenders: Vec<Contender>,
}

impl Row {
    pub(crate) fn new(
        name: &'static str,
        what: &'static str,
        (full, quick): (u64, u64),
        contenders: Vec<Contender>,
    ) -> Row {
        Row {
            group: "",
            name,
            what,
            unit: Unit::Nanoseconds,
            ops: Ops { full, quick },
            workers: 2,
            size: 0,
            goals: Vec::new(),
            instruction_goals: Vec::new(),
            is_isolated: false,
            counted_ops: None,
            untraced: &[],
            contenders,
        }
    }

    /// What is below every runtime takes part too.
    pub(crate) fn floor(mut self, name: &'static str, run: fn(&mut Probe)) -> Row {
        self.contenders.push(Contender::floor(name, run));
        self
    }

    /// A peer whose threads cannot be ended takes part, in a process for each sample.
    pub(crate) fn isolated_peer(mut self, name: &'static str, run: fn(&mut Probe)) -> Row {
        self.contenders.push(Contender::isolated(name, run));
        self
    }

    pub(crate) fn unit(self, unit: Unit) -> Row {
        Row { unit, ..self }
    }

    pub(crate) fn workers(self, workers: usize) -> Row {
        Row { workers, ..self }
    }

    pub(crate) fn target(self, target: Target) -> Row {
        self.target_of(BLITZEN, target)
    }

    /// A target of one of blitzen's other forms.
    pub(crate) fn target_of(mut self, of: &'static str, target: Target) -> Row {
        self.goals.push(Goal {
            of,
            target,
            is_stretch: false,
        });
        self
    }

    /// A target of instructions: those of one contender over those of another.
    pub(crate) fn instructions(
        mut self,
        of: &'static str,
        over: &'static str,
        at_most: InstructionBound,
    ) -> Row {
        self.instruction_goals
            .push(InstructionGoal { of, over, at_most });
        self
    }

    /// What would be better still than the targets.
    pub(crate) fn stretch(mut self, target: Target) -> Row {
        self.goals.push(Goal {
            of: BLITZEN,
            target,
            is_stretch: true,
        });
        self
    }

    pub(crate) fn isolated(self) -> Row {
        Row {
            is_isolated: true,
            ..self
        }
    }

    pub(crate) fn counted(self, ops: u64) -> Row {
        Row {
            counted_ops: Some(ops),
            ..self
        }
    }

    pub(crate) fn untraced(self, untraced: &'static [&'static str]) -> Row {
        Row { untraced, ..self }
    }

    pub(crate) fn contender(&self, name: &str) -> Option<&Contender> {
        self.contenders
            .iter()
            .find(|contender| contender.name == name)
    }
}

/// A group's name, and what makes its rows.
type Group = (&'static str, fn() -> Vec<Row>);

/// Every row there is, by group.
pub(crate) fn all() -> Vec<Row> {
    let groups: &[Group] = &[
        ("scheduler", crate::scheduler::rows),
        ("coro", crate::coro::rows),
        ("dispatch", crate::dispatch::rows),
        ("sync", crate::sync::rows),
        ("time", crate::time::rows),
        #[cfg(feature = "io")]
        ("net", crate::net::rows),
        #[cfg(feature = "io")]
        ("fs", crate::fs::rows),
        #[cfg(feature = "io")]
        ("process", crate::process::rows),
        ("observe", crate::observe::rows),
    ];
    groups
        .iter()
        .flat_map(|&(group, rows)| rows().into_iter().map(move |row| Row { group, ..row }))
        .collect()
}

/// The rows of `groups` (all if empty) whose name is in `names` or, where a name is
/// no row's, starts with it (all if empty).
pub(crate) fn select(
    rows: Vec<Row>,
    groups: &[String],
    names: &[String],
) -> Result<Vec<Row>, String> {
    for group in groups {
        if !rows.iter().any(|row| row.group == group) {
            return Err(format!("no group is called {group}; `list` shows them"));
        }
    }
    let is_exact = |name: &String| rows.iter().any(|row| row.name == name);
    for name in names {
        if !rows.iter().any(|row| row.name.starts_with(name.as_str())) {
            return Err(format!("no row is called {name}; `list` shows them"));
        }
    }
    let is_chosen = |row: &Row| {
        let group = groups.is_empty() || groups.iter().any(|group| row.group == group);
        let name = names.is_empty()
            || names.iter().any(|name| match is_exact(name) {
                true => row.name == name,
                false => row.name.starts_with(name.as_str()),
            });
        group && name
    };
    let chosen: Vec<Row> = rows.iter().filter(|row| is_chosen(row)).cloned().collect();
    if chosen.is_empty() {
        return Err("no row of these groups has one of these names".to_string());
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn names(rows: &[Row]) -> Vec<&str> {
        rows.iter().map(|row| row.name).collect()
    }

    fn sample_rows() -> Vec<Row> {
        ["yield_one", "yield_many", "yield"]
            .into_iter()
            .map(|name| Row {
                group: "scheduler",
                ..Row::new(name, "", (1, 1), Vec::new())
            })
            .collect()
    }

    #[test]
    fn an_exact_name_selects_its_row_and_a_prefix_all_it_begins() {
        let select = |name: &str| select(sample_rows(), &[], &[name.to_string()]);
        assert_eq!(names(&select("yield").unwrap()), ["yield"]);
        assert_eq!(
            names(&select("yie").unwrap()),
            ["yield_one", "yield_many", "yield"]
        );
        assert!(select("spawn").is_err());
    }

    #[test]
    fn an_unknown_group_is_an_error() {
        assert!(select(sample_rows(), &["nothing".to_string()], &[]).is_err());
        assert_eq!(
            select(sample_rows(), &["scheduler".to_string()], &[])
                .unwrap()
                .len(),
            3
        );
    }

    #[test]
    fn the_documentation_names_every_row_and_every_curve() {
        let page = include_str!("../../docs/benchmarks.md");
        let curves = crate::scaling::sweeps();
        let names = all().into_iter().map(|row| row.name);
        for name in names.chain(curves.iter().map(|sweep| sweep.row.name)) {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn every_row_has_its_own_name_and_every_contender_of_a_row_too() {
        let mut seen = HashSet::new();
        for row in all() {
            assert!(seen.insert(row.name), "two rows are called {}", row.name);
            let mut contenders = HashSet::new();
            for contender in &row.contenders {
                assert!(
                    contenders.insert(contender.name),
                    "{}: two contenders are called {}",
                    row.name,
                    contender.name
                );
            }
            assert!(row.ops.quick <= row.ops.full, "{}", row.name);
            for goal in &row.goals {
                let is_known = goal.of == BLITZEN || row.contender(goal.of).is_some();
                assert!(is_known, "{}: {} does not take part", row.name, goal.of);
            }
            for goal in &row.instruction_goals {
                assert!(row.counted_ops.is_some(), "{}", row.name);
                for name in [goal.of, goal.over] {
                    assert!(row.contender(name).is_some(), "{}: {name}", row.name);
                }
            }
            let completes = row.contender(COMPLETION).is_some();
            let is_judged = row.goals.iter().any(|goal| goal.of == COMPLETION);
            assert_eq!(completes, is_judged, "{}: {COMPLETION}'s target", row.name);
        }
    }
}
