//! blitzen under the name of `tokio`: Tokio's paths and features, no logic.
//!
//! A `[patch.crates-io]` section puts it in Tokio's place, for a program and all its libraries.
//! Each file here is a module of Tokio's and lists the items that blitzen provides for it. A
//! feature decides which names exist, as in Tokio; it does not change what is compiled.

#[cfg(feature = "fs")]
pub mod fs;
pub mod io;
pub mod net;
#[cfg(feature = "process")]
pub mod process;
#[cfg(feature = "rt")]
pub mod runtime;
#[cfg(feature = "signal")]
pub mod signal;
#[cfg(feature = "sync")]
pub mod sync;
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
#[cfg(all(feature = "macros", not(feature = "rt")))]
pub use blitzen_macros::{tokio_main_without_rt as main, tokio_test_without_rt as test};

/// Streams are in the crate `tokio-stream`; Tokio keeps this module for its documentation.
pub mod stream {}

/// Names that the expansion of Tokio's macros may contain.
#[doc(hidden)]
pub mod macros {
    pub mod support {
        #[cfg(feature = "macros")]
        pub use blitzen::macros::support::thread_rng_n;
        #[cfg(feature = "macros")]
        pub use std::future::poll_fn;
    }
}
