//! Permits that were acquired: guards that return them.

use std::sync::Arc;

use super::Semaphore;

/// One or more permits of a [`Semaphore`], released when dropped.
///
/// # Examples
///
/// ```
/// use blitzen::sync::Semaphore;
/// let semaphore = Semaphore::new(2);
/// {
///     let _permit = semaphore.try_acquire()?;
///     assert_eq!(semaphore.available_permits(), 1);
/// }
/// assert_eq!(semaphore.available_permits(), 2);
/// # Ok::<(), blitzen::sync::TryAcquireError>(())
/// ```
#[must_use = "the permits go back at once if this is not held"]
#[clippy::has_significant_drop]
#[derive(Debug)]
pub struct SemaphorePermit<'a> {
    semaphore: &'a Semaphore,
    permits: usize,
}

impl<'a> SemaphorePermit<'a> {
    #[inline(always)]
    pub(super) fn new(semaphore: &'a Semaphore, permits: usize) -> Self {
        Self { semaphore, permits }
    }

    /// Forgets the permits: they are never returned to the semaphore.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Semaphore;
    /// let semaphore = Semaphore::new(1);
    /// semaphore.try_acquire()?.forget();
    /// assert_eq!(semaphore.available_permits(), 0);
    /// # Ok::<(), blitzen::sync::TryAcquireError>(())
    /// ```
    pub fn forget(mut self) {
        self.permits = 0;
    }

    /// Merges `other`, of the same semaphore, into this permit.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Semaphore;
    /// let semaphore = Semaphore::new(3);
    /// let mut permit = semaphore.try_acquire()?;
    /// permit.merge(semaphore.try_acquire_many(2)?);
    /// assert_eq!(permit.num_permits(), 3);
    /// # Ok::<(), blitzen::sync::TryAcquireError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the permits belong to different semaphores.
    #[track_caller]
    pub fn merge(&mut self, mut other: Self) {
        assert!(
            std::ptr::eq(self.semaphore, other.semaphore),
            "merging permits from different semaphore instances"
        );
        self.permits += std::mem::take(&mut other.permits);
    }

    /// Splits `n` permits off this one.
    ///
    /// Returns `None` if it has fewer.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Semaphore;
    /// let semaphore = Semaphore::new(3);
    /// let mut permit = semaphore.try_acquire_many(3)?;
    /// let part = permit.split(1).unwrap();
    /// assert_eq!((permit.num_permits(), part.num_permits()), (2, 1));
    /// assert!(permit.split(3).is_none());
    /// # Ok::<(), blitzen::sync::TryAcquireError>(())
    /// ```
    pub fn split(&mut self, n: usize) -> Option<Self> {
        self.permits = self.permits.checked_sub(n)?;
        Some(Self::new(self.semaphore, n))
    }

    /// Returns the number of permits that this holds.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Semaphore;
    /// let semaphore = Semaphore::new(3);
    /// assert_eq!(semaphore.try_acquire_many(2)?.num_permits(), 2);
    /// # Ok::<(), blitzen::sync::TryAcquireError>(())
    /// ```
    pub fn num_permits(&self) -> usize {
        self.permits
    }

    /// Returns the semaphore of these permits.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Semaphore;
    /// let semaphore = Semaphore::new(1);
    /// let permit = semaphore.try_acquire()?;
    /// assert!(std::ptr::eq(permit.semaphore(), &semaphore));
    /// # Ok::<(), blitzen::sync::TryAcquireError>(())
    /// ```
    pub fn semaphore(&self) -> &Semaphore {
        self.semaphore
    }
}

impl Drop for SemaphorePermit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.release(self.permits);
    }
}

/// One or more permits of a [`Semaphore`], of which this owns an `Arc`; released
/// when dropped.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use blitzen::sync::Semaphore;
/// let semaphore = Arc::new(Semaphore::new(1));
/// let permit = semaphore.clone().try_acquire_owned()?;
/// std::thread::spawn(move || drop(permit)).join().unwrap();
/// assert_eq!(semaphore.available_permits(), 1);
/// # Ok::<(), blitzen::sync::TryAcquireError>(())
/// ```
#[must_use = "the permits go back at once if this is not held"]
#[clippy::has_significant_drop]
#[derive(Debug)]
pub struct OwnedSemaphorePermit {
    semaphore: Arc<Semaphore>,
    permits: usize,
}

impl OwnedSemaphorePermit {
    #[inline(always)]
    pub(super) fn new(semaphore: Arc<Semaphore>, permits: usize) -> Self {
        Self { semaphore, permits }
    }

    /// Forgets the permits: they are never returned to the semaphore.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::Semaphore;
    /// let semaphore = Arc::new(Semaphore::new(1));
    /// semaphore.clone().try_acquire_owned()?.forget();
    /// assert_eq!(semaphore.available_permits(), 0);
    /// # Ok::<(), blitzen::sync::TryAcquireError>(())
    /// ```
    pub fn forget(mut self) {
        self.permits = 0;
    }

    /// Merges `other`, of the same semaphore, into this permit.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::Semaphore;
    /// let semaphore = Arc::new(Semaphore::new(3));
    /// let mut permit = semaphore.clone().try_acquire_owned()?;
    /// permit.merge(semaphore.clone().try_acquire_many_owned(2)?);
    /// assert_eq!(permit.num_permits(), 3);
    /// # Ok::<(), blitzen::sync::TryAcquireError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the permits belong to different semaphores.
    #[track_caller]
    pub fn merge(&mut self, mut other: Self) {
        assert!(
            Arc::ptr_eq(&self.semaphore, &other.semaphore),
            "merging permits from different semaphore instances"
        );
        self.permits += std::mem::take(&mut other.permits);
    }

    /// Splits `n` permits off this one.
    ///
    /// Returns `None` if it has fewer.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::Semaphore;
    /// let semaphore = Arc::new(Semaphore::new(3));
    /// let mut permit = semaphore.try_acquire_many_owned(3)?;
    /// let part = permit.split(1).unwrap();
    /// assert_eq!((permit.num_permits(), part.num_permits()), (2, 1));
    /// # Ok::<(), blitzen::sync::TryAcquireError>(())
    /// ```
    pub fn split(&mut self, n: usize) -> Option<Self> {
        self.permits = self.permits.checked_sub(n)?;
        Some(Self::new(self.semaphore.clone(), n))
    }

    /// Returns the number of permits that this holds.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::Semaphore;
    /// let semaphore = Arc::new(Semaphore::new(3));
    /// assert_eq!(semaphore.try_acquire_many_owned(2)?.num_permits(), 2);
    /// # Ok::<(), blitzen::sync::TryAcquireError>(())
    /// ```
    pub fn num_permits(&self) -> usize {
        self.permits
    }

    /// Returns the semaphore of these permits.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::Semaphore;
    /// let semaphore = Arc::new(Semaphore::new(1));
    /// let permit = semaphore.clone().try_acquire_owned()?;
    /// assert!(Arc::ptr_eq(permit.semaphore(), &semaphore));
    /// # Ok::<(), blitzen::sync::TryAcquireError>(())
    /// ```
    pub fn semaphore(&self) -> &Arc<Semaphore> {
        &self.semaphore
    }
}

impl Drop for OwnedSemaphorePermit {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.release(self.permits);
    }
}
