//! The table of results in `docs/platforms.md`, between two markers.
//!
//! A run of some platforms replaces their rows and leaves the others.

use std::collections::BTreeMap;

use super::platform::{PLATFORMS, Platform};
use crate::sh::{self, Context, Outcome, Tally};

const BEGIN: &str = "<!-- cargo xtask platforms writes this table -->\n";
const END: &str = "<!-- end of the table -->\n";
const HEAD: &str = "\
| platform | run by | tests and examples | fail as listed | published Tokio tests | the same on the real tokio |
|---|---|---|---|---|---|
";
const NOT_RUN: &str = "not run";

/// The results on one platform.
pub(super) struct Row {
    pub(super) own: Tally,
    /// How many of our own tests failed as listed.
    pub(super) gaps: usize,
    /// `None` if they were not run this time.
    pub(super) published: Option<Published>,
}

/// The results of the published tests.
#[derive(Clone, Copy)]
pub(super) struct Published {
    pub(super) facade: Tally,
    /// `None` if they could not be run.
    pub(super) real: Option<Tally>,
}

pub(super) fn write(rows: &BTreeMap<&str, Row>) -> Outcome {
    let path = sh::root().join("docs/platforms.md");
    let text = std::fs::read_to_string(&path).context(path.display())?;
    let text = replaced(&text, rows).ok_or("docs/platforms.md lacks the markers of the table")?;
    sh::write_if_changed(&path, &text)
}

/// The text with the new rows, or `None` if it has no markers.
fn replaced(text: &str, rows: &BTreeMap<&str, Row>) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (table, after) = rest.split_once(END)?;
    let mut lines = String::new();
    for platform in &PLATFORMS {
        let old = table
            .lines()
            .find(|line| line.starts_with(&first_cell(platform)));
        match (rows.get(platform.name), old) {
            (Some(row), old) => lines += &format!("{}\n", row.line(platform, old)),
            (None, Some(old)) => lines += &format!("{old}\n"),
            (None, None) => {}
        }
    }
    Some(format!("{before}{BEGIN}{HEAD}{lines}{END}{after}"))
}

fn first_cell(platform: &Platform) -> String {
    format!("| `{}`: {} |", platform.name, platform.about)
}

impl Row {
    /// Published tests that were not run now keep the cells that they had.
    fn line(&self, platform: &Platform, old: Option<&str>) -> String {
        let published = match self.published {
            Some(Published { facade, real }) => {
                let real = real.map_or(NOT_RUN.to_owned(), counts);
                format!("{} | {real}", counts(facade))
            }
            None => match old.and_then(published_cells) {
                Some(cells) => cells.to_owned(),
                None => format!("{NOT_RUN} | {NOT_RUN}"),
            },
        };
        format!(
            "{} {} | {} | {} | {published} |",
            first_cell(platform),
            platform.runner_name(),
            counts(self.own),
            self.gaps
        )
    }
}

/// The last two cells of a line.
fn published_cells(line: &str) -> Option<&str> {
    let cells = line.strip_suffix(" |")?;
    let (at, _) = cells.rmatch_indices(" | ").nth(1)?;
    Some(&cells[at + 3..])
}

fn counts(tally: Tally) -> String {
    match tally.failed {
        0 => format!("{} passed", tally.passed),
        failed => format!("{} passed, {failed} failed", tally.passed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(passed: usize, published: Option<Published>) -> Row {
        Row {
            own: Tally { passed, failed: 0 },
            gaps: 2,
            published,
        }
    }

    #[test]
    fn a_run_replaces_its_rows_and_leaves_the_others() {
        let empty = format!("head\n{BEGIN}{END}foot\n");
        let both = BTreeMap::from([
            (
                "musl",
                row(
                    10,
                    Some(Published {
                        facade: Tally {
                            passed: 7,
                            failed: 0,
                        },
                        real: Some(Tally {
                            passed: 6,
                            failed: 1,
                        }),
                    }),
                ),
            ),
            ("poll", row(11, None)),
            (
                "i686",
                row(
                    13,
                    Some(Published {
                        facade: Tally {
                            passed: 8,
                            failed: 0,
                        },
                        real: None,
                    }),
                ),
            ),
        ]);
        let first = replaced(&empty, &both).unwrap();
        assert!(first.contains("this machine | 10 passed | 2 | 7 passed | 6 passed, 1 failed |\n"));
        assert!(first.contains("this machine | 11 passed | 2 | not run | not run |\n"));
        assert!(first.contains("this machine | 13 passed | 2 | 8 passed | not run |\n"));
        let second = replaced(&first, &BTreeMap::from([("musl", row(12, None))])).unwrap();
        assert!(
            second.contains("this machine | 12 passed | 2 | 7 passed | 6 passed, 1 failed |\n")
        );
        assert!(second.contains("this machine | 11 passed | 2 | not run | not run |\n"));
        assert!(second.starts_with("head\n") && second.ends_with("foot\n"));
    }

    #[test]
    fn the_page_has_the_markers() {
        let text = std::fs::read_to_string(sh::root().join("docs/platforms.md")).unwrap();
        assert!(replaced(&text, &BTreeMap::new()).is_some());
    }
}
