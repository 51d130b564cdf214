//! Guards that keep their mutex alive.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::Mutex;

/// A guard that owns an `Arc` of its [`Mutex`], and unlocks it when dropped.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use blitzen::sync::Mutex;
/// let mutex = Arc::new(Mutex::new(1));
/// let mut guard = mutex.clone().try_lock_owned()?;
/// std::thread::spawn(move || *guard = 2).join().unwrap();
/// assert_eq!(*mutex.try_lock()?, 2);
/// # Ok::<(), blitzen::sync::TryLockError>(())
/// ```
#[clippy::has_significant_drop]
pub struct OwnedMutexGuard<T: ?Sized> {
    /// G1: its single permit is this guard's.
    mutex: Arc<Mutex<T>>,
    /// Shared between threads like the value it lends.
    lends: PhantomData<Box<T>>,
}

impl<T: ?Sized> OwnedMutexGuard<T> {
    /// For the holder of the permit.
    #[inline(always)]
    pub(super) fn new(mutex: Arc<Mutex<T>>) -> Self {
        Self {
            mutex,
            lends: PhantomData,
        }
    }

    /// The mutex, still locked.
    fn into_locked(self) -> Arc<Mutex<T>> {
        let this = ManuallyDrop::new(self);
        // SAFETY: read once, and `this` is not dropped.
        unsafe { std::ptr::read(&this.mutex) }
    }

    /// Makes a guard of a component of the locked value.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::{Mutex, OwnedMutexGuard};
    /// let mutex = Arc::new(Mutex::new((1, "one")));
    /// let mut number = OwnedMutexGuard::map(mutex.clone().try_lock_owned()?, |pair| &mut pair.0);
    /// *number = 2;
    /// drop(number);
    /// assert_eq!(*mutex.try_lock()?, (2, "one"));
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    pub fn map<U, F>(mut this: Self, f: F) -> OwnedMappedMutexGuard<T, U>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> &mut U,
    {
        let value: *mut U = f(&mut *this);
        OwnedMappedMutexGuard {
            value,
            mutex: this.into_locked(),
        }
    }

    /// Makes a guard of a component of the locked value, if `f` returns one.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::{Mutex, OwnedMutexGuard};
    /// let guard = Arc::new(Mutex::new(vec![1])).try_lock_owned()?;
    /// let guard = OwnedMutexGuard::try_map(guard, |list| list.get_mut(5)).unwrap_err();
    /// let first = OwnedMutexGuard::try_map(guard, |list| list.first_mut()).unwrap();
    /// assert_eq!(*first, 1);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the guard if `f` returns `None`.
    pub fn try_map<U, F>(mut this: Self, f: F) -> Result<OwnedMappedMutexGuard<T, U>, Self>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        let value: *mut U = match f(&mut *this) {
            Some(value) => value,
            None => return Err(this),
        };
        Ok(OwnedMappedMutexGuard {
            value,
            mutex: this.into_locked(),
        })
    }

    /// Returns the mutex of `this`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::{Mutex, OwnedMutexGuard};
    /// let mutex = Arc::new(Mutex::new(1));
    /// let guard = mutex.clone().try_lock_owned()?;
    /// assert!(Arc::ptr_eq(OwnedMutexGuard::mutex(&guard), &mutex));
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    pub fn mutex(this: &Self) -> &Arc<Mutex<T>> {
        &this.mutex
    }
}

impl<T: ?Sized> Drop for OwnedMutexGuard<T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.unlock();
    }
}

impl<T: ?Sized> Deref for OwnedMutexGuard<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: G1, nobody else reaches the value.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for OwnedMutexGuard<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: G1, and `&mut self` excludes other uses of this guard.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for OwnedMutexGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for OwnedMutexGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A guard of a component of the value of a [`Mutex`], of which it owns an `Arc`;
/// created by [`OwnedMutexGuard::map`].
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use blitzen::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard};
/// let guard = Arc::new(Mutex::new((1, "one"))).try_lock_owned()?;
/// let number: OwnedMappedMutexGuard<(i32, &str), i32> =
///     OwnedMutexGuard::map(guard, |pair| &mut pair.0);
/// assert_eq!(*number, 1);
/// # Ok::<(), blitzen::sync::TryLockError>(())
/// ```
#[must_use = "the mutex unlocks at once if this is not held"]
#[clippy::has_significant_drop]
pub struct OwnedMappedMutexGuard<T: ?Sized, U: ?Sized = T> {
    /// Points into the mutex below, and so stays valid as long as it.
    value: *mut U,
    /// G1: its single permit is this guard's.
    mutex: Arc<Mutex<T>>,
}

