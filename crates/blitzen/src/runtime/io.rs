//! Which driver of a runtime a new source is registered with.
//!
//! Each worker has a driver of its own. A source created on a worker is registered with
//! that worker's driver; one created elsewhere with that of a worker which has time for it
//! (`source_placement.rs`). Its task may run anywhere.

use std::io;
use std::sync::Arc;

use blitzen_driver::{DriverConfig, Interest, Ready, Registration};
use mio::event::Source;

use super::backend::IoBackend;
use super::handle::Handle;
use super::inner::Inner;
use super::worker_drivers::WorkerDrivers;
use crate::net::SocketMode;

/// The builder's settings for I/O.
pub(crate) struct IoOptions {
    pub(crate) enabled: bool,
    pub(crate) driver: DriverConfig,
    pub(crate) backend: IoBackend,
    pub(crate) sockets: SocketMode,
}

/// The current runtime, which has I/O.
///
/// # Panics
/// Outside a runtime, and in one without I/O.
#[track_caller]
pub(crate) fn current() -> Arc<Inner> {
    let inner = Handle::current().inner;
    assert!(
        inner.world().io_enabled,
        "A Tokio 1.x context was found, but IO is disabled. Call `enable_io` on the runtime \
         builder to enable IO."
    );
    inner
}

/// The mode of new sockets in the current runtime.
///
/// # Panics
/// Outside a runtime, and in one without I/O.
#[track_caller]
pub(crate) fn socket_mode() -> SocketMode {
    current().world().socket_mode()
}

/// Returns the drivers for a new source: those of the calling worker, or of any worker
/// on another thread.
pub(crate) fn drivers_for_new_source(inner: &Inner) -> &WorkerDrivers {
    match inner.scheduler().current_worker() {
        Some(worker) => inner.world().drivers(worker),
        None => drivers_for_outside(inner),
    }
}

/// Returns the drivers for a new source from outside the workers.
pub(crate) fn drivers_for_outside(inner: &Inner) -> &WorkerDrivers {
    // A worker has to turn the drivers, and workers start lazily.
    inner.scheduler().ensure_started();
    inner.world().drivers_for_outside(inner.scheduler())
}

/// Registers a source with the current runtime. It counts as `initially` ready
/// until tried.
///
/// # Errors
/// Returns the error of the system's selector, such as `epoll_ctl(2)`, or an error if
/// the runtime has been shut down.
///
/// # Panics
/// Outside a runtime, and in one without I/O.
#[track_caller]
pub(crate) fn register(
    source: &mut impl Source,
    interest: Interest,
    initially: Ready,
) -> io::Result<Registration> {
    let inner = current();
    drivers_for_new_source(&inner)
        .driver()
        .register(source, interest, initially)
}
