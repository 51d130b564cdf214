//! Locks and channels that need only a waker, and so run under any executor.

pub mod channel;
