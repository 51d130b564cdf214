//! Where a worker sleeps, and what it serves there.

use std::time::Duration;

use blitzen_util::park::Parker;

/// The drivers of one worker.
pub(crate) struct Station {
    parker: Parker,
}

impl Station {
    pub(crate) fn new() -> Self {
        Self {
            parker: Parker::new(),
        }
    }

    /// Fires what is due and waits for more, at most `max_wait`. Owner only.
    pub(crate) fn turn(&self, max_wait: Option<Duration>) {
        match max_wait {
            Some(Duration::ZERO) => {}
            Some(limit) => {
                self.parker.park_timeout(limit);
            }
            None => self.parker.park(),
        }
    }

    /// Fires what is due, for an owner that is stuck.
    pub(crate) fn serve(&self) {}

    /// Ends a wait of the owner, or its next one.
    pub(crate) fn interrupt(&self) {
        self.parker.unpark();
    }
}
