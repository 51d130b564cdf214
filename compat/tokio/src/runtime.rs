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

#[cfg(all(
    tokio_unstable,
    feature = "taskdump",
    target_os = "linux",
    any(
        target_arch = "aarch64",
        target_arch = "s390x",
        target_arch = "x86",
        target_arch = "x86_64",
    )
))]
pub use blitzen::runtime::dump::Dump;

/// Where the tasks of a runtime wait.
#[cfg(all(
    tokio_unstable,
    feature = "taskdump",
    target_os = "linux",
    any(
        target_arch = "aarch64",
        target_arch = "s390x",
        target_arch = "x86",
        target_arch = "x86_64",
    )
))]
pub mod dump {
    pub use blitzen::runtime::dump::{
        Backtrace, BacktraceFrame, BacktraceSymbol, Dump, Root, Task, Tasks, Trace, TraceMeta,
        trace_with,
    };
}
