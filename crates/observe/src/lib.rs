//! Counters of what a blitzen runtime does.
//!
//! The crate knows numbers, not schedulers. Each counter has one writer, on cache lines
//! of its own, and any thread may read it at any time.
//!
//! The crate is an implementation detail: its interface may change with any release.

mod counter;
mod histogram;
mod worker;

pub use counter::Counter;
pub use histogram::{
    Histogram, HistogramConfiguration, InvalidHistogramConfiguration, LogHistogram,
    LogHistogramBuilder,
};
pub use worker::{Stats, WorkerCounters, WorkerStats};
