//! The guards of a writer.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use super::{RwLock, RwLockReadGuard};
use crate::batch_semaphore::BatchSemaphore;

/// A write guard of an [`RwLock`], which unlocks it when dropped.
///
/// # Examples
///
/// ```
/// use blitzen::sync::RwLock;
/// let lock = RwLock::new(5);
/// let mut guard = lock.try_write()?;
/// *guard += 1;
/// assert_eq!(*guard, 6);
/// # Ok::<(), blitzen::sync::TryLockError>(())
/// ```
#[must_use = "the lock is released at once if this is not held"]
#[clippy::has_significant_drop]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    /// W1: all of its permits are this guard's.
    lock: &'a RwLock<T>,
    lends: PhantomData<&'a mut T>,
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// For the holder of all permits.
    #[inline(always)]
    pub(super) fn new(lock: &'a RwLock<T>) -> Self {
        Self {
            lock,
            lends: PhantomData,
        }
    }

    /// The lock, still held for writing.
    fn into_locked(self) -> &'a RwLock<T> {
        ManuallyDrop::new(self).lock
    }

    /// Turns a write guard into a read guard atomically: no other task can write in
    /// between.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::RwLock;
    /// let lock = RwLock::new(5);
    /// let mut writer = lock.try_write()?;
    /// *writer = 6;
    /// let reader = writer.downgrade();
    /// assert_eq!((*reader, *lock.try_read()?), (6, 6));
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    pub fn downgrade(self) -> RwLockReadGuard<'a, T> {
        let lock = self.into_locked();
        let reader = RwLockReadGuard::new(&lock.semaphore, lock.value.get());
        lock.downgrade();
        reader
    }

    /// Turns a write guard into a read guard of a component of the value,
    /// atomically.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::{RwLock, RwLockWriteGuard};
    /// let lock = RwLock::new((1, "one"));
    /// let name = RwLockWriteGuard::downgrade_map(lock.try_write()?, |pair| &pair.1);
    /// assert_eq!(*name, "one");
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    pub fn downgrade_map<F, U: ?Sized>(this: Self, f: F) -> RwLockReadGuard<'a, U>
    where
        F: FnOnce(&T) -> &U,
    {
        let value: *const U = f(&*this);
        let lock = this.into_locked();
        let reader = RwLockReadGuard::new(&lock.semaphore, value);
        lock.downgrade();
        reader
    }

    /// Turns a write guard into a read guard of a component of the value,
    /// atomically, if `f` returns one.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::{RwLock, RwLockWriteGuard};
    /// let lock = RwLock::new(vec![1]);
    /// let writer =
    ///     RwLockWriteGuard::try_downgrade_map(lock.try_write()?, |list| list.get(5)).unwrap_err();
    /// let first = RwLockWriteGuard::try_downgrade_map(writer, |list| list.first()).unwrap();
    /// assert_eq!(*first, 1);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the write guard if `f` returns `None`.
    pub fn try_downgrade_map<F, U: ?Sized>(this: Self, f: F) -> Result<RwLockReadGuard<'a, U>, Self>
    where
        F: FnOnce(&T) -> Option<&U>,
    {
        let value: *const U = match f(&*this) {
            Some(value) => value,
            None => return Err(this),
        };
        let lock = this.into_locked();
        let reader = RwLockReadGuard::new(&lock.semaphore, value);
        lock.downgrade();
        Ok(reader)
    }

    /// Turns `this` into a mapped guard of the whole value.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::{RwLock, RwLockMappedWriteGuard, RwLockWriteGuard};
    /// let lock = RwLock::new(5);
    /// let guard: RwLockMappedWriteGuard<'_, i32> =
    ///     RwLockWriteGuard::into_mapped(lock.try_write()?);
    /// assert_eq!(*guard, 5);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    pub fn into_mapped(this: Self) -> RwLockMappedWriteGuard<'a, T> {
        Self::map(this, |value| value)
    }

    /// Makes a guard of a component of the locked value.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::{RwLock, RwLockWriteGuard};
    /// let lock = RwLock::new((1, "one"));
    /// *RwLockWriteGuard::map(lock.try_write()?, |pair| &mut pair.0) = 2;
    /// assert_eq!(*lock.try_read()?, (2, "one"));
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    pub fn map<F, U: ?Sized>(mut this: Self, f: F) -> RwLockMappedWriteGuard<'a, U>
    where
        F: FnOnce(&mut T) -> &mut U,
    {
        let value: *mut U = f(&mut *this);
        let lock = this.into_locked();
        RwLockMappedWriteGuard::new(&lock.semaphore, lock.max_readers, value)
    }

    /// Makes a guard of a component of the locked value, if `f` returns one.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::{RwLock, RwLockWriteGuard};
    /// let lock = RwLock::new(vec![1]);
    /// let guard = RwLockWriteGuard::try_map(lock.try_write()?, |list| list.get_mut(5)).unwrap_err();
    /// *RwLockWriteGuard::try_map(guard, |list| list.first_mut()).unwrap() = 2;
    /// assert_eq!(*lock.try_read()?, [2]);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the guard if `f` returns `None`.
    pub fn try_map<F, U: ?Sized>(
        mut this: Self,
        f: F,
    ) -> Result<RwLockMappedWriteGuard<'a, U>, Self>
    where
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        let value: *mut U = match f(&mut *this) {
            Some(value) => value,
            None => return Err(this),
        };
        let lock = this.into_locked();
        Ok(RwLockMappedWriteGuard::new(
            &lock.semaphore,
            lock.max_readers,
            value,
        ))
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.unlock_write();
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: W1, nobody else reaches the value.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: W1, and `&mut self` excludes other uses of this guard.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A write guard of a component of the value of an [`RwLock`], created by
/// [`RwLockWriteGuard::map`].
///
/// # Examples
///
/// ```
/// use blitzen::sync::{RwLock, RwLockMappedWriteGuard, RwLockWriteGuard};
/// let lock = RwLock::new((1, "one"));
/// let mut number: RwLockMappedWriteGuard<'_, i32> =
///     RwLockWriteGuard::map(lock.try_write()?, |pair| &mut pair.0);
/// *number = 2;
/// # Ok::<(), blitzen::sync::TryLockError>(())
/// ```
#[clippy::has_significant_drop]
pub struct RwLockMappedWriteGuard<'a, T: ?Sized> {
    /// W1: all of its permits are this guard's, and guard what `value` points
    /// to.
    semaphore: &'a BatchSemaphore,
    writer_permits: u32,
    value: *mut T,
    lends: PhantomData<&'a mut T>,
}

