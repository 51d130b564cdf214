//! Tasks that stay on one thread, on any runtime.
//!
//! A [`LocalSet`] is a future that runs other futures, which therefore need not
//! be `Send`: they move when it does, and it does not.
//!
//! Q1. Tasks woken on the set's thread while it runs go to its own queue, which
//!     only that thread touches; all others to the queue behind the lock.
//! Q2. Once closed the locked queue forgets what comes, and the set cancels
//!     every live task on its own thread.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};

use blitzen_task::{Header, Id as TaskId, JoinHandle, Origin, Owned, Ran, Runnable, Schedule};
use blitzen_util::coop;

use crate::runtime::{self, Runtime, UnhandledPanic};

/// Tasks run in one go before the thread is given back.
const TASKS_PER_TURN: usize = 61;
/// Tasks between two looks at what was woken from outside.
const OUTSIDE_INTERVAL: u32 = 31;

/// A set of tasks that all run on one thread.
///
/// ```
/// use std::rc::Rc;
/// use blitzen::task::LocalSet;
///
/// let runtime = blitzen::runtime::Runtime::new().unwrap();
/// let shared = Rc::new(5);
/// let local = LocalSet::new();
/// local.block_on(&runtime, async move {
///     let task = blitzen::task::spawn_local(async move { *shared });
///     assert_eq!(task.await.unwrap(), 5);
/// });
/// ```
pub struct LocalSet {
    shared: Arc<Shared>,
    tick: Cell<u32>,
    /// The futures stay on this thread.
    not_send: PhantomData<*const ()>,
}

struct Shared {
    id: runtime::Id,
    thread: ThreadId,
    /// Q1: of the set's thread only.
    inside: ThreadOwned<VecDeque<Runnable>>,
    /// `None` once closed (Q2).
    outside: Mutex<Option<VecDeque<Runnable>>>,
    /// Whoever polls the set.
    waker: Mutex<Option<Waker>>,
    owned: Owned,
    shut_down_on_panic: AtomicBool,
    panicked: AtomicBool,
}

/// A value that only one thread touches.
struct ThreadOwned<T>(RefCell<T>);

// SAFETY: `Shared` looks at the thread before it touches the value, and drops
// it empty.
unsafe impl<T> Send for ThreadOwned<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for ThreadOwned<T> {}

