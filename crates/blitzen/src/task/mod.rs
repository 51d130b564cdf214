//! Asynchronous tasks.
//!
//! A task is a future that a runtime runs by itself, beside others. [`spawn`] starts one and
//! returns a [`JoinHandle`], which waits for its output or [aborts](JoinHandle::abort) it. A
//! [`JoinSet`] does so for many tasks. Futures that are not `Send` are spawned by
//! [`spawn_local`], and code that blocks by [`spawn_blocking`].
//!
//! An abort takes effect where the task next waits, except inside a [`shield`]: what must not
//! be interrupted runs to its end there.
//!
//! # Examples
//!
//! ```
//! use blitzen::task;
//!
//! # let runtime = blitzen::runtime::Runtime::new().unwrap();
//! # runtime.block_on(async {
//! let handle = task::spawn(async { 6 * 7 });
//! assert_eq!(handle.await.unwrap(), 42);
//! # });
//! ```

mod blocking;
mod builder;
mod cancellation;
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
pub use cancellation::{cancelled, deadline, is_cancelled, shield_within, unless_cancelled};
pub use coop::{consume_budget, unconstrained};
#[doc(inline)]
pub use join_set::JoinSet;
#[cfg(feature = "coro")]
pub(crate) use local::{EnteredSet, is_polling_local_set};
pub use local::{LocalEnterGuard, LocalSet, spawn_local};
pub use spawn::{id, spawn, try_id};
pub use task_local::{AccessError, LocalKey};
#[doc(hidden)]
pub use yield_now::poll_yield;
pub use yield_now::yield_now;

/// Futures that the items of [`task`](super) return.
///
/// # Examples
///
/// ```
/// use blitzen::task::futures::TaskLocalFuture;
///
/// blitzen::task_local! {
///     static NUMBER: u32;
/// }
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let future: TaskLocalFuture<u32, _> = NUMBER.scope(1, async { NUMBER.get() });
/// assert_eq!(future.await, 1);
/// # });
/// ```
pub mod futures {
    pub use super::task_local::TaskLocalFuture;
}
