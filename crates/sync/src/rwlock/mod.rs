//! Many readers or one writer: a permit for each reader, all of them for a
//! writer.

mod owned_read;
mod owned_write;
mod read;
mod write;

use std::cell::UnsafeCell;
use std::fmt;
use std::future::Future;
use std::mem::MaybeUninit;
use std::sync::Arc;

use blitzen_util::block_on::block_on;
use blitzen_util::entered::assert_may_block;
use blitzen_util::shim::const_unless_loom;
use blitzen_util::wait::WaitKind;

use crate::batch_semaphore::{AcquireFuture, AcquireTarget, BatchSemaphore};
use crate::mutex::TryLockError;
use crate::resource::SemaphoreSpans;
use crate::semaphore::AcquireError;

pub use owned_read::OwnedRwLockReadGuard;
pub use owned_write::{OwnedRwLockMappedWriteGuard, OwnedRwLockWriteGuard};
pub use read::RwLockReadGuard;
pub use write::{RwLockMappedWriteGuard, RwLockWriteGuard};

/// The most readers a lock admits at once.
const MAX_READERS: u32 = u32::MAX >> 3;

/// The cache line of most processors. A compromise: where lines are fetched in pairs,
/// `util/src/pad.rs` keeps words 128 bytes apart, which would make each lock 64 bytes larger.
const LINE_BYTES: usize = 64;

/// Room behind the semaphore, which keeps what readers only read off the cache line of the state,
/// which all of them write.
type LineGap = [MaybeUninit<u8>; LINE_BYTES.saturating_sub(size_of::<BatchSemaphore>())];

const LINE_GAP: LineGap = [MaybeUninit::uninit(); size_of::<LineGap>()];

/// An asynchronous reader-writer lock: many tasks may read the value at once, or
/// one may write it.
///
/// Tasks get the lock in the order in which they asked for it: readers that come after
/// a waiting writer wait behind it, so neither side starves. A task that holds a read
/// guard must therefore not lock for reading again: with a writer queued in between, it
/// would wait for itself.
///
/// # Examples
///
/// ```
/// use blitzen::sync::RwLock;
///
/// # futures::executor::block_on(async {
/// let lock = RwLock::new(5);
/// {
///     let one = lock.read().await;
///     let two = lock.read().await;
///     assert_eq!(*one + *two, 10);
/// }
/// *lock.write().await += 1;
/// assert_eq!(*lock.read().await, 6);
/// # });
/// ```
#[repr(C)] // the value is behind the gap
pub struct RwLock<T: ?Sized> {
    semaphore: BatchSemaphore,
    _gap: LineGap,
    max_readers: u32,
    value: UnsafeCell<T>,
}

