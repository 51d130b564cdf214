//! All futures of a collection.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::maybe_done::{MaybeDone, maybe_done};
use super::pin_element::pin_element;
use super::poll_group::PollGroup;

/// The futures of a collection, some of them done.
struct Members<F: Future> {
    members: Pin<Box<[MaybeDone<F>]>>,
    waiting: usize,
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
            waiting: members.len(),
            group: PollGroup::new(members.len()),
            members: members.into(),
        }
    }

    /// Polls those that may have something to say, until `done` returns
    /// something about one that has just ended.
    fn pass<R>(
        &mut self,
        cx: &mut Context<'_>,
        mut done: impl FnMut(Pin<&mut MaybeDone<F>>) -> Option<R>,
    ) -> Option<R> {
        let (members, waiting) = (&mut self.members, &mut self.waiting);
        self.group.poll_members(cx, |index, cx| {
            let mut member = pin_element(members.as_mut(), index);
            if !member.is_waiting() || member.as_mut().poll_done(cx).is_pending() {
                return None;
            }
            *waiting -= 1;
            done(member)
        })
    }

    /// What `take` makes of each member.
    fn take<T>(&mut self, mut take: impl FnMut(Pin<&mut MaybeDone<F>>) -> T) -> Vec<T> {
        (0..self.members.len())
            .map(|index| take(pin_element(self.members.as_mut(), index)))
            .collect()
    }
}

/// Waits for all futures of a collection, and returns their outputs in the
/// order of the futures.
///
/// ```
/// use blitzen::future::join_all;
/// # blitzen_util::block_on::block_on(async {
/// let squares = (1..=3).map(|number| async move { number * number });
/// assert_eq!(join_all(squares).await, [1, 4, 9]);
/// # })
/// ```
///
/// All of them run on the calling task; to use more than one worker, spawn them
/// and join the handles. A large collection costs one allocation a future, and
/// then only the futures that were woken are polled.
///
/// # Cancel safety
/// Dropping it drops all the futures, and the outputs of those that were done.
pub fn join_all<I>(futures: I) -> JoinAll<<I::Item as IntoFuture>::IntoFuture>
where
    I: IntoIterator<Item: IntoFuture>,
{
    JoinAll {
        members: Members::new(futures),
    }
}

/// The future of [`join_all`].
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct JoinAll<F: Future> {
    members: Members<F>,
}

impl<F: Future> Future for JoinAll<F> {
    type Output = Vec<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Vec<F::Output>> {
        let members = &mut self.members;
        members.pass(cx, |_| None::<()>);
        match members.waiting {
            0 => Poll::Ready(members.take(MaybeDone::take_output)),
            _ => Poll::Pending,
        }
    }
}

impl<F: Future> fmt::Debug for JoinAll<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinAll")
            .field("waiting", &self.members.waiting)
            .finish_non_exhaustive()
    }
}

/// Waits until all futures of a collection have succeeded, or one has failed.
///
/// ```
/// use blitzen::future::try_join_all;
///
/// async fn number(text: &str) -> Result<u32, std::num::ParseIntError> {
///     text.parse()
/// }
/// # blitzen_util::block_on::block_on(async {
/// assert_eq!(try_join_all(["1", "2"].map(number)).await, Ok(vec![1, 2]));
/// assert!(try_join_all(["1", "two"].map(number)).await.is_err());
/// # })
/// ```
///
/// The first error is returned at once, and the other futures are dropped
/// before that. The rest is as in [`join_all`].
///
/// # Cancel safety
/// Dropping it, or an error, drops all the futures, and the outputs of those
/// that were done.
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
        let failed = members.pass(cx, MaybeDone::take_error);
        if let Some(error) = failed {
            self.members = None;
            return Poll::Ready(Err(error));
        }
        match members.waiting {
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
