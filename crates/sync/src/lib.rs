//! Synchronization primitives and channels for asynchronous tasks.
//!
//! They need only a [`Waker`](std::task::Waker), so they work with any executor.
//!
//! | type | purpose |
//! |---|---|
//! | [`Mutex`] | a value that one task at a time uses, also across an `.await` |
//! | [`RwLock`] | a value that many tasks read or one writes |
//! | [`Semaphore`] | a limited number of permits |
//! | [`Notify`] | waking one task, or all that wait |
//! | [`Barrier`] | a number of tasks that wait for one another |
//! | [`OnceCell`] | a value initialized by the first task that needs it |
//! | [`SetOnce`] | a value that one task sets and others wait for |
//! | [`CancelToken`] | telling a tree of tasks to stop |
//! | [`mpsc`] | a channel with many senders and one receiver |
//! | [`oneshot`] | a channel for one value |
//! | [`broadcast`] | a channel whose receivers all get every value |
//! | [`watch`] | a channel that keeps the latest value |
//! | [`channel::bounded`], [`channel::unbounded`] | channels with many senders and many receivers |
//!
//! All of them have in common:
//!
//! - Waiting allocates nothing.
//! - Waiters are served in the order of arrival.
//! - If a waiting future is dropped, what it was granted goes to the next waiter.
//! - An operation that need not wait spends a unit of the task's cooperative budget.
//! - A panic does not poison them.
//!
//! # Examples
//!
//! ```
//! use blitzen::sync::{Barrier, Mutex};
//!
//! # futures::executor::block_on(async {
//! let (count, barrier) = (Mutex::new(0), Barrier::new(2));
//! let add = || async {
//!     *count.lock().await += 1;
//!     barrier.wait().await;
//!     *count.lock().await
//! };
//! assert_eq!(blitzen::join!(add(), add()), (2, 2));
//! # });
//! ```

pub mod cancel;
pub mod channel;

mod barrier;
mod batch_semaphore;
mod mutex;
mod notify;
mod once_cell;
#[doc(hidden)]
pub mod resource;
mod rwlock;
mod semaphore;
mod set_once;
mod wait_queue;
mod write_once;

pub use barrier::{Barrier, BarrierWaitResult};
pub use cancel::CancelToken;
#[doc(no_inline)]
pub use channel::{broadcast, mpsc, oneshot, watch}; // where Tokio has them
pub use mutex::{
    MappedMutexGuard, Mutex, MutexGuard, OwnedMappedMutexGuard, OwnedMutexGuard, TryLockError,
};
pub use notify::Notify;
pub use once_cell::{OnceCell, SetError};
pub use rwlock::{
    OwnedRwLockMappedWriteGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock,
    RwLockMappedWriteGuard, RwLockReadGuard, RwLockWriteGuard,
};
pub use semaphore::{
    AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError,
};
pub use set_once::{SetOnce, SetOnceError};

/// Future types that can be named.
pub mod futures {
    pub use crate::notify::{Notified, OwnedNotified};
}
