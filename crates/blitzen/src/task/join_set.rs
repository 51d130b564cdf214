//! A set of tasks that are joined in the order in which they end: [`JoinSet`].
//!
//! # Examples
//!
//! ```
//! use blitzen::task::join_set::JoinSet;
//!
//! # let runtime = blitzen::runtime::Runtime::new().unwrap();
//! # runtime.block_on(async {
//! let tasks: JoinSet<_> = [1, 2, 3].map(|n| async move { n }).into_iter().collect();
//! assert_eq!(tasks.join_all().await.into_iter().sum::<i32>(), 6);
//! # });
//! ```

// J1. A slot holds the handle of a task that was not joined yet. The task's join waker has the slot's
//     number, and pushes it to the finished queue once. It is taken out there before the slot is free
//     again; a set that lets all its tasks go gets another queue.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::resume_unwind;
use std::task::{Context, Poll, ready};

use blitzen_task::finished_wakers::FinishedWakers;
use blitzen_task::glue::{next_id, set_join_waker, try_take_output};
use blitzen_task::{AbortHandle, Id, JoinError, JoinHandle, SpawnMeta};
use blitzen_util::coop;
use blitzen_util::wait::{self, WaitKind};

use super::local::{LocalSet, spawn_local_with};
use super::panics::{self, unless_panicking};
use super::spawn::spawn_with;
use crate::runtime::Handle;

/// A set of tasks with outputs of the same type, which are joined in the order in which they
/// end.
///
/// Dropping the set aborts its tasks.
///
/// # Examples
///
/// ```
/// use blitzen::task::JoinSet;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let mut tasks = JoinSet::new();
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
    /// Taken from the finished queue, the oldest last.
    taken: Vec<u32>,
    wakers: FinishedWakers,
}

enum TaskSlot<T> {
    Live(JoinHandle<T>),
    Free { next: Option<usize> },
}

impl<T> JoinSet<T> {
    /// Creates an empty set.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// let tasks = JoinSet::<()>::new();
    /// assert!(tasks.is_empty());
    /// ```
    pub fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: None,
            len: 0,
            taken: Vec::new(),
            wakers: FinishedWakers::new(),
        }
    }

    /// Returns the number of tasks that have not been joined.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = JoinSet::new();
    /// tasks.spawn(async {});
    /// assert_eq!(tasks.len(), 1);
    /// # });
    /// ```
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether all tasks have been joined.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// let tasks = JoinSet::<()>::new();
    /// assert!(tasks.is_empty());
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
        // Wakers of these tasks may still come: not for the slots of new ones (J1).
        self.wakers = FinishedWakers::new();
        slots.into_iter().filter_map(|slot| match slot {
            TaskSlot::Live(handle) => Some(handle),
            TaskSlot::Free { .. } => None,
        })
    }

    /// Takes out the task that ended first.
    fn pop_finished(&mut self) -> Option<JoinHandle<T>> {
        if self.taken.is_empty() {
            self.wakers.finished().take_all(&mut self.taken);
            self.taken.reverse();
        }
        let index = self.taken.pop()? as usize;
        let freed = TaskSlot::Free { next: self.free };
        let TaskSlot::Live(handle) = std::mem::replace(&mut self.slots[index], freed) else {
            unreachable!("a task ends once (J1)");
        };
        self.free = Some(index);
        self.len -= 1;
        Some(handle)
    }
}

