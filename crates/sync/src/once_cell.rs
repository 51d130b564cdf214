//! A cell that is initialized by the first task that needs its value.

use blitzen_util::shim::const_unless_loom;
use std::error::Error;
use std::fmt;
use std::future::Future;

use crate::semaphore::TryAcquireError;
use crate::write_once::{Begun, WriteOnce};

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
pub struct OnceCell<T>(WriteOnce<T, 1>);

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
        Self(WriteOnce::new())
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
            Self(WriteOnce::new())
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
            Self(WriteOnce::new_set(value))
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
        self.0.is_set()
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
        self.0.get()
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
        self.0.get_mut()
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
        match self.0.try_begin() {
            Ok(permit) => {
                permit.write(value);
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
        match self.0.begin().await {
            Begun::Permit(permit) => {
                let value = f().await;
                permit.write(value)
            }
            Begun::Value(value) => value,
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
        match self.0.begin().await {
            Begun::Permit(permit) => {
                let value = f().await?;
                Ok(permit.write(value))
            }
            Begun::Value(value) => Ok(value),
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
        self.0.into_inner()
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

impl<T> From<T> for OnceCell<T> {
    fn from(value: T) -> Self {
        Self(WriteOnce::new_set(value))
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
    fn one_of_two_initializers_runs_and_both_see_its_value() {
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
