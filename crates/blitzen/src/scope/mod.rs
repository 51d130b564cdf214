//! Structured concurrency: tasks that do not outlive the code that started them.
//!
//! A [`scope`](scope()) runs a body, which spawns children into it, and ends when all of them
//! have:
//!
//! ```
//! use blitzen::scope::{Stopped, scope};
//!
//! # let runtime = blitzen::runtime::Runtime::new().unwrap();
//! # runtime.block_on(async {
//! let both = scope(|s| async move {
//!     let one = s.spawn(async { Ok(1) });
//!     s.spawn(async { Ok(()) }); // no handle: it is waited for all the same
//!     Ok::<_, Stopped>(one.await? + 1)
//! });
//! assert_eq!(both.await, Ok(2)); // here all of them have ended
//! # });
//! ```
//!
//! | what happens | what the scope does |
//! |---|---|
//! | a child or the body returns an error | cancels all others, waits for them, returns the first error |
//! | a child or the body panics | the same, and then resumes the panic |
//! | the deadline passes | the same, with [`Stopped::Deadline`] |
//! | [`Scope::cancel`], or the scope around is cancelled | cancels all, waits, returns what the body does |
//! | the task that awaits it is aborted | cancels all, waits; then the abort takes effect |
//! | its future is dropped | cancels all; the scope around it waits for them |
//! | the runtime shuts down | its tasks are dropped, as all others |
//!
//! # Cancellation
//!
//! Cancelling a scope asks its members to end, and aborts them when the
//! [grace](ScopeBuilder::grace) is over, which is at once unless one is set. Code that wants to end
//! in good order asks [`task::is_cancelled`](crate::task::is_cancelled), awaits
//! [`task::cancelled`](crate::task::cancelled), or wraps what it waits for in
//! [`task::unless_cancelled`](crate::task::unless_cancelled). An abort waits for a
//! [`task::shield`](crate::task::shield). Inside a shield nothing seems cancelled, so that a
//! cleanup can use the same functions.
//!
//! A deadline, and the end of a grace, is a point in time. A scope inside another one has the
//! earlier of its own and the other's.
//!
//! # Borrowing
//!
//! Children of a scope are tasks of their own, and `'static`. Safe code can forget a future, so a
//! scope that is a future cannot promise that its children have ended when what they borrow goes
//! away. Of borrowing, running in parallel and waiting without a thread, a scope can therefore
//! have any two.
//!
//! | | borrows | parallel | no thread waits |
//! |---|---|---|---|
//! | [`scope`](scope()) | | ✓ | ✓ |
//! | [`future::scope`](crate::future::scope()) | ✓ | | ✓ |
//! | [`scope_blocking`] | ✓ | ✓ | |
//!
//! All three take a stack of its own: with the feature `coro`, `coro::scope` has them.

mod blocking;
mod builder;
pub(crate) mod cancellation;
mod child;
mod context;
mod driver;
mod error;
mod future;
mod inherited;
mod kept_node;
mod root;
mod scope_core;
mod tasks;

pub use blocking::{BlockingScope, scope_blocking};
pub use builder::ScopeBuilder;
pub use child::Child;
pub use error::{Failure, Stopped};
pub use future::ScopeFuture;
pub use inherited::{Bound, Inherited};
pub(crate) use kept_node::forget as forget_kept_node;
pub(crate) use root::RootScope;

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;

use blitzen_sync::CancelToken;
use blitzen_task::SpawnMeta;
use blitzen_task::scope::MemberKind;

use crate::runtime::global;
use crate::time::Instant;
use child::ChildFuture;
use scope_core::{Cause, Node};
use tasks::SpawnPlace;

/// Runs `body` with a scope, and returns its result when all children of the scope have ended.
///
/// The first error, of the body or of a child, cancels the others and is returned. A panic
/// cancels them too, and is resumed in the caller. [`Scope::builder`] opens a scope with a
/// deadline, a grace or a limit.
///
/// An abort of the task that awaits the scope takes effect when the scope is empty. If the
/// scope is awaited inside something that polls it with a waker of its own, such as a set of many
/// futures, an abort drops it instead.
///
/// # Examples
///
/// ```
/// use std::io;
/// use blitzen::scope::scope;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let result: io::Result<()> = scope(|s| async move {
///     s.spawn(async { Err::<(), _>(io::Error::other("out of paper")) });
///     s.spawn(std::future::pending::<io::Result<()>>()); // is cancelled
///     Ok(())
/// })
/// .await;
/// assert_eq!(result.unwrap_err().to_string(), "out of paper");
/// # });
/// ```
///
/// # Cancel safety
///
/// Dropping the future drops the body and cancels the children, with their grace. The scope
/// around this one waits for them. Use [`ScopeBuilder::within`] for a timeout that waits.
///
/// # Errors
///
/// Returns the first error of the body or of a child; `E::from(Stopped::Deadline)` after a
/// deadline; and `E::from(Stopped::Cancelled)` if the scope was cancelled and the body did not
/// end by itself.
///
/// # Panics
///
/// Resumes the panic of the body or of a child.
pub fn scope<B, F, T, E>(body: B) -> ScopeFuture<B, F, T, E>
where
    B: FnOnce(Scope<E>) -> F,
    F: Future<Output = Result<T, E>>,
    E: From<Stopped> + Send + 'static,
{
    ScopeFuture::new(body, None)
}

