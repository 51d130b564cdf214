//! A whole task in memory: header, scheduler, future or output.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use blitzen_util::shim::cell::UnsafeCell;

use crate::error::Outcome;
use crate::header::Header;
use crate::span::Spanned;

/// This file, as a backtrace names it.
pub(crate) const FILE: &str = file!();

/// The memory of one task. `repr(C)`: a pointer to the header is a pointer to the
/// cell.
#[repr(C)]
pub(crate) struct Cell<F: Future, S> {
    pub(crate) header: Header,
    pub(crate) scheduler: S,
    /// The waker of the task that awaits the join handle. T5 says who may access it.
    pub(crate) join_waker: UnsafeCell<Option<Waker>>,
    /// The future, then the output. T2 says who may access it while the task runs, T4
    /// when it has ended.
    pub(crate) stage: UnsafeCell<Stage<F>>,
}

/// What is left of a task's future.
pub(crate) enum Stage<F: Future> {
    Running(Spanned<F>),
    Finished(Outcome<F::Output>),
    Consumed,
}

impl<F: Future> Stage<F> {
    /// # Safety
    /// The stage has not moved since the future was first polled.
    #[inline(always)] // it has one caller
    pub(crate) unsafe fn poll(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self {
            // SAFETY: the caller guarantees that it is pinned.
            Self::Running(future) => unsafe { Pin::new_unchecked(future) }.poll(cx),
            _ => unreachable!("a task that has ended is not polled (T2)"),
        }
    }
}
