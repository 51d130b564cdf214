//! Channels: values handed between tasks.

pub mod error;
pub mod mpsc;
pub mod oneshot;

mod blocks;
mod until;