impl<T: 'static> JoinSet<T> {
    /// Returns a builder that gives a task a name before it spawns it into the set.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = JoinSet::new();
    /// tasks.build_task().name("answer").spawn(async { 42 }).unwrap();
    /// assert_eq!(tasks.join_next().await.unwrap().unwrap(), 42);
    /// # });
    /// ```
    pub fn build_task(&mut self) -> Builder<'_, T> {
        Builder {
            set: self,
            task: super::Builder::new(),
        }
    }

    /// Adds a task that was just spawned.
    fn insert(&mut self, mut handle: JoinHandle<T>) -> AbortHandle {
        let abort = handle.abort_handle();
        let index = match self.free {
            Some(index) => index,
            None => {
                self.slots.push(TaskSlot::Free { next: None });
                self.slots.len() - 1
            }
        };
        let number = index as u32;
        let has_ended = set_join_waker(&mut handle, self.wakers.waker(number));
        let live = TaskSlot::Live(handle);
        let TaskSlot::Free { next } = std::mem::replace(&mut self.slots[index], live) else {
            unreachable!("the slot was free");
        };
        self.free = next;
        self.len += 1;
        if has_ended {
            // Last: this calls the joiner's waker, which may panic.
            self.wakers.finished().push(number);
        }
        abort
    }

    /// Spawns a task on the current runtime and adds it to the set.
    ///
    /// Returns a handle that can abort it.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = JoinSet::new();
    /// tasks.spawn(async { 1 });
    /// assert_eq!(tasks.join_next().await.unwrap().unwrap(), 1);
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics outside a runtime.
    #[track_caller]
    pub fn spawn<F>(&mut self, task: F) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        self.insert(spawn_with(task, SpawnMeta::caller()))
    }

    /// Spawns a task on the runtime of `handle` and adds it to the set.
    ///
    /// Returns a handle that can abort it.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let mut tasks = JoinSet::new();
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

    /// Spawns a task, which need not be `Send`, on the current [`LocalSet`] or
    /// [`LocalRuntime`](crate::runtime::LocalRuntime), and adds it to the set.
    ///
    /// Returns a handle that can abort it.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// # let runtime = blitzen::runtime::LocalRuntime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = JoinSet::new();
    /// tasks.spawn_local(async { std::rc::Rc::new(1) });
    /// assert_eq!(*tasks.join_next().await.unwrap().unwrap(), 1);
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics outside a `LocalSet` and a `LocalRuntime`.
    #[track_caller]
    pub fn spawn_local<F>(&mut self, task: F) -> AbortHandle
    where
        F: Future<Output = T> + 'static,
    {
        self.insert(spawn_local_with(task, SpawnMeta::caller()))
    }

    /// Spawns a task, which need not be `Send`, on `local_set`, and adds it to the set.
    ///
    /// Returns a handle that can abort it.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::{JoinSet, LocalSet};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let local = LocalSet::new();
    /// let mut tasks = JoinSet::new();
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

    /// Runs `code`, which may block, on the blocking pool of the current runtime, and adds it
    /// to the set.
    ///
    /// Returns a handle that can abort it. Code that has begun cannot be aborted.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = JoinSet::new();
    /// tasks.spawn_blocking(|| 1);
    /// assert_eq!(tasks.join_all().await, [1]);
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics outside a runtime, and if the pool has no thread and the system refuses to start
    /// one.
    #[track_caller]
    pub fn spawn_blocking<F>(&mut self, code: F) -> AbortHandle
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send,
    {
        self.spawn_blocking_on(code, &Handle::current())
    }

    /// Runs `code`, which may block, on the blocking pool of the runtime of `handle`, and adds
    /// it to the set.
    ///
    /// Returns a handle that can abort it. Code that has begun cannot be aborted.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let mut tasks = JoinSet::new();
    /// tasks.spawn_blocking_on(|| 1, runtime.handle());
    /// assert_eq!(runtime.block_on(tasks.join_all()), [1]);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the pool has no thread and the system refuses to start one.
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

    /// Waits until a task of the set ends, and returns its output.
    ///
    /// Returns `None` if the set is empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = JoinSet::new();
    /// tasks.spawn(async { "one" });
    /// assert_eq!(tasks.join_next().await.unwrap().unwrap(), "one");
    /// assert!(tasks.join_next().await.is_none());
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it ends, no task has been joined.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        poll_fn(|cx| self.poll_join_next(cx)).await
    }

    /// Waits until a task of the set ends, and returns its id and output.
    ///
    /// Returns `None` if the set is empty. The id of a task without an output is in the
    /// [`JoinError`].
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = JoinSet::new();
    /// let task = tasks.spawn(async { 1 });
    /// let (id, output) = tasks.join_next_with_id().await.unwrap().unwrap();
    /// assert_eq!((id, output), (task.id(), 1));
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it ends, no task has been joined.
    pub async fn join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        poll_fn(|cx| self.poll_join_next_with_id(cx)).await
    }

    /// Returns the output of a task that has ended, or `None` if none has.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = JoinSet::new();
    /// tasks.spawn(std::future::pending::<()>());
    /// assert!(tasks.try_join_next().is_none());
    /// # });
    /// ```
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.try_join_next_with_id()
            .map(|ended| ended.map(|(_, output)| output))
    }

    /// Returns the id and output of a task that has ended, or `None` if none has.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = JoinSet::new();
    /// tasks.spawn(std::future::pending::<()>());
    /// assert!(tasks.try_join_next_with_id().is_none());
    /// # });
    /// ```
    pub fn try_join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        self.pop_finished().map(output)
    }

    /// Aborts all tasks, and waits until they have ended.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = JoinSet::new();
    /// tasks.spawn(std::future::pending::<()>());
    /// tasks.shutdown().await;
    /// assert!(tasks.is_empty());
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, all tasks have been aborted; those that have not ended stay in
    /// the set.
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while self.join_next().await.is_some() {}
    }

    /// Waits until all tasks have ended, and returns their outputs in the order in which they
    /// ended.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let tasks: JoinSet<_> = (0..3).map(|n| async move { n }).collect();
    /// let mut outputs = tasks.join_all().await;
    /// outputs.sort();
    /// assert_eq!(outputs, [0, 1, 2]);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, all tasks are aborted, and their outputs are lost.
    ///
    /// # Panics
    ///
    /// Panics if a task panicked, with the same value, and if one was cancelled. The tasks that
    /// are left are aborted.
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

    /// Aborts all tasks.
    ///
    /// They stay in the set until they are joined.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = JoinSet::new();
    /// tasks.spawn(std::future::pending::<()>());
    /// tasks.abort_all();
    /// assert!(tasks.join_next().await.unwrap().unwrap_err().is_cancelled());
    /// # });
    /// ```
    pub fn abort_all(&mut self) {
        abort_each(self.slots.iter().filter_map(|slot| match slot {
            TaskSlot::Live(handle) => Some(handle),
            TaskSlot::Free { .. } => None,
        }));
    }

    /// Removes all tasks from the set without aborting them.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::channel::oneshot;
    /// use blitzen::task::JoinSet;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let (send, receive) = oneshot::channel();
    /// let mut tasks = JoinSet::new();
    /// tasks.spawn(async { send.send(1).unwrap() });
    /// tasks.detach_all();
    /// assert!(tasks.is_empty());
    /// assert_eq!(receive.await.unwrap(), 1);
    /// # });
    /// ```
    pub fn detach_all(&mut self) {
        drop(self.take_all().collect::<Vec<_>>());
    }

    /// Polls for a task of the set that has ended.
    ///
    /// Returns `Poll::Ready(Some(_))` with its output, `Poll::Ready(None)` if the set is empty,
    /// and `Poll::Pending` otherwise; the waker of `cx` is then woken when a task ends. It may
    /// also return `Poll::Pending` although a task has ended, if the budget of the running task
    /// is spent. Only the waker of the last call is woken.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use blitzen::task::JoinSet;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = JoinSet::new();
    /// tasks.spawn(async { 1 });
    /// let joined = poll_fn(|cx| tasks.poll_join_next(cx)).await;
    /// assert_eq!(joined.unwrap().unwrap(), 1);
    /// # });
    /// ```
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        self.poll_join_next_with_id(cx)
            .map(|ended| ended.map(|ended| ended.map(|(_, output)| output)))
    }

    /// Polls for a task of the set that has ended, and returns its id and output.
    ///
    /// It works like [`poll_join_next`](Self::poll_join_next).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use blitzen::task::JoinSet;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = JoinSet::new();
    /// let id = tasks.spawn(async { 1 }).id();
    /// let joined = poll_fn(|cx| tasks.poll_join_next_with_id(cx)).await;
    /// assert_eq!(joined.unwrap().unwrap(), (id, 1));
    /// # });
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
        if self.wakers.finished().register(cx.waker()) {
            wait::pending_on(WaitKind::JoinSet, self);
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

/// A factory of tasks with a name that go into a [`JoinSet`].
///
/// [`JoinSet::build_task`] returns it.
///
/// # Examples
///
/// ```
/// use blitzen::task::JoinSet;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let mut tasks = JoinSet::new();
/// tasks.build_task().name("answer").spawn(async { 42 }).unwrap();
/// assert_eq!(tasks.join_next().await.unwrap().unwrap(), 42);
/// # });
/// ```
#[must_use = "a builder does nothing unless it spawns a task"]
pub struct Builder<'a, T> {
    set: &'a mut JoinSet<T>,
    task: super::Builder<'a>,
}

