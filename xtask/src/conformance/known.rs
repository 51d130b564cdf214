//! The lists of tests that are expected to fail.
//!
//! A line is `file::test reason`, or `file * reason` for a whole file; `#` starts a
//! comment. `known-failures.txt` holds what is not done yet (`unstable-failures.txt` with
//! `--cfg tokio_unstable`), `deviations.txt` what
//! differs on purpose.

use std::path::PathBuf;

use super::run::{FileResult, Results};
use crate::platforms::Gaps;
use crate::sh::{self, Context, Outcome};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Which {
    WholeFile,
    Test(String),
}

#[derive(Clone, Debug)]
struct Line {
    file: String,
    which: Which,
    reason: String,
}

/// A line of the file as it stands: a listing, or a comment that is kept.
#[derive(Clone, Debug)]
enum Row {
    Listed(Line),
    Comment(String),
}

pub(super) struct Known {
    /// The file of the failures.
    path: PathBuf,
    failures: Vec<Row>,
    deviations: Vec<Row>,
}

/// How a test is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing<'a> {
    Unlisted,
    /// It does not pass yet.
    Failure(&'a str),
    /// It fails on purpose.
    Deviation(&'a str),
}

impl Known {
    pub(super) fn nothing() -> Self {
        Self {
            path: failures_path(false),
            failures: Vec::new(),
            deviations: Vec::new(),
        }
    }

    pub(super) fn read(completion: bool, unstable: bool) -> Outcome<Self> {
        let read = |path: PathBuf| -> Outcome<Vec<Row>> {
            parse(&std::fs::read_to_string(&path).context(path.display())?)
        };
        let mut deviations = read(sh::root().join("compat/deviations.txt"))?;
        if completion {
            deviations.extend(read(sh::root().join("compat/completion-deviations.txt"))?);
        }
        let path = failures_path(unstable);
        Ok(Self {
            failures: read(path.clone())?,
            path,
            deviations,
        })
    }

    /// What is listed as failing on another platform, and what differs on purpose on all.
    pub(super) fn read_for_platform(gaps: &Gaps) -> Outcome<Self> {
        let everywhere = Self::read(false, false)?;
        let listed = gaps.published().into_iter().map(|(file, test, reason)| {
            Row::Listed(Line {
                file: file.to_owned(),
                which: Which::Test(test.to_owned()),
                reason: reason.to_owned(),
            })
        });
        Ok(Self {
            path: sh::root().join("xtask/platform-gaps.txt"),
            failures: everywhere.failures.into_iter().chain(listed).collect(),
            deviations: everywhere.deviations,
        })
    }

    /// The file of the failures, from the root.
    pub(super) fn list(&self) -> String {
        let path = self.path.strip_prefix(sh::root()).unwrap_or(&self.path);
        path.display().to_string()
    }

    /// How `test` of `file` is listed.
    pub(super) fn of_test(&self, file: &str, test: &str) -> Listing<'_> {
        let covers = |line: &&Line| match &line.which {
            Which::WholeFile => line.file == file,
            Which::Test(name) => line.file == file && name == test,
        };
        match (
            lines(&self.deviations).find(covers),
            lines(&self.failures).find(covers),
        ) {
            (Some(line), _) => Listing::Deviation(&line.reason),
            (None, Some(line)) => Listing::Failure(&line.reason),
            (None, None) => Listing::Unlisted,
        }
    }

    /// How `file` as a whole is listed, which is what counts when it does not compile.
    pub(super) fn of_file(&self, file: &str) -> Listing<'_> {
        let covers = |line: &&Line| line.which == Which::WholeFile && line.file == file;
        match (
            lines(&self.deviations).find(covers),
            lines(&self.failures).find(covers),
        ) {
            (Some(line), _) => Listing::Deviation(&line.reason),
            (None, Some(line)) => Listing::Failure(&line.reason),
            (None, None) => Listing::Unlisted,
        }
    }

    /// The tests of `file` that are listed by name as failures.
    pub(super) fn failures_named<'a>(&'a self, file: &'a str) -> impl Iterator<Item = &'a str> {
        lines(&self.failures)
            .filter(move |line| line.file == file)
            .filter_map(|line| match &line.which {
                Which::Test(name) => Some(name.as_str()),
                Which::WholeFile => None,
            })
    }

    /// The same list without what passed. A whole file that compiles by now is replaced
    /// by those of its tests that fail.
    pub(super) fn without_passed(&self, results: &Results) -> Self {
        let mut failures = Vec::new();
        for row in &self.failures {
            let Row::Listed(line) = row else {
                failures.push(row.clone());
                continue;
            };
            let Some(FileResult::Ran(verdicts)) = results.get(&line.file) else {
                failures.push(row.clone());
                continue;
            };
            match &line.which {
                Which::Test(name) => {
                    if verdicts
                        .get(name)
                        .is_some_and(|verdict| verdict.is_failure())
                    {
                        failures.push(row.clone());
                    }
                }
                Which::WholeFile => {
                    let failed = verdicts.iter().filter(|(test, verdict)| {
                        let deviates =
                            matches!(self.of_test(&line.file, test), Listing::Deviation(_));
                        verdict.is_failure() && !deviates
                    });
                    failures.extend(failed.map(|(test, _)| {
                        Row::Listed(Line {
                            which: Which::Test(test.clone()),
                            ..line.clone()
                        })
                    }));
                }
            }
        }
        Self {
            path: self.path.clone(),
            failures,
            deviations: self.deviations.clone(),
        }
    }

    pub(super) fn write(&self) -> Outcome {
        let mut text = String::new();
        for row in &self.failures {
            text += &match row {
                Row::Comment(comment) => format!("{comment}\n"),
                Row::Listed(Line {
                    file,
                    which: Which::WholeFile,
                    reason,
                }) => format!("{file} * {reason}\n"),
                Row::Listed(Line {
                    file,
                    which: Which::Test(test),
                    reason,
                }) => format!("{file}::{test} {reason}\n"),
            };
        }
        std::fs::write(&self.path, text).context(self.path.display())
    }
}

