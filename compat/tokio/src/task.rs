//! Tasks. Empty without the feature `rt`.

#[cfg(all(tokio_unstable, feature = "rt", feature = "tracing"))]
pub use blitzen::task::Builder;
#[cfg(feature = "rt-multi-thread")]
pub use blitzen::task::block_in_place;
#[cfg(feature = "rt")]
pub use blitzen::task::{
    AbortHandle, Id, JoinError, JoinHandle, JoinSet, LocalEnterGuard, LocalKey, LocalSet, id,
    spawn, spawn_blocking, spawn_local, try_id,
};

#[cfg(all(feature = "rt", not(all(tokio_unstable, feature = "taskdump"))))]
pub use blitzen::task::yield_now;
#[cfg(all(tokio_unstable, feature = "rt", feature = "taskdump"))]
pub use yield_now::yield_now;

/// With its own path: traces show the frames of this function.
#[cfg(all(tokio_unstable, feature = "rt", feature = "taskdump"))]
mod yield_now {
    use std::future::poll_fn;
    use std::task::ready;

    use blitzen::runtime::dump::trace_leaf;
    use blitzen::task::poll_yield;

    /// Yields to the scheduler once.
    pub async fn yield_now() {
        let mut yielded = false;
        poll_fn(|cx| {
            ready!(trace_leaf(cx));
            poll_yield(&mut yielded, cx)
        })
        .await;
    }
}

// Their old place, which Tokio still has.
#[cfg(feature = "rt")]
#[doc(hidden)]
pub use blitzen::task::coop::{Unconstrained, consume_budget, unconstrained};

/// The cooperative budget of a task.
#[cfg(feature = "rt")]
pub mod coop {
    pub use blitzen::task::coop::{
        Coop, RestoreOnPending, Unconstrained, consume_budget, cooperative, has_budget_remaining,
        poll_proceed, unconstrained,
    };
}

/// Futures that this module's functions return.
#[cfg(feature = "rt")]
pub mod futures {
    pub use blitzen::task::futures::TaskLocalFuture;
}

/// A set of tasks.
#[cfg(all(tokio_unstable, feature = "rt"))]
pub mod join_set {
    #[cfg(feature = "tracing")]
    pub use blitzen::task::join_set::Builder;
    pub use blitzen::task::join_set::JoinSet;
}
