//! The deep dump: where in its code each task waits.
//!
//! ```text
//!   dumper:  ask for all tasks ──► watch each ──► wait for answers ──► names
//!   worker:  watched poll ──► each leaf: kind, identity, return addresses ──► answer
//! ```
//!
//! P1. A watched poll is an ordinary poll. Nothing stops, and no pointer of a task is followed.
//! P2. Answers that nobody waits for any more are dropped.
//! P3. Under the lock of the answers no foreign code runs, and no stack is captured.
//! P4. Half of the time is for answers. The other half is for names, which take long: those that
//!     are not found by then are left out.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, iter};

use blitzen_task::Id;
use blitzen_task::glue::id_number;
use blitzen_task::watch::{POLL_FILES, WatchHandle, set_on_watched};
use blitzen_util::wait::{self, WaitKind};

use super::known_stack::{KnownStack, KnownStacks, return_addresses};
use super::trace::{self, LeafStack, Tasks};
use super::{Deadlock, ListedTask};
use crate::runtime::Handle;
use crate::runtime::json::{self, Object};

/// How long [`Handle::dump`] waits for tasks.
const LIMIT: Duration = Duration::from_secs(1);

/// How often to look whether a task that was asked has ended instead.
const LOOK_PERIOD: Duration = Duration::from_millis(5);

/// The code around a stack: what records it above, and what polls a task below. How much of a
/// function's path a frame shows depends on the debug information, so its file counts too.
const LEAF_CODE: [Code; 2] = [
    Code {
        path: "blitzen::runtime::dump::",
        file: file!(),
    },
    Code {
        path: "blitzen_util::wait::",
        file: wait::FILE,
    },
];
const ROOT_CODE: [Code; 2] = [
    Code {
        path: "blitzen_task::raw::",
        file: POLL_FILES[0],
    },
    Code {
        path: "blitzen_task::cell::",
        file: POLL_FILES[1],
    },
];

/// A module, and the file that it is in.
struct Code {
    path: &'static str,
    file: &'static str,
}

impl Code {
    fn contains(&self, frame: &str) -> bool {
        frame.contains(self.path) || frame.contains(self.file_end())
    }

    /// The file with two folders: a backtrace shows its path from elsewhere.
    fn file_end(&self) -> &'static str {
        let third_last = self.file.rmatch_indices(['/', '\\']).nth(2);
        third_last.map_or(self.file, |(at, _)| &self.file[at + 1..])
    }
}

/// Whether a frame, with its file if that is known, is one of those that record a leaf.
pub(super) fn is_leaf_frame(frame: &str) -> bool {
    LEAF_CODE.iter().any(|code| code.contains(frame))
}

/// Whether a frame, with its file if that is known, is one of those that poll a task.
pub(crate) fn is_root_frame(frame: &str) -> bool {
    ROOT_CODE.iter().any(|code| code.contains(frame))
}

/// The live tasks of a runtime, and where in its code each one waits.
///
/// [`Handle::dump`] and [`Handle::dump_within`] return it. Its `Display` form has a line for each
/// task, and below it a line for each call that leads to where it waits.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use blitzen::runtime::Runtime;
///
/// let runtime = Runtime::new().unwrap();
/// let (tx, rx) = blitzen::channel::oneshot::channel::<()>();
/// let task = runtime.spawn(rx);
/// let dump = runtime.handle().dump_within(Duration::from_secs(10));
/// assert_eq!(dump.iter().count(), 1);
/// println!("{dump}");
/// drop(tx);
/// # drop(task);
/// ```
#[derive(Debug)]
pub struct Dump {
    tasks: Vec<DumpedTask>,
    polled: Tasks,
    deadlocks: Vec<Deadlock>,
    unresolved_stacks: usize,
}

