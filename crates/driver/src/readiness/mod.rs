//! The readiness of one source, and the tasks that wait for it.
//!
//! | file | what it is |
//! |---|---|
//! | `word` | the readiness, in one atomic word |
//! | `waiter` | the tasks that wait, and the future in which they do |
//! | `slot` | the two together: post, wait, clear, retire |
//! | `unwatched` | a stream whose writability is not watched yet |

mod slot;
mod unwatched;
mod waiter;
mod word;

pub(crate) use slot::{Direction, SourceSlot};
pub(crate) use unwatched::Unwatched;
pub(crate) use waiter::Wait;
pub use word::ReadyEvent;
