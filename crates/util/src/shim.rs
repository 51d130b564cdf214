//! std or loom, chosen once: everything that is modelled takes its atomics,
//! cells, locks and threads from here.
//!
//! Two types differ from std's so that both worlds offer the same calls:
//! [`cell::UnsafeCell`] lends its pointer to a closure, and [`Mutex`] has no
//! poison (a panic under one of our locks leaves the data as valid as before).

/// A function that is `const`, except under loom, whose types have no such constructors.
#[macro_export]
macro_rules! const_unless_loom {
    ($(#[$attribute:meta])* $vis:vis fn $($rest:tt)*) => {
        #[cfg(not(blitzen_loom))]
        $(#[$attribute])*
        $vis const fn $($rest)*

        #[cfg(blitzen_loom)]
        $(#[$attribute])*
        $vis fn $($rest)*
    };
}

pub use const_unless_loom;

#[cfg(not(blitzen_loom))]
pub use std::{hint, sync::Arc, thread};

#[cfg(blitzen_loom)]
pub use loom::{hint, sync::Arc, thread};

/// Atomic types and fences.
pub mod atomic {
    #[cfg(not(blitzen_loom))]
    pub use std::sync::atomic::{
        AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
        fence,
    };

    #[cfg(blitzen_loom)]
    pub use loom::sync::atomic::{
        AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
        fence,
    };
}

/// Whether this build is a loom model, in which buffers have to be tiny.
pub const MODEL: bool = cfg!(blitzen_loom);

/// A load that models explore in full.
///
/// loom 0.7 remembers one last access per atomic. Where one thread loads and
/// another loads and then swaps, the second load hides the first, and the order
/// in which the swap comes first is never tried. loom does remember a failing
/// compare-exchange, so under loom a peek makes one before it loads. Loads that race
/// with load-and-swap loops should be peeks; outside loom there is no difference.
pub trait Peek {
    /// What is loaded.
    type Value;

    /// Loads the value.
    fn peek(&self, order: atomic::Ordering) -> Self::Value;
}

macro_rules! peek {
    ($($atomic:ident: $value:ty),*) => {$(
        impl Peek for atomic::$atomic {
            type Value = $value;

            #[inline(always)]
            fn peek(&self, order: atomic::Ordering) -> $value {
                #[cfg(blitzen_loom)]
                let _ = self.compare_exchange(
                    <$value>::MAX,
                    <$value>::MAX,
                    atomic::Ordering::Relaxed,
                    atomic::Ordering::Relaxed,
                );
                self.load(order)
            }
        }
    )*};
}

peek!(AtomicU8: u8, AtomicU32: u32, AtomicU64: u64, AtomicUsize: usize);

/// Interior mutability whose accesses loom can check.
pub mod cell {
    #[cfg(blitzen_loom)]
    pub use loom::cell::UnsafeCell;

    /// A cell whose content is reached through a raw pointer lent to a closure.
    #[cfg(not(blitzen_loom))]
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub struct UnsafeCell<T: ?Sized>(std::cell::UnsafeCell<T>);

    #[cfg(not(blitzen_loom))]
    impl<T> UnsafeCell<T> {
        /// Wraps a value.
        pub const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        /// Unwraps the value.
        pub fn into_inner(self) -> T {
            self.0.into_inner()
        }
    }

    #[cfg(not(blitzen_loom))]
    impl<T: ?Sized> UnsafeCell<T> {
        /// Lends the content for reading.
        #[inline(always)]
        pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        /// Lends the content for writing.
        #[inline(always)]
        pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }
}

/// Has loom check the order in which something is read and written that is no cell, such as what a
/// pointer in an atomic points to. Outside loom it has no size and does nothing.
#[derive(Debug, Default)]
pub struct AccessCheck {
    #[cfg(blitzen_loom)]
    cell: cell::UnsafeCell<()>,
}

// SAFETY: the cell has no content; loom panics if two accesses to it race.
#[cfg(blitzen_loom)]
unsafe impl Sync for AccessCheck {}

impl AccessCheck {
    /// Nothing was written yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes a read, which has to come after the last write.
    #[inline(always)]
    pub fn read(&self) {
        #[cfg(blitzen_loom)]
        self.cell.with(|_| ());
    }

    /// Notes a write, which has to come after everything else.
    #[inline(always)]
    pub fn write(&self) {
        #[cfg(blitzen_loom)]
        self.cell.with_mut(|_| ());
    }
}

#[cfg(not(blitzen_loom))]
use std::sync as chosen;

#[cfg(blitzen_loom)]
use loom::sync as chosen;

/// The guard of a [`Mutex`].
pub type MutexGuard<'a, T> = chosen::MutexGuard<'a, T>;

/// A lock without poison.
#[derive(Debug, Default)]
pub struct Mutex<T>(chosen::Mutex<T>);

impl<T> Mutex<T> {
    const_unless_loom! {
        /// An unlocked mutex.
        pub fn new(value: T) -> Self {
            Self(chosen::Mutex::new(value))
        }
    }

    /// Blocks until the lock is held.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        match self.0.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        use std::sync::TryLockError::{Poisoned, WouldBlock};
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(WouldBlock) => None,
        }
    }

    /// Returns the value without locking: `&mut` excludes any other access.
    pub fn get_mut(&mut self) -> &mut T {
        match self.0.get_mut() {
            Ok(value) => value,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// Unwraps the value.
    pub fn into_inner(self) -> T {
        match self.0.into_inner() {
            Ok(value) => value,
            Err(poisoned) => poisoned.into_inner(),
        }
    }
}

/// The guard of an [`RwLock`] held for reading.
pub type RwLockReadGuard<'a, T> = chosen::RwLockReadGuard<'a, T>;

/// The guard of an [`RwLock`] held for writing.
pub type RwLockWriteGuard<'a, T> = chosen::RwLockWriteGuard<'a, T>;

/// A lock for many readers or one writer, without poison.
#[derive(Debug, Default)]
pub struct RwLock<T>(chosen::RwLock<T>);

impl<T> RwLock<T> {
    /// An unlocked lock.
    pub fn new(value: T) -> Self {
        Self(chosen::RwLock::new(value))
    }

    /// Blocks until no writer holds the lock.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        match self.0.read() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// Blocks until nobody holds the lock.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        match self.0.write() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }
}

/// A condition variable for [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(chosen::Condvar);

impl Condvar {
    const_unless_loom! {
        /// Creates a condition variable.
        pub fn new() -> Self {
            Self(chosen::Condvar::new())
        }
    }

    /// Releases the lock and waits; may return for no reason.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        match self.0.wait(guard) {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// Like [`wait`](Self::wait), for at most `timeout`; returns true if that ran out.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: std::time::Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        match self.0.wait_timeout(guard, timeout) {
            Ok((guard, timed)) => (guard, timed.timed_out()),
            Err(poisoned) => {
                let (guard, timed) = poisoned.into_inner();
                (guard, timed.timed_out())
            }
        }
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes every waiter.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A thread-local with a constant initial value; of loom's threads under loom,
/// which all run on one thread of the system.
#[macro_export]
macro_rules! thread_local_const {
    ($($(#[$attribute:meta])* $vis:vis static $name:ident: $type:ty = $init:expr;)*) => {
        $($crate::thread_local_chosen! {
            $(#[$attribute])* $vis static $name: $type = $init;
        })*
    };
}

#[cfg(not(blitzen_loom))]
#[doc(hidden)]
#[macro_export]
macro_rules! thread_local_chosen {
    ($(#[$attribute:meta])* $vis:vis static $name:ident: $type:ty = $init:expr;) => {
        ::std::thread_local! {
            $(#[$attribute])* $vis static $name: $type = const { $init };
        }
    };
}

#[cfg(blitzen_loom)]
#[doc(hidden)]
#[macro_export]
macro_rules! thread_local_chosen {
    ($(#[$attribute:meta])* $vis:vis static $name:ident: $type:ty = $init:expr;) => {
        $crate::loom::thread_local! {
            $(#[$attribute])* $vis static $name: $type = $init;
        }
    };
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::atomic::AtomicUsize;
    use super::atomic::Ordering::{AcqRel, Acquire, Relaxed};
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    #[test]
    fn a_peek_meets_a_load_and_swap_in_both_orders() {
        let seen = std::sync::Arc::new(Mutex::new(BTreeSet::new()));
        let all = seen.clone();
        loom::model(move || {
            let word = Arc::new(AtomicUsize::new(0));
            let other = word.clone();
            let thread = thread::spawn(move || {
                other.peek(Relaxed);
                other.fetch_add(1, AcqRel);
            });
            all.lock().unwrap().insert(word.peek(Acquire));
            thread.join().unwrap();
        });
        assert_eq!(*seen.lock().unwrap(), BTreeSet::from([0, 1]));
    }
}
