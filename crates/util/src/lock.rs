//! Locks for short critical sections with little contention.
//!
//! A [`Lock`] is one word:
//!
//! ```text
//!   FREE ──lock──► HELD ──a thread waits──► CONTENDED
//!    ▲               │                         │
//!    └────unlock─────┴──────unlock, wake one───┘
//! ```
//!
//! K1. A thread that finds the lock held writes `CONTENDED` before it sleeps, and
//!     again when it wakes, since others may wait too. So unlocking a lock that
//!     threads wait for always wakes one of them.
//! K2. With a futex of the kernel's, a thread that releases the lock uses nothing but its address
//!     afterwards, to wake another. So the next holder may free the lock
//!     ([`MAY_BE_FREED_BY_NEXT_HOLDER`]).
//!
//! On Linux an [`AsymmetricLock`] counts those who wait in a second word, and is released by a plain
//! store. If the light fence is free, that takes a third of an exchange, and otherwise about as long:
//!
//! ```text
//!   lock:    held: FREE → HELD, by an exchange
//!   unlock:  held = FREE      light fence   load waiters: wake one
//!   wait:    waiters += 1     heavy fence   load held: sleep while HELD
//! ```
//!
//! K3. A thread that waits is counted until it has the lock. By the fences, either it sees that the lock
//!     was released, or the thread that releases it sees the count, and wakes a sleeper.
//! K4. A thread that releases the lock reads the count afterwards. So whoever frees the lock has to know
//!     that every `unlock` has returned; to have acquired it is not enough.
//!
//! Unlike std's they have no poison, whose bookkeeping takes as long as the lock itself.
//! [`shim::Mutex`](crate::shim::Mutex) has none either.

#[cfg(any(target_os = "linux", target_os = "android", blitzen_loom))]
use std::time::Duration;

#[cfg(any(target_os = "linux", target_os = "android", blitzen_loom))]
use crate::asymmetric_fence::{heavy, light};
use crate::futex::Futex;
use crate::shim::atomic::AtomicU32;
use crate::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::shim::{const_unless_loom, hint};

pub use chosen::{AsymmetricLock, AsymmetricLockGuard, Lock, LockGuard};

/// Whether a thread that has acquired a [`Lock`] may free it, although the one that has released it
/// may still be about to wake another (K2). In models a lock is one step.
pub const MAY_BE_FREED_BY_NEXT_HOLDER: bool = cfg!(any(
    target_os = "linux",
    target_os = "android",
    blitzen_loom
));

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// How often to spin before sleeping: a critical section takes less time than going
/// to sleep.
const SPINS: u32 = if crate::shim::MODEL { 1 } else { 100 };

/// How long a thread sleeps that the one with the lock might not see, since the kernel has taken back
/// the call that makes it seen.
#[cfg(any(target_os = "linux", target_os = "android", blitzen_loom))]
const UNSEEN_WAIT: Duration = Duration::from_millis(1);

/// How a kind of lock is acquired and released.
///
/// # Safety
/// One thread has the lock at a time: from the return of its `lock`, or of a `try_lock` that says
/// true, to its call of `unlock`. It sees what the threads that had it before have done.
pub unsafe trait RawLock {
    /// Acquires the lock if nobody holds it.
    fn try_lock(&self) -> bool;

    /// Blocks until the lock is held.
    fn lock(&self);

    /// Releases the lock, which the caller holds.
    fn unlock(&self);
}

#[inline(always)]
fn exchange_free(word: &AtomicU32) -> bool {
    // Acquire, met by the Release in `unlock`.
    word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok()
}

/// Waits for a lock that is about to be released; returns false if it is not.
fn spin(word: &AtomicU32) -> bool {
    for _ in 0..SPINS {
        if word.load(Relaxed) == FREE && exchange_free(word) {
            return true;
        }
        hint::spin_loop();
    }
    false
}

/// The word of a [`Lock`].
#[derive(Debug)]
pub struct LockWord(Futex);

