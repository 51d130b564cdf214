//! A counter of permits that tasks take, wait for and give back.

mod error;
mod permit;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use blitzen_util::block_on::block_on;
use blitzen_util::entered::assert_may_block;

use crate::batch_semaphore::{self, AcquireFuture, AcquireTarget, BatchSemaphore};

pub use error::{AcquireError, TryAcquireError};
pub use permit::{OwnedSemaphorePermit, SemaphorePermit};

/// A number of permits, shared by tasks that wait when there are too few.
///
/// BatchSemaphore are given in the order in which they were asked for: a task that
/// wants many is not overtaken by tasks that want one. A permit comes back when
/// its guard is dropped, and goes straight to whoever waits.
///
/// ```
/// use blitzen_sync::Semaphore;
///
/// # futures::executor::block_on(async {
/// let connections = Semaphore::new(2);
/// let first = connections.acquire().await?;
/// let second = connections.acquire().await?;
/// assert!(connections.try_acquire().is_err());
/// drop(first);
/// assert_eq!(connections.available_permits(), 1);
/// # drop(second);
/// # Ok::<(), blitzen_sync::AcquireError>(()) }).unwrap();
/// ```
pub struct Semaphore {
    permits: BatchSemaphore,
    /// How many there were at first, and so often are while nobody has any.
    initial: usize,
}

impl Semaphore {
    /// The most permits a semaphore can hold.
    ///
    /// ```
    /// use blitzen_sync::Semaphore;
    /// assert_eq!(Semaphore::MAX_PERMITS, usize::MAX >> 3);
    /// ```
    pub const MAX_PERMITS: usize = batch_semaphore::MAX_PERMITS;

    /// A semaphore with so many permits.
    ///
    /// ```
    /// use blitzen_sync::Semaphore;
    /// assert_eq!(Semaphore::new(3).available_permits(), 3);
    /// ```
    ///
    /// # Panics
    /// If `permits` exceeds [`MAX_PERMITS`](Self::MAX_PERMITS).
    #[track_caller]
    pub fn new(permits: usize) -> Self {
        assert!(
            permits <= Self::MAX_PERMITS,
            "a semaphore may not have more than MAX_PERMITS permits ({})",
            Self::MAX_PERMITS
        );
        Self {
            permits: BatchSemaphore::new(permits),
            initial: permits,
        }
    }

    const_unless_loom! {
        /// [`new`](Self::new) for a `static`.
        ///
        /// ```
        /// use blitzen_sync::Semaphore;
        /// static UPLOADS: Semaphore = Semaphore::const_new(8);
        /// assert_eq!(UPLOADS.available_permits(), 8);
        /// ```
        ///
        /// # Panics
        /// If `permits` exceeds [`MAX_PERMITS`](Self::MAX_PERMITS).
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

    /// How many permits could be taken at once. Zero while anyone waits: what
    /// comes back then is gathered for the one who waits longest.
    ///
    /// ```
    /// use blitzen_sync::Semaphore;
    /// let semaphore = Semaphore::new(2);
    /// let _one = semaphore.try_acquire()?;
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # Ok::<(), blitzen_sync::TryAcquireError>(())
    /// ```
    pub fn available_permits(&self) -> usize {
        self.permits.available()
    }

    /// Adds new permits.
    ///
    /// ```
    /// use blitzen_sync::Semaphore;
    /// let semaphore = Semaphore::new(0);
    /// semaphore.add_permits(5);
    /// assert_eq!(semaphore.available_permits(), 5);
    /// ```
    ///
    /// # Panics
    /// If there would be more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    #[track_caller]
    pub fn add_permits(&self, n: usize) {
        assert!(
            n <= Self::MAX_PERMITS,
            "cannot add more than MAX_PERMITS permits ({})",
            Self::MAX_PERMITS
        );
        self.permits.release(n);
    }

    /// Takes up to `n` of the available permits away for good, and returns how
    /// many there were to take.
    ///
    /// ```
    /// use blitzen_sync::Semaphore;
    /// let semaphore = Semaphore::new(3);
    /// assert_eq!(semaphore.forget_permits(2), 2);
    /// assert_eq!(semaphore.forget_permits(2), 1);
    /// ```
    pub fn forget_permits(&self, n: usize) -> usize {
        self.permits.forget(n)
    }

    /// Waits for a permit.
    ///
    /// ```
    /// use blitzen_sync::Semaphore;
    /// # futures::executor::block_on(async {
    /// let semaphore = Semaphore::new(1);
    /// let permit = semaphore.acquire().await?;
    /// assert_eq!(permit.num_permits(), 1);
    /// # Ok::<(), blitzen_sync::AcquireError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If the semaphore is [closed](Self::close).
    ///
    /// # Cancel safety
    /// Dropping the future gives up its place in the queue; a permit already granted
    /// goes to the next.
    #[inline]
    pub fn acquire(&self) -> impl Future<Output = Result<SemaphorePermit<'_>, AcquireError>> {
        AcquireFuture::new(AcquireOne(self))
    }

