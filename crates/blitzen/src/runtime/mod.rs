//! Runtimes, which run tasks, and how to build one.
//!
//! ```
//! let runtime = blitzen::runtime::Runtime::new().unwrap();
//! let answer = runtime.block_on(async {
//!     let task = blitzen::spawn(async { 40 });
//!     task.await.unwrap() + 2
//! });
//! assert_eq!(answer, 42);
//! ```
//!
//! There are two flavours. A *multi-thread* runtime has worker threads, which
//! steal tasks from each other. A *current-thread* runtime has one worker, which
//! the caller of `block_on` runs. Both serve timers, sockets and files, and both
//! have a pool of threads for blocking work.

pub(crate) mod affinity;
mod backend;
mod block_on;
mod block_on_parker;
mod blocking;
mod builder;
pub(crate) mod clock;
#[cfg(unix)]
mod console;
pub(crate) mod context;
mod current_thread;
mod dispatcher_threads;
pub mod dump;
mod engine;
mod fence;
pub(crate) mod global;
mod handle;
mod hooks;
mod id;
mod inner;
pub(crate) mod io;
mod json;
pub mod lint;
mod local_runtime;
mod metrics;
mod privilege;
mod prometheus;
mod relief;
mod rng_seed;
#[allow(clippy::module_inception)]
mod runtime;
mod seeded_random;
mod shutdown;
mod source_placement;
#[cfg(feature = "stack-samples")]
mod stack_sample;
#[cfg(not(feature = "stack-samples"))]
#[path = "stack_sample/disabled.rs"]
mod stack_sample;
mod task_hooks;
mod timer_slack;
pub(crate) mod timers;
mod trace;
#[cfg(feature = "tracing")]
mod trace_layer;
#[cfg(all(tokio_unstable, feature = "task-trace"))]
mod trace_root;
mod trace_writer;
mod worker_drivers;
mod world;

pub use backend::IoBackend;
pub use blitzen_observe::{
    Histogram, HistogramConfiguration, InvalidHistogramConfiguration, LogHistogram,
    LogHistogramBuilder, TraceMode,
};
pub use blitzen_util::coop::Budget;
#[cfg(feature = "coro")]
pub(crate) use block_on::block_on as block_on_thread;
pub(crate) use block_on::block_on_runtime;
pub use builder::{Builder, HistogramScale, UnhandledPanic};
pub(crate) use dispatcher_threads::{DispatcherThreads, start_dispatcher_threads};
pub use engine::{Engine, engine};
pub use handle::{EnterGuard, Handle, RuntimeFlavor, TryCurrentError};
pub use id::Id;
pub(crate) use inner::Inner;
pub use local_runtime::{LocalOptions, LocalRuntime};
pub use metrics::{RuntimeMetrics, Stats, WorkerStats};
pub use rng_seed::RngSeed;
pub use runtime::Runtime;
pub use shutdown::{Stragglers, StragglingTask, is_rt_shutdown_err};
pub use task_hooks::TaskMeta;
pub use trace::Trace;
#[cfg(feature = "tracing")]
pub use trace_layer::TraceLayer;
#[cfg(feature = "coro")]
pub(crate) use world::set_resumer;

/// Returns the index of the worker that the calling thread runs, counted from
/// zero, or `None` on other threads. The caller of `block_on` is a worker only
/// of a current-thread runtime.
///
/// ```
/// use blitzen::runtime::{self, Builder};
///
/// assert_eq!(runtime::worker_index(), None);
/// let runtime = Builder::new_current_thread().build().unwrap();
/// assert_eq!(runtime.block_on(async { runtime::worker_index() }), Some(0));
/// ```
pub fn worker_index() -> Option<usize> {
    blitzen_sched::current_index()
}