// SAFETY: only the exchange from `FREE` acquires it, and the exchange in `unlock` publishes.
unsafe impl RawLock for LockWord {
    #[inline]
    fn try_lock(&self) -> bool {
        exchange_free(self.0.word())
    }

    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.wait();
        }
    }

    #[inline]
    fn unlock(&self) {
        // Release, met by the Acquires above.
        if self.0.word().swap(FREE, Release) == CONTENDED {
            self.0.wake_one();
        }
    }
}

impl LockWord {
    const_unless_loom! {
        fn new() -> Self {
            Self(Futex::new(FREE))
        }
    }

    #[cold]
    fn wait(&self) {
        if spin(self.0.word()) {
            return;
        }
        // Acquire, met by the Release in `unlock`. K1.
        while self.0.word().swap(CONTENDED, Acquire) != FREE {
            self.0.wait(CONTENDED, None);
        }
    }

    #[cfg(test)]
    fn has_waiters(&self) -> bool {
        self.0.word().load(Relaxed) == CONTENDED
    }
}

/// The words of an [`AsymmetricLock`].
#[cfg(any(target_os = "linux", target_os = "android", blitzen_loom))]
#[derive(Debug)]
pub struct AsymmetricWords {
    held: Futex,
    waiters: AtomicU32,
}

