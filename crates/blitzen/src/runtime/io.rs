//! How a runtime finds the place of a new source.
//!
//! Each worker has a driver of its own. A source made on a worker lives with
//! that worker's; one made elsewhere lives with any, each in its turn. Its task
//! may run anywhere.

use std::io;

use blitzen_driver::{DriverConfig, Interest, Ready, Registration};
use mio::event::Source;

use super::handle::Handle;

/// What the builder was told about I/O.
pub(crate) struct IoOptions {
    pub(crate) enabled: bool,
    pub(crate) driver: DriverConfig,
}

/// Registers a source with the current runtime. It counts as `initially` ready
/// until tried.
///
/// # Errors
/// What the system says, or that the runtime is gone.
///
/// # Panics
/// Outside a runtime, and in one without I/O.
#[track_caller]
pub(crate) fn register(
    source: &mut impl Source,
    interest: Interest,
    initially: Ready,
) -> io::Result<Registration> {
    let inner = Handle::current().inner;
    let world = inner.world();
    assert!(
        world.io_enabled,
        "A Tokio 1.x context was found, but IO is disabled. Call `enable_io` on the runtime \
         builder to enable IO."
    );
    let station = match inner.scheduler().current_worker() {
        Some(worker) => world.station(worker),
        None => {
            // Somebody has to turn the poller, and workers start lazily.
            inner.scheduler().ensure_started();
            world.any_station()
        }
    };
    station.driver().register(source, interest, initially)
}
