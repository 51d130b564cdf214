//! Tasks.

#[cfg(tokio_unstable)]
pub use blitzen::task::Builder;
#[cfg(feature = "rt-multi-thread")]
pub use blitzen::task::block_in_place;
pub use blitzen::task::{
    AbortHandle, Id, JoinError, JoinHandle, JoinSet, LocalEnterGuard, LocalKey, LocalSet, id,
    spawn, spawn_blocking, spawn_local, try_id, yield_now,
};
pub use blitzen::task::{consume_budget, unconstrained};

/// The budget of a task.
pub mod coop {
    pub use blitzen::task::coop::{
        Coop, RestoreOnPending, Unconstrained, consume_budget, cooperative, has_budget_remaining,
        poll_proceed, unconstrained,
    };
}

/// Futures that this module returns.
pub mod futures {
    pub use blitzen::task::futures::TaskLocalFuture;
}

/// The set of tasks and its builder.
pub mod join_set {
    pub use blitzen::task::join_set::JoinSet;
}
