//! A counter of permits that tasks take, wait for and give back.

mod error;
mod permit;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use blitzen_util::block_on::block_on;
use blitzen_util::entered::assert_may_block;
use blitzen_util::shim::const_unless_loom;
use blitzen_util::wait::WaitKind;

use crate::batch_semaphore::{self, AcquireFuture, AcquireTarget, BatchSemaphore};
use crate::resource::SemaphoreSpans;

pub use error::{AcquireError, TryAcquireError};
pub use permit::{OwnedSemaphorePermit, SemaphorePermit};

/// A counting semaphore: a number of permits, for which tasks wait when none is
/// available.
///
/// Permits are granted in the order in which they were asked for: a task that wants
/// many is not overtaken by tasks that want one. Dropping a guard releases its permits,
/// to the task that has waited longest if there is one.
///
/// # Examples
///
/// ```
/// use blitzen::sync::Semaphore;
///
/// # futures::executor::block_on(async {
/// let connections = Semaphore::new(2);
/// let first = connections.acquire().await?;
/// let second = connections.acquire().await?;
/// assert!(connections.try_acquire().is_err());
/// drop(first);
/// assert_eq!(connections.available_permits(), 1);
/// # drop(second);
/// # Ok::<(), blitzen::sync::AcquireError>(()) }).unwrap();
/// ```
pub struct Semaphore {
    permits: BatchSemaphore,
    /// The initial number of permits: a good guess of how many there are while nobody
    /// holds any.
    initial: usize,
}

impl Semaphore {
    /// The largest number of permits that a semaphore can hold.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Semaphore;
    /// assert_eq!(Semaphore::MAX_PERMITS, usize::MAX >> 3);
    /// ```
    pub const MAX_PERMITS: usize = batch_semaphore::MAX_PERMITS;

    /// Creates a semaphore with `permits` permits.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Semaphore;
    /// assert_eq!(Semaphore::new(3).available_permits(), 3);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `permits` is greater than [`MAX_PERMITS`](Self::MAX_PERMITS).
    #[track_caller]
    pub fn new(permits: usize) -> Self {
        assert!(
            permits <= Self::MAX_PERMITS,
            "a semaphore may not have more than MAX_PERMITS permits ({})",
            Self::MAX_PERMITS
        );
        Self {
            permits: BatchSemaphore::with_spans(permits, SemaphoreSpans::of_semaphore(permits)),
            initial: permits,
        }
    }

    const_unless_loom! {
        /// Creates a semaphore with `permits` permits, for use in a `static`.
        ///
        /// # Examples
        ///
        /// ```
        /// use blitzen::sync::Semaphore;
        /// static UPLOADS: Semaphore = Semaphore::const_new(8);
        /// assert_eq!(UPLOADS.available_permits(), 8);
        /// ```
        ///
        /// # Panics
        ///
        /// Panics if `permits` is greater than [`MAX_PERMITS`](Self::MAX_PERMITS).
        #[track_caller]
        pub fn const_new(permits: usize) -> Self {
            assert!(
                permits <= Self::MAX_PERMITS,
                "a semaphore may not have more than MAX_PERMITS permits"
            );
            Self {
                permits: BatchSemaphore::new(permits),
                initial: permits,
            }
        }
    }

    /// Returns the number of permits that can be acquired now without waiting.
    ///
    /// It is 0 while a task waits: permits that are released then are reserved for
    /// it.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Semaphore;
    /// let semaphore = Semaphore::new(2);
    /// let _one = semaphore.try_acquire()?;
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # Ok::<(), blitzen::sync::TryAcquireError>(())
    /// ```
    pub fn available_permits(&self) -> usize {
        self.permits.available()
    }

    /// Adds `n` permits.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Semaphore;
    /// let semaphore = Semaphore::new(0);
    /// semaphore.add_permits(5);
    /// assert_eq!(semaphore.available_permits(), 5);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there would be more than [`MAX_PERMITS`](Self::MAX_PERMITS)
    /// permits.
    #[track_caller]
    pub fn add_permits(&self, n: usize) {
        assert!(
            n <= Self::MAX_PERMITS,
            "cannot add more than MAX_PERMITS permits ({})",
            Self::MAX_PERMITS
        );
        self.permits.release(n);
    }

