//! Many tasks of blitzen, never a descriptor: queues, stealing, parking, workers,
//! and the pool of threads for blocking work.
//!
//! What it needs of the outside is in two traits: [`World`] for the scheduler,
//! [`SpawnThread`] for the blocking pool.
//!
//! The crate is an implementation detail: its interface may change with any release.

mod blocking_section;
mod busy_time;
mod contention;
mod context_depth;
mod core_guard;
mod core_slot;
mod current;
mod dispatch;
mod future_wake;
mod gather;
mod handoff;
mod idle;
mod idle_memory;
mod inbox;
mod inject;
mod job_record;
mod late_tasks;
mod lifo;
mod monitor;
mod observation;
mod owner_count;
mod pace;
mod poll_watch;
mod pool;
mod quiescence;
mod rescue;
mod ring;
mod scheduler;
mod shutdown;
mod spawn_backoff;
mod task_queue;
mod task_shard;
#[cfg(test)]
mod testing;
mod thread_mark;
mod thread_queue;
mod worker;
mod world;
mod yields;

pub use blocking_section::{Relief, SectionEnd, block_in_place, is_current_thread_driver};
pub use context_depth::{context_depth, set_context_depth};
pub use core_guard::CoreGuard;
pub use core_slot::{CoreSlot, CoreWait, CoreWaiter};
pub use dispatch::{
    DispatchedRef, DispatcherCore, DispatcherStats, ForeignExecutor, PollJob, RouteError, Shares,
};
pub use future_wake::{FutureWake, WakeTarget};
pub use job_record::JobRecord;
pub use monitor::Monitor;
pub use observation::{HistogramOption, Observation, ObserveConfig};
pub use poll_watch::{LongPoll, PollWatch};
pub use pool::{Job, Pool, PoolThread, Refused, SpawnThread, ThreadJoiner};
pub use quiescence::{
    Activity, BlockedThread, CountedThread, PausedWorld, Quiescence, advance_if_quiescent,
    count_thread, end_blocking, participant_left,
};
pub use ring::ROOM_FOR_EVENTS;
pub use scheduler::{Config, Scheduler, Spawned};
pub use shutdown::Present;
pub use task_shard::TaskShardRef;
pub use thread_mark::ThreadMark;
pub use thread_queue::{
    PinnedThread, ServeWhileBlocked, is_pinned_depth, restore_pinned_context, yield_in_place,
};
pub use worker::{
    Step, Worker, current_index, defer, end_park, is_recording, record_span_enter, record_span_exit,
};
pub use world::{TaskInfo, World};
