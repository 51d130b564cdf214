//! Tasks that stay on one thread, on any runtime.
//!
//! A [`LocalSet`] is a future that runs other futures on its own thread, so that they need not be
//! `Send`.
//!
//! Q1. A task that is woken on the set's thread goes to the local queue, which only that
//!     thread touches; all others go to the remote queue.
//! Q2. While the set is being polled it looks at its queues again before it waits, so that a
//!     push on its thread need not wake it. Any other push wakes every poller.
//! Q3. Closed queues forget what comes, and the set cancels every live task on its own thread.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};

use blitzen_task::glue::next_id;
use blitzen_task::remote_queue::{PollerKey, RemoteQueue};
use blitzen_task::{
    Header, JoinHandle, OwnedTasks, Payload, RunOutcome, Runnable, Schedule, SpawnMeta,
};
use blitzen_util::coop;
use blitzen_util::wait::{self, WaitKind};

use super::panics::unless_panicking;
use crate::runtime::{self, Runtime, UnhandledPanic};

/// How many tasks run in one poll of the set.
const TASKS_PER_TURN: usize = 61;
/// Tasks between two looks at the remote queue while the local one has some.
const REMOTE_INTERVAL: u32 = 31;

/// A set of tasks that all run on the thread that polls the set, and so need not be `Send`.
///
/// A set makes progress only while it is polled: by [`block_on`](Self::block_on),
/// [`run_until`](Self::run_until), or as a future, which ends when all its tasks have. Dropping
/// the set drops its tasks.
///
/// # Examples
///
/// ```
/// use std::rc::Rc;
/// use blitzen::task::{LocalSet, spawn_local};
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// let local = LocalSet::new();
/// let shared = Rc::new(5);
/// local.block_on(&runtime, async move {
///     let task = spawn_local(async move { *shared });
///     assert_eq!(task.await.unwrap(), 5);
/// });
/// ```
pub struct LocalSet {
    shared: Arc<LocalShared>,
    tick: Cell<u32>,
    /// The futures stay on this thread.
    not_send: PhantomData<*const ()>,
}

struct LocalShared {
    id: runtime::Id,
    /// Q1; `None` once closed (Q3).
    local: ThreadBound<Option<VecDeque<Runnable>>>,
    remote: RemoteQueue<Runnable>,
    owned: OwnedTasks,
    shut_down_on_panic: AtomicBool,
    panicked: AtomicBool,
}

/// A value that only the thread that made it can reach.
struct ThreadBound<T> {
    thread: ThreadId,
    value: RefCell<T>,
}

// SAFETY: other threads only compare the thread. The value is `Send`, so that any of them may
// drop it.
unsafe impl<T: Send> Sync for ThreadBound<T> {}

impl<T> ThreadBound<T> {
    fn new(value: T) -> Self {
        Self {
            thread: thread::current().id(),
            value: RefCell::new(value),
        }
    }

    /// The value, on its thread.
    fn get(&self) -> Option<&RefCell<T>> {
        (self.thread == thread::current().id()).then_some(&self.value)
    }

    /// Returns the value, without checking the thread.
    ///
    /// # Safety
    /// This is its thread.
    unsafe fn get_unchecked(&self) -> &RefCell<T> {
        &self.value
    }
}

thread_local! {
    /// The set that is being polled, or has been entered, on this thread.
    static CURRENT: RefCell<Option<Arc<LocalShared>>> = const { RefCell::new(None) };
    /// Whether there is one: cheaper to ask, since it needs no destructor.
    static HAS_CURRENT: Cell<bool> = const { Cell::new(false) };
    /// The set that is being polled on this thread: the innermost, if they are nested.
    static POLLING: Cell<*const LocalShared> = const { Cell::new(ptr::null()) };
}

/// Whether this thread is running the tasks of a set, and so must not hand
/// them to another.
pub(crate) fn is_polling_local_set() -> bool {
    !POLLING.get().is_null()
}

/// Makes a set current, and on drop the one that was so before.
struct CurrentSetGuard {
    before: Option<Arc<LocalShared>>,
}

impl CurrentSetGuard {
    fn new(shared: &Arc<LocalShared>) -> Self {
        Self {
            before: replace_current(Some(shared.clone())),
        }
    }
}

impl Drop for CurrentSetGuard {
    fn drop(&mut self) {
        drop(replace_current(self.before.take()));
    }
}

/// Replaces the current set. A thread that is ending has none.
fn replace_current(set: Option<Arc<LocalShared>>) -> Option<Arc<LocalShared>> {
    let has_set = set.is_some();
    match CURRENT.try_with(|current| current.replace(set)) {
        Ok(before) => {
            HAS_CURRENT.set(has_set);
            before
        }
        Err(_) => None,
    }
}

