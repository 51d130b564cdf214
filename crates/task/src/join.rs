//! The join handle of a task: it waits for the output, and can abort the task.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

use blitzen_util::coop;
use blitzen_util::lock_owner;
use blitzen_util::wait::{self, WaitKind};

use crate::current;
use crate::error::JoinError;
use crate::header::Header;
use crate::id::Id;
use crate::raw::{self, Runnable};
use blitzen_util::quiet::quietly;

/// An owned permission to wait for a task and to take its output.
///
/// `task::spawn` and its relatives return one. Awaiting it gives the output of the task, or
/// a [`JoinError`] if the task panicked or was cancelled. Dropping it detaches the task, which
/// goes on running; its output is then dropped when it ends.
///
/// # Examples
///
/// ```
/// use blitzen::task;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let handle = task::spawn(async { 6 * 7 });
/// assert_eq!(handle.await.unwrap(), 42);
///
/// let panicking = task::spawn(async { panic!("no") });
/// assert!(panicking.await.unwrap_err().is_panic());
/// # });
/// ```
///
/// # Cancel safety
///
/// The handle is cancel safe: the output stays with the task until a poll returns it, so the
/// handle can be polled in `select!` by reference and awaited again later.
///
/// # Panics
///
/// Polling the handle again after it has returned the output panics.
pub struct JoinHandle<T> {
    task: NonNull<Header>,
    /// Whether the output was taken. The state says that there is a handle until it is dropped.
    has_joined: bool,
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
            has_joined: false,
            _output: PhantomData,
        }
    }

    fn header(&self) -> &Header {
        // SAFETY: the handle's reference.
        unsafe { self.task.as_ref() }
    }

    /// Cancels the task.
    ///
    /// The task ends where it next waits; its future is dropped by the runtime. Inside a
    /// [`shield`](crate::shield()) it goes on until the shield ends. Awaiting the handle then
    /// returns an error for which [`JoinError::is_cancelled`] is true, unless the task ended
    /// before that. Code in `spawn_blocking` that has begun cannot be cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let handle = task::spawn(std::future::pending::<()>());
    /// handle.abort();
    /// assert!(handle.await.unwrap_err().is_cancelled());
    /// # });
    /// ```
    pub fn abort(&self) {
        abort(self.task);
    }

    /// Returns a handle that can cancel the task but not wait for it.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let handle = task::spawn(std::future::pending::<()>());
    /// let abort = handle.abort_handle();
    /// abort.abort();
    /// assert!(handle.await.unwrap_err().is_cancelled());
    /// # });
    /// ```
    #[must_use = "an abort handle does nothing unless `abort` is called"]
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle::new(self.header())
    }

    /// Returns whether the task has ended.
    ///
    /// A task that was aborted ends a moment later, when the runtime has dropped its future.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let handle = task::spawn(async {});
    /// while !handle.is_finished() {
    ///     task::yield_now().await;
    /// }
    /// # });
    /// ```
    pub fn is_finished(&self) -> bool {
        self.header().state.load().is_complete()
    }

    /// Returns the id of the task.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let handle = task::spawn(async { task::id() });
    /// let id = handle.id();
    /// assert_eq!(handle.await.unwrap(), id);
    /// # });
    /// ```
    pub fn id(&self) -> Id {
        self.header().id
    }

    /// Notes that the current task may wait for this one next, which it has just spawned.
    #[inline]
    pub(crate) fn expect_join(&self) {
        current::set_newest_child(self.task);
    }

    /// Whether the current task yields instead of waiting, since it has spawned this one just now.
    #[inline]
    fn yields_to_newest(&self, waker: &Waker) -> bool {
        current::take_newest_child(self.task) && !self.is_finished() && current::yield_if_own(waker)
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
        assert!(!self.has_joined, "JoinHandle polled after completion");
        let mut out: Option<Result<T, JoinError>> = None;
        // SAFETY: complete, and until it leaves the output is the handle's own
        // (T4); `T` is the output of the task this handle was made for.
        unsafe { raw::take_output(self.task, (&raw mut out).cast()) };
        // Nothing is left to wait for.
        self.has_joined = true;
        match state.has_join_waker() {
            false => self.clear_join_waker(),
            true => self.leave_joined(),
        }
        out
    }

    /// Leaves while the completing side may be reading the slot, which then clears it (T5).
    #[cold]
    fn leave_joined(&mut self) {
        if self.header().state.drop_join_handle().drop_waker {
            self.clear_join_waker();
        }
    }

    /// Empties the slot of the join waker, which is the handle's (T5).
    fn clear_join_waker(&mut self) {
        if lock_owner::has_notes() {
            lock_owner::forget_join(self.id().as_u64());
        }
        // SAFETY: ours (T5).
        drop_foreign(unsafe { raw::with_join_waker(self.task, Option::take) });
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.yields_to_newest(cx.waker()) {
            return Poll::Pending;
        }
        let Poll::Ready(spent) = coop::poll_proceed(cx) else {
            return Poll::Pending;
        };
        if !self.set_join_waker(cx.waker()) {
            wait::pending(WaitKind::Join, self.id().as_u64());
            if lock_owner::is_on() {
                lock_owner::note_join(self.id().as_u64(), cx.waker());
            }
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
        if !self.has_joined {
            let state = &self.header().state;
            if state.detach_new() {
                return;
            }
            let leave = state.drop_join_handle();
            if leave.drop_output {
                // SAFETY: complete, and ours (T4).
                quietly(|| unsafe { raw::drop_output(self.task) });
            }
            if leave.drop_waker {
                self.clear_join_waker();
            }
            // SAFETY: the handle's reference, used no more.
            return unsafe { raw::release(self.task) };
        }
        // SAFETY: as above.
        unsafe { raw::release_last(self.task) };
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

/// An owned permission to cancel a task, without the right to wait for it.
///
/// [`JoinHandle::abort_handle`] and the `spawn` methods of `JoinSet` return one. It can be
/// cloned. Dropping it does nothing to the task.
///
/// # Examples
///
/// ```
/// use blitzen::task::{AbortHandle, JoinSet};
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let mut tasks = JoinSet::new();
/// let abort: AbortHandle = tasks.spawn(std::future::pending::<()>());
/// abort.abort();
/// assert!(tasks.join_next().await.unwrap().is_err());
/// # });
/// ```
pub struct AbortHandle(NonNull<Header>);

// SAFETY: only the header is reached, which is made for any thread.
unsafe impl Send for AbortHandle {}
// SAFETY: as above.
unsafe impl Sync for AbortHandle {}

impl UnwindSafe for AbortHandle {}
impl RefUnwindSafe for AbortHandle {}

impl AbortHandle {
    /// For a task that has not been run yet.
    pub(crate) fn of(task: &Runnable) -> Self {
        // SAFETY: T1 keeps it alive.
        unsafe { Self::from_ptr(task.as_ptr()) }
    }

    /// # Safety
    /// The task is alive.
    pub(crate) unsafe fn from_ptr(task: NonNull<Header>) -> Self {
        // SAFETY: alive by the caller's word.
        unsafe { task.as_ref() }.state.reference();
        Self(task)
    }

    /// Of a task that the caller holds alive.
    pub(crate) fn new(task: &Header) -> Self {
        task.state.reference();
        Self(NonNull::from(task))
    }

    fn header(&self) -> &Header {
        // SAFETY: the handle's reference.
        unsafe { self.0.as_ref() }
    }

    /// Cancels the task, as [`JoinHandle::abort`] does.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let handle = task::spawn(std::future::pending::<()>());
    /// handle.abort_handle().abort();
    /// assert!(handle.await.unwrap_err().is_cancelled());
    /// # });
    /// ```
    pub fn abort(&self) {
        abort(self.0);
    }

    /// Returns whether the task has ended.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let handle = task::spawn(async {});
    /// let abort = handle.abort_handle();
    /// handle.await.unwrap();
    /// assert!(abort.is_finished());
    /// # });
    /// ```
    pub fn is_finished(&self) -> bool {
        self.header().state.load().is_complete()
    }

    /// Returns the id of the task.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::task;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let handle = task::spawn(async {});
    /// assert_eq!(handle.abort_handle().id(), handle.id());
    /// # handle.await.unwrap();
    /// # });
    /// ```
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
    // SAFETY: alive as above.
    unsafe { raw::enqueue(task, header.state.cancel()) };
}
