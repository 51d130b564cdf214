//! Asynchronous tasks.
//!
//! A task is a future that runs by itself. [`spawn`] starts one and returns a
//! [`JoinHandle`], which waits for its output or [aborts](JoinHandle::abort) it.
//!
//! ```
//! # let runtime = blitzen::runtime::Runtime::new().unwrap();
//! # runtime.block_on(async {
//! let task = blitzen::spawn(async { 6 * 7 });
//! assert_eq!(task.await.unwrap(), 42);
//! # });
//! ```
//!
//! An abort takes effect where the task next waits, except under a
//! [`shield`]: what must not be cut in half runs to its end there.

mod blocking;
mod builder;
pub mod coop;
pub mod join_set;
mod local;
mod panics;
mod spawn;
mod task_local;
mod yield_now;

pub use blitzen_task::{AbortHandle, Id, JoinError, JoinHandle, Shield, shield};
pub use blocking::{block_in_place, spawn_blocking};
pub use builder::Builder;
pub use coop::{consume_budget, unconstrained};
#[doc(inline)]
pub use join_set::JoinSet;
pub use local::{LocalEnterGuard, LocalSet, spawn_local};
pub use spawn::{id, spawn, try_id};
pub use task_local::{AccessError, LocalKey};
pub use yield_now::yield_now;

/// Futures that the items of this module return.
pub mod futures {
    pub use super::task_local::TaskLocalFuture;
}
