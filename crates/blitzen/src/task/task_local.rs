//! Values that belong to a task.
//!
//! A key is a thread-local slot; the value lives in the future that
//! [`LocalKey::scope`] returns, and stands in the slot only while that future
//! is being polled or dropped:
//!
//! ```text
//!              poll or drop starts            … ends, or panics
//!   future.value ───────swap──────► slot ───────swap──────► future.value
//!   outer value  ◄──────────────────┘ └──────────────────── outer value
//! ```
//!
//! K1. Every swap is undone by [`ScopeGuard`], also when the code between panics.
//! K2. The slot is borrowed only for a swap or for the closure of `with`, so a
//!     scope can be entered inside another, but not inside `with`.

use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::marker::PhantomPinned;
use std::mem;
use std::pin::Pin;
#[cfg(feature = "coro")]
use std::ptr;
use std::ptr::NonNull;
use std::task::{Context, Poll};
use std::thread;

use pin_project_lite::pin_project;

#[cfg(feature = "coro")]
use crate::coro::thread_state::{ScopeFunctions, TaskLocalScope};

/// Declares statics of type [`LocalKey`](crate::task::LocalKey), whose values belong to a task.
///
/// # Examples
///
/// ```
/// blitzen::task_local! {
///     /// Who asked.
///     pub static USER: String;
///
///     static DEPTH: u32;
/// }
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// USER.scope("ada".to_string(), async {
///     assert_eq!(USER.get(), "ada");
/// })
/// .await;
/// # DEPTH.sync_scope(1, || ());
/// # });
/// ```
#[macro_export]
macro_rules! task_local {
    () => {};
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty; $($rest:tt)*) => {
        $crate::task_local! { $(#[$attribute])* $visibility static $name: $type }
        $crate::task_local! { $($rest)* }
    };
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty) => {
        $(#[$attribute])*
        $visibility static $name: $crate::task::LocalKey<$type> = {
            $crate::macros::support::thread_local! {
                static SLOT: $crate::macros::support::RefCell<
                    $crate::macros::support::Option<$type>
                > = const {
                    $crate::macros::support::RefCell::new($crate::macros::support::Option::None)
                };
            }
            $crate::task::LocalKey::from_slot(SLOT)
        };
    };
}

/// A key whose value belongs to a task, declared by [`task_local!`](crate::task_local!).
///
/// It has no value until [`scope`](Self::scope) or [`sync_scope`](Self::sync_scope) gives one
/// to a future or a closure. The value moves between threads with that future. Tasks that the
/// future spawns do not have it.
///
/// # Examples
///
/// ```
/// blitzen::task_local! {
///     static NUMBER: u32;
/// }
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// NUMBER
///     .scope(1, async {
///         assert_eq!(NUMBER.get(), 1);
///         NUMBER.scope(2, async { assert_eq!(NUMBER.get(), 2) }).await;
///         assert_eq!(NUMBER.get(), 1);
///     })
///     .await;
/// assert!(NUMBER.try_get().is_err());
/// # });
/// ```
pub struct LocalKey<T: 'static> {
    slot: thread::LocalKey<RefCell<Option<T>>>,
}