fn failures_path(unstable: bool) -> PathBuf {
    let name = match unstable {
        false => "known-failures.txt",
        true => "unstable-failures.txt",
    };
    sh::root().join("compat").join(name)
}

fn lines(rows: &[Row]) -> impl Iterator<Item = &Line> {
    rows.iter().filter_map(|row| match row {
        Row::Listed(line) => Some(line),
        Row::Comment(_) => None,
    })
}

fn parse(text: &str) -> Outcome<Vec<Row>> {
    text.lines()
        .map(|line| {
            if line.trim().is_empty() || line.starts_with('#') {
                return Ok(Row::Comment(line.to_owned()));
            }
            let (name, reason) = line.split_once(' ').unwrap_or((line, ""));
            let (file, which, reason) =
                match (name.split_once("::"), reason.trim().strip_prefix("* ")) {
                    (Some((file, test)), None) => (file, Which::Test(test.to_owned()), reason),
                    (None, Some(reason)) => (name, Which::WholeFile, reason),
                    _ => {
                        return Err(format!(
                            "`{line}` is neither `file::test reason` nor `file * reason`"
                        )
                        .into());
                    }
                };
            match reason.trim() {
                "" => Err(format!("`{line}` gives no reason").into()),
                reason => Ok(Row::Listed(Line {
                    file: file.to_owned(),
                    which,
                    reason: reason.to_owned(),
                })),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Verdict;

    fn known() -> Known {
        Known {
            path: failures_path(false),
            failures: parse("# head\nudp * no sockets yet\nrt::a::b slow\nrt::c slow\n").unwrap(),
            deviations: parse("udp::odd means to differ\n").unwrap(),
        }
    }

    fn ran<const N: usize>(verdicts: [(&str, Verdict); N]) -> FileResult {
        FileResult::Ran(
            verdicts
                .into_iter()
                .map(|(test, verdict)| (test.to_owned(), verdict))
                .collect(),
        )
    }

    #[test]
    fn a_test_is_listed_by_name_or_by_its_file() {
        let known = known();
        assert_eq!(known.of_test("rt", "a::b"), Listing::Failure("slow"));
        assert_eq!(known.of_test("rt", "b"), Listing::Unlisted);
        assert_eq!(
            known.of_test("udp", "any"),
            Listing::Failure("no sockets yet")
        );
        assert_eq!(
            known.of_test("udp", "odd"),
            Listing::Deviation("means to differ")
        );
        assert_eq!(known.of_file("rt"), Listing::Unlisted);
    }

    #[test]
    fn an_update_only_takes_away() {
        let results = Results::from([
            (
                "rt".to_owned(),
                ran([
                    ("a::b", Verdict::Passed),
                    ("c", Verdict::Hung),
                    ("d", Verdict::Failed),
                ]),
            ),
            (
                "udp".to_owned(),
                ran([
                    ("odd", Verdict::Failed),
                    ("x", Verdict::Failed),
                    ("y", Verdict::Passed),
                ]),
            ),
        ]);
        let updated = known().without_passed(&results);
        assert_eq!(updated.of_test("rt", "a::b"), Listing::Unlisted);
        assert_eq!(updated.of_test("rt", "c"), Listing::Failure("slow"));
        assert_eq!(
            updated.of_test("rt", "d"),
            Listing::Unlisted,
            "a new failure is never added"
        );
        assert_eq!(
            updated.of_test("udp", "x"),
            Listing::Failure("no sockets yet")
        );
        assert_eq!(updated.of_test("udp", "y"), Listing::Unlisted);
        assert_eq!(
            updated.failures_named("udp").collect::<Vec<_>>(),
            ["x"],
            "a deviation is not a failure"
        );
    }

    #[test]
    fn a_line_without_a_reason_is_refused() {
        assert!(parse("rt::a").is_err());
        assert!(parse("rt *").is_err());
        assert!(parse("rt slow").is_err());
    }
}
