//! A task as a dump sees it, from outside and without stopping it.

use std::fmt;

use blitzen_util::wait::{Stamp, WaitKind};

use crate::header::Header;

/// The state of a task.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::{Runtime, dump::TaskStatus};
///
/// let runtime = Runtime::new().unwrap();
/// runtime.block_on(async {
///     blitzen::spawn(async {
///         let tasks = blitzen::runtime::Handle::current().tasks();
///         assert_eq!(tasks.iter().next().unwrap().status(), TaskStatus::Running);
///     })
///     .await
///     .unwrap();
/// });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskStatus {
    /// The task waits to be woken.
    Idle,
    /// The task is in a queue, and waits for a worker.
    Scheduled,
    /// A worker polls the task, or drops its future; or the task is a coroutine that has yielded,
    /// and waits for its next turn.
    Running,
    /// The task has ended.
    Complete,
}

impl TaskStatus {
    /// Returns the name of the state, in lower case.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::TaskStatus;
    ///
    /// assert_eq!(TaskStatus::Idle.name(), "idle");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Scheduled => "scheduled",
            Self::Running => "running",
            Self::Complete => "complete",
        }
    }
}

impl fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The state of a task at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskSnapshot {
    /// Its place in its life.
    pub status: TaskStatus,
    /// Whether it was asked to end.
    pub is_cancelled: bool,
    /// Whether a join handle waits, or may.
    pub has_join_handle: bool,
    /// How many shields it is under.
    pub shield_depth: u8,
    /// How many wakers and abort handles there are.
    pub wakers: u64,
    /// The kind of what it waits for, while it is idle.
    pub wait_kind: WaitKind,
    /// What it waits for, and since when, if that is known.
    pub wait: Option<(Option<u64>, Stamp)>,
}

impl Header {
    /// The state of the task now. While the task runs on another thread meanwhile, what it waits
    /// for is left out. (Only a task that waits for one thing, is woken, waits for another, is
    /// woken and waits for the first kind again, all between two loads, is shown with what it
    /// waited for in the middle.)
    pub fn snapshot(&self) -> TaskSnapshot {
        let state = self.state.load();
        let status = state.status();
        let wait_kind = match status {
            TaskStatus::Idle => state.wait_kind(),
            _ => WaitKind::Unknown,
        };
        let wait = match wait_kind {
            WaitKind::Unknown => None,
            _ => self.queue_link.wait().filter(|_| {
                // The link is of this wait only if the task is still in it: a link that was
                // stored later comes with a state that this load sees.
                let later = self.state.load();
                later.status() == TaskStatus::Idle && later.wait_kind() == wait_kind
            }),
        };
        TaskSnapshot {
            status,
            is_cancelled: state.is_cancelled(),
            has_join_handle: state.is_join_interested(),
            shield_depth: state.shield_depth() as u8,
            wakers: state.other_references(),
            wait_kind,
            wait,
        }
    }

    /// The type of the task's future.
    pub fn future_type(&self) -> &'static str {
        (self.vtable.future_type)()
    }

    /// The size of the task's future in bytes.
    pub fn future_size(&self) -> usize {
        self.vtable.future_size
    }
}
