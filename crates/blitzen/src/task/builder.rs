//! Tasks with names.

use std::future::Future;
use std::io;

use blitzen_task::glue::next_id;
use blitzen_task::{JoinHandle, SpawnMeta};

use super::local::{LocalSet, spawn_local_with};
use super::spawn::spawn_with;
use crate::runtime::Handle;

/// Gives a task a name before it is spawned. The name is shown by whatever
/// lists tasks: dumps, reports of stragglers.
///
/// ```
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let task = blitzen::task::Builder::new().name("answer").spawn(async { 42 }).unwrap();
/// assert_eq!(task.await.unwrap(), 42);
/// # });
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Builder<'a> {
    name: Option<&'a str>,
}

impl<'a> Builder<'a> {
    /// A task without a name.
    ///
    /// ```
    /// let builder = blitzen::task::Builder::new();
    /// # drop(builder);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the task a name.
    ///
    /// ```
    /// let builder = blitzen::task::Builder::new().name("reader");
    /// # drop(builder);
    /// ```
    pub fn name(self, name: &'a str) -> Self {
        Self { name: Some(name) }
    }

    #[track_caller]
    fn meta(&self) -> SpawnMeta {
        let meta = SpawnMeta::caller();
        match self.name {
            Some(name) => meta.named(name),
            None => meta,
        }
    }

    /// Like [`task::spawn`](crate::task::spawn).
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// blitzen::task::Builder::new().name("tick").spawn(async {}).unwrap().await.unwrap();
    /// # });
    /// ```
    ///
    /// # Errors
    /// None yet.
    ///
    /// # Panics
    /// Outside a runtime.
    #[track_caller]
    pub fn spawn<F>(self, future: F) -> io::Result<JoinHandle<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Ok(spawn_with(future, self.meta()))
    }

    /// Like [`Handle::spawn`].
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let task = blitzen::task::Builder::new().spawn_on(async { 1 }, runtime.handle()).unwrap();
    /// assert_eq!(runtime.block_on(task).unwrap(), 1);
    /// ```
    ///
    /// # Errors
    /// None yet.
    #[track_caller]
    pub fn spawn_on<F>(self, future: F, handle: &Handle) -> io::Result<JoinHandle<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Ok(handle.inner.spawn(future, next_id(), self.meta()))
    }

    /// Like [`task::spawn_local`](crate::task::spawn_local).
    ///
    /// ```
    /// # let runtime = blitzen::runtime::LocalRuntime::new().unwrap();
    /// # runtime.block_on(async {
    /// blitzen::task::Builder::new().spawn_local(async {}).unwrap().await.unwrap();
    /// # });
    /// ```
    ///
    /// # Errors
    /// None yet.
    ///
    /// # Panics
    /// Outside a [`LocalSet`] and a local runtime.
    #[track_caller]
    pub fn spawn_local<F>(self, future: F) -> io::Result<JoinHandle<F::Output>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        Ok(spawn_local_with(future, self.meta()))
    }

    /// Like [`LocalSet::spawn_local`].
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let local = blitzen::task::LocalSet::new();
    /// let task = blitzen::task::Builder::new().spawn_local_on(async { 1 }, &local).unwrap();
    /// assert_eq!(local.block_on(&runtime, task).unwrap(), 1);
    /// ```
    ///
    /// # Errors
    /// None yet.
    #[track_caller]
    pub fn spawn_local_on<F>(self, future: F, local: &LocalSet) -> io::Result<JoinHandle<F::Output>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        Ok(local.spawn_with(future, self.meta()))
    }

    /// Like [`task::spawn_blocking`](crate::task::spawn_blocking).
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// blitzen::task::Builder::new().spawn_blocking(|| ()).unwrap().await.unwrap();
    /// # });
    /// ```
    ///
    /// # Errors
    /// None yet.
    ///
    /// # Panics
    /// Outside a runtime.
    #[track_caller]
    pub fn spawn_blocking<F, R>(self, code: F) -> io::Result<JoinHandle<R>>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.spawn_blocking_on(code, &Handle::current())
    }

    /// Like [`Handle::spawn_blocking`].
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let builder = blitzen::task::Builder::new();
    /// let task = builder.spawn_blocking_on(|| 3, runtime.handle()).unwrap();
    /// assert_eq!(runtime.block_on(task).unwrap(), 3);
    /// ```
    ///
    /// # Errors
    /// None yet.
    #[track_caller]
    pub fn spawn_blocking_on<F, R>(self, code: F, handle: &Handle) -> io::Result<JoinHandle<R>>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        Ok(handle.inner.spawn_blocking(code, false, self.meta()))
    }
}
