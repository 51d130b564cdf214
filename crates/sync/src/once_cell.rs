//! A value written once, by whoever needs it first.
//!
//! O1. The value is there exactly when the single permit's counter is closed. It
//!     is written by the holder of the permit, who closes the counter instead of
//!     giving the permit back.

use std::cell::UnsafeCell;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::mem::{ManuallyDrop, MaybeUninit};

use crate::batch_semaphore::{AcquireFuture, AcquireTarget, BatchSemaphore};
use crate::semaphore::{AcquireError, TryAcquireError};

/// A cell that is initialized once, also by an asynchronous function.
///
/// # Examples
///
/// ```
/// use blitzen::sync::OnceCell;
///
/// static CONFIG: OnceCell<String> = OnceCell::const_new();
///
/// async fn load() -> String {
///     "loaded".into()
/// }
///
/// # futures::executor::block_on(async {
/// assert_eq!(CONFIG.get_or_init(load).await, "loaded");
/// assert_eq!(CONFIG.get().unwrap(), "loaded");
/// # });
/// ```
pub struct OnceCell<T> {
    semaphore: BatchSemaphore,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value moves with the cell.
unsafe impl<T: Send> Send for OnceCell<T> {}
// SAFETY: any thread may read the value (`Sync`), and one may write what another
// drops (`Send`); O1 orders the write before the reads.
unsafe impl<T: Send + Sync> Sync for OnceCell<T> {}

impl<T> OnceCell<T> {
    /// Creates an empty cell.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::OnceCell;
    /// assert_eq!(OnceCell::<i32>::new().get(), None);
    /// ```
    pub fn new() -> Self {
        Self {
            semaphore: BatchSemaphore::new(1),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    const_unless_loom! {
        /// Creates an empty cell, for use in a `static`.
        ///
        /// # Examples
        ///
        /// ```
        /// use blitzen::sync::OnceCell;
        /// static PORT: OnceCell<u16> = OnceCell::const_new();
        /// assert!(!PORT.initialized());
        /// ```
        pub fn const_new() -> Self {
            Self {
                semaphore: BatchSemaphore::new(1),
                value: UnsafeCell::new(MaybeUninit::uninit()),
            }
        }
    }

    /// Creates a cell that is initialized if `value` is `Some`.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::OnceCell;
    /// assert_eq!(OnceCell::new_with(Some(5)).get(), Some(&5));
    /// ```
    pub fn new_with(value: Option<T>) -> Self {
        match value {
            Some(value) => Self::from(value),
            None => Self::new(),
        }
    }

    const_unless_loom! {
        /// Creates an initialized cell, for use in a `static`.
        ///
        /// # Examples
        ///
        /// ```
        /// use blitzen::sync::OnceCell;
        /// static PORT: OnceCell<u16> = OnceCell::const_new_with(80);
        /// assert_eq!(PORT.get(), Some(&80));
        /// ```
        pub fn const_new_with(value: T) -> Self {
            Self {
                semaphore: BatchSemaphore::new_closed(),
                value: UnsafeCell::new(MaybeUninit::new(value)),
            }
        }
    }

    /// Returns `true` if the cell is initialized.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::OnceCell;
    /// assert!(OnceCell::from(1).initialized());
    /// ```
    #[inline]
    pub fn initialized(&self) -> bool {
        self.semaphore.is_closed()
    }

    /// Returns the value, or `None` if the cell is empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::OnceCell;
    /// let cell = OnceCell::new();
    /// assert_eq!(cell.get(), None);
    /// cell.set(1).unwrap();
    /// assert_eq!(cell.get(), Some(&1));
    /// ```
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: O1, and nobody writes it again.
        self.initialized()
            .then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// Returns a mutable reference to the value, or `None` if the cell is empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::OnceCell;
    /// let mut cell = OnceCell::from(1);
    /// *cell.get_mut().unwrap() = 2;
    /// assert_eq!(cell.get(), Some(&2));
    /// ```
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: O1, and `&mut self` excludes all others.
        self.initialized()
            .then(|| unsafe { self.value.get_mut().assume_init_mut() })
    }

    /// Initializes the cell with `value`, if it is empty and no task is
    /// initializing it.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::{OnceCell, SetError};
    /// let cell = OnceCell::new();
    /// assert_eq!(cell.set(1), Ok(()));
    /// assert_eq!(cell.set(2), Err(SetError::AlreadyInitializedError(2)));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns `value` in the error if the cell is initialized or being
    /// initialized.
    pub fn set(&self, value: T) -> Result<(), SetError<T>> {
        match self.semaphore.try_acquire(1) {
            Ok(()) => {
                InitPermit(self).init(value);
                Ok(())
            }
            Err(TryAcquireError::Closed) => Err(SetError::AlreadyInitializedError(value)),
            Err(TryAcquireError::NoPermits) => Err(SetError::InitializingError(value)),
        }
    }

    /// Returns the value, after initializing the cell with the future of `f` if it
    /// is empty.
    ///
    /// If several tasks call this at once, one runs its `f` and the others wait for
    /// it.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::OnceCell;
    /// # futures::executor::block_on(async {
    /// let cell = OnceCell::new();
    /// assert_eq!(*cell.get_or_init(|| async { 1 }).await, 1);
    /// assert_eq!(*cell.get_or_init(|| async { 2 }).await, 1);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future that runs its `f` is dropped or panics, the cell stays empty,
    /// and the next caller runs its own.
    pub async fn get_or_init<F, Fut>(&self, f: F) -> &T
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = T>,
    {
        if let Some(value) = self.get() {
            return value;
        }
        match AcquireFuture::new(InitTarget(self)).await {
            InitTurn::Init(permit) => {
                let value = f().await;
                permit.init(value)
            }
            InitTurn::Done(value) => value,
        }
    }

    /// Returns the value, after initializing the cell with the future of `f` if it
    /// is empty.
    ///
    /// The cell stays empty if the future returns an error.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::OnceCell;
    /// # futures::executor::block_on(async {
    /// let cell = OnceCell::new();
    /// assert_eq!(cell.get_or_try_init(|| async { Err("no luck") }).await, Err("no luck"));
    /// assert_eq!(cell.get_or_try_init(|| async { Ok::<_, ()>(2) }).await, Ok(&2));
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// As for [`get_or_init`](Self::get_or_init).
    ///
    /// # Errors
    ///
    /// Returns the error of this caller's `f`. The next caller runs its own.
    pub async fn get_or_try_init<E, F, Fut>(&self, f: F) -> Result<&T, E>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        if let Some(value) = self.get() {
            return Ok(value);
        }
        match AcquireFuture::new(InitTarget(self)).await {
            InitTurn::Init(permit) => {
                let value = f().await?;
                Ok(permit.init(value))
            }
            InitTurn::Done(value) => Ok(value),
        }
    }

