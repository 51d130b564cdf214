//! blitzen under the name of `tokio`: Tokio's paths and features, no logic.
//!
//! Put in tokio's place by `[patch.crates-io]`, it moves a program and the libraries below
//! it onto blitzen. A file here is a module of Tokio's, and lists what blitzen has of it.

#[cfg(feature = "fs")]
pub mod fs;
pub mod io;
#[cfg(feature = "net")]
pub mod net;
#[cfg(feature = "process")]
pub mod process;
#[cfg(feature = "rt")]
pub mod runtime;
#[cfg(feature = "signal")]
pub mod signal;
#[cfg(feature = "sync")]
pub mod sync;
#[cfg(feature = "rt")]
pub mod task;
#[cfg(feature = "time")]
pub mod time;

pub use blitzen::pin;
#[cfg(feature = "macros")]
pub use blitzen::{join, select, try_join};
#[cfg(feature = "rt")]
pub use blitzen::{spawn, task_local};

#[cfg(all(feature = "macros", feature = "rt-multi-thread"))]
pub use blitzen_macros::{tokio_main as main, tokio_test as test};
#[cfg(all(feature = "macros", feature = "rt", not(feature = "rt-multi-thread")))]
pub use blitzen_macros::{tokio_main_rt as main, tokio_test_rt as test};

/// What code that Tokio's macros have expanded to may name.
#[doc(hidden)]
pub mod macros {
    pub mod support {
        pub use std::future::poll_fn;
    }
}
