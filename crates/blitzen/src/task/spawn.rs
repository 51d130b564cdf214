//! Starting tasks on the current runtime.

use std::future::Future;

use blitzen_task::glue::next_id;
use blitzen_task::{Id, JoinHandle, SpawnMeta, current};

use crate::runtime::{context, global};

/// Spawns a task on the current runtime and returns a [`JoinHandle`] for its output.
///
/// The task starts at once, whether or not the handle is awaited. It runs until `future` ends,
/// it is aborted, or its runtime shuts down; dropping the handle does not stop it.
///
/// # Examples
///
/// ```
/// use blitzen::task;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let handles: Vec<_> = (0..10).map(|n| task::spawn(async move { n * n })).collect();
/// let mut sum = 0;
/// for handle in handles {
///     sum += handle.await.unwrap();
/// }
/// assert_eq!(sum, 285);
/// # });
/// ```
///
/// # Panics
///
/// Panics outside a runtime, unless the crate feature `global` is on: then the task runs on the
/// runtime of the process, which is built when it is first needed.
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    spawn_with(future, SpawnMeta::caller())
}

/// [`spawn`], with the metadata of the task given.
#[track_caller]
pub(crate) fn spawn_with<F>(future: F, meta: SpawnMeta) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let id = next_id();
    if let Some(runtime) = global::for_code_outside() {
        return runtime.inner.spawn(future, id, meta);
    }
    let spawned = context::with_current(|handle| match handle.inner.has_spawn_hook() {
        false => Ok(handle.inner.scheduler().spawn(future, id, meta)),
        true => Err((handle.clone(), future, meta)),
    });
    match spawned {
        Ok(Ok((handle, refused))) => {
            // Outside the context: this drops the future.
            drop(refused);
            handle
        }
        // Outside the context: this calls the hook.
        Ok(Err((runtime, future, meta))) => runtime.inner.spawn(future, id, meta),
        Err(error) => global::no_runtime(&error),
    }
}

/// Returns the id of the running task.
///
/// # Examples
///
/// ```
/// use blitzen::task;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let handle = task::spawn(async { task::id() });
/// let id = handle.id();
/// assert_eq!(handle.await.unwrap(), id);
/// # });
/// ```
///
/// # Panics
///
/// Panics outside a task, which includes the future given to `block_on`. See [`try_id`].
#[track_caller]
pub fn id() -> Id {
    match try_id() {
        Some(id) => id,
        None => panic!("Can't get a task id when not inside a task"),
    }
}

/// Returns the id of the running task, or `None` outside a task.
///
/// # Examples
///
/// ```
/// use blitzen::task;
///
/// assert_eq!(task::try_id(), None);
/// ```
pub fn try_id() -> Option<Id> {
    current::id()
}
