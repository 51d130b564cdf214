//! Readiness of any file descriptor.
//!
//! ```
//! use std::os::unix::net::UnixStream;
//! use blitzen::io::unix::AsyncFd;
//!
//! # #[blitzen::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let (ours, _theirs) = UnixStream::pair()?;
//! ours.set_nonblocking(true)?;
//! // SAFETY: the stream keeps its descriptor open as long as it lives.
//! let ours = unsafe { AsyncFd::register(ours) }?;
//! assert!(ours.writable().await?.ready().is_writable());
//! # Ok(())
//! # }
//! ```

mod async_fd;

#[doc(hidden)]
#[allow(deprecated)]
pub use async_fd::AsyncFdTryNewError;
pub use async_fd::{
    AsyncFd, AsyncFdReadyGuard, AsyncFdReadyMutGuard, AsyncFdRegisterError, TryIoError,
};
