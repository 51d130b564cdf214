//! Starting tasks on the current runtime.

use std::future::Future;

use blitzen_task::glue::next_id;
use blitzen_task::{Id, JoinHandle, SpawnMeta, current};

use crate::runtime::context;

/// Starts a task on the current runtime.
///
/// It runs even if the handle is dropped, until it ends, is aborted, or its
/// runtime shuts down.
///
/// ```
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let tasks: Vec<_> = (0..10).map(|n| blitzen::spawn(async move { n * n })).collect();
/// let mut sum = 0;
/// for task in tasks {
///     sum += task.await.unwrap();
/// }
/// assert_eq!(sum, 285);
/// # });
/// ```
///
/// # Panics
/// Outside a runtime.
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    spawn_with(future, SpawnMeta::caller())
}

/// [`spawn`], with the task's name and place given.
#[track_caller]
pub(crate) fn spawn_with<F>(future: F, meta: SpawnMeta) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let id = next_id();
    let spawned = context::with_current(|handle| {
        let scheduler = handle.inner.scheduler();
        scheduler.spawn(future, id, meta)
    });
    match spawned {
        Ok((handle, refused)) => {
            // Outside the context: this drops the future.
            drop(refused);
            handle
        }
        Err(error) => panic!("{error}"),
    }
}

/// The name of the running task.
///
/// ```
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let task = blitzen::spawn(async { blitzen::task::id() });
/// let id = task.id();
/// assert_eq!(task.await.unwrap(), id);
/// # });
/// ```
///
/// # Panics
/// Outside a task: also directly in `block_on`. See [`try_id`].
#[track_caller]
pub fn id() -> Id {
    match try_id() {
        Some(id) => id,
        None => panic!("Can't get a task id when not inside a task"),
    }
}

/// The name of the running task, if there is one.
///
/// ```
/// assert_eq!(blitzen::task::try_id(), None);
/// ```
pub fn try_id() -> Option<Id> {
    current::id()
}