    /// Returns the value, or `None` if the cell is empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::OnceCell;
    /// assert_eq!(OnceCell::from(1).into_inner(), Some(1));
    /// ```
    pub fn into_inner(self) -> Option<T> {
        let this = ManuallyDrop::new(self);
        // SAFETY: O1; read once, since `this` is not dropped.
        this.initialized()
            .then(|| unsafe { (*this.value.get()).assume_init_read() })
    }

    /// Takes the value out, and leaves the cell empty.
    ///
    /// Returns `None` if it was empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::OnceCell;
    /// let mut cell = OnceCell::from(1);
    /// assert_eq!(cell.take(), Some(1));
    /// assert_eq!(cell.get(), None);
    /// ```
    pub fn take(&mut self) -> Option<T> {
        std::mem::take(self).into_inner()
    }
}

impl<T> Drop for OnceCell<T> {
    fn drop(&mut self) {
        if self.initialized() {
            // SAFETY: O1, and this is the last use.
            unsafe { self.value.get_mut().assume_init_drop() };
        }
    }
}

impl<T> From<T> for OnceCell<T> {
    fn from(value: T) -> Self {
        Self {
            semaphore: BatchSemaphore::new_closed(),
            value: UnsafeCell::new(MaybeUninit::new(value)),
        }
    }
}

impl<T> Default for OnceCell<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Clone> Clone for OnceCell<T> {
    fn clone(&self) -> Self {
        Self::new_with(self.get().cloned())
    }
}

impl<T: PartialEq> PartialEq for OnceCell<T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceCell<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceCell")
            .field("value", &self.get())
            .finish()
    }
}

/// Proof that the caller holds the permit; spending it fills the cell.
struct InitPermit<'a, T>(&'a OnceCell<T>);

impl<'a, T> InitPermit<'a, T> {
    fn init(self, value: T) -> &'a T {
        let cell = ManuallyDrop::new(self).0; // O1: the permit is not given back
        // SAFETY: O1, the holder of the permit is alone with the empty cell.
        unsafe { (*cell.value.get()).write(value) };
        cell.semaphore.close();
        // SAFETY: written above, and nobody writes it again.
        unsafe { (*cell.value.get()).assume_init_ref() }
    }
}

impl<T> Drop for InitPermit<'_, T> {
    /// The value was not made: the next one tries.
    fn drop(&mut self) {
        self.0.semaphore.release(1);
    }
}

