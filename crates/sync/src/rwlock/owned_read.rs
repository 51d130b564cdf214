//! The guard of a reader that keeps its lock alive.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

use super::RwLock;

/// A read guard that owns an `Arc` of its [`RwLock`], and unlocks it when dropped.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use blitzen::sync::RwLock;
/// let lock = Arc::new(RwLock::new(5));
/// let guard = lock.clone().try_read_owned()?;
/// std::thread::spawn(move || assert_eq!(*guard, 5)).join().unwrap();
/// # Ok::<(), blitzen::sync::TryLockError>(())
/// ```
#[clippy::has_significant_drop]
pub struct OwnedRwLockReadGuard<T: ?Sized, U: ?Sized = T> {
    /// Points into the lock below, and so stays valid as long as it.
    value: *const U,
    /// R1: one of its permits is this guard's, and while it is, nobody changes
    /// what `value` points to.
    lock: Arc<RwLock<T>>,
}

// SAFETY: the guard is a `&U` with a release, which any thread may do; the `T`
// goes along since its last owner may be dropped with it.
unsafe impl<T, U> Send for OwnedRwLockReadGuard<T, U>
where
    T: ?Sized + Send + Sync,
    U: ?Sized + Sync,
{
}
// SAFETY: through `&guard` only `&U` can be had.
unsafe impl<T, U> Sync for OwnedRwLockReadGuard<T, U>
where
    T: ?Sized + Send + Sync,
    U: ?Sized + Send + Sync,
{
}

impl<T: ?Sized> OwnedRwLockReadGuard<T> {
    /// For the holder of one permit.
    #[inline(always)]
    pub(super) fn new(lock: Arc<RwLock<T>>) -> Self {
        Self {
            value: lock.value.get(),
            lock,
        }
    }
}

impl<T: ?Sized, U: ?Sized> OwnedRwLockReadGuard<T, U> {
    /// For the holder of one permit, and a part of the value.
    pub(super) fn from_part(lock: Arc<RwLock<T>>, value: *const U) -> Self {
        Self { value, lock }
    }

    /// The lock, still held for reading.
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
    /// use blitzen::sync::{OwnedRwLockReadGuard, RwLock};
    /// let guard = Arc::new(RwLock::new((1, "one"))).try_read_owned()?;
    /// let number = OwnedRwLockReadGuard::map(guard, |pair| &pair.0);
    /// assert_eq!(*number, 1);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    pub fn map<F, V: ?Sized>(this: Self, f: F) -> OwnedRwLockReadGuard<T, V>
    where
        F: FnOnce(&U) -> &V,
    {
        let value: *const V = f(&*this);
        OwnedRwLockReadGuard::from_part(this.into_locked(), value)
    }

    /// Makes a guard of a component of the locked value, if `f` returns one.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::{OwnedRwLockReadGuard, RwLock};
    /// let guard = Arc::new(RwLock::new(vec![1])).try_read_owned()?;
    /// let guard = OwnedRwLockReadGuard::try_map(guard, |list| list.get(5)).unwrap_err();
    /// let first = OwnedRwLockReadGuard::try_map(guard, |list| list.first()).unwrap();
    /// assert_eq!(*first, 1);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the guard if `f` returns `None`.
    pub fn try_map<F, V: ?Sized>(this: Self, f: F) -> Result<OwnedRwLockReadGuard<T, V>, Self>
    where
        F: FnOnce(&U) -> Option<&V>,
    {
        let value: *const V = match f(&*this) {
            Some(value) => value,
            None => return Err(this),
        };
        Ok(OwnedRwLockReadGuard::from_part(this.into_locked(), value))
    }

    /// Returns the lock of `this`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::{OwnedRwLockReadGuard, RwLock};
    /// let lock = Arc::new(RwLock::new(5));
    /// let guard = lock.clone().try_read_owned()?;
    /// assert!(Arc::ptr_eq(OwnedRwLockReadGuard::rwlock(&guard), &lock));
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T>> {
        &this.lock
    }
}

impl<T: ?Sized, U: ?Sized> Drop for OwnedRwLockReadGuard<T, U> {
    #[inline]
    fn drop(&mut self) {
        self.lock.semaphore.release(1);
    }
}

impl<T: ?Sized, U: ?Sized> Deref for OwnedRwLockReadGuard<T, U> {
    type Target = U;

    #[inline]
    fn deref(&self) -> &U {
        // SAFETY: R1.
        unsafe { &*self.value }
    }
}

impl<T: ?Sized, U: ?Sized + fmt::Debug> fmt::Debug for OwnedRwLockReadGuard<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized, U: ?Sized + fmt::Display> fmt::Display for OwnedRwLockReadGuard<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
