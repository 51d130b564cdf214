//! A lock of one word, for short critical sections with little contention.
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
//! Unlike std's it has no poison, whose bookkeeping takes as long as the lock itself.
//! [`shim::Mutex`](crate::shim::Mutex) has none either.

use crate::futex::Futex;
use crate::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::shim::hint;

pub use chosen::{Lock, LockGuard};

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

/// The word of a lock.
#[derive(Debug)]
struct Word(Futex);

impl Word {
    #[inline]
    fn try_lock(&self) -> bool {
        // Acquire, met by the Release in `unlock`.
        self.0
            .word()
            .compare_exchange(FREE, HELD, Acquire, Relaxed)
            .is_ok()
    }

    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.wait();
        }
    }

    #[cold]
    fn wait(&self) {
        let word = self.0.word();
        for _ in 0..SPINS {
            if word.load(Relaxed) == FREE && self.try_lock() {
                return;
            }
            hint::spin_loop();
        }
        // Acquire, met by the Release in `unlock`. K1.
        while word.swap(CONTENDED, Acquire) != FREE {
            self.0.wait(CONTENDED, None);
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

#[cfg(not(blitzen_loom))]
mod chosen {
    use super::*;
    use std::cell::UnsafeCell;
    use std::fmt;
    use std::marker::PhantomData;
    use std::ops::{Deref, DerefMut};

    /// A lock for short critical sections, without poison.
    ///
    /// ```
    /// use blitzen_util::lock::Lock;
    ///
    /// let count = Lock::new(1);
    /// *count.lock() += 1;
    /// assert_eq!(*count.lock(), 2);
    /// ```
    pub struct Lock<T> {
        word: Word,
        value: UnsafeCell<T>,
    }

    // SAFETY: it hands the value from one thread to another, to one at a time.
    unsafe impl<T: Send> Sync for Lock<T> {}
    // SAFETY: it owns the value.
    unsafe impl<T: Send> Send for Lock<T> {}

    impl<T> Lock<T> {
        /// Creates an unlocked lock.
        pub fn new(value: T) -> Self {
            Self {
                word: Word(Futex::new(FREE)),
                value: UnsafeCell::new(value),
            }
        }

        /// Blocks until the lock is held.
        #[inline]
        pub fn lock(&self) -> LockGuard<'_, T> {
            self.word.lock();
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
        pub fn try_lock(&self) -> Option<LockGuard<'_, T>> {
            self.word.try_lock().then(|| self.guard())
        }

        /// The guard of a thread that has acquired the lock.
        fn guard(&self) -> LockGuard<'_, T> {
            LockGuard {
                lock: self,
                not_send: PhantomData,
            }
        }
    }

    #[cfg(test)]
    impl<T> Lock<T> {
        pub(super) fn is_contended(&self) -> bool {
            self.word.0.word().load(Relaxed) == CONTENDED
        }
    }

    /// The guard of a [`Lock`].
    #[must_use = "dropping this releases the lock"]
    pub struct LockGuard<'a, T> {
        lock: &'a Lock<T>,
        /// Released on the thread that acquired it.
        not_send: PhantomData<*const ()>,
    }

    // SAFETY: a shared guard gives out `&T`.
    unsafe impl<T: Sync> Sync for LockGuard<'_, T> {}

    impl<T> Deref for LockGuard<'_, T> {
        type Target = T;

        #[inline]
        fn deref(&self) -> &T {
            // SAFETY: the lock is held.
            unsafe { &*self.lock.value.get() }
        }
    }

    impl<T> DerefMut for LockGuard<'_, T> {
        #[inline]
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: the lock is held, and this borrows its only guard.
            unsafe { &mut *self.lock.value.get() }
        }
    }

    impl<T> Drop for LockGuard<'_, T> {
        #[inline]
        fn drop(&mut self) {
            self.lock.word.unlock();
        }
    }

    impl<T> fmt::Debug for Lock<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Lock").finish_non_exhaustive()
        }
    }

    impl<T: fmt::Debug> fmt::Debug for LockGuard<'_, T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            fmt::Debug::fmt(&**self, f)
        }
    }
}

/// Models of what is done under a lock use loom's own; the word has a model of
/// its own.
#[cfg(blitzen_loom)]
mod chosen {
    pub use crate::shim::{Mutex as Lock, MutexGuard as LockGuard};
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn one_thread_holds_it_at_a_time() {
        let count = Arc::new(Lock::new(0_u64));
        let rounds = if cfg!(miri) { 50 } else { 50_000 };
        let add = |count: Arc<Lock<u64>>| {
            move || {
                for _ in 0..rounds {
                    *count.lock() += 1;
                }
            }
        };
        let threads: Vec<_> = (0..4).map(|_| thread::spawn(add(count.clone()))).collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*count.lock(), 4 * rounds);
    }

    #[test]
    fn a_thread_that_waits_gets_it() {
        let lock = Arc::new(Lock::new(false));
        let held = lock.lock();
        let other = thread::spawn({
            let lock = lock.clone();
            move || *lock.lock() = true
        });
        while !lock.is_contended() {
            thread::yield_now();
        }
        assert!(!*held);
        drop(held);
        other.join().unwrap();
        assert!(*lock.lock());
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

    struct Counter(Word, UnsafeCell<u32>);

    // SAFETY: the cell is touched under the lock.
    unsafe impl Sync for Counter {}

    fn check(threads: usize) {
        loom::model(move || {
            let counter = Arc::new(Counter(Word(Futex::new(FREE)), UnsafeCell::new(0)));
            let add = |counter: &Counter| {
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
        check(2);
    }

    #[test]
    fn two_threads_that_wait_both_get_it() {
        check(3);
    }
}
