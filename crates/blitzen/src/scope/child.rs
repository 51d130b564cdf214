//! A child of a scope: its future, and its handle.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use blitzen_task::{Id, JoinHandle};
use pin_project_lite::pin_project;

use super::context;
use super::error::Stopped;
use super::scope_core::{self, AnyFailure};

pin_project! {
    /// The future of a child. It passes an error on to the scope of its task, and is no larger
    /// than the future inside.
    pub(super) struct ChildFuture<F, E> {
        #[pin]
        future: F,
        error: PhantomData<fn() -> E>,
    }
}

impl<F, E> ChildFuture<F, E> {
    pub(super) fn new(future: F) -> Self {
        Self {
            future,
            error: PhantomData,
        }
    }
}

impl<F, T, E> Future for ChildFuture<F, E>
where
    F: Future<Output = Result<T, E>>,
    E: Send + 'static,
{
    /// `None` if the scope has the error.
    type Output = Option<T>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        match ready!(self.project().future.poll(cx)) {
            Ok(value) => Poll::Ready(Some(value)),
            Err(error) => {
                report(Box::new(error));
                Poll::Ready(None)
            }
        }
    }
}

#[cold]
fn report(error: Box<dyn Any + Send>) {
    match context::here().scope {
        Some(node) => scope_core::fail(&node, AnyFailure::Error(error)),
        None => unreachable!("a child's task is a member of its scope"),
    }
}

/// A handle to a child of a scope.
///
/// [`Scope::spawn`](super::Scope::spawn) returns it. Awaiting it gives the value of the child, or
/// [`Stopped`] if there is none. Dropping it changes nothing: the scope waits for the child all
/// the same.
///
/// # Examples
///
/// ```
/// use blitzen::scope::{Child, Stopped, scope};
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let sum = scope(|s| async move {
///     let one: Child<i32> = s.spawn(async { Ok(1) });
///     let two = s.spawn(async { Ok(2) });
///     Ok::<_, Stopped>(one.await? + two.await?)
/// });
/// assert_eq!(sum.await, Ok(3));
/// # });
/// ```
///
/// # Cancel safety
///
/// The handle is cancel safe: the value stays with the child until a poll returns it.
///
/// # Panics
///
/// Polling the handle again after it has returned a value panics.
pub struct Child<T> {
    /// `None` if the child was refused.
    handle: Option<JoinHandle<Option<T>>>,
}

impl<T> Child<T> {
    pub(super) fn new(handle: Option<JoinHandle<Option<T>>>) -> Self {
        Self { handle }
    }

    /// Cancels the child alone, as [`JoinHandle::abort`] does.
    ///
    /// The scope does not count that as a failure.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::scope::{Stopped, scope};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let done = scope(|s| async move {
    ///     let child = s.spawn(std::future::pending::<Result<(), Stopped>>());
    ///     child.abort();
    ///     assert_eq!(child.await, Err(Stopped::Cancelled));
    ///     Ok(())
    /// });
    /// done.await.unwrap();
    /// # });
    /// ```
    pub fn abort(&self) {
        if let Some(handle) = &self.handle {
            handle.abort();
        }
    }

    /// Returns whether the child has ended.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::scope::{Stopped, scope};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let done = scope(|s| async move {
    ///     let child = s.spawn(async { Ok::<_, Stopped>(()) });
    ///     while !child.is_finished() {
    ///         blitzen::task::yield_now().await;
    ///     }
    ///     Ok(())
    /// });
    /// done.await.unwrap();
    /// # });
    /// ```
    pub fn is_finished(&self) -> bool {
        self.handle.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Returns the id of the child's task, or `None` if the child was refused.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::scope::{Stopped, scope};
    /// use blitzen::task;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let done = scope(|s| async move {
    ///     let child = s.spawn(async { Ok::<_, Stopped>(task::id()) });
    ///     let id = child.id();
    ///     assert_eq!(Some(child.await?), id);
    ///     Ok(())
    /// });
    /// done.await.unwrap();
    /// # });
    /// ```
    pub fn id(&self) -> Option<Id> {
        self.handle.as_ref().map(JoinHandle::id)
    }
}

impl<T> Future for Child<T> {
    type Output = Result<T, Stopped>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(handle) = &mut self.handle else {
            return Poll::Ready(Err(Stopped::Refused));
        };
        Poll::Ready(match ready!(Pin::new(handle).poll(cx)) {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(Stopped::Failed),
            Err(error) if error.is_panic() => Err(Stopped::Panicked),
            Err(_) => Err(Stopped::Cancelled),
        })
    }
}

impl<T> fmt::Debug for Child<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("id", &self.id()).finish()
    }
}
