//! A future, and then its output until that is taken.
//!
//! M1. The tag shares no byte with the future. The compiler would put it where the
//!     future has impossible values. Reading it would then read memory that a future
//!     may borrow from itself, mutably.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

pin_project! {
    /// A future, or its output until that is taken.
    #[project = Projected]
    #[project_replace = Replaced]
    #[repr(u8)] // M1
    #[derive(Debug)]
    pub enum MaybeDone<F>
    where
        F: Future,
    {
        /// The future.
        Future {
            #[pin]
            future: F,
        },
        /// The output.
        Done {
            output: F::Output,
        },
        /// The output was taken.
        Taken,
    }
}

/// Wraps `future`.
#[inline(always)]
pub fn maybe_done<F: Future>(future: F) -> MaybeDone<F> {
    MaybeDone::Future { future }
}

impl<F: Future> MaybeDone<F> {
    /// Returns whether the future is not done.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self, Self::Future { .. })
    }

    /// Polls the future unless it is done. Ready when it is.
    pub fn poll_done(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.as_mut().project() {
            Projected::Future { future } => {
                let output = ready!(future.poll(cx));
                self.set(Self::Done { output });
                Poll::Ready(())
            }
            Projected::Done { .. } => Poll::Ready(()),
            Projected::Taken => panic!("a join was polled after it had completed"),
        }
    }

    /// Takes the output.
    ///
    /// # Panics
    ///
    /// Panics if the future is not done, or if the output was taken before.
    pub fn take_output(self: Pin<&mut Self>) -> F::Output {
        match self.project_replace(Self::Taken) {
            Replaced::Done { output } => output,
            Replaced::Taken => panic!("a join was polled after it had completed"),
            Replaced::Future { .. } => unreachable!("outputs are taken when all are done"),
        }
    }
}

impl<T, E, F: Future<Output = Result<T, E>>> MaybeDone<F> {
    /// Polls the future unless it is done. Ready when it is, with the error if it
    /// failed.
    pub fn poll_ok(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), E>> {
        ready!(self.as_mut().poll_done(cx));
        match self.take_error() {
            Some(error) => Poll::Ready(Err(error)),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Takes the output if it is an error.
    pub(crate) fn take_error(mut self: Pin<&mut Self>) -> Option<E> {
        match self.as_mut().project() {
            Projected::Done { output: Err(_) } => self.take_output().err(),
            _ => None,
        }
    }

    /// Takes the `Ok` of the output.
    ///
    /// # Panics
    ///
    /// Panics if the future is not done, if the output was taken before, and if it is an
    /// error.
    pub fn take_ok(self: Pin<&mut Self>) -> T {
        match self.take_output() {
            Ok(output) => output,
            Err(_) => unreachable!("an error ends the join when it is seen"),
        }
    }
}
