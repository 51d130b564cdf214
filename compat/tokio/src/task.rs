//! Tasks.

pub use blitzen::task::LocalKey;

/// Futures that this module returns.
pub mod futures {
    pub use blitzen::task::futures::TaskLocalFuture;
}
