//! The guards of a writer that keep their lock alive.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::{OwnedRwLockReadGuard, RwLock};

/// A write guard that owns an `Arc` of its [`RwLock`], and unlocks it when dropped.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use blitzen::sync::RwLock;
/// let lock = Arc::new(RwLock::new(5));
/// let mut guard = lock.clone().try_write_owned()?;
/// std::thread::spawn(move || *guard = 6).join().unwrap();
/// assert_eq!(*lock.try_read()?, 6);
/// # Ok::<(), blitzen::sync::TryLockError>(())
/// ```
#[clippy::has_significant_drop]
pub struct OwnedRwLockWriteGuard<T: ?Sized> {
    /// W1: all of its permits are this guard's.
    lock: Arc<RwLock<T>>,
    /// Shared between threads like the value it lends.
    lends: PhantomData<Box<T>>,
}

impl<T: ?Sized> OwnedRwLockWriteGuard<T> {
    /// For the holder of all permits.
    #[inline(always)]
    pub(super) fn new(lock: Arc<RwLock<T>>) -> Self {
        Self {
            lock,
            lends: PhantomData,
        }
    }

    /// The lock, still held for writing.
    fn into_locked(self) -> Arc<RwLock<T>> {
        let this = ManuallyDrop::new(self);
        // SAFETY: read once, and `this` is not dropped.
        unsafe { std::ptr::read(&this.lock) }
    }

    /// Turns a write guard into a read guard atomically: no other task can write in
    /// between.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::RwLock;
    /// let lock = Arc::new(RwLock::new(5));
    /// let reader = lock.clone().try_write_owned()?.downgrade();
    /// assert_eq!((*reader, *lock.try_read()?), (5, 5));
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    pub fn downgrade(self) -> OwnedRwLockReadGuard<T> {
        let reader = OwnedRwLockReadGuard::new(self.into_locked());
        OwnedRwLockReadGuard::rwlock(&reader).downgrade();
        reader
    }

    /// Turns a write guard into a read guard of a component of the value,
    /// atomically.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::{OwnedRwLockWriteGuard, RwLock};
    /// let guard = Arc::new(RwLock::new((1, "one"))).try_write_owned()?;
    /// let name = OwnedRwLockWriteGuard::downgrade_map(guard, |pair| &pair.1);
    /// assert_eq!(*name, "one");
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    pub fn downgrade_map<F, U: ?Sized>(this: Self, f: F) -> OwnedRwLockReadGuard<T, U>
    where
        F: FnOnce(&T) -> &U,
    {
        let value: *const U = f(&*this);
        let reader = OwnedRwLockReadGuard::from_part(this.into_locked(), value);
        OwnedRwLockReadGuard::rwlock(&reader).downgrade();
        reader
    }

    /// Turns a write guard into a read guard of a component of the value,
    /// atomically, if `f` returns one.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::{OwnedRwLockWriteGuard, RwLock};
    /// let guard = Arc::new(RwLock::new(vec![1])).try_write_owned()?;
    /// let guard = OwnedRwLockWriteGuard::try_downgrade_map(guard, |list| list.get(5)).unwrap_err();
    /// let first = OwnedRwLockWriteGuard::try_downgrade_map(guard, |list| list.first()).unwrap();
    /// assert_eq!(*first, 1);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the write guard if `f` returns `None`.
    pub fn try_downgrade_map<F, U: ?Sized>(
        this: Self,
        f: F,
    ) -> Result<OwnedRwLockReadGuard<T, U>, Self>
    where
        F: FnOnce(&T) -> Option<&U>,
    {
        let value: *const U = match f(&*this) {
            Some(value) => value,
            None => return Err(this),
        };
        let reader = OwnedRwLockReadGuard::from_part(this.into_locked(), value);
        OwnedRwLockReadGuard::rwlock(&reader).downgrade();
        Ok(reader)
    }

