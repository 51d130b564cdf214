//! Where a worker sleeps, and what it serves there.

use std::time::Duration;

use blitzen_driver::Driver;
use blitzen_wheel::Shard;

use super::io::IoOptions;
use super::lull::{self, Rest};
use super::world::Real;

/// How long a worker that leaves waits for operations it has cancelled.
const PATIENCE: Duration = Duration::from_secs(1);

/// The drivers of one worker.
pub(crate) struct Station {
    driver: Driver,
    /// The worker's timers, if the runtime has any.
    shard: Option<&'static Shard>,
    rest: Rest,
}

impl Station {
    pub(crate) fn new(io: &IoOptions, shard: Option<&'static Shard>) -> Self {
        Self {
            driver: Driver::new(io.driver.clone()),
            shard,
            rest: Rest::new(),
        }
    }

    /// The worker's sockets and operations, and its sleeping place.
    pub(crate) fn driver(&self) -> &Driver {
        &self.driver
    }

    /// Whether the worker rests.
    pub(crate) fn rest(&self) -> &Rest {
        &self.rest
    }

    /// Fires what is due and waits for more, at most `max_wait`. Owner only.
    pub(crate) fn turn(&self, world: &Real, max_wait: Option<Duration>) {
        // What has just been woken may be the owner's, who then must not sleep.
        if self.fire(world) || max_wait == Some(Duration::ZERO) {
            must(self.driver.turn(Some(Duration::ZERO)));
            return;
        }
        let next_ns = self.shard.and_then(Shard::doze);
        let is_undisturbed = self.rest.lie_down();
        match world.clock().is_frozen() {
            true => self.wait_frozen(world, max_wait, is_undisturbed),
            false => self.wait(world, max_wait, next_ns),
        }
        self.rest.get_up();
        self.shard.inspect(|shard| shard.rouse());
        self.fire(world);
    }

    /// Waits, and no longer than until the next timer.
    fn wait(&self, world: &Real, max_wait: Option<Duration>, next_ns: Option<u64>) {
        let until_next = next_ns
            .map(|next_ns| Duration::from_nanos(next_ns.saturating_sub(world.clock().now_ns())));
        let limit = match (max_wait, until_next) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        must(self.driver.turn(limit));
    }

    /// Waits for anything but timers; if there is nothing, moves the clock.
    #[cold]
    fn wait_frozen(&self, world: &Real, max_wait: Option<Duration>, is_undisturbed: bool) {
        if !(is_undisturbed && lull::judge(world, Some(&self.rest))) {
            must(self.driver.turn(max_wait));
        }
    }

    /// Fires the timers that are due; tells whether there was one.
    #[inline]
    pub(crate) fn fire(&self, world: &Real) -> bool {
        self.shard
            .is_some_and(|shard| shard.next_ns() != u64::MAX && shard.fire(world.clock().now_ns()))
    }

    /// Fires what is due, for an owner that is stuck; tells whether there was
    /// anything.
    pub(crate) fn serve(&self, world: &Real) -> bool {
        self.fire(world) | (must(self.driver.serve()) > 0)
    }

    /// Ends a wait of the owner, or its next one.
    pub(crate) fn interrupt(&self) {
        self.rest.stir();
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
