//! Signals and console events, awaited.
//!
//! ```no_run
//! # #[blitzen::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! println!("waiting for ctrl-c");
//! blitzen::signal::ctrl_c().await?;
//! println!("so be it");
//! # Ok(())
//! # }
//! ```
//!
//! The first listener for a signal installs a handler, which stays: from then
//! on the signal does not do what it does by default, even when all listeners
//! are gone. A program that only wants to end in an orderly way finds the rest
//! in [`shutdown`](crate::shutdown).

mod event_count;

#[cfg(unix)]
pub mod unix;
#[cfg(windows)]
pub mod windows;

use std::io;

/// Waits for ctrl-c: SIGINT on Unix, the console's event on Windows.
///
/// Only a ctrl-c that comes after the first poll counts. Who must not miss one
/// in between makes a listener first: `signal::unix::signal`.
///
/// ```
/// # #[cfg(unix)]
/// # fn main() -> std::io::Result<()> {
/// # let runtime = blitzen::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// use blitzen::signal;
///
/// let ctrl_c = blitzen::spawn(signal::ctrl_c());
/// blitzen::task::yield_now().await; // it listens by now
/// # unsafe { libc::raise(libc::SIGINT) };
/// // … somebody presses ctrl-c …
/// ctrl_c.await.unwrap()?;
/// # Ok(())
/// # })
/// # }
/// # #[cfg(not(unix))]
/// # fn main() {}
/// ```
///
/// # Errors
/// If no handler can be installed, or the runtime has been shut down.
///
/// # Panics
/// Outside a runtime, and in one without I/O.
///
/// # Cancel safety
/// Dropping the future ends the wait; a ctrl-c that it has not told of is told
/// to nobody else by it.
pub async fn ctrl_c() -> io::Result<()> {
    #[cfg(unix)]
    let mut listener = unix::signal(unix::SignalKind::interrupt())?;
    #[cfg(windows)]
    let mut listener = windows::ctrl_c()?;
    match listener.recv().await {
        Some(()) => Ok(()),
        None => Err(blitzen_driver::gone()),
    }
}
