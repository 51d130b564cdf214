//! Where the stacks of a trace end.
//!
//! Not in `dump`, whose frames are those of the recorder: this one belongs to the program.

use std::cell::Cell;
use std::ffi::c_void;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

thread_local! {
    /// The function of the innermost [`Root`] that is being polled.
    static ROOT: Cell<Option<*const c_void>> = const { Cell::new(None) };
}

/// The address of the function that polls the innermost root.
pub(crate) fn current() -> Option<*const c_void> {
    ROOT.try_with(Cell::get).unwrap_or(None)
}

pin_project! {
    /// The future that [`Trace::root`](super::dump::Trace::root) returns.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::{Root, Trace};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let future: Root<_> = Trace::root(async { 1 });
    /// assert_eq!(future.await, 1);
    /// # });
    /// ```
    #[derive(Clone, Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Root<T> {
        #[pin]
        future: T,
    }
}

impl<T> Root<T> {
    pub(crate) fn new(future: T) -> Self {
        Self { future }
    }
}

/// Restores the root on drop.
struct RestoreRoot(Option<*const c_void>);

impl Drop for RestoreRoot {
    fn drop(&mut self) {
        // A thread that is ending traces nothing.
        let _ = ROOT.try_with(|root| root.set(self.0));
    }
}

impl<T: Future> Future for Root<T> {
    type Output = T::Output;

    // A function of its own: its address says where stacks end.
    #[inline(never)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T::Output> {
        let this = Self::poll as fn(Pin<&mut Self>, &mut Context<'_>) -> Poll<T::Output>;
        let before = ROOT.try_with(|root| root.replace(Some(this as *const c_void)));
        let _restore = RestoreRoot(before.unwrap_or(None));
        self.project().future.poll(cx)
    }
}
