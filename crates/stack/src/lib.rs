//! Stacks for blitzen's coroutines, and switching between them. It never sees a task.
//!
//! A [`Fiber`] runs a function on a stack of its own. [`Fiber::resume`] runs it until it calls
//! [`Suspender::suspend`] or returns. There are two implementations with the same interface:
//!
//! * `switch.rs` switches stacks on the calling thread, by the `corosensei` crate. The stacks
//!   come from `slab.rs` and are kept for the next fiber by `cache.rs`; `guard.rs` makes the guard
//!   areas below them, and `overflow.rs` reports the fiber that runs out of its stack.
//! * `baton.rs` has a thread for each fiber, one of which runs at a time: for targets without
//!   `corosensei`, for loom and for the thread sanitizer (`--cfg blitzen_baton`).
//!
//! F1. A fiber is resumed and dropped by the thread that resumed it first. So what is on its
//!     stack need not be `Send`, and thread-locals on it stay what they were.
//! F2. The function of a fiber returns; it does not unwind. A fiber that is suspended is never
//!     dropped: that ends the process, since the frames on its stack cannot be skipped.
//!
//! The crate is an implementation detail: its interface may change with any release.

mod metrics;

pub use metrics::{StackCounts, stack_counts};

// The same condition as for the dependency in Cargo.toml.
cfg_select! {
    all(
        unix,
        any(
            target_arch = "x86_64",
            target_arch = "x86",
            target_arch = "aarch64",
            target_arch = "riscv64"
        ),
        not(any(blitzen_loom, blitzen_baton)),
    ) => {
        mod cache;
        mod cached_count;
        mod guard;
        mod overflow;
        mod slab;
        mod switch;
        use cached_count::cached_stacks;
        pub use cache::trim;
        pub use switch::{Fiber, HAS_OWN_THREAD, Suspender};
    }
    _ => {
        mod baton;
        /// Returns how many stacks threads keep for their next fibers: none.
        fn cached_stacks() -> u64 {
            0
        }
        /// Gives back stacks that are not needed. There are none: each has its thread.
        pub fn trim() -> bool {
            false
        }
        pub use baton::{Fiber, HAS_OWN_THREAD, Suspender};
    }
}

use std::io::{self, Write};
use std::panic::Location;

/// The default size of a stack, in bytes. The system provides its memory page by page, as it is
/// used.
pub const DEFAULT_STACK_SIZE: usize = 256 * 1024;

/// The smallest stack. Less is not enough to unwind.
pub const MIN_STACK_SIZE: usize = 16 * 1024;

/// Why a fiber no longer runs.
#[derive(Debug, PartialEq, Eq)]
pub enum FiberState<Y, R> {
    /// It has suspended, and says this.
    Suspended(Y),
    /// Its function has returned this.
    Returned(R),
}

/// Whose stack it is: for the message when it overflows.
#[derive(Clone, Copy, Debug)]
pub struct FiberInfo {
    /// The name it was given, which is there for as long as the fiber.
    pub name: Option<&'static str>,
    /// The line that started it.
    pub spawned_at: &'static Location<'static>,
    /// The size of its stack, in bytes.
    pub stack_size: usize,
}

/// Ends the process: F2 is broken.
#[cold]
fn abort_on_dropped_fiber() -> ! {
    // A process without a standard error still ends.
    let _ = io::stderr().write_all(b"a coroutine was dropped while it was suspended\n");
    std::process::abort();
}
