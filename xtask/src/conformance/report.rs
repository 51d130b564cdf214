//! Compares the results with the lists of expected failures.

use std::fmt::Write as _;

use super::known::{Known, Listing};
use super::run::{FileResult, Results};
use super::table::{Entry, Table};
use crate::sh::Tally;

/// Counts of one group.
#[derive(Default)]
struct Line {
    files: usize,
    built: usize,
    tests: usize,
    passed: usize,
    /// Ignored, for example.
    not_run: usize,
    /// Failed, as listed in `known-failures.txt`.
    known: usize,
    /// Failed, as listed in `deviations.txt`.
    deviating: usize,
}

/// How many of the published tests did what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SuiteCounts {
    pub(crate) passed: usize,
    /// Ignored, for example.
    pub(crate) not_run: usize,
    /// Failed, as `deviations.txt` says.
    pub(crate) deviating: usize,
    /// Failed, as another list says.
    pub(crate) listed: usize,
    /// Failed, and no list says so.
    pub(crate) failed_tests: usize,
    /// The names of those, or of their file if it does not compile.
    pub(crate) failed: Vec<String>,
}

pub(super) struct Report {
    groups: Vec<(String, Line)>,
    /// Failures that no list has: the name, and what it did.
    unexpected: Vec<(String, String)>,
    unexpected_tests: usize,
    /// Listed as failing, but passing.
    stale: Vec<String>,
    /// Every failure, with its reason if it is listed.
    failures: Vec<String>,
}

impl Report {
    pub(super) fn new(table: &Table, results: &Results, known: &Known) -> Self {
        let mut report = Self {
            groups: Vec::new(),
            unexpected: Vec::new(),
            unexpected_tests: 0,
            stale: Vec::new(),
            failures: Vec::new(),
        };
        for group in table.groups() {
            let mut line = Line::default();
            for entry in table.files().filter(|entry| entry.group == group) {
                line.files += 1;
                line.tests += entry.tests;
                report.judge_file(&mut line, entry, &results[&entry.file], known);
            }
            report.groups.push((group.to_owned(), line));
        }
        report
    }

    fn judge_file(&mut self, line: &mut Line, entry: &Entry, result: &FileResult, known: &Known) {
        let file = &entry.file;
        let verdicts = match result {
            FileResult::NotBuilt(why) => {
                match known.of_file(file) {
                    Listing::Failure(reason) => {
                        line.known += entry.tests;
                        self.failures.push(format!(
                            "{file} (all {}) does not compile, {reason}: {why}",
                            entry.tests
                        ));
                    }
                    Listing::Deviation(_) => line.deviating += entry.tests,
                    Listing::Unlisted => {
                        self.unexpected_tests += entry.tests.max(1);
                        let what = format!("({} tests) does not compile: {why}", entry.tests);
                        self.unexpected.push((file.clone(), what));
                    }
                }
                return;
            }
            FileResult::Ran(verdicts) => verdicts,
        };
        line.built += 1;
        if verdicts.is_empty() && known.of_file(file) != Listing::Unlisted {
            self.stale
                .push(format!("{file}, which compiles and holds no test"));
        }
        for name in known
            .failures_named(file)
            .filter(|name| !verdicts.contains_key(*name))
        {
            self.stale
                .push(format!("{file}::{name}, which does not exist"));
        }
        for (test, verdict) in verdicts {
            let listing = known.of_test(file, test);
            if !verdict.is_failure() {
                match verdict.is_passed() {
                    true => line.passed += 1,
                    false => line.not_run += 1,
                }
                if let Listing::Failure(_) = listing {
                    self.stale.push(format!("{file}::{test}"));
                }
                continue;
            }
            let word = format!("{verdict:?}").to_lowercase();
            match listing {
                Listing::Failure(reason) => {
                    line.known += 1;
                    self.failures
                        .push(format!("{file}::{test} {word}: {reason}"));
                }
                Listing::Deviation(reason) => {
                    line.deviating += 1;
                    self.failures
                        .push(format!("{file}::{test} {word}, on purpose: {reason}"));
                }
                Listing::Unlisted => {
                    self.unexpected_tests += 1;
                    self.unexpected.push((format!("{file}::{test}"), word));
                }
            }
        }
    }

    pub(super) fn print(&self, verbose: bool) {
        if verbose {
            for failure in &self.failures {
                println!("  {failure}");
            }
        }
        println!(
            "\n{:<18} {:>6} {:>6} {:>6} {:>7} {:>7} {:>6} {:>9} {:>6}",
            "group", "files", "built", "tests", "passed", "not run", "known", "deviating", ""
        );
        for (name, line) in &self.groups {
            print_line(name, line);
        }
        if self.groups.len() > 1 {
            print_line("all", &self.all());
        }
    }

    fn all(&self) -> Line {
        let mut all = Line::default();
        for (_, line) in &self.groups {
            all.files += line.files;
            all.built += line.built;
            all.tests += line.tests;
            all.passed += line.passed;
            all.not_run += line.not_run;
            all.known += line.known;
            all.deviating += line.deviating;
        }
        all
    }

    /// Returns the unexpected failures and stale lines of `list`, or `None` if there are none.
    pub(super) fn complaint(&self, list: &str) -> Option<String> {
        let mut why = String::new();
        if !self.unexpected.is_empty() {
            let _ = writeln!(why, "\nfailed, and not in {list}:");
            let unexpected = self.unexpected.iter();
            let lines: Vec<String> = unexpected
                .map(|(name, what)| format!("{name} {what}"))
                .collect();
            why += &listed(&lines);
        }
        if !self.stale.is_empty() {
            let _ = writeln!(
                why,
                "\nlisted in {list}, but passing (--update removes them from known-failures.txt):"
            );
            why += &listed(&self.stale);
        }
        (!why.is_empty()).then_some(why)
    }

    pub(super) fn tally(&self) -> Tally {
        Tally {
            passed: self.all().passed,
            failed: self.unexpected_tests,
        }
    }

    pub(super) fn counts(&self) -> SuiteCounts {
        let all = self.all();
        let failed = self.unexpected.iter().map(|(name, _)| name.clone());
        SuiteCounts {
            passed: all.passed,
            not_run: all.not_run,
            deviating: all.deviating,
            listed: all.known,
            failed_tests: self.unexpected_tests,
            failed: failed.collect(),
        }
    }
}

/// One name per line; only the first of a long list.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 40;
    let mut text: String = names
        .iter()
        .take(SHOWN)
        .map(|name| format!("  {name}\n"))
        .collect();
    if names.len() > SHOWN {
        let _ = writeln!(text, "  and {} more", names.len() - SHOWN);
    }
    text
}

fn print_line(name: &str, line: &Line) {
    let share = 100.0 * line.passed as f64 / line.tests.max(1) as f64;
    println!(
        "{name:<18} {:>6} {:>6} {:>6} {:>7} {:>7} {:>6} {:>9} {share:>5.1}%",
        line.files, line.built, line.tests, line.passed, line.not_run, line.known, line.deviating
    );
}