    /// Removes up to `n` of the available permits for good, and returns how many it
    /// has removed.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Semaphore;
    /// let semaphore = Semaphore::new(3);
    /// assert_eq!(semaphore.forget_permits(2), 2);
    /// assert_eq!(semaphore.forget_permits(2), 1);
    /// ```
    pub fn forget_permits(&self, n: usize) -> usize {
        self.permits.forget(n)
    }

    /// Acquires a permit.
    ///
    /// Waits until one is available.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Semaphore;
    /// # futures::executor::block_on(async {
    /// let semaphore = Semaphore::new(1);
    /// let permit = semaphore.acquire().await?;
    /// assert_eq!(permit.num_permits(), 1);
    /// # Ok::<(), blitzen::sync::AcquireError>(()) }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it loses its place in the queue. A permit that it
    /// was granted goes to the next waiter.
    ///
    /// # Errors
    ///
    /// Fails if the semaphore is [closed](Self::close).
    #[inline]
    pub fn acquire(&self) -> impl Future<Output = Result<SemaphorePermit<'_>, AcquireError>> {
        AcquireFuture::new(AcquireOne(self))
    }

    /// Acquires `n` permits.
    ///
    /// Waits until all of them are available.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Semaphore;
    /// # futures::executor::block_on(async {
    /// let semaphore = Semaphore::new(5);
    /// let permit = semaphore.acquire_many(3).await?;
    /// assert_eq!(permit.num_permits(), 3);
    /// # Ok::<(), blitzen::sync::AcquireError>(()) }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// Fails if the semaphore is [closed](Self::close).
    #[track_caller]
    pub fn acquire_many(
        &self,
        n: u32,
    ) -> impl Future<Output = Result<SemaphorePermit<'_>, AcquireError>> {
        AcquireFuture::new(AcquireMany {
            semaphore: self,
            count: checked_count(n),
        })
    }

    /// Acquires a permit if one is available, without waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::{Semaphore, TryAcquireError};
    /// let semaphore = Semaphore::new(1);
    /// let permit = semaphore.try_acquire()?;
    /// assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::NoPermits);
    /// # drop(permit);
    /// # Ok::<(), TryAcquireError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns `NoPermits` if none is available, and `Closed` if the semaphore is
    /// [closed](Self::close).
    #[inline]
    pub fn try_acquire(&self) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.permits.try_acquire(1)?;
        Ok(SemaphorePermit::new(self, 1))
    }

    /// Acquires `n` permits if all of them are available, without waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Semaphore;
    /// let semaphore = Semaphore::new(4);
    /// assert!(semaphore.try_acquire_many(5).is_err());
    /// assert!(semaphore.try_acquire_many(4).is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// Returns `NoPermits` if fewer are available, and `Closed` if the semaphore is
    /// [closed](Self::close).
    #[track_caller]
    pub fn try_acquire_many(&self, n: u32) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        let count = checked_count(n);
        self.permits.try_acquire(count)?;
        Ok(SemaphorePermit::new(self, count))
    }

    /// Acquires a permit as [`acquire`](Self::acquire) does, which owns an `Arc` of
    /// the semaphore and can move to another task.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::Semaphore;
    /// # futures::executor::block_on(async {
    /// let semaphore = Arc::new(Semaphore::new(1));
    /// let permit = semaphore.clone().acquire_owned().await?;
    /// std::thread::spawn(move || drop(permit)).join().unwrap();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # Ok::<(), blitzen::sync::AcquireError>(()) }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// Fails if the semaphore is [closed](Self::close).
    pub fn acquire_owned(
        self: Arc<Self>,
    ) -> impl Future<Output = Result<OwnedSemaphorePermit, AcquireError>> {
        AcquireFuture::new(AcquireManyOwned {
            semaphore: self,
            count: 1,
        })
    }

    /// Acquires `n` permits as [`acquire_many`](Self::acquire_many) does, with a
    /// guard that owns an `Arc` of the semaphore.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::Semaphore;
    /// # futures::executor::block_on(async {
    /// let semaphore = Arc::new(Semaphore::new(5));
    /// let permit = semaphore.clone().acquire_many_owned(5).await?;
    /// assert_eq!(semaphore.available_permits(), 0);
    /// # drop(permit);
    /// # Ok::<(), blitzen::sync::AcquireError>(()) }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// Fails if the semaphore is [closed](Self::close).
    #[track_caller]
    pub fn acquire_many_owned(
        self: Arc<Self>,
        n: u32,
    ) -> impl Future<Output = Result<OwnedSemaphorePermit, AcquireError>> {
        AcquireFuture::new(AcquireManyOwned {
            semaphore: self,
            count: checked_count(n),
        })
    }

    /// Acquires a permit as [`try_acquire`](Self::try_acquire) does, which owns an
    /// `Arc` of the semaphore.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::Semaphore;
    /// let semaphore = Arc::new(Semaphore::new(1));
    /// let permit = semaphore.clone().try_acquire_owned()?;
    /// assert!(semaphore.try_acquire_owned().is_err());
    /// # drop(permit);
    /// # Ok::<(), blitzen::sync::TryAcquireError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns `NoPermits` if none is available, and `Closed` if the semaphore is
    /// [closed](Self::close).
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.permits.try_acquire(1)?;
        Ok(OwnedSemaphorePermit::new(self, 1))
    }

    /// Acquires `n` permits as [`try_acquire_many`](Self::try_acquire_many) does,
    /// with a guard that owns an `Arc` of the semaphore.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::Semaphore;
    /// let semaphore = Arc::new(Semaphore::new(3));
    /// let permit = semaphore.clone().try_acquire_many_owned(2)?;
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # drop(permit);
    /// # Ok::<(), blitzen::sync::TryAcquireError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns `NoPermits` if fewer are available, and `Closed` if the semaphore is
    /// [closed](Self::close).
    #[track_caller]
    pub fn try_acquire_many_owned(
        self: Arc<Self>,
        n: u32,
    ) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        let count = checked_count(n);
        self.permits.try_acquire(count)?;
        Ok(OwnedSemaphorePermit::new(self, count))
    }

    /// Acquires a permit, and blocks the current thread until one is available.
    ///
    /// For use outside of a runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Semaphore;
    /// let semaphore = Semaphore::new(1);
    /// let permit = semaphore.blocking_acquire()?;
    /// assert_eq!(semaphore.available_permits(), 0);
    /// # drop(permit);
    /// # Ok::<(), blitzen::sync::AcquireError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the semaphore is [closed](Self::close).
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that runs tasks.
    #[track_caller]
    pub fn blocking_acquire(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        assert_may_block();
        block_on(self.acquire())
    }

    /// Acquires `n` permits, and blocks the current thread until all of them are
    /// available.
    ///
    /// For use outside of a runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Semaphore;
    /// let semaphore = Semaphore::new(5);
    /// assert_eq!(semaphore.blocking_acquire_many(3)?.num_permits(), 3);
    /// # Ok::<(), blitzen::sync::AcquireError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the semaphore is [closed](Self::close).
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that runs tasks.
    #[track_caller]
    pub fn blocking_acquire_many(&self, n: u32) -> Result<SemaphorePermit<'_>, AcquireError> {
        assert_may_block();
        block_on(self.acquire_many(n))
    }

    /// Acquires a permit as [`blocking_acquire`](Self::blocking_acquire) does,
    /// which owns an `Arc` of the semaphore.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::Semaphore;
    /// let semaphore = Arc::new(Semaphore::new(1));
    /// let permit = semaphore.clone().blocking_acquire_owned()?;
    /// assert_eq!(semaphore.available_permits(), 0);
    /// # drop(permit);
    /// # Ok::<(), blitzen::sync::AcquireError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the semaphore is [closed](Self::close).
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that runs tasks.
    #[track_caller]
    pub fn blocking_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, AcquireError> {
        assert_may_block();
        block_on(self.acquire_owned())
    }

    /// Acquires `n` permits as
    /// [`blocking_acquire_many`](Self::blocking_acquire_many) does, with a guard
    /// that owns an `Arc` of the semaphore.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::Semaphore;
    /// let semaphore = Arc::new(Semaphore::new(5));
    /// assert_eq!(semaphore.blocking_acquire_many_owned(2)?.num_permits(), 2);
    /// # Ok::<(), blitzen::sync::AcquireError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the semaphore is [closed](Self::close).
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that runs tasks.
    #[track_caller]
    pub fn blocking_acquire_many_owned(
        self: Arc<Self>,
        n: u32,
    ) -> Result<OwnedSemaphorePermit, AcquireError> {
        assert_may_block();
        block_on(self.acquire_many_owned(n))
    }

    /// What a dropped permit does.
    #[inline(always)]
    fn release(&self, permits: usize) {
        if permits > 0 {
            self.permits.release(permits);
        }
    }

    /// Closes the semaphore: all waiting and all later acquires fail.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::{Semaphore, TryAcquireError};
    /// let semaphore = Semaphore::new(1);
    /// semaphore.close();
    /// assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::Closed);
    /// ```
    pub fn close(&self) {
        self.permits.close();
    }

    /// Returns `true` if [`close`](Self::close) has been called.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Semaphore;
    /// let semaphore = Semaphore::new(1);
    /// assert!(!semaphore.is_closed());
    /// semaphore.close();
    /// assert!(semaphore.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.permits.is_closed()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("permits", &self.available_permits())
            .field("closed", &self.is_closed())
            .finish()
    }
}

