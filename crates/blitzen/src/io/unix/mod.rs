//! What only Unix has: readiness of foreign descriptors.

mod async_fd;

pub use async_fd::{
    AsyncFd, AsyncFdReadyGuard, AsyncFdReadyMutGuard, AsyncFdRegisterError, TryIoError,
};
