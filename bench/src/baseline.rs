//! Compares a count of instructions with one that was saved.
//!
//! What is guarded is Tokio's count over blitzen's, both of the same run: a newer
//! compiler moves both, and only blitzen's own change moves the ratio.

use std::fs;
use std::path::Path;

use crate::instructions::Tally;

/// A ratio may lose this part of itself before it counts as a regression.
const TOLERANCE: f64 = 0.2;

/// One guarded ratio, then and now.
pub(crate) struct Change {
    row: String,
    before: f64,
    now: f64,
}

impl Change {
    pub(crate) fn is_regression(&self) -> bool {
        self.now < self.before * (1.0 - TOLERANCE)
    }

    /// A line of the table.
    pub(crate) fn line(&self) -> Vec<String> {
        let word = if self.is_regression() {
            "REGRESSION"
        } else {
            ""
        };
        vec![
            self.row.clone(),
            format!("{:.2}", self.before),
            format!("{:.2}", self.now),
            word.to_string(),
        ]
    }
}

pub(crate) fn load(path: &Path) -> Result<Vec<Tally>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Rows that both have, with both contenders.
pub(crate) fn changes(before: &[Tally], now: &[Tally]) -> Vec<Change> {
    now.iter()
        .filter_map(|now| {
            let before = before.iter().find(|before| before.row == now.row)?;
            Some(Change {
                row: now.row.clone(),
                before: before.over_tokio()?,
                now: now.over_tokio()?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instructions::Count;

    fn tally(row: &str, tokio: f64, blitzen: f64) -> Tally {
        let count = |name: &str, instructions_per_op| Count {
            name: name.to_string(),
            instructions_per_op,
        };
        Tally {
            group: "scheduler".into(),
            row: row.into(),
            counts: vec![count("tokio", tokio), count("blitzen", blitzen)],
        }
    }

    #[test]
    fn a_fifth_is_tolerated_and_more_is_not() {
        let before = [tally("row", 200.0, 100.0)];
        let is_regression = |blitzen: f64| {
            let changes = changes(&before, &[tally("row", 200.0, blitzen)]);
            changes[0].is_regression()
        };
        assert!(!is_regression(124.0));
        assert!(is_regression(126.0));
        assert!(!is_regression(50.0));
    }

    #[test]
    fn what_moves_both_sides_is_no_regression() {
        let changes = changes(&[tally("row", 200.0, 100.0)], &[tally("row", 400.0, 200.0)]);
        assert!(!changes[0].is_regression());
    }

    #[test]
    fn a_row_that_is_new_has_nothing_to_lose() {
        assert!(changes(&[tally("old", 2.0, 1.0)], &[tally("new", 2.0, 1.0)]).is_empty());
    }

    #[test]
    fn a_saved_tally_is_read_back() {
        let text = serde_json::to_string(&[tally("row", 200.0, 100.0)]).unwrap();
        let read: Vec<Tally> = serde_json::from_str(&text).unwrap();
        assert_eq!(read[0].over_tokio(), Some(2.0));
    }
}