/// A set that a coroutine, or the thread that resumes it, has entered and not left; null if there is
/// none. It is not dropped on its own, so that code that hardly ever has one need not look.
#[cfg(feature = "coro")]
pub(crate) struct EnteredSet(*const LocalShared);

#[cfg(feature = "coro")]
impl EnteredSet {
    pub(crate) const NONE: Self = Self(ptr::null());

    /// Makes this the current set; returns what was so before.
    pub(crate) fn install(self) -> Self {
        let before = replace_current(self.into_arc());
        Self(before.map_or(ptr::null(), Arc::into_raw))
    }

    fn into_arc(self) -> Option<Arc<LocalShared>> {
        // SAFETY: from `install`, whose reference goes with it.
        (!self.is_none()).then(|| unsafe { Arc::from_raw(self.0) })
    }

    /// Drops it.
    pub(crate) fn discard(self) {
        drop(self.into_arc());
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.is_null()
    }

    /// Whether the calling thread has a current set.
    #[inline]
    pub(crate) fn is_here() -> bool {
        HAS_CURRENT.get()
    }
}

/// Marks a set as being polled until it is dropped. Unlike a [`CurrentSetGuard`], it never leaves
/// the function that makes it, so that the mark is never left behind.
struct PollingGuard {
    before: *const LocalShared,
    _current: CurrentSetGuard,
    /// A coroutine that polls a set is not suspended inside that poll.
    #[cfg(feature = "coro")]
    _outside: crate::coro::Outside,
}

impl PollingGuard {
    fn new(shared: &Arc<LocalShared>) -> Self {
        Self {
            before: POLLING.replace(Arc::as_ptr(shared)),
            _current: CurrentSetGuard::new(shared),
            #[cfg(feature = "coro")]
            _outside: crate::coro::Outside::enter(),
        }
    }
}

impl Drop for PollingGuard {
    fn drop(&mut self) {
        POLLING.set(self.before);
    }
}

impl LocalShared {
    /// Whether the calling thread is inside a poll of the set.
    fn is_being_polled_here(&self) -> bool {
        ptr::eq(POLLING.get(), self)
    }

    /// Queues a task where its thread can find it.
    fn push(&self, task: Runnable) {
        let pushed = if self.is_being_polled_here() {
            // SAFETY: a set is polled on its thread only: it is not `Send`.
            push_local(unsafe { self.local.get_unchecked() }, task) // Q2
        } else if let Some(local) = self.local.get() {
            push_local(local, task).inspect(|()| self.remote.wake_pollers())
        } else {
            self.remote.push(task)
        };
        if let Err(refused) = pushed {
            refused.forget(); // Q3
        }
    }

    #[track_caller]
    fn spawn<F>(self: &Arc<Self>, future: F, meta: SpawnMeta) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        debug_assert!(self.local.get().is_some(), "the set's thread");
        let id = next_id();
        let meta = meta.with_task_span::<F>("local", id);
        let scheduler = LocalScheduler(self.clone());
        // SAFETY: this is the set's thread: sets and the guards that make them
        // current are not `Send`. It runs, closes and drops every task (Q3).
        let (task, handle) = unsafe { blitzen_task::spawn_unchecked(future, scheduler, id, meta) };
        // SAFETY: new, and its scheduler removes it.
        match unsafe { self.owned.insert(&task) } {
            Ok(()) => self.push(task),
            Err(_) => drop(task), // which cancels it
        }
        handle
    }
}

fn push_local(queue: &RefCell<Option<VecDeque<Runnable>>>, task: Runnable) -> Result<(), Runnable> {
    match &mut *queue.borrow_mut() {
        Some(queue) => {
            queue.push_back(task);
            Ok(())
        }
        None => Err(task),
    }
}

/// The scheduler of a set's tasks.
struct LocalScheduler(Arc<LocalShared>);

impl Schedule for LocalScheduler {
    fn schedule(&self, task: Runnable) {
        self.0.push(task);
    }

    fn release(&self, task: &Header) {
        // SAFETY: inserted there when it was spawned, or refused.
        unsafe { self.0.owned.remove(task) };
    }

    fn panicked(&self, _: &mut Payload) {
        if self.0.shut_down_on_panic.load(Relaxed) {
            self.0.panicked.store(true, Relaxed);
        }
    }
}

/// Spawns a task, which need not be `Send`, on the current [`LocalSet`] or
/// [`LocalRuntime`](crate::runtime::LocalRuntime).
///
/// # Examples
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use blitzen::task::spawn_local;
///
/// # let runtime = blitzen::runtime::LocalRuntime::new().unwrap();
/// # runtime.block_on(async {
/// let counter = Rc::new(Cell::new(0));
/// let task = spawn_local({
///     let counter = counter.clone();
///     async move { counter.set(1) }
/// });
/// task.await.unwrap();
/// assert_eq!(counter.get(), 1);
/// # });
/// ```
///
/// # Panics
///
/// Panics outside a `LocalSet` and a `LocalRuntime`.
#[track_caller]
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    spawn_local_with(future, SpawnMeta::caller())
}

