//! Many tasks of blitzen, never a descriptor: queues, stealing, parking, workers.
//!
//! What it needs of the outside is in one trait, [`World`].
//!
//! The crate is an implementation detail: its interface may change with any release.

mod current;
mod home;
mod idle;
mod inject;
mod lifo;
mod loan;
mod lone;
mod pace;
mod pool;
mod ring;
mod scheduler;
#[cfg(test)]
mod testing;
mod watch;
mod worker;
mod world;

pub use pool::{Job, Joiner, Member, Pool, Refused, Staff};
pub use scheduler::{Config, Errand, Scheduler, Spawned, Vacancy};
pub use watch::Watchman;
pub use worker::{Seat, Step, Worker, current_index, defer, hand_over};
pub use world::World;
