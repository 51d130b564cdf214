//! The first future of a collection; the others are returned.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::poll_group::PollGroup;

/// Waits for the first future of a collection, and returns its output, its index in
/// the collection, and the other futures in their order.
///
/// The futures must be `Unpin`, since they are moved: box those that are not. If the
/// others are not needed, use [`race`](super::race()), which drops them.
///
/// While the caller does not poll the returned futures, they keep what they hold, such
/// as locks and places in queues.
///
/// # Examples
///
/// ```
/// use blitzen::future::{pending, select_all, ready, Either};
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// let futures = [Either::Left(pending()), Either::Right(ready(42))];
/// let (output, index, others) = select_all(futures).await;
/// assert_eq!((output, index, others.len()), (42, 1, 1));
/// # }
/// ```
///
/// # Cancel safety
///
/// Dropping the future drops all futures.
///
/// # Panics
///
/// Panics if there are no futures.
#[track_caller]
pub fn select_all<I>(futures: I) -> SelectAll<I::Item>
where
    I: IntoIterator<Item: Future + Unpin>,
{
    let futures = Vec::from_iter(futures);
    assert!(
        !futures.is_empty(),
        "`select_all` needs at least one future"
    );
    SelectAll {
        group: PollGroup::random(futures.len()),
        futures,
    }
}

/// The future of [`select_all`].
///
/// # Examples
///
/// ```
/// use blitzen::future::{Ready, SelectAll, ready, select_all};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// let first: SelectAll<Ready<u32>> = select_all([ready(1)]);
/// assert_eq!(first.await.0, 1);
/// # }
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct SelectAll<F> {
    futures: Vec<F>,
    group: PollGroup,
}

impl<F: Unpin> Unpin for SelectAll<F> {}

impl<F: Future + Unpin> Future for SelectAll<F> {
    type Output = (F::Output, usize, Vec<F>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { futures, group } = &mut *self;
        assert!(!futures.is_empty(), "`SelectAll` polled after completion");
        let first = group.poll_members(cx, |index, cx| {
            match Pin::new(&mut futures[index]).poll(cx) {
                Poll::Ready(output) => Some((output, index)),
                Poll::Pending => None,
            }
        });
        match first {
            Some((output, index)) => {
                drop(futures.remove(index));
                Poll::Ready((output, index, std::mem::take(futures)))
            }
            None => Poll::Pending,
        }
    }
}

impl<F> fmt::Debug for SelectAll<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelectAll")
            .field("futures", &self.futures.len())
            .finish_non_exhaustive()
    }
}

/// Waits for the first future of a collection that succeeds, and returns its output
/// and the futures that are not done.
///
/// Futures that fail are dropped.
///
/// # Examples
///
/// ```
/// use blitzen::future::{ready, select_ok};
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// let mirrors = [ready(Err("unreachable")), ready(Ok("page"))];
/// let (page, _others) = select_ok(mirrors).await.unwrap();
/// assert_eq!(page, "page");
///
/// let mirrors = [ready(Err::<(), _>("unreachable"))];
/// assert_eq!(select_ok(mirrors).await.unwrap_err(), "unreachable");
/// # }
/// ```
///
/// # Cancel safety
///
/// Dropping the future drops all futures.
///
/// # Errors
///
/// Returns the last error if all futures fail.
///
/// # Panics
///
/// Panics if there are no futures.
#[track_caller]
pub fn select_ok<I, T, E>(futures: I) -> SelectOk<I::Item>
where
    I: IntoIterator<Item: Future<Output = Result<T, E>> + Unpin>,
{
    let futures: Vec<_> = futures.into_iter().map(Some).collect();
    assert!(!futures.is_empty(), "`select_ok` needs at least one future");
    SelectOk {
        running: futures.len(),
        group: PollGroup::random(futures.len()),
        futures,
    }
}

/// The future of [`select_ok`].
///
/// # Examples
///
/// ```
/// use blitzen::future::{Ready, SelectOk, ready, select_ok};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// let first: SelectOk<Ready<Result<u32, ()>>> = select_ok([ready(Ok(1))]);
/// assert_eq!(first.await.unwrap().0, 1);
/// # }
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct SelectOk<F> {
    /// `None` for those that have failed.
    futures: Vec<Option<F>>,
    running: usize,
    group: PollGroup,
}

impl<F: Unpin> Unpin for SelectOk<F> {}

impl<T, E, F: Future<Output = Result<T, E>> + Unpin> Future for SelectOk<F> {
    type Output = Result<(T, Vec<F>), E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self {
            futures,
            running,
            group,
        } = &mut *self;
        assert!(*running > 0, "`SelectOk` polled after completion");
        let ended = group.poll_members(cx, |index, cx| {
            let future = futures[index].as_mut()?;
            let Poll::Ready(output) = Pin::new(future).poll(cx) else {
                return None;
            };
            futures[index] = None;
            *running -= 1;
            match output {
                Err(_) if *running > 0 => None,
                last_or_ok => Some(last_or_ok),
            }
        });
        let Some(output) = ended else {
            return Poll::Pending;
        };
        *running = 0;
        let others = std::mem::take(futures).into_iter().flatten();
        Poll::Ready(output.map(|output| (output, others.collect())))
    }
}

impl<F> fmt::Debug for SelectOk<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelectOk")
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}
