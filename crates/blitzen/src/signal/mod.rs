//! Asynchronous signals and console events.
//!
//! ```no_run
//! # #[blitzen::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! println!("waiting for ctrl-c");
//! blitzen::signal::ctrl_c().await?;
//! println!("shutting down");
//! # Ok(())
//! # }
//! ```
//!
//! The first listener for a signal installs a handler, which is never removed: from
//! then on the signal's default action does not happen, even after all listeners
//! were dropped. [`shutdown`](crate::shutdown) builds a graceful shutdown on signals.

mod event_count;

#[cfg(unix)]
pub mod unix;
#[cfg(windows)]
pub mod windows;

use std::io;

/// Waits for ctrl-c: SIGINT on Unix, the console's event on Windows.
///
/// The first poll starts to listen; an earlier ctrl-c is not seen. To listen before
/// waiting, create a listener with `signal::unix::signal` or
/// `signal::windows::ctrl_c`.
///
/// # Examples
/// ```
/// # #[cfg(unix)]
/// # fn main() -> std::io::Result<()> {
/// # let runtime = blitzen::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// use blitzen::signal;
///
/// let ctrl_c = blitzen::spawn(signal::ctrl_c());
/// blitzen::task::yield_now().await; // it listens now
/// # unsafe { libc::raise(libc::SIGINT) };
/// // … the user presses ctrl-c …
/// ctrl_c.await.unwrap()?;
/// # Ok(())
/// # })
/// # }
/// # #[cfg(not(unix))]
/// # fn main() {}
/// ```
///
/// # Cancel safety
/// Dropping the future ends the wait. A ctrl-c that arrives afterwards is not seen by
/// a later call's first poll.
///
/// # Errors
/// Returns the error of `sigaction(2)` or `socketpair(2)` (`SetConsoleCtrlHandler` on
/// Windows), and an error of kind `Other` if the runtime has been shut down.
///
/// # Panics
/// Panics outside a runtime, and on Unix in a runtime without
/// [`enable_io`](crate::runtime::Builder::enable_io).
pub async fn ctrl_c() -> io::Result<()> {
    #[cfg(unix)]
    let mut listener = unix::signal(unix::SignalKind::interrupt())?;
    #[cfg(windows)]
    let mut listener = windows::ctrl_c()?;
    match listener.recv().await {
        Some(()) => Ok(()),
        None => Err(blitzen_driver::shutdown_error()),
    }
}