thread_local! {
    /// The set that is running, or has been entered, on this thread.
    static CURRENT: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
    /// A set is polling its tasks on this thread.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is running the tasks of a set, and so must not hand
/// them to another.
pub(super) fn is_inside() -> bool {
    RUNNING.get()
}

/// Puts back on drop the set that was current before.
struct Entered {
    before: Option<Arc<Shared>>,
    was_running: bool,
}

impl Entered {
    fn new(shared: &Arc<Shared>, running: bool) -> Self {
        Self {
            before: CURRENT.replace(Some(shared.clone())),
            was_running: RUNNING.replace(running || RUNNING.get()),
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        RUNNING.set(self.was_running);
        drop(CURRENT.replace(self.before.take()));
    }
}

impl Shared {
    fn is_here(&self) -> bool {
        self.thread == thread::current().id()
    }

    fn is_current(self: &Arc<Self>) -> bool {
        // A thread that is going away has no current set.
        CURRENT
            .try_with(|current| {
                let current = current.borrow();
                current.as_ref().is_some_and(|set| Arc::ptr_eq(set, self))
            })
            .unwrap_or(false)
    }

    fn outside(&self) -> std::sync::MutexGuard<'_, Option<VecDeque<Runnable>>> {
        self.outside.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Queues a task where thread and lock allow.
    fn push(self: &Arc<Self>, task: Runnable) {
        if self.is_here() && self.is_current() {
            self.inside.0.borrow_mut().push_back(task);
            return;
        }
        match &mut *self.outside() {
            Some(queue) => queue.push_back(task),
            None => return task.forget(), // Q2
        }
        self.wake();
    }

    /// Wakes whoever polls the set.
    fn wake(&self) {
        let waker = self.waker.lock().unwrap_or_else(|e| e.into_inner()).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn register(&self, waker: &Waker) {
        let mut slot = self.waker.lock().unwrap_or_else(|e| e.into_inner());
        match &*slot {
            Some(old) if old.will_wake(waker) => {}
            _ => *slot = Some(waker.clone()),
        }
    }

    #[track_caller]
    fn spawn<F>(self: &Arc<Self>, future: F, origin: Origin) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        debug_assert!(self.is_here());
        let scheduler = Local(self.clone());
        // SAFETY: this is the set's thread: it runs, closes and drops every
        // task there (Q2).
        let (task, handle) =
            unsafe { blitzen_task::spawn_unchecked(future, scheduler, TaskId::next(), origin) };
        match self.owned.insert(&task) {
            Ok(()) => self.push(task),
            Err(_) => drop(task), // which cancels it
        }
        handle
    }
}

/// The scheduler of a set's tasks.
struct Local(Arc<Shared>);

impl Schedule for Local {
    fn schedule(&self, task: Runnable) {
        self.0.push(task);
    }

    fn release(&self, task: &Header) {
        self.0.owned.remove(task);
    }

    fn panicked(&self) {
        if self.0.shut_down_on_panic.load(Relaxed) {
            self.0.panicked.store(true, Relaxed);
        }
    }
}

/// Starts a task on the current [`LocalSet`] or
/// [local runtime](crate::runtime::LocalRuntime). Its future need not be `Send`.
///
/// ```
/// # let runtime = blitzen::runtime::LocalRuntime::new().unwrap();
/// # runtime.block_on(async {
/// let counter = std::rc::Rc::new(std::cell::Cell::new(0));
/// let task = blitzen::task::spawn_local({
///     let counter = counter.clone();
///     async move { counter.set(1) }
/// });
/// task.await.unwrap();
/// assert_eq!(counter.get(), 1);
/// # });
/// ```
///
/// # Panics
/// Outside a `LocalSet` and a local runtime.
#[track_caller]
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    spawn_local_with(future, Origin::caller())
}

/// [`spawn_local`], with the task's name and place given.
#[track_caller]
pub(super) fn spawn_local_with<F>(future: F, origin: Origin) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let set = CURRENT.try_with(|current| current.borrow().clone());
    if let Ok(Some(set)) = set {
        return set.spawn(future, origin);
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
    unsafe { handle.inner.spawn_local(future, TaskId::next(), origin) }
}

impl LocalSet {
    /// An empty set.
    ///
    /// ```
    /// let local = blitzen::task::LocalSet::new();
    /// # drop(local);
    /// ```
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                id: runtime::Id::next(),
                thread: thread::current().id(),
                inside: ThreadOwned(RefCell::new(VecDeque::new())),
                outside: Mutex::new(Some(VecDeque::new())),
                waker: Mutex::new(None),
                owned: Owned::new(),
                shut_down_on_panic: AtomicBool::new(false),
                panicked: AtomicBool::new(false),
            }),
            tick: Cell::new(0),
            not_send: PhantomData,
        }
    }

    /// Makes this the set that [`spawn_local`] uses until the guard is dropped.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let local = blitzen::task::LocalSet::new();
    /// let task = {
    ///     let _inside = local.enter();
    ///     blitzen::task::spawn_local(async { 1 })
    /// };
    /// assert_eq!(local.block_on(&runtime, task).unwrap(), 1);
    /// ```
    pub fn enter(&self) -> LocalEnterGuard {
        LocalEnterGuard {
            _entered: Entered::new(&self.shared, false),
            not_send: PhantomData,
        }
    }

    /// Starts a task on the set. It runs when the set does.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let local = blitzen::task::LocalSet::new();
    /// let task = local.spawn_local(async { std::rc::Rc::new(1) });
    /// assert_eq!(*local.block_on(&runtime, task).unwrap(), 1);
    /// ```
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.spawn_with(future, Origin::caller())
    }

    #[track_caller]
    pub(super) fn spawn_with<F>(&self, future: F, origin: Origin) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let handle = self.shared.spawn(future, origin);
        self.shared.wake();
        handle
    }

    /// Runs a future, and the set's tasks beside it, until the future ends.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// let local = blitzen::task::LocalSet::new();
    /// assert_eq!(local.block_on(&runtime, async { 4 }), 4);
    /// ```
    ///
    /// # Panics
    /// On a thread that is running tasks, and if the future panics.
    #[track_caller]
    pub fn block_on<F: Future>(&self, runtime: &Runtime, future: F) -> F::Output {
        runtime.block_on(self.run_until(future))
    }

    /// Runs a future, and the set's tasks beside it, until the future ends.
    ///
    /// ```
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let local = blitzen::task::LocalSet::new();
    /// let value = local.run_until(async {
    ///     blitzen::task::spawn_local(async { 2 }).await.unwrap()
    /// });
    /// assert_eq!(value.await, 2);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// Dropping it drops the future; the set's tasks stay, and go on when the
    /// set is run again.
    pub async fn run_until<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            self.shared.register(cx.waker());
            {
                let _entered = Entered::new(&self.shared, true);
                if let Poll::Ready(output) = future.as_mut().poll(cx) {
                    return Poll::Ready(output);
                }
            }
            if self.run_tasks() {
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        })
        .await
    }

    /// The set's opaque name.
    ///
    /// ```
    /// use blitzen::task::LocalSet;
    ///
    /// assert_ne!(LocalSet::new().id(), LocalSet::new().id());
    /// ```
    pub fn id(&self) -> runtime::Id {
        self.shared.id
    }

    /// What happens when a task of the set panics.
    ///
    /// ```
    /// use blitzen::runtime::UnhandledPanic;
    ///
    /// let mut local = blitzen::task::LocalSet::new();
    /// local.unhandled_panic(UnhandledPanic::Ignore);
    /// ```
    pub fn unhandled_panic(&mut self, behavior: UnhandledPanic) -> &mut Self {
        let shut_down = behavior == UnhandledPanic::ShutdownRuntime;
        self.shared.shut_down_on_panic.store(shut_down, Relaxed);
        self
    }

    /// Runs tasks for a turn; true if some are left.
    fn run_tasks(&self) -> bool {
        let _entered = Entered::new(&self.shared, true);
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
                Ran::Complete | Ran::Idle => {}
                Ran::Woken(task) | Ran::Yielded(task) => self.shared.push(task),
            }
        }
        true
    }

    fn next_task(&self) -> Option<Runnable> {
        let tick = self.tick.get().wrapping_add(1);
        self.tick.set(tick);
        let inside = || self.shared.inside.0.borrow_mut().pop_front();
        let outside = || self.shared.outside().as_mut()?.pop_front();
        match tick % OUTSIDE_INTERVAL {
            0 => outside().or_else(inside),
            _ => inside().or_else(outside),
        }
    }
}

