//! Values that children of a scope inherit.
//!
//! A binding is an entry of a persistent list: binding a value adds one in front, and whoever
//! has the list has all of it. The list is in a frame of the context while the code it was bound
//! for runs, and in the members of scopes that were spawned by such code.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use blitzen_task::context::{FrameValue, find, with_frame};
use blitzen_task::scope::Member;
use pin_project_lite::pin_project;

use super::scope_core::ScopeCore;

/// Declares statics of type [`Inherited`](crate::scope::Inherited): values that are bound for a
/// piece of code, and that children of scopes inherit.
///
/// # Examples
///
/// ```
/// use blitzen::scope::{Stopped, scope};
///
/// blitzen::inherited! {
///     /// The request that is being served.
///     pub static REQUEST: u64;
///
///     static USER: String;
/// }
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let served = REQUEST.bind(7, scope(|s| async move {
///     s.spawn(async { Ok::<_, Stopped>(REQUEST.get()) }).await
/// }));
/// assert_eq!(served.await, Ok(Some(7)));
/// assert_eq!(USER.get(), None);
/// # });
/// ```
#[macro_export]
macro_rules! inherited {
    () => {};
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty; $($rest:tt)*) => {
        $(#[$attribute])*
        $visibility static $name: $crate::scope::Inherited<$type> =
            $crate::scope::Inherited::new();
        $crate::inherited! { $($rest)* }
    };
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty) => {
        $crate::inherited! { $(#[$attribute])* $visibility static $name: $type; }
    };
}

/// A value that is bound for a piece of code, declared by [`inherited!`](crate::inherited!).
///
/// Code sees the innermost binding around it. Children of a [scope](crate::scope()) see what the
/// code that spawned them saw. Other tasks do not: `blitzen::spawn` starts without bindings, as it
/// starts without [task-local values](crate::task_local!). A binding cannot be changed, only
/// replaced by another one further inside.
///
/// # Examples
///
/// ```
/// use blitzen::scope::Inherited;
///
/// blitzen::inherited! {
///     static TRACE: u64;
/// }
///
/// fn trace(key: &'static Inherited<u64>) -> Option<u64> {
///     key.get()
/// }
///
/// assert_eq!(trace(&TRACE), None);
/// assert_eq!(TRACE.bind_sync(1, || trace(&TRACE)), Some(1));
/// ```
pub struct Inherited<T> {
    /// A key is known by its address, so it must have a size.
    _address: u8,
    value: PhantomData<fn() -> T>,
}

/// The values that are bound for a piece of code.
#[derive(Clone, Default)]
pub(crate) struct Bindings(Option<Arc<Binding>>);

struct Binding<V: ?Sized = dyn Any + Send + Sync> {
    key: usize,
    outer: Bindings,
    value: V,
}

/// Whether anything was ever bound: most programs bind nothing. Relaxed: code that something is
/// bound for comes after the binding.
static IS_USED: AtomicBool = AtomicBool::new(false);

impl Bindings {
    /// What the calling code sees.
    #[inline]
    pub(super) fn here() -> Self {
        match IS_USED.load(Relaxed) {
            true => Self::find_here(),
            false => Self::default(),
        }
    }

    fn find_here() -> Self {
        let bindings = find(|value| match value {
            FrameValue::Shield => None,
            FrameValue::Value(value) => {
                let member = || {
                    let member = value.downcast_ref::<Member<ScopeCore>>();
                    member.map(Member::inherited)
                };
                value.downcast_ref().or_else(member).cloned()
            }
        });
        bindings.unwrap_or_default()
    }

    fn find(&self, key: usize) -> Option<&(dyn Any + Send + Sync)> {
        let mut next = &self.0;
        while let Some(binding) = next {
            if binding.key == key {
                return Some(&binding.value);
            }
            next = &binding.outer.0;
        }
        None
    }
}

impl Drop for Bindings {
    #[inline]
    fn drop(&mut self) {
        if let Some(binding) = self.0.take() {
            drop_bindings(binding);
        }
    }
}

/// Drops a list, which can be long: no recursion.
#[cold]
fn drop_bindings(first: Arc<Binding>) {
    let mut next = Some(first);
    while let Some(mut binding) = next {
        next = Arc::get_mut(&mut binding).and_then(|binding| binding.outer.0.take());
    }
}

impl<T: Send + Sync + 'static> Inherited<T> {
    /// For [`inherited!`](crate::inherited!).
    #[doc(hidden)]
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self {
            _address: 0,
            value: PhantomData,
        }
    }

    fn key(&'static self) -> usize {
        (&raw const *self).addr()
    }

    fn binding(&'static self, value: T, outer: Bindings) -> Arc<Binding> {
        IS_USED.store(true, Relaxed);
        Arc::new(Binding {
            key: self.key(),
            outer,
            value,
        })
    }

    /// Returns a future that runs `future` with `value` bound.
    ///
    /// # Examples
    ///
    /// ```
    /// blitzen::inherited! {
    ///     static TRACE: u64;
    /// }
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let inner = TRACE.bind(2, async { TRACE.get() });
    /// let both = TRACE.bind(1, async { (TRACE.get(), inner.await) });
    /// assert_eq!(both.await, (Some(1), Some(2)));
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// It is as cancel safe as `future`, which is dropped with the value bound.
    pub fn bind<F: Future>(&'static self, value: T, future: F) -> Bound<F> {
        Bound {
            new: Some(self.binding(value, Bindings::default())),
            bindings: Bindings::default(),
            future: Some(future),
        }
    }

    /// Calls `run` with `value` bound, and returns what it returns.
    ///
    /// # Examples
    ///
    /// ```
    /// blitzen::inherited! {
    ///     static DEPTH: u32;
    /// }
    ///
    /// assert_eq!(DEPTH.bind_sync(3, || DEPTH.get()), Some(3));
    /// ```
    pub fn bind_sync<R>(&'static self, value: T, run: impl FnOnce() -> R) -> R {
        let bindings = Bindings(Some(self.binding(value, Bindings::here())));
        with_frame(FrameValue::Value(&bindings), run)
    }

    /// Calls `read` with the value that is bound, if there is one, and returns what it returns.
    ///
    /// # Examples
    ///
    /// ```
    /// blitzen::inherited! {
    ///     static NAME: String;
    /// }
    ///
    /// let length = || NAME.with(|name| name.map_or(0, |name| name.len()));
    /// assert_eq!(length(), 0);
    /// assert_eq!(NAME.bind_sync("ada".to_string(), length), 3);
    /// ```
    pub fn with<R>(&'static self, read: impl FnOnce(Option<&T>) -> R) -> R {
        let bindings = Bindings::here();
        let value = bindings.find(self.key());
        read(value.and_then(|value| value.downcast_ref()))
    }

    /// Returns a copy of the value that is bound, or `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// blitzen::inherited! {
    ///     static TRACE: u64;
    /// }
    ///
    /// assert_eq!(TRACE.get(), None);
    /// assert_eq!(TRACE.bind_sync(1, || TRACE.get()), Some(1));
    /// ```
    pub fn get(&'static self) -> Option<T>
    where
        T: Clone,
    {
        self.with(|value| value.cloned())
    }
}

impl<T> fmt::Debug for Inherited<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inherited").finish_non_exhaustive()
    }
}

pin_project! {
    /// The future that [`Inherited::bind`] returns.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::scope::Bound;
    ///
    /// blitzen::inherited! {
    ///     static TRACE: u64;
    /// }
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let bound: Bound<_> = TRACE.bind(1, async { TRACE.get() });
    /// assert_eq!(bound.await, Some(1));
    /// # });
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct Bound<F> {
        // What the first poll puts in front of what is bound there.
        new: Option<Arc<Binding>>,
        bindings: Bindings,
        #[pin]
        future: Option<F>,
    }

    impl<F> PinnedDrop for Bound<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            with_frame(FrameValue::Value(this.bindings), || this.future.set(None));
        }
    }
}

impl<F: Future> Future for Bound<F> {
    type Output = F::Output;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        if let Some(mut binding) = this.new.take() {
            if let Some(binding) = Arc::get_mut(&mut binding) {
                binding.outer = Bindings::here();
            }
            *this.bindings = Bindings(Some(binding));
        }
        let Some(future) = this.future.as_mut().as_pin_mut() else {
            panic!("`Bound` polled after completion");
        };
        let polled = with_frame(FrameValue::Value(this.bindings), || future.poll(cx));
        if polled.is_ready() {
            // Dropped here, where it still finds its value.
            with_frame(FrameValue::Value(this.bindings), || this.future.set(None));
        }
        polled
    }
}

impl<F> fmt::Debug for Bound<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound").finish_non_exhaustive()
    }
}
