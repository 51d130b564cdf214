//! A runtime seen from afar.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use blitzen_task::SpawnMeta;
use blitzen_task::glue::next_id;

use super::context::{self, Entered};
use super::id::Id;
use super::inner::{Flavor, Inner};
use super::metrics::RuntimeMetrics;
use crate::task::JoinHandle;

/// Spawns tasks on a runtime, and enters it, without owning it.
///
/// The runtime may be gone: then what is spawned is cancelled at once.
///
/// ```
/// use blitzen::runtime::Runtime;
///
/// let runtime = Runtime::new().unwrap();
/// let handle = runtime.handle().clone();
/// let other = std::thread::spawn(move || handle.block_on(async { 7 }));
/// assert_eq!(other.join().unwrap(), 7);
/// ```
#[derive(Clone)]
pub struct Handle {
    pub(crate) inner: Arc<Inner>,
}

impl UnwindSafe for Handle {}
impl RefUnwindSafe for Handle {}

/// The flavour of a runtime.
///
/// ```
/// use blitzen::runtime::{Builder, RuntimeFlavor};
///
/// let runtime = Builder::new_current_thread().build().unwrap();
/// assert_eq!(runtime.handle().runtime_flavor(), RuntimeFlavor::CurrentThread);
/// ```
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuntimeFlavor {
    /// The caller of `block_on` runs the tasks.
    CurrentThread,
    /// Workers run the tasks.
    MultiThread,
}

impl Handle {
    /// The runtime the calling code runs in.
    ///
    /// ```
    /// use blitzen::runtime::{Handle, Runtime};
    ///
    /// let runtime = Runtime::new().unwrap();
    /// runtime.block_on(async {
    ///     assert_eq!(Handle::current().id(), runtime.handle().id());
    /// });
    /// ```
    ///
    /// # Panics
    /// Outside a runtime; see [`try_current`](Self::try_current).
    #[track_caller]
    pub fn current() -> Self {
        match Self::try_current() {
            Ok(handle) => handle,
            Err(error) => panic!("{error}"),
        }
    }

    /// The runtime the calling code runs in, if there is one.
    ///
    /// ```
    /// assert!(blitzen::runtime::Handle::try_current().is_err());
    /// ```
    pub fn try_current() -> Result<Self, TryCurrentError> {
        context::with_current(Handle::clone)
    }

    /// Makes this the current runtime until the guard is dropped.
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let _inside = runtime.handle().enter();
    /// blitzen::spawn(async {});
    /// ```
    ///
    /// # Panics
    /// When guards are dropped in another order than the reverse of their making.
    #[track_caller]
    pub fn enter(&self) -> EnterGuard<'_> {
        EnterGuard {
            _entered: context::enter(self),
            _handle: PhantomData,
        }
    }

    /// Spawns a task.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let task = runtime.handle().spawn(async { 1 });
    /// assert_eq!(runtime.block_on(task).unwrap(), 1);
    /// ```
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.inner.spawn(future, next_id(), SpawnMeta::caller())
    }

    /// Runs code that blocks on the pool of threads for it.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let sum = runtime.handle().spawn_blocking(|| (1..=10).sum::<u32>());
    /// assert_eq!(runtime.block_on(sum).unwrap(), 55);
    /// ```
    ///
    /// # Panics
    /// If the pool has no thread and the system gives none.
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, code: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.inner.spawn_blocking(code, false, SpawnMeta::caller())
    }

    /// Runs a future on the calling thread, which sleeps while it waits.
    ///
    /// Tasks of a current-thread runtime do not run here: only
    /// [`Runtime::block_on`](super::Runtime::block_on) runs them.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// assert_eq!(runtime.handle().block_on(async { 3 }), 3);
    /// ```
    ///
    /// # Panics
    /// On a thread that is running tasks.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        super::block_on::block_on(self, future)
    }

    /// The runtime's flavour.
    ///
    /// ```
    /// use blitzen::runtime::{Builder, RuntimeFlavor};
    ///
    /// let runtime = Builder::new_multi_thread().build().unwrap();
    /// assert_eq!(runtime.handle().runtime_flavor(), RuntimeFlavor::MultiThread);
    /// ```
    pub fn runtime_flavor(&self) -> RuntimeFlavor {
        match self.inner.flavor() {
            Flavor::CurrentThread(_) => RuntimeFlavor::CurrentThread,
            Flavor::MultiThread => RuntimeFlavor::MultiThread,
        }
    }

    /// The runtime's opaque name.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// assert_eq!(runtime.handle().id(), runtime.handle().clone().id());
    /// ```
    pub fn id(&self) -> Id {
        self.inner.id()
    }

    /// The name given to [`Builder::name`](super::Builder::name).
    ///
    /// ```
    /// let runtime = blitzen::runtime::Builder::new_current_thread()
    ///     .name("crawler")
    ///     .build()
    ///     .unwrap();
    /// assert_eq!(runtime.handle().name(), Some("crawler"));
    /// ```
    pub fn name(&self) -> Option<&str> {
        self.inner.name()
    }

    /// What the runtime has done so far.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// assert!(runtime.handle().metrics().num_workers() >= 1);
    /// ```
    pub fn metrics(&self) -> RuntimeMetrics {
        RuntimeMetrics::new(self.clone())
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("id", &self.id())
            .field("flavor", &self.runtime_flavor())
            .finish_non_exhaustive()
    }
}

