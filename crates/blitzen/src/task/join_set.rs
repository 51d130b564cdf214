//! Many tasks, joined in the order in which they end.
//!
//! J1. A slot holds the handle of a task that was not joined yet. The task's
//!     join waker carries the slot's number and generation, and puts them into
//!     the list of the ended once.
//! J2. A generation that is no longer the slot's is of a task that was let go.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker, ready};

use blitzen_task::finished_queue::FinishedQueue;
use blitzen_task::glue::{next_id, set_join_waker, try_take_output};
use blitzen_task::{AbortHandle, Id, JoinError, JoinHandle, SpawnMeta};
use blitzen_util::coop;

use super::local::{LocalSet, spawn_local_with};
use super::panics::{self, unless_panicking};
use super::spawn::spawn_with;
use crate::runtime::Handle;

/// A set of tasks with the same type of output.
///
/// Dropping it aborts them all.
///
/// ```
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let mut tasks = blitzen::task::JoinSet::new();
/// for n in 0..10 {
///     tasks.spawn(async move { n });
/// }
/// let mut sum = 0;
/// while let Some(ended) = tasks.join_next().await {
///     sum += ended.unwrap();
/// }
/// assert_eq!(sum, 45);
/// # });
/// ```
pub struct JoinSet<T> {
    slots: Vec<TaskSlot<T>>,
    /// The first free slot.
    free: Option<usize>,
    len: usize,
    /// Taken from `finished`, the oldest last.
    taken: Vec<TaskKey>,
    finished: Arc<FinishedQueue<TaskKey>>,
}

struct TaskSlot<T> {
    generation: u32,
    state: TaskSlotState<T>,
}

enum TaskSlotState<T> {
    Live(JoinHandle<T>),
    Free { next: Option<usize> },
}

#[derive(Clone, Copy)]
struct TaskKey {
    slot: u32,
    generation: u32,
}

/// The join waker of one task (J1).
struct JoinWaker {
    key: TaskKey,
    finished: Arc<FinishedQueue<TaskKey>>,
}

impl Wake for JoinWaker {
    fn wake(self: Arc<Self>) {
        self.finished.push(self.key);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.finished.push(self.key);
    }
}

impl<T> JoinSet<T> {
    /// An empty set.
    ///
    /// ```
    /// let tasks = blitzen::task::JoinSet::<()>::new();
    /// assert!(tasks.is_empty());
    /// ```
    pub fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: None,
            len: 0,
            taken: Vec::new(),
            finished: Arc::default(),
        }
    }

    /// How many tasks were not joined yet.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # let _inside = runtime.enter();
    /// let mut tasks = blitzen::task::JoinSet::new();
    /// tasks.spawn(async {});
    /// assert_eq!(tasks.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether all tasks were joined.
    ///
    /// ```
    /// assert!(blitzen::task::JoinSet::<()>::new().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The handles of all tasks that were not joined.
    fn take_all(&mut self) -> impl Iterator<Item = JoinHandle<T>> + use<T> {
        self.len = 0;
        self.free = None;
        self.taken.clear();
        let slots = std::mem::take(&mut self.slots);
        // Wakers of these tasks may still come: not to the slots of new ones (J2).
        self.finished = Arc::default();
        slots.into_iter().filter_map(|slot| match slot.state {
            TaskSlotState::Live(handle) => Some(handle),
            TaskSlotState::Free { .. } => None,
        })
    }

    fn remove(&mut self, key: TaskKey) -> Option<JoinHandle<T>> {
        let index = key.slot as usize;
        let slot = self.slots.get_mut(index)?;
        if slot.generation != key.generation {
            return None; // J2
        }
        let freed = TaskSlotState::Free { next: self.free };
        let TaskSlotState::Live(handle) = std::mem::replace(&mut slot.state, freed) else {
            unreachable!("a generation ends once (J1)");
        };
        slot.generation = slot.generation.wrapping_add(1);
        self.free = Some(index);
        self.len -= 1;
        Some(handle)
    }

    /// The oldest task that has ended.
    fn pop_finished(&mut self) -> Option<JoinHandle<T>> {
        loop {
            if self.taken.is_empty() {
                self.finished.take_all(&mut self.taken);
                self.taken.reverse();
            }
            let key = self.taken.pop()?;
            if let Some(handle) = self.remove(key) {
                return Some(handle);
            }
        }
    }
}

