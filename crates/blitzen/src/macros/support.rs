//! What expanded macros call. Not part of the interface.

pub use std::future::{Future, IntoFuture, poll_fn};
pub use std::pin::{Pin, pin};
pub use std::result::Result;
pub use std::task::Poll;
pub use std::{cell::RefCell, option::Option, thread_local};

pub use blitzen_macros::{
    join_biased_expand, join_expand, select_expand, select_owned_expand, try_join_biased_expand,
    try_join_expand,
};
pub use blitzen_util::coop::poll_budget_available;

pub use crate::future::maybe_done::maybe_done;
pub use crate::future::owned_branch;

/// Returns the branch to poll first, a random number below `count`.
pub fn thread_rng_n(count: u32) -> u32 {
    blitzen_util::rng::thread_below(count)
}

/// Calls `into_future`, so that the expansion names no trait.
#[inline(always)]
pub fn into_future<F: IntoFuture>(future: F) -> F::IntoFuture {
    future.into_future()
}

/// Panics for a `select!` without `else` whose branches are all disabled.
#[cold]
#[track_caller]
pub fn all_branches_disabled() -> ! {
    panic!("all branches are disabled and there is no else branch")
}

/// The body of the arm that tests whether a pattern matches.
#[cold]
pub fn never_taken() -> ! {
    unreachable!("the guard of this arm is always false")
}

/// Panics because a pattern that matched before does not match now. Only a pattern
/// that depends on something mutable can do that.
#[cold]
#[track_caller]
pub fn pattern_no_longer_matches() -> ! {
    panic!("the pattern of a `select!` branch matched its output once but not twice")
}