impl<T: 'static> LocalKey<T> {
    /// For [`task_local!`](crate::task_local!).
    #[doc(hidden)]
    pub const fn from_slot(slot: thread::LocalKey<RefCell<Option<T>>>) -> Self {
        Self { slot }
    }

    /// Returns a future that runs `future` with `value` set.
    ///
    /// The value is set whenever `future` is polled, and while it is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// blitzen::task_local! {
    ///     static NUMBER: u32;
    /// }
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// NUMBER.scope(1, async { assert_eq!(NUMBER.get(), 1) }).await;
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// The returned future panics if it is polled inside [`with`](Self::with) of the same key,
    /// or while the locals of its thread are being destroyed.
    pub fn scope<F>(&'static self, value: T, future: F) -> TaskLocalFuture<T, F>
    where
        F: Future,
    {
        TaskLocalFuture {
            key: self,
            value: Some(value),
            future: Some(future),
            pinned: PhantomPinned,
        }
    }

    /// Calls `run` with `value` set, and returns what it returns.
    ///
    /// # Examples
    ///
    /// ```
    /// blitzen::task_local! {
    ///     static NUMBER: u32;
    /// }
    ///
    /// let doubled = NUMBER.sync_scope(21, || NUMBER.get() * 2);
    /// assert_eq!(doubled, 42);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics inside [`with`](Self::with) of the same key, and while the locals of the thread
    /// are being destroyed.
    #[track_caller]
    pub fn sync_scope<F, R>(&'static self, value: T, run: F) -> R
    where
        F: FnOnce() -> R,
    {
        match self.with_value(&mut Some(value), run) {
            Ok(result) => result,
            Err(error) => error.panic(),
        }
    }

    /// Calls `read` with a reference to the value, and returns what it returns.
    ///
    /// # Examples
    ///
    /// ```
    /// blitzen::task_local! {
    ///     static NAME: String;
    /// }
    ///
    /// let length = NAME.sync_scope("ada".to_string(), || NAME.with(|name| name.len()));
    /// assert_eq!(length, 3);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if no value is set.
    #[track_caller]
    pub fn with<F, R>(&'static self, read: F) -> R
    where
        F: FnOnce(&T) -> R,
    {
        match self.try_with(read) {
            Ok(result) => result,
            Err(_) => panic!("cannot access a task-local storage value without setting it first"),
        }
    }

    /// Calls `read` with a reference to the value, if one is set, and returns what it returns.
    ///
    /// # Examples
    ///
    /// ```
    /// blitzen::task_local! {
    ///     static NAME: String;
    /// }
    ///
    /// assert!(NAME.try_with(|name| name.len()).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`AccessError`] if no value is set.
    pub fn try_with<F, R>(&'static self, read: F) -> Result<R, AccessError>
    where
        F: FnOnce(&T) -> R,
    {
        // The slot is gone while the thread's locals are destroyed, and
        // borrowed for writing only within a swap: then a destructor asks.
        let read = |slot: &RefCell<Option<T>>| {
            let value = slot.try_borrow().ok()?;
            value.as_ref().map(read)
        };
        self.slot
            .try_with(read)
            .ok()
            .flatten()
            .ok_or(AccessError(()))
    }
}

impl<T: Clone + 'static> LocalKey<T> {
    /// Returns a copy of the value.
    ///
    /// # Examples
    ///
    /// ```
    /// blitzen::task_local! {
    ///     static NUMBER: u32;
    /// }
    ///
    /// assert_eq!(NUMBER.sync_scope(1, || NUMBER.get()), 1);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if no value is set.
    #[track_caller]
    pub fn get(&'static self) -> T {
        self.with(T::clone)
    }

    /// Returns a copy of the value, if one is set.
    ///
    /// # Examples
    ///
    /// ```
    /// blitzen::task_local! {
    ///     static NUMBER: u32;
    /// }
    ///
    /// assert!(NUMBER.try_get().is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`AccessError`] if no value is set.
    pub fn try_get(&'static self) -> Result<T, AccessError> {
        self.try_with(T::clone)
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("LocalKey { .. }")
    }
}

/// Why a scope cannot be entered.
enum ScopeError {
    Borrowed,
    Destroyed,
}

impl ScopeError {
    #[cold]
    #[track_caller]
    fn panic(self) -> ! {
        match self {
            Self::Borrowed => {
                panic!("cannot enter a task-local scope while the task-local storage is borrowed")
            }
            Self::Destroyed => panic!(
                "cannot enter a task-local scope during or after destruction of the underlying \
                 thread-local"
            ),
        }
    }
}

/// Takes the value out of the slot again on drop (K1).
struct ScopeGuard<T: 'static> {
    key: &'static LocalKey<T>,
    /// The value before, and what the slot held after. A coroutine that is suspended inside the
    /// scope swaps it too.
    value: NonNull<Option<T>>,
    #[cfg(feature = "coro")]
    scope: TaskLocalScope,
}

impl<T: 'static> LocalKey<T> {
    /// Calls `run` with `value` in the slot.
    fn with_value<R>(
        &'static self,
        value: &mut Option<T>,
        run: impl FnOnce() -> R,
    ) -> Result<R, ScopeError> {
        self.swap(value)?;
        let value = NonNull::from(value);
        let guard = ScopeGuard {
            key: self,
            value,
            #[cfg(feature = "coro")]
            scope: TaskLocalScope::new(
                ptr::from_ref(self).cast(),
                value.as_ptr().cast(),
                const { &Self::scope_functions() },
            ),
        };
        guard.enter();
        Ok(run())
    }

    #[cfg(feature = "coro")]
    const fn scope_functions() -> ScopeFunctions {
        ScopeFunctions {
            swap: Self::swap_erased,
            is_free: Self::is_free_erased,
        }
    }

    /// # Safety
    /// Of a scope of this type that is entered, and whose code does not run.
    #[cfg(feature = "coro")]
    unsafe fn swap_erased(key: *const (), value: *mut ()) {
        // SAFETY: the key is static, and the value lent to the scope.
        let swapped = unsafe {
            let key: &'static Self = &*key.cast();
            key.swap(&mut *value.cast::<Option<T>>())
        };
        if let Err(error) = swapped {
            error.panic();
        }
    }

    /// # Safety
    /// `key` is a `LocalKey<T>`.
    #[cfg(feature = "coro")]
    unsafe fn is_free_erased(key: *const ()) -> bool {
        // SAFETY: keys are static.
        let key: &'static Self = unsafe { &*key.cast() };
        let is_free = key.slot.try_with(|slot| slot.try_borrow_mut().is_ok());
        is_free.unwrap_or(false)
    }

    /// Swaps the slot and `value`.
    fn swap(&'static self, value: &mut Option<T>) -> Result<(), ScopeError> {
        self.slot
            .try_with(|slot| match slot.try_borrow_mut() {
                Ok(mut slot) => {
                    mem::swap(&mut *slot, value);
                    Ok(())
                }
                Err(_) => Err(ScopeError::Borrowed),
            })
            .unwrap_or(Err(ScopeError::Destroyed))
    }
}

