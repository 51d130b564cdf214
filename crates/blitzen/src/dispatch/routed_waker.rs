//! The waker of what runs inside `with_dispatcher`: it has the task polled by that dispatcher.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use blitzen_sched::DispatcherCore;
use blitzen_task::{RoutableTask, Route};
use blitzen_util::woken_flag::WokenFlag;

/// The waker of one `with_dispatcher` in one task.
pub(super) struct RoutedWaker {
    task: RoutableTask,
    route: Route,
    /// What polls the future inside the task; `None` if that is the task itself. Neither
    /// called nor cloned under the lock: it is foreign code.
    parent: Mutex<Option<Arc<Waker>>>,
    woken: WokenFlag,
    /// The future is gone, or has another waker.
    over: AtomicBool,
    /// As long as it may send a task there, the route is not given to another dispatcher.
    _core: Option<Arc<DispatcherCore>>,
}

impl RoutedWaker {
    pub(super) fn new(
        task: RoutableTask,
        route: Route,
        core: Option<Arc<DispatcherCore>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            task,
            route,
            parent: Mutex::new(None),
            woken: WokenFlag::new(true),
            over: AtomicBool::new(false),
            _core: core,
        })
    }

    /// Whether it is the waker for the task that the calling thread polls.
    pub(super) fn is_of_current_task(&self) -> bool {
        self.task.is_current()
    }

    /// Notes what polls the future inside the task now.
    pub(super) fn set_parent(&self, parent: &Waker) {
        let next = match self.task.is_woken_by(parent) {
            true => None,
            false => match self.parent() {
                Some(before) if before.will_wake(parent) => return,
                _ => Some(Arc::new(parent.clone())),
            },
        };
        let before = std::mem::replace(&mut *self.lock_parent(), next);
        drop(before); // not under the lock
    }

    fn parent(&self) -> Option<Arc<Waker>> {
        self.lock_parent().clone()
    }

    fn lock_parent(&self) -> MutexGuard<'_, Option<Arc<Waker>>> {
        self.parent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was called since the last poll.
    pub(super) fn is_woken(&self) -> bool {
        self.woken.is_set()
    }

    /// Notes that a poll begins.
    pub(super) fn begin_poll(&self) {
        self.woken.take();
    }

    /// Makes it do nothing from now on.
    pub(super) fn end(&self) {
        self.over.store(true, Relaxed);
    }
}

impl Wake for RoutedWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Relaxed: a call that comes at the same time may be on either side.
        if self.over.load(Relaxed) {
            return;
        }
        self.woken.set();
        self.task.wake_on(self.route, || {
            if let Some(parent) = self.parent() {
                parent.wake_by_ref();
            }
        });
    }
}
