//! Callbacks about tasks.

use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use blitzen_sched::TaskInfo;
use blitzen_task::{Id, SpawnMeta};
use blitzen_util::quiet::quietly;

/// What a hook of the [`Builder`](super::Builder) learns about a task.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::{Builder, TaskMeta};
///
/// fn report(task: &TaskMeta<'_>) {
///     println!("task {} was spawned at {}", task.id(), task.spawned_at());
/// }
/// let runtime = Builder::new_current_thread().on_task_spawn(report).build().unwrap();
/// runtime.block_on(runtime.spawn(async {})).unwrap();
/// ```
pub struct TaskMeta<'a> {
    info: TaskInfo,
    /// For borrowed fields that may be added later.
    _task: PhantomData<&'a ()>,
}

impl TaskMeta<'_> {
    fn new(info: TaskInfo) -> Self {
        Self {
            info,
            _task: PhantomData,
        }
    }

    /// Returns the id of the task.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .on_task_terminate(|task| println!("{} has ended", task.id()))
    ///     .build()
    ///     .unwrap();
    /// # drop(runtime);
    /// ```
    pub fn id(&self) -> Id {
        self.info.id
    }

    /// Returns the line of code that spawned the task.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .on_task_spawn(|task| println!("spawned by {}", task.spawned_at().file()))
    ///     .build()
    ///     .unwrap();
    /// # drop(runtime);
    /// ```
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.info.spawned_at
    }

    /// Returns how long the task waited in queues for the poll that is about to begin, or has
    /// just ended.
    ///
    /// It is `None` unless [`Builder::track_task_schedule_latency`] or
    /// [`Builder::enable_metrics_schedule_latency_histogram`] was called, and in hooks that are
    /// called for no poll.
    ///
    /// [`Builder::track_task_schedule_latency`]: super::Builder::track_task_schedule_latency
    /// [`Builder::enable_metrics_schedule_latency_histogram`]: super::Builder::enable_metrics_schedule_latency_histogram
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_current_thread()
    ///     .track_task_schedule_latency()
    ///     .on_before_task_poll(|task| println!("it waited {:?}", task.schedule_latency().unwrap()))
    ///     .build()
    ///     .unwrap();
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// ```
    pub fn schedule_latency(&self) -> Option<Duration> {
        self.info.schedule_delay
    }
}

/// A callback about a task.
pub(crate) type TaskHook = Option<Arc<dyn Fn(&TaskMeta<'_>) + Send + Sync>>;

/// The callbacks about the tasks of a runtime.
#[derive(Clone, Default)]
pub(crate) struct TaskHooks {
    pub(crate) on_spawn: TaskHook,
    pub(crate) on_terminate: TaskHook,
    pub(crate) before_poll: TaskHook,
    pub(crate) after_poll: TaskHook,
}

impl TaskHooks {
    /// Calls the hook for a task that is about to be spawned.
    #[cold]
    pub(crate) fn spawned(&self, id: Id, meta: &SpawnMeta) {
        let spawned_at = meta.location();
        let task = TaskInfo {
            id,
            spawned_at,
            schedule_delay: None,
        };
        call(&self.on_spawn, &task);
    }
}

/// Calls a hook. A panic in it is reported by the panic hook, and ends nothing.
pub(crate) fn call(hook: &TaskHook, task: &TaskInfo) {
    if let Some(hook) = hook {
        quietly(|| hook(&TaskMeta::new(*task)));
    }
}
