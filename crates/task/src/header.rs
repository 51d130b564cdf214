//! The part of a task that does not depend on its future.

use std::fmt;
use std::ptr::NonNull;

use blitzen_util::list::{Linked, Links};

use crate::context::TaskContext;
use crate::error::Payload;
use crate::id::Id;
use crate::queue_link::QueueLink;
use crate::raw::{RunOutcome, Runnable, Vtable};
use crate::route::Route;
use crate::span::SpanId;
use crate::spawn_meta::SpawnMeta;
use crate::state::{CloseOutcome, TaskState};

/// The scheduler of a task, as the task sees it. Each task owns one, so it is usually
/// a counted pointer.
pub trait Schedule: Send + Sync + 'static {
    /// Queues a task that was woken or cancelled.
    fn schedule(&self, task: Runnable);

    /// Queues a task whose next poll is to be on `route`, which is not the default one.
    fn dispatch(&self, task: Runnable, route: Route) {
        let _ = route;
        self.schedule(task);
    }

    /// Returns the task's own route, on which it is polled unless a wake asks for another.
    #[inline]
    fn own_route(&self) -> Route {
        Route::DEFAULT
    }

    /// Returns the address of the scheduler whose dispatchers may poll the task; null if
    /// it must stay where it is.
    fn route_owner(&self) -> *const () {
        std::ptr::null()
    }

    /// Called when the task's future is gone, before anyone can see that the task is complete.
    #[inline]
    fn completing(&self) {}

    /// Takes a task that is complete out of the list of live tasks.
    fn release(&self, task: &Header);

    /// Called when the task's future has panicked with `payload`. What is left there goes
    /// to the join handle.
    fn panicked(&self, payload: &mut Payload) {
        let _ = payload;
    }

    /// What code in the task can find through [`context::find`](crate::context::find), after
    /// the frames of the task.
    fn context(&self) -> Option<&TaskContext> {
        None
    }

    /// Whether a thread waits for the end of the task, which borrows from it. The end of the
    /// scheduler may wait for that thread, so the task must not wait for the end of the scheduler.
    fn is_borrowing(&self) -> bool {
        false
    }

    /// Called before each poll of the future; returns false if the calling thread must not poll
    /// it. Then the task is [queued again](Self::requeue) as if it had yielded.
    #[inline(always)]
    fn may_poll_here(&self, _task: &Header) -> bool {
        true
    }

    /// Queues a task that was woken during its poll, or has `yielded`; or leaves that to the
    /// caller of [`Runnable::run`].
    #[inline(always)]
    fn requeue(&self, task: Runnable, yielded: bool) -> RunOutcome {
        match yielded {
            true => RunOutcome::Yielded(task),
            false => RunOutcome::Woken(task),
        }
    }

    /// Whether the future of a task that has been polled ends on its own when the task is
    /// cancelled. It is polled then, asks
    /// [`current::is_cancel_requested`](crate::current::is_cancel_requested), and has to call
    /// [`current::end_unwinding`](crate::current::end_unwinding) in the end.
    const UNWINDS: bool = false;

    /// Whether [`next_in_row`](Self::next_in_row) may return a task.
    const HAS_ROWS: bool = false;

    /// Called after the poll of a task with this scheduler; returns another task, which is then
    /// polled before [`Runnable::run`] returns. If it returns one, it accounts for the poll that
    /// has `ended`.
    fn next_in_row(ended: &RunOutcome) -> Option<Runnable> {
        let _ = ended;
        None
    }
}

/// The first part of every task's memory, the same for all futures.
pub struct Header {
    pub(crate) state: TaskState,
    pub(crate) vtable: &'static Vtable,
    /// The next task of the queue this one is in, or what it waits for.
    pub(crate) queue_link: QueueLink,
    /// The links of the list of live tasks of its scheduler; guarded by that list's
    /// lock.
    pub(crate) owned: Links<Header>,
    pub(crate) id: Id,
    pub(crate) meta: SpawnMeta,
    pub(crate) span_id: SpanId,
}

// SAFETY: the address of the field, without a reference to the header.
unsafe impl Linked for Header {
    unsafe fn links(node: NonNull<Self>) -> NonNull<Links<Self>> {
        // SAFETY: in bounds of a live header.
        unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).owned) }
    }
}

impl Header {
    /// The task's id.
    pub fn id(&self) -> Id {
        self.id
    }

    /// Where it was spawned.
    pub fn spawn_meta(&self) -> &SpawnMeta {
        &self.meta
    }

    /// The name of its lifecycle state: idle, scheduled, running or complete.
    pub fn state_name(&self) -> &'static str {
        self.state.load().status().name()
    }

    /// Notes that the scheduler knows when the task was queued, until its next poll starts.
    /// For code that has the task's runnable.
    pub fn set_stamped(&self) {
        self.state.set_stamped();
    }

    /// Whether the scheduler knows when the task was queued. For code that has the task's
    /// runnable.
    pub fn is_stamped(&self) -> bool {
        self.state.is_stamped()
    }

    /// Marks a task, which is being polled, so that it is cancelled when the poll ends: its
    /// runtime has closed.
    pub fn close_running(&self) {
        let closed = self.state.close();
        debug_assert_eq!(closed, CloseOutcome::Running);
    }

    /// Takes back that the future of the task, which is being polled for the first time, ends on
    /// its own: the calling thread does not poll it.
    pub fn stop_unwinding_itself(&self) {
        self.state.stop_unwinding_itself();
    }

    /// How many shields it is under.
    pub fn shield_depth(&self) -> u8 {
        self.state.load().shield_depth() as u8
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("id", &self.id)
            .field("state", &self.state_name())
            .finish()
    }
}
