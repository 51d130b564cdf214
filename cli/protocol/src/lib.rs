//! What a program answers on its console, as values. `docs/console-protocol.md` describes the
//! fields.
//!
//! The command `blitzen` and the bridge to tokio-console both read answers by this. Each has a
//! connection of its own: one that blocks, and one that does not. A field that is missing has its
//! default value, and one that is not known is ignored, since the version stays the same when
//! fields are added.

mod answer;
mod event;
mod framing;

pub use answer::{Deadlock, Dump, Greeting, Lint, Stack, Stats, Task, Wait, Worker};
pub use event::{Event, EventKind, Events, PollEnd, Track};
pub use framing::{AnswerHead, MAX_ANSWER, MAX_GREETING, MAX_HEAD};
