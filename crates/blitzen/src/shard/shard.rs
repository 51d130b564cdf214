//! A shard, for code that runs on it.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use blitzen_task::SpawnMeta;
use blitzen_task::glue::next_id;

use crate::runtime::Handle;
use crate::task::JoinHandle;

/// A shard of a [`ShardedRuntime`](super::ShardedRuntime), for code that runs on it.
///
/// [`run_each`](super::ShardedRuntime::run_each) gives one to its function. It can be cloned, and
/// stays on the thread of the shard.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::Builder;
///
/// let runtime = Builder::sharded().shards(2).build().unwrap();
/// let counts = runtime.run_each(|shard| async move { shard.count() });
/// assert_eq!(counts, [2, 2]);
/// ```
#[derive(Clone)]
pub struct Shard {
    index: usize,
    /// The runtimes of all shards.
    runtimes: Arc<[Handle]>,
    /// It stands for the thread that it is on.
    not_send: PhantomData<*const ()>,
}

impl Shard {
    /// The shard of the calling thread.
    ///
    /// # Safety
    /// The runtime with this index is a local one, of the calling thread.
    pub(super) unsafe fn new(index: usize, runtimes: Arc<[Handle]>) -> Self {
        Self {
            index,
            runtimes,
            not_send: PhantomData,
        }
    }

    /// Returns the number of this shard, from 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::sharded().shards(3).build().unwrap();
    /// assert_eq!(runtime.run_each(|shard| async move { shard.index() }), [0, 1, 2]);
    /// ```
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns how many shards there are.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::sharded().shards(3).build().unwrap();
    /// assert_eq!(runtime.run_each(|shard| async move { shard.count() }), [3; 3]);
    /// ```
    pub fn count(&self) -> usize {
        self.runtimes.len()
    }

    /// Spawns a task on this shard. It stays on this thread, and need not be `Send`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::rc::Rc;
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::sharded().shards(1).build().unwrap();
    /// let outputs = runtime.run_each(|shard| async move {
    ///     let shared = Rc::new(7);
    ///     *shard.spawn_local(async move { shared }).await.unwrap()
    /// });
    /// assert_eq!(outputs, [7]);
    /// ```
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.spawn_local_with(future, SpawnMeta::caller())
    }

    pub(super) fn spawn_local_with<F>(&self, future: F, meta: SpawnMeta) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let runtime = &self.runtimes[self.index].inner;
        // SAFETY: not `Send`, so this is the thread of the runtime.
        unsafe { runtime.spawn_local(future, next_id(), meta) }
    }

    /// Spawns a task on the shard with the number `index`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::thread;
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::sharded().shards(2).build().unwrap();
    /// runtime.run_each(|shard| async move {
    ///     let other = 1 - shard.index();
    ///     let there = shard.spawn_on(other, async { thread::current().id() });
    ///     assert_ne!(there.await.unwrap(), thread::current().id());
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no such shard.
    #[track_caller]
    pub fn spawn_on<F>(&self, index: usize, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        runtime_of(&self.runtimes, index).spawn(future)
    }
}

/// The runtime of a shard.
#[track_caller]
pub(super) fn runtime_of(runtimes: &[Handle], index: usize) -> &Handle {
    match runtimes.get(index) {
        Some(runtime) => runtime,
        None => panic!("there is no shard {index}: there are {}", runtimes.len()),
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shard")
            .field("index", &self.index)
            .field("count", &self.count())
            .finish()
    }
}