/// [`spawn_local`], with the metadata of the task given.
#[track_caller]
pub(super) fn spawn_local_with<F>(future: F, meta: SpawnMeta) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let set = CURRENT.try_with(|current| current.borrow().clone());
    if let Ok(Some(set)) = set {
        return set.spawn(future, meta);
    }
    let local = runtime::Handle::try_current()
        .ok()
        .filter(|handle| handle.inner.is_local());
    let Some(handle) = local else {
        panic!(
            "`spawn_local` called from outside of a `task::LocalSet` or `runtime::LocalRuntime`"
        );
    };
    assert!(
        handle.inner.is_local_here(),
        "Local tasks can only be spawned on a LocalRuntime from the thread the runtime was created on"
    );
    // SAFETY: just looked.
    unsafe { handle.inner.spawn_local(future, next_id(), meta) }
}

impl LocalSet {
    /// Creates an empty set, which belongs to the calling thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::LocalSet;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let local = LocalSet::new();
    /// assert_eq!(local.block_on(&runtime, async { 1 }), 1);
    /// ```
    pub fn new() -> Self {
        Self {
            shared: Arc::new(LocalShared {
                id: runtime::Id::next(),
                local: ThreadBound::new(Some(VecDeque::new())),
                remote: RemoteQueue::new(),
                owned: OwnedTasks::new(),
                shut_down_on_panic: AtomicBool::new(false),
                panicked: AtomicBool::new(false),
            }),
            tick: Cell::new(0),
            not_send: PhantomData,
        }
    }

    /// Makes this the set that [`spawn_local`] uses on this thread, until the returned guard is
    /// dropped.
    ///
    /// It does not run the set.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::{LocalSet, spawn_local};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let local = LocalSet::new();
    /// let task = {
    ///     let _entered = local.enter();
    ///     spawn_local(async { 1 })
    /// };
    /// assert_eq!(local.block_on(&runtime, task).unwrap(), 1);
    /// ```
    pub fn enter(&self) -> LocalEnterGuard {
        LocalEnterGuard {
            _current: CurrentSetGuard::new(&self.shared),
            not_send: PhantomData,
        }
    }

    /// Spawns a task on the set.
    ///
    /// It first runs when the set is polled.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::LocalSet;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let local = LocalSet::new();
    /// let task = local.spawn_local(async { std::rc::Rc::new(1) });
    /// assert_eq!(*local.block_on(&runtime, task).unwrap(), 1);
    /// ```
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.spawn_with(future, SpawnMeta::caller())
    }

    #[track_caller]
    pub(super) fn spawn_with<F>(&self, future: F, meta: SpawnMeta) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.shared.spawn(future, meta)
    }

    /// Runs `future` on `runtime`, and the tasks of the set beside it, until `future` ends.
    ///
    /// Returns its output.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::LocalSet;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let local = LocalSet::new();
    /// assert_eq!(local.block_on(&runtime, async { 4 }), 4);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics on a thread that runs tasks, and if `future` panics.
    #[track_caller]
    pub fn block_on<F: Future>(&self, runtime: &Runtime, future: F) -> F::Output {
        runtime.block_on(self.run_until(future))
    }

    /// Runs `future`, and the tasks of the set beside it, until `future` ends.
    ///
    /// Returns its output. A set may be run in several places of its thread at once; its tasks
    /// make progress while any of them is polled.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::{LocalSet, spawn_local};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let local = LocalSet::new();
    /// let value = local.run_until(async { spawn_local(async { 2 }).await.unwrap() });
    /// assert_eq!(value.await, 2);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the returned future drops `future`. The tasks of the set stay, and go on when
    /// it is run again.
    pub async fn run_until<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let poller = SetPoller::new(&self.shared.remote);
        std::future::poll_fn(|cx| {
            poller.register(cx.waker());
            let _polling = PollingGuard::new(&self.shared);
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(output);
            }
            if self.run_tasks() {
                cx.waker().wake_by_ref();
            }
            wait::pending_on(WaitKind::LocalSet, &*self.shared);
            Poll::Pending
        })
        .await
    }

    /// Returns the id of the set.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::LocalSet;
    ///
    /// assert_ne!(LocalSet::new().id(), LocalSet::new().id());
    /// ```
    pub fn id(&self) -> runtime::Id {
        self.shared.id
    }

    /// Sets what happens when a task of the set panics.
    ///
    /// With [`UnhandledPanic::Ignore`], the default, only its [`JoinHandle`] is affected. With
    /// [`UnhandledPanic::ShutdownRuntime`] the next poll of the set panics.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::pending;
    /// use std::panic::{AssertUnwindSafe, catch_unwind};
    /// use blitzen::runtime::UnhandledPanic;
    /// use blitzen::task::{LocalSet, spawn_local};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let mut local = LocalSet::new();
    /// local.unhandled_panic(UnhandledPanic::ShutdownRuntime);
    /// let run = local.run_until(async {
    ///     spawn_local(async { panic!("no") });
    ///     pending::<()>().await
    /// });
    /// assert!(catch_unwind(AssertUnwindSafe(|| runtime.block_on(run))).is_err());
    /// ```
    pub fn unhandled_panic(&mut self, behavior: UnhandledPanic) -> &mut Self {
        let shut_down = behavior == UnhandledPanic::ShutdownRuntime;
        self.shared.shut_down_on_panic.store(shut_down, Relaxed);
        self
    }

    /// Runs tasks for a turn, within a [`PollingGuard`]; true if some are left.
    fn run_tasks(&self) -> bool {
        for _ in 0..TASKS_PER_TURN {
            assert!(
                !self.shared.panicked.load(Relaxed),
                "a spawned task panicked and the LocalSet is configured to shutdown on unhandled \
                 panic"
            );
            let Some(task) = self.next_task() else {
                return false;
            };
            match coop::with_budget(|| task.run()) {
                RunOutcome::Complete | RunOutcome::Idle(_) => {}
                RunOutcome::Woken(task) | RunOutcome::Yielded(task) => self.shared.push(task),
            }
        }
        true
    }

    fn next_task(&self) -> Option<Runnable> {
        let tick = self.tick.get().wrapping_add(1);
        self.tick.set(tick);
        // SAFETY: a set stays on its thread: it is not `Send`.
        let local = unsafe { self.shared.local.get_unchecked() };
        let local = || local.borrow_mut().as_mut()?.pop_front();
        let remote = || self.shared.remote.pop();
        match tick % REMOTE_INTERVAL {
            0 => remote().or_else(local),
            _ => local().or_else(remote),
        }
    }
}

