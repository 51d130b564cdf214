//! Runtimes, their builders and handles.

pub use blitzen::runtime::{
    Builder, EnterGuard, Handle, Id, LocalOptions, LocalRuntime, Runtime, RuntimeFlavor,
    RuntimeMetrics, TryCurrentError, is_rt_shutdown_err, worker_index,
};
#[cfg(tokio_unstable)]
pub use blitzen::runtime::{
    HistogramConfiguration, HistogramScale, InvalidHistogramConfiguration, LogHistogram,
    LogHistogramBuilder, RngSeed, TaskMeta, UnhandledPanic,
};
