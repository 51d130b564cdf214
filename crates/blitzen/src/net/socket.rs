//! What holds for every socket.

/// The peer was faster: there is nothing left to shut down.
pub(crate) fn ignore_not_connected(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotConnected => Ok(()),
        result => result,
    }
}

/// How many connections may wait to be accepted, unless the system allows fewer.
pub(crate) const LISTEN_BACKLOG: i32 = 1024;

/// Refuses a socket that would block its worker.
///
/// # Panics
/// In builds with debug assertions, if it is in blocking mode.
#[cfg(unix)]
#[track_caller]
pub(crate) fn assert_nonblocking(socket: &impl std::os::fd::AsFd) {
    if cfg!(debug_assertions) {
        // Whoever cannot answer is none of our business.
        let is_nonblocking = socket2::SockRef::from(socket).nonblocking().unwrap_or(true);
        assert!(
            is_nonblocking,
            "Registering a blocking socket with the tokio runtime is unsupported: every operation \
             on it would block a worker. Call `set_nonblocking(true)` first."
        );
    }
}

/// Windows does not tell in which mode a socket is.
#[cfg(windows)]
pub(crate) fn assert_nonblocking<T>(_: &T) {}
