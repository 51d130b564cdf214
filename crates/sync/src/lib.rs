//! Locks and channels that need only a waker, and so run under any executor.
//!
//! | type | for |
//! |---|---|
//! | [`Mutex`] | a value that one task at a time uses, also across an `.await` |
//! | [`RwLock`] | a value that many tasks read or one changes |
//! | [`Semaphore`] | a number of permits |
//! | [`Notify`] | waking one task, or all that wait |
//! | [`Barrier`] | tasks that wait for one another |
//! | [`OnceCell`] | a value made by whoever needs it first |
//! | [`SetOnce`] | a value that one task sets and others wait for |
//! | [`CancelToken`] | telling a tree of tasks to stop |
//! | [`channel`] | values handed from task to task |
//!
//! ```
//! use blitzen_sync::{Barrier, Mutex};
//!
//! # futures::executor::block_on(async {
//! let (count, met) = (Mutex::new(0), Barrier::new(2));
//! let add = || async {
//!     *count.lock().await += 1;
//!     met.wait().await;
//!     *count.lock().await
//! };
//! assert_eq!(futures::join!(add(), add()), (2, 2));
//! # });
//! ```
//!
//! What holds for all of them:
//!
//! - Waiting allocates nothing: the place in the queue is within the future.
//! - Queues are served in the order of arrival.
//! - Dropping a future gives up its place; what it had already been given goes to
//!   the next waiter.
//! - Without anyone to wait for, an operation is one compare-and-swap and a unit
//!   of the task's cooperative budget.
//! - Wakers are called outside the locks. There is no poison.

/// A function that is `const`, except under loom, whose types cannot be.
macro_rules! const_unless_loom {
    ($(#[$attribute:meta])* $vis:vis fn $($rest:tt)*) => {
        #[cfg(not(blitzen_loom))]
        $(#[$attribute])*
        $vis const fn $($rest)*

        #[cfg(blitzen_loom)]
        $(#[$attribute])*
        $vis fn $($rest)*
    };
}

pub mod cancel;
pub mod channel;

mod barrier;
mod batch_semaphore;
mod mutex;
mod notify;
mod once_cell;
mod rwlock;
mod semaphore;
mod set_once;
mod wait_queue;

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

/// Futures with a name.
pub mod futures {
    pub use crate::notify::{Notified, OwnedNotified};
}
