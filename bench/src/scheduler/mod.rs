//! Group `scheduler`: spawning, yielding, waking, stealing, parking, blocking.

mod blocking;
mod fan_out;
mod idle;
mod memory;
mod ping_pong;
mod spawn;
mod steal;
mod wake;
mod yielding;

use crate::row::Row;

pub(crate) fn rows() -> Vec<Row> {
    [
        spawn::rows(),
        yielding::rows(),
        ping_pong::rows(),
        wake::rows(),
        fan_out::rows(),
        steal::rows(),
        idle::rows(),
        memory::rows(),
        blocking::rows(),
    ]
    .concat()
}