// SAFETY: the value moves with the lock.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: readers on several threads share the value (`Sync`), and a writer
// anywhere has it to itself (`Send`).
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T: ?Sized> RwLock<T> {
    /// Creates an unlocked lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::RwLock;
    /// assert_eq!(*RwLock::new(5).try_read()?, 5);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    #[cfg_attr(all(tokio_unstable, feature = "resource-spans"), track_caller)]
    pub fn new(value: T) -> Self
    where
        T: Sized,
    {
        let spans = SemaphoreSpans::of_rwlock(MAX_READERS);
        Self {
            semaphore: BatchSemaphore::new_of_lock(MAX_READERS as usize, spans),
            _gap: LINE_GAP,
            max_readers: MAX_READERS,
            value: UnsafeCell::new(value),
        }
    }

    /// Creates an unlocked lock that admits at most `max_reads` readers at once.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::RwLock;
    /// let lock = RwLock::with_max_readers(5, 1);
    /// let reader = lock.try_read()?;
    /// assert!(lock.try_read().is_err());
    /// # drop(reader);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `max_reads` is 0, or greater than `u32::MAX >> 3`.
    #[track_caller]
    pub fn with_max_readers(value: T, max_reads: u32) -> Self
    where
        T: Sized,
    {
        assert!(
            max_reads <= MAX_READERS,
            "a RwLock may not be created with more than {MAX_READERS} readers"
        );
        assert!(max_reads > 0, "a RwLock may not be created with 0 readers");
        let spans = SemaphoreSpans::of_rwlock(max_reads);
        Self {
            semaphore: BatchSemaphore::new_of_lock(max_reads as usize, spans),
            _gap: LINE_GAP,
            // Not what `ReadTarget` expects: an async read makes one exchange that must fail.
            max_readers: max_reads,
            value: UnsafeCell::new(value),
        }
    }

    const_unless_loom! {
        /// Creates an unlocked lock, for use in a `static`.
        ///
        /// # Examples
        ///
        /// ```
        /// use blitzen::sync::RwLock;
        /// static LIMIT: RwLock<u32> = RwLock::const_new(5);
        /// assert_eq!(*LIMIT.try_read()?, 5);
        /// # Ok::<(), blitzen::sync::TryLockError>(())
        /// ```
        pub fn const_new(value: T) -> Self
        where
            T: Sized,
        {
            Self {
                semaphore: BatchSemaphore::new(MAX_READERS as usize),
                _gap: LINE_GAP,
                max_readers: MAX_READERS,
                value: UnsafeCell::new(value),
            }
        }
    }

    const_unless_loom! {
        /// Creates an unlocked lock that admits at most `max_reads` readers at
        /// once, for use in a `static`.
        ///
        /// # Examples
        ///
        /// ```
        /// use blitzen::sync::RwLock;
        /// static LIMIT: RwLock<u32> = RwLock::const_with_max_readers(5, 64);
        /// assert_eq!(*LIMIT.try_read()?, 5);
        /// # Ok::<(), blitzen::sync::TryLockError>(())
        /// ```
        ///
        /// # Panics
        ///
        /// Panics if `max_reads` is 0, or greater than `u32::MAX >> 3`.
        #[track_caller]
        pub fn const_with_max_readers(value: T, max_reads: u32) -> Self
        where
            T: Sized,
        {
            assert!(
                max_reads <= MAX_READERS,
                "a RwLock may not be created with more than 536870911 readers"
            );
            assert!(
                max_reads > 0,
                "a RwLock may not be created with 0 readers"
            );
            Self {
                semaphore: BatchSemaphore::new(max_reads as usize),
                _gap: LINE_GAP,
                max_readers: max_reads,
                value: UnsafeCell::new(value),
            }
        }
    }

    /// Locks for reading.
    ///
    /// Waits while a task writes, or waits to write.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::RwLock;
    /// # futures::executor::block_on(async {
    /// let lock = RwLock::new(5);
    /// assert_eq!(*lock.read().await, 5);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it loses its place in the queue. A lock that it
    /// was granted goes to the next waiter.
    #[inline]
    pub fn read(&self) -> impl Future<Output = RwLockReadGuard<'_, T>> {
        AcquireFuture::new(ReadTarget(self))
    }

    /// Locks for reading as [`read`](Self::read) does, with a guard that owns an
    /// `Arc` of the lock and can move to another task.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::RwLock;
    /// # futures::executor::block_on(async {
    /// let lock = Arc::new(RwLock::new(5));
    /// let guard = lock.clone().read_owned().await;
    /// std::thread::spawn(move || assert_eq!(*guard, 5)).join().unwrap();
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// As for [`read`](Self::read).
    #[inline]
    pub fn read_owned(self: Arc<Self>) -> impl Future<Output = OwnedRwLockReadGuard<T>> {
        AcquireFuture::new(OwnedReadTarget(self))
    }

    /// Locks for reading, if no task writes or waits.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::RwLock;
    /// let lock = RwLock::new(5);
    /// let writer = lock.try_write()?;
    /// assert!(lock.try_read().is_err());
    /// drop(writer);
    /// assert_eq!(*lock.try_read()?, 5);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the lock is taken, or a task waits for it.
    #[inline]
    pub fn try_read(&self) -> Result<RwLockReadGuard<'_, T>, TryLockError> {
        match self.semaphore.try_acquire(1) {
            Ok(()) => Ok(RwLockReadGuard::new(&self.semaphore, self.value.get())),
            Err(_) => Err(TryLockError::would_block()),
        }
    }

    /// Locks for reading as [`try_read`](Self::try_read) does, with a guard that
    /// owns an `Arc` of the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::RwLock;
    /// let lock = Arc::new(RwLock::new(5));
    /// assert_eq!(*lock.try_read_owned()?, 5);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if a task writes or waits.
    #[inline]
    pub fn try_read_owned(self: Arc<Self>) -> Result<OwnedRwLockReadGuard<T>, TryLockError> {
        match self.semaphore.try_acquire(1) {
            Ok(()) => Ok(OwnedRwLockReadGuard::new(self)),
            Err(_) => Err(TryLockError::would_block()),
        }
    }

    /// Locks for reading, and blocks the current thread until it can.
    ///
    /// For use outside of a runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::RwLock;
    /// assert_eq!(*RwLock::new(5).blocking_read(), 5);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that runs tasks.
    #[track_caller]
    pub fn blocking_read(&self) -> RwLockReadGuard<'_, T> {
        assert_may_block();
        block_on(self.read())
    }

    /// Locks for writing.
    ///
    /// Waits until no other task reads or writes.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::RwLock;
    /// # futures::executor::block_on(async {
    /// let lock = RwLock::new(5);
    /// *lock.write().await = 6;
    /// assert_eq!(lock.into_inner(), 6);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it loses its place in the queue, and readers
    /// behind it may go on. A lock that it was granted goes to the next waiter.
    #[inline]
    pub fn write(&self) -> impl Future<Output = RwLockWriteGuard<'_, T>> {
        AcquireFuture::new(WriteTarget(self))
    }

    /// Locks for writing as [`write`](Self::write) does, with a guard that owns an
    /// `Arc` of the lock and can move to another task.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::RwLock;
    /// # futures::executor::block_on(async {
    /// let lock = Arc::new(RwLock::new(5));
    /// let mut guard = lock.clone().write_owned().await;
    /// std::thread::spawn(move || *guard = 6).join().unwrap();
    /// assert_eq!(*lock.read().await, 6);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// As for [`write`](Self::write).
    #[inline]
    pub fn write_owned(self: Arc<Self>) -> impl Future<Output = OwnedRwLockWriteGuard<T>> {
        AcquireFuture::new(OwnedWriteTarget(self))
    }

    /// Locks for writing, if no task reads, writes or waits.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::RwLock;
    /// let lock = RwLock::new(5);
    /// let reader = lock.try_read()?;
    /// assert!(lock.try_write().is_err());
    /// drop(reader);
    /// *lock.try_write()? = 6;
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the lock is taken, or a task waits for it.
    #[inline]
    pub fn try_write(&self) -> Result<RwLockWriteGuard<'_, T>, TryLockError> {
        match self.semaphore.try_acquire(self.writer_permits()) {
            Ok(()) => Ok(RwLockWriteGuard::new(self)),
            Err(_) => Err(TryLockError::would_block()),
        }
    }

    /// Locks for writing as [`try_write`](Self::try_write) does, with a guard that
    /// owns an `Arc` of the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::RwLock;
    /// let lock = Arc::new(RwLock::new(5));
    /// *lock.clone().try_write_owned()? = 6;
    /// assert_eq!(*lock.try_read()?, 6);
    /// # Ok::<(), blitzen::sync::TryLockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if a task reads, writes or waits.
    #[inline]
    pub fn try_write_owned(self: Arc<Self>) -> Result<OwnedRwLockWriteGuard<T>, TryLockError> {
        match self.semaphore.try_acquire(self.writer_permits()) {
            Ok(()) => Ok(OwnedRwLockWriteGuard::new(self)),
            Err(_) => Err(TryLockError::would_block()),
        }
    }

    /// Locks for writing, and blocks the current thread until it can.
    ///
    /// For use outside of a runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::RwLock;
    /// let lock = RwLock::new(5);
    /// *lock.blocking_write() = 6;
    /// assert_eq!(lock.into_inner(), 6);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that runs tasks.
    #[track_caller]
    pub fn blocking_write(&self) -> RwLockWriteGuard<'_, T> {
        assert_may_block();
        block_on(self.write())
    }

    /// Returns a reference to the value, without locking: `&mut self` proves that
    /// nobody else uses it.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::RwLock;
    /// let mut lock = RwLock::new(5);
    /// *lock.get_mut() = 6;
    /// assert_eq!(lock.into_inner(), 6);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Returns the value.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::RwLock;
    /// assert_eq!(RwLock::new(5).into_inner(), 5);
    /// ```
    pub fn into_inner(self) -> T
    where
        T: Sized,
    {
        self.value.into_inner()
    }

    /// The permits of a writer.
    #[inline(always)]
    fn writer_permits(&self) -> usize {
        self.max_readers as usize
    }

    /// What a dropped write guard does.
    #[inline(always)]
    fn unlock_write(&self) {
        self.semaphore.release_all(self.writer_permits());
    }

    /// Makes a writer a reader, without anyone in between.
    #[inline]
    fn downgrade(&self) {
        if self.writer_permits() > 1 {
            self.semaphore.release(self.writer_permits() - 1);
        }
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lock = f.debug_struct("RwLock");
        match self.try_read() {
            Ok(value) => lock.field("data", &&*value),
            Err(_) => lock.field("data", &format_args!("<locked>")),
        };
        lock.finish()
    }
}