// SAFETY: only the exchange from `FREE` acquires it, and the store in `unlock` publishes.
#[cfg(any(target_os = "linux", target_os = "android", blitzen_loom))]
unsafe impl RawLock for AsymmetricWords {
    #[inline]
    fn try_lock(&self) -> bool {
        exchange_free(self.held.word())
    }

    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.wait();
        }
    }

    #[inline]
    fn unlock(&self) {
        // Release, met by the Acquire of the next holder.
        self.held.word().store(FREE, Release);
        light(); // K3, met by the heavy fence in `wait`
        if self.waiters.load(Relaxed) != 0 {
            self.wake();
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android", blitzen_loom))]
impl AsymmetricWords {
    const_unless_loom! {
        fn new() -> Self {
            Self {
                held: Futex::new(FREE),
                waiters: AtomicU32::new(0),
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        if spin(self.held.word()) {
            return;
        }
        self.waiters.fetch_add(1, Relaxed);
        let is_seen = heavy().is_fence; // K3, met by the light fence in `unlock`
        while !self.try_lock() {
            self.held.wait(HELD, (!is_seen).then_some(UNSEEN_WAIT));
        }
        self.waiters.fetch_sub(1, Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) {
        self.held.wake_one();
    }
}

#[cfg(not(blitzen_loom))]
mod chosen {
    use super::*;
    use std::cell::UnsafeCell;
    use std::fmt;
    use std::marker::PhantomData;
    use std::ops::{Deref, DerefMut};
    use std::panic::{RefUnwindSafe, UnwindSafe};

    /// A lock for short critical sections, without poison.
    ///
    /// ```
    /// use blitzen_util::lock::Lock;
    ///
    /// let count = Lock::new(1);
    /// *count.lock() += 1;
    /// assert_eq!(*count.lock(), 2);
    /// ```
    pub type Lock<T> = LockOf<T, LockWord>;

    /// The guard of a [`Lock`].
    pub type LockGuard<'a, T> = LockGuardOf<'a, T, LockWord>;

    /// A lock for short critical sections, without poison, which is cheap to release after
    /// [`prepare`](crate::asymmetric_fence::prepare). To sleep for it takes a system call more than for a
    /// [`Lock`].
    ///
    /// ```
    /// use blitzen_util::lock::AsymmetricLock;
    ///
    /// let count = AsymmetricLock::new(1);
    /// *count.lock() += 1;
    /// assert_eq!(*count.lock(), 2);
    /// ```
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub type AsymmetricLock<T> = LockOf<T, AsymmetricWords>;

    /// The guard of an [`AsymmetricLock`].
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub type AsymmetricLockGuard<'a, T> = LockGuardOf<'a, T, AsymmetricWords>;

    // Elsewhere no fence is free, and std's lock is smaller than one with a stand-in for a futex.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub use crate::shim::{Mutex as AsymmetricLock, MutexGuard as AsymmetricLockGuard};

    /// A lock of the kind `R`.
    pub struct LockOf<T, R> {
        raw: R,
        value: UnsafeCell<T>,
    }

    // SAFETY: by the contract of `RawLock` one thread at a time reaches the value.
    unsafe impl<T: Send, R: RawLock + Sync> Sync for LockOf<T, R> {}
    // SAFETY: it owns the value.
    unsafe impl<T: Send, R: Send> Send for LockOf<T, R> {}

    // As for std's: what is locked is changed whole, so no panic shows it half done.
    impl<T, R> UnwindSafe for LockOf<T, R> {}
    impl<T, R> RefUnwindSafe for LockOf<T, R> {}

    impl<T> LockOf<T, LockWord> {
        /// Creates an unlocked lock.
        pub const fn new(value: T) -> Self {
            Self::of(LockWord::new(), value)
        }
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    impl<T> LockOf<T, AsymmetricWords> {
        /// Creates an unlocked lock.
        pub const fn new(value: T) -> Self {
            Self::of(AsymmetricWords::new(), value)
        }
    }

    impl<T, R> LockOf<T, R> {
        pub(super) const fn of(raw: R, value: T) -> Self {
            let value = UnsafeCell::new(value);
            Self { raw, value }
        }

        /// Returns the value without locking: `&mut` excludes any other access.
        pub fn get_mut(&mut self) -> &mut T {
            self.value.get_mut()
        }

        #[cfg(test)]
        pub(super) fn raw(&self) -> &R {
            &self.raw
        }
    }

    impl<T, R: RawLock> LockOf<T, R> {
        /// Blocks until the lock is held.
        #[inline]
        pub fn lock(&self) -> LockGuardOf<'_, T, R> {
            self.raw.lock();
            self.guard()
        }

        /// Acquires the lock if no thread holds it.
        ///
        /// ```
        /// let lock = blitzen_util::lock::Lock::new(1);
        /// let held = lock.lock();
        /// assert!(lock.try_lock().is_none());
        /// drop(held);
        /// assert_eq!(lock.try_lock().as_deref(), Some(&1));
        /// ```
        #[inline]
        pub fn try_lock(&self) -> Option<LockGuardOf<'_, T, R>> {
            self.raw.try_lock().then(|| self.guard())
        }

        /// The guard of a thread that has acquired the lock.
        #[inline]
        fn guard(&self) -> LockGuardOf<'_, T, R> {
            LockGuardOf {
                lock: self,
                not_send: PhantomData,
            }
        }
    }

    /// The guard of a [`LockOf`].
    #[must_use = "dropping this releases the lock"]
    pub struct LockGuardOf<'a, T, R: RawLock> {
        lock: &'a LockOf<T, R>,
        /// Released on the thread that acquired it.
        not_send: PhantomData<*const ()>,
    }

    // SAFETY: a shared guard gives out `&T`.
    unsafe impl<T: Sync, R: RawLock + Sync> Sync for LockGuardOf<'_, T, R> {}

    impl<T, R: RawLock> Deref for LockGuardOf<'_, T, R> {
        type Target = T;

        #[inline]
        fn deref(&self) -> &T {
            // SAFETY: the lock is held.
            unsafe { &*self.lock.value.get() }
        }
    }

    impl<T, R: RawLock> DerefMut for LockGuardOf<'_, T, R> {
        #[inline]
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: the lock is held, and this borrows its only guard.
            unsafe { &mut *self.lock.value.get() }
        }
    }

    impl<T, R: RawLock> Drop for LockGuardOf<'_, T, R> {
        #[inline]
        fn drop(&mut self) {
            self.lock.raw.unlock();
        }
    }

    impl<T, R> fmt::Debug for LockOf<T, R> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Lock").finish_non_exhaustive()
        }
    }

    impl<T: fmt::Debug, R: RawLock> fmt::Debug for LockGuardOf<'_, T, R> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            fmt::Debug::fmt(&**self, f)
        }
    }
}

/// Models of what is done under a lock use loom's own; the words have models of
/// their own.
#[cfg(blitzen_loom)]
mod chosen {
    pub use crate::shim::{
        Mutex as AsymmetricLock, Mutex as Lock, MutexGuard as AsymmetricLockGuard,
        MutexGuard as LockGuard,
    };
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    use super::chosen::LockOf;
    use crate::asymmetric_fence::prepare;

