//! All futures of a tuple or an array.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::maybe_done::{MaybeDone, maybe_done};
use super::pin_element::pin_element;
use super::poll_group::PollGroup;

/// Waits for all futures of a tuple or an array, and returns their outputs as a tuple
/// or an array.
///
/// This is [`join!`](crate::join!) as a function: it accepts up to twelve futures of
/// any types, or any number of one type. See [`join_all`](super::join_all()) for
/// collections.
///
/// Each poll starts with another future than the one before.
///
/// # Examples
///
/// ```
/// use blitzen::future::join;
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// assert_eq!(join((async { 1 }, async { "two" })).await, (1, "two"));
///
/// let squares = [1, 2, 3].map(|number| async move { number * number });
/// assert_eq!(join(squares).await, [1, 4, 9]);
/// # }
/// ```
///
/// # Cancel safety
///
/// Dropping the future drops all futures, and the outputs of those that are done.
pub fn join<J: Joinable>(futures: J) -> Join<J> {
    let members = futures.into_members();
    Join {
        group: PollGroup::new(J::len(&members)),
        members,
    }
}

pin_project! {
    /// The future of [`join`].
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::future::{Join, Ready, join, ready};
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let both: Join<(Ready<u32>, Ready<&str>)> = join((ready(1), ready("two")));
    /// assert_eq!(both.await, (1, "two"));
    /// # }
    /// ```
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Join<J: Joinable> {
        #[pin]
        members: J::Members,
        group: PollGroup,
    }
}

impl<J: Joinable> Future for Join<J> {
    type Output = J::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<J::Output> {
        let mut this = self.project();
        this.group.poll_members(cx, |index, cx| {
            let _ = J::poll_member(this.members.as_mut(), index, cx);
            None::<()>
        });
        match J::is_done(&this.members) {
            true => Poll::Ready(J::take(this.members)),
            false => Poll::Pending,
        }
    }
}

impl<J: Joinable> fmt::Debug for Join<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Join").finish_non_exhaustive()
    }
}

/// Implemented for the types that implement [`Joinable`], and no others.
pub trait Sealed {}

/// The tuples and arrays of futures that [`join`] accepts.
///
/// # Examples
///
/// ```
/// use blitzen::future::{Joinable, join};
///
/// async fn both<J: Joinable<Output = (u32, u32)>>(futures: J) -> u32 {
///     let (one, two) = join(futures).await;
///     one + two
/// }
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// assert_eq!(both((async { 1 }, async { 2 })).await, 3);
/// # }
/// ```
pub trait Joinable: Sealed {
    /// The outputs of all futures.
    type Output;

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
    ) -> Poll<()>;

    #[doc(hidden)]
    fn is_done(members: &Self::Members) -> bool;

    #[doc(hidden)]
    fn take(members: Pin<&mut Self::Members>) -> Self::Output;
}

impl<F: Future, const N: usize> Sealed for [F; N] {}

impl<F: Future, const N: usize> Joinable for [F; N] {
    type Output = [F::Output; N];
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
    ) -> Poll<()> {
        pin_element(members, index).poll_done(cx)
    }

    fn is_done(members: &Self::Members) -> bool {
        !members.iter().any(MaybeDone::is_pending)
    }

    fn take(mut members: Pin<&mut Self::Members>) -> Self::Output {
        std::array::from_fn(|index| pin_element(members.as_mut(), index).take_output())
    }
}

macro_rules! tuple {
    ($($member:ident $output:ident $index:tt)*) => {
        impl<$($member: Future),*> Sealed for ($($member,)*) {}

        impl<$($member: Future),*> Joinable for ($($member,)*) {
            type Output = ($($member::Output,)*);
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
            ) -> Poll<()> {
                match index {
                    // SAFETY: a field moves only with its tuple, which is pinned,
                    // and no code here moves it out.
                    $($index => unsafe { members.map_unchecked_mut(|all| &mut all.$index) }
                        .poll_done(cx),)*
                    _ => unreachable!("there is no member {index}"),
                }
            }

            fn is_done(members: &Self::Members) -> bool {
                $(!members.$index.is_pending())&&*
            }

            fn take(mut members: Pin<&mut Self::Members>) -> Self::Output {
                // SAFETY: as above.
                ($(unsafe { members.as_mut().map_unchecked_mut(|all| &mut all.$index) }
                    .take_output(),)*)
            }
        }
    };
}

super::for_each_tuple!(tuple);
