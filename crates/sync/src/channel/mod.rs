//! Channels: values handed between tasks.
