//! Counters, histograms and records of what a blitzen runtime does.
//!
//! A leaf: it knows numbers, not schedulers. Whatever is counted belongs to one
//! writer, on cache lines of its own, and may be read by anyone at any time.
//!
//! The crate is an implementation detail: its interface may change with any release.

mod counter;
mod worker;

pub use counter::Counter;
pub use worker::{Stats, WorkerCounters, WorkerStats};
