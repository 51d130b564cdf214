//! Child processes, awaited.
//!
//! A [`Command`] is built as [`std::process::Command`] is; what it starts is a
//! [`Child`] whose end and whose pipes are awaited.
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
//! A child goes on when its [`Child`] is dropped, unless
//! [`kill_on_drop`](Command::kill_on_drop) says otherwise; when it ends it is
//! collected all the same, whatever has become of the runtime: none stays
//! behind as a zombie.
//!
//! On Linux the end of a child is told by a pidfd. Where there is none (another
//! system, an old kernel, a sandbox), or if the environment says
//! `BLITZEN_CHILD=sigchld`, it is told by SIGCHLD, whose handler must then be
//! left in place.

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