impl<T: 'static> JoinSet<T> {
    /// Adds a task that was just spawned.
    fn insert(&mut self, mut handle: JoinHandle<T>) -> AbortHandle {
        let abort = handle.abort_handle();
        let index = match self.free {
            Some(index) => index,
            None => {
                self.slots.push(TaskSlot {
                    generation: 0,
                    state: TaskSlotState::Free { next: None },
                });
                self.slots.len() - 1
            }
        };
        let slot = &mut self.slots[index];
        let key = TaskKey {
            slot: index as u32,
            generation: slot.generation,
        };
        let waker = Arc::new(JoinWaker {
            key,
            finished: self.finished.clone(),
        });
        let has_ended = set_join_waker(&mut handle, Waker::from(waker));
        let TaskSlotState::Free { next } =
            std::mem::replace(&mut slot.state, TaskSlotState::Live(handle))
        else {
            unreachable!("the slot was free");
        };
        self.free = next;
        self.len += 1;
        if has_ended {
            // Last: this calls the joiner's waker, which may panic.
            self.finished.push(key);
        }
        abort
    }

    /// Starts a task on the current runtime.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = blitzen::task::JoinSet::new();
    /// tasks.spawn(async { 1 });
    /// assert_eq!(tasks.join_next().await.unwrap().unwrap(), 1);
    /// # });
    /// ```
    ///
    /// # Panics
    /// Outside a runtime.
    #[track_caller]
    pub fn spawn<F>(&mut self, task: F) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        self.insert(spawn_with(task, SpawnMeta::caller()))
    }

    /// Starts a task on a runtime.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let mut tasks = blitzen::task::JoinSet::new();
    /// tasks.spawn_on(async { 1 }, runtime.handle());
    /// assert_eq!(runtime.block_on(tasks.join_all()), [1]);
    /// ```
    #[track_caller]
    pub fn spawn_on<F>(&mut self, task: F, handle: &Handle) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        self.insert(handle.inner.spawn(task, next_id(), SpawnMeta::caller()))
    }

    /// Starts a task on the current [`LocalSet`] or local runtime.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::LocalRuntime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = blitzen::task::JoinSet::new();
    /// tasks.spawn_local(async { std::rc::Rc::new(1) });
    /// assert_eq!(*tasks.join_next().await.unwrap().unwrap(), 1);
    /// # });
    /// ```
    ///
    /// # Panics
    /// Outside a `LocalSet` and a local runtime.
    #[track_caller]
    pub fn spawn_local<F>(&mut self, task: F) -> AbortHandle
    where
        F: Future<Output = T> + 'static,
    {
        self.insert(spawn_local_with(task, SpawnMeta::caller()))
    }

    /// Starts a task on a [`LocalSet`].
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let local = blitzen::task::LocalSet::new();
    /// let mut tasks = blitzen::task::JoinSet::new();
    /// tasks.spawn_local_on(async { 1 }, &local);
    /// assert_eq!(local.block_on(&runtime, tasks.join_all()), [1]);
    /// ```
    #[track_caller]
    pub fn spawn_local_on<F>(&mut self, task: F, local_set: &LocalSet) -> AbortHandle
    where
        F: Future<Output = T> + 'static,
    {
        self.insert(local_set.spawn_with(task, SpawnMeta::caller()))
    }

    /// Runs code that blocks on the current runtime's pool for it.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = blitzen::task::JoinSet::new();
    /// tasks.spawn_blocking(|| 1);
    /// assert_eq!(tasks.join_all().await, [1]);
    /// # });
    /// ```
    ///
    /// # Panics
    /// Outside a runtime.
    #[track_caller]
    pub fn spawn_blocking<F>(&mut self, code: F) -> AbortHandle
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send,
    {
        self.spawn_blocking_on(code, &Handle::current())
    }

    /// Runs code that blocks on a runtime's pool for it.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let mut tasks = blitzen::task::JoinSet::new();
    /// tasks.spawn_blocking_on(|| 1, runtime.handle());
    /// assert_eq!(runtime.block_on(tasks.join_all()), [1]);
    /// ```
    #[track_caller]
    pub fn spawn_blocking_on<F>(&mut self, code: F, handle: &Handle) -> AbortHandle
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send,
    {
        self.insert(
            handle
                .inner
                .spawn_blocking(code, false, SpawnMeta::caller()),
        )
    }

    /// Waits until a task ends, and gives its output; `None` if there is no
    /// task.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = blitzen::task::JoinSet::new();
    /// tasks.spawn(async { "one" });
    /// assert_eq!(tasks.join_next().await.unwrap().unwrap(), "one");
    /// assert!(tasks.join_next().await.is_none());
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// If it is dropped before it ends, no task was joined.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        poll_fn(|cx| self.poll_join_next(cx)).await
    }

    /// Like [`join_next`](Self::join_next), with the task's id.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = blitzen::task::JoinSet::new();
    /// let task = tasks.spawn(async { 1 });
    /// let (id, output) = tasks.join_next_with_id().await.unwrap().unwrap();
    /// assert_eq!((id, output), (task.id(), 1));
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// If it is dropped before it ends, no task was joined.
    pub async fn join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        poll_fn(|cx| self.poll_join_next_with_id(cx)).await
    }

    /// The output of a task that has ended, if there is one.
    ///
    /// ```
    /// let mut tasks = blitzen::task::JoinSet::<()>::new();
    /// assert!(tasks.try_join_next().is_none());
    /// ```
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.try_join_next_with_id()
            .map(|ended| ended.map(|(_, output)| output))
    }

    /// Like [`try_join_next`](Self::try_join_next), with the task's id.
    ///
    /// ```
    /// let mut tasks = blitzen::task::JoinSet::<()>::new();
    /// assert!(tasks.try_join_next_with_id().is_none());
    /// ```
    pub fn try_join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        self.pop_finished().map(output)
    }

    /// Aborts all tasks and waits until they have ended.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = blitzen::task::JoinSet::new();
    /// tasks.spawn(std::future::pending::<()>());
    /// tasks.shutdown().await;
    /// assert!(tasks.is_empty());
    /// # });
    /// ```
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while self.join_next().await.is_some() {}
    }

    /// Waits for all tasks, and gives their outputs in the order in which they
    /// ended.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let tasks: blitzen::task::JoinSet<_> = (0..3).map(|n| async move { n }).collect();
    /// let mut outputs = tasks.join_all().await;
    /// outputs.sort();
    /// assert_eq!(outputs, [0, 1, 2]);
    /// # });
    /// ```
    ///
    /// # Panics
    /// If a task panicked, with what it panicked with, or was cancelled.
    pub async fn join_all(mut self) -> Vec<T> {
        let mut outputs = Vec::with_capacity(self.len);
        while let Some(ended) = self.join_next().await {
            match ended {
                Ok(output) => outputs.push(output),
                Err(error) => match error.try_into_panic() {
                    Ok(payload) => resume_unwind(payload),
                    Err(error) => panic!("{error}"),
                },
            }
        }
        outputs
    }

    /// Aborts all tasks; they still have to be joined.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = blitzen::task::JoinSet::new();
    /// tasks.spawn(std::future::pending::<()>());
    /// tasks.abort_all();
    /// assert!(tasks.join_next().await.unwrap().unwrap_err().is_cancelled());
    /// # });
    /// ```
    pub fn abort_all(&mut self) {
        abort_each(self.slots.iter().filter_map(|slot| match &slot.state {
            TaskSlotState::Live(handle) => Some(handle),
            TaskSlotState::Free { .. } => None,
        }));
    }

    /// Lets all tasks go on by themselves.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # let _inside = runtime.enter();
    /// let mut tasks = blitzen::task::JoinSet::new();
    /// tasks.spawn(async {});
    /// tasks.detach_all();
    /// assert!(tasks.is_empty());
    /// ```
    pub fn detach_all(&mut self) {
        drop(self.take_all().collect::<Vec<_>>());
    }

    /// Polls for a task that has ended; `Ready(None)` if there is no task.
    ///
    /// ```
    /// use std::task::{Context, Poll, Waker};
    ///
    /// let mut tasks = blitzen::task::JoinSet::<()>::new();
    /// let mut cx = Context::from_waker(Waker::noop());
    /// assert!(matches!(tasks.poll_join_next(&mut cx), Poll::Ready(None)));
    /// ```
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        self.poll_join_next_with_id(cx)
            .map(|ended| ended.map(|ended| ended.map(|(_, output)| output)))
    }

    /// Like [`poll_join_next`](Self::poll_join_next), with the task's id.
    ///
    /// ```
    /// use std::task::{Context, Poll, Waker};
    ///
    /// let mut tasks = blitzen::task::JoinSet::<()>::new();
    /// let mut cx = Context::from_waker(Waker::noop());
    /// assert!(matches!(tasks.poll_join_next_with_id(&mut cx), Poll::Ready(None)));
    /// ```
    pub fn poll_join_next_with_id(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<(Id, T), JoinError>>> {
        if self.is_empty() {
            return Poll::Ready(None);
        }
        let spent = ready!(coop::poll_proceed(cx));
        if let Some(handle) = self.pop_finished() {
            spent.made_progress();
            return Poll::Ready(Some(output(handle)));
        }
        if self.finished.register(cx.waker()) {
            return Poll::Pending;
        }
        // One ended just now.
        drop(spent);
        self.poll_join_next_with_id(cx)
    }
}

/// The output of a task that has ended.
fn output<T>(mut handle: JoinHandle<T>) -> Result<(Id, T), JoinError> {
    let id = handle.id();
    match try_take_output(&mut handle) {
        Some(output) => output.map(|output| (id, output)),
        None => unreachable!("the task has ended (J1)"),
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        let handles: Vec<_> = self.take_all().collect();
        unless_panicking(|| abort_each(handles.iter()));
    }
}

/// Aborts every task. This may wake whoever runs it, by a waker that panics.
fn abort_each<'a, T: 'a>(handles: impl Iterator<Item = &'a JoinHandle<T>>) {
    panics::for_each(handles, JoinHandle::abort);
}

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet").field("len", &self.len()).finish()
    }
}

impl<T, F> FromIterator<F> for JoinSet<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    fn from_iter<I: IntoIterator<Item = F>>(tasks: I) -> Self {
        let mut set = Self::new();
        set.extend(tasks);
        set
    }
}

impl<T, F> Extend<F> for JoinSet<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    fn extend<I: IntoIterator<Item = F>>(&mut self, tasks: I) {
        for task in tasks {
            self.spawn(task);
        }
    }
}
