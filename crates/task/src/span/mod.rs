//! The span of a task, in which `tracing` subscribers such as `console-subscriber` see it: made
//! at its spawn, entered by each poll and by the drop of its future. Its wakers report what
//! happens to them as events.
//!
//! It exists with the feature `task-spans` and `--cfg tokio_unstable`. Without both, everything
//! here is empty, and no caller needs a condition of its own.
//!
//! P1. A subscriber is foreign code. Where it panics as part of a spawn or a poll, that spawn or
//!     poll panics. Its panics in the other places (a waker's event, the end of a span, or while
//!     another panic passes through) go no further: who wakes a task is not to blame for them.

cfg_select! {
    all(tokio_unstable, feature = "task-spans") => { mod enabled; use enabled as chosen; }
    _ => { mod disabled; use disabled as chosen; }
}

pub use chosen::{ENABLED, Spanned, of_block_on};
pub(crate) use chosen::{SpanId, TaskSpan};

/// What happened to a waker, under the name by which subscribers know it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WakerOp {
    Clone,
    Drop,
    Wake,
    WakeByRef,
}