    /// Waits for `n` permits, and takes them all at once.
    ///
    /// ```
    /// use blitzen_sync::Semaphore;
    /// # futures::executor::block_on(async {
    /// let semaphore = Semaphore::new(5);
    /// let permit = semaphore.acquire_many(3).await?;
    /// assert_eq!(permit.num_permits(), 3);
    /// # Ok::<(), blitzen_sync::AcquireError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If the semaphore is [closed](Self::close).
    ///
    /// # Cancel safety
    /// As for [`acquire`](Self::acquire).
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

    /// Takes a permit if one is available.
    ///
    /// ```
    /// use blitzen_sync::{Semaphore, TryAcquireError};
    /// let semaphore = Semaphore::new(1);
    /// let permit = semaphore.try_acquire()?;
    /// assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::NoPermits);
    /// # drop(permit);
    /// # Ok::<(), TryAcquireError>(())
    /// ```
    ///
    /// # Errors
    /// If there are none, or the semaphore is [closed](Self::close).
    #[inline]
    pub fn try_acquire(&self) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.permits.try_acquire(1)?;
        Ok(SemaphorePermit::new(self, 1))
    }

    /// Takes `n` permits if so many are available.
    ///
    /// ```
    /// use blitzen_sync::Semaphore;
    /// let semaphore = Semaphore::new(4);
    /// assert!(semaphore.try_acquire_many(5).is_err());
    /// assert!(semaphore.try_acquire_many(4).is_ok());
    /// ```
    ///
    /// # Errors
    /// If there are fewer, or the semaphore is [closed](Self::close).
    #[track_caller]
    pub fn try_acquire_many(&self, n: u32) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        let count = checked_count(n);
        self.permits.try_acquire(count)?;
        Ok(SemaphorePermit::new(self, count))
    }

    /// [`acquire`](Self::acquire) with a permit that keeps the semaphore alive,
    /// and so may move to another task.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen_sync::Semaphore;
    /// # futures::executor::block_on(async {
    /// let semaphore = Arc::new(Semaphore::new(1));
    /// let permit = semaphore.clone().acquire_owned().await?;
    /// std::thread::spawn(move || drop(permit)).join().unwrap();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # Ok::<(), blitzen_sync::AcquireError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If the semaphore is [closed](Self::close).
    ///
    /// # Cancel safety
    /// As for [`acquire`](Self::acquire).
    pub fn acquire_owned(
        self: Arc<Self>,
    ) -> impl Future<Output = Result<OwnedSemaphorePermit, AcquireError>> {
        AcquireFuture::new(AcquireManyOwned {
            semaphore: self,
            count: 1,
        })
    }

    /// [`acquire_many`](Self::acquire_many) with a permit that keeps the
    /// semaphore alive.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen_sync::Semaphore;
    /// # futures::executor::block_on(async {
    /// let semaphore = Arc::new(Semaphore::new(5));
    /// let permit = semaphore.clone().acquire_many_owned(5).await?;
    /// assert_eq!(semaphore.available_permits(), 0);
    /// # drop(permit);
    /// # Ok::<(), blitzen_sync::AcquireError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If the semaphore is [closed](Self::close).
    ///
    /// # Cancel safety
    /// As for [`acquire`](Self::acquire).
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

    /// [`try_acquire`](Self::try_acquire) with a permit that keeps the
    /// semaphore alive.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen_sync::Semaphore;
    /// let semaphore = Arc::new(Semaphore::new(1));
    /// let permit = semaphore.clone().try_acquire_owned()?;
    /// assert!(semaphore.try_acquire_owned().is_err());
    /// # drop(permit);
    /// # Ok::<(), blitzen_sync::TryAcquireError>(())
    /// ```
    ///
    /// # Errors
    /// If there are none, or the semaphore is [closed](Self::close).
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.permits.try_acquire(1)?;
        Ok(OwnedSemaphorePermit::new(self, 1))
    }

    /// [`try_acquire_many`](Self::try_acquire_many) with a permit that keeps
    /// the semaphore alive.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen_sync::Semaphore;
    /// let semaphore = Arc::new(Semaphore::new(3));
    /// let permit = semaphore.clone().try_acquire_many_owned(2)?;
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # drop(permit);
    /// # Ok::<(), blitzen_sync::TryAcquireError>(())
    /// ```
    ///
    /// # Errors
    /// If there are fewer, or the semaphore is [closed](Self::close).
    #[track_caller]
    pub fn try_acquire_many_owned(
        self: Arc<Self>,
        n: u32,
    ) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        let count = checked_count(n);
        self.permits.try_acquire(count)?;
        Ok(OwnedSemaphorePermit::new(self, count))
    }

    /// Blocks the thread until it has a permit.
    ///
    /// ```
    /// use blitzen_sync::Semaphore;
    /// let semaphore = Semaphore::new(1);
    /// let permit = semaphore.blocking_acquire()?;
    /// assert_eq!(semaphore.available_permits(), 0);
    /// # drop(permit);
    /// # Ok::<(), blitzen_sync::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// If the semaphore is [closed](Self::close).
    ///
    /// # Panics
    /// On a thread that drives tasks.
    #[track_caller]
    pub fn blocking_acquire(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        assert_may_block();
        block_on(self.acquire())
    }

    /// Blocks the thread until it has `n` permits.
    ///
    /// ```
    /// use blitzen_sync::Semaphore;
    /// let semaphore = Semaphore::new(5);
    /// assert_eq!(semaphore.blocking_acquire_many(3)?.num_permits(), 3);
    /// # Ok::<(), blitzen_sync::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// If the semaphore is [closed](Self::close).
    ///
    /// # Panics
    /// On a thread that drives tasks.
    #[track_caller]
    pub fn blocking_acquire_many(&self, n: u32) -> Result<SemaphorePermit<'_>, AcquireError> {
        assert_may_block();
        block_on(self.acquire_many(n))
    }

    /// [`blocking_acquire`](Self::blocking_acquire) with a permit that keeps
    /// the semaphore alive.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen_sync::Semaphore;
    /// let semaphore = Arc::new(Semaphore::new(1));
    /// let permit = semaphore.clone().blocking_acquire_owned()?;
    /// assert_eq!(semaphore.available_permits(), 0);
    /// # drop(permit);
    /// # Ok::<(), blitzen_sync::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// If the semaphore is [closed](Self::close).
    ///
    /// # Panics
    /// On a thread that drives tasks.
    #[track_caller]
    pub fn blocking_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, AcquireError> {
        assert_may_block();
        block_on(self.acquire_owned())
    }

    /// [`blocking_acquire_many`](Self::blocking_acquire_many) with a permit
    /// that keeps the semaphore alive.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen_sync::Semaphore;
    /// let semaphore = Arc::new(Semaphore::new(5));
    /// assert_eq!(semaphore.blocking_acquire_many_owned(2)?.num_permits(), 2);
    /// # Ok::<(), blitzen_sync::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// If the semaphore is [closed](Self::close).
    ///
    /// # Panics
    /// On a thread that drives tasks.
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

    /// Gives out no more permits, and tells everyone who waits.
    ///
    /// ```
    /// use blitzen_sync::{Semaphore, TryAcquireError};
    /// let semaphore = Semaphore::new(1);
    /// semaphore.close();
    /// assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::Closed);
    /// ```
    pub fn close(&self) {
        self.permits.close();
    }

    /// Whether [`close`](Self::close) has been called.
    ///
    /// ```
    /// use blitzen_sync::Semaphore;
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
    type Output = Result<SemaphorePermit<'a>, AcquireError>;

    #[inline(always)]
    fn semaphore(&self) -> &BatchSemaphore {
        &self.0.permits
    }

    #[inline(always)]
    fn count(&self) -> usize {
        1
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
