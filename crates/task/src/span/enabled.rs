//! Spans with the names and fields of Tokio's.

use std::any::type_name;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use blitzen_util::quiet::quietly;
use tracing::{Span, span, trace, trace_span};

use super::WakerOp;
use crate::id::Id;
use crate::spawn_meta::SpawnMeta;

/// Whether tasks have spans.
pub const ENABLED: bool = true;

/// Puts the future of `block_on` into a span of its own. It is a task for subscribers only.
#[track_caller]
pub fn of_block_on<F>(future: F) -> Spanned<F> {
    TaskSpan::of_task::<F>("block_on", Id::next(), &SpawnMeta::caller()).attach(future)
}

/// The span of a task; `None` before the task is spawned.
pub(crate) struct TaskSpan(Option<Span>);

impl TaskSpan {
    pub(crate) const NONE: Self = Self(None);

    /// The span of a task that polls an `F`. Calls the subscriber.
    pub(crate) fn of_task<F>(kind: &'static str, id: Id, meta: &SpawnMeta) -> Self {
        // A future is never boxed here, so that `original_size.bytes` has no value. A task is no
        // part of what spawned it, so that its span has no parent.
        Self(Some(trace_span!(
            target: "tokio::task",
            parent: None,
            "runtime.spawn",
            %kind,
            task.name = %meta.name().unwrap_or_default(),
            task.id = id.as_u64(),
            original_size.bytes = tracing::field::Empty,
            size.bytes = size_of::<F>(),
            loc.file = meta.location().file(),
            loc.line = meta.location().line(),
            loc.col = meta.location().column(),
        )))
    }

    /// The span of a task that calls a `C` on the blocking pool. Calls the subscriber.
    pub(crate) fn of_closure<C>(id: Id, meta: &SpawnMeta) -> Self {
        Self(Some(trace_span!(
            target: "tokio::task::blocking",
            "runtime.spawn",
            kind = %"blocking",
            task.name = %meta.name().unwrap_or_default(),
            task.id = id.as_u64(),
            "fn" = %type_name::<C>(),
            original_size.bytes = tracing::field::Empty,
            size.bytes = size_of::<C>(),
            loc.file = meta.location().file(),
            loc.line = meta.location().line(),
            loc.col = meta.location().column(),
        )))
    }

    pub(crate) fn id(&self) -> SpanId {
        SpanId(self.0.as_ref().and_then(Span::id))
    }

    pub(crate) fn attach<F>(self, future: F) -> Spanned<F> {
        Spanned {
            future: ManuallyDrop::new(future),
            span: self,
        }
    }

    /// Runs `code` within the span.
    fn enter<R>(&self, code: impl FnOnce() -> R) -> R {
        self.call(|subscriber, id| subscriber.enter(id));
        let _exit = ExitGuard(self);
        code()
    }

    fn call(&self, visit: impl FnOnce(&tracing::Dispatch, &span::Id)) {
        if let Some(span) = &self.0 {
            span.with_subscriber(|(id, subscriber)| visit(subscriber, id));
        }
    }
}

impl Drop for TaskSpan {
    fn drop(&mut self) {
        if let Some(span) = self.0.take() {
            quietly(|| drop(span)); // P1
        }
    }
}

/// Leaves a span when it is dropped.
struct ExitGuard<'a>(&'a TaskSpan);

impl Drop for ExitGuard<'_> {
    fn drop(&mut self) {
        let exit = || self.0.call(|subscriber, id| subscriber.exit(id));
        match thread::panicking() {
            false => exit(),
            true => quietly(exit), // a second panic would abort the process
        }
    }
}

/// A future that is polled and dropped within a span.
pub struct Spanned<F> {
    /// Pinned if `Spanned` is. Dropped by its `Drop` only.
    future: ManuallyDrop<F>,
    span: TaskSpan,
}

impl<F: Future> Future for Spanned<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future does not move before it is dropped, in its place; the span is never
        // pinned.
        let Self { future, span } = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(&mut **future) };
        span.enter(|| future.poll(cx))
    }
}

impl<F> Drop for Spanned<F> {
    fn drop(&mut self) {
        struct DropFuture<'a, F>(&'a mut ManuallyDrop<F>);
        impl<F> Drop for DropFuture<'_, F> {
            fn drop(&mut self) {
                // SAFETY: made once, below, and the future is not used again.
                unsafe { ManuallyDrop::drop(self.0) };
            }
        }
        // Made here, so that the future is dropped although the subscriber panics.
        let future = DropFuture(&mut self.future);
        self.span.enter(|| drop(future));
    }
}

/// The span of a task, as its wakers name it; `None` if no subscriber wants it.
pub(crate) struct SpanId(Option<span::Id>);

impl SpanId {
    /// Reports what happened to a waker.
    pub(crate) fn report(&self, op: WakerOp) {
        let Some(id) = &self.0 else { return };
        let op = match op {
            WakerOp::Clone => "waker.clone",
            WakerOp::Drop => "waker.drop",
            WakerOp::Wake => "waker.wake",
            WakerOp::WakeByRef => "waker.wake_by_ref",
        };
        // P1
        quietly(|| trace!(target: "tokio::task::waker", op, task.id = id.into_u64()));
    }
}
