//! All futures of a collection.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::maybe_done::{MaybeDone, maybe_done};
use super::pin_element::pin_element;
use super::poll_group::PollGroup;

/// The futures of a collection, or their outputs.
struct Members<F: Future> {
    members: Pin<Box<[MaybeDone<F>]>>,
    pending: usize,
    group: PollGroup,
}

impl<F: Future> Members<F> {
    fn new<I>(futures: I) -> Self
    where
        I: IntoIterator<Item: IntoFuture<IntoFuture = F>>,
    {
        let futures = futures.into_iter().map(IntoFuture::into_future);
        let members: Box<[_]> = futures.map(maybe_done).collect();
        Self {
            pending: members.len(),
            group: PollGroup::new(members.len()),
            members: members.into(),
        }
    }

    /// Polls the members that were woken. Stops when `done` returns `Some` for one that
    /// has just completed.
    fn poll_members<R>(
        &mut self,
        cx: &mut Context<'_>,
        mut done: impl FnMut(Pin<&mut MaybeDone<F>>) -> Option<R>,
    ) -> Option<R> {
        let (members, pending) = (&mut self.members, &mut self.pending);
        self.group.poll_members(cx, |index, cx| {
            let mut member = pin_element(members.as_mut(), index);
            if !member.is_pending() || member.as_mut().poll_done(cx).is_pending() {
                return None;
            }
            *pending -= 1;
            done(member)
        })
    }

    /// Returns what `take` returns for each member.
    fn take<T>(&mut self, mut take: impl FnMut(Pin<&mut MaybeDone<F>>) -> T) -> Vec<T> {
        (0..self.members.len())
            .map(|index| take(pin_element(self.members.as_mut(), index)))
            .collect()
    }
}

/// Waits for all futures of a collection, and returns their outputs in the order of
/// the futures.
///
/// All futures run on the calling task. Spawn them, and join the handles, to use more
/// than one worker. In a large collection only the futures that were woken are
/// polled.
///
/// # Examples
///
/// ```
/// use blitzen::future::join_all;
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// let squares = (1..=3).map(|number| async move { number * number });
/// assert_eq!(join_all(squares).await, [1, 4, 9]);
/// # }
/// ```
///
/// # Cancel safety
///
/// Dropping the future drops all futures, and the outputs of those that are done.
pub fn join_all<I>(futures: I) -> JoinAll<<I::Item as IntoFuture>::IntoFuture>
where
    I: IntoIterator<Item: IntoFuture>,
{
    JoinAll {
        members: Members::new(futures),
    }
}

/// The future of [`join_all`].
///
/// # Examples
///
/// ```
/// use blitzen::future::{JoinAll, Ready, join_all, ready};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// let all: JoinAll<Ready<u32>> = join_all([ready(1), ready(2)]);
/// assert_eq!(all.await, [1, 2]);
/// # }
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct JoinAll<F: Future> {
    members: Members<F>,
}

impl<F: Future> Future for JoinAll<F> {
    type Output = Vec<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Vec<F::Output>> {
        let members = &mut self.members;
        members.poll_members(cx, |_| None::<()>);
        match members.pending {
            0 => Poll::Ready(members.take(MaybeDone::take_output)),
            _ => Poll::Pending,
        }
    }
}

impl<F: Future> fmt::Debug for JoinAll<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinAll")
            .field("pending", &self.members.pending)
            .finish_non_exhaustive()
    }
}

/// Waits until all futures of a collection have succeeded, or until one has failed.
///
/// Returns the outputs in the order of the futures. The first error is returned at
/// once; the other futures are dropped before.
///
/// # Examples
///
/// ```
/// use blitzen::future::try_join_all;
///
/// async fn number(text: &str) -> Result<u32, std::num::ParseIntError> {
///     text.parse()
/// }
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// assert_eq!(try_join_all(["1", "2"].map(number)).await, Ok(vec![1, 2]));
/// assert!(try_join_all(["1", "two"].map(number)).await.is_err());
/// # }
/// ```
///
/// # Cancel safety
///
/// Dropping the future drops all futures, and the outputs of those that are done. So
/// does an error.
///
/// # Errors
///
/// Returns the first error of a future.
pub fn try_join_all<I, F, T, E>(futures: I) -> TryJoinAll<F>
where
    I: IntoIterator<Item: IntoFuture<IntoFuture = F>>,
    F: Future<Output = Result<T, E>>,
{
    TryJoinAll {
        members: Some(Members::new(futures)),
    }
}

/// The future of [`try_join_all`].
///
/// # Examples
///
/// ```
/// use blitzen::future::{Ready, TryJoinAll, ready, try_join_all};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// let all: TryJoinAll<Ready<Result<u32, String>>> = try_join_all([ready(Ok(1))]);
/// assert_eq!(all.await, Ok(vec![1]));
/// # }
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct TryJoinAll<F: Future> {
    members: Option<Members<F>>,
}

impl<T, E, F: Future<Output = Result<T, E>>> Future for TryJoinAll<F> {
    type Output = Result<Vec<T>, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(members) = &mut self.members else {
            panic!("`TryJoinAll` polled after completion");
        };
        let failed = members.poll_members(cx, MaybeDone::take_error);
        if let Some(error) = failed {
            self.members = None;
            return Poll::Ready(Err(error));
        }
        match members.pending {
            0 => Poll::Ready(Ok(members.take(MaybeDone::take_ok))),
            _ => Poll::Pending,
        }
    }
}

impl<F: Future> fmt::Debug for TryJoinAll<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryJoinAll").finish_non_exhaustive()
    }
}
