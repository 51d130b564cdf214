//! What the tasks of a runtime do, seen from outside.
//!
//! [`Handle::tasks`](super::Handle::tasks) lists every live task: where it was spawned, whether it
//! runs, and what it waits for. It polls nothing and stops nobody, and works although every worker
//! is stuck.
//!
//! [`Handle::dump`](super::Handle::dump) also shows where in its code each task waits. For that it
//! has every task polled once more.
//!
//! With [`note_lock_owners`] both say which task holds the lock that another one waits for, and
//! [`Handle::deadlocks`](super::Handle::deadlocks) finds tasks that wait for each other.
//!
//! ```
//! use blitzen::runtime::Runtime;
//!
//! let runtime = Runtime::new().unwrap();
//! let task = runtime.spawn(std::future::pending::<()>());
//! let tasks = runtime.handle().tasks();
//! assert_eq!(tasks.len(), 1);
//! println!("{tasks}");
//! task.abort();
//! ```

mod deadlock;
mod deep;
mod known_stack;
#[cfg(unix)]
mod on_signal;
mod task_list;

cfg_select! {
    all(tokio_unstable, feature = "task-trace") => { mod trace; }
    _ => { #[path = "trace_disabled.rs"] mod trace; }
}

pub use blitzen_task::TaskStatus;
pub use blitzen_util::wait::WaitKind;
pub use deadlock::{Deadlock, note_lock_owners};
pub(crate) use deadlock::{find as find_deadlocks, note_lock_owners_if_asked};
#[cfg(feature = "stack-samples")]
pub(crate) use deep::is_root_frame;
pub use deep::{AwaitStack, Dump, DumpedTask};
#[cfg(unix)]
pub(crate) use on_signal::DumpOnSignal;
pub use task_list::{ListedTask, TaskList, TaskWait};
#[doc(hidden)]
pub use trace::trace_leaf;
#[cfg(all(tokio_unstable, feature = "task-trace"))]
pub use trace::{
    Backtrace, BacktraceFrame, BacktraceSymbol, Root, Task, Tasks, Trace, TraceMeta, trace_with,
};
