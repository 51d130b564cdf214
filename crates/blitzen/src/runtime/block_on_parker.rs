//! The parker of a thread that blocks on a runtime without running a worker.

use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use blitzen_sched::{Activity, BlockedThread, advance_if_quiescent};
use blitzen_util::park::Parker;

use super::world::RealWorld;

/// The parker of such a thread, and whether it is idle.
pub(crate) struct BlockOnParker {
    activity: Activity,
    parker: Parker,
}

impl BlockOnParker {
    /// Creates the parker of a thread that is running.
    pub(crate) fn new() -> Self {
        let activity = Activity::new();
        activity.set_active();
        Self {
            activity,
            parker: Parker::new(),
        }
    }

    pub(crate) fn unpark(&self) {
        self.activity.wake();
        self.parker.unpark();
    }

    /// Sleeps until it is unparked, or was before; may return without either. Advances a
    /// paused clock if nothing else is left to do.
    pub(crate) fn park(&self, world: &RealWorld) {
        self.park_at_most(world, None);
    }

    /// Like [`park`](Self::park), for at most `max_wait`.
    pub(crate) fn park_at_most(&self, world: &RealWorld, max_wait: Option<Duration>) {
        let activity = &self.activity;
        let has_advanced = activity.set_idle()
            && world.clock().is_frozen()
            && advance_if_quiescent(world, Some(activity));
        if !has_advanced {
            match max_wait {
                None => self.parker.park(),
                // Whoever has nothing to do parks again.
                Some(max_wait) => drop(self.parker.park_timeout(max_wait)),
            }
        }
        activity.set_active();
    }
}

impl Wake for BlockOnParker {
    fn wake(self: Arc<Self>) {
        self.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.unpark();
    }
}

impl BlockedThread for BlockOnParker {
    fn activity(&self) -> &Activity {
        &self.activity
    }
}