/// Where `usize` has 32 bits, `u32` holds more than the permits there can be.
#[inline(always)]
#[track_caller]
fn checked_count(n: u32) -> usize {
    match usize::try_from(n) {
        Ok(count) if count <= batch_semaphore::MAX_PERMITS => count,
        _ => panic!(
            "a semaphore may not have more than MAX_PERMITS permits ({})",
            batch_semaphore::MAX_PERMITS
        ),
    }
}

struct AcquireOne<'a>(&'a Semaphore);

// SAFETY: both are fixed when the target is made.
unsafe impl<'a> AcquireTarget for AcquireOne<'a> {
    const WAIT: WaitKind = WaitKind::Semaphore;
    const SOURCE: &'static str = "Semaphore::acquire";
    type Output = Result<SemaphorePermit<'a>, AcquireError>;

    #[inline(always)]
    fn semaphore(&self) -> &BatchSemaphore {
        &self.0.permits
    }

    #[inline(always)]
    fn expected_permits(&self) -> usize {
        self.0.initial
    }

    #[inline(always)]
    fn settle(self, outcome: Result<(), AcquireError>) -> Self::Output {
        outcome.map(|()| SemaphorePermit::new(self.0, 1))
    }
}

struct AcquireMany<'a> {
    semaphore: &'a Semaphore,
    count: usize,
}

