//! Channels: values handed between tasks.

pub mod oneshot;
