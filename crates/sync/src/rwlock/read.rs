//! The guard of a reader.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;

use crate::batch_semaphore::BatchSemaphore;

/// A read guard of an [`RwLock`](crate::RwLock), which unlocks it when dropped.
///
/// # Examples
///
/// ```
/// use blitzen::sync::RwLock;
/// let lock = RwLock::new(5);
/// let guard = lock.try_read()?;
/// assert_eq!(*guard, 5);
/// # Ok::<(), blitzen::sync::TryLockError>(())
/// ```
#[must_use = "the lock is released at once if this is not held"]
#[clippy::has_significant_drop]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    /// R1: one of its permits is this guard's, and while it is, nobody changes
    /// what `value` points to.
    semaphore: &'a BatchSemaphore,
    value: *const T,
    lends: PhantomData<&'a T>,
}

// SAFETY: the guard is a `&T` with a release, which any thread may do.
unsafe impl<T: ?Sized + Sync> Send for RwLockReadGuard<'_, T> {}
// SAFETY: through `&guard` only `&T` can be had.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLockReadGuard<'_, T> {}

impl<'a, T: ?Sized> RwLockReadGuard<'a, T> {
    /// For the holder of one permit.
    #[inline(always)]
    pub(super) fn new(semaphore: &'a BatchSemaphore, value: *const T) -> Self {
        Self {
            semaphore,
            value,
            lends: PhantomData,
        }
    }

    /// Makes a guard of a component of the locked value.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::{RwLock, RwLockReadGuard};
    /// let lock = RwLock::new((1, "one"));
    /// let number = RwLockReadGuard::map(lock.try_read()?, |pair| &pair.0);
    /// assert_eq!(*number, 1);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    pub fn map<F, U: ?Sized>(this: Self, f: F) -> RwLockReadGuard<'a, U>
    where
        F: FnOnce(&T) -> &U,
    {
        let value: *const U = f(&*this);
        let this = ManuallyDrop::new(this);
        RwLockReadGuard::new(this.semaphore, value)
    }

    /// Makes a guard of a component of the locked value, if `f` returns one.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::{RwLock, RwLockReadGuard};
    /// let lock = RwLock::new(vec![1]);
    /// let guard = RwLockReadGuard::try_map(lock.try_read()?, |list| list.get(5)).unwrap_err();
    /// let first = RwLockReadGuard::try_map(guard, |list| list.first()).unwrap();
    /// assert_eq!(*first, 1);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the guard if `f` returns `None`.
    pub fn try_map<F, U: ?Sized>(this: Self, f: F) -> Result<RwLockReadGuard<'a, U>, Self>
    where
        F: FnOnce(&T) -> Option<&U>,
    {
        let value: *const U = match f(&*this) {
            Some(value) => value,
            None => return Err(this),
        };
        let this = ManuallyDrop::new(this);
        Ok(RwLockReadGuard::new(this.semaphore, value))
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.release(1);
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: R1.
        unsafe { &*self.value }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