/// A handle to a scope: it spawns children into the scope, and cancels it.
///
/// The body of the scope gets one. It can be cloned and sent to other threads, and may outlive the
/// scope: a scope that has ended spawns nothing any more.
///
/// # Examples
///
/// ```
/// use blitzen::scope::{Scope, Stopped, scope};
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let done = scope(|s: Scope<Stopped>| async move {
///     s.spawn({
///         let s = s.clone();
///         async move {
///             s.spawn(async { Ok(()) }); // a sibling
///             Ok(())
///         }
///     });
///     Ok(s)
/// });
/// let ended = done.await.unwrap();
/// assert_eq!(ended.spawn(async { Ok(()) }).await, Err(Stopped::Refused));
/// # });
/// ```
pub struct Scope<E> {
    node: Arc<Node>,
    error: PhantomData<fn(E)>,
}

impl<E> Scope<E> {
    fn new(node: Arc<Node>) -> Self {
        Self {
            node,
            error: PhantomData,
        }
    }

    /// Cancels the scope: its members are asked to end, and aborted after the
    /// [grace](ScopeBuilder::grace).
    ///
    /// Has no effect on a scope that was cancelled before.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::scope::{Stopped, scope};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let cancelled = scope(|s| async move {
    ///     s.spawn(std::future::pending::<Result<(), Stopped>>());
    ///     s.cancel();
    ///     Ok("the body has ended by itself")
    /// });
    /// assert!(cancelled.await.is_ok());
    /// # });
    /// ```
    pub fn cancel(&self) {
        // There may be a cause already.
        let _ = self.node.begin_cancel(Cause::Stopped(Stopped::Cancelled));
    }

    /// Returns whether this scope, or one around it, was cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::scope::{Stopped, scope};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let done = scope(|s| async move {
    ///     assert!(!s.is_cancelled());
    ///     s.cancel();
    ///     assert!(s.is_cancelled());
    ///     Ok::<_, Stopped>(())
    /// });
    /// done.await.unwrap();
    /// # });
    /// ```
    pub fn is_cancelled(&self) -> bool {
        scope_core::is_cancelled(&self.node)
    }

    /// Returns a token that is cancelled when this scope, or one around it, is cancelled.
    ///
    /// Cancelling the token does not cancel the scope.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::scope::{Stopped, scope};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let done = scope(|s| async move {
    ///     let token = s.token();
    ///     s.cancel();
    ///     token.cancelled().await;
    ///     Ok::<_, Stopped>(())
    /// });
    /// done.await.unwrap();
    /// # });
    /// ```
    pub fn token(&self) -> CancelToken {
        scope_core::token(&self.node).child_token()
    }

    /// Cancels the scope at `deadline`, in place of the deadline it had.
    ///
    /// A deadline of the scope around it stays in force.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::scope::{Stopped, scope};
    /// use blitzen::time::Instant;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let late = scope(|s| async move {
    ///     s.set_deadline(Instant::now());
    ///     std::future::pending::<Result<(), Stopped>>().await
    /// });
    /// assert_eq!(late.await, Err(Stopped::Deadline));
    /// # });
    /// ```
    pub fn set_deadline(&self, deadline: Instant) {
        self.node.owner().set_deadline(deadline);
        self.node.wake_owner();
    }

    /// Returns the number of children that have not ended, without daemons.
    ///
    /// A child is counted until just after its [`Child`] handle is ready.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::scope::{Stopped, scope};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let done = scope(|s| async move {
    ///     assert_eq!(s.children(), 0);
    ///     s.spawn(std::future::pending::<Result<(), Stopped>>());
    ///     assert_eq!(s.children(), 1);
    ///     s.cancel();
    ///     Ok(())
    /// });
    /// done.await.unwrap();
    /// # });
    /// ```
    pub fn children(&self) -> usize {
        self.node.children()
    }

    /// Returns the number of errors and panics that came after the scope was cancelled.
    ///
    /// The first failure cancels the scope and does not count. Those after it are not returned by
    /// the scope.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::scope::{Scope, Stopped};
    /// use blitzen::task;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let two_failures = Scope::builder().grace(Duration::from_secs(60)).run(|s| async move {
    ///     let first = s.spawn(async { Err::<(), _>(Stopped::Refused) });
    ///     assert_eq!(first.await, Err(Stopped::Failed));
    ///     let second = s.spawn(async { Err::<(), _>(Stopped::Refused) });
    ///     assert_eq!(second.await, Err(Stopped::Failed));
    ///     assert_eq!(s.later_failures(), 1);
    ///     Ok(())
    /// });
    /// assert_eq!(two_failures.await, Err(Stopped::Refused));
    /// # });
    /// ```
    pub fn later_failures(&self) -> usize {
        self.node.owner().later_failures()
    }

    /// Waits until the scope has fewer children than [`at_most`](ScopeBuilder::at_most) allows,
    /// or is cancelled.
    ///
    /// Returns at once if there is no limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::scope::{Scope, Stopped};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let one_by_one = Scope::builder().at_most(1).run(|s| async move {
    ///     for n in 0..3 {
    ///         s.ready().await;
    ///         s.spawn(async move { Ok(println!("{n}")) });
    ///     }
    ///     Ok::<_, Stopped>(())
    /// });
    /// one_by_one.await.unwrap();
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future only ends the wait.
    pub async fn ready(&self) {
        let core = self.node.owner();
        let Some((limit, room)) = core.limit() else {
            return;
        };
        while self.children() >= limit && !self.is_cancelled() {
            let mut room = pin!(room.notified());
            // Before counting: a child that leaves in between is not missed.
            room.as_mut().enable();
            if self.children() >= limit {
                // Cancelled or not, it looks again.
                let _ = scope_core::token(&self.node)
                    .run_until_cancelled(room)
                    .await;
            }
        }
    }
}

impl<E: Send + 'static> Scope<E> {
    /// Returns a builder for a scope with a deadline, a grace, a limit or a supervisor.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::scope::{Scope, Stopped};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let limited = Scope::builder().at_most(8).run(|_| async { Ok::<_, Stopped>(1) });
    /// assert_eq!(limited.await, Ok(1));
    /// # });
    /// ```
    pub fn builder() -> ScopeBuilder<E> {
        ScopeBuilder::new()
    }

    /// Spawns a child: a task that the scope waits for.
    ///
    /// It runs on the runtime in which the scope was opened, or on the
    /// [dispatcher](ScopeBuilder::dispatcher) of the scope. The returned [`Child`] gives the value
    /// of `future`. An error or a panic of `future` goes to the scope instead. If the scope has
    /// ended, `future` is dropped, and the handle returns [`Stopped::Refused`].
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::scope::{Stopped, scope};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let value = scope(|s| async move {
    ///     s.spawn(async { Ok::<_, Stopped>(7) }).await
    /// });
    /// assert_eq!(value.await, Ok(7));
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the scope was opened outside a runtime and this is called outside one too.
    #[track_caller]
    pub fn spawn<T, F>(&self, future: F) -> Child<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        self.spawn_as(future, MemberKind::Child, SpawnMeta::caller())
    }

    /// Spawns a child with a name, which is shown wherever tasks are listed.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::scope::{Stopped, scope};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let done = scope(|s| async move {
    ///     s.spawn_named("reader", async { Ok::<_, Stopped>(()) }).await
    /// });
    /// done.await.unwrap();
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics where [`spawn`](Self::spawn) does.
    #[track_caller]
    pub fn spawn_named<T, F>(&self, name: &str, future: F) -> Child<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        self.spawn_as(future, MemberKind::Child, SpawnMeta::caller().named(name))
    }

    /// Spawns a daemon: a child that is cancelled when the body and all other children have ended.
    ///
    /// The scope then waits for it too.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::scope::{Stopped, scope};
    /// use blitzen::time::sleep;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let done = scope(|s| async move {
    ///     s.spawn_daemon(async {
    ///         loop {
    ///             println!("still running");
    ///             sleep(Duration::from_secs(1)).await;
    ///         }
    ///     });
    ///     Ok::<_, Stopped>("the work is done")
    /// });
    /// assert!(done.await.is_ok());
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics where [`spawn`](Self::spawn) does.
    #[track_caller]
    pub fn spawn_daemon<F>(&self, future: F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        drop(self.spawn_as(future, MemberKind::Daemon, SpawnMeta::caller()));
    }

    #[track_caller]
    fn spawn_as<T, F>(&self, future: F, kind: MemberKind, meta: SpawnMeta) -> Child<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let core = self.node.owner();
        let current;
        let place = match (core.dispatcher(), core.runtime()) {
            (Some(dispatcher), _) => SpawnPlace::Dispatcher(dispatcher),
            (None, Some(runtime)) => SpawnPlace::Runtime(runtime),
            (None, None) => {
                current = global::current();
                SpawnPlace::Runtime(&current)
            }
        };
        let future = ChildFuture::<F, E>::new(future);
        Child::new(tasks::spawn(place, future, &self.node, kind, meta))
    }
}

impl<E> Clone for Scope<E> {
    fn clone(&self) -> Self {
        Self::new(self.node.clone())
    }
}

impl<E> fmt::Debug for Scope<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("name", &self.node.owner().name())
            .field("children", &self.children())
            .field("is_cancelled", &self.is_cancelled())
            .finish()
    }
}
