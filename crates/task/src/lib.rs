//! One task of blitzen, never a scheduler: state word, cell, waker, join handle, shield.
//!
//! Beside it stand the parts of sets of tasks that other threads reach: [`OwnedTasks`], the list
//! of live ones, [`RemoteQueue`](remote_queue::RemoteQueue) of a `LocalSet`,
//! [`FinishedWakers`](finished_wakers::FinishedWakers) of a `JoinSet` with their queue, and
//! [`ScopeNode`](scope::ScopeNode), the members of a scope.
//!
//! A task is one allocation: a [`Header`] that every scheduler understands,
//! then the future or its output. Three kinds of pointer lead to it:
//!
//! | pointer | right | reference |
//! |---|---|---|
//! | [`Runnable`] | to poll it, once | borrows the scheduler's |
//! | [`JoinHandle`] | to take its output | its own |
//! | `Waker`, [`AbortHandle`] | to have it polled or cancelled | its own |
//!
//! T1. The scheduler holds one reference from the spawn until the task is
//!     complete. While the task is not complete its memory is therefore valid,
//!     and a queue needs no reference of its own.
//! T2. Only the thread that moved the task to `RUNNING` accesses the future, and only
//!     that thread completes it. At most one [`Runnable`] exists at a time.
//! T3. The thread that takes the count to zero frees the memory: no other pointer to
//!     it is left.
//! T4. The output belongs to the join handle if there is one when the task
//!     completes, otherwise to whoever completed it.
//! T5. The join waker's slot is written by the join handle while the
//!     `join_waker` bit is clear, and read by the completing side while it is set.
//!
//! The crate is an implementation detail: its interface may change with any release.

mod alloc;
mod cell;
pub mod context;
pub mod current;
mod error;
pub mod finished_queue;
pub mod finished_wakers;
pub mod glue;
mod header;
mod id;
mod join;
pub mod kept_memory;
mod owned_tasks;
mod queue_link;
mod raw;
pub mod remote_queue;
mod routable;
mod route;
pub mod scope;
mod shield;
mod snapshot;
pub mod span;
mod spawn_meta;
mod state;
mod waker;
pub mod watch;

pub use error::{JoinError, Payload};
pub use header::{Header, Schedule};
pub use id::Id;
pub use join::{AbortHandle, JoinHandle};
pub use owned_tasks::{Closed, OwnedTasks};
pub use raw::{IdleWait, RunOutcome, Runnable, spawn, spawn_unchecked};
pub use routable::RoutableTask;
pub use route::Route;
pub use shield::{Shield, shield};
pub use snapshot::{TaskSnapshot, TaskStatus};
pub use spawn_meta::SpawnMeta;

#[cfg(all(test, blitzen_loom))]
mod model;
#[cfg(all(test, not(blitzen_loom)))]
mod tests;
