//! The table of results in `docs/platforms.md`, between two markers, and below it the tests that
//! fail on the real tokio.
//!
//! A run replaces the row of its platform and leaves the others. Published tests that it has not
//! run keep their cells, so each half of a row has its date.

use super::platform::{PLATFORMS, Platform};
use crate::conformance::SuiteCounts;
use crate::sh::{self, Context, Outcome};

const BEGIN: &str = "<!-- cargo xtask platforms writes this table -->\n";
const END: &str = "<!-- end of the table -->\n";
const HEAD: &str = "\
| platform | run by | tests and examples | on | published Tokio tests | the same on the real tokio | on |
|---|---|---|---|---|---|---|
";
const FAILURES_HEAD: &str = "\nPublished tests that failed on the real tokio:\n\n";
const NOT_RUN: &str = "not run";

/// The results on one platform.
pub(super) struct Row {
    /// The day of the run.
    pub(super) date: String,
    pub(super) own: OwnCounts,
    /// `None` if they were not run this time.
    pub(super) published: Option<Published>,
}

/// How many of our own tests and examples did what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnCounts {
    pub(super) passed: usize,
    /// Ignored, or the system lacks what they test.
    pub(super) not_run: usize,
    /// Failed as listed.
    pub(super) listed: usize,
    /// Failed, and are not listed.
    pub(super) failed: usize,
}

/// The results of the published tests; `None` if they could not be run.
#[derive(Clone)]
pub(super) struct Published {
    pub(super) facade: Option<SuiteCounts>,
    pub(super) real: Option<SuiteCounts>,
}

/// Writes the row of `platform`.
pub(super) fn write(platform: &Platform, row: &Row) -> Outcome {
    let path = sh::root().join("docs/platforms.md");
    let text = std::fs::read_to_string(&path).context(path.display())?;
    let text = replaced(&text, Some((platform, row)))
        .ok_or("docs/platforms.md lacks the markers of the table")?;
    sh::write_if_changed(&path, &text)
}

/// The text with the new row, or `None` if it has no markers.
fn replaced(text: &str, new: Option<(&Platform, &Row)>) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (table, after) = rest.split_once(END)?;
    let (mut rows, mut failures) = (String::new(), String::new());
    for platform in &PLATFORMS {
        let old = |begin: &str| table.lines().find(|line| line.starts_with(begin));
        let old_row = old(&first_cell(platform));
        let old_failures = old(&failures_begin(platform)).map(str::to_owned);
        let (row, failed) = match new {
            Some((changed, row)) if changed.name == platform.name => {
                let failed = match &row.published {
                    Some(published) => published.failures_line(platform),
                    None => old_failures,
                };
                (Some(row.line(platform, old_row)), failed)
            }
            _ => (old_row.map(str::to_owned), old_failures),
        };
        rows.extend(row.map(|line| line + "\n"));
        failures.extend(failed.map(|line| line + "\n"));
    }
    if !failures.is_empty() {
        failures.insert_str(0, FAILURES_HEAD);
    }
    Some(format!("{before}{BEGIN}{HEAD}{rows}{failures}{END}{after}"))
}

fn first_cell(platform: &Platform) -> String {
    format!("| `{}`: {} |", platform.name, platform.about)
}

fn failures_begin(platform: &Platform) -> String {
    format!("* `{}`: ", platform.name)
}

impl Row {
    /// Published tests that were not run now keep the cells that they had.
    fn line(&self, platform: &Platform, old: Option<&str>) -> String {
        let published = match &self.published {
            Some(Published { facade, real }) => {
                let cell = |counts: &Option<SuiteCounts>| match counts {
                    Some(counts) => suite_cell(counts),
                    None => NOT_RUN.to_owned(),
                };
                format!("{} | {} | {}", cell(facade), cell(real), self.date)
            }
            None => match old.and_then(published_cells) {
                Some(cells) => cells.to_owned(),
                None => format!("{NOT_RUN} | {NOT_RUN} | "),
            },
        };
        let OwnCounts {
            passed,
            not_run,
            listed,
            failed,
        } = self.own;
        format!(
            "{} {} | {} | {} | {published} |",
            first_cell(platform),
            platform.runner_name(),
            phrase(&[
                (passed, "passed"),
                (not_run, NOT_RUN),
                (listed, "as listed"),
                (failed, "failed"),
            ]),
            self.date
        )
    }
}

