//! Tasks without spans.

use super::WakerOp;
use crate::id::Id;
use crate::spawn_meta::SpawnMeta;

/// Whether tasks have spans.
pub const ENABLED: bool = false;

/// A future within a span, if there were spans.
pub type Spanned<F> = F;

/// Puts the future of `block_on` into a span of its own, if there were spans.
#[inline]
pub fn of_block_on<F>(future: F) -> Spanned<F> {
    future
}

/// The span of a new task, which there is not.
pub(crate) struct TaskSpan;

#[expect(clippy::extra_unused_type_parameters, reason = "the signatures of `enabled`")]
impl TaskSpan {
    pub(crate) const NONE: Self = Self;

    #[inline]
    pub(crate) fn of_task<F>(_: &'static str, _: Id, _: &SpawnMeta) -> Self {
        Self
    }

    #[inline]
    pub(crate) fn of_closure<C>(_: Id, _: &SpawnMeta) -> Self {
        Self
    }

    #[inline]
    pub(crate) fn id(&self) -> SpanId {
        SpanId
    }

    #[inline]
    pub(crate) fn attach<F>(self, future: F) -> Spanned<F> {
        future
    }
}

/// The span of a task, as its wakers name it.
pub(crate) struct SpanId;

impl SpanId {
    #[inline]
    pub(crate) fn report(&self, _: WakerOp) {}
}
