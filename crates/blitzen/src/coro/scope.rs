//! Coroutines that borrow from the function that spawns them.
//!
//! E1. A child's closure, and all that it borrows, is dropped before the child is counted out.
//!     Nothing that belongs to the child touches what it borrowed after that.
//! E2. [`scope`] neither returns nor unwinds before all children are counted out. While it waits
//!     it is shielded; a coroutine that is suspended is never dropped.

use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use blitzen_task::{AbortHandle, current};
use blitzen_util::quiet::quietly;

use super::inside::{self, CancelPayload, Inside};
use super::{Builder, assert_can_wait, block_on, shield};

/// Calls `body` with a scope, and returns what it returns when all coroutines that were spawned in
/// the scope have ended. These may borrow what lives outside `body`.
///
/// In a coroutine the coroutine is suspended until then. Elsewhere the thread blocks, as in
/// [`block_on`]. If `body` or a child panics, or the coroutine is aborted, the children are aborted
/// and waited for; then the first panic is resumed.
///
/// # Examples
///
/// ```
/// use blitzen::coro;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// // SAFETY: no thread-locals.
/// let sums = unsafe {
///     coro::spawn(|| {
///         let numbers = vec![1, 2, 3, 4];
///         let mut sums = [0, 0];
///         let (left, right) = numbers.split_at(2);
///         let [first, second] = &mut sums;
///         coro::scope(|scope| {
///             scope.spawn(|| *first = left.iter().sum());
///             scope.spawn(|| *second = right.iter().sum());
///         });
///         sums
///     })
/// };
/// assert_eq!(sums.await.unwrap(), [3, 7]);
/// # });
/// ```
///
/// # Panics
///
/// Resumes the first panic of `body` or of a child. Panics if a child was cancelled because the
/// runtime shuts down, and where [`block_on`] does.
#[track_caller]
pub fn scope<'env, F, R>(body: F) -> R
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
{
    assert_can_wait(); // here, since the wait must not panic
    let scope = Scope {
        shared: Arc::new(ScopeShared::default()),
        scope: PhantomData,
        env: PhantomData,
    };
    let result = catch_unwind(AssertUnwindSafe(|| body(&scope)));
    let must_wait = AbortOnPanic; // E2
    let shared = &scope.shared;
    if result.is_err() {
        shared.abort_children();
    }
    let can_cancel = inside::current().is_some_and(Inside::can_cancel);
    shield(|| block_on(poll_fn(|cx| shared.poll_ended(can_cancel, cx.waker()))));
    std::mem::forget(must_wait);
    let (panic, is_incomplete) = {
        let mut state = shared.lock();
        (state.panic.take(), state.is_incomplete)
    };
    match (result, panic) {
        (Ok(output), None) if is_incomplete => {
            quietly(|| drop(output));
            if can_cancel && current::is_cancel_requested() {
                resume_unwind(Box::new(CancelPayload));
            }
            panic!("a child of a coroutine's scope was cancelled: its runtime has shut down");
        }
        (Ok(output), None) => output,
        (Err(payload), None) => resume_unwind(payload),
        (Ok(output), Some(payload)) => {
            quietly(|| drop(output));
            resume_unwind(payload)
        }
        (Err(own), Some(payload)) => {
            quietly(|| drop(payload));
            resume_unwind(own)
        }
    }
}

/// Ends the process if a panic passes: children may still use what would be dropped.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// A scope for coroutines that borrow, made by [`scope`].
///
/// # Examples
///
/// ```
/// use blitzen::coro::{self, Scope};
///
/// fn spawn_both<'scope>(scope: &'scope Scope<'scope, '_>, word: &'scope str) {
///     for _ in 0..2 {
///         // SAFETY: no thread-locals.
///         unsafe { scope.spawn(|| assert_eq!(word.len(), 5)) };
///     }
/// }
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// // SAFETY: no thread-locals.
/// let done = unsafe {
///     coro::spawn(|| {
///         let word = String::from("hello");
///         coro::scope(|scope| spawn_both(scope, &word));
///     })
/// };
/// done.await.unwrap();
/// # });
/// ```
pub struct Scope<'scope, 'env: 'scope> {
    shared: Arc<ScopeShared>,
    /// Invariant, as in `std::thread::Scope`: `'scope` cannot be made shorter.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

#[derive(Default)]
struct ScopeShared(Mutex<ScopeState>);

