//! The first of several futures; the others are dropped.
//!
//! C1. The other futures are dropped in the poll that finds the first: a finished
//!     [`Race`] holds nothing of theirs.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::pin_element::pin_element;
use super::poll_group::PollGroup;

/// Waits for the first of several futures with the same output, drops the others, and
/// returns the output.
///
/// It accepts a tuple of up to twelve futures, an array, or a `Vec`. See
/// [`either`](super::either()) for two futures with different outputs, and
/// [`select_all`](super::select_all) to keep the other futures.
///
/// The other futures are dropped before the output is returned. So nothing they hold,
/// such as a lock, can block what follows; compare [`select!`](crate::select!) with
/// futures that are polled by reference.
///
/// The first poll starts with a random future, and each later poll starts one future
/// further. See [`biased`](Race::biased) for a fixed order.
///
/// # Examples
///
/// ```
/// use blitzen::future::{pending, race, ready};
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// assert_eq!(race((pending(), ready(42))).await, 42);
/// assert_eq!(race([ready(42), ready(42)]).await, 42);
/// assert_eq!(race(vec![ready(42); 100]).await, 42);
/// # }
/// ```
///
/// # Cancel safety
///
/// All futures but one are always dropped before they are done: each of them should
/// be cancel safe.
///
/// # Panics
///
/// Panics if there are no futures.
#[track_caller]
pub fn race<R: Raceable>(futures: R) -> Race<R> {
    let racers = futures.into_racers();
    let count = R::len(&racers);
    assert!(count > 0, "a race needs at least one future");
    Race {
        racers: Some(racers),
        group: PollGroup::random(count),
    }
}

pin_project! {
    /// The future of [`race`].
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::future::{Race, Ready, race, ready};
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let first: Race<[Ready<u32>; 2]> = race([ready(1), ready(1)]);
    /// assert_eq!(first.await, 1);
    /// # }
    /// ```
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Race<R: Raceable> {
        #[pin]
        racers: Option<R::Racers>,
        group: PollGroup,
    }
}

impl<R: Raceable> Race<R> {
    /// Polls the futures in the order in which they were given, every time.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::future::{race, ready};
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert_eq!(race((ready(1), ready(2))).biased().await, 1);
    /// # }
    /// ```
    pub fn biased(self) -> Self {
        let count = self.racers.as_ref().map_or(0, R::len);
        Self {
            racers: self.racers,
            group: PollGroup::biased(count),
        }
    }
}

impl<R: Raceable> Future for Race<R> {
    type Output = R::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R::Output> {
        let mut this = self.project();
        let Some(mut racers) = this.racers.as_mut().as_pin_mut() else {
            panic!("`Race` polled after completion");
        };
        let winner = this.group.poll_members(cx, |index, cx| {
            match R::poll_racer(racers.as_mut(), index, cx) {
                Poll::Ready(output) => Some(output),
                Poll::Pending => None,
            }
        });
        match winner {
            Some(output) => {
                this.racers.set(None); // C1
                Poll::Ready(output)
            }
            None => Poll::Pending,
        }
    }
}

impl<R: Raceable> fmt::Debug for Race<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Race").finish_non_exhaustive()
    }
}

/// Implemented for the types that implement [`Raceable`], and no others.
pub trait Sealed {}

/// The tuples, arrays and vectors of futures that [`race`] accepts.
///
/// # Examples
///
/// ```
/// use blitzen::future::{Raceable, race, ready};
///
/// async fn first<R: Raceable<Output = u32>>(futures: R) -> u32 {
///     race(futures).await
/// }
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// assert_eq!(first((ready(1), async { 1 })).await, 1);
/// # }
/// ```
pub trait Raceable: Sealed {
    /// The output of each future.
    type Output;

    /// The futures, ready to be pinned.
    #[doc(hidden)]
    type Racers;

    #[doc(hidden)]
    fn into_racers(self) -> Self::Racers;

    #[doc(hidden)]
    fn len(racers: &Self::Racers) -> usize;

    #[doc(hidden)]
    fn poll_racer(
        racers: Pin<&mut Self::Racers>,
        index: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Self::Output>;
}

impl<F: Future, const N: usize> Sealed for [F; N] {}

impl<F: Future, const N: usize> Raceable for [F; N] {
    type Output = F::Output;
    type Racers = Self;

    fn into_racers(self) -> Self {
        self
    }

    fn len(_: &Self) -> usize {
        N
    }

    fn poll_racer(racers: Pin<&mut Self>, index: usize, cx: &mut Context<'_>) -> Poll<F::Output> {
        pin_element(racers, index).poll(cx)
    }
}

impl<F: Future> Sealed for Vec<F> {}

impl<F: Future> Raceable for Vec<F> {
    type Output = F::Output;
    type Racers = Pin<Box<[F]>>;

    fn into_racers(self) -> Self::Racers {
        self.into_boxed_slice().into()
    }

    fn len(racers: &Self::Racers) -> usize {
        racers.len()
    }

    fn poll_racer(
        racers: Pin<&mut Self::Racers>,
        index: usize,
        cx: &mut Context<'_>,
    ) -> Poll<F::Output> {
        pin_element(racers.get_mut().as_mut(), index).poll(cx)
    }
}

macro_rules! tuple {
    ($($racer:ident $output:ident $index:tt)*) => {
        impl<T, $($racer: Future<Output = T>),*> Sealed for ($($racer,)*) {}

        impl<T, $($racer: Future<Output = T>),*> Raceable for ($($racer,)*) {
            type Output = T;
            type Racers = Self;

            fn into_racers(self) -> Self {
                self
            }

            fn len(_: &Self) -> usize {
                [$($index),*].len()
            }

            fn poll_racer(racers: Pin<&mut Self>, index: usize, cx: &mut Context<'_>) -> Poll<T> {
                match index {
                    // SAFETY: a field moves only with its tuple, which is pinned,
                    // and no code here moves it out.
                    $($index => unsafe { racers.map_unchecked_mut(|all| &mut all.$index) }.poll(cx),)*
                    _ => unreachable!("there is no racer {index}"),
                }
            }
        }
    };
}

super::for_each_tuple!(tuple);
