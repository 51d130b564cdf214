//! Group `scheduler`: spawning, yielding, waking, stealing, parking, blocking.

mod blocking;
pub(crate) mod coroutines;
mod fan_out;
mod idle;
mod loaded;
mod memory;
mod one_core;
mod ping_pong;
mod scopes;
mod spawn;
mod steal;
mod throughput;
mod wake;
pub(crate) mod yielding;

use crate::row::Row;

/// The workloads that are also measured while they are observed.
pub(crate) mod observed {
    pub(crate) use super::ping_pong::ping_pong_pair;
    pub(crate) use super::spawn::spawn_inside;
    pub(crate) use super::yielding::yield_many;
}

pub(crate) fn rows() -> Vec<Row> {
    [
        throughput::rows(),
        spawn::rows(),
        scopes::rows(),
        yielding::rows(),
        ping_pong::rows(),
        wake::rows(),
        fan_out::rows(),
        steal::rows(),
        idle::rows(),
        loaded::rows(),
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
