//! What only Unix has: readiness of foreign descriptors.

mod async_fd;

#[doc(hidden)]
#[allow(deprecated)]
pub use async_fd::AsyncFdTryNewError;
pub use async_fd::{
    AsyncFd, AsyncFdReadyGuard, AsyncFdReadyMutGuard, AsyncFdRegisterError, TryIoError,
};
