//! All of a few futures.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::maybe_done::{MaybeDone, maybe_done};
use super::pin_element::pin_element;
use super::poll_group::PollGroup;

/// Waits for all futures of a tuple or an array, and returns their outputs in
/// the same form.
///
/// ```
/// use blitzen::future::join;
/// # blitzen_util::block_on::block_on(async {
/// assert_eq!(join((async { 1 }, async { "two" })).await, (1, "two"));
///
/// let squares = [1, 2, 3].map(|number| async move { number * number });
/// assert_eq!(join(squares).await, [1, 4, 9]);
/// # })
/// ```
///
/// What [`join!`](crate::join!) does in place, as a value: up to twelve futures
/// of any types, or any number of one type. For collections there is
/// [`join_all`](super::join_all()).
///
/// Each poll starts one future later than the one before.
///
/// # Cancel safety
/// Dropping it drops all the futures, and the outputs of those that were done.
pub fn join<J: Joinable>(futures: J) -> Join<J> {
    let members = futures.into_members();
    Join {
        group: PollGroup::new(J::len(&members)),
        members,
    }
}

pin_project! {
    /// The future of [`join`].
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

/// Only the types listed at [`Joinable`].
pub trait Sealed {}

/// What [`join`] takes: tuples of futures, and arrays.
///
/// ```
/// use blitzen::future::{Joinable, join};
///
/// async fn both<J: Joinable<Output = (u32, u32)>>(futures: J) -> u32 {
///     let (one, two) = join(futures).await;
///     one + two
/// }
/// # blitzen_util::block_on::block_on(async {
/// assert_eq!(both((async { 1 }, async { 2 })).await, 3);
/// # })
/// ```
pub trait Joinable: Sealed {
    /// All outputs.
    type Output;

    /// The futures or what became of them.
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
        !members.iter().any(MaybeDone::is_waiting)
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
                    // SAFETY: a field of a tuple is pinned with it, and nobody
                    // moves one out.
                    $($index => unsafe { members.map_unchecked_mut(|all| &mut all.$index) }
                        .poll_done(cx),)*
                    _ => unreachable!("there is no member {index}"),
                }
            }

            fn is_done(members: &Self::Members) -> bool {
                $(!members.$index.is_waiting())&&*
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
