//! The list of live tasks.

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use blitzen_sched::Scheduler;
use blitzen_task::glue::id_number;
use blitzen_task::{Header, TaskSnapshot, TaskStatus};
use blitzen_util::wait::{self, WaitKind};

use super::deadlock;
use crate::runtime::clock::Clock;
use crate::runtime::json::{self, Object};
use crate::task::Id;

/// The live tasks of a runtime at one moment.
///
/// [`Handle::tasks`](crate::runtime::Handle::tasks) returns it. Its `Display` form is a line for
/// each task.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::Runtime;
///
/// let runtime = Runtime::new().unwrap();
/// let task = runtime.spawn(std::future::pending::<()>());
/// let tasks = runtime.handle().tasks();
/// assert!(tasks.iter().any(|listed| listed.id() == task.id()));
/// task.abort();
/// ```
#[derive(Clone, Debug)]
pub struct TaskList {
    tasks: Vec<ListedTask>,
}

/// A task in a [`TaskList`].
///
/// # Examples
///
/// ```
/// use blitzen::runtime::{Runtime, dump::ListedTask};
///
/// let runtime = Runtime::new().unwrap();
/// let task = runtime.spawn(std::future::pending::<()>());
/// let tasks = runtime.handle().tasks();
/// let listed: &ListedTask = tasks.iter().next().unwrap();
/// assert_eq!(listed.spawned_at().file(), file!());
/// task.abort();
/// ```
#[derive(Clone, Debug)]
pub struct ListedTask {
    id: Id,
    name: Option<Box<str>>,
    spawned_at: &'static Location<'static>,
    future_type: &'static str,
    future_size: usize,
    snapshot: TaskSnapshot,
    wait: Option<TaskWait>,
}

/// What a task waits for, and since when.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::{Handle, Runtime, dump::TaskWait};
/// use blitzen::task::yield_now;
///
/// let runtime = Runtime::new().unwrap();
/// runtime.block_on(async {
///     let (tx, rx) = blitzen::channel::oneshot::channel::<()>();
///     let task = blitzen::spawn(rx);
///     let waits = loop {
///         let tasks = Handle::current().tasks();
///         match tasks.iter().find_map(|task| task.wait().cloned()) {
///             Some(wait) => break wait,
///             None => yield_now().await,
///         }
///     };
///     let wait: TaskWait = waits;
///     assert_eq!(wait.kind().name(), "oneshot");
///     drop(tx);
///     assert!(task.await.unwrap().is_err());
/// });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskWait {
    kind: WaitKind,
    resource: Option<u64>,
    owner: Option<Id>,
    since: Option<Duration>,
    due_in: Option<Duration>,
}

impl TaskList {
    pub(crate) fn new(scheduler: &Scheduler, clock: &Clock) -> Self {
        // Brings the seconds up to date that ages are measured by.
        scheduler.world().now_ns();
        let now_ns = clock.now_ns();
        let mut tasks = Vec::with_capacity(scheduler.alive_tasks());
        scheduler.walk_tasks(|task| tasks.push(ListedTask::new(task, now_ns)));
        // A list that closes may have shown a task twice.
        tasks.sort_by_key(|task| id_number(task.id));
        tasks.dedup_by_key(|task| task.id);
        Self { tasks }
    }

