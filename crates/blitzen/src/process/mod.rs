//! Asynchronous child processes.
//!
//! A [`Command`] is built like [`std::process::Command`]. It spawns a [`Child`], whose
//! exit and whose pipes are awaited.
//!
//! ```
//! # #[cfg(unix)]
//! # #[blitzen::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! use blitzen::process::Command;
//!
//! let output = Command::new("echo").arg("hello").output().await?;
//! assert!(output.status.success());
//! assert_eq!(output.stdout, b"hello\n");
//! # Ok(())
//! # }
//! # #[cfg(not(unix))]
//! # fn main() {}
//! ```
//!
//! A child process keeps running when its [`Child`] is dropped, unless
//! [`kill_on_drop`](Command::kill_on_drop) was set. When it exits it is reaped in
//! either case, also after its runtime has ended: no zombie is left behind.
//!
//! On Linux a pidfd reports a child's exit. Where there is none (on another system, an
//! old kernel, in a sandbox), and with `BLITZEN_CHILD=sigchld` in the environment,
//! SIGCHLD reports it; then the program must not replace the handler of that signal.

mod child;
mod command;
mod stdio;

#[cfg(unix)]
#[path = "unix/mod.rs"]
mod sys;
#[cfg(windows)]
#[path = "windows.rs"]
mod sys;

pub use child::Child;
pub use command::Command;
pub use stdio::{ChildStderr, ChildStdin, ChildStdout};
