//! Where a worker sleeps, and what it serves there.

use std::time::Duration;

use blitzen_driver::Driver;

use super::io::IoOptions;

/// How long a worker that leaves waits for operations it has cancelled.
const PATIENCE: Duration = Duration::from_secs(1);

/// The drivers of one worker.
pub(crate) struct Station {
    driver: Driver,
}

impl Station {
    pub(crate) fn new(io: &IoOptions) -> Self {
        Self {
            driver: Driver::new(io.driver.clone()),
        }
    }

    /// The worker's sockets and operations, and its sleeping place.
    pub(crate) fn driver(&self) -> &Driver {
        &self.driver
    }

    /// Fires what is due and waits for more, at most `max_wait`. Owner only.
    pub(crate) fn turn(&self, max_wait: Option<Duration>) {
        must(self.driver.turn(max_wait));
    }

    /// Fires what is due, for an owner that is stuck.
    pub(crate) fn serve(&self) {
        must(self.driver.serve());
    }

    /// Ends a wait of the owner, or its next one.
    pub(crate) fn interrupt(&self) {
        self.driver.interrupt();
    }

    /// Ends what waits here. Owner only, and the last thing it does.
    pub(crate) fn shut_down(&self) {
        // What has not ended by then is left to the system, with its memory.
        let _unfinished = must(self.driver.shutdown(PATIENCE));
    }
}

/// A selector that fails has lost its descriptor: nothing would be served any
/// more, and a worker that went on would spin.
fn must(found: std::io::Result<usize>) -> usize {
    match found {
        Ok(found) => found,
        Err(error) => panic!("the I/O driver failed: {error}"),
    }
}