    /// Returns the number of tasks.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// assert_eq!(runtime.handle().tasks().len(), 0);
    /// ```
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns whether there is no task.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// assert!(runtime.handle().tasks().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Returns an iterator over the tasks, by id.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// for task in runtime.handle().tasks().iter() {
    ///     println!("{task}");
    /// }
    /// ```
    pub fn iter(&self) -> std::slice::Iter<'_, ListedTask> {
        self.tasks.iter()
    }

    /// Returns the task with `id`, if it is alive.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let task = runtime.spawn(std::future::pending::<()>());
    /// assert!(runtime.handle().tasks().get(task.id()).is_some());
    /// task.abort();
    /// ```
    pub fn get(&self, id: Id) -> Option<&ListedTask> {
        let found = self
            .tasks
            .binary_search_by_key(&id_number(id), |task| id_number(task.id));
        found.ok().map(|index| &self.tasks[index])
    }

    /// Returns the list as a JSON array of objects, without line breaks.
    ///
    /// Each object has the fields `id`, `name`, `spawned_at`, `future`, `size`, `status`,
    /// `cancelled`, `join_handle`, `shield_depth`, `wakers` and `wait`. `name` and `wait` may be
    /// `null`. `wait` has the fields `kind`, `resource`, `owner`, `seconds` and `due_in_seconds`,
    /// of which all but the first may be `null`.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// assert_eq!(runtime.handle().tasks().to_json(), "[]");
    /// ```
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        json::push_array(&mut out, &self.tasks, |object, task| task.fill(object));
        out
    }
}

impl<'a> IntoIterator for &'a TaskList {
    type Item = &'a ListedTask;
    type IntoIter = std::slice::Iter<'a, ListedTask>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for TaskList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.len() {
            1 => writeln!(f, "1 task")?,
            count => writeln!(f, "{count} tasks")?,
        }
        self.iter().try_for_each(|task| writeln!(f, "{task}"))
    }
}

impl ListedTask {
    /// Called under the lock of a list of tasks.
    pub(crate) fn new(task: &Header, now_ns: u64) -> Self {
        let meta = task.spawn_meta();
        let snapshot = task.snapshot();
        Self {
            id: task.id(),
            name: meta.name().map(Box::from),
            spawned_at: meta.location(),
            future_type: task.future_type(),
            future_size: task.future_size(),
            wait: TaskWait::new(&snapshot, now_ns),
            snapshot,
        }
    }

    /// Returns the id of the task.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let task = runtime.spawn(std::future::pending::<()>());
    /// assert_eq!(runtime.handle().tasks().iter().next().unwrap().id(), task.id());
    /// task.abort();
    /// ```
    pub fn id(&self) -> Id {
        self.id
    }

