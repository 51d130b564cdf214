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
