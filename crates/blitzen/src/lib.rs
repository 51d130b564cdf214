//! An async I/O runtime with the shape of Tokio.

pub mod future;
#[doc(hidden)]
pub mod macros;
pub mod task {
    //! Asynchronous tasks.
    mod task_local;
    pub use task_local::{AccessError, LocalKey};
    /// Futures that the items of this module return.
    pub mod futures {
        pub use super::task_local::TaskLocalFuture;
    }
}

pub use blitzen_macros::{main, test};
