//! A scope within one task: its children borrow, and run in turns.
//!
//! The children are polled by the future of the scope, so they live as long as that and no
//! longer, and there is nothing unsafe about it. Each has a waker of its own: only those that
//! were woken are polled.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

use blitzen_util::coop;
use blitzen_util::woken_flag::WokenFlag;
use pin_project_lite::pin_project;

/// Runs `body` with a scope whose children may borrow, and returns its result when all of them
/// have ended.
///
/// The children run within the task that awaits the scope, in turns: while one of them blocks or
/// computes, the others wait. The first error, of the body or of a child, drops all others and is
/// returned. The children of [`blitzen::scope`](crate::scope()) run in parallel, but cannot borrow;
/// those of [`scope_blocking`](crate::scope::scope_blocking) do both, and block a thread.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
/// use blitzen::future::scope;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let words = ["to", "be", "or", "not"];
/// let letters = AtomicUsize::new(0);
/// let counted = scope(|s| {
///     for word in &words {
///         let letters = &letters;
///         s.spawn(async move {
///             letters.fetch_add(word.len(), Relaxed);
///             Ok::<_, std::io::Error>(())
///         });
///     }
///     async { Ok(()) }
/// });
/// counted.await.unwrap();
/// assert_eq!(letters.into_inner(), 9);
/// # });
/// ```
///
/// A child cannot borrow what ends with the body:
///
/// ```compile_fail,E0597
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// blitzen::future::scope(|s| async move {
///     let inside = 5;
///     let borrowed = &inside;
///     s.spawn(async move {
///         println!("{borrowed}");
///         Ok::<_, std::io::Error>(())
///     });
///     Ok(())
/// }).await;
/// # });
/// ```
///
/// # Cancel safety
///
/// Dropping the future drops the body and all children.
///
/// # Errors
///
/// Returns the first error of the body or of a child.
pub fn scope<'env, B, F, T, E>(body: B) -> TaskScopeFuture<'env, F, T, E>
where
    B: FnOnce(TaskScope<'env, E>) -> F,
    F: Future<Output = Result<T, E>>,
{
    let spawned = Arc::new(Spawned {
        children: Mutex::new(Some(Vec::new())),
        woken: Arc::default(),
    });
    TaskScopeFuture {
        body: Some(body(TaskScope {
            spawned: spawned.clone(),
        })),
        outcome: None,
        children: Children {
            spawned,
            slots: Vec::new(),
            free: Vec::new(),
        },
    }
}

type BoxedChild<'env, E> = Pin<Box<dyn Future<Output = Result<(), E>> + Send + 'env>>;

/// What the handles of a scope share with it.
struct Spawned<'env, E> {
    /// Children that the scope has not seen yet; `None` once it has ended.
    children: Mutex<Option<Vec<BoxedChild<'env, E>>>>,
    woken: Arc<WokenSlots>,
}

impl<'env, E> Spawned<'env, E> {
    fn lock(&self) -> MutexGuard<'_, Option<Vec<BoxedChild<'env, E>>>> {
        self.children.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// A handle to a scope within one task; see [`scope`].
///
/// # Examples
///
/// ```
/// use blitzen::future::{TaskScope, scope};
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let done = scope(|s: TaskScope<'_, std::io::Error>| async move {
///     s.spawn(async { Ok(()) });
///     Ok(())
/// });
/// done.await.unwrap();
/// # });
/// ```
pub struct TaskScope<'env, E> {
    spawned: Arc<Spawned<'env, E>>,
}

impl<'env, E> TaskScope<'env, E> {
    /// Adds `future` to the scope.
    ///
    /// It is first polled after the next poll of the body. If the scope has ended, it is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::future::scope;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut name = String::new();
    /// let filled = scope(|s| {
    ///     let name = &mut name;
    ///     s.spawn(async move { Ok::<_, std::io::Error>(name.push_str("ada")) });
    ///     async { Ok(()) }
    /// });
    /// filled.await.unwrap();
    /// assert_eq!(name, "ada");
    /// # });
    /// ```
    pub fn spawn<F>(&self, future: F)
    where
        F: Future<Output = Result<(), E>> + Send + 'env,
    {
        let child: BoxedChild<'env, E> = Box::pin(future);
        let mut children = self.spawned.lock();
        let Some(spawned) = &mut *children else {
            drop(children);
            return drop(child); // foreign code, so not under the lock
        };
        spawned.push(child);
        drop(children);
        // The scope may be waiting, if this is another thread.
        self.spawned.woken.push(NEW);
    }
}

impl<E> Clone for TaskScope<'_, E> {
    fn clone(&self) -> Self {
        Self {
            spawned: self.spawned.clone(),
        }
    }
}

impl<E> fmt::Debug for TaskScope<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskScope")
            .field("has_ended", &self.spawned.lock().is_none())
            .finish()
    }
}

/// What a poller has to look at: slots of children that were woken, or [`NEW`].
#[derive(Default)]
struct WokenSlots(Mutex<WokenState>);

#[derive(Default)]
struct WokenState {
    /// In the order of their wakes.
    slots: VecDeque<usize>,
    poller: Option<Waker>,
}

/// Stands for children that were spawned.
const NEW: usize = usize::MAX;