#[derive(Default)]
struct ScopeState {
    /// Children that are not counted out.
    running: usize,
    /// The children, unless they have ended.
    handles: Vec<AbortHandle>,
    is_aborted: bool,
    /// Whether a child was cancelled.
    is_incomplete: bool,
    /// The first panic of a child.
    panic: Option<Box<dyn Any + Send>>,
    /// Who waits for the children.
    waker: Option<Waker>,
}

impl ScopeShared {
    fn lock(&self) -> MutexGuard<'_, ScopeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Aborts the children, and those that are still spawned.
    fn abort_children(&self) {
        let mut state = self.lock();
        state.is_aborted = true;
        let handles = std::mem::take(&mut state.handles);
        drop(state);
        handles.iter().for_each(AbortHandle::abort);
    }

    /// Waits for the children. If the coroutine is cancelled meanwhile and `can_cancel`, they are
    /// aborted.
    fn poll_ended(&self, can_cancel: bool, waker: &Waker) -> Poll<()> {
        // The wait is shielded, so nobody else aborts the children.
        if can_cancel && current::is_cancel_requested() {
            self.abort_children();
        }
        let waker = waker.clone();
        let mut state = self.lock();
        if state.running == 0 {
            return Poll::Ready(());
        }
        let before = state.waker.replace(waker);
        drop(state);
        drop(before);
        Poll::Pending
    }

    /// Counts a child out.
    fn child_ended(&self) {
        let mut state = self.lock();
        state.running -= 1;
        let waker = match state.running {
            0 => state.waker.take(),
            _ => None,
        };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn child_panicked(&self, payload: Box<dyn Any + Send>) {
        let mut state = self.lock();
        let surplus = match state.panic {
            None => state.panic.replace(payload),
            Some(_) => Some(payload),
        };
        drop(state);
        quietly(|| drop(surplus));
        self.abort_children();
    }
}

/// Counts a child out on drop. In a child it is dropped after the closure (E1).
struct Counted(Arc<ScopeShared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.child_ended();
    }
}

/// The function of a child; its fields are dropped in this order (E1).
struct Child {
    f: Option<Box<dyn FnOnce() + Send>>,
    counted: Counted,
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.f.is_some() {
            self.counted.0.lock().is_incomplete = true; // it never ran
        }
    }
}

impl Child {
    fn run(mut self) {
        let Some(f) = self.f.take() else {
            unreachable!("a child runs once");
        };
        // The closure is dropped inside, with all that it has borrowed.
        let Err(payload) = catch_unwind(AssertUnwindSafe(f)) else {
            return;
        };
        if payload.is::<CancelPayload>() {
            self.counted.0.lock().is_incomplete = true;
            drop(self); // nothing is borrowed any more
            resume_unwind(payload);
        }
        self.counted.0.child_panicked(payload);
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Spawns a coroutine that may borrow what outlives the scope.
    ///
    /// `f` returns nothing: it writes its result to what it borrows. A panic in `f` aborts the other
    /// children, and [`scope`] resumes it.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::coro;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// // SAFETY: no thread-locals.
    /// let word = unsafe {
    ///     coro::spawn(|| {
    ///         let mut word = String::from("hel");
    ///         coro::scope(|scope| scope.spawn(|| word.push_str("lo")));
    ///         word
    ///     })
    /// };
    /// assert_eq!(word.await.unwrap(), "hello");
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
    pub unsafe fn spawn<F>(&'scope self, f: F)
    where
        F: FnOnce() + Send + 'scope,
    {
        let f: Box<dyn FnOnce() + Send + 'scope> = Box::new(f);
        // SAFETY: only the lifetime changes. E1 and E2: the closure, and what it borrows, is gone
        // before `'scope` ends.
        let f: Box<dyn FnOnce() + Send + 'static> = unsafe { std::mem::transmute(f) };
        self.shared.lock().running += 1;
        let child = Child {
            f: Some(f),
            counted: Counted(self.shared.clone()),
        };
        // SAFETY: handed on.
        let handle = unsafe { Builder::new().spawn(move || child.run()) };
        let mut state = self.shared.lock();
        match state.is_aborted {
            true => {
                drop(state);
                handle.abort();
            }
            false => {
                // Only those that have not ended, so that their memory goes with them.
                if state.handles.len() == state.handles.capacity() {
                    state.handles.retain(|handle| !handle.is_finished());
                }
                state.handles.push(handle.abort_handle());
            }
        }
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = self.shared.lock().running;
        f.debug_struct("Scope")
            .field("running", &running)
            .finish_non_exhaustive()
    }
}