struct InitTarget<'a, T>(&'a OnceCell<T>);

enum InitTurn<'a, T> {
    Init(InitPermit<'a, T>),
    Done(&'a T),
}

// SAFETY: both are fixed when the target is made.
unsafe impl<'a, T> AcquireTarget for InitTarget<'a, T> {
    type Output = InitTurn<'a, T>;

    fn semaphore(&self) -> &BatchSemaphore {
        &self.0.semaphore
    }

    fn count(&self) -> usize {
        1
    }

    #[inline(always)]
    fn expected_permits(&self) -> usize {
        1
    }

    fn settle(self, outcome: Result<(), AcquireError>) -> Self::Output {
        match outcome {
            Ok(()) => InitTurn::Init(InitPermit(self.0)),
            // SAFETY: closed, so by O1 it is there.
            Err(_) => InitTurn::Done(unsafe { (*self.0.value.get()).assume_init_ref() }),
        }
    }
}

/// The error of [`OnceCell::set`].
///
/// Contains the value.
///
/// # Examples
///
/// ```
/// use blitzen::sync::{OnceCell, SetError};
/// let error = OnceCell::from(1).set(2).unwrap_err();
/// assert!(error.is_already_init_err());
/// assert_eq!(error.to_string(), "AlreadyInitializedError");
/// let SetError::AlreadyInitializedError(2) = error else { unreachable!() };
/// ```
#[derive(Debug, PartialEq, Eq)]
pub enum SetError<T> {
    /// The cell is initialized.
    AlreadyInitializedError(T),
    /// A task is initializing the cell.
    InitializingError(T),
}

impl<T> SetError<T> {
    /// Returns `true` if the cell was initialized.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::SetError;
    /// assert!(SetError::AlreadyInitializedError(1).is_already_init_err());
    /// ```
    pub fn is_already_init_err(&self) -> bool {
        matches!(self, Self::AlreadyInitializedError(_))
    }

    /// Returns `true` if a task was initializing the cell.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::SetError;
    /// assert!(SetError::InitializingError(1).is_initializing_err());
    /// ```
    pub fn is_initializing_err(&self) -> bool {
        matches!(self, Self::InitializingError(_))
    }
}

impl<T> fmt::Display for SetError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AlreadyInitializedError(_) => "AlreadyInitializedError",
            Self::InitializingError(_) => "InitializingError",
        })
    }
}

impl<T: fmt::Debug> Error for SetError<T> {}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::batch_semaphore::model::poll_once;
    use blitzen_util::shim::cell::UnsafeCell as Watched;
    use blitzen_util::shim::{Arc, thread};
    use loom::future::block_on;
    use std::future::pending;

    fn value(number: i32) -> Watched<i32> {
        let value = Watched::new(0);
        // SAFETY: nobody else has it; readers must come after, says loom.
        value.with_mut(|value| unsafe { *value = number });
        value
    }

    fn number(value: &Watched<i32>) -> i32 {
        // SAFETY: nobody changes it any more; loom objects if it was not published.
        value.with(|value| unsafe { *value })
    }

    #[test]
    fn of_two_who_fill_one_does_and_both_see_it() {
        loom::model(|| {
            let cell = Arc::new(OnceCell::new());
            let other = thread::spawn({
                let cell = cell.clone();
                move || number(block_on(cell.get_or_init(|| async { value(1) })))
            });
            let mine = number(block_on(cell.get_or_init(|| async { value(2) })));
            assert_eq!(mine, other.join().unwrap());
            assert_eq!(cell.get().map(number), Some(mine));
        });
    }

    #[test]
    fn one_that_gives_up_leaves_the_cell_to_the_next() {
        loom::model(|| {
            let cell = Arc::new(OnceCell::new());
            let quitter = thread::spawn({
                let cell = cell.clone();
                move || {
                    let mut permit = Box::pin(cell.get_or_init(pending));
                    let _ = poll_once(permit.as_mut());
                }
            });
            let value = *block_on(cell.get_or_init(|| async { 2 })); // or a deadlock
            assert_eq!(value, 2);
            quitter.join().unwrap();
        });
    }

    #[test]
    fn set_meets_get_or_init() {
        loom::model(|| {
            let cell = Arc::new(OnceCell::new());
            let setter = thread::spawn({
                let cell = cell.clone();
                move || cell.set(value(1)).is_ok()
            });
            let seen = number(block_on(cell.get_or_init(|| async { value(2) })));
            assert_eq!(seen == 1, setter.join().unwrap());
        });
    }
}
