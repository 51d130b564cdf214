//! A summary of a runtime in one line, for users who want to know whether their program runs
//! on blitzen, and how.

use std::fmt;
use std::io::Write;

use super::backend::IoBackend;
use super::builder::Builder;
use super::handle::Handle;
use super::inner::Inner;
use crate::net::SocketMode;

/// The environment variable that makes every new runtime print a line, or more.
const LOG_VARIABLE: &str = "BLITZEN_LOG";

/// The version, I/O backend, socket mode and number of workers of a runtime.
///
/// [`engine()`] returns it. Its `Display` form is one line; with `BLITZEN_LOG=1` in the
/// environment every new runtime prints that line to standard error, and with `BLITZEN_LOG=debug`
/// also every event that it [records](crate::runtime::Builder::trace).
///
/// # Examples
///
/// ```
/// let runtime = blitzen::runtime::Builder::new_current_thread().build()?;
/// let engine = runtime.block_on(async { blitzen::engine() });
/// // blitzen 0.1.0: io_uring, sockets by readiness, 1 worker
/// println!("{engine}");
/// assert_eq!(engine.workers(), 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    io_backend: IoBackend,
    socket_mode: SocketMode,
    workers: usize,
}

impl Engine {
    /// Asks the system for a ring if that decides what the runtime uses.
    pub(super) fn of(runtime: &Inner) -> Self {
        let world = runtime.world();
        let io_backend = world.io_backend().resolve(runtime.is_local());
        let socket_mode = match (world.socket_mode(), io_backend) {
            (SocketMode::PreferCompletion, IoBackend::Uring) => SocketMode::Completion,
            (SocketMode::PreferCompletion, _) => SocketMode::Readiness,
            (mode, _) => mode,
        };
        Self {
            io_backend,
            socket_mode,
            workers: runtime.scheduler().workers(),
        }
    }

    /// Returns the version of blitzen, such as `0.1.0`.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(blitzen::engine().version().contains('.'));
    /// ```
    pub fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// Returns the kernel interface that the runtime uses: [`IoBackend::Uring`] or
    /// [`IoBackend::Epoll`], never [`IoBackend::Auto`].
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::{Builder, IoBackend};
    ///
    /// let runtime = Builder::new_multi_thread().io_backend(IoBackend::Epoll).build()?;
    /// let _entered = runtime.enter();
    /// assert_eq!(blitzen::engine().io_backend(), IoBackend::Epoll);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn io_backend(&self) -> IoBackend {
        self.io_backend
    }

    /// Returns the mode of new streams: [`SocketMode::Readiness`] or
    /// [`SocketMode::Completion`], never [`SocketMode::PreferCompletion`].
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::SocketMode;
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().socket_mode(SocketMode::Readiness).build()?;
    /// let _entered = runtime.enter();
    /// assert_eq!(blitzen::engine().socket_mode(), SocketMode::Readiness);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn socket_mode(&self) -> SocketMode {
        self.socket_mode
    }

    /// Returns the number of workers, whether or not their threads have started.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().worker_threads(3).build()?;
    /// let _entered = runtime.enter();
    /// assert_eq!(blitzen::engine().workers(), 3);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn workers(&self) -> usize {
        self.workers
    }
}

/// One line, such as `blitzen 0.1.0: io_uring, sockets by readiness, 4 workers`.
impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backend = match self.io_backend {
            IoBackend::Uring => "io_uring",
            _ => SELECTOR,
        };
        let sockets = match self.socket_mode {
            SocketMode::Completion => "completion",
            _ => "readiness",
        };
        let (version, workers) = (self.version(), self.workers);
        let plural = if workers == 1 { "" } else { "s" };
        write!(
            f,
            "blitzen {version}: {backend}, sockets by {sockets}, {workers} worker{plural}"
        )
    }
}

/// The name of what reports the readiness of sockets on this system.
const SELECTOR: &str = if cfg!(blitzen_poll) {
    "poll"
} else if cfg!(any(
    target_os = "linux",
    target_os = "android",
    target_os = "illumos"
)) {
    "epoll"
} else if cfg!(windows) {
    "IOCP"
} else if cfg!(target_os = "solaris") {
    "event ports"
} else {
    "kqueue"
};

/// Returns the version, I/O backend, socket mode and number of workers of the current runtime,
/// or outside a runtime those that [`Runtime::new`](crate::runtime::Runtime::new) would get.
///
/// A program that depends on the drop-in package `tokio` can depend on `blitzen` too, and call
/// this to report what it runs on.
///
/// # Examples
///
/// ```
/// #[blitzen::main(worker_threads = 2)]
/// async fn main() {
///     let line = blitzen::engine().to_string();
///     assert!(line.starts_with("blitzen "));
///     assert!(line.ends_with(", 2 workers"));
/// }
/// ```
///
/// # Panics
///
/// Panics outside a runtime if `Runtime::new` would fail or panic: `BLITZEN_IO`,
/// `BLITZEN_SOCKETS` or `TOKIO_WORKER_THREADS` has an unknown value, or io_uring is demanded
/// and not available.
#[track_caller]
pub fn engine() -> Engine {
    if let Ok(current) = Handle::try_current() {
        return Engine::of(&current.inner);
    }
    // It has no threads before its first task, so this costs little.
    match Builder::new_multi_thread().enable_all().build_unlogged() {
        Ok(runtime) => Engine::of(&runtime.handle().inner),
        Err(error) => panic!("no runtime can be built: {error}"),
    }
}

/// What new runtimes print to standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogLevel {
    /// Nothing.
    Off,
    /// The line of the runtime.
    Line,
    /// The line, and whatever is recorded.
    Debug,
}

impl LogLevel {
    pub(super) fn from_environment() -> Self {
        match std::env::var_os(LOG_VARIABLE) {
            Some(value) if value == "1" => Self::Line,
            Some(value) if value == "debug" => Self::Debug,
            _ => Self::Off,
        }
    }
}

/// Prints the line of a new runtime if the environment asks for it.
pub(super) fn log_if_asked(runtime: &Inner) {
    if LogLevel::from_environment() != LogLevel::Off {
        // One write, so that the line stays whole. A program whose standard error is closed
        // runs all the same.
        let line = format!("{}\n", Engine::of(runtime));
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}
