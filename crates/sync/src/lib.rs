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

pub mod channel;

mod mutex;
mod permits;
mod queue;
mod rwlock;
mod semaphore;

pub use mutex::{
    MappedMutexGuard, Mutex, MutexGuard, OwnedMappedMutexGuard, OwnedMutexGuard, TryLockError,
};
pub use rwlock::{
    OwnedRwLockMappedWriteGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock,
    RwLockMappedWriteGuard, RwLockReadGuard, RwLockWriteGuard,
};
pub use semaphore::{
    AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError,
};
