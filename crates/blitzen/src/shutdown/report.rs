//! What a drain has to say of those who did not stop.

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use crate::task::Id;

/// What was still at work when a [drain](super::Shutdown::drain) ended.
///
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
    /// Who was at work, the oldest first.
    pub work: Vec<Work>,
}

/// Why a drain ended before the work did.
///
/// ```
/// assert_ne!(blitzen::shutdown::Reason::Deadline, blitzen::shutdown::Reason::Hurry);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The time was up.
    Deadline,
    /// A second signal came, or [`hurry`](super::Shutdown::hurry) was called.
    Hurry,
}

/// Work that is under way.
///
/// ```
/// let shutdown = blitzen::shutdown::Shutdown::new();
/// let guard = shutdown.work();
/// let work = &shutdown.work_list()[0];
/// assert!(work.task.is_none()); // not in a task
/// println!("since {}, for {:?}", work.taken_at, work.age);
/// # drop(guard);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Work {
    /// The task, if it is known.
    pub task: Option<WorkingTask>,
    /// The line that asked for the guard.
    pub taken_at: &'static Location<'static>,
    /// For how long.
    pub age: Duration,
}

/// A task that is at work.
///
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
    /// Its id.
    pub id: Id,
    /// Its name, if it was given one.
    pub name: Option<String>,
    /// Where it was spawned.
    pub spawned_at: &'static Location<'static>,
}

impl WorkingTask {
    /// The task this code runs in, if it is one.
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
