//! All futures of a tuple or an array, or the first error.
//!
//! F1. An error drops all members in the poll that finds it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::maybe_done::{MaybeDone, maybe_done};
use super::pin_element::pin_element;
use super::poll_group::PollGroup;

/// Waits until all futures of a tuple or an array have succeeded, or until one has
/// failed.
///
/// This is [`try_join!`](crate::try_join!) as a function. The first error is returned
/// at once; the other futures are dropped before. See
/// [`try_join_all`](super::try_join_all()) for collections.
///
/// Each poll starts with another future than the one before.
///
/// # Examples
///
/// ```
/// use blitzen::future::try_join;
///
/// async fn number(text: &str) -> Result<u32, std::num::ParseIntError> {
///     text.parse()
/// }
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// assert_eq!(try_join((number("1"), number("2"))).await, Ok((1, 2)));
/// assert_eq!(try_join(["1", "2"].map(number)).await, Ok([1, 2]));
/// assert!(try_join(["1", "two"].map(number)).await.is_err());
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
pub fn try_join<J: TryJoinable>(futures: J) -> TryJoin<J> {
    let members = futures.into_members();
    TryJoin {
        group: PollGroup::new(J::len(&members)),
        members: Some(members),
    }
}

pin_project! {
    /// The future of [`try_join`].
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::future::{Ready, TryJoin, ready, try_join};
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let one: TryJoin<(Ready<Result<u32, ()>>,)> = try_join((ready(Ok(1)),));
    /// assert_eq!(one.await, Ok((1,)));
    /// # }
    /// ```
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct TryJoin<J: TryJoinable> {
        #[pin]
        members: Option<J::Members>,
        group: PollGroup,
    }
}

impl<J: TryJoinable> Future for TryJoin<J> {
    type Output = Result<J::Output, J::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let Some(mut members) = this.members.as_mut().as_pin_mut() else {
            panic!("`TryJoin` polled after completion");
        };
        let failed = this.group.poll_members(cx, |index, cx| {
            match J::poll_member(members.as_mut(), index, cx) {
                Poll::Ready(Err(error)) => Some(error),
                Poll::Ready(Ok(())) | Poll::Pending => None,
            }
        });
        if let Some(error) = failed {
            this.members.set(None); // F1
            return Poll::Ready(Err(error));
        }
        match J::is_done(&members) {
            true => Poll::Ready(Ok(J::take(members))),
            false => Poll::Pending,
        }
    }
}

impl<J: TryJoinable> fmt::Debug for TryJoin<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryJoin").finish_non_exhaustive()
    }
}

/// Implemented for the types that implement [`TryJoinable`], and no others.
pub trait Sealed {}

/// The tuples and arrays of fallible futures that [`try_join`] accepts.
///
/// # Examples
///
/// ```
/// use blitzen::future::{TryJoinable, try_join};
///
/// async fn both<J>(futures: J) -> Result<u32, String>
/// where
///     J: TryJoinable<Output = (u32, u32), Error = String>,
/// {
///     let (one, two) = try_join(futures).await?;
///     Ok(one + two)
/// }
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// assert_eq!(both((async { Ok(1) }, async { Ok(2) })).await, Ok(3));
/// # }
/// ```
pub trait TryJoinable: Sealed {
    /// The outputs of all futures, without the `Ok`.
    type Output;

    /// The error of each future.
    type Error;

    /// The futures, or their outputs.
    #[doc(hidden)]
    type Members;

    #[doc(hidden)]
    fn into_members(self) -> Self::Members;

    #[doc(hidden)]
    fn len(members: &Self::Members) -> usize;

    #[doc(hidden)]
    fn poll_member(
        members: Pin<&mut Self::Members>,
        index: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Self::Error>>;

    #[doc(hidden)]
    fn is_done(members: &Self::Members) -> bool;

    #[doc(hidden)]
    fn take(members: Pin<&mut Self::Members>) -> Self::Output;
}

impl<T, E, F: Future<Output = Result<T, E>>, const N: usize> Sealed for [F; N] {}

impl<T, E, F: Future<Output = Result<T, E>>, const N: usize> TryJoinable for [F; N] {
    type Output = [T; N];
    type Error = E;
    type Members = [MaybeDone<F>; N];

    fn into_members(self) -> Self::Members {
        self.map(maybe_done)
    }

    fn len(_: &Self::Members) -> usize {
        N
    }

    fn poll_member(
        members: Pin<&mut Self::Members>,
        index: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), E>> {
        pin_element(members, index).poll_ok(cx)
    }

    fn is_done(members: &Self::Members) -> bool {
        !members.iter().any(MaybeDone::is_pending)
    }

    fn take(mut members: Pin<&mut Self::Members>) -> [T; N] {
        std::array::from_fn(|index| pin_element(members.as_mut(), index).take_ok())
    }
}

macro_rules! tuple {
    ($($member:ident $output:ident $index:tt)*) => {
        impl<Error, $($output, $member: Future<Output = Result<$output, Error>>),*> Sealed
            for ($($member,)*)
        {
        }

        impl<Error, $($output, $member: Future<Output = Result<$output, Error>>),*> TryJoinable
            for ($($member,)*)
        {
            type Output = ($($output,)*);
            type Error = Error;
            type Members = ($(MaybeDone<$member>,)*);

            fn into_members(self) -> Self::Members {
                ($(maybe_done(self.$index),)*)
            }

            fn len(_: &Self::Members) -> usize {
                [$($index),*].len()
            }

            fn poll_member(
                members: Pin<&mut Self::Members>,
                index: usize,
                cx: &mut Context<'_>,
            ) -> Poll<Result<(), Error>> {
                match index {
                    // SAFETY: a field moves only with its tuple, which is pinned,
                    // and no code here moves it out.
                    $($index => unsafe { members.map_unchecked_mut(|all| &mut all.$index) }
                        .poll_ok(cx),)*
                    _ => unreachable!("there is no member {index}"),
                }
            }

            fn is_done(members: &Self::Members) -> bool {
                $(!members.$index.is_pending())&&*
            }

            fn take(mut members: Pin<&mut Self::Members>) -> Self::Output {
                // SAFETY: as above.
                ($(unsafe { members.as_mut().map_unchecked_mut(|all| &mut all.$index) }
                    .take_ok(),)*)
            }
        }
    };
}

super::for_each_tuple!(tuple);
