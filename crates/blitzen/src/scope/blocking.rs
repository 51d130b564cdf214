//! A scope whose children borrow and run in parallel, while a thread waits for them.

use std::fmt;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use blitzen_task::SpawnMeta;
use blitzen_task::scope::MemberKind;
use blitzen_util::quiet::quietly;

use super::context;
use super::scope_core::{Cause, Node, ScopeCore, Settings};
use super::tasks::{self, SpawnPlace};
use crate::runtime::{Handle, block_on_runtime, global};
use crate::task::block_in_place;

/// Runs `body` with a scope whose children may borrow, and returns its result when all of them
/// have ended.
///
/// The children are tasks of the current runtime, and run in parallel. The calling thread
/// waits for them, and runs them if it has entered a current-thread runtime that no other thread runs. If
/// it is a worker, the other tasks of that worker move to another thread
/// first, as with [`block_in_place`]. Children return nothing: they write their results to what
/// they borrow.
///
/// A panic in a child or in the body aborts the other children, and is resumed when all have
/// ended. Only the shutdown of the runtime ends the scope early, which cancels its children like all
/// tasks; an abort of the calling task takes effect after it. A child can ask
/// [`task::is_cancelled`](crate::task::is_cancelled) whether a scope around it was cancelled.
///
/// # Examples
///
/// ```
/// use blitzen::scope::scope_blocking;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let words = ["to", "be", "or", "not"];
/// let mut lengths = [0; 4];
/// scope_blocking(|s| {
///     for (word, length) in words.iter().zip(&mut lengths) {
///         s.spawn(async move { *length = word.len() });
///     }
/// });
/// assert_eq!(lengths, [2, 2, 2, 3]);
/// # });
/// ```
///
/// A child cannot borrow what does not outlive the scope:
///
/// ```compile_fail,E0373
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # let _inside = runtime.enter();
/// blitzen::scope::scope_blocking(|s| {
///     let inside = 5;
///     s.spawn(async { println!("{inside}") });
/// });
/// ```
///
/// Nor can what it borrows be used before the scope has ended:
///
/// ```compile_fail,E0506
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # let _inside = runtime.enter();
/// let mut count = 0;
/// blitzen::scope::scope_blocking(|s| {
///     s.spawn(async { count += 1 });
///     count = 5;
/// });
/// ```
///
/// And the scope cannot be taken out of its body:
///
/// ```compile_fail,E0521
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # let _inside = runtime.enter();
/// let mut kept = None;
/// blitzen::scope::scope_blocking(|s| kept = Some(s));
/// ```
///
/// # Panics
///
/// Panics outside a runtime without the crate feature `global`, and on a thread that runs the
/// tasks of a current-thread runtime or of a [`LocalSet`](crate::task::LocalSet): there is no
/// other thread to move them to. Resumes the panic of the body or of a child.
#[track_caller]
pub fn scope_blocking<'env, B, T>(body: B) -> T
where
    B: for<'scope> FnOnce(&'scope BlockingScope<'scope, 'env>) -> T,
{
    let settings = Settings {
        is_borrowing: true,
        ..Settings::default()
    };
    let scope = BlockingScope {
        runtime: global::current(),
        node: Arc::new(Node::new(ScopeCore::open(Some(Box::new(settings))))),
        scope: PhantomData,
        env: PhantomData,
    };
    block_in_place(|| {
        let node = &scope.node;
        let wait = WaitForAll {
            node,
            runtime: &scope.runtime,
        };
        let run = || context::inside(node, || body(&scope));
        let outcome = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(value) => Some(value),
            Err(payload) => {
                // Unless a child was first.
                if let Err(later) = node.begin_cancel(Cause::Panic(payload)) {
                    quietly(|| drop(later));
                }
                None
            }
        };
        drop(wait);
        match (node.take_cause(), outcome) {
            (Some(Cause::Panic(payload)), _) => resume_unwind(payload),
            (_, Some(value)) => value,
            (_, None) => unreachable!("only a panic takes the outcome away"),
        }
    })
}

/// Waits on drop until the scope is empty: until then its children use what they borrow.
struct WaitForAll<'a> {
    node: &'a Arc<Node>,
    runtime: &'a Handle,
}

impl Drop for WaitForAll<'_> {
    fn drop(&mut self) {
        /// A panic in here would let the caller go on while children borrow from it.
        struct AbortOnUnwind;
        impl Drop for AbortOnUnwind {
            fn drop(&mut self) {
                std::process::abort();
            }
        }
        let abort = AbortOnUnwind;
        let Self { node, runtime } = self;
        node.leave_body();
        let until_ended = || {
            poll_fn(|cx| match node.register(cx.waker()).has_ended() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
        };
        // A local runtime runs its tasks on its own thread only.
        if !node.view().has_ended() && (!runtime.inner.is_local() || runtime.inner.is_local_here())
        {
            // If nobody runs the tasks of a current-thread runtime, this thread does. It panics if a
            // task has, and the runtime is configured to shut down then.
            quietly(|| block_on_runtime(runtime, until_ended()));
        }
        if !node.view().has_ended() {
            runtime.block_on(until_ended());
        }
        std::mem::forget(abort);
    }
}

/// A scope whose children may borrow; see [`scope_blocking`].
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
/// use blitzen::scope::{BlockingScope, scope_blocking};
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # let _inside = runtime.enter();
/// let count = AtomicU32::new(0);
/// scope_blocking(|s: &BlockingScope<'_, '_>| {
///     s.spawn(async { count.store(1, Relaxed) });
/// });
/// assert_eq!(count.into_inner(), 1);
/// ```
pub struct BlockingScope<'scope, 'env: 'scope> {
    node: Arc<Node>,
    runtime: Handle,
    /// Neither lifetime may be shortened or lengthened: children are checked against them.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope> BlockingScope<'scope, '_> {
    /// Spawns a child, which may borrow what outlives the scope.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::scope::scope_blocking;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # let _inside = runtime.enter();
    /// let mut text = String::new();
    /// scope_blocking(|s| {
    ///     s.spawn(async { text.push_str("hello") });
    /// });
    /// assert_eq!(text, "hello");
    /// ```
    #[track_caller]
    pub fn spawn<F>(&'scope self, future: F)
    where
        F: Future<Output = ()> + Send + 'scope,
    {
        type Borrowing<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
        let future: Borrowing<'scope> = Box::pin(future);
        // SAFETY: only the lifetime changes. The task is a member of the scope, and leaves it when
        // its future has been dropped (`ScopedSchedule::release`), or drops it here if it is
        // refused. Its output is `()`, and a panic's payload is `'static`. `WaitForAll` keeps
        // `scope_blocking` from returning before the last member has left, and `'scope` is
        // not over before it returns.
        let future: Borrowing<'static> = unsafe { std::mem::transmute(future) };
        let meta = SpawnMeta::caller();
        let place = SpawnPlace::Runtime(&self.runtime);
        let task = tasks::spawn(place, future, &self.node, MemberKind::Child, meta);
        drop(task);
    }
}

impl fmt::Debug for BlockingScope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingScope")
            .field("children", &self.node.children())
            .finish_non_exhaustive()
    }
}