    /// Returns the name of the task, if it was given one.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task;
    ///
    /// let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let _entered = runtime.enter();
    /// let task = task::Builder::new().name("idler").spawn(std::future::pending::<()>()).unwrap();
    /// let tasks = runtime.handle().tasks();
    /// assert_eq!(tasks.get(task.id()).unwrap().name(), Some("idler"));
    /// task.abort();
    /// ```
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the line that spawned the task.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let task = runtime.spawn(std::future::pending::<()>());
    /// let tasks = runtime.handle().tasks();
    /// assert_eq!(tasks.get(task.id()).unwrap().spawned_at().file(), file!());
    /// task.abort();
    /// ```
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at
    }

    /// Returns the name of the type of the task's future.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let task = runtime.spawn(std::future::pending::<()>());
    /// let tasks = runtime.handle().tasks();
    /// assert!(tasks.get(task.id()).unwrap().future_type().contains("Pending"));
    /// task.abort();
    /// ```
    pub fn future_type(&self) -> &'static str {
        self.future_type
    }

    /// Returns the size of the task's future in bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let task = runtime.spawn(std::future::pending::<()>());
    /// let tasks = runtime.handle().tasks();
    /// assert_eq!(tasks.get(task.id()).unwrap().future_size(), 0);
    /// task.abort();
    /// ```
    pub fn future_size(&self) -> usize {
        self.future_size
    }

    /// Returns the state of the task.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::{Builder, dump::TaskStatus};
    ///
    /// let runtime = Builder::new_current_thread().build().unwrap();
    /// let task = runtime.spawn(async {});
    /// let tasks = runtime.handle().tasks(); // nobody drives the runtime yet
    /// assert_eq!(tasks.get(task.id()).unwrap().status(), TaskStatus::Scheduled);
    /// ```
    pub fn status(&self) -> TaskStatus {
        self.snapshot.status
    }

    /// Returns whether the task was asked to end, and has not yet: it is about to, or is under a
    /// [`shield`](crate::task::shield()).
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().build().unwrap();
    /// let task = runtime.spawn(async {});
    /// task.abort();
    /// assert!(runtime.handle().tasks().get(task.id()).unwrap().is_cancelled());
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.snapshot.is_cancelled
    }

    /// Returns whether the task has a `JoinHandle`.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().build().unwrap();
    /// let task = runtime.spawn(async {});
    /// assert!(runtime.handle().tasks().get(task.id()).unwrap().has_join_handle());
    /// ```
    pub fn has_join_handle(&self) -> bool {
        self.snapshot.has_join_handle
    }

    /// Returns how many shields the task is under.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().build().unwrap();
    /// let task = runtime.spawn(async {});
    /// assert_eq!(runtime.handle().tasks().get(task.id()).unwrap().shield_depth(), 0);
    /// ```
    pub fn shield_depth(&self) -> u8 {
        self.snapshot.shield_depth
    }

    /// Returns how many wakers and abort handles of the task there are.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().build().unwrap();
    /// let task = runtime.spawn(async {});
    /// let abort = task.abort_handle();
    /// assert_eq!(runtime.handle().tasks().get(task.id()).unwrap().wakers(), 1);
    /// drop(abort);
    /// ```
    pub fn wakers(&self) -> usize {
        self.snapshot.wakers as usize
    }

    /// Returns what the task waits for; `None` unless it is idle, and if it waits for something
    /// that is not part of this crate.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread().build().unwrap();
    /// let task = runtime.spawn(async {});
    /// assert!(runtime.handle().tasks().get(task.id()).unwrap().wait().is_none());
    /// ```
    pub fn wait(&self) -> Option<&TaskWait> {
        self.wait.as_ref()
    }

    /// Whether nobody can wake the task: it is idle, and has no waker. An abort can still end it,
    /// and so can the end of the runtime.
    pub(crate) fn has_lost_its_waker(&self) -> bool {
        // One load has given both: the last waker is gone, and a new one can only come from a
        // poll, which would need a waker.
        self.status() == TaskStatus::Idle && self.snapshot.wakers == 0
    }

    pub(super) fn fill(&self, object: &mut Object<'_>) {
        object
            .literal("id", self.id)
            .optional_text("name", self.name())
            .text("spawned_at", self.spawned_at)
            .text("future", self.future_type)
            .literal("size", self.future_size)
            .text("status", self.status())
            .literal("cancelled", self.is_cancelled())
            .literal("join_handle", self.has_join_handle())
            .literal("shield_depth", self.shield_depth())
            .literal("wakers", self.wakers());
        match &self.wait {
            Some(wait) => object.object("wait", |object| wait.fill(object)),
            None => object.literal("wait", "null"),
        };
    }
}

impl fmt::Display for ListedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.id)?;
        if let Some(name) = self.name() {
            write!(f, " {name:?}")?;
        }
        write!(f, " {}", self.status())?;
        if let Some(wait) = &self.wait {
            write!(f, ": {wait}")?;
        }
        if self.is_cancelled() {
            f.write_str(", cancelled")?;
        }
        if self.shield_depth() > 0 {
            write!(f, ", {} shield(s)", self.shield_depth())?;
        }
        write!(
            f,
            " (spawned at {}, {} bytes, {})",
            self.spawned_at, self.future_size, self.future_type
        )
    }
}

impl TaskWait {
    fn new(snapshot: &TaskSnapshot, now_ns: u64) -> Option<Self> {
        let kind = snapshot.wait_kind;
        if kind == WaitKind::Unknown {
            return None;
        }
        let identity = snapshot.wait.and_then(|(identity, _)| identity);
        let (resource, due_in) = match kind {
            WaitKind::Several | WaitKind::Budget => (None, None),
            WaitKind::Timer => {
                let due_in = |deadline| wait::deadline_ns(deadline).saturating_sub(now_ns);
                (None, identity.map(due_in).map(Duration::from_nanos))
            }
            _ => (identity, None),
        };
        let since = snapshot.wait.map(|(_, stamp)| stamp.age_seconds());
        let mut wait = Self {
            kind,
            resource,
            owner: None,
            since: since.map(Duration::from_secs),
            due_in,
        };
        wait.owner = wait.lock().and_then(deadlock::owner_id);
        Some(wait)
    }