/// A task in a [`Dump`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use blitzen::runtime::Runtime;
/// use blitzen::runtime::dump::DumpedTask;
///
/// let runtime = Runtime::new().unwrap();
/// let dump = runtime.handle().dump_within(Duration::from_secs(10));
/// let tasks: Vec<&DumpedTask> = dump.iter().collect();
/// assert!(tasks.is_empty());
/// ```
#[derive(Debug)]
pub struct DumpedTask {
    listed: ListedTask,
    stacks: Vec<AwaitStack>,
}

/// The calls that lead from a task to one thing that it waits for.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use blitzen::runtime::Runtime;
/// use blitzen::runtime::dump::{AwaitStack, WaitKind};
///
/// let runtime = Runtime::new().unwrap();
/// let (tx, rx) = blitzen::channel::oneshot::channel::<()>();
/// let task = runtime.spawn(rx);
/// let dump = runtime.handle().dump_within(Duration::from_secs(10));
/// let stack: &AwaitStack = &dump.iter().next().unwrap().stacks()[0];
/// assert_eq!(stack.kind(), WaitKind::Oneshot);
/// drop(tx);
/// # drop(task);
/// ```
#[derive(Debug)]
pub struct AwaitStack {
    kind: WaitKind,
    /// Those of all tasks that wait at the same place.
    frames: Arc<[String]>,
}

impl Dump {
    /// Returns an iterator over the tasks, by id.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let dump = runtime.handle().dump_within(Duration::from_secs(10));
    /// assert_eq!(dump.iter().count(), 0);
    /// ```
    pub fn iter(&self) -> std::slice::Iter<'_, DumpedTask> {
        self.tasks.iter()
    }

    /// Returns the tasks that wait for each other's locks, as
    /// [`Handle::deadlocks`] does.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let dump = runtime.handle().dump_within(Duration::from_secs(10));
    /// assert!(dump.deadlocks().is_empty());
    /// ```
    pub fn deadlocks(&self) -> &[Deadlock] {
        &self.deadlocks
    }

    /// Returns how many stacks have no frames because there was no time to look up their names.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let dump = runtime.handle().dump_within(Duration::from_secs(10));
    /// assert_eq!(dump.unresolved_stacks(), 0);
    /// ```
    pub fn unresolved_stacks(&self) -> usize {
        self.unresolved_stacks
    }

    /// Returns the dump as a JSON object, without line breaks.
    ///
    /// Its field `tasks` is an array of objects with the fields of
    /// [`TaskList::to_json`](super::TaskList::to_json) and `stacks`, an array of objects with the
    /// fields `kind` and `frames`. Its field `deadlocks` is an array of objects with the fields
    /// `kind` (`deadlock`, `futurelock`, or `self-join` for a task that waits for its own end) and
    /// `tasks`, an array of ids. Its field `unresolved_stacks` is what
    /// [`unresolved_stacks`](Self::unresolved_stacks) returns.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let dump = runtime.handle().dump_within(Duration::from_secs(10));
    /// assert_eq!(dump.to_json(), r#"{"tasks":[],"deadlocks":[],"unresolved_stacks":0}"#);
    /// ```
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        json::push_object(&mut out, |object| {
            object
                .array("tasks", &self.tasks, |object, task| task.fill(object))
                .array("deadlocks", &self.deadlocks, |object, found| {
                    found.fill(object)
                })
                .literal("unresolved_stacks", self.unresolved_stacks);
        });
        out
    }

    /// The tasks that were polled.
    #[cfg_attr(not(all(tokio_unstable, feature = "task-trace")), expect(dead_code))]
    pub(super) fn polled(&self) -> &Tasks {
        &self.polled
    }
}

impl<'a> IntoIterator for &'a Dump {
    type Item = &'a DumpedTask;
    type IntoIter = std::slice::Iter<'a, DumpedTask>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for task in &self.tasks {
            writeln!(f, "{}", task.listed)?;
            for stack in &task.stacks {
                write!(f, "{stack}")?;
            }
        }
        let mut deadlocks = self.deadlocks.iter();
        deadlocks.try_for_each(|deadlock| writeln!(f, "{deadlock}"))?;
        match self.unresolved_stacks {
            0 => Ok(()),
            count => writeln!(
                f,
                "{count} stacks without frames: there was no time for them"
            ),
        }
    }
}

