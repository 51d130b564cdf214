//! Tasks that wait for each other's locks, or for each other's end.
//!
//! D1. Only a task counts that waits for one lock, or for the end of one task, and for nothing
//!     else: it is idle, has one waker, and that waker is in the queue of the lock or with the
//!     other task. So nobody else can wake it. A task to which the lock was just granted has left
//!     the queue, and is about to be woken.
//! D2. All of it is read twice. A lock whose note is the same both times was held in between by
//!     the same task, and a task that waited for it both times waited in between. So the tasks of
//!     a circle waited for each other at the same moment, and will for ever.

use std::collections::{HashMap, HashSet};
use std::fmt;

use blitzen_task::glue::id_number;
use blitzen_task::{Id, TaskStatus};
use blitzen_util::lock_owner::{self, CurrentTaskFns, LockOwner};

use super::{ListedTask, TaskList, WaitKind};
use crate::runtime::Handle;
use crate::runtime::json::Object;

/// Makes locks note their owner from the first runtime on.
const VARIABLE: &str = "BLITZEN_LOCKS";

/// Decides whether locks that are created from now on note which task holds them.
///
/// It concerns `Mutex::new` and `RwLock::new` in the whole process, and is off by default. With
/// `BLITZEN_LOCKS=1` in the environment it is on once a runtime has been built. Locks that note
/// their owner take a fraction of a microsecond longer; all others take as long as ever.
///
/// [`TaskWait::owner`](super::TaskWait::owner) returns the owner, and [`Handle::deadlocks`] finds
/// tasks that wait for each other. The owner is known of guards that borrow their lock, and only
/// while a task holds them: a guard counts as held by the task that has acquired it, and a lock that
/// is granted to a future that waits for it as held by the task that has polled that future last.
/// Who holds an owned guard, one of `try_lock` or one for reading is not known.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::dump;
///
/// dump::note_lock_owners(true);
/// let mutex = blitzen::sync::Mutex::new(1); // notes its owner
/// dump::note_lock_owners(false);
/// # drop(mutex);
/// ```
pub fn note_lock_owners(on: bool) {
    let current_task = CurrentTaskFns {
        number: || blitzen_task::current::id().map(id_number),
        owns: blitzen_task::current::owns,
    };
    lock_owner::set_on(on, current_task);
}

/// Called when a runtime is built.
pub(crate) fn note_lock_owners_if_asked() {
    if std::env::var_os(VARIABLE).is_some_and(|value| value == "1") {
        note_lock_owners(true);
    }
}

/// Tasks that wait for each other, each for a lock that the next task holds, or for its end.
///
/// If there is one task, and it waits for a lock that it holds, that is also called a futurelock: a
/// future inside the task holds the lock, and is not polled while another one waits for it.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use blitzen::runtime::{Runtime, dump::{self, Deadlock}};
/// use blitzen::sync::Mutex;
///
/// dump::note_lock_owners(true);
/// let runtime = Runtime::new().unwrap();
/// let mutex = Arc::new(Mutex::new(()));
/// let task = runtime.spawn(async move {
///     let _guard = mutex.lock().await;
///     let _again = mutex.lock().await; // waits for itself
/// });
/// let deadlock: Deadlock = loop {
///     if let Some(found) = runtime.handle().deadlocks().pop() {
///         break found;
///     }
/// };
/// assert!(deadlock.is_futurelock());
/// assert_eq!(deadlock.tasks()[0].id(), task.id());
/// task.abort();
/// ```
#[derive(Clone, Debug)]
pub struct Deadlock {
    tasks: Vec<ListedTask>,
}

impl Deadlock {
    /// Returns the tasks. Each waits for the next one, and the last for the first.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::Deadlock;
    ///
    /// fn lines(deadlock: &Deadlock) -> Vec<u32> {
    ///     let tasks = deadlock.tasks().iter();
    ///     tasks.map(|task| task.spawned_at().line()).collect()
    /// }
    /// ```
    pub fn tasks(&self) -> &[ListedTask] {
        &self.tasks
    }

    /// Returns whether one task waits for a lock that it holds itself.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::Deadlock;
    ///
    /// fn name(deadlock: &Deadlock) -> &str {
    ///     if deadlock.is_futurelock() { "futurelock" } else { "deadlock" }
    /// }
    /// ```
    pub fn is_futurelock(&self) -> bool {
        let waits_for_lock =
            |task: &ListedTask| task.wait().is_some_and(|wait| wait.lock().is_some());
        matches!(&self.tasks[..], [task] if waits_for_lock(task))
    }

    pub(super) fn fill(&self, object: &mut Object<'_>) {
        let kind = match self.tasks.len() {
            _ if self.is_futurelock() => "futurelock",
            1 => "self-join",
            _ => "deadlock",
        };
        let ids = self.tasks.iter().map(ListedTask::id);
        object.text("kind", kind).literals("tasks", ids);
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_futurelock() {
            true => f.write_str("futurelock: a task waits for a lock that it holds itself")?,
            false if self.tasks.len() == 1 => {
                f.write_str("deadlock: a task waits for its own end")?;
            }
            false => write!(
                f,
                "deadlock: {} tasks wait for each other",
                self.tasks.len()
            )?,
        }
        self.tasks.iter().try_for_each(|task| write!(f, "; {task}"))
    }
}

