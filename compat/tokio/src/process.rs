//! Child processes.

pub use blitzen::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
