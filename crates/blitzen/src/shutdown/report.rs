//! The report of a drain that ended before the work did.

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use crate::task::Id;

/// The error of a [drain](super::Shutdown::drain) that ended before the work did.
///
/// # Examples
/// ```
/// # #[blitzen::main]
/// # async fn main() {
/// use blitzen::shutdown::{Reason, Shutdown};
///
/// let shutdown = Shutdown::new();
/// let _guard = shutdown.work();
/// let unfinished = shutdown.drain(std::time::Duration::ZERO).await.unwrap_err();
/// assert_eq!(unfinished.reason, Reason::Deadline);
/// assert_eq!(unfinished.work.len(), 1);
/// println!("{unfinished}");
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Unfinished {
    /// Why the drain ended.
    pub reason: Reason,
    /// The work that was left, the oldest first.
    pub work: Vec<Work>,
}

/// Why a drain ended before the work did.
///
/// # Examples
/// ```
/// assert_ne!(blitzen::shutdown::Reason::Deadline, blitzen::shutdown::Reason::Hurry);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The limit of the drain was over.
    Deadline,
    /// A second signal came, or [`hurry`](super::Shutdown::hurry) was called.
    Hurry,
}

/// A guard or tracked future that has not ended.
///
/// # Examples
/// ```
/// let shutdown = blitzen::shutdown::Shutdown::new();
/// let guard = shutdown.work();
/// let work = &shutdown.work_list()[0];
/// assert!(work.task.is_none()); // not in a task
/// println!("created at {}, {:?} ago", work.taken_at, work.age);
/// # drop(guard);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Work {
    /// The task it belongs to, if there is one.
    pub task: Option<WorkingTask>,
    /// The line that created it.
    pub taken_at: &'static Location<'static>,
    /// The time since then.
    pub age: Duration,
}

/// The task that [`Work`] belongs to.
///
/// # Examples
/// ```
/// # #[blitzen::main]
/// # async fn main() {
/// let shutdown = blitzen::shutdown::Shutdown::new();
/// let other = shutdown.clone();
/// blitzen::task::Builder::new().name("worker").spawn(async move {
///     let _guard = other.work();
///     let task = other.work_list().remove(0).task.unwrap();
///     assert_eq!(task.name.as_deref(), Some("worker"));
/// }).unwrap().await.unwrap();
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkingTask {
    /// The id of the task.
    pub id: Id,
    /// The name of the task, if it has one.
    pub name: Option<String>,
    /// The line that spawned the task.
    pub spawned_at: &'static Location<'static>,
}

impl WorkingTask {
    /// The current task, if there is one.
    pub(super) fn current() -> Option<Self> {
        blitzen_task::current::with_spawn_meta(|id, meta| Self {
            id,
            name: meta.name().map(str::to_owned),
            spawned_at: meta.location(),
        })
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.work.len();
        match self.reason {
            Reason::Deadline => write!(f, "the time was up with {count} still at work")?,
            Reason::Hurry => write!(f, "no time was left with {count} still at work")?,
        }
        if count == 0 {
            f.write_str("; scopes that were dropped are not empty yet")?;
        }
        for work in &self.work {
            write!(f, "; {work}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Unfinished {}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.task {
            Some(task) => {
                write!(f, "task {}", task.id)?;
                if let Some(name) = &task.name {
                    write!(f, " ({name})")?;
                }
                write!(f, " spawned at {}", task.spawned_at)?;
            }
            None => f.write_str("work outside a task")?,
        }
        write!(f, ", for {:.1?} since {}", self.age, self.taken_at)
    }
}
