//! The builder of a scope.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::time::Duration;

use super::Scope;
use super::error::{Failure, Stopped};
use super::future::ScopeFuture;
use super::scope_core::{AnyFailure, Settings};
use crate::dispatch::Dispatcher;
use crate::time::Instant;

/// Builds a scope with options.
///
/// [`Scope::builder`] returns it, and [`run`](Self::run) opens the scope.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use blitzen::scope::{Scope, Stopped};
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let sum = Scope::builder()
///     .name("sum")
///     .within(Duration::from_secs(10))
///     .at_most(100)
///     .run(|s| async move {
///         let one = s.spawn(async { Ok(1) });
///         Ok::<_, Stopped>(one.await? + 1)
///     });
/// assert_eq!(sum.await, Ok(2));
/// # });
/// ```
#[must_use = "a builder does nothing until `run` is called"]
pub struct ScopeBuilder<E> {
    settings: Box<Settings>,
    error: PhantomData<fn() -> E>,
}

impl<E: Send + 'static> ScopeBuilder<E> {
    pub(super) fn new() -> Self {
        Self {
            settings: Box::default(),
            error: PhantomData,
        }
    }

    /// Sets the name of the scope, which its `Debug` form shows.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::scope::{Scope, Stopped};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let named = Scope::builder().name("import").run(|s| async move {
    ///     assert!(format!("{s:?}").contains("import"));
    ///     Ok::<_, Stopped>(())
    /// });
    /// named.await.unwrap();
    /// # });
    /// ```
    pub fn name(mut self, name: &str) -> Self {
        self.settings.name = Some(name.into());
        self
    }

    /// Cancels the scope `duration` from now, unless it has ended.
    ///
    /// It then returns `E::from(Stopped::Deadline)`. If the scope around this one has an earlier
    /// deadline, that counts.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::scope::{Scope, Stopped};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let late = Scope::builder().within(Duration::from_millis(1)).run(|s| async move {
    ///     s.spawn(std::future::pending::<Result<(), Stopped>>());
    ///     Ok(())
    /// });
    /// assert_eq!(late.await, Err(Stopped::Deadline));
    /// # });
    /// ```
    pub fn within(self, duration: Duration) -> Self {
        self.deadline(Instant::after(duration))
    }

    /// Cancels the scope at `deadline`, unless it has ended; see [`within`](Self::within).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::scope::{Scope, Stopped};
    /// use blitzen::task;
    /// use blitzen::time::Instant;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let deadline = Instant::now() + Duration::from_secs(60);
    /// let scope = Scope::builder().deadline(deadline).run(|_| async move {
    ///     assert_eq!(task::deadline(), Some(deadline));
    ///     Ok::<_, Stopped>(())
    /// });
    /// scope.await.unwrap();
    /// # });
    /// ```
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.settings.deadline = Some(deadline);
        self
    }

    /// Gives the members of a scope that is cancelled `duration` to end by themselves.
    ///
    /// They are aborted after that. A scope without a grace aborts its members at once when it is
    /// cancelled itself; when the scope around it is cancelled, it shares the grace of that one. No
    /// grace lasts longer than that of the scope around it.
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
    /// let polite = Scope::builder().grace(Duration::from_secs(10)).run(|s| async move {
    ///     let child = s.spawn(async {
    ///         task::cancelled().await;
    ///         Ok::<_, Stopped>("goodbye")
    ///     });
    ///     s.cancel();
    ///     child.await
    /// });
    /// assert_eq!(polite.await, Ok("goodbye"));
    /// # });
    /// ```
    pub fn grace(mut self, duration: Duration) -> Self {
        self.settings.grace = Some(duration);
        self
    }

    /// Makes [`Scope::ready`] wait while the scope has `limit` children or more.
    ///
    /// [`Scope::spawn`] itself does not wait, so the limit holds for code that awaits `ready`
    /// before each child.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::scope::{Scope, Stopped};
    /// use blitzen::task::yield_now;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let limited = Scope::builder().at_most(2).run(|s| async move {
    ///     for _ in 0..10 {
    ///         s.ready().await;
    ///         s.spawn(async { Ok(yield_now().await) });
    ///         assert!(s.children() <= 2);
    ///     }
    ///     Ok::<_, Stopped>(())
    /// });
    /// limited.await.unwrap();
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `limit` is zero.
    #[track_caller]
    pub fn at_most(mut self, limit: usize) -> Self {
        assert!(limit > 0, "a scope without children needs no limit");
        self.settings.limit = Some(limit);
        self
    }

    /// Passes errors and panics of children to `on_failure`, and lets all others go on.
    ///
    /// The task that failed calls `on_failure`. The scope returns what its body returns.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::scope::{Failure, Scope, Stopped};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let supervised = Scope::builder()
    ///     .supervise(|failure: Failure<Stopped>| println!("{failure:?}"))
    ///     .run(|s| async move {
    ///         let failing = s.spawn(async { Err::<(), _>(Stopped::Cancelled) });
    ///         assert_eq!(failing.await, Err(Stopped::Failed));
    ///         s.spawn(async { Ok(1) }).await // is not disturbed
    ///     });
    /// assert_eq!(supervised.await, Ok(1));
    /// # });
    /// ```
    pub fn supervise(mut self, on_failure: impl Fn(Failure<E>) + Send + Sync + 'static) -> Self {
        self.settings.supervisor = Some(Box::new(move |failure| {
            on_failure(match failure {
                AnyFailure::Panic(payload) => Failure::Panic(payload),
                AnyFailure::Error(error) => match error.downcast() {
                    Ok(error) => Failure::Error(*error),
                    Err(_) => unreachable!("all children of a scope have its error type"),
                },
            });
        }));
        self
    }

    /// Has the children run on `dispatcher`, as tasks that are spawned on it.
    ///
    /// The body stays where the scope is awaited. Scopes that are opened inside have the same
    /// dispatcher, unless they are given another one. So a child must not block its thread until
    /// such a scope has ended, if the dispatcher runs one task at a time: the child keeps its turn
    /// while it blocks. Without this, children run on the workers of
    /// the runtime. A child that a [closed](Dispatcher::close) dispatcher aborts does not fail: its
    /// handle returns [`Stopped::Cancelled`].
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::dispatch::Dispatcher;
    /// use blitzen::scope::{Scope, Stopped};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let database = Dispatcher::default().limited(2); // two queries at a time
    /// Scope::builder()
    ///     .dispatcher(&database)
    ///     .run(|s| async move {
    ///         for query in 0..10 {
    ///             s.spawn(async move { Ok(println!("{query}")) });
    ///         }
    ///         Ok::<_, Stopped>(())
    ///     })
    ///     .await
    ///     .unwrap();
    /// assert_eq!(database.metrics().submitted, 10);
    /// # });
    /// ```
    pub fn dispatcher(mut self, dispatcher: &Dispatcher) -> Self {
        self.settings.dispatcher = Some(dispatcher.clone());
        self
    }

    /// Opens the scope when the returned future is first polled, and runs `body` in it.
    ///
    /// Returns as [`scope`](super::scope()) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::scope::{Scope, Stopped};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let one = Scope::builder().run(|_| async { Ok::<_, Stopped>(1) });
    /// assert_eq!(one.await, Ok(1));
    /// # });
    /// ```
    pub fn run<B, F, T>(self, body: B) -> ScopeFuture<B, F, T, E>
    where
        B: FnOnce(Scope<E>) -> F,
        F: Future<Output = Result<T, E>>,
        E: From<Stopped>,
    {
        ScopeFuture::new(body, Some(self.settings))
    }
}

impl<E> fmt::Debug for ScopeBuilder<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = &self.settings;
        f.debug_struct("ScopeBuilder")
            .field("name", &settings.name)
            .field("deadline", &settings.deadline)
            .field("grace", &settings.grace)
            .field("at_most", &settings.limit)
            .field("is_supervised", &settings.supervisor.is_some())
            .field("dispatcher", &settings.dispatcher)
            .finish()
    }
}
