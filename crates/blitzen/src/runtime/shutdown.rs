//! The shutdown of a runtime.

use std::fmt;
use std::io;
use std::panic::Location;
use std::time::{Duration, Instant};

use blitzen_sched::CoreGuard;

use super::context;
use super::handle::Handle;
use super::inner::Flavor;
use crate::task::Id as TaskId;

/// What had not stopped when the time for a shutdown ran out.
///
/// [`Runtime::shutdown_within`](super::Runtime::shutdown_within) returns it.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use blitzen::runtime::Builder;
///
/// let runtime = Builder::new_multi_thread().build().unwrap();
/// let (release, wait) = mpsc::channel::<()>();
/// let (begun, beginning) = mpsc::channel();
/// runtime.spawn(async move {
///     begun.send(()).unwrap();
///     let _ = wait.recv(); // blocks its worker
/// });
/// beginning.recv().unwrap();
/// let stragglers = runtime.shutdown_within(Duration::ZERO).unwrap_err();
/// assert_eq!(stragglers.tasks.len(), 1);
/// assert_eq!(stragglers.blocking_threads, 0);
/// drop(release);
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Stragglers {
    /// The tasks that were in the middle of a poll, or queued behind one.
    pub tasks: Vec<StragglingTask>,
    /// The number of threads of the blocking pool that were running code.
    pub blocking_threads: usize,
}

/// A task that had not stopped when the time for a shutdown ran out.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use blitzen::runtime::Builder;
///
/// let runtime = Builder::new_multi_thread().build().unwrap();
/// let (release, wait) = mpsc::channel::<()>();
/// let (begun, beginning) = mpsc::channel();
/// runtime.spawn(async move {
///     begun.send(()).unwrap();
///     let _ = wait.recv(); // blocks its worker
/// });
/// beginning.recv().unwrap();
/// let stragglers = runtime.shutdown_within(Duration::ZERO).unwrap_err();
/// assert_eq!(stragglers.tasks[0].name, None);
/// assert_eq!(stragglers.tasks[0].state, "running");
/// drop(release);
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct StragglingTask {
    /// The id of the task.
    pub id: TaskId,
    /// The name of the task, if it was given one.
    pub name: Option<String>,
    /// The line that spawned the task.
    pub spawned_at: &'static Location<'static>,
    /// The state of the task: `"running"`, or `"scheduled"` if it waits behind one that is.
    pub state: &'static str,
}

impl fmt::Display for Stragglers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the runtime did not stop in time: {} task(s) and {} blocking thread(s) are still at \
             work",
            self.tasks.len(),
            self.blocking_threads
        )?;
        for task in &self.tasks {
            write!(f, "; task {}", task.id)?;
            if let Some(name) = &task.name {
                write!(f, " ({name})")?;
            }
            write!(f, " spawned at {} is {}", task.spawned_at, task.state)?;
        }
        Ok(())
    }
}

impl std::error::Error for Stragglers {}

/// How long to wait for the end.
#[derive(Clone, Copy)]
pub(crate) enum ShutdownWait {
    Endless,
    Within(Duration),
    None,
}

/// Shuts a runtime down: cancels its tasks, lets running polls and blocking
/// work end, and joins the threads, as far as `wait` allows.
pub(crate) fn shut_down(handle: &Handle, wait: ShutdownWait) -> Result<(), Stragglers> {
    let inner = &handle.inner;
    inner.observers.stop(wait);
    // Destructors of futures run inside the runtime they lived in, unless the
    // thread is ending, and takes the runtime along with its thread-locals.
    let runtime = context::try_enter(handle);
    inner.scheduler().close();
    inner.world().close_relief_threads(inner.scheduler());
    if let Flavor::CurrentThread(core) = inner.flavor()
        && let Some(worker) = core.take()
    {
        CoreGuard::enter(worker).close();
    }
    drop(runtime);
    inner.pool().close();

    let deadline = match wait {
        ShutdownWait::Endless => None,
        ShutdownWait::Within(limit) => Instant::now().checked_add(limit),
        ShutdownWait::None => Some(Instant::now()),
    };
    let left = || deadline.map(|end| end.saturating_duration_since(Instant::now()));
    let stopped = inner.scheduler().wait_stopped(left());
    // Before the pool: its threads may be waiting for sockets or timers.
    inner.world().shut_sources();
    inner.world().shut_timers();
    // Its threads may be waiting for coroutines of this one.
    let pool_limit = match inner.scheduler().must_not_wait_here() {
        true => Some(Duration::ZERO),
        false => left(),
    };
    let blocking_threads = inner.pool().wait(pool_limit);
    if stopped {
        inner.world().join_threads();
    }
    inner.finish_trace_writers(deadline);
    if stopped && blocking_threads == 0 {
        return Ok(());
    }
    let mut tasks = Vec::new();
    inner.scheduler().for_each_task(|task| {
        tasks.push(StragglingTask {
            id: task.id(),
            name: task.spawn_meta().name().map(str::to_owned),
            spawned_at: task.spawn_meta().location(),
            state: task.state_name(),
        });
    });
    Err(Stragglers {
        tasks,
        blocking_threads,
    })
}

/// Returns whether `error` says that an operation failed because its runtime was shut down.
///
/// # Examples
///
/// ```
/// use std::io;
/// use blitzen::runtime::is_rt_shutdown_err;
///
/// let error = io::Error::other("disk on fire");
/// assert!(!is_rt_shutdown_err(&error));
/// ```
pub fn is_rt_shutdown_err(error: &io::Error) -> bool {
    blitzen_driver::is_shutdown_error(error)
}