/// Ends when every task of the set has.
impl Future for LocalSet {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.register(cx.waker());
        if self.run_tasks() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        match self.shared.owned.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

impl Drop for LocalSet {
    fn drop(&mut self) {
        // Destructors may look for the set: they find it, closed.
        let _entered = CURRENT
            .try_with(|_| ())
            .is_ok()
            .then(|| Entered::new(&self.shared, true));
        self.shared.owned.close();
        let outside = self.shared.outside().take();
        outside.into_iter().flatten().for_each(Runnable::forget);
        loop {
            let task = self.shared.inside.0.borrow_mut().pop_front();
            match task {
                Some(task) => task.forget(),
                None => break,
            }
        }
        // SAFETY: the queues are empty; what is woken from now on is forgotten,
        // or lands in the inner queue and is forgotten below, by this thread,
        // before anybody could run it. The futures are this thread's.
        unsafe { self.shared.owned.cancel_all() };
        let late = std::mem::take(&mut *self.shared.inside.0.borrow_mut());
        late.into_iter().for_each(Runnable::forget);
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

/// Keeps a set current; see [`LocalSet::enter`].
///
/// ```
/// let local = blitzen::task::LocalSet::new();
/// let guard: blitzen::task::LocalEnterGuard = local.enter();
/// drop(guard);
/// ```
#[must_use = "the set is left when the guard is dropped"]
pub struct LocalEnterGuard {
    _entered: Entered,
    not_send: PhantomData<*const ()>,
}

impl fmt::Debug for LocalEnterGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalEnterGuard").finish_non_exhaustive()
    }
}
