//! A task that can be moved to another dispatcher, by what runs inside it.

use std::fmt;
use std::ptr::NonNull;
use std::task::Waker;

use crate::current;
use crate::header::Header;
use crate::raw::{self, Runnable};
use crate::route::Route;
use crate::state::Wake;
use crate::waker;

/// A counted reference to a task whose scheduler has dispatchers.
pub struct RoutableTask(NonNull<Header>);

// SAFETY: it reaches only the header, which is made for any thread. A task whose future is
// not `Send` has no route owner, and so none of these.
unsafe impl Send for RoutableTask {}
// SAFETY: as above.
unsafe impl Sync for RoutableTask {}

/// Queues a task even if what is called before panics.
struct ScheduleOnDrop(Option<Runnable>);

impl Drop for ScheduleOnDrop {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.schedule();
        }
    }
}

impl RoutableTask {
    /// The task that the calling thread polls, if its dispatchers are those of the
    /// scheduler at `owner`.
    pub fn current(owner: *const ()) -> Option<Self> {
        let task = current::task()?;
        // SAFETY: the current task is alive.
        unsafe {
            if owner.is_null() || raw::route_owner(task) != owner {
                return None;
            }
            task.as_ref().state.reference();
        }
        Some(Self(task))
    }

    fn header(&self) -> &Header {
        // SAFETY: its own reference.
        unsafe { self.0.as_ref() }
    }

    /// Whether this is the task that the calling thread polls.
    pub fn is_current(&self) -> bool {
        current::task() == Some(self.0)
    }

    /// Whether `waker` is the task's own.
    pub fn is_woken_by(&self, waker: &Waker) -> bool {
        waker::is_of(waker, self.0)
    }

    /// The route on which the task is polled unless a wake asks for another.
    pub fn own_route(&self) -> Route {
        // SAFETY: alive by its own reference.
        unsafe { raw::own_route(self.0) }
    }

    /// Whether the task that the calling thread polls can be moved to the dispatchers of the
    /// scheduler at `owner`.
    pub fn is_current_of(owner: *const ()) -> bool {
        // SAFETY: the current task is alive.
        current::task().is_some_and(|task| unsafe { raw::route_owner(task) } == owner)
            && !owner.is_null()
    }

    /// Wakes the task, to be polled on `route` next. Calls `then` before the task can be
    /// polled, unless it is in a queue or runs already.
    pub fn wake_on(&self, route: Route, then: impl FnOnce()) {
        let state = &self.header().state;
        let queued = match state.wake_on(route, self.own_route()) {
            Wake::Nothing => None,
            // SAFETY: the transition has made the runnable (S1), and T1 keeps the task alive.
            Wake::Enqueue | Wake::Dispatch => Some(unsafe { Runnable::from_raw(self.0) }),
        };
        let _schedule = ScheduleOnDrop(queued);
        then();
    }

    /// Asks for the next poll to be on `route`, and soon.
    ///
    /// # Panics
    /// If the calling thread is not polling the task.
    pub fn request_route(&self, route: Route) {
        assert!(self.is_current(), "only a task's own poll moves it");
        self.header().state.request_route(route);
    }

    /// The route of the task's next poll, if the calling thread is polling it.
    pub fn next_route(&self) -> Option<Route> {
        self.is_current().then(|| self.header().state.route())
    }
}

impl Clone for RoutableTask {
    fn clone(&self) -> Self {
        self.header().state.reference();
        Self(self.0)
    }
}

impl Drop for RoutableTask {
    fn drop(&mut self) {
        // SAFETY: its own reference, used no more.
        unsafe { raw::release(self.0) };
    }
}

impl fmt::Debug for RoutableTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RoutableTask")
            .field(&self.header().id)
            .finish()
    }
}
