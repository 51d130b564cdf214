//! What is known of one source, and who waits to know more.
//!
//! | file | what it is |
//! |---|---|
//! | `word` | the readiness, in one atomic word |
//! | `waiter` | those who wait, and the future that does |
//! | `slot` | the two together: post, wait, clear, retire |
//! | `unwatched` | a stream that is written to without being watched for it |

mod slot;
mod unwatched;
mod waiter;
mod word;

pub(crate) use slot::{Direction, SourceSlot};
pub(crate) use unwatched::Unwatched;
pub(crate) use waiter::Wait;
pub use word::ReadyEvent;
