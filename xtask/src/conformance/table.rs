//! How many tests each file of the published suite holds, by group.

use std::path::PathBuf;

use crate::sh::{self, Context, Outcome};

/// The folder of the suite's own files.
pub(super) fn folder() -> PathBuf {
    sh::root().join("compat/suite")
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) group: String,
    pub(super) file: String,
    pub(super) tests: usize,
}

#[derive(Debug)]
pub(super) struct Table {
    /// In the order of `tests.txt`, so that the members of a group are neighbours.
    entries: Vec<Entry>,
    /// Whether these are all files, or a selection.
    whole: bool,
}

impl Table {
    /// All files of the published suite.
    pub(super) fn read() -> Outcome<Self> {
        let path = folder().join("tests.txt");
        Self::parse(&std::fs::read_to_string(&path).context(path.display())?)
    }

    /// The files with tests for `--cfg tokio_unstable`.
    pub(super) fn read_unstable() -> Outcome<Self> {
        let path = folder().join("unstable-tests.txt");
        let table = Self::parse(&std::fs::read_to_string(&path).context(path.display())?)?;
        Ok(Self {
            whole: false,
            ..table
        })
    }

    fn parse(text: &str) -> Outcome<Self> {
        let mut group = None;
        let mut entries = Vec::new();
        for line in text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            if let Some(name) = line
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'))
            {
                group = Some(name.to_owned());
                continue;
            }
            let (file, tests) = line
                .split_once(' ')
                .ok_or_else(|| format!("tests.txt: `{line}` has no count"))?;
            entries.push(Entry {
                group: group
                    .clone()
                    .ok_or_else(|| format!("tests.txt: `{line}` stands before any group"))?,
                file: file.to_owned(),
                tests: tests
                    .trim()
                    .parse()
                    .context(format!("tests.txt: `{line}`"))?,
            });
        }
        Ok(Self {
            entries,
            whole: true,
        })
    }

    /// The files named and those of the groups named; everything when nothing is.
    pub(super) fn select(mut self, groups: &[String], files: &[String]) -> Outcome<Self> {
        if groups.is_empty() && files.is_empty() {
            return Ok(self);
        }
        for group in groups {
            if !self.entries.iter().any(|entry| entry.group == *group) {
                return Err(format!("there is no group `{group}` in tests.txt").into());
            }
        }
        for file in files {
            if !self.entries.iter().any(|entry| entry.file == *file) {
                return Err(format!("there is no file `{file}` in tests.txt").into());
            }
        }
        self.entries
            .retain(|entry| groups.contains(&entry.group) || files.contains(&entry.file));
        self.whole = false;
        Ok(self)
    }

    pub(super) fn is_whole(&self) -> bool {
        self.whole
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub(super) fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = self
            .entries
            .iter()
            .map(|entry| entry.group.as_str())
            .collect();
        groups.dedup();
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_counts_are_read() {
        let table = Table::parse("# head\n[a]\none 3\ntwo 0\n\n[b]\nthree 12\n").unwrap();
        assert_eq!(table.groups(), ["a", "b"]);
        assert_eq!(table.files().map(|entry| entry.tests).sum::<usize>(), 15);
        let b = table.select(&["b".into()], &["two".into()]).unwrap();
        assert_eq!(
            b.files()
                .map(|entry| entry.file.as_str())
                .collect::<Vec<_>>(),
            ["two", "three"]
        );
    }

    #[test]
    fn the_committed_table_holds_the_whole_suite() {
        let table = Table::read().unwrap();
        assert_eq!(table.files().count(), 187);
        assert_eq!(table.files().map(|entry| entry.tests).sum::<usize>(), 1_470);
    }
}
