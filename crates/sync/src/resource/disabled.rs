//! No spans.

use std::time::Duration;

/// The spans of a semaphore, and of the lock that is built on it.
pub(crate) struct SemaphoreSpans;

impl SemaphoreSpans {
    pub(crate) const NONE: Self = Self;

    #[inline(always)]
    pub(crate) fn of_mutex() -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn of_rwlock(_max_readers: u32) -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn of_semaphore(_permits: usize) -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn start_acquire(&self, _source: &'static str) -> AcquireSpans {
        AcquireSpans
    }

    #[inline(always)]
    pub(crate) fn acquired(&self, _count: usize) {}

    #[inline(always)]
    pub(crate) fn released(&self, _count: usize) {}
}

/// The spans of one acquire.
pub(crate) struct AcquireSpans;

impl AcquireSpans {
    #[inline(always)]
    pub(crate) fn enter(&self) -> EnteredOp {
        EnteredOp
    }

    #[inline(always)]
    pub(crate) fn polled(&self, _is_ready: bool) {}

    #[inline(always)]
    pub(crate) fn waiter_op(&self) -> WaiterOp {
        WaiterOp
    }

    #[inline(always)]
    pub(crate) fn acquired(&self, _count: usize) {}
}

/// The operation of a waiter in a queue.
#[derive(Clone)]
pub(crate) struct WaiterOp;

impl WaiterOp {
    pub(crate) const NONE: Self = Self;
}

/// The operations that were granted what they wait for.
pub(crate) struct GrantedOps;

impl GrantedOps {
    pub(crate) const NONE: Self = Self;

    #[inline(always)]
    pub(crate) fn push(&mut self, _op: WaiterOp, _count: usize) {}

    #[inline(always)]
    pub(crate) fn report(self) {}
}

/// The span of a barrier.
pub(crate) struct BarrierSpan;

impl BarrierSpan {
    #[inline(always)]
    pub(crate) fn new(_size: usize) -> Self {
        Self
    }
}

/// The span of a oneshot channel, as its sender has it.
#[derive(Default)]
pub(crate) struct SenderSpan;

impl SenderSpan {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn receiver(&self) -> ReceiverSpans {
        ReceiverSpans
    }

    #[inline(always)]
    pub(crate) fn sent(&self) {}

    #[inline(always)]
    pub(crate) fn dropped(&self) {}
}

/// The spans of an operation that is being polled.
pub(crate) struct EnteredOp;

/// The spans of a oneshot channel and of its receive.
#[derive(Clone)]
pub(crate) struct ReceiverSpans;

impl ReceiverSpans {
    #[inline(always)]
    pub(crate) fn enter(&self) -> EnteredOp {
        EnteredOp
    }

    #[inline(always)]
    pub(crate) fn polled(&self, _is_ready: bool) {}

    #[inline(always)]
    pub(crate) fn received(&self) {}

    #[inline(always)]
    pub(crate) fn dropped(&self) {}
}

/// The spans of a timer.
#[derive(Clone, Debug)]
pub struct SleepSpans;

impl SleepSpans {
    /// Creates none.
    #[expect(clippy::new_without_default, reason = "the signatures of `enabled`")]
    #[inline(always)]
    pub fn new() -> Self {
        Self
    }

    /// Enters none.
    #[inline(always)]
    pub fn enter(&self) -> impl Sized {
        EnteredOp
    }

    /// Reports nothing.
    #[inline(always)]
    pub fn polled(&self, _is_ready: bool) {}

    /// Reports nothing.
    #[inline(always)]
    pub fn armed(&self, _duration: impl FnOnce() -> Duration) {}
}