struct ReadTarget<'a, T: ?Sized>(&'a RwLock<T>);

// SAFETY: both are fixed when the target is made.
unsafe impl<'a, T: ?Sized> AcquireTarget for ReadTarget<'a, T> {
    const WAIT: WaitKind = WaitKind::RwLockRead;
    const SOURCE: &'static str = "RwLock::read";
    type Output = RwLockReadGuard<'a, T>;

    #[inline(always)]
    fn semaphore(&self) -> &BatchSemaphore {
        &self.0.semaphore
    }

    // Wrong for a lock `with_max_readers`, where each read therefore makes one exchange that must
    // fail. It spares all others a load.
    #[inline(always)]
    fn expected_permits(&self) -> usize {
        MAX_READERS as usize
    }

    #[inline(always)]
    fn settle(self, _never_closed: Result<(), AcquireError>) -> Self::Output {
        RwLockReadGuard::new(&self.0.semaphore, self.0.value.get())
    }
}

struct OwnedReadTarget<T: ?Sized>(Arc<RwLock<T>>);

// SAFETY: both are fixed when the target is made.
unsafe impl<T: ?Sized> AcquireTarget for OwnedReadTarget<T> {
    const WAIT: WaitKind = WaitKind::RwLockRead;
    const SOURCE: &'static str = "RwLock::read_owned";
    type Output = OwnedRwLockReadGuard<T>;