impl Published {
    /// The names of what failed on the real tokio, if anything did.
    fn failures_line(&self, platform: &Platform) -> Option<String> {
        let failed = &self.real.as_ref()?.failed;
        let names: Vec<String> = failed.iter().map(|name| format!("`{name}`")).collect();
        let line = format!("{}{}", failures_begin(platform), names.join(", "));
        (!failed.is_empty()).then_some(line)
    }
}

/// The last three cells of a line.
fn published_cells(line: &str) -> Option<&str> {
    let cells = line.strip_suffix(" |")?;
    let (at, _) = cells.rmatch_indices(" | ").nth(2)?;
    Some(&cells[at + 3..])
}

fn suite_cell(counts: &SuiteCounts) -> String {
    phrase(&[
        (counts.passed, "passed"),
        (counts.not_run, NOT_RUN),
        (counts.deviating, "deviate"),
        (counts.listed, "as listed"),
        (counts.failed_tests, "failed"),
    ])
}

/// `12 passed, 3 not run`: the first count, and those of the others that are not zero.
fn phrase(counts: &[(usize, &str)]) -> String {
    let parts = counts
        .iter()
        .enumerate()
        .filter(|(index, (count, _))| *index == 0 || *count > 0);
    let parts: Vec<String> = parts
        .map(|(_, (count, what))| format!("{count} {what}"))
        .collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(passed: usize, published: Option<Published>) -> Row {
        Row {
            date: format!("2026-01-{passed}"),
            own: OwnCounts {
                passed,
                not_run: 3,
                listed: 2,
                failed: 0,
            },
            published,
        }
    }

    fn counts(passed: usize, failed: &[&str]) -> SuiteCounts {
        SuiteCounts {
            passed,
            failed_tests: failed.len(),
            failed: failed.iter().map(|name| (*name).to_owned()).collect(),
            ..SuiteCounts::default()
        }
    }

    #[test]
    fn a_run_replaces_its_row_and_leaves_the_others() {
        let [musl, poll] = ["musl", "poll"].map(|name| Platform::find(name).unwrap());
        let published = Published {
            facade: Some(SuiteCounts {
                deviating: 4,
                listed: 1,
                ..counts(7, &[])
            }),
            real: Some(counts(6, &["udp::a", "udp::b"])),
        };
        let text = format!("head\n{BEGIN}{END}foot\n");
        let text = replaced(&text, Some((musl, &row(10, Some(published))))).unwrap();
        let text = replaced(&text, Some((poll, &row(11, None)))).unwrap();
        let cells = "7 passed, 4 deviate, 1 as listed | 6 passed, 2 failed | 2026-01-10 |\n";
        let own = "10 passed, 3 not run, 2 as listed | 2026-01-10 | ";
        assert!(
            text.contains(&format!("this machine | {own}{cells}")),
            "{text}"
        );
        let own = "11 passed, 3 not run, 2 as listed | 2026-01-11 | ";
        assert!(
            text.contains(&format!("| {own}not run | not run |  |\n")),
            "{text}"
        );
        let failures = format!("{FAILURES_HEAD}* `musl`: `udp::a`, `udp::b`\n{END}");
        assert!(text.contains(&failures), "{text}");

        let text = replaced(&text, Some((musl, &row(12, None)))).unwrap();
        let own = "12 passed, 3 not run, 2 as listed | 2026-01-12 | ";
        assert!(
            text.contains(&format!("this machine | {own}{cells}")),
            "{text}"
        );
        assert!(text.contains("this machine | 11 passed"));
        assert!(text.contains(&failures));
        assert!(text.starts_with("head\n") && text.ends_with("foot\n"));

        let none_failed = Published {
            facade: None,
            real: Some(counts(8, &[])),
        };
        let text = replaced(&text, Some((musl, &row(13, Some(none_failed))))).unwrap();
        assert!(
            text.contains("| not run | 8 passed | 2026-01-13 |\n"),
            "{text}"
        );
        assert!(!text.contains(FAILURES_HEAD));
    }

    #[test]
    fn the_page_has_the_markers_and_a_table_of_this_form() {
        let text = std::fs::read_to_string(sh::root().join("docs/platforms.md")).unwrap();
        assert_eq!(replaced(&text, None).as_ref(), Some(&text));
    }
}
