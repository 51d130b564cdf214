//! How a coroutine is spawned.

use blitzen_sched::Spawned;
use blitzen_stack::{DEFAULT_STACK_SIZE, HAS_OWN_THREAD};
use blitzen_task::glue::{expect_join, next_id};
use blitzen_task::{Id, JoinHandle, SpawnMeta};

use super::fiber_future::FiberFuture;
use super::is_inside;
use crate::runtime::{Handle, context};

/// The name and stack size of a coroutine to be spawned.
///
/// # Examples
///
/// ```
/// use blitzen::coro;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let builder = coro::Builder::new().name("import").stack_size(1 << 20);
/// // SAFETY: no thread-locals.
/// let import = unsafe { builder.spawn(|| [0_u8; 512 * 1024].len()) };
/// assert_eq!(import.await.unwrap(), 512 * 1024);
/// # });
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "it spawns nothing before `spawn`"]
pub struct Builder {
    name: Option<String>,
    stack_size: Option<usize>,
}

impl Builder {
    /// Creates a builder for a coroutine without a name, with a stack of 256 KiB.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = blitzen::coro::Builder::new();
    /// # let _ = builder;
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name of the coroutine, for messages and lists of tasks.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = blitzen::coro::Builder::new().name("import");
    /// # let _ = builder;
    /// ```
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the size of its stack in bytes. It is rounded up to whole pages, and to at least
    /// 16 KiB.
    ///
    /// The system provides memory for a stack only as far as it is used. A coroutine that needs
    /// more than its stack ends the process, with a message that names the coroutine.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = blitzen::coro::Builder::new().stack_size(1 << 20);
    /// # let _ = builder;
    /// ```
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Spawns a coroutine on the current runtime, as [`coro::spawn`](super::spawn) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::coro;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// // SAFETY: no thread-locals.
    /// let named = unsafe { coro::Builder::new().name("import").spawn(|| 5) };
    /// assert_eq!(named.await.unwrap(), 5);
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics outside a runtime, and if a current-thread runtime cannot start the thread that its
    /// coroutines run on.
    ///
    /// # Safety
    ///
    /// As for [`coro::spawn`](super::spawn).
    #[track_caller]
    pub unsafe fn spawn<F, T>(self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let stack_size = self.stack_size.unwrap_or(DEFAULT_STACK_SIZE);
        let mut meta = SpawnMeta::caller();
        if let Some(name) = &self.name {
            meta = meta.named(name);
        }
        spawn_with(f, stack_size, meta)
    }
}

/// Spawns a coroutine without a name, on a stack of the default size.
///
/// # Safety
/// As for [`coro::spawn`](super::spawn).
#[inline]
#[track_caller]
pub(super) unsafe fn spawn_default<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    spawn_with(f, DEFAULT_STACK_SIZE, SpawnMeta::caller())
}

/// The largest function that goes to the stack of its coroutine. `corosensei` moves no more than
/// 1,024 bytes there, with what the runtime adds; and a large one is moved several times, which takes
/// longer than an allocation.
const MAX_MOVED: usize = 512;

#[inline]
#[track_caller]
fn spawn_with<F, T>(function: F, stack_size: usize, meta: SpawnMeta) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    match const { size_of::<F>() <= MAX_MOVED } {
        true => spawn_small(function, stack_size, meta),
        false => {
            // `dyn`: it is called where it is.
            let function: Box<dyn FnOnce() -> T + Send> = Box::new(function);
            spawn_small(function, stack_size, meta)
        }
    }
}

/// Spawns a coroutine whose function is not larger than [`MAX_MOVED`].
#[track_caller]
fn spawn_small<F, T>(function: F, stack_size: usize, meta: SpawnMeta) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let id = next_id();
    // Taken only where it is spawned: the context drops no function.
    let mut new = Some((function, meta));
    let spawned = context::with_current(|runtime| {
        let scheduler = runtime.inner.scheduler();
        if runtime.inner.has_spawn_hook() || scheduler.needs_pinned_thread() {
            return Err(runtime.clone());
        }
        let (function, meta) = new.take().expect("taken once");
        Ok(scheduler.spawn_pinned(FiberFuture::new(function, stack_size), id, meta))
    });
    let spawned = match (spawned, new) {
        (Ok(Ok(spawned)), _) => Ok(spawned),
        // Outside the context: this calls the hook.
        (Ok(Err(runtime)), Some((function, meta))) => {
            let future = FiberFuture::new(function, stack_size);
            Ok(spawn_carefully(&runtime, future, id, meta))
        }
        (Ok(Err(_)), None) => unreachable!("it was not spawned"),
        (Err(error), _) => Err(error),
    };
    match spawned {
        Ok((handle, refused)) => {
            // Outside the context: this drops the function.
            drop(refused);
            // A coroutine with a thread of its own joins on another one.
            if !HAS_OWN_THREAD && is_inside() {
                expect_join(&handle);
            }
            handle
        }
        Err(error) => panic!("{error}"),
    }
}

/// Spawns a coroutine in a runtime that has a hook for it, or no thread yet.
#[cold]
#[track_caller]
fn spawn_carefully<F, T>(
    runtime: &Handle,
    future: FiberFuture<F, T>,
    id: Id,
    meta: SpawnMeta,
) -> Spawned<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let scheduler = runtime.inner.scheduler();
    if let Err(error) = scheduler.ensure_pinned_thread() {
        panic!("OS can't spawn the thread for coroutines: {error}");
    }
    if runtime.inner.has_spawn_hook() {
        runtime.inner.world().task_hooks().spawned(id, &meta);
    }
    scheduler.spawn_pinned(future, id, meta)
}
