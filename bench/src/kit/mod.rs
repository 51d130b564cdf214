//! What workloads are made of besides the library under test: the same for all.

mod asleep;
mod block;
mod burn;
mod countdown;
mod futex;
mod one_core;
mod resident;
mod signal;
mod split_evenly;
mod striped;
mod tally;

pub(crate) use asleep::wait_until_others_sleep;
pub(crate) use block::Block;
pub(crate) use burn::Burn;
pub(crate) use countdown::Countdown;
pub(crate) use futex::Futex;
pub(crate) use one_core::keep_to_one_core;
pub(crate) use resident::resident_bytes;
pub(crate) use signal::Signal;
pub(crate) use split_evenly::split_evenly;
pub(crate) use striped::Striped;
pub(crate) use tally::Tally;
