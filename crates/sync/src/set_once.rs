//! A cell that is set once, and waited for.

use blitzen_util::shim::const_unless_loom;
use std::error::Error;
use std::fmt;
use std::future::Future;

use crate::write_once::WriteOnce;

/// A cell that is set once, and whose value tasks can wait for.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use blitzen::sync::SetOnce;
///
/// # futures::executor::block_on(async {
/// let address = Arc::new(SetOnce::new());
/// std::thread::spawn({
///     let address = address.clone();
///     move || address.set("127.0.0.1:80")
/// });
/// assert_eq!(*address.wait().await, "127.0.0.1:80");
/// # });
/// ```
pub struct SetOnce<T>(WriteOnce<T, 0>);

impl<T> SetOnce<T> {
    /// Creates an empty cell.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::SetOnce;
    /// assert_eq!(SetOnce::<i32>::new().get(), None);
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
        /// use blitzen::sync::SetOnce;
        /// static PORT: SetOnce<u16> = SetOnce::const_new();
        /// assert!(!PORT.initialized());
        /// ```
        pub fn const_new() -> Self {
            Self(WriteOnce::new())
        }
    }

    /// Creates a cell that is set if `value` is `Some`.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::SetOnce;
    /// assert_eq!(SetOnce::new_with(Some(5)).get(), Some(&5));
    /// ```
    pub fn new_with(value: Option<T>) -> Self {
        match value {
            Some(value) => Self::from(value),
            None => Self::new(),
        }
    }

    const_unless_loom! {
        /// Creates a cell that is set to `value`, for use in a `static`.
        ///
        /// # Examples
        ///
        /// ```
        /// use blitzen::sync::SetOnce;
        /// static PORT: SetOnce<u16> = SetOnce::const_new_with(80);
        /// assert_eq!(PORT.get(), Some(&80));
        /// ```
        pub fn const_new_with(value: T) -> Self {
            Self(WriteOnce::new_set(value))
        }
    }

    /// Returns `true` if the cell is set.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::SetOnce;
    /// assert!(SetOnce::from(1).initialized());
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
    /// use blitzen::sync::SetOnce;
    /// let cell = SetOnce::new();
    /// assert_eq!(cell.get(), None);
    /// cell.set(1).unwrap();
    /// assert_eq!(cell.get(), Some(&1));
    /// ```
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.0.get()
    }

    /// Sets the cell to `value` if it is empty, and wakes all tasks that wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::{SetOnce, SetOnceError};
    /// let cell = SetOnce::new();
    /// assert_eq!(cell.set(1), Ok(()));
    /// assert_eq!(cell.set(2), Err(SetOnceError(2)));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns `value` in the error if the cell is set already.
    pub fn set(&self, value: T) -> Result<(), SetOnceError<T>> {
        self.0.set(value).map_err(SetOnceError)
    }

    /// Waits until the cell is set, and returns the value.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::SetOnce;
    /// # futures::executor::block_on(async {
    /// let cell = SetOnce::from(1);
    /// assert_eq!(*cell.wait().await, 1);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe.
    #[inline]
    pub fn wait(&self) -> impl Future<Output = &T> {
        self.0.wait()
    }

    /// Returns the value, or `None` if the cell is empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::SetOnce;
    /// assert_eq!(SetOnce::from(1).into_inner(), Some(1));
    /// ```
    pub fn into_inner(self) -> Option<T> {
        self.0.into_inner()
    }
}

impl<T> From<T> for SetOnce<T> {
    fn from(value: T) -> Self {
        Self(WriteOnce::new_set(value))
    }
}

impl<T> Default for SetOnce<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Clone> Clone for SetOnce<T> {
    fn clone(&self) -> Self {
        Self::new_with(self.get().cloned())
    }
}

impl<T: PartialEq> PartialEq for SetOnce<T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for SetOnce<T> {}

impl<T: fmt::Debug> fmt::Debug for SetOnce<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetOnce")
            .field("value", &self.get())
            .finish()
    }
}

/// The error of [`SetOnce::set`]: the cell was set already.
///
/// Contains the value.
///
/// # Examples
///
/// ```
/// use blitzen::sync::{SetOnce, SetOnceError};
/// let SetOnceError(value) = SetOnce::from(1).set(2).unwrap_err();
/// assert_eq!(value, 2);
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct SetOnceError<T>(pub T);

impl<T> fmt::Display for SetOnceError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SetOnceError")
    }
}

impl<T: fmt::Debug> Error for SetOnceError<T> {}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::batch_semaphore::model::poll_once;
    use blitzen_util::shim::cell::UnsafeCell as Watched;
    use blitzen_util::shim::{Arc, thread};
    use loom::future::block_on;

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
    fn one_of_two_sets_succeeds_and_the_waiter_sees_its_value() {
        loom::model(|| {
            let cell = Arc::new(SetOnce::new());
            let setter = |by: i32| {
                let cell = cell.clone();
                thread::spawn(move || {
                    let set = cell.set(value(by)).is_ok();
                    let seen = cell.get().map(number);
                    assert_eq!(seen == Some(by), set, "set, by this one or the other");
                    set
                })
            };
            let setters = [setter(1), setter(2)];
            let seen = number(block_on(cell.wait())); // or loom reports a deadlock
            let set = setters.map(|setter| setter.join().unwrap());
            assert_eq!(set, [seen == 1, seen == 2]);
        });
    }

    #[test]
    fn a_value_that_can_be_got_is_published() {
        loom::model(|| {
            let cell = Arc::new(SetOnce::new());
            let setter = thread::spawn({
                let cell = cell.clone();
                move || assert!(cell.set(value(1)).is_ok())
            });
            assert!(matches!(cell.get().map(number), None | Some(1)));
            setter.join().unwrap();
        });
    }

    #[test]
    fn a_dropped_wait_does_not_block_the_others() {
        loom::model(|| {
            let cell = Arc::new(SetOnce::new());
            let quitter = thread::spawn({
                let cell = cell.clone();
                move || {
                    let _ = poll_once(Box::pin(cell.wait()).as_mut());
                }
            });
            let setter = thread::spawn({
                let cell = cell.clone();
                move || cell.set(Box::new(1)).unwrap()
            });
            assert_eq!(**block_on(cell.wait()), 1); // or loom reports a deadlock
            quitter.join().unwrap();
            setter.join().unwrap();
        });
    }
}
