//! What `tracing` subscribers such as `console-subscriber` see of locks, channels and timers: a
//! span for each of them, with events for its state, and a span for each operation on it.
//!
//! ```text
//!   runtime.resource                   a lock, a channel, a timer
//!   └ runtime.resource.async_op        an operation on it: the future of `lock`, say
//!     └ runtime.resource.async_op.poll entered by each poll of that future
//! ```
//!
//! It exists with the feature `resource-spans` and `--cfg tokio_unstable`, with Tokio's names and
//! fields. Without both, everything here is empty, and no caller needs a condition of its own.
//!
//! Q1. A subscriber is foreign code, and is called while no lock is held.
//! Q2. If it panics as part of a poll, that poll panics, and what it has acquired is given back.
//!     If it panics when a release is reported to the waiters that were granted permits, the
//!     release has been done. Its other panics go no further.

cfg_select! {
    all(tokio_unstable, feature = "resource-spans") => { mod enabled; use enabled as chosen; }
    _ => { mod disabled; use disabled as chosen; }
}

pub use chosen::SleepSpans;
pub(crate) use chosen::{
    AcquireSpans, BarrierSpan, GrantedOps, ReceiverSpans, SemaphoreSpans, SenderSpan, WaiterOp,
};
