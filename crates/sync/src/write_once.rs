//! A value that is written once, and read by any thread from then on: what
//! [`OnceCell`](crate::OnceCell) and [`SetOnce`](crate::SetOnce) are built on.
//!
//! O1. The value is initialised exactly when the semaphore is closed. It is written
//!     before the close: by the holder of the only permit, who closes the semaphore
//!     instead of returning the permit, or, where there is no permit, under the lock
//!     of the semaphore.

use std::cell::UnsafeCell;
use std::future::Future;
use std::mem::{ManuallyDrop, MaybeUninit};

use blitzen_util::shim::const_unless_loom;
use blitzen_util::wait::WaitKind;

use crate::batch_semaphore::{AcquireFuture, AcquireTarget, BatchSemaphore};
use crate::semaphore::{AcquireError, TryAcquireError};

/// A cell for one value: with one permit, whose holder writes it, or with none, for
/// [`set`](WriteOnce::set) and [`wait`](WriteOnce::wait).
pub(crate) struct WriteOnce<T, const PERMITS: usize> {
    semaphore: BatchSemaphore,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value moves with the cell.
unsafe impl<T: Send, const PERMITS: usize> Send for WriteOnce<T, PERMITS> {}
// SAFETY: any thread may read the value (`Sync`), and one may write what another
// drops (`Send`); O1 orders the write before the reads.
unsafe impl<T: Send + Sync, const PERMITS: usize> Sync for WriteOnce<T, PERMITS> {}

impl<T, const PERMITS: usize> WriteOnce<T, PERMITS> {
    const_unless_loom! {
        /// An empty cell.
        pub(crate) fn new() -> Self {
            Self {
                semaphore: BatchSemaphore::new(PERMITS),
                value: UnsafeCell::new(MaybeUninit::uninit()),
            }
        }
    }

    const_unless_loom! {
        /// A cell that holds `value`.
        pub(crate) fn new_set(value: T) -> Self {
            Self {
                semaphore: BatchSemaphore::new_closed(),
                value: UnsafeCell::new(MaybeUninit::new(value)),
            }
        }
    }

    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.semaphore.is_closed()
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: O1, and nobody writes it again.
        (self.is_set()).then(|| unsafe { self.get_unchecked() })
    }

    /// # Safety
    /// The caller has seen the semaphore closed.
    #[inline(always)]
    unsafe fn get_unchecked(&self) -> &T {
        // SAFETY: O1, and nobody writes it again.
        unsafe { (*self.value.get()).assume_init_ref() }
    }

    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: O1, and `&mut self` excludes all others.
        (self.is_set()).then(|| unsafe { self.value.get_mut().assume_init_mut() })
    }

    pub(crate) fn into_inner(self) -> Option<T> {
        let this = ManuallyDrop::new(self);
        // SAFETY: O1; read once, since `this` is not dropped.
        (this.is_set()).then(|| unsafe { (*this.value.get()).assume_init_read() })
    }
}

impl<T> WriteOnce<T, 0> {
    /// Writes `value`, and wakes all waiters. Returns it if the cell is set.
    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        if self.is_set() {
            return Err(value);
        }
        let mut value = Some(value);
        self.semaphore.close_once(|| {
            if let Some(value) = value.take() {
                // SAFETY: O1, the lock is held and the semaphore open: nobody reads.
                unsafe { (*self.value.get()).write(value) };
            }
        });
        value.map_or(Ok(()), Err)
    }

    /// Waits for the value.
    #[inline]
    pub(crate) fn wait(&self) -> impl Future<Output = &T> {
        AcquireFuture::new(WaitTarget(self))
    }
}

impl<T> WriteOnce<T, 1> {
    /// Takes the permit, if it is there.
    pub(crate) fn try_begin(&self) -> Result<WritePermit<'_, T>, TryAcquireError> {
        self.semaphore.try_acquire(1)?;
        Ok(WritePermit(self))
    }

    /// Waits for the permit, or for the value.
    pub(crate) fn begin(&self) -> impl Future<Output = Begun<'_, T>> {
        AcquireFuture::new(BeginTarget(self))
    }
}

impl<T, const PERMITS: usize> Drop for WriteOnce<T, PERMITS> {
    fn drop(&mut self) {
        if self.is_set() {
            // SAFETY: O1, and this is the last use.
            unsafe { self.value.get_mut().assume_init_drop() };
        }
    }
}

/// The right to write the value. If it is dropped, the next caller gets it.
pub(crate) struct WritePermit<'a, T>(&'a WriteOnce<T, 1>);

impl<'a, T> WritePermit<'a, T> {
    /// Writes the value, and wakes all waiters.
    pub(crate) fn write(self, value: T) -> &'a T {
        let cell = ManuallyDrop::new(self).0; // O1: the permit is not returned
        // SAFETY: O1, the holder of the permit is alone with the empty cell.
        unsafe { (*cell.value.get()).write(value) };
        cell.semaphore.close();
        // SAFETY: just closed.
        unsafe { cell.get_unchecked() }
    }
}

impl<T> Drop for WritePermit<'_, T> {
    fn drop(&mut self) {
        self.0.semaphore.release(1);
    }
}

/// The result of [`WriteOnce::begin`].
pub(crate) enum Begun<'a, T> {
    Permit(WritePermit<'a, T>),
    Value(&'a T),
}

struct BeginTarget<'a, T>(&'a WriteOnce<T, 1>);

// SAFETY: both are fixed when the target is made.
unsafe impl<'a, T> AcquireTarget for BeginTarget<'a, T> {
    const WAIT: WaitKind = WaitKind::OnceCell;
    const SOURCE: &'static str = "OnceCell::get_or_init";
    type Output = Begun<'a, T>;

    #[inline(always)]
    fn semaphore(&self) -> &BatchSemaphore {
        &self.0.semaphore
    }

    #[inline(always)]
    fn expected_permits(&self) -> usize {
        1
    }

    fn settle(self, outcome: Result<(), AcquireError>) -> Self::Output {
        match outcome {
            Ok(()) => Begun::Permit(WritePermit(self.0)),
            // SAFETY: the error says that the semaphore is closed.
            Err(_closed) => Begun::Value(unsafe { self.0.get_unchecked() }),
        }
    }
}

struct WaitTarget<'a, T>(&'a WriteOnce<T, 0>);

// SAFETY: both are fixed when the target is made.
unsafe impl<'a, T> AcquireTarget for WaitTarget<'a, T> {
    const WAIT: WaitKind = WaitKind::SetOnce;
    const SOURCE: &'static str = "SetOnce::wait";
    type Output = &'a T;

    #[inline(always)]
    fn semaphore(&self) -> &BatchSemaphore {
        &self.0.semaphore
    }

    #[inline(always)]
    fn expected_permits(&self) -> usize {
        0
    }

    #[inline(always)]
    fn settle(self, outcome: Result<(), AcquireError>) -> &'a T {
        debug_assert!(outcome.is_err(), "there is no permit");
        // SAFETY: the error says that the semaphore is closed.
        unsafe { self.0.get_unchecked() }
    }
}
