//! Guards that borrow their mutex.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use super::Mutex;
use crate::batch_semaphore::BatchSemaphore;

/// A guard of a [`Mutex`], which unlocks it when dropped.
///
/// # Examples
///
/// ```
/// use blitzen::sync::Mutex;
/// let mutex = Mutex::new(vec![1]);
/// let mut guard = mutex.try_lock()?;
/// guard.push(2);
/// assert_eq!(*guard, [1, 2]);
/// # Ok::<(), blitzen::sync::TryLockError>(())
/// ```
#[must_use = "the mutex unlocks at once if this is not held"]
#[clippy::has_significant_drop]
pub struct MutexGuard<'a, T: ?Sized> {
    /// G1: its single permit is this guard's.
    mutex: &'a Mutex<T>,
    /// Shared between threads like the value it lends.
    lends: PhantomData<&'a mut T>,
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// For the holder of the permit.
    #[inline(always)]
    pub(super) fn new(mutex: &'a Mutex<T>) -> Self {
        Self {
            mutex,
            lends: PhantomData,
        }
    }

    /// Makes a guard of a component of the locked value.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::{Mutex, MutexGuard};
    /// let mutex = Mutex::new((1, "one"));
    /// let mut number = MutexGuard::map(mutex.try_lock()?, |pair| &mut pair.0);
    /// *number = 2;
    /// drop(number);
    /// assert_eq!(*mutex.try_lock()?, (2, "one"));
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    pub fn map<U, F>(mut this: Self, f: F) -> MappedMutexGuard<'a, U>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> &mut U,
    {
        let value: *mut U = f(&mut *this);
        let this = ManuallyDrop::new(this);
        MappedMutexGuard::new(&this.mutex.semaphore, value)
    }

    /// Makes a guard of a component of the locked value, if `f` returns one.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::{Mutex, MutexGuard};
    /// let mutex = Mutex::new(vec![1]);
    /// let guard = MutexGuard::try_map(mutex.try_lock()?, |list| list.get_mut(5)).unwrap_err();
    /// let first = MutexGuard::try_map(guard, |list| list.first_mut()).unwrap();
    /// assert_eq!(*first, 1);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the guard if `f` returns `None`.
    pub fn try_map<U, F>(mut this: Self, f: F) -> Result<MappedMutexGuard<'a, U>, Self>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        let value: *mut U = match f(&mut *this) {
            Some(value) => value,
            None => return Err(this),
        };
        let this = ManuallyDrop::new(this);
        Ok(MappedMutexGuard::new(&this.mutex.semaphore, value))
    }

    /// Returns the mutex of `this`.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::{Mutex, MutexGuard};
    /// # futures::executor::block_on(async {
    /// let mutex = Mutex::new(1);
    /// let guard = mutex.lock().await;
    /// let same = MutexGuard::mutex(&guard);
    /// drop(guard);
    /// assert_eq!(*same.lock().await, 1);
    /// # });
    /// ```
    pub fn mutex(this: &Self) -> &'a Mutex<T> {
        this.mutex
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.unlock();
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: G1, nobody else reaches the value.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: G1, and `&mut self` excludes other uses of this guard.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A guard of a component of the value of a [`Mutex`], created by
/// [`MutexGuard::map`].
///
/// # Examples
///
/// ```
/// use blitzen::sync::{MappedMutexGuard, Mutex, MutexGuard};
/// let mutex = Mutex::new((1, [2, 3]));
/// let guard: MappedMutexGuard<'_, [i32; 2]> =
///     MutexGuard::map(mutex.try_lock()?, |value| &mut value.1);
/// assert_eq!(*guard, [2, 3]);
/// # Ok::<(), blitzen::sync::TryLockError>(())
/// ```
#[must_use = "the mutex unlocks at once if this is not held"]
#[clippy::has_significant_drop]
pub struct MappedMutexGuard<'a, T: ?Sized> {
    /// G1: its single permit is this guard's, and guards what `value` points to.
    semaphore: &'a BatchSemaphore,
    value: *mut T,
    lends: PhantomData<&'a mut T>,
}

// SAFETY: the guard is a `&mut T` with an unlock; any thread may unlock.
unsafe impl<'a, T: ?Sized + Send + 'a> Send for MappedMutexGuard<'a, T> {}
// SAFETY: through `&guard` only `&T` can be had.
unsafe impl<'a, T: ?Sized + Sync + 'a> Sync for MappedMutexGuard<'a, T> {}

impl<'a, T: ?Sized> MappedMutexGuard<'a, T> {
    /// For the holder of the permit.
    fn new(semaphore: &'a BatchSemaphore, value: *mut T) -> Self {
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
    /// use blitzen::sync::{MappedMutexGuard, Mutex, MutexGuard};
    /// let mutex = Mutex::new((1, [2, 3]));
    /// let pair = MutexGuard::map(mutex.try_lock()?, |value| &mut value.1);
    /// let last = MappedMutexGuard::map(pair, |pair| &mut pair[1]);
    /// assert_eq!(*last, 3);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    pub fn map<U, F>(mut this: Self, f: F) -> MappedMutexGuard<'a, U>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> &mut U,
    {
        let value: *mut U = f(&mut *this);
        let this = ManuallyDrop::new(this);
        MappedMutexGuard::new(this.semaphore, value)
    }

    /// Makes a guard of a component of the locked value, if `f` returns one.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::{MappedMutexGuard, Mutex, MutexGuard};
    /// let mutex = Mutex::new((1, vec![2]));
    /// let list = MutexGuard::map(mutex.try_lock()?, |value| &mut value.1);
    /// let list = MappedMutexGuard::try_map(list, |list| list.get_mut(9)).unwrap_err();
    /// assert_eq!(*list, [2]);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the guard if `f` returns `None`.
    pub fn try_map<U, F>(mut this: Self, f: F) -> Result<MappedMutexGuard<'a, U>, Self>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        let value: *mut U = match f(&mut *this) {
            Some(value) => value,
            None => return Err(this),
        };
        let this = ManuallyDrop::new(this);
        Ok(MappedMutexGuard::new(this.semaphore, value))
    }
}

impl<T: ?Sized> Drop for MappedMutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.release_all(1);
    }
}

impl<T: ?Sized> Deref for MappedMutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: G1, nobody else reaches the value.
        unsafe { &*self.value }
    }
}

impl<T: ?Sized> DerefMut for MappedMutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: G1, and `&mut self` excludes other uses of this guard.
        unsafe { &mut *self.value }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MappedMutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MappedMutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
