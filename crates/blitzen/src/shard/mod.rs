//! A runtime of shards: one thread for each core, and tasks that never leave theirs.
//!
//! In a [`Runtime`](crate::runtime::Runtime) any worker may run any task, so that none is idle
//! while another has too much to do. Here each shard is a runtime of its own on one thread, which
//! is bound to a core. Nothing is stolen and nothing moves: tasks need not be `Send`, and share
//! data by `Rc` and `Cell`. It is for programs whose work is spread evenly, such as a server with
//! many connections, each of which costs about the same.
//!
//! | | [`Runtime`](crate::runtime::Runtime) | [`ShardedRuntime`] |
//! |---|---|---|
//! | futures | must be `Send` | need not be |
//! | a worker or shard with too much to do | others steal its tasks | its tasks wait |
//! | a task that blocks its thread | others go on with the rest | all tasks of the shard wait |
//! | io_uring, where there is one | rings that other workers can serve | rings that belong to their thread (`DEFER_TASKRUN`) |
//!
//! [`Builder::sharded`](crate::runtime::Builder::sharded) makes one.
//! [`run_each`](ShardedRuntime::run_each) runs the same code on every shard,
//! [`spawn_on`](ShardedRuntime::spawn_on) a task on a certain one, and
//! [`listen`](ShardedRuntime::listen) spreads the connections of one address over all.
//!
//! # Examples
//!
//! ```
//! use std::cell::Cell;
//! use std::rc::Rc;
//! use blitzen::runtime::Builder;
//!
//! let runtime = Builder::sharded().shards(2).build().unwrap();
//! let sums = runtime.run_each(|shard| async move {
//!     let sum = Rc::new(Cell::new(shard.index()));
//!     let task = shard.spawn_local({
//!         let sum = sum.clone();
//!         async move { sum.set(sum.get() + 10) }
//!     });
//!     task.await.unwrap();
//!     sum.get()
//! });
//! assert_eq!(sums, [10, 11]);
//! ```

mod builder;
mod exact_balance;
mod listener;
#[allow(clippy::module_inception)]
mod shard;
mod sharded_runtime;

pub use builder::ShardedBuilder;
pub use listener::{Balance, OpenConnection, ShardListener, ShardedListener};
pub use shard::Shard;
pub use sharded_runtime::ShardedRuntime;