impl<T: 'static> ScopeGuard<T> {
    /// Notes that the scope is entered, for a coroutine that is suspended inside it.
    fn enter(&self) {
        // SAFETY: `with_value` keeps the guard in its frame, and the drop leaves the scope.
        #[cfg(feature = "coro")]
        unsafe {
            self.scope.enter();
        }
    }
}

impl<T: 'static> Drop for ScopeGuard<T> {
    fn drop(&mut self) {
        // Nothing between the two swaps can have left the slot borrowed or the
        // thread's locals destroyed: both last only as long as a call inside.
        // SAFETY: lent to `with_value`, whose frame this is in.
        let value = unsafe { self.value.as_mut() };
        #[cfg(feature = "coro")]
        self.scope.leave();
        if let Err(error) = self.key.swap(value) {
            error.panic();
        }
    }
}

pin_project! {
    /// The future that [`LocalKey::scope`] returns.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task::futures::TaskLocalFuture;
    ///
    /// blitzen::task_local! {
    ///     static NUMBER: u32;
    /// }
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let future: TaskLocalFuture<u32, _> = NUMBER.scope(1, async { NUMBER.get() });
    /// assert_eq!(future.await, 1);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// It is as cancel safe as the future inside, which is dropped with the value set.
    pub struct TaskLocalFuture<T, F>
    where
        T: 'static,
    {
        key: &'static LocalKey<T>,
        value: Option<T>,
        #[pin]
        future: Option<F>,
        #[pin]
        pinned: PhantomPinned,
    }

    impl<T: 'static, F> PinnedDrop for TaskLocalFuture<T, F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if this.future.is_none() {
                return;
            }
            // It fails only inside `with` or when the thread ends: the future is then dropped
            // without its value, after this.
            let _ = this.key.with_value(this.value, || this.future.set(None));
        }
    }
}

impl<T: 'static, F> TaskLocalFuture<T, F> {
    /// Takes the value out, if it is still there.
    ///
    /// The future may be polled again, but finds no value.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    ///
    /// blitzen::task_local! {
    ///     static NUMBER: u32;
    /// }
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut future = pin!(NUMBER.scope(1, async {}));
    /// future.as_mut().await;
    /// assert_eq!(future.as_mut().take_value(), Some(1));
    /// assert_eq!(future.as_mut().take_value(), None);
    /// # });
    /// ```
    pub fn take_value(self: Pin<&mut Self>) -> Option<T> {
        self.project().value.take()
    }
}

impl<T: 'static, F: Future> Future for TaskLocalFuture<T, F> {
    type Output = F::Output;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let polled = this.key.with_value(this.value, || {
            let polled = this.future.as_mut().as_pin_mut()?.poll(cx);
            if polled.is_ready() {
                // Dropped here, where it still finds its value.
                this.future.set(None);
            }
            Some(polled)
        });
        match polled {
            Ok(Some(polled)) => polled,
            Ok(None) => panic!("`TaskLocalFuture` polled after completion"),
            Err(error) => error.panic(),
        }
    }
}

impl<T: fmt::Debug + 'static, F> fmt::Debug for TaskLocalFuture<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskLocalFuture")
            .field("value", &self.value)
            .finish_non_exhaustive()
    }
}

/// The error of [`LocalKey::try_with`] and [`LocalKey::try_get`] when no value is set.
///
/// # Examples
///
/// ```
/// use blitzen::task::AccessError;
///
/// blitzen::task_local! {
///     static NUMBER: u32;
/// }
///
/// let error: AccessError = NUMBER.try_get().unwrap_err();
/// assert_eq!(error.to_string(), "task-local value not set");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessError(());

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("task-local value not set")
    }
}

impl Error for AccessError {}