impl WokenSlots {
    fn lock(&self) -> MutexGuard<'_, WokenState> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn push(&self, slot: usize) {
        let mut woken = self.lock();
        woken.slots.push_back(slot);
        let poller = woken.poller.take();
        drop(woken);
        if let Some(poller) = poller {
            poller.wake();
        }
    }

    /// Returns the next slot, or has `waker` called when there is one.
    fn pop_or_register(&self, waker: &Waker) -> Option<usize> {
        let mut woken = self.lock();
        let next = woken.slots.pop_front();
        let known = woken.poller.as_ref();
        if next.is_some() || known.is_some_and(|known| known.will_wake(waker)) {
            return next;
        }
        drop(woken);
        let waker = waker.clone(); // foreign code, so not under the lock
        let mut woken = self.lock();
        let next = woken.slots.pop_front();
        let unused = match next {
            None => woken.poller.replace(waker),
            Some(_) => Some(waker),
        };
        drop(woken);
        drop(unused);
        next
    }
}

/// The waker of one child.
struct ChildWaker {
    slot: usize,
    /// Whether the slot is queued, so that it is queued once.
    is_queued: WokenFlag,
    woken: Arc<WokenSlots>,
}

impl Wake for ChildWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_queued.set() {
            self.woken.push(self.slot);
        }
    }
}

struct ChildSlot<'env, E> {
    child: BoxedChild<'env, E>,
    waker: Arc<ChildWaker>,
}

/// The children of a scope.
struct Children<'env, E> {
    spawned: Arc<Spawned<'env, E>>,
    slots: Vec<Option<ChildSlot<'env, E>>>,
    free: Vec<usize>,
}

impl<E> Children<'_, E> {
    fn is_empty(&self) -> bool {
        self.slots.len() == self.free.len()
    }

    /// Takes in what was spawned, as if woken.
    fn take_spawned(&mut self) {
        let spawned = self.spawned.lock().as_mut().map(mem::take);
        for child in spawned.into_iter().flatten() {
            let slot = self.free.pop().unwrap_or_else(|| {
                self.slots.push(None);
                self.slots.len() - 1
            });
            let waker = Arc::new(ChildWaker {
                slot,
                is_queued: WokenFlag::new(false),
                woken: self.spawned.woken.clone(),
            });
            waker.wake_by_ref();
            self.slots[slot] = Some(ChildSlot { child, waker });
        }
    }

    /// Polls the children that were woken, until one returns an error.
    fn poll(&mut self, cx: &mut Context<'_>) -> Result<(), E> {
        self.take_spawned();
        // The task is woken when it has a budget again.
        while coop::poll_budget_available(cx).is_ready() {
            let Some(slot) = self.spawned.woken.pop_or_register(cx.waker()) else {
                break;
            };
            // Taken out while it is polled, so that it is not polled again if it panics.
            let woken = self.slots.get_mut(slot).and_then(Option::take);
            if let Some(mut woken) = woken {
                woken.waker.is_queued.take();
                let waker = Waker::from(woken.waker.clone());
                let polled = woken.child.as_mut().poll(&mut Context::from_waker(&waker));
                match polled {
                    Poll::Pending => self.slots[slot] = Some(woken),
                    Poll::Ready(result) => {
                        self.free.push(slot);
                        drop(woken);
                        result?;
                    }
                }
            }
            self.take_spawned();
        }
        Ok(())
    }

    /// Drops all children, and refuses others.
    fn close(&mut self) {
        let spawned = self.spawned.lock().take();
        drop(spawned);
        self.free.clear();
        drop(mem::take(&mut self.slots));
    }
}

impl<E> Drop for Children<'_, E> {
    fn drop(&mut self) {
        // A handle that was kept would keep them otherwise.
        self.close();
    }
}

pin_project! {
    /// The future of [`scope`].
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::future::{TaskScopeFuture, scope};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let future: TaskScopeFuture<'_, _, i32, std::io::Error> = scope(|_| async { Ok(1) });
    /// assert_eq!(future.await.unwrap(), 1);
    /// # });
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct TaskScopeFuture<'env, F, T, E> {
        #[pin]
        body: Option<F>,
        outcome: Option<T>,
        children: Children<'env, E>,
    }
}

impl<F, T, E> Future for TaskScopeFuture<'_, F, T, E>
where
    F: Future<Output = Result<T, E>>,
{
    type Output = Result<T, E>;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, E>> {
        let mut this = self.project();
        let mut failed = None;
        if let Some(body) = this.body.as_mut().as_pin_mut() {
            match body.poll(cx) {
                Poll::Pending => {}
                Poll::Ready(outcome) => {
                    this.body.set(None);
                    match outcome {
                        Ok(value) => *this.outcome = Some(value),
                        Err(error) => failed = Some(error),
                    }
                }
            }
        }
        if failed.is_none() {
            failed = this.children.poll(cx).err();
        }
        if let Some(error) = failed {
            this.body.set(None);
            *this.outcome = None;
            this.children.close();
            return Poll::Ready(Err(error));
        }
        if this.body.is_some() || !this.children.is_empty() {
            return Poll::Pending;
        }
        match this.outcome.take() {
            Some(value) => {
                this.children.close();
                Poll::Ready(Ok(value))
            }
            None => panic!("`TaskScopeFuture` polled after completion"),
        }
    }
}

impl<F, T, E> fmt::Debug for TaskScopeFuture<'_, F, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let children = self.children.slots.len() - self.children.free.len();
        f.debug_struct("TaskScopeFuture")
            .field("children", &children)
            .finish_non_exhaustive()
    }
}