// SAFETY: the guard is a `&mut U` with an unlock, which any thread may do; the
// `T` goes along since its last owner may be dropped with it.
unsafe impl<T: ?Sized + Send, U: ?Sized + Send> Send for OwnedMappedMutexGuard<T, U> {}
// SAFETY: through `&guard` only `&U` can be had.
unsafe impl<T, U> Sync for OwnedMappedMutexGuard<T, U>
where
    T: ?Sized + Send + Sync,
    U: ?Sized + Send + Sync,
{
}

impl<T: ?Sized, U: ?Sized> OwnedMappedMutexGuard<T, U> {
    /// The mutex, still locked.
    fn into_locked(self) -> Arc<Mutex<T>> {
        let this = ManuallyDrop::new(self);
        // SAFETY: read once, and `this` is not dropped.
        unsafe { std::ptr::read(&this.mutex) }
    }

    /// Makes a guard of a component of the locked value.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard};
    /// let guard = Arc::new(Mutex::new((1, [2, 3]))).try_lock_owned()?;
    /// let pair = OwnedMutexGuard::map(guard, |value| &mut value.1);
    /// let last = OwnedMappedMutexGuard::map(pair, |pair| &mut pair[1]);
    /// assert_eq!(*last, 3);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    pub fn map<S, F>(mut this: Self, f: F) -> OwnedMappedMutexGuard<T, S>
    where
        S: ?Sized,
        F: FnOnce(&mut U) -> &mut S,
    {
        let value: *mut S = f(&mut *this);
        OwnedMappedMutexGuard {
            value,
            mutex: this.into_locked(),
        }
    }

    /// Makes a guard of a component of the locked value, if `f` returns one.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard};
    /// let guard = Arc::new(Mutex::new((1, vec![2]))).try_lock_owned()?;
    /// let list = OwnedMutexGuard::map(guard, |value| &mut value.1);
    /// let list = OwnedMappedMutexGuard::try_map(list, |list| list.get_mut(9)).unwrap_err();
    /// assert_eq!(*list, [2]);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the guard if `f` returns `None`.
    pub fn try_map<S, F>(mut this: Self, f: F) -> Result<OwnedMappedMutexGuard<T, S>, Self>
    where
        S: ?Sized,
        F: FnOnce(&mut U) -> Option<&mut S>,
    {
        let value: *mut S = match f(&mut *this) {
            Some(value) => value,
            None => return Err(this),
        };
        Ok(OwnedMappedMutexGuard {
            value,
            mutex: this.into_locked(),
        })
    }
}

impl<T: ?Sized, U: ?Sized> Drop for OwnedMappedMutexGuard<T, U> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.unlock();
    }
}

impl<T: ?Sized, U: ?Sized> Deref for OwnedMappedMutexGuard<T, U> {
    type Target = U;

    #[inline]
    fn deref(&self) -> &U {
        // SAFETY: G1, nobody else reaches the value.
        unsafe { &*self.value }
    }
}

impl<T: ?Sized, U: ?Sized> DerefMut for OwnedMappedMutexGuard<T, U> {
    #[inline]
    fn deref_mut(&mut self) -> &mut U {
        // SAFETY: G1, and `&mut self` excludes other uses of this guard.
        unsafe { &mut *self.value }
    }
}

impl<T: ?Sized, U: ?Sized + fmt::Debug> fmt::Debug for OwnedMappedMutexGuard<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized, U: ?Sized + fmt::Display> fmt::Display for OwnedMappedMutexGuard<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