    fn one_thread_holds_it_at_a_time<R: RawLock + Send + Sync + 'static>(raw: R) {
        let count = Arc::new(LockOf::of(raw, 0_u64));
        let rounds = if cfg!(miri) { 50 } else { 50_000 };
        let add = |count: Arc<LockOf<u64, R>>| {
            move || {
                for _ in 0..rounds {
                    *count.lock() += 1;
                }
            }
        };
        let threads: Vec<_> = (0..4).map(|_| thread::spawn(add(count.clone()))).collect();
        prepare(); // while they run, unless another test has done so
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*count.lock(), 4 * rounds);
    }

    #[test]
    fn one_thread_holds_a_lock_at_a_time() {
        one_thread_holds_it_at_a_time(LockWord::new());
    }

    #[test]
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn one_thread_holds_an_asymmetric_lock_at_a_time() {
        one_thread_holds_it_at_a_time(AsymmetricWords::new());
        one_thread_holds_it_at_a_time(AsymmetricWords::new());
    }

    /// Two threads sleep, and each gets the lock in the end.
    fn threads_that_wait_get_it<R: RawLock + Send + Sync + 'static>(
        raw: R,
        waiting: fn(&R) -> bool,
    ) {
        let lock = Arc::new(LockOf::of(raw, 0_u32));
        let held = lock.lock();
        let add = |lock: Arc<LockOf<u32, R>>| thread::spawn(move || *lock.lock() += 1);
        let others = [add(lock.clone()), add(lock.clone())];
        while !waiting(lock.raw()) {
            thread::yield_now();
        }
        assert_eq!(*held, 0);
        drop(held);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(*lock.lock(), 2);
    }

    #[test]
    fn threads_that_wait_for_a_lock_get_it() {
        threads_that_wait_get_it(LockWord::new(), LockWord::has_waiters);
    }

    #[test]
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn threads_that_wait_for_an_asymmetric_lock_get_it() {
        let both_wait = |lock: &AsymmetricWords| lock.waiters.load(Relaxed) == 2;
        threads_that_wait_get_it(AsymmetricWords::new(), both_wait);
        prepare();
        threads_that_wait_get_it(AsymmetricWords::new(), both_wait);
    }

    #[test]
    fn a_panic_releases_it() {
        let lock = Arc::new(Lock::new(1));
        let other = lock.clone();
        let panicked = thread::spawn(move || {
            let _held = other.lock();
            panic!("under the lock");
        });
        assert!(panicked.join().is_err());
        assert_eq!(*lock.lock(), 1);
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::shim::cell::UnsafeCell;
    use crate::shim::{Arc, thread};

    struct Counter<R>(R, UnsafeCell<u32>);

    // SAFETY: the cell is touched under the lock.
    unsafe impl<R: RawLock + Sync> Sync for Counter<R> {}

    fn check<R: RawLock + Send + Sync + 'static>(new: fn() -> R, threads: usize) {
        loom::model(move || {
            let counter = Arc::new(Counter(new(), UnsafeCell::new(0)));
            let add = |counter: &Counter<R>| {
                counter.0.lock();
                // SAFETY: under the lock; loom tells otherwise.
                counter.1.with_mut(|count| unsafe { *count += 1 });
                counter.0.unlock();
            };
            let others: Vec<_> = (1..threads)
                .map(|_| {
                    let counter = counter.clone();
                    thread::spawn(move || add(&counter))
                })
                .collect();
            add(&counter);
            for other in others {
                other.join().unwrap();
            }
            counter.0.lock();
            // SAFETY: under the lock.
            let count = counter.1.with(|count| unsafe { *count });
            assert_eq!(count as usize, threads);
        });
    }

    #[test]
    fn two_threads_take_turns() {
        check(LockWord::new, 2);
    }

    #[test]
    fn two_threads_that_wait_both_get_it() {
        check(LockWord::new, 3);
    }

    #[test]
    fn two_threads_take_turns_with_an_asymmetric_lock() {
        check(AsymmetricWords::new, 2);
    }

    #[test]
    fn two_threads_that_wait_both_get_an_asymmetric_lock() {
        check(AsymmetricWords::new, 3);
    }
}
