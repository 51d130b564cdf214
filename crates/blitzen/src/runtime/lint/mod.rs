//! Findings about tasks and workers that a program is usually better without.
//!
//! With [`Builder::on_lint`](super::Builder::on_lint),
//! [`Builder::slow_poll`](super::Builder::slow_poll) or `BLITZEN_LINTS=stderr` in the environment
//! a runtime has a thread that looks for them. Workers do nothing for it.
//!
//! ```
//! use std::sync::mpsc;
//! use std::time::Duration;
//! use blitzen::runtime::{Builder, lint::LintKind};
//!
//! let (found, findings) = mpsc::channel();
//! let runtime = Builder::new_multi_thread()
//!     .slow_poll(Duration::from_millis(20))
//!     .on_lint(move |lint| drop(found.send(lint.clone())))
//!     .build()
//!     .unwrap();
//! let (release, wait) = mpsc::channel::<()>();
//! runtime.spawn(async move {
//!     let _ = wait.recv(); // blocks its worker
//! });
//! let lint = findings.recv().unwrap();
//! assert!(matches!(lint.kind(), LintKind::SlowPoll | LintKind::BlockingLock));
//! assert_eq!(lint.task().unwrap().spawned_at().file(), file!());
//! drop(release);
//! ```

mod detector;
mod observer;
mod recent;
mod system_call;

use std::fmt;
use std::time::Duration;

pub use blitzen_observe::LintKind;

use super::dump::{Deadlock, ListedTask, TaskList};

pub(crate) use observer::{LintOptions, Observer};
pub(crate) use recent::RecentLints;

/// Futures from this size on are reported: they are copied when they are spawned, and every task
/// keeps its largest moment in memory.
const LARGE_FUTURE: usize = 16 * 1024;

/// A finding about a task or a worker.
///
/// Its `Display` form is one line.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::{Runtime, lint::LintKind};
///
/// let runtime = Runtime::new().unwrap();
/// let bytes = [0_u8; 20_000];
/// let task = runtime.spawn(async move {
///     std::future::pending::<()>().await;
///     drop(bytes);
/// });
/// let lints = runtime.handle().tasks().lints();
/// assert!(lints.iter().any(|lint| lint.kind() == LintKind::LargeFuture));
/// task.abort();
/// ```
#[derive(Clone, Debug)]
pub struct Lint {
    kind: LintKind,
    task: Option<ListedTask>,
    worker: Option<usize>,
    duration: Option<Duration>,
    processor_wait: Option<Duration>,
    system_call: Option<Box<str>>,
    /// Innermost first.
    stack: Vec<String>,
    /// Tasks or jobs that wait, or polls in a second.
    count: Option<u64>,
    deadlock: Option<Deadlock>,
}

impl Lint {
    fn new(kind: LintKind) -> Self {
        Self {
            kind,
            task: None,
            worker: None,
            duration: None,
            processor_wait: None,
            system_call: None,
            stack: Vec::new(),
            count: None,
            deadlock: None,
        }
    }

    fn of_deadlock(deadlock: Deadlock) -> Self {
        let kind = match deadlock.is_futurelock() {
            true => LintKind::Futurelock,
            false => LintKind::Deadlock,
        };
        Self {
            task: deadlock.tasks().first().cloned(),
            deadlock: Some(deadlock),
            ..Self::new(kind)
        }
    }

    fn of_task(kind: LintKind, task: ListedTask) -> Self {
        Self {
            task: Some(task),
            ..Self::new(kind)
        }
    }

    /// Returns what it is about.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::lint::{Lint, LintKind};
    ///
    /// fn is_slow(lint: &Lint) -> bool {
    ///     lint.kind() == LintKind::SlowPoll
    /// }
    /// ```
    pub fn kind(&self) -> LintKind {
        self.kind
    }

    /// Returns the task, if it is about one that could be named.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::lint::Lint;
    ///
    /// fn line(lint: &Lint) -> Option<u32> {
    ///     Some(lint.task()?.spawned_at().line())
    /// }
    /// ```
    pub fn task(&self) -> Option<&ListedTask> {
        self.task.as_ref()
    }

    /// Returns the tasks that wait for each other, if it is about a deadlock or a futurelock.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::lint::Lint;
    ///
    /// fn stuck_tasks(lint: &Lint) -> usize {
    ///     lint.deadlock().map_or(0, |deadlock| deadlock.tasks().len())
    /// }
    /// ```
    pub fn deadlock(&self) -> Option<&Deadlock> {
        self.deadlock.as_ref()
    }