// SAFETY: the guard is a `&mut T` with a release, which any thread may do.
unsafe impl<T: ?Sized + Send + Sync> Send for RwLockMappedWriteGuard<'_, T> {}
// SAFETY: through `&guard` only `&T` can be had.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLockMappedWriteGuard<'_, T> {}

impl<'a, T: ?Sized> RwLockMappedWriteGuard<'a, T> {
    /// For the holder of all permits.
    fn new(semaphore: &'a BatchSemaphore, writer_permits: u32, value: *mut T) -> Self {
        Self {
            semaphore,
            writer_permits,
            value,
            lends: PhantomData,
        }
    }

    /// Makes a guard of a component of the locked value.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::{RwLock, RwLockMappedWriteGuard, RwLockWriteGuard};
    /// let lock = RwLock::new((1, [2, 3]));
    /// let pair = RwLockWriteGuard::map(lock.try_write()?, |value| &mut value.1);
    /// *RwLockMappedWriteGuard::map(pair, |pair| &mut pair[0]) = 9;
    /// assert_eq!(lock.try_read()?.1, [9, 3]);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    pub fn map<F, U: ?Sized>(mut this: Self, f: F) -> RwLockMappedWriteGuard<'a, U>
    where
        F: FnOnce(&mut T) -> &mut U,
    {
        let value: *mut U = f(&mut *this);
        let this = ManuallyDrop::new(this);
        RwLockMappedWriteGuard::new(this.semaphore, this.writer_permits, value)
    }

    /// Makes a guard of a component of the locked value, if `f` returns one.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::{RwLock, RwLockMappedWriteGuard, RwLockWriteGuard};
    /// let lock = RwLock::new((1, vec![2]));
    /// let list = RwLockWriteGuard::map(lock.try_write()?, |value| &mut value.1);
    /// let list = RwLockMappedWriteGuard::try_map(list, |list| list.get_mut(9)).unwrap_err();
    /// assert_eq!(*list, [2]);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the guard if `f` returns `None`.
    pub fn try_map<F, U: ?Sized>(
        mut this: Self,
        f: F,
    ) -> Result<RwLockMappedWriteGuard<'a, U>, Self>
    where
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        let value: *mut U = match f(&mut *this) {
            Some(value) => value,
            None => return Err(this),
        };
        let this = ManuallyDrop::new(this);
        Ok(RwLockMappedWriteGuard::new(
            this.semaphore,
            this.writer_permits,
            value,
        ))
    }
}

impl<T: ?Sized> Drop for RwLockMappedWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.release_all(self.writer_permits as usize);
    }
}

impl<T: ?Sized> Deref for RwLockMappedWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: W1, nobody else reaches the value.
        unsafe { &*self.value }
    }
}

impl<T: ?Sized> DerefMut for RwLockMappedWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: W1, and `&mut self` excludes other uses of this guard.
        unsafe { &mut *self.value }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockMappedWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockMappedWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