    #[inline(always)]
    fn semaphore(&self) -> &BatchSemaphore {
        &self.0.semaphore
    }

    // As for `ReadTarget`.
    #[inline(always)]
    fn expected_permits(&self) -> usize {
        MAX_READERS as usize
    }

    #[inline(always)]
    fn settle(self, _never_closed: Result<(), AcquireError>) -> Self::Output {
        OwnedRwLockReadGuard::new(self.0)
    }
}

struct WriteTarget<'a, T: ?Sized>(&'a RwLock<T>);

// SAFETY: both are fixed when the target is made.
unsafe impl<'a, T: ?Sized> AcquireTarget for WriteTarget<'a, T> {
    const WAIT: WaitKind = WaitKind::RwLockWrite;
    const SOURCE: &'static str = "RwLock::write";
    const NOTES_OWNER: bool = true;
    type Output = RwLockWriteGuard<'a, T>;

    #[inline(always)]
    fn semaphore(&self) -> &BatchSemaphore {
        &self.0.semaphore
    }

    #[inline(always)]
    fn count(&self) -> usize {
        self.0.writer_permits()
    }

    #[inline(always)]
    fn expected_permits(&self) -> usize {
        self.0.writer_permits()
    }

    #[inline(always)]
    fn settle(self, _never_closed: Result<(), AcquireError>) -> Self::Output {
        RwLockWriteGuard::new(self.0)
    }
}