/// Keeps a runtime current; see [`Handle::enter`].
///
/// ```
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// let guard: blitzen::runtime::EnterGuard<'_> = runtime.enter();
/// drop(guard);
/// ```
#[must_use = "the runtime is left when the guard is dropped"]
pub struct EnterGuard<'a> {
    _entered: Entered,
    _handle: PhantomData<&'a Handle>,
}

impl fmt::Debug for EnterGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnterGuard").finish_non_exhaustive()
    }
}

/// Why there is no current runtime.
///
/// ```
/// let error = blitzen::runtime::Handle::try_current().unwrap_err();
/// assert!(error.is_missing_context());
/// ```
pub struct TryCurrentError {
    kind: Missing,
}

#[derive(Debug, PartialEq, Eq)]
enum Missing {
    NoContext,
    ThreadLocalDestroyed,
}

impl TryCurrentError {
    pub(crate) fn missing() -> Self {
        Self {
            kind: Missing::NoContext,
        }
    }

    pub(crate) fn destroyed() -> Self {
        Self {
            kind: Missing::ThreadLocalDestroyed,
        }
    }

    /// The code runs outside a runtime.
    ///
    /// ```
    /// # let error = blitzen::runtime::Handle::try_current().unwrap_err();
    /// assert!(error.is_missing_context());
    /// ```
    pub fn is_missing_context(&self) -> bool {
        self.kind == Missing::NoContext
    }

    /// The thread is ending, and its thread-locals are gone.
    ///
    /// ```
    /// # let error = blitzen::runtime::Handle::try_current().unwrap_err();
    /// assert!(!error.is_thread_local_destroyed());
    /// ```
    pub fn is_thread_local_destroyed(&self) -> bool {
        self.kind == Missing::ThreadLocalDestroyed
    }
}

impl fmt::Debug for TryCurrentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryCurrentError")
            .field("kind", &self.kind)
            .finish()
    }
}

impl fmt::Display for TryCurrentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Missing::NoContext => {
                "there is no reactor running, must be called from the context of a Tokio 1.x \
                 runtime: call it inside `block_on` or a spawned task, or enter a runtime with \
                 `Handle::enter`"
            }
            Missing::ThreadLocalDestroyed => {
                "The Tokio context thread-local variable has been destroyed: the thread is ending, \
                 and no runtime can be used from here."
            }
        })
    }
}

impl std::error::Error for TryCurrentError {}