impl DumpedTask {
    /// Returns the task as it was listed before it was asked where it waits.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::DumpedTask;
    ///
    /// fn line(task: &DumpedTask) -> u32 {
    ///     task.listed().spawned_at().line()
    /// }
    /// ```
    pub fn listed(&self) -> &ListedTask {
        &self.listed
    }

    /// Returns a stack for each thing that the task waits for. Empty if the task was not polled in
    /// time, or waits for something that is not part of this crate.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::DumpedTask;
    ///
    /// fn is_known(task: &DumpedTask) -> bool {
    ///     !task.stacks().is_empty()
    /// }
    /// ```
    pub fn stacks(&self) -> &[AwaitStack] {
        &self.stacks
    }
}

impl DumpedTask {
    fn fill(&self, object: &mut Object<'_>) {
        self.listed.fill(object);
        object.array("stacks", &self.stacks, |object, stack| {
            let frames = stack.frames.iter().map(String::as_str);
            object.text("kind", stack.kind).texts("frames", frames);
        });
    }
}

impl AwaitStack {
    /// Returns the kind of what the task waits for here.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::{AwaitStack, WaitKind};
    ///
    /// fn is_timer(stack: &AwaitStack) -> bool {
    ///     stack.kind() == WaitKind::Timer
    /// }
    /// ```
    pub fn kind(&self) -> WaitKind {
        self.kind
    }

    /// Returns the calls, innermost first: the name of a function and, if the program has debug
    /// information, its file and line. Empty if there was no time to look them up, which
    /// [`Dump::unresolved_stacks`] counts.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::AwaitStack;
    ///
    /// fn innermost(stack: &AwaitStack) -> Option<&str> {
    ///     stack.frames().first().map(String::as_str)
    /// }
    /// ```
    pub fn frames(&self) -> &[String] {
        &self.frames
    }
}

impl fmt::Display for AwaitStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "    {}", self.kind)?;
        self.frames
            .iter()
            .try_for_each(|frame| writeln!(f, "      {frame}"))
    }
}

impl Handle {
    /// Returns all live tasks of the runtime, and where in its code each one waits.
    ///
    /// Each task is polled once more, as if it had been woken for no reason; nothing is stopped.
    /// Tasks that are not polled within half a second, because workers are stuck, are listed
    /// without a stack. Half a second more is for the names of functions; stacks for which that is
    /// too short have no frames. A thread of the blocking pool does the work.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::{Handle, Runtime};
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let dump = runtime.block_on(async { Handle::current().dump().await });
    /// println!("{dump}");
    /// ```
    pub async fn dump(&self) -> Dump {
        let handle = self.clone();
        let dump = self.spawn_blocking(move || handle.dump_within(LIMIT)).await;
        dump.unwrap_or_else(|_| Dump {
            tasks: Vec::new(), // the runtime has ended
            polled: iter::empty().collect(),
            deadlocks: Vec::new(),
            unresolved_stacks: 0,
        })
    }

