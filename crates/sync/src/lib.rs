//! Locks and channels that need only a waker, and so run under any executor.

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
mod mutex;
mod notify;
mod once_cell;
mod permits;
mod queue;
mod rwlock;
mod semaphore;
mod set_once;

pub use barrier::{Barrier, BarrierWaitResult};
pub use cancel::CancelToken;
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