    /// Turns `this` into a mapped guard of the whole value.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::{OwnedRwLockMappedWriteGuard, OwnedRwLockWriteGuard, RwLock};
    /// let guard = Arc::new(RwLock::new(5)).try_write_owned()?;
    /// let mapped: OwnedRwLockMappedWriteGuard<i32> = OwnedRwLockWriteGuard::into_mapped(guard);
    /// assert_eq!(*mapped, 5);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    pub fn into_mapped(this: Self) -> OwnedRwLockMappedWriteGuard<T> {
        Self::map(this, |value| value)
    }

    /// Makes a guard of a component of the locked value.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::{OwnedRwLockWriteGuard, RwLock};
    /// let lock = Arc::new(RwLock::new((1, "one")));
    /// *OwnedRwLockWriteGuard::map(lock.clone().try_write_owned()?, |pair| &mut pair.0) = 2;
    /// assert_eq!(*lock.try_read()?, (2, "one"));
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    pub fn map<F, U: ?Sized>(mut this: Self, f: F) -> OwnedRwLockMappedWriteGuard<T, U>
    where
        F: FnOnce(&mut T) -> &mut U,
    {
        let value: *mut U = f(&mut *this);
        OwnedRwLockMappedWriteGuard {
            value,
            lock: this.into_locked(),
        }
    }

    /// Makes a guard of a component of the locked value, if `f` returns one.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::{OwnedRwLockWriteGuard, RwLock};
    /// let guard = Arc::new(RwLock::new(vec![1])).try_write_owned()?;
    /// let guard = OwnedRwLockWriteGuard::try_map(guard, |list| list.get_mut(5)).unwrap_err();
    /// assert_eq!(*guard, [1]);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the guard if `f` returns `None`.
    pub fn try_map<F, U: ?Sized>(
        mut this: Self,
        f: F,
    ) -> Result<OwnedRwLockMappedWriteGuard<T, U>, Self>
    where
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        let value: *mut U = match f(&mut *this) {
            Some(value) => value,
            None => return Err(this),
        };
        Ok(OwnedRwLockMappedWriteGuard {
            value,
            lock: this.into_locked(),
        })
    }

    /// Returns the lock of `this`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::{OwnedRwLockWriteGuard, RwLock};
    /// let lock = Arc::new(RwLock::new(5));
    /// let guard = lock.clone().try_write_owned()?;
    /// assert!(Arc::ptr_eq(OwnedRwLockWriteGuard::rwlock(&guard), &lock));
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T>> {
        &this.lock
    }
}

impl<T: ?Sized> Drop for OwnedRwLockWriteGuard<T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.unlock_write();
    }
}

impl<T: ?Sized> Deref for OwnedRwLockWriteGuard<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: W1, nobody else reaches the value.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for OwnedRwLockWriteGuard<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: W1, and `&mut self` excludes other uses of this guard.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for OwnedRwLockWriteGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for OwnedRwLockWriteGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A write guard of a component of the value of an [`RwLock`], of which it owns an
/// `Arc`; created by [`OwnedRwLockWriteGuard::map`].
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use blitzen::sync::{OwnedRwLockMappedWriteGuard, OwnedRwLockWriteGuard, RwLock};
/// let guard = Arc::new(RwLock::new((1, "one"))).try_write_owned()?;
/// let mut number: OwnedRwLockMappedWriteGuard<(i32, &str), i32> =
///     OwnedRwLockWriteGuard::map(guard, |pair| &mut pair.0);
/// *number = 2;
/// # Ok::<(), blitzen::sync::TryLockError>(())
/// ```
#[clippy::has_significant_drop]
pub struct OwnedRwLockMappedWriteGuard<T: ?Sized, U: ?Sized = T> {
    /// Points into the lock below, and so stays valid as long as it.
    value: *mut U,
    /// W1: all of its permits are this guard's.
    lock: Arc<RwLock<T>>,
}

// SAFETY: the guard is a `&mut U` with a release, which any thread may do; the
// `T` goes along since its last owner may be dropped with it.
unsafe impl<T, U> Send for OwnedRwLockMappedWriteGuard<T, U>
where
    T: ?Sized + Send + Sync,
    U: ?Sized + Send + Sync,
{
}
// SAFETY: through `&guard` only `&U` can be had.
unsafe impl<T, U> Sync for OwnedRwLockMappedWriteGuard<T, U>
where
    T: ?Sized + Send + Sync,
    U: ?Sized + Send + Sync,
{
}

