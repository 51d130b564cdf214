//! Helpers for sockets of every kind.

/// Treats `NotConnected` as success: a connection that the peer has closed needs
/// no shutdown.
pub(crate) fn ignore_not_connected(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotConnected => Ok(()),
        result => result,
    }
}

/// The backlog of listeners. The system may allow less.
pub(crate) const LISTEN_BACKLOG: i32 = 1024;

/// Checks, with debug assertions, that `socket` will not block its worker.
///
/// # Panics
/// Panics if `socket` is in blocking mode.
#[cfg(unix)]
#[track_caller]
pub(crate) fn assert_nonblocking(socket: &impl std::os::fd::AsFd) {
    if cfg!(debug_assertions) {
        // If the mode cannot be determined, assume that it is right.
        let is_nonblocking = socket2::SockRef::from(socket).nonblocking().unwrap_or(true);
        assert!(
            is_nonblocking,
            "Registering a blocking socket with the tokio runtime is unsupported: every operation \
             on it would block a worker. Call `set_nonblocking(true)` first."
        );
    }
}

/// Windows cannot tell which mode a socket is in.
#[cfg(windows)]
pub(crate) fn assert_nonblocking<T>(_: &T) {}
