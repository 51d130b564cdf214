//! Mutual exclusion for tasks: one permit, and a value that goes with it.

mod guard;
mod owned_guard;

use std::cell::UnsafeCell;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use blitzen_util::block_on::block_on;
use blitzen_util::entered::assert_may_block;

use crate::batch_semaphore::{AcquireFuture, AcquireTarget, BatchSemaphore};
use crate::semaphore::AcquireError;

pub use guard::{MappedMutexGuard, MutexGuard};
pub use owned_guard::{OwnedMappedMutexGuard, OwnedMutexGuard};

/// A value that one task at a time may use, also across an `.await`.
///
/// Tasks get the lock in the order in which they asked for it. There is no
/// poison: a task that panics unlocks.
///
/// A future of [`lock`](Self::lock) that waits may be handed the lock at any
/// moment, and then holds it: keep on polling it, or drop it. One that is kept
/// unpolled, say as a branch of a `select!` that another branch has won, locks
/// everybody out.
///
/// ```
/// use blitzen_sync::Mutex;
///
/// # futures::executor::block_on(async {
/// let count = Mutex::new(0);
/// {
///     let mut count = count.lock().await;
///     *count += 1;
/// }
/// assert_eq!(*count.lock().await, 1);
/// # });
/// ```
pub struct Mutex<T: ?Sized> {
    semaphore: BatchSemaphore,
    value: UnsafeCell<T>,
}

// SAFETY: the value moves with the mutex.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: the single permit lets one thread at a time reach the value, which is
// like sending it there.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T: ?Sized> Mutex<T> {
    /// An unlocked mutex.
    ///
    /// ```
    /// use blitzen_sync::Mutex;
    /// let mutex = Mutex::new(5);
    /// assert_eq!(*mutex.try_lock()?, 5);
    /// # Ok::<(), blitzen_sync::TryLockError>(())
    /// ```
    pub fn new(t: T) -> Self
    where
        T: Sized,
    {
        Self {
            semaphore: BatchSemaphore::new(1),
            value: UnsafeCell::new(t),
        }
    }

    const_unless_loom! {
        /// [`new`](Self::new) for a `static`.
        ///
        /// ```
        /// use blitzen_sync::Mutex;
        /// static NAMES: Mutex<Vec<String>> = Mutex::const_new(Vec::new());
        /// assert!(NAMES.try_lock()?.is_empty());
        /// # Ok::<(), blitzen_sync::TryLockError>(())
        /// ```
        pub fn const_new(t: T) -> Self
        where
            T: Sized,
        {
            Self {
                semaphore: BatchSemaphore::new(1),
                value: UnsafeCell::new(t),
            }
        }
    }

    /// Waits for the lock.
    ///
    /// ```
    /// use blitzen_sync::Mutex;
    /// # futures::executor::block_on(async {
    /// let mutex = Mutex::new(1);
    /// *mutex.lock().await = 2;
    /// assert_eq!(mutex.into_inner(), 2);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future gives up its place in the queue; a lock already granted
    /// goes to the next.
    #[inline]
    pub fn lock(&self) -> impl Future<Output = MutexGuard<'_, T>> {
        AcquireFuture::new(LockTarget(self))
    }

    /// Waits for the lock, with a guard that keeps the mutex alive and so may
    /// move to another task.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen_sync::Mutex;
    /// # futures::executor::block_on(async {
    /// let mutex = Arc::new(Mutex::new(1));
    /// let mut guard = mutex.clone().lock_owned().await;
    /// std::thread::spawn(move || *guard = 2).join().unwrap();
    /// assert_eq!(*mutex.lock().await, 2);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// As for [`lock`](Self::lock).
    #[inline]
    pub fn lock_owned(self: Arc<Self>) -> impl Future<Output = OwnedMutexGuard<T>> {
        AcquireFuture::new(OwnedLockTarget(self))
    }

    /// Takes the lock if nobody holds it or waits for it.
    ///
    /// ```
    /// use blitzen_sync::Mutex;
    /// let mutex = Mutex::new(1);
    /// let guard = mutex.try_lock()?;
    /// assert!(mutex.try_lock().is_err());
    /// # drop(guard);
    /// # Ok::<(), blitzen_sync::TryLockError>(())
    /// ```
    ///
    /// # Errors
    /// If somebody does.
    #[inline]
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError> {
        match self.semaphore.try_acquire(1) {
            Ok(()) => Ok(MutexGuard::new(self)),
            Err(_) => Err(TryLockError::would_block()),
        }
    }

    /// [`try_lock`](Self::try_lock) with a guard that keeps the mutex alive.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen_sync::Mutex;
    /// let mutex = Arc::new(Mutex::new(1));
    /// let guard = mutex.clone().try_lock_owned()?;
    /// assert!(mutex.try_lock_owned().is_err());
    /// # drop(guard);
    /// # Ok::<(), blitzen_sync::TryLockError>(())
    /// ```
    ///
    /// # Errors
    /// If somebody holds the lock or waits for it.
    #[inline]
    pub fn try_lock_owned(self: Arc<Self>) -> Result<OwnedMutexGuard<T>, TryLockError> {
        match self.semaphore.try_acquire(1) {
            Ok(()) => Ok(OwnedMutexGuard::new(self)),
            Err(_) => Err(TryLockError::would_block()),
        }
    }

    /// Blocks the thread until it has the lock.
    ///
    /// ```
    /// use blitzen_sync::Mutex;
    /// let mutex = Mutex::new(1);
    /// *mutex.blocking_lock() += 1;
    /// assert_eq!(mutex.into_inner(), 2);
    /// ```
    ///
    /// # Panics
    /// On a thread that drives tasks.
    #[track_caller]
    pub fn blocking_lock(&self) -> MutexGuard<'_, T> {
        assert_may_block();
        block_on(self.lock())
    }

    /// [`blocking_lock`](Self::blocking_lock) with a guard that keeps the mutex
    /// alive.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen_sync::Mutex;
    /// let mutex = Arc::new(Mutex::new(1));
    /// *mutex.clone().blocking_lock_owned() += 1;
    /// assert_eq!(*mutex.blocking_lock(), 2);
    /// ```
    ///
    /// # Panics
    /// On a thread that drives tasks.
    #[track_caller]
    pub fn blocking_lock_owned(self: Arc<Self>) -> OwnedMutexGuard<T> {
        assert_may_block();
        block_on(self.lock_owned())
    }

    /// The value, without locking: `&mut` proves that nobody else can.
    ///
    /// ```
    /// use blitzen_sync::Mutex;
    /// let mut mutex = Mutex::new(1);
    /// *mutex.get_mut() = 2;
    /// assert_eq!(mutex.into_inner(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Unwraps the value.
    ///
    /// ```
    /// use blitzen_sync::Mutex;
    /// assert_eq!(Mutex::new(7).into_inner(), 7);
    /// ```
    pub fn into_inner(self) -> T
    where
        T: Sized,
    {
        self.value.into_inner()
    }

    /// What a dropped guard does.
    #[inline(always)]
    fn unlock(&self) {
        self.semaphore.release(1);
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(t: T) -> Self {
        Self::new(t)
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut mutex = f.debug_struct("Mutex");
        match self.try_lock() {
            Ok(value) => mutex.field("data", &&*value),
            Err(_) => mutex.field("data", &format_args!("<locked>")),
        };
        mutex.finish()
    }
}