    /// Returns all live tasks of the runtime, and where in its code each one waits; blocks the
    /// calling thread for at most about `limit`.
    ///
    /// Tasks have half of `limit` to be polled. The rest is for the names of functions, which are
    /// looked up once for all tasks that wait at the same place. To look up the first ones, the
    /// debug information of the program is read, which may take longer than `limit`.
    ///
    /// Called by a task of a current-thread runtime it finds no stacks, since no other task runs
    /// meanwhile. Several dumps in a process wait for each other.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// println!("{}", runtime.handle().dump_within(Duration::from_secs(1)));
    /// ```
    pub fn dump_within(&self, limit: Duration) -> Dump {
        let start = Instant::now();
        let deadline = start.checked_add(limit);
        let list = self.tasks();
        // Before the tasks are polled, which would look as if they went on.
        let deadlocks = self.deadlocks();
        let mut answers = collect(self, start.checked_add(limit / 2)); // P4
        let is_closed = || self.inner.scheduler().is_closed();
        let mut has_time = || deadline.is_none_or(|end| Instant::now() < end) && !is_closed();
        let mut unresolved_stacks = 0;
        let mut resolve = |leaf: Leaf| {
            let frames = leaf.stack.resolve(&mut has_time);
            unresolved_stacks += usize::from(frames.is_none());
            let stack = AwaitStack {
                kind: leaf.kind,
                frames: frames.unwrap_or_default(),
            };
            (stack, leaf.traced)
        };
        let mut polled = Vec::new();
        let answer = |listed: &ListedTask| {
            let leaves = answers.remove(&id_number(listed.id()));
            let is_polled = leaves.is_some();
            let (stacks, traced) = leaves.into_iter().flatten().map(&mut resolve).unzip();
            if is_polled {
                polled.push((listed.id(), traced));
            }
            DumpedTask {
                listed: listed.clone(),
                stacks,
            }
        };
        Dump {
            tasks: list.iter().map(answer).collect(),
            polled: polled.into_iter().collect(),
            deadlocks,
            unresolved_stacks,
        }
    }
}

/// What one leaf of a watched poll waits for.
struct Leaf {
    task: Option<Id>,
    kind: WaitKind,
    stack: Arc<KnownStack>,
    traced: LeafStack,
}

type Answers = HashMap<u64, Vec<Leaf>>;

/// Which tasks were asked, and what they have answered.
struct Collector {
    state: Mutex<CollectorState>,
    on_answer: Condvar,
}

struct CollectorState {
    /// The ids of the tasks that have not answered yet; `None` while no dump is made.
    waiting: Option<HashSet<u64>>,
    answers: Option<Answers>,
    stacks: Option<KnownStacks>,
}

static COLLECTOR: Collector = Collector {
    state: Mutex::new(CollectorState {
        waiting: None,
        answers: None,
        stacks: None,
    }),
    on_answer: Condvar::new(),
};

/// Held while a dump is made.
static DUMPING: Mutex<()> = Mutex::new(());

thread_local! {
    /// What the leaves of the current watched poll wait for.
    static LEAVES: RefCell<Vec<Leaf>> = const { RefCell::new(Vec::new()) };
}

fn lock() -> MutexGuard<'static, CollectorState> {
    COLLECTOR
        .state
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// Makes leaves of watched polls known to this file.
pub(super) fn set_recorder() {
    wait::set_recorder(record);
}

/// Called by each leaf of a watched poll.
fn record(kind: WaitKind, _identity: u64) {
    let entry = record as fn(WaitKind, u64) as *const c_void;
    if trace::call_tracer(entry) {
        return; // a trace, perhaps as part of a watched poll
    }
    let Some(stack) = known_stack() else {
        return; // P2
    };
    let leaf = Leaf {
        task: blitzen_task::current::id(),
        kind,
        stack,
        traced: LeafStack::capture(entry),
    };
    // A thread that is ending answers nothing.
    let _ = LEAVES.try_with(|leaves| leaves.borrow_mut().push(leaf));
}

/// The current stack, as the dump knows it; `None` while no dump is made.
fn known_stack() -> Option<Arc<KnownStack>> {
    lock().stacks.as_ref()?;
    let Some(addresses) = return_addresses() else {
        return Some(KnownStack::capture());
    };
    let known = lock().stacks.as_ref()?.get(&addresses);
    known.or_else(|| {
        let captured = KnownStack::capture(); // P3
        Some(lock().stacks.as_mut()?.add(addresses, captured))
    })
}

/// Called at the end of a watched poll.
fn answer(id: Id) {
    let mut leaves = LEAVES.try_with(RefCell::take).unwrap_or_default();
    // A task that has ended in its watched poll has left its own.
    leaves.retain(|leaf| leaf.task == Some(id));
    let id = id_number(id);
    let mut state = lock();
    let is_awaited = state.waiting.as_mut().is_some_and(|ids| ids.remove(&id));
    if is_awaited && let Some(answers) = &mut state.answers {
        answers.insert(id, leaves); // otherwise P2
        COLLECTOR.on_answer.notify_all();
    }
}

