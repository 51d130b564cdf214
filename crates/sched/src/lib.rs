//! Many tasks of blitzen, never a descriptor: queues, stealing, parking, workers.
//!
//! What it needs of the outside is in one trait, [`World`].
//!
//! The crate is an implementation detail: its interface may change with any release.

mod current;
mod handoff;
mod idle;
mod inject;
mod lifo;
mod monitor;
mod pace;
mod pool;
mod ring;
mod scheduler;
mod spawn_backoff;
mod task_shard;
#[cfg(test)]
mod testing;
mod worker;
mod world;

pub use monitor::Monitor;
pub use pool::{Job, Pool, PoolThread, Refused, SpawnThread, ThreadJoiner};
pub use scheduler::{Config, Relief, Scheduler, SectionEnd, Spawned};
pub use worker::{CoreGuard, Step, Worker, current_index, defer, hand_over};
pub use world::World;
