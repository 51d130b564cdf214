//! A future, then its output until somebody takes it.
//!
//! M1. The tag shares no byte with the future. Left to itself the compiler would
//!     put it where the future has impossible values; to ask whether a member is
//!     done would then read memory that a future which borrows from itself
//!     counts as its own.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

pin_project! {
    /// A member of a join.
    #[project = Projected]
    #[project_replace = Taken]
    #[repr(u8)] // M1
    #[derive(Debug)]
    pub enum MaybeDone<F>
    where
        F: Future,
    {
        /// Not done.
        Waiting {
            #[pin]
            future: F,
        },
        /// Done, and the output still here.
        Done {
            output: F::Output,
        },
        /// Done, and the output taken.
        Gone,
    }
}

/// A member that has not been polled.
#[inline(always)]
pub fn maybe_done<F: Future>(future: F) -> MaybeDone<F> {
    MaybeDone::Waiting { future }
}

impl<F: Future> MaybeDone<F> {
    /// Whether there is still something to poll.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self, Self::Waiting { .. })
    }

    /// Polls unless done; ready when done.
    pub fn poll_done(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.as_mut().project() {
            Projected::Waiting { future } => {
                let output = ready!(future.poll(cx));
                self.set(Self::Done { output });
                Poll::Ready(())
            }
            Projected::Done { .. } => Poll::Ready(()),
            Projected::Gone => panic!("a join was polled after it had completed"),
        }
    }

    /// The output.
    ///
    /// # Panics
    /// If not done, or taken before.
    pub fn take_output(self: Pin<&mut Self>) -> F::Output {
        match self.project_replace(Self::Gone) {
            Taken::Done { output } => output,
            Taken::Gone => panic!("a join was polled after it had completed"),
            Taken::Waiting { .. } => unreachable!("outputs are taken when all are done"),
        }
    }
}

impl<T, E, F: Future<Output = Result<T, E>>> MaybeDone<F> {
    /// Polls unless done; ready when done, with the error if that is the output.
    pub fn poll_ok(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), E>> {
        ready!(self.as_mut().poll_done(cx));
        match self.take_error() {
            Some(error) => Poll::Ready(Err(error)),
            None => Poll::Ready(Ok(())),
        }
    }

    /// The output, if it is an error.
    pub(crate) fn take_error(mut self: Pin<&mut Self>) -> Option<E> {
        match self.as_mut().project() {
            Projected::Done { output: Err(_) } => self.take_output().err(),
            _ => None,
        }
    }

    /// What the output is the `Ok` of.
    ///
    /// # Panics
    /// If not done, taken before, or an error.
    pub fn take_ok(self: Pin<&mut Self>) -> T {
        match self.take_output() {
            Ok(output) => output,
            Err(_) => unreachable!("an error ends the join when it is seen"),
        }
    }
}
