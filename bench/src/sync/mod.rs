//! Group `sync`: locks and channels.
//!
//! A contender is a scheduler and a primitive: `tokio` is Tokio's on Tokio's,
//! `blitzen` blitzen's on blitzen's, `tokio+kanal` kanal's on Tokio's. In the rows of
//! one task, that task is spawned, as a user's would be, so the cooperative budget of
//! the runtime is part of the price.
//!
//! Primitives shared by tasks are leaked, some hundred bytes a sample: guards then
//! have no lifetime that a generic workload would have to name.

mod barrier;
mod broadcast;
mod mpmc;
mod mpsc;
mod mutex;
mod notify;
mod once_cell;
mod oneshot;
mod rwlock;
mod semaphore;
mod wait;
mod watch;

use crate::kit::split_evenly;
use crate::row::Row;

pub(crate) fn rows() -> Vec<Row> {
    [
        mutex::rows(),
        rwlock::rows(),
        semaphore::rows(),
        notify::rows(),
        barrier::rows(),
        once_cell::rows(),
        mpsc::rows(),
        mpmc::rows(),
        oneshot::rows(),
        broadcast::rows(),
        watch::rows(),
        wait::rows(),
    ]
    .concat()
}

/// A workload for pairs of scheduler and primitive.
macro_rules! pairs {
    ($work:ident; $($name:literal: $rt:ident $primitive:ty),+ $(,)?) => {
        vec![$($crate::row::Contender::named($name, $work::<$rt, $primitive>)),+]
    };
}
pub(crate) use pairs;

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Does `work` on two threads, each of which gets half of `n` and returns when it is done.
fn on_two_threads(n: u64, work: impl Fn(u64) + Sync) {
    std::thread::scope(|scope| {
        for times in split_evenly(n, 2) {
            let work = &work;
            scope.spawn(move || work(times));
        }
    });
}
