//! Runs the built tests, as `harness.rs` does.
//!
//! If xtask runs as root, the tests run as the user nobody: one of them needs a file that it
//! may not read. So everything they touch is in a folder below the system's temporary one.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use super::build::{Built, SuiteWorkspace};
use super::known::{Known, Listing};
use super::table::{Entry, Table};
use crate::harness::{self, Limits, TestExecutable, Verdicts};
use crate::platforms::{Journal, Platform};
use crate::sh::{Context, Outcome};
use crate::toolchain;

/// The slowest file takes 10 s by itself on two cores; a busy machine takes longer.
const LIMITS: Limits = Limits {
    together: Duration::from_secs(180),
    alone: Duration::from_secs(60),
};

const EMULATED_LIMITS: Limits = Limits {
    together: Duration::from_secs(600),
    alone: Duration::from_secs(180),
};

const NOBODY: u32 = 65_534;

#[derive(Clone, Debug)]
pub(super) enum FileResult {
    /// It did not compile; holds the first line of the compiler's message.
    NotBuilt(String),
    Ran(Verdicts),
}

/// By file.
pub(super) type Results = BTreeMap<String, FileResult>;

/// Runs every file of the table, as many at a time as there are cores.
pub(super) fn run_all(
    workspace: &SuiteWorkspace,
    table: &Table,
    built: &Built,
    known: &Known,
    how: RunOptions<'_>,
) -> Outcome<Results> {
    let run_dir = RunDir::create(workspace, how)?;
    let results = Mutex::new(Results::new());
    harness::for_each_on_all_cores(table.files(), |entry| {
        let result = match built.of(&entry.file) {
            Ok(executable) => FileResult::Ran(run_dir.run(workspace, entry, executable, known)?),
            Err(why) => FileResult::NotBuilt(why.to_owned()),
        };
        results
            .lock()
            .expect("no worker panics")
            .insert(entry.file.clone(), result);
        Ok(())
    })?;
    Ok(results.into_inner().expect("no worker panics"))
}

/// How tests are run.
#[derive(Clone, Copy)]
pub(super) struct RunOptions<'a> {
    /// A process per test.
    pub(super) per_test: bool,
    /// Without io_uring.
    pub(super) epoll: bool,
    /// With sockets by completion.
    pub(super) completion: bool,
    /// On another platform than this machine's.
    pub(super) platform: Option<&'static Platform>,
    /// What has not failed and need not run again.
    pub(super) journal: Option<&'a Journal>,
}

/// A folder that the user nobody can read: executables, a temporary folder, a manifest.
struct RunDir<'a> {
    dir: PathBuf,
    as_nobody: bool,
    how: RunOptions<'a>,
}

impl<'a> RunDir<'a> {
    fn create(workspace: &SuiteWorkspace, how: RunOptions<'a>) -> Outcome<Self> {
        let dir = std::env::temp_dir().join(format!("blitzen-conformance-{}", std::process::id()));
        let run_dir = Self {
            dir,
            as_nobody: toolchain::is_root() && how.platform.is_none_or(Platform::has_users),
            how,
        };
        fs::create_dir_all(run_dir.temporary()).context(run_dir.dir.display())?;
        fs::set_permissions(&run_dir.dir, Permissions::from_mode(0o755))
            .context("making the run folder readable")?;
        fs::copy(workspace.manifest(), run_dir.dir.join("Cargo.toml"))
            .context("copying the manifest")?;
        if run_dir.as_nobody {
            chown(run_dir.temporary(), Some(NOBODY), Some(NOBODY))
                .context("giving the run folder to nobody")?;
        }
        Ok(run_dir)
    }

    fn temporary(&self) -> PathBuf {
        self.dir.join("tmp")
    }

    /// Links or copies an executable into the folder.
    fn add(&self, executable: &Path) -> Outcome<PathBuf> {
        let path = self
            .dir
            .join(executable.file_name().expect("an executable has a name"));
        if fs::hard_link(executable, &path).is_err() {
            fs::copy(executable, &path).context(path.display())?;
        }
        fs::set_permissions(&path, Permissions::from_mode(0o755)).context(path.display())?;
        Ok(path)
    }

    /// Runs the tests of one file.
    fn run(
        &self,
        workspace: &SuiteWorkspace,
        entry: &Entry,
        executable: &Path,
        known: &Known,
    ) -> Outcome<Verdicts> {
        let copy = self.add(executable)?;
        let command = || self.command(&copy);
        let file = &entry.file;
        let limits = match self.how.platform.is_some_and(Platform::is_emulated) {
            true => EMULATED_LIMITS,
            false => LIMITS,
        };
        let run = TestExecutable::list(&command, limits, workspace.logs(), file)?;
        let (found, listed) = (run.tests().len(), entry.tests);
        // The count is that of 64-bit Linux.
        if found != listed && self.how.platform.is_none() {
            // The tests see other features or cfgs than when they were counted.
            return Err(format!("{file} holds {found} tests, but tests.txt says {listed}").into());
        }
        let may_fail = |test: &str| known.of_test(file, test) != Listing::Unlisted;
        let Some(journal) = self.how.journal else {
            return run.run(&may_fail, self.how.per_test, None);
        };
        let earlier = journal.earlier(executable)?;
        let verdicts = run.run(&may_fail, self.how.per_test, earlier)?;
        journal.write(executable, &verdicts)?;
        Ok(verdicts)
    }

    fn command(&self, executable: &Path) -> Command {
        let mut words = match self.how.platform {
            Some(platform) => platform.entry(&self.dir),
            None => Vec::new(),
        };
        if self.as_nobody {
            words.push("setpriv".to_owned());
            words.extend([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")]);
            words.extend(["--clear-groups", "--"].map(str::to_owned));
        }
        if let Some(platform) = self.how.platform {
            words.extend(platform.runner().map(str::to_owned));
        }
        words.push(executable.display().to_string());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        if let Some(platform) = self.how.platform {
            platform.set_run_environment(&mut command);
        }
        let temporary = self.temporary();
        command
            .current_dir(&self.dir)
            .env("TMPDIR", &temporary)
            .env("HOME", temporary)
            .env_remove("RUST_BACKTRACE");
        if self.how.epoll {
            command.env("BLITZEN_IO", "epoll");
        }
        if self.how.completion {
            command.env("BLITZEN_SOCKETS", "completion");
        }
        command
    }
}

impl Drop for RunDir<'_> {
    fn drop(&mut self) {
        // If it fails, the rest stays in the system's temporary folder.
        let _ = fs::remove_dir_all(&self.dir);
    }
}