impl Handle {
    /// Returns the tasks of the runtime that wait for each other: for locks that
    /// [note their owner](note_lock_owners), or for the end of a task, by its
    /// [`JoinHandle`](crate::task::JoinHandle), while locks that are created note it.
    ///
    /// This polls no task and stops no worker. It may be called from any thread. What it returns
    /// is certain, if guards that borrow their lock are not moved to other tasks: only an abort
    /// can end such a wait. Not found are deadlocks in which a task waits for several things at a
    /// time, for a `JoinSet`, a scope, a channel or a semaphore, or in which a task has an
    /// [`AbortHandle`](crate::task::AbortHandle), which cannot be told from a waker.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// assert!(runtime.handle().deadlocks().is_empty());
    /// ```
    pub fn deadlocks(&self) -> Vec<Deadlock> {
        find(|| self.tasks())
    }
}

/// What a task waits for and nothing else, and which task can end that (D1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnlyWait {
    /// The lock at an address, which a task holds by a note with that number.
    Lock { lock: u64, owner: LockOwner },
    /// The end of a task.
    Join { joined: u64 },
}

impl OnlyWait {
    fn of(task: &ListedTask) -> Option<Self> {
        if task.status() != TaskStatus::Idle || task.wakers() != 1 {
            return None;
        }
        let (number, wait) = (id_number(task.id()), task.wait()?);
        if let Some(lock) = wait.lock() {
            let owner = lock_owner::owner_of(lock)?;
            // Its one waker is there. Otherwise the lock was just granted to it.
            return lock_owner::is_queued(number, lock).then_some(Self::Lock { lock, owner });
        }
        let joined = wait.resource().filter(|_| wait.kind() == WaitKind::Join)?;
        (lock_owner::join_of(number) == Some(joined)).then_some(Self::Join { joined })
    }

    /// The task that can end it.
    fn awaited(&self) -> u64 {
        match self {
            Self::Lock { owner, .. } => owner.task,
            Self::Join { joined } => *joined,
        }
    }
}

pub(crate) fn find(list: impl Fn() -> TaskList) -> Vec<Deadlock> {
    let before = only_waits(&list());
    if before.is_empty() {
        return Vec::new();
    }
    let tasks = list();
    let mut waits = only_waits(&tasks);
    waits.retain(|task, wait| before.get(task) == Some(wait)); // D2
    let edges = waits.iter().map(|(task, wait)| (*task, wait.awaited()));
    let task = |number: u64| tasks.iter().find(|task| id_number(task.id()) == number);
    let circles = circles(&edges.collect())
        .into_iter()
        .map(|circle| Deadlock {
            tasks: circle.into_iter().filter_map(task).cloned().collect(),
        });
    circles.collect()
}

fn only_waits(tasks: &TaskList) -> HashMap<u64, OnlyWait> {
    let wait = |task| OnlyWait::of(task).map(|wait| (id_number(task.id()), wait));
    tasks.iter().filter_map(wait).collect()
}

/// The circles of a graph in which each node has one edge at the most, each from its smallest
/// node on, in the order of these.
fn circles(edges: &HashMap<u64, u64>) -> Vec<Vec<u64>> {
    let mut circles = Vec::new();
    let mut seen = HashSet::new();
    for &start in edges.keys() {
        let mut path = Vec::new();
        let mut node = start;
        while seen.insert(node) {
            path.push(node);
            match edges.get(&node) {
                Some(&next) => node = next,
                None => break,
            }
        }
        // The walk has ended at a node of its own: from there on it is a circle.
        if let Some(first) = path.iter().position(|&other| other == node)
            && edges.contains_key(&node)
        {
            let mut circle = path.split_off(first);
            let smallest = circle
                .iter()
                .position(|node| Some(node) == circle.iter().min());
            circle.rotate_left(smallest.unwrap_or(0));
            circles.push(circle);
        }
    }
    circles.sort();
    circles
}

/// The number of a task as an id, for those that are listed.
pub(super) fn owner_id(lock: u64) -> Option<Id> {
    let owner = lock_owner::owner_of(lock)?;
    blitzen_task::glue::id_of_number(owner.task)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node is in a circle if one comes back to it.
    fn is_in_circle(edges: &HashMap<u64, u64>, start: u64) -> bool {
        let mut node = start;
        for _ in 0..=edges.len() {
            match edges.get(&node) {
                Some(&next) if next == start => return true,
                Some(&next) => node = next,
                None => return false,
            }
        }
        false
    }

    #[test]
    fn circles_are_found_in_every_small_graph() {
        // Each of four nodes has an edge to one of four nodes, to an unknown one, or none.
        const NODES: u64 = 4;
        let choices = NODES + 2;
        for graph in 0..choices.pow(NODES as u32) {
            let choice = |node: u64| graph / choices.pow(node as u32) % choices;
            let edges: HashMap<u64, u64> = (0..NODES)
                .filter(|&node| choice(node) < choices - 1)
                .map(|node| (node, choice(node)))
                .collect();
            let circles = circles(&edges);
            for circle in &circles {
                for (index, node) in circle.iter().enumerate() {
                    assert_eq!(edges[node], circle[(index + 1) % circle.len()], "{edges:?}");
                }
            }
            let found: Vec<u64> = circles.concat();
            let expected = (0..NODES).filter(|&node| is_in_circle(&edges, node));
            let mut sorted = found.clone();
            sorted.sort();
            assert_eq!(
                sorted,
                expected.collect::<Vec<_>>(),
                "{edges:?}: {circles:?}"
            );
        }
    }
}