impl<'a, T: 'static> Builder<'a, T> {
    /// Sets the name of the task to `name`.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = JoinSet::new();
    /// tasks.build_task().name("reader").spawn(async {}).unwrap();
    /// # });
    /// ```
    pub fn name(self, name: &'a str) -> Self {
        let task = self.task.name(name);
        Self { task, ..self }
    }

    /// Spawns `future` on the current runtime, as [`JoinSet::spawn`] does.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = JoinSet::new();
    /// tasks.build_task().name("one").spawn(async { 1 }).unwrap();
    /// assert_eq!(tasks.join_next().await.unwrap().unwrap(), 1);
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns no error at present.
    #[track_caller]
    pub fn spawn<F>(self, future: F) -> io::Result<AbortHandle>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        let handle = self.task.spawn(future)?;
        Ok(self.set.insert(handle))
    }

    /// Spawns `future` on the runtime of `handle`, as [`JoinSet::spawn_on`] does.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let mut tasks = JoinSet::new();
    /// tasks.build_task().spawn_on(async { 1 }, runtime.handle()).unwrap();
    /// assert_eq!(runtime.block_on(tasks.join_next()).unwrap().unwrap(), 1);
    /// ```
    ///
    /// # Errors
    ///
    /// Returns no error at present.
    #[track_caller]
    pub fn spawn_on<F>(self, future: F, handle: &Handle) -> io::Result<AbortHandle>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        let handle = self.task.spawn_on(future, handle)?;
        Ok(self.set.insert(handle))
    }

    /// Runs `code` on the blocking pool, as [`JoinSet::spawn_blocking`] does.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = JoinSet::new();
    /// tasks.build_task().name("one").spawn_blocking(|| 1).unwrap();
    /// assert_eq!(tasks.join_next().await.unwrap().unwrap(), 1);
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns no error at present.
    #[track_caller]
    pub fn spawn_blocking<F>(self, code: F) -> io::Result<AbortHandle>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send,
    {
        let handle = self.task.spawn_blocking(code)?;
        Ok(self.set.insert(handle))
    }

    /// Runs `code` on the blocking pool of `handle`, as [`JoinSet::spawn_blocking_on`] does.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let mut tasks = JoinSet::new();
    /// tasks.build_task().spawn_blocking_on(|| 1, runtime.handle()).unwrap();
    /// assert_eq!(runtime.block_on(tasks.join_next()).unwrap().unwrap(), 1);
    /// ```
    ///
    /// # Errors
    ///
    /// Returns no error at present.
    #[track_caller]
    pub fn spawn_blocking_on<F>(self, code: F, handle: &Handle) -> io::Result<AbortHandle>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send,
    {
        let handle = self.task.spawn_blocking_on(code, handle)?;
        Ok(self.set.insert(handle))
    }

    /// Spawns `future`, which need not be `Send`, as [`JoinSet::spawn_local`] does.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// # let runtime = blitzen::runtime::LocalRuntime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut tasks = JoinSet::new();
    /// tasks.build_task().spawn_local(async { 1 }).unwrap();
    /// assert_eq!(tasks.join_next().await.unwrap().unwrap(), 1);
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns no error at present.
    #[track_caller]
    pub fn spawn_local<F>(self, future: F) -> io::Result<AbortHandle>
    where
        F: Future<Output = T> + 'static,
    {
        let handle = self.task.spawn_local(future)?;
        Ok(self.set.insert(handle))
    }

    /// Spawns `future` on `local_set`, as [`JoinSet::spawn_local_on`] does.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::JoinSet;
    ///
    /// let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let local = blitzen::task::LocalSet::new();
    /// let mut tasks = JoinSet::new();
    /// tasks.build_task().spawn_local_on(async { 1 }, &local).unwrap();
    /// assert_eq!(local.block_on(&runtime, tasks.join_next()).unwrap().unwrap(), 1);
    /// ```
    ///
    /// # Errors
    ///
    /// Returns no error at present.
    #[track_caller]
    pub fn spawn_local_on<F>(self, future: F, local_set: &LocalSet) -> io::Result<AbortHandle>
    where
        F: Future<Output = T> + 'static,
    {
        let handle = self.task.spawn_local_on(future, local_set)?;
        Ok(self.set.insert(handle))
    }
}

impl<T> fmt::Debug for Builder<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("set", &self.set)
            .field("task", &self.task)
            .finish()
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
