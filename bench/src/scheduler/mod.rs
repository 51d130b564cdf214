//! Group `scheduler`: spawning, yielding, waking, stealing, parking, blocking.

mod blocking;
mod coroutines;
mod fan_out;
mod idle;
mod memory;
mod one_core;
mod ping_pong;
mod spawn;
mod steal;
mod throughput;
mod wake;
mod yielding;

use crate::row::Row;

pub(crate) fn rows() -> Vec<Row> {
    [
        throughput::rows(),
        spawn::rows(),
        yielding::rows(),
        ping_pong::rows(),
        wake::rows(),
        fan_out::rows(),
        steal::rows(),
        idle::rows(),
        memory::rows(),
        blocking::rows(),
        one_core::rows(),
    ]
    .concat()
}

/// Rows of curves over the number of tasks.
pub(crate) fn sized_rows() -> Vec<Row> {
    vec![spawn::sized_row(), yielding::sized_row()]
}