    /// The address of the lock that the task waits for, if it waits for one.
    pub(super) fn lock(&self) -> Option<u64> {
        match self.kind {
            WaitKind::Mutex | WaitKind::RwLockRead | WaitKind::RwLockWrite => self.resource,
            _ => None,
        }
    }

    /// Returns the task that holds the lock that the task waits for, if locks
    /// [note that](super::note_lock_owners). It may have ended, or belong to another runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::{ListedTask, TaskList};
    ///
    /// fn owner<'a>(tasks: &'a TaskList, task: &ListedTask) -> Option<&'a ListedTask> {
    ///     tasks.get(task.wait()?.owner()?)
    /// }
    /// ```
    pub fn owner(&self) -> Option<Id> {
        self.owner
    }

    /// Returns the kind of what the task waits for.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::{TaskList, WaitKind};
    ///
    /// /// Counts the tasks that wait for a lock.
    /// fn waiting_for_a_mutex(tasks: &TaskList) -> usize {
    ///     let waits = tasks.iter().filter_map(|task| task.wait());
    ///     waits.filter(|wait| wait.kind() == WaitKind::Mutex).count()
    /// }
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # assert_eq!(waiting_for_a_mutex(&runtime.handle().tasks()), 0);
    /// ```
    pub fn kind(&self) -> WaitKind {
        self.kind
    }

    /// Returns a number that tells the thing from others of its kind, if there is one: two tasks
    /// that wait for the same lock or channel have the same number. For [`WaitKind::Join`] it is
    /// the id of the task whose end is awaited.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::TaskWait;
    ///
    /// fn is_the_same(one: &TaskWait, other: &TaskWait) -> bool {
    ///     one.resource().is_some() && one == other
    /// }
    /// ```
    pub fn resource(&self) -> Option<u64> {
        self.resource
    }

    /// Returns how long the task has waited, to about a second, if that is known. After 15
    /// hours the count starts again.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::runtime::dump::TaskWait;
    ///
    /// fn is_overdue(wait: &TaskWait) -> bool {
    ///     wait.duration() > Some(Duration::from_secs(60))
    /// }
    /// ```
    pub fn duration(&self) -> Option<Duration> {
        self.since
    }

    /// Returns when the timer is due that the task waits for, from the moment of the list.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::TaskWait;
    ///
    /// fn is_sleeping(wait: &TaskWait) -> bool {
    ///     wait.due_in().is_some()
    /// }
    /// ```
    pub fn due_in(&self) -> Option<Duration> {
        self.due_in
    }

    fn fill(&self, object: &mut Object<'_>) {
        object.text("kind", self.kind);
        match (self.kind, self.resource) {
            (_, None) => object.literal("resource", "null"),
            (WaitKind::Join, Some(id)) => object.literal("resource", id),
            (_, Some(address)) => object.text("resource", format_args!("{address:#x}")),
        };
        object.optional("owner", self.owner);
        object
            .optional("seconds", self.since.map(|since| since.as_secs()))
            .optional("due_in_seconds", self.due_in.map(|due| due.as_secs_f64()));
    }
}

impl fmt::Display for TaskWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, self.resource) {
            (WaitKind::Several, _) => f.write_str("several things")?,
            (WaitKind::Join, Some(id)) => write!(f, "join of task {id}")?,
            (kind, Some(address)) => write!(f, "{kind} {address:#x}")?,
            (kind, None) => write!(f, "{kind}")?,
        }
        if let Some(owner) = self.owner {
            write!(f, " held by task {owner}")?;
        }
        if let Some(due_in) = self.due_in {
            write!(f, " due in {due_in:.1?}")?;
        }
        if let Some(since) = self.since {
            write!(f, " for {} s", since.as_secs())?;
        }
        Ok(())
    }
}