// SAFETY: both are fixed when the target is made.
unsafe impl<'a> AcquireTarget for AcquireMany<'a> {
    const WAIT: WaitKind = WaitKind::Semaphore;
    const SOURCE: &'static str = "Semaphore::acquire_many";
    type Output = Result<SemaphorePermit<'a>, AcquireError>;

    #[inline(always)]
    fn semaphore(&self) -> &BatchSemaphore {
        &self.semaphore.permits
    }

    #[inline(always)]
    fn count(&self) -> usize {
        self.count
    }

    #[inline(always)]
    fn expected_permits(&self) -> usize {
        self.semaphore.initial
    }

    #[inline(always)]
    fn settle(self, outcome: Result<(), AcquireError>) -> Self::Output {
        outcome.map(|()| SemaphorePermit::new(self.semaphore, self.count))
    }
}

struct AcquireManyOwned {
    semaphore: Arc<Semaphore>,
    count: usize,
}

// SAFETY: both are fixed when the target is made.
unsafe impl AcquireTarget for AcquireManyOwned {
    const WAIT: WaitKind = WaitKind::Semaphore;
    const SOURCE: &'static str = "Semaphore::acquire_many_owned";
    type Output = Result<OwnedSemaphorePermit, AcquireError>;

    #[inline(always)]
    fn semaphore(&self) -> &BatchSemaphore {
        &self.semaphore.permits
    }

    #[inline(always)]
    fn count(&self) -> usize {
        self.count
    }

    #[inline(always)]
    fn expected_permits(&self) -> usize {
        self.semaphore.initial
    }

    #[inline(always)]
    fn settle(self, outcome: Result<(), AcquireError>) -> Self::Output {
        outcome.map(|()| OwnedSemaphorePermit::new(self.semaphore, self.count))
    }
}
