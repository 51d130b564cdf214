//! Everything one run of the program found out, as it is saved and read back.

use std::fs;
use std::path::Path;

use crate::compare::Outcome;
use crate::instructions::{Count, Tally};
use crate::machine::Machine;
use crate::scaling::Curve;
use crate::syscalls::Calls;

/// What `compare` writes as JSON, and what every report is made from.
#[derive(Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Run {
    pub(crate) machine: Machine,
    pub(crate) rows: Vec<Outcome>,
    /// Empty unless they were asked for, as the next one.
    pub(crate) instructions: Vec<Tally>,
    pub(crate) syscalls: Vec<Calls>,
    pub(crate) scaling: Vec<Curve>,
}

impl Run {
    pub(crate) fn load(path: &Path) -> Result<Run, String> {
        let place = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read_to_string(path).map_err(|error| place(&error))?;
        serde_json::from_str(&text).map_err(|error| place(&error))
    }

    /// Takes over what a later run on the same machine has found out.
    pub(crate) fn update(&mut self, later: Run) -> Result<(), String> {
        let date = std::mem::replace(&mut self.machine.date, later.machine.date.clone());
        if self.machine != later.machine {
            self.machine.date = date;
            return Err("the runs were made on different machines, or with other versions".into());
        }
        replace_all(&mut self.rows, later.rows, |row| {
            (row.group.clone(), row.row.clone())
        });
        let groups: Vec<_> = self.groups().into_iter().map(str::to_owned).collect();
        self.rows
            .sort_by_key(|row| groups.iter().position(|group| *group == row.group));
        replace_all(&mut self.instructions, later.instructions, |tally| {
            tally.row.clone()
        });
        replace_all(&mut self.syscalls, later.syscalls, |calls| {
            (calls.row.clone(), calls.contender.clone())
        });
        if !later.scaling.is_empty() {
            self.scaling = later.scaling;
        }
        Ok(())
    }

    /// Instructions per operation of a contender in a row.
    pub(crate) fn instructions_of(&self, row: &str, contender: &str) -> Option<f64> {
        let tally = self.instructions.iter().find(|tally| tally.row == row)?;
        let is_own = |count: &&Count| count.name == contender;
        let count = tally.counts.iter().find(is_own)?;
        Some(count.instructions_per_op)
    }

    /// System calls of a contender in a row.
    pub(crate) fn syscalls_of(&self, row: &str, contender: &str) -> Option<&Calls> {
        let is_own = |calls: &&Calls| calls.row == row && calls.contender == contender;
        self.syscalls.iter().find(is_own)
    }

    /// The groups, in the order of their rows.
    pub(crate) fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !groups.contains(&row.group.as_str()) {
                groups.push(&row.group);
            }
        }
        groups
    }
}

/// Replaces items by those of `later` with the same key; adds those that are new.
fn replace_all<T, K: PartialEq>(items: &mut Vec<T>, later: Vec<T>, key: impl Fn(&T) -> K) {
    for item in later {
        match items.iter_mut().find(|one| key(one) == key(&item)) {
            Some(one) => *one = item,
            None => items.push(item),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(processor: &str, counts: &[(&str, f64)]) -> Run {
        let mut run = Run::default();
        run.machine.processor = processor.into();
        let tally = |&(row, instructions_per_op): &(&str, f64)| Tally {
            group: "sync".into(),
            row: row.into(),
            counts: vec![Count {
                name: "blitzen".into(),
                instructions_per_op,
            }],
            verdicts: Vec::new(),
        };
        run.instructions = counts.iter().map(tally).collect();
        run
    }

    #[test]
    fn rows_of_a_later_run_replace_earlier_ones_or_are_added() {
        let mut first = run("one", &[("lock", 1.0), ("send", 2.0)]);
        first
            .update(run("one", &[("send", 3.0), ("recv", 4.0)]))
            .unwrap();
        let counts = ["lock", "send", "recv"].map(|row| first.instructions_of(row, "blitzen"));
        assert_eq!(counts, [Some(1.0), Some(3.0), Some(4.0)]);
        assert_eq!(first.instructions.len(), 3);
    }

    #[test]
    fn runs_of_different_machines_are_not_mixed() {
        let mut first = run("one", &[("lock", 1.0)]);
        assert!(first.update(run("another", &[("lock", 2.0)])).is_err());
        assert_eq!(first.instructions_of("lock", "blitzen"), Some(1.0));
    }
}