/// Has all tasks polled, and returns what they have answered until `deadline`.
fn collect(handle: &Handle, deadline: Option<Instant>) -> Answers {
    let _dumping = DUMPING.lock().unwrap_or_else(PoisonError::into_inner);
    set_recorder();
    set_on_watched(answer);
    let scheduler = handle.inner.scheduler();
    let mut asked: Vec<WatchHandle> = Vec::new();
    scheduler.walk_watchable(|task| asked.push(task));
    *lock() = CollectorState {
        waiting: Some(asked.iter().map(|task| id_number(task.id())).collect()),
        answers: Some(HashMap::new()),
        stacks: Some(KnownStacks::default()),
    };
    asked.iter().for_each(WatchHandle::watch);
    if trace::UNPARKS_WORKERS {
        (0..scheduler.workers()).for_each(|worker| scheduler.world().interrupt(worker));
    }
    loop {
        // Before the lock: to give up the last reference to a task may run foreign code.
        asked.retain(|task| !task.is_finished() && is_awaited(task));
        let mut state = lock();
        let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
        if asked.is_empty() || left == Some(Duration::ZERO) || scheduler.is_closed() {
            state.waiting = None;
            state.stacks = None;
            return state.answers.take().unwrap_or_default();
        }
        let period = left.map_or(LOOK_PERIOD, |left| left.min(LOOK_PERIOD));
        let waited = COLLECTOR.on_answer.wait_timeout(state, period);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Whether a task has not answered yet.
fn is_awaited(task: &WatchHandle) -> bool {
    let waiting = &lock().waiting;
    waiting
        .as_ref()
        .is_some_and(|ids| ids.contains(&id_number(task.id())))
}

/// The frames between the leaf and the task's root, of a backtrace as std writes it: a number and
/// a name for each frame, and a line with file and line below it, if they are known.
pub(super) fn frames(text: &str) -> Vec<String> {
    let mut frames: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(location) = line.strip_prefix("at ") {
            if let Some(frame) = frames.last_mut() {
                *frame = format!("{frame} at {location}");
            }
        } else if let Some((_, name)) = line.split_once(": ") {
            frames.push(name.to_owned());
        }
    }
    let last = frames.iter().rposition(|frame| is_leaf_frame(frame));
    let frames = frames.into_iter().skip(last.map_or(0, |last| last + 1));
    frames.take_while(|frame| !is_root_frame(frame)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_the_recorder_and_below_the_task_are_left_out() {
        let text = "   0: blitzen::runtime::dump::deep::record\n\
                    \u{20}            at ./deep.rs:1:2\n\
                    \u{20}  1: blitzen_util::wait::pending\n\
                    \u{20}  2: app::leaf\n\
                    \u{20}            at ./app.rs:7:3\n\
                    \u{20}  3: app::main::{{closure}}\n\
                    \u{20}  4: blitzen_task::raw::poll_cell\n\
                    \u{20}  5: main\n";
        assert_eq!(
            frames(text),
            ["app::leaf at ./app.rs:7:3", "app::main::{{closure}}"]
        );
        assert!(frames("").is_empty());
    }

    #[test]
    fn frames_that_show_only_a_functions_own_name_are_known_by_their_file() {
        let text = "   0: record\n\
                    \u{20}            at ./src/runtime/dump/deep.rs:1:2\n\
                    \u{20}  1: pending\n\
                    \u{20}            at /elsewhere/crates/util/src/wait.rs:3:4\n\
                    \u{20}  2: leaf\n\
                    \u{20}            at ./app.rs:7:3\n\
                    \u{20}  3: poll<app>\n\
                    \u{20}            at /elsewhere/crates/task/src/cell.rs:5:6\n\
                    \u{20}  4: main\n";
        assert_eq!(frames(text), ["leaf at ./app.rs:7:3"]);
    }
}