/// One of several tasks that poll a set. When it is dropped, the others are woken.
struct SetPoller<'a> {
    remote: &'a RemoteQueue<Runnable>,
    key: PollerKey,
}

impl<'a> SetPoller<'a> {
    fn new(remote: &'a RemoteQueue<Runnable>) -> Self {
        Self {
            remote,
            key: remote.new_poller(),
        }
    }

    fn register(&self, waker: &Waker) {
        self.remote.register(self.key, waker);
    }
}

impl Drop for SetPoller<'_> {
    fn drop(&mut self) {
        // Calls the wakers of the others, which may panic.
        unless_panicking(|| self.remote.leave(self.key));
    }
}

/// Ends when every task of the set has.
impl Future for LocalSet {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let remote = &self.shared.remote;
        remote.register(PollerKey::EXCLUSIVE, cx.waker());
        let _polling = PollingGuard::new(&self.shared);
        if self.run_tasks() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.shared.owned.is_empty() {
            return Poll::Ready(());
        }
        wait::pending_on(WaitKind::LocalSet, &*self.shared);
        Poll::Pending
    }
}

impl Drop for LocalSet {
    fn drop(&mut self) {
        // Destructors may use the set: they find it closed.
        let _polling = PollingGuard::new(&self.shared);
        self.shared.owned.close();
        let remote = self.shared.remote.close();
        remote.into_iter().for_each(Runnable::forget);
        if let Some(local) = self.shared.local.get() {
            let local = local.borrow_mut().take();
            local.into_iter().flatten().for_each(Runnable::forget);
        }
        // SAFETY: the queues are empty, and forget what still comes (Q3). The
        // futures are this thread's: the set is not `Send`.
        unsafe { self.shared.owned.cancel_all() };
    }
}

impl Default for LocalSet {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LocalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSet")
            .field("id", &self.shared.id)
            .finish_non_exhaustive()
    }
}

/// Keeps a [`LocalSet`] current until it is dropped.
///
/// [`LocalSet::enter`] returns it.
///
/// # Examples
///
/// ```
/// use blitzen::task::{LocalEnterGuard, LocalSet, spawn_local};
///
/// let local = LocalSet::new();
/// let entered: LocalEnterGuard = local.enter();
/// spawn_local(async {});
/// drop(entered);
/// ```
pub struct LocalEnterGuard {
    _current: CurrentSetGuard,
    not_send: PhantomData<*const ()>,
}

impl fmt::Debug for LocalEnterGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalEnterGuard").finish_non_exhaustive()
    }
}
