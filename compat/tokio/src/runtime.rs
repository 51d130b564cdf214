//! Runtimes, their builders and handles.

#[cfg(tokio_unstable)]
pub use blitzen::runtime::UnhandledPanic;
pub use blitzen::runtime::{
    Builder, EnterGuard, Handle, Id, LocalOptions, LocalRuntime, Runtime, RuntimeFlavor,
    RuntimeMetrics, TryCurrentError, is_rt_shutdown_err, worker_index,
};
