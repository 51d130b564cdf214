//! The holder of a task's future output, and of the right to cancel it.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

use blitzen_util::coop;

use crate::error::JoinError;
use crate::header::Header;
use crate::id::Id;
use crate::raw;
use crate::state::{JoinHandleDrop, Wake};
use blitzen_util::quiet::quietly;

/// Waits for a task to end, and gives its output.
///
/// Dropping the handle detaches the task: it goes on, and its output is lost.
///
/// # Cancel safety
/// The future may be dropped or left unpolled at any time; the output stays
/// with the task until a poll returns it.
pub struct JoinHandle<T> {
    task: NonNull<Header>,
    _output: PhantomData<T>,
}

// SAFETY: the handle moves the output between threads, and nothing else of the
// task that depends on a thread.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: `&JoinHandle` reaches neither the output nor the slot of the join
// waker: what does takes `&mut`.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

impl<T> Unpin for JoinHandle<T> {}
impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// Takes over the reference and the rights that a new task's state counts.
    pub(crate) fn new(task: NonNull<Header>) -> Self {
        Self {
            task,
            _output: PhantomData,
        }
    }

    fn header(&self) -> &Header {
        // SAFETY: the handle's reference.
        unsafe { self.task.as_ref() }
    }

    /// Cancels the task: it ends at its next suspension point, or, if a shield
    /// is up there, at the first one without. Awaiting the handle then gives an
    /// error that [is cancelled](JoinError::is_cancelled), unless the task
    /// ended first.
    pub fn abort(&self) {
        abort(self.task);
    }

    /// A handle that can cancel the task but not wait for it.
    #[must_use = "the handle does nothing until `abort` is called"]
    pub fn abort_handle(&self) -> AbortHandle {
        self.header().state.reference();
        AbortHandle(self.task)
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.header().state.load().is_complete()
    }

    /// The task's name.
    pub fn id(&self) -> Id {
        self.header().id
    }

    /// Sets the waker to call when the task ends, replacing any other; true if
    /// it has ended already, and the waker was not needed.
    #[inline]
    pub(crate) fn set_join_waker(&mut self, waker: &Waker) -> bool {
        let state = self.header().state.load();
        if state.is_complete() {
            return true;
        }
        if state.has_join_waker() {
            // SAFETY: published; `&mut` makes us its only writer, so one of its
            // two readers (T5).
            let same = unsafe {
                raw::read_join_waker(self.task, |slot| {
                    slot.as_ref().is_some_and(|old| old.will_wake(waker))
                })
            };
            if same {
                return false;
            }
            if !self.header().state.retract_join_waker() {
                return true;
            }
        }
        self.fill_join_waker(waker.clone())
    }

    /// Sets the waker of a handle that has none yet; true if the task has ended
    /// already, and the waker was not needed.
    ///
    /// # Panics
    /// If a waker was set before.
    #[track_caller]
    pub(crate) fn set_first_join_waker(&mut self, waker: Waker) -> bool {
        let state = self.header().state.load();
        assert!(!state.has_join_waker(), "the handle has a waker");
        state.is_complete() || self.fill_join_waker(waker)
    }

    /// Fills the slot, which is not published, and publishes it; true if the
    /// task has ended, and the slot was emptied again.
    fn fill_join_waker(&mut self, waker: Waker) -> bool {
        // SAFETY: the slot is not published, so the handle's (T5), and `&mut`
        // makes it ours.
        let old = unsafe { raw::with_join_waker(self.task, |slot| slot.replace(waker)) };
        drop_foreign(old);
        if self.header().state.publish_join_waker() {
            return false;
        }
        // SAFETY: it was not published, so it is still ours.
        drop_foreign(unsafe { raw::with_join_waker(self.task, Option::take) });
        true
    }

    /// The output, if the task has ended.
    ///
    /// # Panics
    /// If the output was taken before.
    #[track_caller]
    pub(crate) fn try_take_output(&mut self) -> Option<Result<T, JoinError>> {
        let state = self.header().state.load();
        if !state.is_complete() {
            return None;
        }
        assert!(
            state.is_join_interested(),
            "JoinHandle polled after completion"
        );
        let mut out: Option<Result<T, JoinError>> = None;
        // SAFETY: complete, and until it leaves the output is the handle's own
        // (T4); `T` is the output of the task this handle was made for.
        unsafe { raw::take_output(self.task, (&raw mut out).cast()) };
        // Nothing is left to wait for.
        let leave = self.header().state.drop_join_handle();
        self.clear_join_waker(leave);
        out
    }

    fn clear_join_waker(&mut self, leave: JoinHandleDrop) {
        if leave.drop_waker {
            // SAFETY: ours (T5).
            drop_foreign(unsafe { raw::with_join_waker(self.task, Option::take) });
        }
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(spent) = coop::poll_proceed(cx) else {
            return Poll::Pending;
        };
        if !self.set_join_waker(cx.waker()) {
            return Poll::Pending;
        }
        spent.made_progress();
        match self.try_take_output() {
            Some(output) => Poll::Ready(output),
            None => unreachable!("the task was complete"),
        }
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        let state = &self.header().state;
        if state.detach_new() {
            return;
        }
        // Otherwise the output was taken, and the handle has left.
        if state.load().is_join_interested() {
            let leave = state.drop_join_handle();
            if leave.drop_output {
                // SAFETY: complete, and ours (T4).
                quietly(|| unsafe { raw::drop_output(self.task) });
            }
            self.clear_join_waker(leave);
        }
        // SAFETY: the handle's reference, used no more.
        unsafe { raw::release(self.task) };
    }
}

impl<T> fmt::Debug for JoinHandle<T>
where
    T: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("id", &self.id())
            .finish()
    }
}

/// Cancels a task from afar.
///
/// Dropping it does nothing to the task.
pub struct AbortHandle(NonNull<Header>);

// SAFETY: only the header is reached, which is made for any thread.
unsafe impl Send for AbortHandle {}
// SAFETY: as above.
unsafe impl Sync for AbortHandle {}

impl UnwindSafe for AbortHandle {}
impl RefUnwindSafe for AbortHandle {}

impl AbortHandle {
    fn header(&self) -> &Header {
        // SAFETY: the handle's reference.
        unsafe { self.0.as_ref() }
    }

    /// Cancels the task, as [`JoinHandle::abort`] does.
    pub fn abort(&self) {
        abort(self.0);
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.header().state.load().is_complete()
    }

    /// The task's name.
    pub fn id(&self) -> Id {
        self.header().id
    }
}

impl Clone for AbortHandle {
    fn clone(&self) -> Self {
        self.header().state.reference();
        Self(self.0)
    }
}

impl Drop for AbortHandle {
    fn drop(&mut self) {
        // SAFETY: the handle's reference, used no more.
        unsafe { raw::release(self.0) };
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle")
            .field("id", &self.id())
            .finish()
    }
}

/// Drops a waker. Its destructor is foreign code, and its panic concerns nobody here.
fn drop_foreign(waker: Option<Waker>) {
    if waker.is_some() {
        quietly(|| drop(waker));
    }
}

/// Asks for the cancellation of a task the caller holds a reference to.
fn abort(task: NonNull<Header>) {
    // SAFETY: the caller's reference.
    let header = unsafe { task.as_ref() };
    if header.state.cancel() == Wake::Enqueue {
        // SAFETY: `Enqueue` makes the runnable; alive as above.
        unsafe { raw::schedule(task) };
    }
}
