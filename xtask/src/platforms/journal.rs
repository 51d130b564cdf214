//! Which tests have not failed in the last run on a platform, so that `--resume` need not run them
//! again.
//!
//! There is one file for each executable, written when its tests have run. Its first line is the
//! time at which the executable was built; the others are `passed` or `not-run` and the name of a
//! test.
//!
//! J1. What is noted holds for the executable in which it ran. One that was built again runs
//!     whole.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::platform::Platform;
use crate::harness::{Verdict, Verdicts};
use crate::sh::{self, Context, Outcome};

const PASSED: &str = "passed";
const NOT_RUN: &str = "not-run";

pub(crate) struct Journal(PathBuf);

impl Journal {
    /// An empty journal, or with `resume` that of the last run.
    pub(super) fn open(platform: &Platform, resume: bool) -> Outcome<Self> {
        Self::in_folder(
            sh::target().join("platforms/passed").join(platform.name),
            resume,
        )
    }

    fn in_folder(folder: PathBuf, resume: bool) -> Outcome<Self> {
        if !resume && folder.exists() {
            fs::remove_dir_all(&folder).context(folder.display())?;
        }
        fs::create_dir_all(&folder).context(folder.display())?;
        Ok(Self(folder))
    }

    /// What has not failed in `executable`, or `None` if its tests have not run since it was built.
    pub(crate) fn earlier(&self, executable: &Path) -> Outcome<Option<Verdicts>> {
        let Ok(text) = fs::read_to_string(self.file(executable)) else {
            return Ok(None);
        };
        let mut lines = text.lines();
        if lines.next() != Some(&built_at(executable)?) {
            return Ok(None);
        }
        let noted = lines.filter_map(|line| match line.split_once(' ')? {
            (PASSED, test) => Some((test.to_owned(), Verdict::Passed)),
            (NOT_RUN, test) => Some((test.to_owned(), Verdict::NotRun)),
            _ => None,
        });
        Ok(Some(noted.collect()))
    }

    /// Notes what has not failed in `executable`, whose tests have all run.
    pub(crate) fn write(&self, executable: &Path, verdicts: &Verdicts) -> Outcome {
        let mut text = built_at(executable)? + "\n";
        for (test, verdict) in verdicts {
            text += &match verdict {
                Verdict::Passed => format!("{PASSED} {test}\n"),
                Verdict::NotRun => format!("{NOT_RUN} {test}\n"),
                _ => continue,
            };
        }
        let file = self.file(executable);
        fs::write(&file, text).context(file.display())
    }

    /// The names of the executables of a platform differ.
    fn file(&self, executable: &Path) -> PathBuf {
        let name = executable.file_name().expect("an executable has a name");
        self.0.join(name)
    }
}

fn built_at(executable: &Path) -> Outcome<String> {
    let modified = fs::metadata(executable)
        .and_then(|metadata| metadata.modified())
        .context(executable.display())?;
    let since = modified.duration_since(UNIX_EPOCH);
    Ok(since.context(executable.display())?.as_nanos().to_string())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn what_has_not_failed_is_known_until_the_executable_is_built_again() {
        let folder = std::env::temp_dir().join(format!("xtask-journal-{}", std::process::id()));
        let journal = Journal::in_folder(folder.join("passed"), false).unwrap();
        let executable = folder.join("tests-1234");
        fs::write(&executable, "").unwrap();
        assert_eq!(journal.earlier(&executable).unwrap(), None);

        let verdicts = Verdicts::from([
            ("a::b".to_owned(), Verdict::Passed),
            ("c".to_owned(), Verdict::Failed),
            ("d".to_owned(), Verdict::NotRun),
        ]);
        journal.write(&executable, &verdicts).unwrap();
        let earlier = Verdicts::from([
            ("a::b".to_owned(), Verdict::Passed),
            ("d".to_owned(), Verdict::NotRun),
        ]);
        let resumed = Journal::in_folder(folder.join("passed"), true).unwrap();
        assert_eq!(resumed.earlier(&executable).unwrap(), Some(earlier));

        let built = fs::File::options().write(true).open(&executable).unwrap();
        built
            .set_modified(SystemTime::now() + Duration::from_secs(9))
            .unwrap();
        assert_eq!(resumed.earlier(&executable).unwrap(), None);

        resumed.write(&executable, &verdicts).unwrap();
        let fresh = Journal::in_folder(folder.join("passed"), false).unwrap();
        assert_eq!(fresh.earlier(&executable).unwrap(), None);
        let _ = fs::remove_dir_all(folder);
    }
}