struct OwnedWriteTarget<T: ?Sized>(Arc<RwLock<T>>);

// SAFETY: both are fixed when the target is made.
unsafe impl<T: ?Sized> AcquireTarget for OwnedWriteTarget<T> {
    const WAIT: WaitKind = WaitKind::RwLockWrite;
    const SOURCE: &'static str = "RwLock::write_owned";
    type Output = OwnedRwLockWriteGuard<T>;

    #[inline(always)]
    fn semaphore(&self) -> &BatchSemaphore {
        &self.0.semaphore
    }

    #[inline(always)]
    fn count(&self) -> usize {
        self.0.writer_permits()
    }

    #[inline(always)]
    fn expected_permits(&self) -> usize {
        self.0.writer_permits()
    }

    #[inline(always)]
    fn settle(self, _never_closed: Result<(), AcquireError>) -> Self::Output {
        OwnedRwLockWriteGuard::new(self.0)
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
    fn readers_share_and_a_writer_is_alone() {
        loom::model(|| {
            let lock = Arc::new(RwLock::new(Watched::new(0)));
            // SAFETY: behind the lock; loom objects if it does not exclude.
            let read = |slot: &Watched<i32>| slot.with(|slot| unsafe { *slot });
            let reader = thread::spawn({
                let lock = lock.clone();
                move || read(&block_on(lock.read()))
            });
            let writer = block_on(lock.write());
            // SAFETY: as above.
            writer.with_mut(|slot| unsafe { *slot += 1 });
            let downgraded = writer.downgrade();
            assert_eq!(read(&downgraded), 1);
            drop(downgraded);
            let seen = reader.join().unwrap();
            assert!(seen == 0 || seen == 1);
            assert_eq!(lock.semaphore.available(), lock.writer_permits());
        });
    }

    #[test]
    fn a_writer_that_goes_on_as_a_reader_keeps_other_writers_out() {
        loom::model(|| {
            let lock = Arc::new(RwLock::new(Watched::new(0)));
            let writer = thread::spawn({
                let lock = lock.clone();
                // SAFETY: behind the lock; loom objects if it does not exclude.
                move || block_on(lock.write()).with_mut(|slot| unsafe { *slot += 1 })
            });
            let reading = block_on(lock.write()).downgrade();
            // SAFETY: as above.
            reading.with(|slot| assert!(unsafe { *slot } < 2));
            drop(reading);
            writer.join().unwrap();
            assert_eq!(lock.semaphore.available(), lock.writer_permits());
        });
    }

    #[test]
    fn a_writer_that_gives_up_lets_readers_in() {
        loom::model(|| {
            let lock = Arc::new(RwLock::with_max_readers(5, 2));
            let reading = block_on(lock.read());
            let quitter = thread::spawn({
                let lock = lock.clone();
                move || assert!(poll_once(Box::pin(lock.write()).as_mut()).is_pending())
            });
            assert_eq!(*block_on(lock.read()), 5); // or loom reports a deadlock
            quitter.join().unwrap();
            drop(reading);
            assert!(lock.try_write().is_ok());
        });
    }
}