impl<T: ?Sized, U: ?Sized> OwnedRwLockMappedWriteGuard<T, U> {
    /// The lock, still held for writing.
    fn into_locked(self) -> Arc<RwLock<T>> {
        let this = ManuallyDrop::new(self);
        // SAFETY: read once, and `this` is not dropped.
        unsafe { std::ptr::read(&this.lock) }
    }

    /// Makes a guard of a component of the locked value.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::{OwnedRwLockMappedWriteGuard, OwnedRwLockWriteGuard, RwLock};
    /// let guard = Arc::new(RwLock::new((1, [2, 3]))).try_write_owned()?;
    /// let pair = OwnedRwLockWriteGuard::map(guard, |value| &mut value.1);
    /// let last = OwnedRwLockMappedWriteGuard::map(pair, |pair| &mut pair[1]);
    /// assert_eq!(*last, 3);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    pub fn map<F, V: ?Sized>(mut this: Self, f: F) -> OwnedRwLockMappedWriteGuard<T, V>
    where
        F: FnOnce(&mut U) -> &mut V,
    {
        let value: *mut V = f(&mut *this);
        OwnedRwLockMappedWriteGuard {
            value,
            lock: this.into_locked(),
        }
    }

    /// Makes a guard of a component of the locked value, if `f` returns one.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::{OwnedRwLockMappedWriteGuard, OwnedRwLockWriteGuard, RwLock};
    /// let guard = Arc::new(RwLock::new((1, vec![2]))).try_write_owned()?;
    /// let list = OwnedRwLockWriteGuard::map(guard, |value| &mut value.1);
    /// let list = OwnedRwLockMappedWriteGuard::try_map(list, |list| list.get_mut(9)).unwrap_err();
    /// assert_eq!(*list, [2]);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the guard if `f` returns `None`.
    pub fn try_map<F, V: ?Sized>(
        mut this: Self,
        f: F,
    ) -> Result<OwnedRwLockMappedWriteGuard<T, V>, Self>
    where
        F: FnOnce(&mut U) -> Option<&mut V>,
    {
        let value: *mut V = match f(&mut *this) {
            Some(value) => value,
            None => return Err(this),
        };
        Ok(OwnedRwLockMappedWriteGuard {
            value,
            lock: this.into_locked(),
        })
    }

    /// Returns the lock of `this`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::{OwnedRwLockMappedWriteGuard, OwnedRwLockWriteGuard, RwLock};
    /// let lock = Arc::new(RwLock::new(5));
    /// let guard = OwnedRwLockWriteGuard::into_mapped(lock.clone().try_write_owned()?);
    /// assert!(Arc::ptr_eq(OwnedRwLockMappedWriteGuard::rwlock(&guard), &lock));
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T>> {
        &this.lock
    }
}

impl<T: ?Sized, U: ?Sized> Drop for OwnedRwLockMappedWriteGuard<T, U> {
    #[inline]
    fn drop(&mut self) {
        self.lock.unlock_write();
    }
}

impl<T: ?Sized, U: ?Sized> Deref for OwnedRwLockMappedWriteGuard<T, U> {
    type Target = U;

    #[inline]
    fn deref(&self) -> &U {
        // SAFETY: W1, nobody else reaches the value.
        unsafe { &*self.value }
    }
}

impl<T: ?Sized, U: ?Sized> DerefMut for OwnedRwLockMappedWriteGuard<T, U> {
    #[inline]
    fn deref_mut(&mut self) -> &mut U {
        // SAFETY: W1, and `&mut self` excludes other uses of this guard.
        unsafe { &mut *self.value }
    }
}

impl<T: ?Sized, U: ?Sized + fmt::Debug> fmt::Debug for OwnedRwLockMappedWriteGuard<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized, U: ?Sized + fmt::Display> fmt::Display for OwnedRwLockMappedWriteGuard<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
