//! Channels: values handed between tasks.

pub mod broadcast;
pub mod error;
pub mod mpsc;
pub mod oneshot;
pub mod watch;

mod blocks;
mod until;