/// The lock could not be had at once.
///
/// ```
/// use blitzen_sync::Mutex;
/// let mutex = Mutex::new(1);
/// let _guard = mutex.try_lock()?;
/// assert_eq!(mutex.try_lock().unwrap_err().to_string(), "operation would block");
/// # Ok::<(), blitzen_sync::TryLockError>(())
/// ```
#[derive(Debug)]
pub struct TryLockError(());

impl TryLockError {
    #[inline(always)]
    pub(crate) fn would_block() -> Self {
        Self(())
    }
}

impl fmt::Display for TryLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("operation would block")
    }
}

impl Error for TryLockError {}

struct LockTarget<'a, T: ?Sized>(&'a Mutex<T>);

// SAFETY: both are fixed when the target is made.
unsafe impl<'a, T: ?Sized> AcquireTarget for LockTarget<'a, T> {
    type Output = MutexGuard<'a, T>;

    #[inline(always)]
    fn semaphore(&self) -> &BatchSemaphore {
        &self.0.semaphore
    }

    #[inline(always)]
    fn count(&self) -> usize {
        1
    }

    #[inline(always)]
    fn expected_permits(&self) -> usize {
        1
    }

    #[inline(always)]
    fn settle(self, _never_closed: Result<(), AcquireError>) -> Self::Output {
        MutexGuard::new(self.0)
    }
}

struct OwnedLockTarget<T: ?Sized>(Arc<Mutex<T>>);

// SAFETY: both are fixed when the target is made.
unsafe impl<T: ?Sized> AcquireTarget for OwnedLockTarget<T> {
    type Output = OwnedMutexGuard<T>;

    #[inline(always)]
    fn semaphore(&self) -> &BatchSemaphore {
        &self.0.semaphore
    }

    #[inline(always)]
    fn count(&self) -> usize {
        1
    }

    #[inline(always)]
    fn expected_permits(&self) -> usize {
        1
    }

    #[inline(always)]
    fn settle(self, _never_closed: Result<(), AcquireError>) -> Self::Output {
        OwnedMutexGuard::new(self.0)
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::batch_semaphore::model::poll_once;
    use blitzen_util::shim::Arc;
    use blitzen_util::shim::cell::UnsafeCell as Watched;
    use blitzen_util::shim::thread;
    use loom::future::block_on;

    #[test]
    fn three_take_turns_though_one_gives_up() {
        loom::model(|| {
            let mutex = Arc::new(Mutex::new(Watched::new(0)));
            // SAFETY: behind the lock; loom objects if it does not exclude.
            let add = |slot: &Watched<i32>| slot.with_mut(|slot| unsafe { *slot += 1 });
            let quitter = thread::spawn({
                let mutex = mutex.clone();
                move || match poll_once(Box::pin(mutex.lock()).as_mut()) {
                    std::task::Poll::Ready(guard) => add(&guard),
                    std::task::Poll::Pending => {}
                }
            });
            let other = thread::spawn({
                let mutex = mutex.clone();
                move || add(&block_on(mutex.lock()))
            });
            add(&block_on(mutex.lock()));
            quitter.join().unwrap();
            other.join().unwrap();
            assert!(mutex.try_lock().is_ok());
        });
    }
}