    /// Returns the index of the worker, if it is about one.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::lint::Lint;
    ///
    /// fn is_of_the_first_worker(lint: &Lint) -> bool {
    ///     lint.worker() == Some(0)
    /// }
    /// ```
    pub fn worker(&self) -> Option<usize> {
        self.worker
    }

    /// Returns how long it had lasted at least when it was found, if that was measured.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::runtime::lint::Lint;
    ///
    /// fn is_serious(lint: &Lint) -> bool {
    ///     lint.duration() > Some(Duration::from_secs(10))
    /// }
    /// ```
    pub fn duration(&self) -> Option<Duration> {
        self.duration
    }

    /// Returns about how long the thread of a slow poll could have run and had no processor: then not
    /// the poll is slow, but the machine or the container is short of processors. `None` if that could
    /// not be found out. Found on Linux.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::lint::Lint;
    ///
    /// fn is_to_blame(lint: &Lint) -> bool {
    ///     lint.processor_wait() < lint.duration().map(|duration| duration / 2)
    /// }
    /// ```
    pub fn processor_wait(&self) -> Option<Duration> {
        self.processor_wait
    }

    /// Returns the system call that a slow poll was in, such as `"futex"`; `None` if it was in
    /// none, or if that could not be found out. Found on Linux.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::lint::Lint;
    ///
    /// fn sleeps(lint: &Lint) -> bool {
    ///     lint.system_call() == Some("clock_nanosleep")
    /// }
    /// ```
    pub fn system_call(&self) -> Option<&str> {
        self.system_call.as_deref()
    }

    /// Returns the calls that a slow poll was in, innermost first: the name of a function and, if
    /// the program has debug information, its file and line. Empty without
    /// `Builder::stack_samples`, and if the stack could not be read.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::lint::Lint;
    ///
    /// fn innermost(lint: &Lint) -> Option<&str> {
    ///     lint.stack().first().map(String::as_str)
    /// }
    /// ```
    pub fn stack(&self) -> &[String] {
        &self.stack
    }
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(deadlock) = &self.deadlock {
            return write!(f, "{deadlock}");
        }
        write!(f, "{}: ", self.kind)?;
        let count = self.count.unwrap_or(0);
        let duration = self.duration.unwrap_or_default();
        match self.kind {
            LintKind::SlowPoll => write!(f, "a poll has not ended for {duration:.1?}")?,
            LintKind::BlockingLock => {
                write!(f, "a poll has waited for a lock of std for {duration:.1?}")?
            }
            LintKind::LostWaker => {
                f.write_str("a task waits, and nobody has a waker for it: it will never run again")?
            }
            LintKind::SelfWake => write!(
                f,
                "a task wakes itself in nearly every poll: {count} polls a second"
            )?,
            LintKind::LargeFuture => {
                let size = self.task.as_ref().map_or(0, ListedTask::future_size);
                write!(f, "the future of a task takes {size} bytes")?
            }
            LintKind::Starved => write!(
                f,
                "{count} queued task(s), and no thread has polled any for {duration:.1?}"
            )?,
            LintKind::PoolFull => write!(
                f,
                "all threads of the blocking pool are busy, and {count} job(s) wait for one"
            )?,
            _ => {} // a deadlock has said so itself
        }
        if let Some(call) = self.system_call() {
            write!(f, ", in {call}(2)")?;
        }
        if let Some(wait) = self.processor_wait.filter(|wait| *wait * 10 >= duration) {
            write!(f, ", without a processor for {wait:.1?}")?;
        }
        if let Some(worker) = self.worker {
            write!(f, ", on worker {worker}")?;
        }
        match &self.task {
            Some(task) => write!(f, ": {task}"),
            None => Ok(()),
        }
    }
}

impl TaskList {
    /// Returns what the list shows of lost wakers and large futures.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::{Runtime, dump::TaskStatus, lint::LintKind};
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let task = runtime.spawn(std::future::pending::<()>()); // keeps no waker
    /// let tasks = loop {
    ///     let tasks = runtime.handle().tasks();
    ///     if tasks.get(task.id()).unwrap().status() == TaskStatus::Idle {
    ///         break tasks;
    ///     }
    /// };
    /// assert_eq!(tasks.lints()[0].kind(), LintKind::LostWaker);
    /// task.abort();
    /// ```
    pub fn lints(&self) -> Vec<Lint> {
        let lost = |task: &ListedTask| {
            task.has_lost_its_waker()
                .then(|| Lint::of_task(LintKind::LostWaker, task.clone()))
        };
        let large = |task: &ListedTask| {
            (task.future_size() >= LARGE_FUTURE)
                .then(|| Lint::of_task(LintKind::LargeFuture, task.clone()))
        };
        self.iter()
            .flat_map(|task| lost(task).into_iter().chain(large(task)))
            .collect()
    }
}
