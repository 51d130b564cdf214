//! The event of a poller's waker, for models.

use blitzen_util::shim::{Condvar, Mutex};

/// The event of the poller's waker, as the kernel keeps it.
#[derive(Default)]
pub(crate) struct WakerEvent {
    is_pending: Mutex<bool>,
    posted: Condvar,
}

impl WakerEvent {
    pub(crate) fn post(&self) {
        *self.is_pending.lock() = true;
        self.posted.notify_one();
    }

    pub(crate) fn wait(&self) {
        let mut is_pending = self.is_pending.lock();
        while !*is_pending {
            is_pending = self.posted.wait(is_pending);
        }
        *is_pending = false;
    }

    /// Takes the event, if there is one, without waiting.
    pub(crate) fn take(&self) -> bool {
        std::mem::take(&mut *self.is_pending.lock())
    }
}
