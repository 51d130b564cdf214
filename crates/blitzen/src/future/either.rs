//! One of two futures or values.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::race::{Race, Raceable, race};

/// A value of one of two types.
///
/// If both are futures with the same output, it is a future too: the branches of an
/// `if` can return different futures without a box.
///
/// # Examples
///
/// ```
/// use blitzen::future::{Either, ready};
///
/// fn answer(known: bool) -> impl Future<Output = u32> {
///     match known {
///         true => Either::Left(ready(42)),
///         false => Either::Right(async { 6 * 7 }),
///     }
/// }
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// assert_eq!(answer(true).await, answer(false).await);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Either<L, R> {
    /// The first type.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::future::Either;
    ///
    /// let either: Either<u32, &str> = Either::Left(1);
    /// assert!(matches!(either, Either::Left(1)));
    /// ```
    Left(L),
    /// The second type.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::future::Either;
    ///
    /// let either: Either<u32, &str> = Either::Right("two");
    /// assert!(matches!(either, Either::Right("two")));
    /// ```
    Right(R),
}

impl<T> Either<T, T> {
    /// Returns the value.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::future::Either;
    ///
    /// let either = match 1 + 1 {
    ///     2 => Either::Left("two"),
    ///     _ => Either::Right("many"),
    /// };
    /// assert_eq!(either.into_inner(), "two");
    /// ```
    pub fn into_inner(self) -> T {
        match self {
            Self::Left(value) | Self::Right(value) => value,
        }
    }
}

impl<L, R> Either<L, R> {
    fn as_pin_mut(self: Pin<&mut Self>) -> Either<Pin<&mut L>, Pin<&mut R>> {
        // SAFETY: the value in the variant is pinned with `self`. It is returned
        // pinned, and `Either` has no `Drop` that could move it.
        unsafe {
            match self.get_unchecked_mut() {
                Self::Left(left) => Either::Left(Pin::new_unchecked(left)),
                Self::Right(right) => Either::Right(Pin::new_unchecked(right)),
            }
        }
    }
}

impl<L, R> Future for Either<L, R>
where
    L: Future,
    R: Future<Output = L::Output>,
{
    type Output = L::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<L::Output> {
        match self.as_pin_mut() {
            Either::Left(left) => left.poll(cx),
            Either::Right(right) => right.poll(cx),
        }
    }
}

/// Waits for the first of two futures, drops the other, and returns the output.
///
/// The future that is polled first is chosen at random, and alternates from then on.
/// See [`biased`](EitherOf::biased) for a fixed order. The other future is dropped
/// before the output is returned.
///
/// # Examples
///
/// ```
/// use blitzen::future::{Either, either, pending, ready};
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// match either(ready(42), pending::<String>()).await {
///     Either::Left(number) => assert_eq!(number, 42),
///     Either::Right(_) => unreachable!(),
/// }
/// # }
/// ```
///
/// # Cancel safety
///
/// One of the futures is always dropped before it is done: both should be cancel
/// safe.
pub fn either<L, R>(left: L, right: R) -> EitherOf<L::IntoFuture, R::IntoFuture>
where
    L: IntoFuture,
    R: IntoFuture,
{
    EitherOf {
        race: race(Two {
            left: left.into_future(),
            right: right.into_future(),
        }),
    }
}

pin_project_lite::pin_project! {
    /// The future of [`either`].
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::future::{Either, EitherOf, Pending, Ready, either, pending, ready};
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let first: EitherOf<Ready<u32>, Pending<()>> = either(ready(1), pending());
    /// assert_eq!(first.await, Either::Left(1));
    /// # }
    /// ```
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct EitherOf<L, R>
    where
        L: Future,
        R: Future,
    {
        #[pin]
        race: Race<Two<L, R>>,
    }
}

impl<L: Future, R: Future> EitherOf<L, R> {
    /// Polls the left future first, every time.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::future::{Either, either, ready};
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let first = either(ready(1), ready(2)).biased().await;
    /// assert_eq!(first, Either::Left(1));
    /// # }
    /// ```
    pub fn biased(self) -> Self {
        Self {
            race: self.race.biased(),
        }
    }
}

impl<L: Future, R: Future> Future for EitherOf<L, R> {
    type Output = Either<L::Output, R::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().race.poll(cx)
    }
}

impl<L: Future, R: Future> fmt::Debug for EitherOf<L, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EitherOf").finish_non_exhaustive()
    }
}

pin_project_lite::pin_project! {
    /// Two racers whose outputs differ.
    pub struct Two<L, R> {
        #[pin]
        left: L,
        #[pin]
        right: R,
    }
}

impl<L: Future, R: Future> super::race::Sealed for Two<L, R> {}

impl<L: Future, R: Future> Raceable for Two<L, R> {
    type Output = Either<L::Output, R::Output>;
    type Racers = Self;

    fn into_racers(self) -> Self {
        self
    }

    fn len(_: &Self) -> usize {
        2
    }

    fn poll_racer(
        racers: Pin<&mut Self>,
        index: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Self::Output> {
        let racers = racers.project();
        match index {
            0 => racers.left.poll(cx).map(Either::Left),
            _ => racers.right.poll(cx).map(Either::Right),
        }
    }
}
