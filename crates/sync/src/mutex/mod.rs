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
use blitzen_util::shim::const_unless_loom;
use blitzen_util::wait::WaitKind;

use crate::batch_semaphore::{AcquireFuture, AcquireTarget, BatchSemaphore};
use crate::resource::SemaphoreSpans;
use crate::semaphore::AcquireError;

pub use guard::{MappedMutexGuard, MutexGuard};
pub use owned_guard::{OwnedMappedMutexGuard, OwnedMutexGuard};

/// An asynchronous mutex: one task at a time may use the value, also across an
/// `.await`.
///
/// Tasks get the lock in the order in which they asked for it. The mutex is not
/// poisoned: a guard that is dropped by a panic unlocks it.
///
/// A waiting future of [`lock`](Self::lock) may be granted the lock at any moment, and
/// then holds it. Keep polling it, or drop it: a future that is kept but not polled,
/// such as the losing branch of a `select!`, blocks all other tasks.
///
/// # Examples
///
/// ```
/// use blitzen::sync::Mutex;
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
    /// Creates an unlocked mutex.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Mutex;
    /// let mutex = Mutex::new(5);
    /// assert_eq!(*mutex.try_lock()?, 5);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    #[cfg_attr(all(tokio_unstable, feature = "resource-spans"), track_caller)]
    pub fn new(t: T) -> Self
    where
        T: Sized,
    {
        Self {
            semaphore: BatchSemaphore::new_of_lock(1, SemaphoreSpans::of_mutex()),
            value: UnsafeCell::new(t),
        }
    }

    const_unless_loom! {
        /// Creates an unlocked mutex, for use in a `static`.
        ///
        /// # Examples
        ///
        /// ```
        /// use blitzen::sync::Mutex;
        /// static NAMES: Mutex<Vec<String>> = Mutex::const_new(Vec::new());
        /// assert!(NAMES.try_lock()?.is_empty());
        /// # Ok::<(), blitzen::sync::TryLockError>(())
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

    /// Locks the mutex.
    ///
    /// Waits until it is unlocked.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Mutex;
    /// # futures::executor::block_on(async {
    /// let mutex = Mutex::new(1);
    /// *mutex.lock().await = 2;
    /// assert_eq!(mutex.into_inner(), 2);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it loses its place in the queue. A lock that it
    /// was granted goes to the next waiter.
    #[inline]
    pub fn lock(&self) -> impl Future<Output = MutexGuard<'_, T>> {
        AcquireFuture::new(LockTarget(self))
    }

    /// Locks the mutex, with a guard that owns an `Arc` of it and can move to
    /// another task.
    ///
    /// Waits until it is unlocked.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::Mutex;
    /// # futures::executor::block_on(async {
    /// let mutex = Arc::new(Mutex::new(1));
    /// let mut guard = mutex.clone().lock_owned().await;
    /// std::thread::spawn(move || *guard = 2).join().unwrap();
    /// assert_eq!(*mutex.lock().await, 2);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// As for [`lock`](Self::lock).
    #[inline]
    pub fn lock_owned(self: Arc<Self>) -> impl Future<Output = OwnedMutexGuard<T>> {
        AcquireFuture::new(OwnedLockTarget(self))
    }

    /// Locks the mutex if it is unlocked and no task waits for it.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Mutex;
    /// let mutex = Mutex::new(1);
    /// let guard = mutex.try_lock()?;
    /// assert!(mutex.try_lock().is_err());
    /// # drop(guard);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the lock is taken, or a task waits for it.
    #[inline]
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError> {
        match self.semaphore.try_acquire(1) {
            Ok(()) => Ok(MutexGuard::new(self)),
            Err(_) => Err(TryLockError::would_block()),
        }
    }

    /// Locks the mutex as [`try_lock`](Self::try_lock) does, with a guard that owns
    /// an `Arc` of it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::Mutex;
    /// let mutex = Arc::new(Mutex::new(1));
    /// let guard = mutex.clone().try_lock_owned()?;
    /// assert!(mutex.try_lock_owned().is_err());
    /// # drop(guard);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the lock is taken, or a task waits for it.
    #[inline]
    pub fn try_lock_owned(self: Arc<Self>) -> Result<OwnedMutexGuard<T>, TryLockError> {
        match self.semaphore.try_acquire(1) {
            Ok(()) => Ok(OwnedMutexGuard::new(self)),
            Err(_) => Err(TryLockError::would_block()),
        }
    }

    /// Locks the mutex, and blocks the current thread until it is unlocked.
    ///
    /// For use outside of a runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Mutex;
    /// let mutex = Mutex::new(1);
    /// *mutex.blocking_lock() += 1;
    /// assert_eq!(mutex.into_inner(), 2);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that runs tasks.
    #[track_caller]
    pub fn blocking_lock(&self) -> MutexGuard<'_, T> {
        assert_may_block();
        block_on(self.lock())
    }

    /// Locks the mutex as [`blocking_lock`](Self::blocking_lock) does, with a guard
    /// that owns an `Arc` of it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::Mutex;
    /// let mutex = Arc::new(Mutex::new(1));
    /// *mutex.clone().blocking_lock_owned() += 1;
    /// assert_eq!(*mutex.blocking_lock(), 2);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that runs tasks.
    #[track_caller]
    pub fn blocking_lock_owned(self: Arc<Self>) -> OwnedMutexGuard<T> {
        assert_may_block();
        block_on(self.lock_owned())
    }

    /// Returns a reference to the value, without locking: `&mut self` proves that
    /// nobody else uses it.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Mutex;
    /// let mut mutex = Mutex::new(1);
    /// *mutex.get_mut() = 2;
    /// assert_eq!(mutex.into_inner(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Returns the value.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Mutex;
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
        self.semaphore.release_all(1);
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

/// The error of `try_lock`, `try_read` and `try_write`: the lock is taken.
///
/// # Examples
///
/// ```
/// use blitzen::sync::Mutex;
/// let mutex = Mutex::new(1);
/// let _guard = mutex.try_lock()?;
/// assert_eq!(mutex.try_lock().unwrap_err().to_string(), "operation would block");
/// # Ok::<(), blitzen::sync::TryLockError>(())
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
    const WAIT: WaitKind = WaitKind::Mutex;
    const SOURCE: &'static str = "Mutex::lock";
    const NOTES_OWNER: bool = true;
    type Output = MutexGuard<'a, T>;

    #[inline(always)]
    fn semaphore(&self) -> &BatchSemaphore {
        &self.0.semaphore
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
    const WAIT: WaitKind = WaitKind::Mutex;
    const SOURCE: &'static str = "Mutex::lock_owned";
    type Output = OwnedMutexGuard<T>;

    #[inline(always)]
    fn semaphore(&self) -> &BatchSemaphore {
        &self.0.semaphore
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
