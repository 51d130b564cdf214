//! Tasks with names.

use std::future::Future;
use std::io;

use blitzen_task::glue::next_id;
use blitzen_task::{JoinHandle, SpawnMeta};

use super::local::{LocalSet, spawn_local_with};
use super::spawn::spawn_with;
use crate::runtime::Handle;

/// A factory of tasks with a name.
///
/// The name is shown wherever tasks are listed, for example in the report of a shutdown that
/// found tasks still running.
///
/// # Examples
///
/// ```
/// use blitzen::task::Builder;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let handle = Builder::new().name("answer").spawn(async { 42 }).unwrap();
/// assert_eq!(handle.await.unwrap(), 42);
/// # });
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Builder<'a> {
    name: Option<&'a str>,
}

impl<'a> Builder<'a> {
    /// Creates a builder of tasks without a name.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::Builder;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let handle = Builder::new().spawn(async { 1 }).unwrap();
    /// assert_eq!(handle.await.unwrap(), 1);
    /// # });
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name of the task to `name`.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::Builder;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let reader = Builder::new().name("reader");
    /// reader.spawn(async {}).unwrap().await.unwrap();
    /// # });
    /// ```
    pub fn name(&self, name: &'a str) -> Self {
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

    /// Spawns `future` on the current runtime, as [`task::spawn`](crate::task::spawn) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::Builder;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let handle = Builder::new().name("tick").spawn(async { 1 }).unwrap();
    /// assert_eq!(handle.await.unwrap(), 1);
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns no error at present.
    ///
    /// # Panics
    ///
    /// Panics outside a runtime.
    #[track_caller]
    pub fn spawn<F>(self, future: F) -> io::Result<JoinHandle<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Ok(spawn_with(future, self.meta()))
    }

    /// Spawns `future` on the runtime of `handle`, as [`Handle::spawn`] does.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::Builder;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let task = Builder::new().spawn_on(async { 1 }, runtime.handle()).unwrap();
    /// assert_eq!(runtime.block_on(task).unwrap(), 1);
    /// ```
    ///
    /// # Errors
    ///
    /// Returns no error at present.
    #[track_caller]
    pub fn spawn_on<F>(self, future: F, handle: &Handle) -> io::Result<JoinHandle<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Ok(handle.inner.spawn(future, next_id(), self.meta()))
    }

    /// Spawns `future`, which need not be `Send`, as
    /// [`task::spawn_local`](crate::task::spawn_local) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::Builder;
    ///
    /// # let runtime = blitzen::runtime::LocalRuntime::new().unwrap();
    /// # runtime.block_on(async {
    /// let handle = Builder::new().spawn_local(async { 1 }).unwrap();
    /// assert_eq!(handle.await.unwrap(), 1);
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns no error at present.
    ///
    /// # Panics
    ///
    /// Panics outside a [`LocalSet`] and a [`LocalRuntime`](crate::runtime::LocalRuntime).
    #[track_caller]
    pub fn spawn_local<F>(self, future: F) -> io::Result<JoinHandle<F::Output>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        Ok(spawn_local_with(future, self.meta()))
    }

    /// Spawns `future`, which need not be `Send`, on `local`, as [`LocalSet::spawn_local`]
    /// does.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::{Builder, LocalSet};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let local = LocalSet::new();
    /// let task = Builder::new().spawn_local_on(async { 1 }, &local).unwrap();
    /// assert_eq!(local.block_on(&runtime, task).unwrap(), 1);
    /// ```
    ///
    /// # Errors
    ///
    /// Returns no error at present.
    #[track_caller]
    pub fn spawn_local_on<F>(self, future: F, local: &LocalSet) -> io::Result<JoinHandle<F::Output>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        Ok(local.spawn_with(future, self.meta()))
    }

    /// Runs `code` on the blocking pool of the current runtime, as
    /// [`task::spawn_blocking`](crate::task::spawn_blocking) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::Builder;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let handle = Builder::new().spawn_blocking(|| 1).unwrap();
    /// assert_eq!(handle.await.unwrap(), 1);
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns no error at present.
    ///
    /// # Panics
    ///
    /// Panics outside a runtime, and if the pool has no thread and the system refuses to start
    /// one.
    #[track_caller]
    pub fn spawn_blocking<F, R>(self, code: F) -> io::Result<JoinHandle<R>>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.spawn_blocking_on(code, &Handle::current())
    }

    /// Runs `code` on the blocking pool of the runtime of `handle`, as
    /// [`Handle::spawn_blocking`] does.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::Builder;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let task = Builder::new().spawn_blocking_on(|| 3, runtime.handle()).unwrap();
    /// assert_eq!(runtime.block_on(task).unwrap(), 3);
    /// ```
    ///
    /// # Errors
    ///
    /// Returns no error at present.
    ///
    /// # Panics
    ///
    /// Panics if the pool has no thread and the system refuses to start one.
    #[track_caller]
    pub fn spawn_blocking_on<F, R>(self, code: F, handle: &Handle) -> io::Result<JoinHandle<R>>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        Ok(handle.inner.spawn_blocking(code, false, self.meta()))
    }
}
